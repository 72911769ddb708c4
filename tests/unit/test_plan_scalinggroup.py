"""A scaling group: its PodCliques and its status."""

from collections.abc import Mapping
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan.scalinggroup import (
    group_of,
    look_at_all,
    plan_members,
    scaling_group_status,
    set_replica,
    surplus_of,
)
from grove.plan.template import Template
from grove.runtime.writes import Create, Delete, Patch, Write
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, template


def paper(replicas: int = 3, minimum: int = 2, live: int | None = None) -> Paper:
    obj = pod_set(clique("a", 2), clique("b", 1), groups=[group("g", ["a", "b"], replicas, minimum)])
    return Paper.of(obj, {} if live is None else {"web-0-g": live})


def the_group(made: Paper, **changes: Any) -> PodCliqueScalingGroup:
    return PodCliqueScalingGroup.from_wire(merge_patch(made.scaling_groups["web-0-g"].wire, changes))


def names(*indices: int) -> set[str]:
    return {f"web-0-g-{index}-{one}" for index in indices for one in ("a", "b")}


# Its PodCliques


def planned(live: PodCliqueScalingGroup, tpl: Template, podcliques: Mapping[str, PodClique]) -> tuple[Write, ...]:
    """The writes for a group that owns such PodCliques, by name."""
    units = look_at_all(live, tpl, podcliques, {})
    return plan_members(live, tpl, units, surplus_of(units, podcliques.values()))


def test_missing_podcliques_are_created() -> None:
    made = paper()
    writes = planned(the_group(made), made.template, {})
    assert all(isinstance(write, Create) for write in writes)
    assert {write.name for write in writes} == names(0, 1, 2)
    some = {name: live for name, live in made.podcliques.items() if name != "web-0-g-1-b"}
    assert [write.name for write in planned(the_group(made), made.template, some)] == ["web-0-g-1-b"]


def test_nothing_to_do() -> None:
    made = paper()
    assert planned(the_group(made), made.template, made.podcliques) == ()


@pytest.mark.parametrize(("live", "gone"), [(2, {2}), (0, {0, 1, 2})])
def test_scale_in_takes_the_highest_indices(live: int, gone: set[int]) -> None:
    made = paper()
    writes = planned(the_group(made, spec={"replicas": live}), made.template, made.podcliques)
    assert all(isinstance(write, Delete) for write in writes)
    assert {(write.name, write.uid) for write in writes if isinstance(write, Delete)} == {
        (name, f"uid-{name}") for name in names(*gone)
    }


def test_scale_out_makes_gangs_of_their_own() -> None:
    made = paper()
    writes = planned(the_group(made, spec={"replicas": 4}), made.template, made.podcliques)
    bodies = [write.body for write in writes if isinstance(write, Create)]
    assert {body["metadata"]["name"] for body in bodies} == names(3)
    assert {body["metadata"]["labels"]["grove.io/podgang"] for body in bodies} == {"web-0-g-1"}


def test_strays_are_removed_and_those_on_their_way_left() -> None:
    made = paper()
    live = dict(made.podcliques)
    for name, deletion in (("web-0-g-9-a", None), ("web-0-g-8-a", NOW), ("web-0-g-0-x", None)):
        change = {"metadata": {"name": name, "uid": f"uid-{name}", "deletionTimestamp": deletion}}
        live[name] = PodClique.from_wire(merge_patch(live["web-0-g-0-a"].wire, change))
    writes = planned(the_group(made), made.template, live)
    assert {write.name for write in writes if isinstance(write, Delete)} == {"web-0-g-9-a", "web-0-g-0-x"}
    assert len(writes) == 2


def test_a_new_template_reaches_all_replicas() -> None:
    made = paper()
    newer = template(
        pod_set(clique("a", 2), clique("b", 1, image="example.com/new"), groups=[group("g", ["a", "b"], 3, 2)])
    )
    writes = planned(the_group(made), newer, made.podcliques)
    assert {write.name for write in writes if isinstance(write, Patch)} == {f"web-0-g-{index}-b" for index in range(3)}
    assert len(writes) == 3


@pytest.mark.parametrize("case", ["deleting", "unknown", "replica gone", "no label"])
def test_a_group_without_a_place_is_left_alone(case: str) -> None:
    made = paper(live=1)
    tpl = made.template
    change: Mapping[str, Any] = {}
    if case == "deleting":
        change = {"metadata": {"deletionTimestamp": NOW}}
    elif case == "unknown":
        tpl = template(pod_set(clique("a", 2), clique("b", 1)))
    elif case == "replica gone":
        change = {"metadata": {"name": "web-3-g", "labels": {"grove.io/podcliqueset-replica-index": "3"}}}
    else:
        change = {"metadata": {"labels": {"grove.io/podcliqueset-replica-index": None}}}
    assert planned(the_group(made, **change), tpl, made.podcliques) == ()


def test_groups_are_told_apart_by_the_whole_name() -> None:
    obj = pod_set(clique("a"), clique("b"), groups=[group("g", ["a"]), group("x-g", ["b"])])
    made = Paper.of(obj)
    found = {name: (group_of(live, made.template), set_replica(live)) for name, live in made.scaling_groups.items()}
    assert found == {"web-0-g": ("g", 0), "web-0-x-g": ("x-g", 0)}


# Its status


def member(made: Paper, name: str, state: str) -> PodClique:
    """A PodClique with the status of: good, stale, unready, unscheduled, breached, unknown, deleting."""
    clique_name = name.rpartition("-")[2]
    minimum = 2 if clique_name == "a" else 1
    tpl = made.template
    scheduled = state not in ("unscheduled", "unknown", "breached")
    status: Object = {
        "readyReplicas": minimum if state in ("good", "stale", "deleting") else 0,
        "updatedReplicas": minimum,
        "currentPodTemplateHash": tpl.pod_template_hashes[clique_name],
        "currentPodCliqueSetGenerationHash": "stale" if state == "stale" else tpl.generation_hash,
        "conditions": [
            {"type": "PodCliqueScheduled", "status": str(scheduled)},
            {"type": "MinAvailableBreached", "status": str(state in ("breached", "unscheduled"))},
        ],
    }
    for one in status["conditions"]:
        one |= {"reason": "R", "message": "", "lastTransitionTime": NOW}
    if state == "unknown":
        status = {}
    metadata = {"deletionTimestamp": NOW} if state == "deleting" else {}
    return PodClique.from_wire(merge_patch(made.podcliques[name].wire, {"metadata": metadata, "status": status}))


def shown(live: PodCliqueScalingGroup, tpl: Template, podcliques: Mapping[str, PodClique]) -> Object:
    """The status of a group that owns such PodCliques, by name."""
    return scaling_group_status(live, tpl, look_at_all(live, tpl, podcliques, {}), [], NOW)


def status_of(replicas: int, minimum: int, states: Mapping[str, str], **changes: Any) -> Object:
    """Status of a group whose PodCliques are good but for those in `states` (by index and clique, e.g. 0-a)."""
    made = paper(replicas, minimum)
    live = {
        name: member(made, name, states.get(name.removeprefix("web-0-g-"), "good"))
        for name in names(*range(replicas))
        if states.get(name.removeprefix("web-0-g-")) != "missing"
    }
    return shown(the_group(made, **changes), made.template, live)


def breach(status: Object) -> tuple[str, str]:
    (one,) = status["conditions"]
    assert one["type"] == "MinAvailableBreached"
    return one["status"], one["reason"]


def test_a_healthy_group() -> None:
    status = status_of(3, 2, {}, metadata={"generation": 4})
    numbers = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas", "observedGeneration")
    assert [status[key] for key in numbers] == [3, 3, 3, 3, 4]
    assert status["currentPodCliqueSetGenerationHash"] == paper().template.generation_hash
    assert status["selector"] == (
        "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,"
        "grove.io/podcliquescalinggroup=web-0-g"
    )


@pytest.mark.parametrize(
    ("state", "numbers", "generation"),
    [
        ("good", (3, 3, 3), True),
        ("stale", (3, 3, 2), False),
        ("unready", (3, 2, 2), True),
        ("unscheduled", (2, 2, 2), True),
        ("breached", (2, 2, 2), True),
        ("unknown", (2, 2, 2), False),
        ("deleting", (2, 2, 2), False),
        ("missing", (2, 2, 2), False),
    ],
)
def test_one_replica_of_three(state: str, numbers: tuple[int, int, int], generation: bool) -> None:
    status = status_of(3, 2, {"1-b": state})
    assert (status["scheduledReplicas"], status["availableReplicas"], status["updatedReplicas"]) == numbers
    assert ("currentPodCliqueSetGenerationHash" in status) is generation


# Acceptance list 13, row "breach PCSG": replicas, minimum, states, breached.
BREACH: dict[str, tuple[int, int, dict[str, str], bool]] = {
    "3 healthy": (3, 1, {}, False),
    "1 of 5 breached, minimum 2": (5, 2, {"0-a": "breached"}, False),
    "1 of 2 breached, minimum 1": (2, 1, {"0-a": "breached"}, False),
    "2 of 2 breached, minimum 1": (2, 1, {"0-a": "breached", "1-b": "breached"}, True),
    "2 of 3 breached, minimum 2": (3, 2, {"0-a": "breached", "2-a": "breached"}, True),
    "none exist": (1, 1, {"0-a": "missing", "0-b": "missing"}, True),
    "incomplete and breached": (2, 1, {"0-a": "missing", "1-a": "breached"}, True),
    "incomplete and healthy": (2, 1, {"0-a": "missing"}, False),
    "deleting is incomplete": (1, 1, {"0-a": "deleting"}, True),
    "unknown is not breached": (1, 1, {"0-a": "unknown"}, False),
}


@pytest.mark.parametrize("case", BREACH)
def test_breach(case: str) -> None:
    replicas, minimum, states, breached = BREACH[case]
    wanted = (
        ("True", "InsufficientAvailablePodCliqueScalingGroupReplicas")
        if breached
        else ("False", "SufficientAvailablePodCliqueScalingGroupReplicas")
    )
    assert breach(status_of(replicas, minimum, states)) == wanted


def test_idle_is_no_breach() -> None:
    status = status_of(2, 1, {}, spec={"replicas": 0})
    assert breach(status) == ("False", "SufficientAvailablePodCliqueScalingGroupReplicas")
    assert [status[key] for key in ("replicas", "scheduledReplicas", "availableReplicas")] == [0, 0, 0]


def test_idle_members_count_as_there() -> None:
    made = paper(1, 1)
    change = {"spec": {"replicas": 0}, "status": {"readyReplicas": 0, "updatedReplicas": 0}}
    live = {name: member(made, name, "good") for name in names(0)}
    live["web-0-g-0-b"] = PodClique.from_wire(merge_patch(live["web-0-g-0-b"].wire, change))
    status = shown(the_group(made), made.template, live)
    assert [status[key] for key in ("scheduledReplicas", "availableReplicas", "updatedReplicas")] == [1, 1, 1]


def test_replicas_beyond_the_count_are_ignored() -> None:
    status = status_of(3, 2, {}, spec={"replicas": 2})
    assert [status[key] for key in ("replicas", "scheduledReplicas", "availableReplicas")] == [2, 2, 2]


def test_conditions_of_others_stay() -> None:
    foreign = {
        "type": "Foreign",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": NOW,
    }
    status = status_of(3, 2, {}, status={"conditions": [foreign]})
    assert status["conditions"][0] == foreign
    assert len(status["conditions"]) == 2


def test_a_group_that_the_template_has_no_more_says_little() -> None:
    made = paper(1, 1)
    status = shown(the_group(made), template(pod_set(clique("a", 2), clique("b", 1))), made.podcliques)
    assert sorted(status) == ["lastErrors", "observedGeneration", "replicas", "selector"]
