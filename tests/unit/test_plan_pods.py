"""Pods of a PodClique: how many, which index, which name, who goes first."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.api import labels
from grove.api.podclique import PodClique
from grove.plan.observed import PodView
from grove.plan.pods import BURST, REFILL_SPACING, PodPlan, build_pod, plan_pods, pod_name, scale_in_order
from grove.runtime.writes import Create, Delete, Patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod, pod_set

LATER = datetime.fromisoformat(NOW).timestamp() + 3600.0


def podclique(replicas: int = 3, **fields: Any) -> PodClique:
    return Paper.of(pod_set(clique("a", replicas, min_available=1, **fields))).podcliques["web-0-a"]


def plan(
    owner: PodClique, pods: Iterable[PodView] = (), now: float = LATER, last: Mapping[int, str] | None = None
) -> PodPlan:
    return plan_pods(owner, pods, last_occupants=last or {}, rank_offset=None, now=now)


def created(made: PodPlan) -> dict[int, str]:
    """Names of the created pods by index."""
    bodies = [write.body for write in made.writes if isinstance(write, Create)]
    return {int(body["metadata"]["labels"][labels.POD_INDEX]): body["metadata"]["name"] for body in bodies}


def deleted(made: PodPlan) -> dict[str, str]:
    """uid by name of the deleted pods."""
    return {write.name: write.uid for write in made.writes if isinstance(write, Delete)}


def first(owner: PodClique, index: int, predecessor: str = "") -> str:
    return pod_name(owner.name, owner.uid, index, predecessor, {})


# How many, and at which index


def test_an_empty_clique_gets_all_its_pods() -> None:
    owner = podclique(3)
    assert created(plan(owner)) == {index: first(owner, index) for index in range(3)}


def test_nothing_to_do() -> None:
    owner = podclique(3)
    assert plan(owner, [pod(owner, index) for index in range(3)]) == PodPlan()


def test_idle() -> None:
    owner = podclique(0)
    assert plan(owner) == PodPlan()
    assert len(deleted(plan(owner, [pod(owner, 0), pod(owner, 1, ready=True)]))) == 2


def test_an_absent_number_of_replicas_is_one() -> None:
    wire = podclique(3).wire
    owner = PodClique.from_wire({**wire, "spec": {k: v for k, v in wire["spec"].items() if k != "replicas"}})
    assert sorted(created(plan(owner))) == [0]


def test_the_lowest_free_indices_are_filled() -> None:
    owner = podclique(5)
    assert sorted(created(plan(owner, [pod(owner, 1), pod(owner, 3)]))) == [0, 2, 4]


def test_a_great_many_are_made_in_bursts() -> None:
    owner = podclique(2**31 - 1)
    assert sorted(created(plan(owner))) == list(range(BURST))
    there = [pod(owner, index) for index in range(0, 2 * BURST, 2)]
    assert sorted(created(plan(owner, there))) == list(range(1, 2 * BURST, 2))


def test_pods_that_wait_hold_up_no_burst() -> None:
    owner = podclique(2 * BURST)
    ended = [pod(owner, index, phase="Failed") for index in range(BURST)]
    made = plan(owner, ended, now=LATER - 3600.0)
    assert sorted(created(made)) == list(range(BURST, 2 * BURST))
    assert made.again_after == REFILL_SPACING


def test_a_pod_beyond_the_count_stays_where_it_is() -> None:
    owner = podclique(2)
    made = plan(owner, [pod(owner, 7, ready=True)])
    assert sorted(created(made)) == [0]
    assert deleted(made) == {}


def test_a_clique_that_is_being_deleted_is_left_to_the_garbage_collector() -> None:
    wire = podclique(3).wire
    going = PodClique.from_wire({**wire, "metadata": {**wire["metadata"], "deletionTimestamp": NOW}})
    assert plan(going, [pod(going, 7)]) == PodPlan()


def test_surplus_goes_with_the_uid_that_was_seen() -> None:
    owner = podclique(1)
    stays, goes = pod(owner, 0, ready=True), pod(owner, 1, uid="that-one")
    assert deleted(plan(owner, [stays, goes])) == {goes.name: "that-one"}


def test_the_younger_of_two_at_one_index_goes() -> None:
    owner = podclique(2)
    old = pod(owner, 0, created="2026-09-01T00:00:00Z")
    young = pod(owner, 0, predecessor="x", created="2026-09-01T00:00:05Z", ready=True)
    made = plan(owner, [young, old, pod(owner, 1)])
    assert deleted(made) == {young.name: young.uid}
    assert created(made) == {}


def test_a_pod_without_an_index_is_replaced() -> None:
    owner = podclique(1)
    stray = replace(pod(owner, 0, name="web-0-a-stray"), index=-1)
    made = plan(owner, [stray])
    assert list(deleted(made)) == ["web-0-a-stray"]
    assert created(made) == {0: first(owner, 0)}


def test_a_stray_gets_its_gang_back() -> None:
    owner = podclique(1)
    stray = pod(owner, 0, labels_={labels.PODGANG: "other"})
    (write,) = plan(owner, [stray]).writes
    assert isinstance(write, Patch)
    assert (write.name, write.uid, write.body) == (
        stray.name,
        stray.uid,
        {"metadata": {"labels": {labels.PODGANG: "web-0"}}},
    )


@given(st.integers(0, 8), st.sets(st.integers(0, 12)))
def test_as_many_pods_as_asked_for(wanted: int, present: set[int]) -> None:
    owner = podclique(wanted)
    made = plan(owner, [pod(owner, index) for index in present])
    assert len(present) + len(created(made)) - len(deleted(made)) == wanted
    assert not (created(made) and deleted(made))
    assert not present & created(made).keys()
    free = [index for index in range(21) if index not in present]
    assert sorted(created(made)) == free[: len(created(made))]


# Names


def test_names_are_stable() -> None:
    # Live pods bear these names: another recipe would create second pods beside them.
    assert pod_name("web-0-a", "0b7f2d4c-1111-2222-3333-444455556666", 0, "", {}) == "web-0-a-49kwz"
    assert pod_name("web-0-a", "0b7f2d4c-1111-2222-3333-444455556666", 1, "pred", {}) == "web-0-a-t2f74"


def test_names_depend_on_all_that_tells_pods_apart() -> None:
    names = {
        pod_name("x", uid, index, before, {})
        for uid in ("u1", "u2") for index in (0, 1) for before in ("", "p1", "p2")
    }  # fmt: skip
    assert len(names) == 12


def test_a_suffix_is_five_characters_that_look_like_those_of_kubernetes() -> None:
    for index in range(200):
        suffix = pod_name("x", "uid", index, "", {}).removeprefix("x-")
        assert len(suffix) == 5
        assert set(suffix) <= set("bcdfghjklmnpqrstvwxz2456789")


def test_two_indices_with_the_same_suffix_get_different_names() -> None:
    taken = {pod_name("x", "uid", 3, "", {}): 7}
    again = pod_name("x", "uid", 3, "", taken)
    assert again not in taken
    assert again == pod_name("x", "uid", 3, "", taken)


def test_a_name_in_use_by_another_index_of_the_clique_is_avoided() -> None:
    owner = podclique(2)
    squatter = pod(owner, 1, name=first(owner, 0))
    made = created(plan(owner, [squatter]))
    assert list(made) == [0]
    assert made[0] == pod_name(owner.name, owner.uid, 0, "", {squatter.name: 1})


def test_the_successor_is_named_after_the_pod_before() -> None:
    owner = podclique(1)
    before = pod(owner, 0, deleting=True, ready=True)
    assert created(plan(owner, [before])) == {0: first(owner, 0, before.uid)}
    # The same when it is gone from the cluster but was seen to go.
    assert created(plan(owner, [], last={0: before.uid})) == {0: first(owner, 0, before.uid)}


def test_only_the_last_of_a_chain_has_a_successor() -> None:
    owner = podclique(1)
    one = pod(owner, 0, uid="one", deleting=True)
    two = pod(owner, 0, uid="two", predecessor="one", deleting=True)
    three = pod(owner, 0, uid="three", predecessor="two", deleting=True)
    for seen in ([one, two, three], [three, one, two], [two, three], [one, three]):
        # All were made in the same second, so only their names tell the order.
        assert created(plan(owner, seen)) == {0: first(owner, 0, "three")}


def test_a_stuck_terminating_pod_is_replaced_once() -> None:
    owner = podclique(1)
    stuck = pod(owner, 0, ready=True, deleting=True)
    after = pod(owner, 0, predecessor=stuck.uid)
    assert plan(owner, [stuck, after]) == PodPlan()


def test_a_terminating_pod_frees_its_index_at_once() -> None:
    owner = podclique(3)
    pods = [pod(owner, 0, ready=True), pod(owner, 1, ready=True, deleting=True), pod(owner, 2, ready=True)]
    made = plan(owner, pods)
    assert list(created(made)) == [1]
    (body,) = [write.body for write in made.writes if isinstance(write, Create)]
    assert body["spec"]["hostname"] == "web-0-a-1"


# Pods that ended


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_ended_is_replaced_and_then_removed(phase: str) -> None:
    """Not at once: writes of a pass race, and where no successor can be made the pod is all there is to read."""
    owner = podclique(2)
    ended = pod(owner, 1, phase=phase, node="node-1")
    pods = [pod(owner, 0, ready=True), ended]
    made = plan(owner, pods)
    assert created(made) == {1: first(owner, 1, ended.uid)}
    assert deleted(made) == {}
    after = plan(owner, [*pods, pod(owner, 1, predecessor=ended.uid)])
    assert created(after) == {}
    assert deleted(after) == {ended.name: ended.uid}


def test_a_slot_whose_pod_ended_by_itself_is_not_refilled_in_a_storm() -> None:
    owner = podclique(2)
    since = datetime.fromisoformat(NOW).timestamp()
    ended = pod(owner, 1, phase="Failed", node="node-1")
    pods = [pod(owner, 0, ready=True), ended]
    waiting = plan(owner, pods, now=since + 4.0)
    assert waiting == PodPlan((), REFILL_SPACING - 4.0)
    refilled = plan(owner, pods, now=since + REFILL_SPACING)
    assert list(created(refilled)) == [1]
    assert refilled.again_after is None


def test_a_clock_that_is_behind_does_not_keep_a_slot_empty() -> None:
    owner = podclique(1)
    an_hour_before = datetime.fromisoformat(NOW).timestamp() - 3600
    made = plan(owner, [pod(owner, 0, phase="Failed", node="node-1")], now=an_hour_before)
    assert list(created(made)) == [0]


def test_the_wait_of_one_slot_does_not_hold_up_others() -> None:
    owner = podclique(3)
    since = datetime.fromisoformat(NOW).timestamp()
    made = plan(owner, [pod(owner, 0, phase="Failed", node="node-1")], now=since + 1.0)
    assert sorted(created(made)) == [1, 2]
    assert made.again_after == 9.0


def test_a_deleted_pod_that_failed_on_its_way_out_is_replaced_at_once() -> None:
    owner = podclique(1)
    since = datetime.fromisoformat(NOW).timestamp()
    ended = pod(owner, 0, phase="Failed", node="node-1", deleting=True)
    made = plan(owner, [ended], now=since + 1.0)
    assert created(made) == {0: first(owner, 0, ended.uid)}
    assert deleted(made) == {}


def test_ended_pods_of_a_full_clique_go() -> None:
    owner = podclique(1)
    ended = pod(owner, 4, phase="Failed", node="node-1")
    assert deleted(plan(owner, [pod(owner, 0, ready=True), ended])) == {ended.name: ended.uid}


# Scale-in (reference 5.3)


def test_scale_in_order() -> None:
    owner = podclique(1)
    current = owner.labels[labels.POD_TEMPLATE_HASH]
    stale = {labels.POD_TEMPLATE_HASH: "stale"}
    ordered = [
        pod(owner, 0, created="2026-09-01T00:00:09Z"),
        pod(owner, 1, created="2026-09-01T00:00:01Z"),
        pod(owner, 10, gated=False, phase="Unknown"),
        pod(owner, 2, node="node-1"),
        pod(owner, 3, node="node-1", phase="Unknown"),
        pod(owner, 4, node="node-1", phase="Running", labels_=stale),
        pod(owner, 5, node="node-1", phase="Running"),
        pod(owner, 6, ready=True, labels_=stale),
        pod(owner, 8, ready=True, created="2026-09-01T00:00:09Z"),
        pod(owner, 9, ready=True),
        pod(owner, 7, ready=True),
    ]
    for shuffled in (ordered, ordered[::-1], ordered[5:] + ordered[:5]):
        assert [one.index for one in scale_in_order(shuffled, current)] == [one.index for one in ordered]


def test_scale_in_takes_the_first_of_that_order() -> None:
    owner = podclique(2)
    pods = [pod(owner, 0), pod(owner, 1, ready=True), pod(owner, 2, ready=True), pod(owner, 3, node="node-1")]
    assert deleted(plan(owner, pods)).keys() == {pods[0].name, pods[3].name}


def test_terminating_pods_are_no_candidates() -> None:
    owner = podclique(1)
    pods = [pod(owner, 0, ready=True), pod(owner, 1, deleting=True)]
    assert plan(owner, pods) == PodPlan()


# What a pod looks like


def built(owner: PodClique, index: int = 0) -> Object:
    return build_pod(owner, index, "name", None)


def test_user_variables_come_after_grove_s_and_never_in_their_place() -> None:
    env = [{"name": "A", "value": "$(GROVE_PCS_NAME)"}, {"name": "GROVE_PCS_NAME", "value": "mine"}]
    spec: Object = {
        "containers": [{"name": "c", "env": env}],
        "initContainers": [{"name": "i", "env": env}, {"name": "j"}],
    }
    owner = podclique(1, podSpec=spec)
    grove = ["GROVE_PCS_NAME", "GROVE_PCS_INDEX", "GROVE_PCLQ_NAME", "GROVE_HEADLESS_SERVICE", "GROVE_PCLQ_POD_INDEX"]
    made = built(owner)["spec"]
    found = [[one["name"] for one in c["env"]] for c in (*made["containers"], *made["initContainers"])]
    assert found == [[*grove, "A"], [*grove, "A"], grove]
    assert made["containers"][0]["env"][0] == {"name": "GROVE_PCS_NAME", "value": "web"}
    assert spec["containers"][0]["env"] == env


def test_gates_of_the_template_stay_beside_ours() -> None:
    gates = [{"name": "example.com/quota"}, {"name": labels.POD_GATE}]
    spec = {"containers": [{"name": "c"}], "schedulingGates": gates}
    made = built(podclique(1, podSpec=spec))["spec"]["schedulingGates"]
    assert made == [{"name": "grove.io/podgang-pending-creation"}, {"name": "example.com/quota"}]


def test_host_name_and_subdomain_are_grove_s() -> None:
    spec = {"containers": [{"name": "c"}], "hostname": "mine", "subdomain": "mine", "schedulerName": "kai-scheduler"}
    made = built(podclique(1, podSpec=spec), 4)["spec"]
    assert (made["hostname"], made["subdomain"], made["schedulerName"]) == ("web-0-a-4", "web-0", "kai-scheduler")


def test_labels_and_annotations_of_the_clique_reach_the_pod_and_grove_s_win() -> None:
    owner = podclique(
        1,
        labels={"app": "x", "grove.io/podclique": "mine", "app.kubernetes.io/part-of": "mine"},
        annotations={"note": "y", "grove.io/topology-name": "t"},
    )
    metadata = built(owner)["metadata"]
    assert metadata["labels"]["app"] == "x"
    assert metadata["labels"]["grove.io/podclique"] == "web-0-a"
    assert metadata["labels"]["app.kubernetes.io/part-of"] == "web"
    assert metadata["annotations"] == {"note": "y"}


def test_pods_of_a_scaled_replica_name_their_base_gang() -> None:
    paper = Paper.of(pod_set(clique("a"), groups=[group("g", ["a"], replicas=2)]))
    base, scaled = (built(paper.podcliques[f"web-0-g-{index}-a"])["metadata"]["labels"] for index in (0, 1))
    assert (base[labels.PODGANG], base.get(labels.BASE_PODGANG)) == ("web-0", None)
    assert (scaled[labels.PODGANG], scaled[labels.BASE_PODGANG]) == ("web-0-g-0", "web-0")
