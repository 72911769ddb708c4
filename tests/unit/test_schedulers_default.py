"""Kubernetes' own scheduler: who waits, priorities, and what is said where there are no gangs."""

from typing import Any

import pytest

from grove.admission.defaults import default_podcliqueset
from grove.admission.fields import Field
from grove.plan.conditions import Want
from grove.schedulers import UnknownBackend, Unplaced
from grove.schedulers.default import OTHERS_SECONDS, DefaultScheduler
from grove.schedulers.native import COMPOSITE, PODGROUP
from grove.schedulers.waiting import LEAVING_SECONDS
from tests.unit.gangs import BOTH, EPOCH, Offer, Stage, condition_at, counts, scaled, stage, with_condition
from tests.unit.support import Object, Paper, clique, group, pod_set

# Who waits


def test_surplus_waits_until_the_minimum_is_placed_and_then_for_the_other_gangs() -> None:
    made = stage()
    for name in ("web-0", "web-0-g-0"):
        made.settle(name)
    assert made.held("web-0") == {("web-0-a", 2), ("web-0-g-0-b", 1), ("web-0-g-0-c", 1)}
    assert made.held("web-0-g-0") == {("web-0-g-1-b", 1), ("web-0-g-1-c", 1)}
    place(made, "web-0-a", 0, 1)
    place(made, "web-0-g-0-b", 0)
    assert len(made.held("web-0")) == 3
    place(made, "web-0-g-0-c", 0)
    # Its own minimum is placed; now it waits for the scaled gang.
    assert len(made.held("web-0")) == 3
    place(made, "web-0-g-1-b", 0)
    place(made, "web-0-g-1-c", 0)
    assert made.held("web-0") == made.held("web-0-g-0") == set()


def place(made: Stage, podclique: str, *indices: int) -> None:
    made.remove(podclique, *indices)
    made.add(podclique, *indices, node="n")


def test_surplus_waits_for_other_gangs_no_longer_than_the_scheduler_has_refused_them() -> None:
    made = stage()
    for name in ("web-0", "web-0-g-0"):
        made.settle(name)
    place(made, "web-0-a", 0, 1)
    place(made, "web-0-g-0-b", 0)
    place(made, "web-0-g-0-c", 0)
    # Until it was tried, the other gang counts from the making of its pods.
    decision = made.backend.decide(made.view("web-0", EPOCH + 1))
    assert decision.again_after == OTHERS_SECONDS - 1
    with_condition(made, "PodGroupInitiallyScheduled", "False", "no room", "2026-09-01T00:10:00Z")
    refused = EPOCH + 600
    decision = made.backend.decide(made.view("web-0", refused + OTHERS_SECONDS - 5))
    assert (len(decision.hold), decision.again_after) == (3, 5.0)
    decision = made.backend.decide(made.view("web-0", refused + OTHERS_SECONDS))
    assert (decision.hold, decision.again_after) == (frozenset(), None)
    # The scaled gang's own surplus waits for its own minimum, however long.
    assert len(made.held("web-0-g-0", refused + 100 * OTHERS_SECONDS)) == 2


def test_surplus_stands_in_where_a_minimum_is_not_met_without() -> None:
    """A pod that a scale-in left over, alone beyond its clique's minimum index, must not wait for itself."""
    made = stage(pod_set(clique("a", 3, min_available=1)))
    made.remove("web-0-a", 0, 1)
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 1)
    made.settle("web-0")
    assert counts(made) == {}
    assert made.held("web-0") == set()


def placed_at(made: Stage, seconds: float) -> None:
    """The base gang's minimum got its nodes so many seconds after NOW."""
    for podclique, index in (("web-0-a", 0), ("web-0-a", 1), ("web-0-g-0-b", 0), ("web-0-g-0-c", 0)):
        made.remove(podclique, index)
        status = {"conditions": [condition_at("PodScheduled", "True", seconds)]}
        made.add(podclique, index, node="n", status=status)


def test_other_replicas_base_gangs_come_before_scaled_gangs_and_all_gangs_before_surplus() -> None:
    """GS-12: room for the minimums of two replicas is not taken by a scaled gang of the first."""
    made, other = stage(), stage()
    made.settle("web-0")
    far = other.view("web-0").gangs
    base, further = far["web-0"], far["web-0-g-0"]
    made.elsewhere = [Unplaced(base), Unplaced(further, base)]
    placed_at(made, 600)
    decision = made.backend.decide(made.view("web-0-g-0", EPOCH + 610))
    assert (len(decision.hold), decision.again_after) == (4, OTHERS_SECONDS - 10)
    placement = made.backend.placement(made.view("web-0-g-0", EPOCH + 610))
    assert placement.held == "the base gang web-0 is placed first"
    # In the end it starts, without its surplus.
    late = made.backend.decide(made.view("web-0-g-0", EPOCH + 600 + OTHERS_SECONDS))
    assert {name.rpartition("-")[0] for name in late.hold} == {"web-0-g-1-b", "web-0-g-1-c"}
    assert (len(late.hold), late.again_after) == (2, None)
    # Its turn has come once the other base gang is placed; surplus waits for the other's scaled gang, too.
    placed_at(other, 700)
    base = other.view("web-0").gangs["web-0"]
    made.elsewhere = [Unplaced(further, base)]
    assert len(made.held("web-0-g-0", EPOCH + 701)) == 2
    place(made, "web-0-g-1-b", 0)
    place(made, "web-0-g-1-c", 0)
    decision = made.backend.decide(made.view("web-0", EPOCH + 710))
    assert (len(decision.hold), decision.again_after) == (3, OTHERS_SECONDS - 10)
    made.elsewhere = []
    assert made.held("web-0", EPOCH + 710) == set()


def test_a_gang_without_pods_is_not_waited_for() -> None:
    made, other = stage(), stage()
    other.paper.pods = {}
    made.elsewhere = [Unplaced(other.view("web-0").gangs["web-0"])]
    placed_at(made, 0)
    assert len(made.held("web-0-g-0")) == 2


PAIR = pod_set(clique("a", 1), clique("b", 1))


@pytest.mark.parametrize("served", [BOTH, {PODGROUP}])
def test_a_gang_that_starts_anew_waits_for_its_old_pods_as_long_as_they_may_take(served: Any) -> None:
    made = stage(PAIR, served)
    for podclique in ("web-0-a", "web-0-b"):
        made.add(podclique, 0, name=f"old-{podclique}", node="n", deleting=True)
    decision = made.backend.decide(made.view("web-0"))
    # Their grace period ends at NOW.
    assert (len(decision.hold), decision.again_after) == (2, LEAVING_SECONDS)
    assert made.backend.placement(made.view("web-0")).held == "pods of it from before are still ending"
    assert made.held("web-0", EPOCH + LEAVING_SECONDS) == set()  # a dead node keeps its pods for ever


def test_a_pod_that_is_replaced_in_a_running_gang_does_not_wait() -> None:
    made = stage(PAIR)
    made.remove("web-0-b", 0)
    made.add("web-0-b", 0, node="n")
    made.add("web-0-a", 0, name="old", node="n", deleting=True)
    assert made.held("web-0") == set()


def test_a_gang_of_one_pod_has_no_parts_to_wait_for() -> None:
    made = stage(pod_set(clique("a", 1)))
    made.add("web-0-a", 0, name="old", node="n", deleting=True)
    assert made.held("web-0") == set()


def test_a_gang_that_is_driven_out_waits_when_its_first_pod_goes() -> None:
    """The scheduler deletes one pod after the other."""
    made = stage(PAIR)
    made.remove("web-0-b", 0)
    made.add("web-0-b", 0, node="n")
    status = {"conditions": [condition_at("DisruptionTarget", "True", 0, reason="PreemptionByScheduler")]}
    made.add("web-0-a", 0, name="old", node="n", deleting=True, status=status)
    assert made.held("web-0") == {("web-0-a", 0)}


def test_a_gang_that_is_driven_out_waits_though_its_first_pod_is_gone() -> None:
    """Where pods end at once, the one that is gone tells nobody that the next will follow."""
    made = stage(PAIR)
    made.remove("web-0-b", 0)
    made.add("web-0-b", 0, node="n")
    assert made.held("web-0") == set()
    made.driven_out = EPOCH
    decision = made.backend.decide(made.view("web-0"))
    assert (len(decision.hold), decision.again_after) == (1, LEAVING_SECONDS)
    assert made.held("web-0", EPOCH + LEAVING_SECONDS) == set()  # it stays after all
    made.remove("web-0-b", 0)
    made.add("web-0-b", 0)
    assert made.held("web-0") == set()  # all of it is gone, it can start anew


# Priority, and what keeps a set from having gangs


@pytest.mark.parametrize(
    ("own", "cliques", "expected"),
    [("high", ["", "low"], "high"), ("", ["low", "low"], "low"), ("", ["", ""], None), ("high", ["", ""], "high")],
)
def test_a_gang_and_its_pods_have_one_priority(own: str, cliques: list[str], expected: str | None) -> None:
    obj = pod_set(clique("a", 1), clique("b", 2, min_available=1))
    if own:
        obj["spec"]["template"]["priorityClassName"] = own
    for one, name in zip(obj["spec"]["template"]["cliques"], cliques, strict=True):
        if name:
            one["spec"]["podSpec"]["priorityClassName"] = name
    made = stage(obj)
    pods = made.add("web-0-a", 5) + made.add("web-0-b", 5, 6)
    assert {pod["spec"].get("priorityClassName") for pod in pods} == {expected}
    made.settle("web-0")
    specs = [*made.offer.specs(PODGROUP).values(), *made.offer.specs(COMPOSITE).values()]
    assert {spec.get("priorityClassName") for spec in specs} == {expected}


@pytest.mark.parametrize(
    ("changes", "config", "served", "told"),
    [
        ([{}, {}], {}, set(), "the cluster serves no PodGroups of scheduling.k8s.io/v1beta1"),
        ([{}, {}], {"gangScheduling": False}, BOTH, "gangScheduling is off in the operator's configuration"),
        ([{"priorityClassName": "x"}, {}], {}, BOTH, "the cliques differ in priority"),
        ([{"preemptionPolicy": "Never"}, {}], {}, BOTH, "the cliques differ in preemptionPolicy"),
        ([{"schedulingGroup": {"podGroupName": "mine"}}, {}], {}, BOTH, "the pods have a schedulingGroup"),
        ([{}, {"evictionResponders": [{}]}], {}, BOTH, "the pods have a schedulingGroup or evictionResponders"),
    ],
)
def test_where_there_is_no_gang_it_is_said_why(changes: list[Object], config: Object, served: Any, told: str) -> None:
    obj = pod_set(clique("a", 1), clique("b", 1))
    for one, change in zip(obj["spec"]["template"]["cliques"], changes, strict=True):
        one["spec"]["podSpec"].update(change)
    made = Stage(Paper.of(obj), DefaultScheduler("default-scheduler", config), Offer(set(served)))
    made.fill()
    [pod] = made.add("web-0-a", 1)
    assert pod["spec"].get("schedulingGroup") == changes[0].get("schedulingGroup")
    decision = made.backend.decide(made.view("web-0"))
    assert (decision.writes, decision.hold) == ((), frozenset())
    [want] = made.backend.placement(made.view("web-0")).conditions
    assert (want.type, want.status, want.reason) == ("GangGuaranteed", False, "NoGangScheduling")
    assert want.message.startswith(f"pods are placed one by one: {told}")


@pytest.mark.parametrize(("served", "reason"), [(BOTH, "CompositePodGroup"), ({PODGROUP}, "PodGroup")])
def test_the_podgang_says_what_it_can_rely_on(served: Any, reason: str) -> None:
    made = stage(served=served)
    text = "the minimum of all groups is placed together or not at all"
    assert made.backend.placement(made.view("web-0")).conditions == (Want("GangGuaranteed", True, reason, text),)


def test_the_schedulers_words_are_passed_on() -> None:
    made = stage()
    made.settle("web-0")
    assert made.backend.placement(made.view("web-0")).reason == ""
    with_condition(made, "PodGroupInitiallyScheduled", "False", "0/3 nodes are available.")
    assert made.backend.placement(made.view("web-0")).reason == "0/3 nodes are available"
    with_condition(made, "PodGroupInitiallyScheduled", "True", "placed")
    assert made.backend.placement(made.view("web-0")).reason == ""


def test_a_podclique_that_is_gone_is_waited_for() -> None:
    made = stage()
    view = made.view("web-0")
    del made.paper.podcliques["web-0-a"]
    assert made.backend.decide(view).writes == ()


def test_only_true_and_false_turn_gangs_on_and_off() -> None:
    with pytest.raises(ValueError, match="gangScheduling: Invalid value: 'no': must be true or false"):
        DefaultScheduler("default-scheduler", {"gangScheduling": "no"})


def test_fields_that_cost_the_gang_are_warned_of() -> None:
    pod: Object = {"containers": [], "schedulingGroup": {}, "evictionResponders": []}
    root = Field({"spec": {"template": {"cliques": [{"name": "a", "spec": {"podSpec": pod}}]}}})
    backend = DefaultScheduler("default-scheduler", {})
    found = [str(finding) for finding in backend.validate(root, Offer(BOTH))]
    path = "spec.template.cliques[0].spec.podSpec"
    assert [text.partition(": ")[0] for text in found] == [f"{path}.schedulingGroup", f"{path}.evictionResponders"]
    assert list(backend.validate(root, Offer())) == []


@pytest.mark.parametrize(
    ("cliques", "groups", "size"),
    [
        ([clique("a", 1000)], [], 0),
        ([clique("a", 1001)], [], 1001),
        ([clique("a", 5000, 600), clique("b", 401)], [], 1001),
        ([clique("a", 5000, 500), clique("b", 500)], [], 0),
        ([clique("a", 1), clique("b", 100), clique("c", 150)], [group("g", ["b", "c"], 9, 4)], 1001),
        ([clique("a", 1), clique("b", 100), clique("c", 150)], [group("g", ["b", "c"], 9, 3)], 0),
    ],
    ids=str,
)
def test_of_a_gang_that_keeps_the_scheduler_long_from_other_pods_people_are_warned(
    cliques: list[Object], groups: list[Object], size: int
) -> None:
    root = Field(default_podcliqueset(pod_set(*cliques, groups=groups)))
    backend = DefaultScheduler("default-scheduler", {})
    found = [str(finding) for finding in backend.validate(root, Offer(BOTH))]
    assert [text.partition(" pods")[0] for text in found] == [f"spec.template.cliques: {size}"] * bool(size)
    assert list(backend.validate(root, Offer())) == [], "without gangs pods are placed one by one"


def test_of_a_scheduler_without_profile_nothing_is_known() -> None:
    made = Stage(Paper.of(pod_set(clique("a", 1))), UnknownBackend("theirs"), Offer(BOTH))
    made.fill()
    [want] = made.backend.placement(made.view("web-0")).conditions
    assert (want.wire_status, want.reason) == ("Unknown", "NoProfile")
    assert want.message == "the operator's configuration has no profile for the scheduler theirs"
    assert made.settle("web-0") == ()


def test_while_the_root_is_made_anew_no_gate_comes_off() -> None:
    """A clique goes idle before the gang has started: the root asks for one group less."""
    made = stage()
    made.settle("web-0")
    a = made.paper.podcliques["web-0-a"]
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 0)
    del made.paper.pods[a.uid]
    every = {(podclique, index) for podclique in ("web-0-g-0-b", "web-0-g-0-c") for index in range(2)}
    decision = made.backend.decide(made.view("web-0"))
    assert made.held("web-0") == every
    made.offer.write(decision.writes)
    assert made.held("web-0") != every
