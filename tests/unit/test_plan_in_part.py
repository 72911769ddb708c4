"""Gangs that were placed in part although their scheduler had promised all or none, and what is done about them."""

from collections.abc import Mapping
from typing import Any

import pytest

from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.api.times import epoch, rfc3339
from grove.plan.in_part import gangs_in_part
from grove.plan.replica import ReplicaSnapshot
from grove.plan.termination import PLACING_SECONDS, TerminationPlan, plan_terminations
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set

MADE = epoch(NOW)
PLACED = MADE + 3600  # when the one half got its nodes
DELAY = 100
OBJ = pod_set(
    clique("a", 2), clique("b", 1), groups=[group("g", ["b"], 2, 1)], terminationDelay=f"{DELAY}s"
)  # fmt: skip
A, B0, B1 = "web-0-a", "web-0-g-0-b", "web-0-g-1-b"


def scheduled(at: float) -> Object:
    return {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": rfc3339(at)}]}


def half(
    nodes: dict[str, int], created: Mapping[str, float] | None = None, pods: Mapping[str, int] | None = None
) -> Paper:
    """Base gang a, a, b and scaled gang b, all ungated; so many pods of each PodClique got nodes, one a second."""
    made = Paper.of(OBJ, pods)
    at = PLACED
    for name, live in list(made.podcliques.items()):
        for index in range(live.spec.replicas or 0):
            on_node: dict[str, Any] = {"node": "n", "status": scheduled(at)} if index < nodes.get(name, 0) else {}
            at += bool(on_node)
            made.add(name, index, gated=False, created=rfc3339((created or {}).get(name, MADE)), **on_node)
        short = nodes.get(name, 0) < (live.spec.min_available or 0)
        judge(made, name, breached="True" if short else "False", had=not short)
    return made


def judge(made: Paper, name: str, *, breached: str, had: bool, terminated: bool = False) -> None:
    """Write a PodClique's conditions: whether it is in breach, and whether it has had its minimum."""
    kinds = {"MinAvailableBreached": breached, **({"GangTerminationInProgress": str(terminated)} if had else {})}
    conditions = [
        {"type": kind, "status": status, "reason": "R", "message": "", "lastTransitionTime": NOW}
        for kind, status in kinds.items()
    ]
    wire = merge_patch(made.podcliques[name].wire, {"status": {"conditions": conditions}})
    made.podcliques[name] = PodClique.from_wire(wire)


def snapshot(made: Paper, promise: str = "True") -> ReplicaSnapshot:
    gangs = {}
    for gang in made.gangs:
        kept = {"type": "GangGuaranteed", "status": promise, "reason": "R", "message": "", "lastTransitionTime": NOW}
        metadata = {"name": gang.name, "namespace": "default", "uid": gang.name, "resourceVersion": "1"}
        gangs[gang.name] = PodGang.from_wire(
            {"metadata": metadata, "spec": {"podgroups": []}, "status": {"conditions": [kept]}}
        )
    return ReplicaSnapshot(made.podcliques, made.scaling_groups, gangs, pods=made.pods)


def found(made: Paper, promise: str = "True") -> list[tuple[str, float, tuple[str, ...]]]:
    parts = gangs_in_part(made.template, 0, snapshot(made, promise))
    return [(part.gang.name, part.since - PLACED, part.lacking) for part in parts]


def planned(made: Paper, after: float) -> TerminationPlan:
    """The plan so many seconds after the first pod got its node."""
    return plan_terminations(made.template, 0, snapshot(made), PLACED + after)


@pytest.mark.parametrize(
    ("nodes", "wanted"),
    [
        ({}, []),
        ({A: 2, B0: 1, B1: 1}, []),
        ({A: 2, B0: 1}, []),  # the scaled gang waits, whole
        ({A: 2}, [("web-0", 1.0, (B0,))]),
        ({B0: 1}, [("web-0", 0.0, (A,))]),
        ({A: 1}, [("web-0", 0.0, (A, B0))]),
        ({A: 1, B0: 1}, [("web-0", 1.0, (A,))]),
    ],
)
def test_what_is_placed_in_part(nodes: dict[str, int], wanted: list[tuple[str, float, tuple[str, ...]]]) -> None:
    assert found(half(nodes)) == wanted


@pytest.mark.parametrize("promise", ["False", "Unknown"])
def test_without_a_promise_parts_are_what_one_gets(promise: str) -> None:
    assert found(half({A: 2}), promise) == []


def test_without_a_podgang_nothing_is_promised() -> None:
    made = half({A: 2})
    bare = ReplicaSnapshot(made.podcliques, made.scaling_groups, pods=made.pods)
    assert list(gangs_in_part(made.template, 0, bare)) == []


def test_a_clique_that_woke_from_idle_is_no_part_of_a_gang_that_runs_without_it() -> None:
    assert found(half({A: 2}, created={B0: PLACED + 5})) == []


def test_what_had_its_minimum_once_is_a_breach_and_nothing_else() -> None:
    made = half({A: 2})
    judge(made, B0, breached="True", had=True)
    assert found(made) == []


def test_an_update_suspends() -> None:
    made = half({A: 2})
    judge(made, B0, breached="Unknown", had=False)
    assert found(made) == []


def test_pods_beyond_the_minimum_may_be_younger() -> None:
    made = half({B0: 1}, pods={A: 3})
    oldest, _, youngest = made.pods[made.podcliques[A].uid]
    late = Paper.of(OBJ, {A: 3}).add(A, youngest.index, gated=False, created=rfc3339(PLACED + 9))
    made.pods[made.podcliques[A].uid][2:] = late
    assert found(made) == [("web-0", 0.0, (A,))]
    made.pods[made.podcliques[A].uid] = [oldest, *late]  # one of the minimum is on its way back
    assert found(made) == []


def test_a_moment_is_given_to_bind_all() -> None:
    made = half({A: 2})
    binding = planned(made, PLACING_SECONDS)
    assert (binding.now, binding.due, binding.again_after) == ((), {}, 1.0)
    told = planned(made, PLACING_SECONDS + 1)
    assert told.now == ()
    assert {name: (due.at - PLACED, due.target) for name, due in told.due.items()} == {
        B0: (1.0 + DELAY, "replica 0 of PodCliqueSet web")
    }
    assert told.again_after == DELAY - PLACING_SECONDS


def test_the_whole_replica_starts_anew_for_its_base_gang() -> None:
    """Also where the group could do without the replica that lacks nodes: its gang cannot."""
    (termination,) = planned(half({A: 2}), DELAY + 1).now
    assert termination.target.podcliques == (A, B0, B1)
    assert termination.causes == (B0,)
    assert termination.due == PLACED + 1 + DELAY


def test_a_replica_of_a_group_starts_anew_for_its_scaled_gang() -> None:
    obj = pod_set(
        clique("a", 1), clique("b", 1), clique("c", 1), groups=[group("g", ["b", "c"], 2, 1)], terminationDelay="1m"
    )  # fmt: skip
    made = Paper.of(obj)
    for name in made.podcliques:
        lacks = name == "web-0-g-1-c"
        made.add(name, 0, gated=False, **({} if lacks else {"node": "n", "status": scheduled(PLACED)}))
        judge(made, name, breached=str(lacks), had=not lacks)
    (termination,) = planned(made, 60).now
    assert termination.target.text == "replica 1 of PodCliqueScalingGroup web-0-g"
    assert termination.target.podcliques == ("web-0-g-1-b", "web-0-g-1-c")


def test_it_is_terminated_once() -> None:
    made = half({A: 2})
    for name in made.podcliques:
        judge(made, name, breached="True", had=True, terminated=True)
    assert planned(made, 10 * DELAY) == TerminationPlan()


def test_the_label_by_which_pods_are_of_a_gang_counts() -> None:
    made = half({A: 2})
    stray = made.pods[made.podcliques[B0].uid].pop()
    made.add(B0, stray.index, gated=False, labels_={labels.PODGANG: "another"})
    assert found(made) == []
