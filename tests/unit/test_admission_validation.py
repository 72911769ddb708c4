"""Validation: what each rule refuses, at which field and in which words."""

from __future__ import annotations

from typing import Any

import pytest

from grove.admission.validation import Result, validate_podcliqueset

Obj = dict[str, Any]
CLIQUES = "spec.template.cliques"
GROUPS = "spec.template.podCliqueScalingGroups"
ANY_LABEL = (
    "must be lower case letters, digits and '-', with a letter or digit at both ends, as it goes into host names"
)
KEY_RULE = (
    "the key must be 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends, "
    "after an optional DNS name and '/'"
)
ENV_RULE = "must be letters, digits, '_', '-' and '.', and start with none of a digit and '..'"


def clique(name: str = "a", **spec: Any) -> Obj:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "main", "image": "busybox"}]}, **spec}}


def group(name: str = "g", *members: str, **config: Any) -> Obj:
    return {"name": name, "cliqueNames": list(members), **config}


def a_set(*cliques: Obj, groups: list[Obj] | None = None, name: str = "s", replicas: int = 1, **template: Any) -> Obj:
    """A set of the cliques given, by default one called `a`."""
    template["cliques"] = list(cliques) or [clique()]
    if groups is not None:
        template["podCliqueScalingGroups"] = groups
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": replicas, "template": template},
    }


def explicit(*cliques: Obj) -> Obj:
    return a_set(*cliques, cliqueStartupType="CliqueStartupTypeExplicit")


def with_metadata(**metadata: Any) -> Obj:
    obj = a_set()
    obj["metadata"].update(metadata)
    return obj


def with_pod(**pod_spec: Any) -> Obj:
    return a_set(clique(podSpec={"containers": [{"name": "main"}], **pod_spec}))


def with_env(*names: Any) -> Obj:
    env = [{"name": name, "value": "x"} for name in names]
    return with_pod(containers=[{"name": "main", "env": env}])


def lines(result: Result) -> list[str]:
    return [str(error) for error in result.errors]


REJECTED: dict[str, tuple[Obj, list[str]]] = {
    # names
    "no name": (with_metadata(name=""), ["metadata.name: Required value: a DNS label such as my-model"]),
    "name with a dot": (with_metadata(name="a.b"), [f'metadata.name: Invalid value: "a.b": {ANY_LABEL}']),
    "name in capitals": (with_metadata(name="Model"), [f'metadata.name: Invalid value: "Model": {ANY_LABEL}']),
    "name ends with a dash": (with_metadata(name="a-"), [f'metadata.name: Invalid value: "a-": {ANY_LABEL}']),
    "namespace": (with_metadata(namespace="my_ns"), [f'metadata.namespace: Invalid value: "my_ns": {ANY_LABEL}']),
    "clique without a name": (
        a_set({"spec": clique()["spec"]}),
        [f"{CLIQUES}[0].name: Required value"],
    ),
    "clique with a blank name": (
        a_set(clique("")),
        [f"{CLIQUES}[0].name: Required value: a DNS label such as worker"],
    ),
    "clique with an underscore": (
        a_set(clique("my_role")),
        [f'{CLIQUES}[0].name: Invalid value: "my_role": {ANY_LABEL}'],
    ),
    "clique with a dot": (a_set(clique("a.b")), [f'{CLIQUES}[0].name: Invalid value: "a.b": {ANY_LABEL}']),
    "unicode digits are no digits": (a_set(clique("a٣")), [f'{CLIQUES}[0].name: Invalid value: "a٣": {ANY_LABEL}']),
    "group with a dot": (
        a_set(groups=[group("g.h", "a")]),
        [f'{GROUPS}[0].name: Invalid value: "g.h": {ANY_LABEL}'],
    ),
    "cliques of the same name": (
        a_set(clique("a"), clique("b"), clique("a", roleName="c")),
        [f'{CLIQUES}[2].name: Duplicate value: "a": clique names must be unique'],
    ),
    "same role": (
        a_set(clique("a", roleName="x"), clique("b", roleName="x")),
        [
            (
                f'{CLIQUES}[1].spec.roleName: Duplicate value: "x": role names must be unique; '
                "one that is left out is the clique's name"
            )
        ],
    ),
    "role of another clique's name": (
        a_set(clique("a"), clique("b", roleName="a")),
        [
            (
                f'{CLIQUES}[1].spec.roleName: Duplicate value: "a": role names must be unique; '
                "one that is left out is the clique's name"
            )
        ],
    ),
    "groups of the same name": (
        a_set(clique("a"), clique("b"), groups=[group("g", "a"), group("g", "b")]),
        [f'{GROUPS}[1].name: Duplicate value: "g": scaling group names must be unique'],
    ),
    "46 characters": (
        a_set(clique("c" * 26), name="s" * 20),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 26}": the names {"s" * 20}, {"c" * 26} have 46 characters '
                f"together, 45 at most fit into a host name ({'s' * 20}-0-{'c' * 26}-0)"
            )
        ],
    ),
    "46 characters with a group": (
        a_set(clique("c" * 16), groups=[group("g" * 10, "c" * 16, replicas=2)], name="s" * 20),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 16}": the names {"s" * 20}, {"g" * 10}, {"c" * 16} have 46 '
                f"characters together, 45 at most fit into a host name ({'s' * 20}-0-{'g' * 10}-1-{'c' * 16}-0)"
            )
        ],
    ),
    "a set's name that leaves no room": (
        a_set(name="s" * 45),
        [
            (
                f'metadata.name: Invalid value: "{"s" * 45}": 45 characters leave no room for clique names: '
                "must be fewer than 45"
            )
        ],
    ),
    "indices that leave no room": (
        a_set(
            clique("c" * 15, replicas=10_000, minAvailable=1),
            groups=[group("g" * 15, "c" * 15, scaleConfig={"maxReplicas": 1_000_001})],
            name="s" * 15,
            replicas=10_000,
        ),
        [
            (
                f'{CLIQUES}[0].name: Invalid value: "{"c" * 15}": the longest host name would be '
                f"{'s' * 15}-9999-{'g' * 15}-1000000-{'c' * 15}-9999: 65 characters, 63 at most; "
                "shorten the names or lower the replicas"
            )
        ],
    ),
    "two cliques that make one PodClique": (
        a_set(clique("g-0-a"), clique("a"), groups=[group("g", "a")]),
        [f'{CLIQUES}[1].name: Invalid value: "a": its pods would be called like those of g-0-a; rename one'],
    ),
    "two groups that make one PodClique": (
        a_set(clique("7-a"), clique("a"), groups=[group("g", "7-a"), group("g-3", "a")]),
        [f'{CLIQUES}[1].name: Invalid value: "a": its pods would be called like those of 7-a; rename one'],
    ),
    "two autoscalers of one name": (
        a_set(
            clique("a", autoScalingConfig={"maxReplicas": 2}),
            clique("b"),
            groups=[group("a", "b", scaleConfig={"maxReplicas": 2})],
        ),
        [
            (
                f'{GROUPS}[0].name: Invalid value: "a": its autoscaler would be called like that of the clique of this '
                "name; rename one"
            )
        ],
    ),
    # labels and annotations
    "label key": (
        with_metadata(labels={"Ü/x": "v"}),
        ["metadata.labels[Ü/x]: Invalid value: \"Ü/x\": the part before '/' must be a DNS name such as example.com"],
    ),
    "label key without a name": (
        with_metadata(labels={"example.com/": "v"}),
        [f'metadata.labels[example.com/]: Invalid value: "example.com/": {KEY_RULE}'],
    ),
    "label value": (
        a_set({**clique(), "labels": {"app": "größe"}}),
        [
            (
                f'{CLIQUES}[0].labels.app: Invalid value: "größe": a label\'s value must be at most 63 letters, '
                "digits, '-', '_' and '.', with a letter or digit at both ends"
            )
        ],
    ),
    "annotation key": (
        a_set({**clique(), "annotations": {"a b": ""}}),
        [f'{CLIQUES}[0].annotations[a b]: Invalid value: "a b": {KEY_RULE}'],
    ),
    "annotations above 256 KiB": (
        a_set(groups=[group("g", "a", annotations={"k": "ü" * 131_072})]),
        [f"{GROUPS}[0].annotations: Too long: keys and values have 262145 bytes together, at most 262144"],
    ),
    # numbers
    "replicas of the set": (
        a_set(replicas=-1),
        ["spec.replicas: Invalid value: -1: must be 0 or more"],
    ),
    "negative replicas": (
        a_set(clique(), clique("b", replicas=-1)),
        [f"{CLIQUES}[1].spec.replicas: Invalid value: -1: must be 0 (idle) or more"],
    ),
    "replicas beyond 32 bits": (
        a_set(clique(replicas=2**31)),
        [
            f"{CLIQUES}[0].spec.replicas: Invalid value: 2147483648: must be at most 10000",
            f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2147483648: must be at most 2147483647",
        ],
    ),
    "more replicas than can be handled": (
        a_set(groups=[group("g", "a", replicas=10_001)], replicas=10_001),
        [
            "spec.replicas: Invalid value: 10001: must be at most 10000",
            f"{GROUPS}[0].replicas: Invalid value: 10001: must be at most 10000",
        ],
    ),
    "minAvailable 0": (
        a_set(clique(minAvailable=0)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0: must be 1 or more"],
    ),
    "minAvailable 0 of an idle clique": (
        a_set(clique(replicas=0, minAvailable=0)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0: must be 1 or more"],
    ),
    "replicas between 0 and minAvailable": (
        a_set(clique(replicas=1, minAvailable=2)),
        [
            (
                f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must be at most replicas (1), "
                "unless replicas is 0 (idle)"
            )
        ],
    ),
    "minAvailable with replicas left out": (
        a_set(clique(minAvailable=2)),
        [
            (
                f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must be at most replicas (1), "
                "unless replicas is 0 (idle)"
            )
        ],
    ),
    "minReplicas below minAvailable": (
        a_set(clique(replicas=3, minAvailable=2, autoScalingConfig={"minReplicas": 1, "maxReplicas": 4})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 1: must be at least minAvailable (2)"],
    ),
    "minReplicas 0": (
        a_set(clique(autoScalingConfig={"minReplicas": 0, "maxReplicas": 4})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 0: must be 1 or more"],
    ),
    "maxReplicas below minReplicas": (
        a_set(clique(autoScalingConfig={"minReplicas": 3, "maxReplicas": 2})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2: must be at least minReplicas (3)"],
    ),
    "maxReplicas below replicas": (
        a_set(clique(replicas=3, minAvailable=1, autoScalingConfig={"minReplicas": 1, "maxReplicas": 2})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2: must be at least replicas (3)"],
    ),
    "no maxReplicas": (
        a_set(clique(autoScalingConfig={})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Required value"],
    ),
    "group replicas": (
        a_set(groups=[group("g", "a", replicas=-1)]),
        [f"{GROUPS}[0].replicas: Invalid value: -1: must be 0 (idle) or more"],
    ),
    "group minAvailable 0": (
        a_set(groups=[group("g", "a", minAvailable=0)]),
        [f"{GROUPS}[0].minAvailable: Invalid value: 0: must be 1 or more"],
    ),
    "group minAvailable above replicas": (
        a_set(groups=[group("g", "a", replicas=2, minAvailable=3)]),
        [f"{GROUPS}[0].minAvailable: Invalid value: 3: must be at most replicas (2), unless replicas is 0 (idle)"],
    ),
    "group minReplicas below minAvailable": (
        a_set(groups=[group("g", "a", replicas=2, minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 3})]),
        [f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 1: must be at least minAvailable (2)"],
    ),
    "group maxReplicas below minReplicas": (
        a_set(groups=[group("g", "a", replicas=3, scaleConfig={"maxReplicas": 2})]),
        [f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 2: must be at least minReplicas (3)"],
    ),
    # the template
    "no cliques": (
        {**a_set(), "spec": {"template": {"cliques": []}}},
        [f"{CLIQUES}: Required value: at least one clique"],
    ),
    "cliques left out": ({**a_set(), "spec": {"template": {}}}, [f"{CLIQUES}: Required value"]),
    "null cliques": ({**a_set(), "spec": {"template": {"cliques": None}}}, [f"{CLIQUES}: Required value"]),
    "no spec": ({"metadata": {"name": "s"}}, ["spec: Required value"]),
    "startup type": (
        a_set(cliqueStartupType="InOrder"),
        [
            (
                'spec.template.cliqueStartupType: Unsupported value: "InOrder": supported values: '
                '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
            )
        ],
    ),
    "termination delay 0": (
        a_set(terminationDelay="0s"),
        ['spec.template.terminationDelay: Invalid value: "0s": must be more than 0, e.g. 4h'],
    ),
    "negative termination delay": (
        a_set(terminationDelay="-1h"),
        ['spec.template.terminationDelay: Invalid value: "-1h": must be more than 0, e.g. 4h'],
    ),
    "huge duration": (
        a_set(terminationDelay="9" * 30 + "h"),
        [
            (
                f'spec.template.terminationDelay: Invalid value: "{"9" * 30}h": must be a duration such as 4h, '
                "1m30s or 500ms, at most 2562047h"
            )
        ],
    ),
    "no duration": (
        a_set(terminationDelay="4 hours"),
        [
            (
                'spec.template.terminationDelay: Invalid value: "4 hours": must be a duration such as 4h, '
                "1m30s or 500ms, at most 2562047h"
            )
        ],
    ),
    "group of an unknown clique": (
        a_set(groups=[group("g", "a", "x")]),
        [f'{GROUPS}[0].cliqueNames[1]: Not found: "x": there is no clique of this name in the template'],
    ),
    "group of no cliques": (
        a_set(groups=[group("g")]),
        [f"{GROUPS}[0].cliqueNames: Required value: at least one clique"],
    ),
    "clique in two groups": (
        a_set(groups=[group("g", "a"), group("h", "a")]),
        [
            (
                f'{GROUPS}[1].cliqueNames[0]: Duplicate value: "a": the clique is in {GROUPS}[0] already; '
                "it can be in one scaling group, once"
            )
        ],
    ),
    "clique twice in a group": (
        a_set(groups=[group("g", "a", "a")]),
        [
            (
                f'{GROUPS}[0].cliqueNames[1]: Duplicate value: "a": the clique is twice in this group; '
                "it can be in one scaling group, once"
            )
        ],
    ),
    "autoscaler in a group": (
        a_set(clique(autoScalingConfig={"maxReplicas": 2}), groups=[group("g", "a")]),
        [
            (
                f'{CLIQUES}[0].spec.autoScalingConfig: Invalid value: {{"maxReplicas": 2, "minReplicas": 1}}: the '
                "clique is in a scaling group, which scales as one: use the group's scaleConfig"
            )
        ],
    ),
    # startup
    "starts after nothing": (
        explicit(clique(startsAfter=[" "])),
        [f"{CLIQUES}[0].spec.startsAfter[0]: Required value: the name of a clique"],
    ),
    "starts after itself": (
        explicit(clique(startsAfter=["a"])),
        [f'{CLIQUES}[0].spec.startsAfter[0]: Invalid value: "a": a clique cannot start after itself'],
    ),
    "starts after one twice": (
        explicit(clique("a"), clique("b", startsAfter=["a", "a"])),
        [f'{CLIQUES}[1].spec.startsAfter[1]: Duplicate value: "a": is named already'],
    ),
    "starts after an unknown clique": (
        explicit(clique(startsAfter=["x"])),
        [f'{CLIQUES}[0].spec.startsAfter[0]: Not found: "x": there is no clique of this name in the template'],
    ),
    "two cliques wait for each other": (
        explicit(clique("a", startsAfter=["b"]), clique("b", startsAfter=["a"])),
        [
            (
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: ["b"]: the cliques wait for each other: a → b → a; '
                "remove one of these"
            )
        ],
    ),
    "three cliques wait for each other, and so do two": (
        explicit(
            clique("x", startsAfter=["a"]),
            clique("a", startsAfter=["c"]),
            clique("b", startsAfter=["a"]),
            clique("c", startsAfter=["b"]),
            clique("d", startsAfter=["e"]),
            clique("e", startsAfter=["a", "d"]),
        ),
        [
            (
                f'{CLIQUES}[1].spec.startsAfter: Invalid value: ["c"]: the cliques wait for each other: '
                "a → c → b → a; remove one of these"
            ),
            (
                f'{CLIQUES}[4].spec.startsAfter: Invalid value: ["e"]: the cliques wait for each other: '
                "d → e → d; remove one of these"
            ),
        ],
    ),
    # pods
    "no podSpec": (a_set({"name": "a", "spec": {}}), [f"{CLIQUES}[0].spec.podSpec: Required value"]),
    "no containers": (
        with_pod(containers=[]),
        [f"{CLIQUES}[0].spec.podSpec.containers: Required value: a pod needs at least one container"],
    ),
    "container without a name": (
        with_pod(initContainers=[{"image": "x"}]),
        [f"{CLIQUES}[0].spec.podSpec.initContainers[0].name: Required value"],
    ),
    "containers of odd types": (
        with_pod(containers=["main", {"name": "b", "env": {"A": "b"}}], schedulingGates=[{"name": 3}]),
        [
            f'{CLIQUES}[0].spec.podSpec.containers[0]: Invalid value: "main": must be an object',
            f"{CLIQUES}[0].spec.podSpec.schedulingGates[0].name: Invalid value: 3: must be a string",
            f'{CLIQUES}[0].spec.podSpec.containers[1].env: Invalid value: {{"A": "b"}}: must be a list',
        ],
    ),
    "variable starts with a digit": (
        with_env("1A"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[0].name: Invalid value: "1A": {ENV_RULE}'],
    ),
    "variable starts with two dots": (
        with_env("A", "..b"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[1].name: Invalid value: "..b": {ENV_RULE}'],
    ),
    "variable with a space": (
        with_env("A B"),
        [f'{CLIQUES}[0].spec.podSpec.containers[0].env[0].name: Invalid value: "A B": {ENV_RULE}'],
    ),
    "variable twice in a container": (
        with_env("A", "B", "A"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.containers[0].env[2].name: Duplicate value: "A": '
                "a container can have a variable once"
            )
        ],
    ),
    "variable twice in an init container": (
        with_pod(initContainers=[{"name": "i", "env": [{"name": "A"}, {"name": "A"}]}]),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.initContainers[0].env[1].name: Duplicate value: "A": '
                "a container can have a variable once"
            )
        ],
    ),
    "two schedulers": (
        a_set(
            clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "kai-scheduler"}),
            clique("b"),
        ),
        [
            (
                f"{CLIQUES}[1].spec.podSpec.schedulerName: Invalid value: null: all cliques must use one scheduler, "
                f"but {CLIQUES}[0].spec.podSpec.schedulerName means 'kai-scheduler'"
            )
        ],
    ),
    "restart policy": (
        with_pod(restartPolicy="Sometimes"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.restartPolicy: Unsupported value: "Sometimes": '
                'supported values: "Always", "OnFailure", "Never"'
            )
        ],
    ),
    "node name": (
        with_pod(nodeName="n1"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.nodeName: Invalid value: "n1": must be left out: '
                "the scheduler places the pods of a gang together"
            )
        ],
    ),
    "topology spread": (
        with_pod(topologySpreadConstraints=[]),
        [
            (
                f"{CLIQUES}[0].spec.podSpec.topologySpreadConstraints: Invalid value: []: must be left out: "
                "use topologyConstraint of the template"
            )
        ],
    ),
    # types
    "types": (
        a_set(clique(replicas="two"), clique("b", startsAfter="a"), headlessServiceConfig=[]),
        [
            f'{CLIQUES}[0].spec.replicas: Invalid value: "two": must be a whole number',
            f'{CLIQUES}[1].spec.startsAfter: Invalid value: "a": must be a list',
            "spec.template.headlessServiceConfig: Invalid value: []: must be an object",
        ],
    ),
    "a clique that is no object": (
        a_set(clique(), "b"),  # type: ignore[arg-type]
        [f'{CLIQUES}[1]: Invalid value: "b": must be an object'],
    ),
}


@pytest.mark.parametrize(("obj", "expected"), REJECTED.values(), ids=REJECTED.keys())
def test_rejected(obj: Obj, expected: list[str]) -> None:
    assert lines(validate_podcliqueset(obj)) == expected
