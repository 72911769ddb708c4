"""Claims on devices and NVLink groups."""

from __future__ import annotations

from typing import Any

from grove.admission import Facts
from tests.admission_cases.case import CLIQUES, GROUPS, Case, Obj, a_set, clique, group, with_metadata

SHARING = "spec.template.resourceSharing"
TEMPLATES = "spec.template.resourceClaimTemplates"
LABEL = "must be lower case letters, digits and '-', with a letter or digit at both ends, as it goes into host names"
MNNVL_OFF = "must be none or be left out: network.autoMNNVLEnabled is off in the operator's configuration"
NO_MNNVL, MNNVL = Facts(mnnvl=False), Facts(mnnvl=True)
KEY = "grove.io/mnnvl-group"


def claim_template(name: str = "gpus", *requests: str) -> Obj:
    devices = [{"name": request, "exactly": {"deviceClassName": "gpu.example.com"}} for request in requests or ("one",)]
    return {"name": name, "templateSpec": {"spec": {"devices": {"requests": devices}}}}


def share(name: str = "gpus", scope: str = "AllReplicas", **fields: Any) -> Obj:
    return {"name": name, "scope": scope, **fields}


def shared(*entries: Obj, **template: Any) -> Obj:
    """A set whose entries of resourceSharing these are."""
    return a_set(clique("a"), clique("b"), resourceSharing=list(entries), **template)


def in_group(*entries: Obj) -> Obj:
    return a_set(clique("a"), clique("b"), groups=[group("g", "a", resourceSharing=list(entries))])


def in_clique(*entries: Obj) -> Obj:
    return a_set({**clique("a"), "resourceSharing": list(entries)})


def nvlink(value: str, level: str = "set") -> Obj:
    """A set whose annotation for an NVLink group stands on the level."""
    annotations = {"annotations": {KEY: value}}
    if level == "set":
        return with_metadata(**annotations)
    if level == "clique":
        return a_set({**clique(), **annotations})
    return a_set(groups=[group("g", "a", **annotations)])


PLACES = {
    "set": f"metadata.annotations[{KEY}]",
    "clique": f"{CLIQUES}[0].annotations[{KEY}]",
    "group": f"{GROUPS}[0].annotations[{KEY}]",
}

CLAIMS = (
    Case(
        "claim templates and who shares them",
        a_set(
            {**clique("a"), "resourceSharing": [share("gpus", "PerReplica"), share("nics", namespace="infra")]},
            clique("b"),
            resourceClaimTemplates=[claim_template("gpus"), claim_template("more", "one", "two")],
            resourceSharing=[share("gpus"), share("more", filter={"childScalingGroupNames": ["g"]})],
            groups=[group("g", "b", resourceSharing=[share("more", filter={"childCliqueNames": ["b"]})])],
        ),
    ),
    Case(
        "claim template without a name",
        a_set(resourceClaimTemplates=[claim_template("")]),
        [f"{TEMPLATES}[0].name: Required value: a DNS label such as gpus"],
        schema="spec.template.resourceClaimTemplates[0].name: Required value: a DNS label such as worker",
    ),
    Case(
        "claim template with a name no pod can use",
        a_set(resourceClaimTemplates=[claim_template("my.gpus")]),
        [f'{TEMPLATES}[0].name: Invalid value: "my.gpus": {LABEL}'],
        schema='spec.template.resourceClaimTemplates[0].name: Invalid value: "my.gpus"',
    ),
    Case(
        "claim template without requests",
        a_set(resourceClaimTemplates=[{"name": "gpus", "templateSpec": {"spec": {"devices": {"requests": []}}}}]),
        [f"{TEMPLATES}[0].templateSpec.spec.devices.requests: Required value: at least one request for a device"],
    ),
    Case(
        "claim template that is empty",
        a_set(resourceClaimTemplates=[{"name": "gpus", "templateSpec": {"spec": {}}}]),
        [f"{TEMPLATES}[0].templateSpec.spec.devices.requests: Required value: at least one request for a device"],
    ),
    Case(
        "claim templates of the same name",
        a_set(resourceClaimTemplates=[claim_template(), claim_template()]),
        [f'{TEMPLATES}[1].name: Duplicate value: "gpus": names of resourceClaimTemplates must be unique'],
        schema='spec.template.resourceClaimTemplates[1]: Duplicate value: {"name":"gpus"}',
    ),
    Case(
        "sharing without a name",
        shared(share("")),
        [
            (
                f"{SHARING}[0].name: Required value: one of resourceClaimTemplates, or a ResourceClaimTemplate in the "
                "cluster"
            )
        ],
        schema="spec.template.resourceSharing[0].name: Required value: a DNS label such as worker",
    ),
    Case(
        "sharing with a name no pod can use",
        in_clique(share("Gpus")),
        [f'{CLIQUES}[0].resourceSharing[0].name: Invalid value: "Gpus": {LABEL}'],
        schema=f'{CLIQUES}[0].resourceSharing[0].name: Invalid value: "Gpus"',
    ),
    Case(
        "shared twice in a list",
        in_group(share("gpus"), share("gpus", "PerReplica", namespace="infra")),
        [
            (
                f'{GROUPS}[0].resourceSharing[1].name: Duplicate value: "gpus": a claim template can be named once in '
                "a list"
            )
        ],
    ),
    Case(
        "namespace for a template of the set",
        shared(share(namespace="infra"), resourceClaimTemplates=[claim_template()]),
        [(f'{SHARING}[0].namespace: Invalid value: "infra": must be left out: gpus is the set\'s own, {TEMPLATES}[0]')],
    ),
    Case(
        "scope that does not exist",
        shared(share(scope="Some")),
        [f'{SHARING}[0].scope: Unsupported value: "Some": supported values: "AllReplicas", "PerReplica"'],
        schema=f'{SHARING}[0].scope: Unsupported value: "Some"',
    ),
    Case(
        "scope left out",
        shared({"name": "gpus"}),
        [f"{SHARING}[0].scope: Required value"],
        schema=f"{SHARING}[0].scope: Required value",
    ),
    Case(
        "empty filter of the set",
        shared(share(filter={"childCliqueNames": []})),
        [
            (
                f"{SHARING}[0].filter: Required value: childCliqueNames or childScalingGroupNames; without a filter "
                "all pods take part"
            )
        ],
    ),
    Case(
        "filter of unknown names",
        shared(share(filter={"childCliqueNames": ["a", "x"], "childScalingGroupNames": ["g"]})),
        [
            (
                f'{SHARING}[0].filter.childCliqueNames[1]: Not found: "x": there is no clique of this name in the '
                "template"
            ),
            f'{SHARING}[0].filter.childScalingGroupNames[0]: Not found: "g": there is no scaling group of this name',
        ],
    ),
    Case(
        "empty filter of a group",
        in_group(share(filter={})),
        [
            (
                f"{GROUPS}[0].resourceSharing[0].filter: Required value: childCliqueNames; without a filter all "
                "cliques of the group take part"
            )
        ],
    ),
    Case(
        "filter of a group for another's clique",
        in_group(share(filter={"childCliqueNames": ["b"]})),
        [
            (
                f'{GROUPS}[0].resourceSharing[0].filter.childCliqueNames[0]: Not found: "b": there is no clique of '
                "this name in the scaling group"
            )
        ],
    ),
    Case("claim name of 63 characters", in_clique(share("t" * 53))),
    Case(
        "claim name of 64 characters",
        in_clique(share("t" * 54)),
        [
            (
                f'{CLIQUES}[0].resourceSharing[0].name: Invalid value: "{"t" * 54}": the longest claim name would be '
                f"s-0-a-all-{'t' * 54}: 64 characters, 63 at most; shorten the names or lower the replicas"
            )
        ],
    ),
)

NVLINK = (
    *(Case(f"NVLink group of a {level}", nvlink("rack-1", level), facts=MNNVL) for level in PLACES),
    *(Case(f"no NVLink for a {level}, where there is none", nvlink("none", level), facts=NO_MNNVL) for level in PLACES),
    *(
        Case(
            f"NVLink group of a {level} where there is none",
            nvlink("rack-1", level),
            [f'{path}: Invalid value: "rack-1": {MNNVL_OFF}'],
            facts=NO_MNNVL,
        )
        for level, path in PLACES.items()
    ),
    *(
        Case(
            f"NVLink group called {value or 'nothing'}",
            nvlink(value, level),
            [f'{PLACES[level]}: Invalid value: "{value}": {LABEL}; or none'],
            facts=MNNVL,
        )
        for value, level in [("", "set"), ("Rack", "clique"), ("a_b", "group"), ("a.b", "set"), ("-a", "set")]
    ),
    Case(
        "NVLink group of 64 characters",
        nvlink("a" * 64),
        [f'{PLACES["set"]}: Invalid value: "{"a" * 64}": must have at most 63 characters; or none'],
        facts=MNNVL,
    ),
    *(
        Case(
            f"NVLink group of a {level} changes",
            nvlink("two", level),
            [f'{path}: Invalid value: "two": cannot change: must stay one'],
            old=nvlink("one", level),
            facts=MNNVL,
        )
        for level, path in PLACES.items()
    ),
    Case(
        "NVLink group is added later",
        nvlink("one", "group"),
        [f"{PLACES['group']}: Forbidden: cannot be added later"],
        old=a_set(groups=[group("g", "a")]),
        facts=MNNVL,
        schema=f"{GROUPS}[0].annotations: Invalid value: the annotation grove.io/mnnvl-group cannot",
    ),
    Case(
        "NVLink group is removed later",
        a_set(),
        [f"{PLACES['clique']}: Forbidden: cannot be removed later"],
        old=nvlink("one", "clique"),
        facts=MNNVL,
        schema=f"{CLIQUES}[0].annotations: Invalid value: the annotation grove.io/mnnvl-group cannot",
    ),
    Case(
        "NVLink groups stay with their cliques when these change places",
        a_set(clique("b"), {**clique("a"), "annotations": {KEY: "one"}}),
        old=a_set({**clique("a"), "annotations": {KEY: "one"}}, clique("b")),
        facts=MNNVL,
    ),
)

CASES = CLAIMS + NVLINK
