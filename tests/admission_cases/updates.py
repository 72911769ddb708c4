"""What an update may change, and what it may not."""

from __future__ import annotations

from typing import Any

from tests.admission_cases.case import CLIQUES, GROUPS, Case, Obj, a_set, clique, explicit, group
from tests.admission_cases.devices import claim_template, share

IN_ORDER, EXPLICIT = "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"


def pod(**fields: Any) -> Obj:
    return {"containers": [{"name": "main", "image": "busybox", **fields}]}


def told_invalid(obj: Obj) -> Obj:
    """A set that the operator found when it was stored already, without a webhook that would have refused it."""
    error = {"code": "ERR_INVALID_SPEC", "description": "wrong", "observedAt": "2026-09-01T00:00:00Z"}
    return {**obj, "status": {"lastErrors": [error]}}


def grouped(**config: Any) -> Obj:
    return a_set(clique("a"), clique("b"), groups=[group("g", "a", "b", **config)])


ALLOWED = (
    Case("nothing changes", a_set(clique(replicas=2)), old=a_set(clique(replicas=2))),
    Case("more replicas of the set", a_set(replicas=5), old=a_set()),
    Case("another command", a_set(clique(podSpec=pod(args=["-v"]))), old=a_set()),
    Case("another priority class", a_set(priorityClassName="high"), old=a_set()),
    Case("another termination delay", a_set(terminationDelay="5m"), old=a_set()),
    Case("labels of a clique", a_set({**clique(), "labels": {"app": "x"}}), old=a_set()),
    Case("replicas of a clique, and its minimum stays", a_set(clique(replicas=5)), old=a_set(clique(replicas=3))),
    Case("an idle clique", a_set(clique(replicas=0)), old=a_set(clique(replicas=3))),
    Case("replicas of a group", grouped(replicas=4, minAvailable=2), old=grouped(replicas=2, minAvailable=2)),
    Case("annotations of a group", grouped(annotations={"a": "b"}), old=grouped()),
    Case("an autoscaler", a_set(clique(autoScalingConfig={"maxReplicas": 3})), old=a_set()),
    Case("cliques change places", a_set(clique("b"), clique("a")), old=a_set(clique("a"), clique("b"))),
    Case(
        "groups change places",
        a_set(clique("a"), clique("b"), groups=[group("h", "b"), group("g", "a")]),
        old=a_set(clique("a"), clique("b"), groups=[group("g", "a"), group("h", "b")]),
    ),
    Case("no groups, said in another way", a_set(groups=[]), old=a_set()),
    Case("nothing to start after, said in another way", a_set(clique(startsAfter=[])), old=a_set()),
    Case("the role that it has anyway", a_set(clique(roleName="a")), old=a_set(clique(roleName=""))),
    Case(
        "the scheduler that it has anyway",
        a_set(clique(podSpec={**pod(), "schedulerName": "default-scheduler"})),
        old=a_set(),
    ),
    Case(
        "a stored node name",
        a_set(clique(podSpec={**pod(), "nodeName": "n1"})),
        old=a_set(clique(podSpec={**pod(), "nodeName": "n1"})),
        legacy=True,
    ),
    Case(
        "claims are the same",
        a_set(resourceClaimTemplates=[claim_template()], resourceSharing=[share()], replicas=2),
        old=a_set(resourceClaimTemplates=[claim_template()], resourceSharing=[share()]),
    ),
)

REFUSED = (
    Case(
        "a clique is added",
        a_set(clique("a"), clique("b")),
        [f"{CLIQUES}[1].name: Forbidden: cliques cannot be added to a set, and b is new"],
        old=a_set(clique("a")),
        schema=f"{CLIQUES}: Invalid value: cliques cannot be added or removed",
    ),
    Case(
        "a clique is removed",
        a_set(clique("a")),
        [f"{CLIQUES}: Forbidden: cliques cannot be removed from a set, and b is missing: give it 0 replicas"],
        old=a_set(clique("a"), clique("b")),
        schema=f"{CLIQUES}: Invalid value: cliques cannot be added or removed",
    ),
    Case(
        "a clique is renamed",
        a_set(clique("b")),
        [
            f"{CLIQUES}[0].name: Forbidden: cliques cannot be added to a set, and b is new",
            f"{CLIQUES}: Forbidden: cliques cannot be removed from a set, and a is missing: give it 0 replicas",
        ],
        old=a_set(clique("a")),
        schema=f"{CLIQUES}: Invalid value: cliques cannot be added or removed",
    ),
    *(
        Case(
            f"cliques change places with {startup}",
            a_set(clique("b"), clique("a"), cliqueStartupType=startup),
            [f'{CLIQUES}: Invalid value: ["b", "a"]: with {startup} the order must stay a, b'],
            old=a_set(clique("a"), clique("b"), cliqueStartupType=startup),
            schema=f"{CLIQUES}: Invalid value: the order of cliques cannot change",
        )
        for startup in (IN_ORDER, EXPLICIT)
    ),
    Case(
        "another startup type",
        a_set(cliqueStartupType=IN_ORDER),
        [
            (
                f'spec.template.cliqueStartupType: Invalid value: "{IN_ORDER}": cannot change: must stay '
                '"CliqueStartupTypeAnyOrder"'
            )
        ],
        old=a_set(),
        schema="spec.template.cliqueStartupType: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "another role",
        a_set(clique(roleName="y")),
        [f'{CLIQUES}[0].spec.roleName: Invalid value: "y": cannot change: must stay "x"'],
        old=a_set(clique(roleName="x")),
        schema=f"{CLIQUES}[0].spec.roleName: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "another minimum",
        a_set(clique(replicas=3, minAvailable=2)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: cannot change: must stay 3"],
        old=a_set(clique(replicas=3, minAvailable=3)),
        schema=f"{CLIQUES}[0].spec.minAvailable: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "a minimum other than the one it had without saying",
        a_set(clique(replicas=3, minAvailable=2)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: cannot change: must stay 3"],
        old=a_set(clique(replicas=3)),
    ),
    Case(
        "replicas below the minimum",
        a_set(clique(replicas=2)),
        [
            (
                f"{CLIQUES}[0].spec.minAvailable: Invalid value: 3: must be at most replicas (2), unless replicas is 0 "
                "(idle)"
            )
        ],
        old=a_set(clique(replicas=3, minAvailable=3)),
        schema=f"{CLIQUES}[0].spec.minAvailable: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "another order of start",
        a_set(clique("a"), clique("b"), cliqueStartupType=EXPLICIT),
        [f'{CLIQUES}[1].spec.startsAfter: Invalid value: null: cannot change: must stay ["a"]'],
        old=a_set(clique("a"), clique("b", startsAfter=["a"]), cliqueStartupType=EXPLICIT),
        schema=f"{CLIQUES}: Invalid value: startsAfter cannot change: must stay as it was",
    ),
    Case(
        "a circle of a set stored without webhooks is opened",
        explicit(clique("a"), clique("b", startsAfter=["a"])),
        old=told_invalid(explicit(clique("a", startsAfter=["b"]), clique("b", startsAfter=["a"]))),
        legacy=True,
    ),
    Case(
        "a name of no clique is put right",
        explicit(clique("a"), clique("b", startsAfter=["a"])),
        old=told_invalid(explicit(clique("a"), clique("b", startsAfter=["aa"]))),
        legacy=True,
    ),
    Case(
        "another scheduler",
        a_set(clique(podSpec={**pod(), "schedulerName": "mine"})),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Invalid value: "mine": cannot change: must stay '
                '"default-scheduler"'
            )
        ],
        old=a_set(),
    ),
    Case(
        "another clique shares",
        a_set({**clique(), "resourceSharing": [share(scope="PerReplica")]}),
        [
            (
                f'{CLIQUES}[0].resourceSharing: Invalid value: [{{"name": "gpus", "scope": "PerReplica"}}]: cannot '
                'change: must stay [{"name": "gpus", "scope": "AllReplicas"}]'
            )
        ],
        old=a_set({**clique(), "resourceSharing": [share()]}),
        schema=f"{CLIQUES}[0].resourceSharing: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "a group is added",
        a_set(groups=[group("g", "a")]),
        [f"{GROUPS}[0].name: Forbidden: scaling groups cannot be added to a set, and g is new"],
        old=a_set(),
        schema=f"{GROUPS}: Invalid value: scaling groups cannot be added or removed",
    ),
    Case(
        "a group is removed",
        a_set(),
        [f"{GROUPS}: Forbidden: scaling groups cannot be removed from a set, and g is missing: give it 0 replicas"],
        old=a_set(groups=[group("g", "a")]),
        schema=f"{GROUPS}: Invalid value: scaling groups cannot be added or removed",
    ),
    Case(
        "a group is renamed",
        a_set(groups=[group("h", "a")]),
        [
            f"{GROUPS}[0].name: Forbidden: scaling groups cannot be added to a set, and h is new",
            f"{GROUPS}: Forbidden: scaling groups cannot be removed from a set, and g is missing: give it 0 replicas",
        ],
        old=a_set(groups=[group("g", "a")]),
        schema=f"{GROUPS}: Invalid value: scaling groups cannot be added or removed",
    ),
    Case(
        "cliques of a group change places",
        a_set(clique("a"), clique("b"), groups=[group("g", "b", "a")]),
        [f'{GROUPS}[0].cliqueNames: Invalid value: ["b", "a"]: cannot change: must stay ["a", "b"]'],
        old=grouped(),
        schema=f"{GROUPS}[0].cliqueNames: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "another minimum of a group",
        grouped(replicas=2, minAvailable=2),
        [f"{GROUPS}[0].minAvailable: Invalid value: 2: cannot change: must stay 1"],
        old=grouped(replicas=2),
        schema=f"{GROUPS}[0].minAvailable: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "replicas of a group below its minimum",
        grouped(replicas=1, minAvailable=2),
        [f"{GROUPS}[0].minAvailable: Invalid value: 2: must be at most replicas (1), unless replicas is 0 (idle)"],
        old=grouped(replicas=3, minAvailable=2),
        schema=f"{GROUPS}[0].replicas: Invalid value: replicas must be 0 (idle) or at least",
    ),
    Case(
        "a group shares later",
        grouped(resourceSharing=[share()]),
        [
            (
                f'{GROUPS}[0].resourceSharing: Invalid value: [{{"name": "gpus", "scope": "AllReplicas"}}]: cannot be '
                "set later"
            )
        ],
        old=grouped(),
        schema=f"{GROUPS}[0].resourceSharing: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "the set shares no more",
        a_set(),
        [
            (
                "spec.template.resourceSharing: Invalid value: null: cannot change: must stay "
                '[{"name": "gpus", "scope": "AllReplicas"}]'
            )
        ],
        old=a_set(resourceSharing=[share()]),
        schema="spec.template.resourceSharing: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "another claim template",
        a_set(resourceClaimTemplates=[claim_template("gpus")]),
        [
            (
                "spec.template.resourceClaimTemplates: Invalid value: "
                '[{"name": "gpus", "templateSpec": {"spec": {"devices": {"requests": [{"exactly":…: cannot be set later'
            )
        ],
        old=a_set(),
        schema="spec.template.resourceClaimTemplates: Invalid value: cannot change: must stay as it was",
    ),
)

CASES = ALLOWED + REFUSED
