"""Gangs: who belongs to which, when one is complete, and whose gate comes off."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api import labels
from grove.plan.gangs import GangState, gates_to_lift
from tests.unit.support import Object, Paper, clique, group, pod_set


def gangs(obj: Object, scaled: Mapping[str, int] | None = None) -> dict[str, list[str]]:
    """PodCliques by gang, over all replicas of a set."""
    papers = [Paper.of(obj, scaled, index) for index in range(obj["spec"]["replicas"])]
    return {gang.name: [member.podclique for member in gang.members] for paper in papers for gang in paper.gangs}


# Who belongs to which


def test_order_of_the_base_gang() -> None:
    obj = pod_set(
        clique("m1"), clique("s1"), clique("m2"), clique("s2"), clique("m3"),
        groups=[group("y", ["m3", "m1"], replicas=2, min_available=2), group("x", ["m2"])],
    )  # fmt: skip
    assert gangs(obj) == {
        "web-0": [
            "web-0-s1",
            "web-0-s2",
            "web-0-y-0-m3",
            "web-0-y-0-m1",
            "web-0-y-1-m3",
            "web-0-y-1-m1",
            "web-0-x-0-m2",
        ]
    }


ONE, TWO = clique("a"), clique("b")

# What exists: number of gangs (acceptance list 13, row "PodGang count")
COUNTS: dict[str, tuple[Object, int]] = {
    "two replicas of a standalone clique": (pod_set(ONE, replicas=2), 2),
    "group of 3, minimum 1": (pod_set(ONE, groups=[group("g", ["a"], 3, 1)]), 3),
    "standalone and group of 4, minimum 2": (pod_set(ONE, TWO, groups=[group("g", ["b"], 4, 2)]), 3),
    "two replicas of a group of 2, minimum 1": (pod_set(ONE, groups=[group("g", ["a"], 2, 1)], replicas=2), 4),
    "group of 2, minimum 2": (pod_set(ONE, groups=[group("g", ["a"], 2, 2)]), 1),
    "groups of 3 and 2": (pod_set(ONE, TWO, groups=[group("g", ["a"], 3, 1), group("h", ["b"], 2, 1)]), 4),
}


@pytest.mark.parametrize("case", COUNTS)
def test_number_of_gangs(case: str) -> None:
    obj, count = COUNTS[case]
    assert len(gangs(obj)) == count


# template replicas, live replicas, minimum: scaled gangs (acceptance list 13, row "HPA")
@pytest.mark.parametrize(
    ("before", "live", "minimum", "scaled"), [(2, 4, 1, 3), (3, 6, 2, 4), (5, 3, 1, 2), (4, 2, 2, 0)]
)
def test_live_replicas_of_a_group_beat_the_template(before: int, live: int, minimum: int, scaled: int) -> None:
    obj = pod_set(ONE, groups=[group("g", ["a"], before, minimum)])
    found = gangs(obj, {"web-0-g": live})
    assert found["web-0"] == [f"web-0-g-{index}-a" for index in range(minimum)]
    del found["web-0"]
    # Names count from 0 at the first replica beyond the minimum.
    assert found == {f"web-0-g-{k}": [f"web-0-g-{minimum + k}-a"] for k in range(scaled)}


def test_each_replica_of_a_set_has_its_own_scale() -> None:
    obj = pod_set(ONE, groups=[group("g", ["a"], 2, 1)], replicas=2)
    found = gangs(obj, {"web-1-g": 3})
    assert sorted(found) == ["web-0", "web-0-g-0", "web-1", "web-1-g-0", "web-1-g-1"]


def test_minimums_are_the_template_s_and_counts_are_live() -> None:
    obj = pod_set(clique("a", 4, min_available=2), clique("b", 3, min_available=1), groups=[group("g", ["b"])])
    (gang,) = Paper.of(obj, {"web-0-a": 7}).gangs
    assert [(m.podclique, m.clique, m.replicas, m.min_replicas) for m in gang.members] == [
        ("web-0-a", "a", 7, 2),
        ("web-0-g-0-b", "b", 3, 1),
    ]


def test_a_scaled_gang_names_its_base() -> None:
    base, scaled = Paper.of(pod_set(ONE, groups=[group("g", ["a"], 2, 1)])).gangs
    assert (base.base, scaled.base) == ("", "web-0")


def test_missing_podcliques_are_expected_with_the_template_s_count() -> None:
    paper = Paper.of(pod_set(clique("a", 3)))
    paper.podcliques.clear()
    assert [member.replicas for member in paper.gangs[0].members] == [3]
    paper.scaling_groups.clear()
    assert len(paper.gangs) == 1


# Idle


def test_idle_members_are_no_members() -> None:
    obj = pod_set(clique("a", 2), clique("b", 2), clique("c", 2), groups=[group("g", ["b", "c"], 2, 1)])
    assert gangs(obj, {"web-0-a": 0, "web-0-g-1-c": 0}) == {
        "web-0": ["web-0-g-0-b", "web-0-g-0-c"],
        "web-0-g-0": ["web-0-g-1-b"],
    }
    assert gangs(obj, {"web-0-g": 0}) == {"web-0": ["web-0-a"]}
    assert gangs(obj, {"web-0-g": 0, "web-0-a": 0}) == {}
    assert gangs(obj, {"web-0-g-1-b": 0, "web-0-g-1-c": 0}).keys() == {"web-0"}


def test_a_clique_that_is_idle_in_the_template_can_be_woken_up() -> None:
    obj = pod_set(clique("a", 0), clique("b"))
    assert gangs(obj) == {"web-0": ["web-0-b"]}
    paper = Paper.of(obj, {"web-0-a": 2})
    assert [(m.podclique, m.replicas, m.min_replicas) for m in paper.gangs[0].members] == [
        ("web-0-a", 2, 1),
        ("web-0-b", 1, 1),
    ]


# Completeness


BOTH = pod_set(clique("a", 2, min_available=1), clique("b", 3, min_available=2), groups=[group("g", ["b"], 2, 1)])


def paper(**fields: bool) -> Paper:
    """A base gang (web-0-a of 2, web-0-g-0-b of 3) and a scaled one (web-0-g-1-b of 3), all pods in place."""
    result = Paper.of(BOTH)
    result.fill(**fields)  # type: ignore[arg-type]
    return result


def test_complete_with_every_pod_in_place() -> None:
    made = paper()
    assert made.state("web-0").complete
    assert made.state("web-0-g-0").complete


def test_one_gang_that_lags_does_not_block_another() -> None:
    made = paper()
    made.pods["uid-web-0-g-1-b"].pop()
    assert made.state("web-0").complete
    assert not made.state("web-0-g-0").complete


def broken(how: str) -> GangState:
    """The base gang with something missing."""
    made = paper()
    if how == "podclique":
        del made.podcliques["web-0-a"]
    else:
        made.pods["uid-web-0-a"].pop()
    if how == "terminating":
        made.add("web-0-a", 1, deleting=True)
    if how == "failed":
        made.add("web-0-a", 1, phase="Failed", node="node-1")
    if how == "label":
        made.add("web-0-a", 1, labels_={labels.PODGANG: "other"})
    if how == "no label":
        made.add("web-0-a", 1, labels_={labels.PODGANG: ""})
    return made.state("web-0")


@pytest.mark.parametrize("how", ["podclique", "pod", "terminating", "failed", "label", "no label"])
def test_incomplete(how: str) -> None:
    state = broken(how)
    assert not state.complete
    assert gates_to_lift(state, None) == []


def test_pods_are_those_of_the_podclique_by_uid_and_sorted() -> None:
    made = paper()
    made.pods["uid-of-a-podclique-of-the-same-name-before"] = made.pods["uid-web-0-a"]
    found = [one.name for one in made.state("web-0").groups[0].pods]
    assert len(found) == 2
    assert found == sorted(found)


def test_scheduled_and_ready_need_every_minimum() -> None:
    made = Paper.of(BOTH)
    made.add("web-0-a", 0, ready=True)
    made.add("web-0-g-0-b", 0, ready=True)
    made.add("web-0-g-0-b", 1, node="node-1")
    state = made.state("web-0")
    assert (state.scheduled, state.ready) == (True, False)
    made.add("web-0-g-0-b", 2, ready=True)
    assert made.state("web-0").ready
    made.pods["uid-web-0-a"].clear()
    assert not made.state("web-0").scheduled


# Gates


def lifted(made: Paper, gang: str, base: str = "") -> list[tuple[str, int]]:
    found = gates_to_lift(made.state(gang), made.state(base) if base else None)
    assert all(pod.gated for pod in found)
    return sorted((pod.owner_uid.removeprefix("uid-"), pod.index) for pod in found)


BASE = [("web-0-a", 0), ("web-0-a", 1), ("web-0-g-0-b", 0), ("web-0-g-0-b", 1), ("web-0-g-0-b", 2)]
SCALED = [("web-0-g-1-b", 0), ("web-0-g-1-b", 1), ("web-0-g-1-b", 2)]


def test_a_whole_gang_starts_together() -> None:
    assert lifted(paper(), "web-0") == BASE


def test_a_gang_with_a_pod_missing_does_not_start() -> None:
    made = paper()
    made.pods["uid-web-0-g-0-b"].pop()
    assert lifted(made, "web-0") == []


def test_a_scaled_gang_waits_until_the_base_is_scheduled() -> None:
    made = paper()
    assert lifted(made, "web-0-g-0", "web-0") == []
    made.fill("web-0", gated=False)
    assert lifted(made, "web-0-g-0", "web-0") == []
    made.pods["uid-web-0-a"] = []
    made.add("web-0-a", 0, node="node-1")
    made.pods["uid-web-0-g-0-b"] = []
    made.add("web-0-g-0-b", 0, 1, node="node-1")  # two of three: the minimum
    assert lifted(made, "web-0-g-0", "web-0") == SCALED


def test_a_base_short_of_one_minimum_is_not_scheduled() -> None:
    made = paper()
    made.fill("web-0", node="node-1")
    del made.pods["uid-web-0-g-0-b"][1:]  # one of three, two are needed
    assert lifted(made, "web-0-g-0", "web-0") == []


def test_without_a_base_gang_a_scaled_gang_does_not_wait() -> None:
    # All of the base is idle, so there is nothing to wait for.
    assert lifted(paper(), "web-0-g-0") == SCALED


def test_a_running_scaled_gang_is_not_held_up_by_its_base() -> None:
    made = paper()
    made.pods["uid-web-0-g-1-b"][0:1] = []
    made.add("web-0-g-1-b", 0, ready=True)
    assert lifted(made, "web-0-g-0", "web-0") == SCALED[1:]


def test_a_replacement_joins_a_running_gang_at_once() -> None:
    made = paper(ready=True)
    made.pods["uid-web-0-a"].pop()
    assert lifted(made, "web-0") == []
    made.add("web-0-a", 1)
    assert lifted(made, "web-0") == [("web-0-a", 1)]


def test_a_pod_of_a_scaled_out_clique_joins_without_waiting_for_the_others() -> None:
    made = Paper.of(BOTH, {"web-0-a": 5})
    made.fill("web-0", ready=True)
    made.pods["uid-web-0-a"] = made.pods["uid-web-0-a"][:2]
    made.add("web-0-a", 2)
    assert lifted(made, "web-0") == [("web-0-a", 2)]


def test_a_clique_that_comes_back_from_idle_joins_whole() -> None:
    made = paper(ready=True)
    made.pods["uid-web-0-a"] = []
    made.add("web-0-a", 0)
    assert lifted(made, "web-0") == []
    made.add("web-0-a", 1)
    assert lifted(made, "web-0") == BASE[:2]


def test_a_gang_whose_pods_are_all_replaced_starts_whole_again() -> None:
    made = paper()
    made.fill("web-0", deleting=True, ready=True)
    made.add("web-0-a", 0, 1, predecessor="x")
    assert lifted(made, "web-0") == []
    made.add("web-0-g-0-b", 0, 1, 2, predecessor="x")
    assert lifted(made, "web-0") == BASE


def test_foreign_gates_hold_nobody_up_and_are_no_business_of_ours() -> None:
    made = paper()
    spec: Object = {"containers": [{"name": "c"}], "schedulingGates": [{"name": "example.com/quota"}]}
    held = Paper.of(pod_set(clique("a", 2, podSpec=spec)))
    held.fill(gated=False)
    assert lifted(held, "web-0") == []
    held.fill()
    assert lifted(held, "web-0") == [("web-0-a", 0), ("web-0-a", 1)]
    assert lifted(made, "web-0") == BASE


@given(
    st.lists(st.sampled_from(["missing", "gated", "open", "ready", "deleting", "failed"]), min_size=8, max_size=8),
    st.booleans(),
)
def test_no_gate_comes_off_unless_the_gang_was_whole(states: list[str], with_base: bool) -> None:
    made = Paper.of(BOTH)
    slots = [*BASE, *SCALED]
    looks = {
        "gated": {},
        "open": {"gated": False},
        "ready": {"ready": True},
        "deleting": {"deleting": True},
        "failed": {"phase": "Failed", "node": "node-1"},
    }  # fmt: skip
    for (name, index), state in zip(slots, states, strict=True):
        if state != "missing":
            made.add(name, index, **looks[state])  # type: ignore[arg-type]
    base, scaled = made.state("web-0"), made.state("web-0-g-0")
    for state_of, found in (
        (base, gates_to_lift(base, None)),
        (scaled, gates_to_lift(scaled, base if with_base else None)),
    ):
        assert all(pod.active and pod.gated and pod.gang == state_of.gang.name for pod in found)
        if found and not state_of.released:
            assert len(found) == sum(member.replicas for member in state_of.gang.members)
            assert state_of is base or not with_base or base.scheduled
