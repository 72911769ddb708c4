"""The PodGang object: references, status, and the order in which a gang is written and set free."""

from typing import Any

import pytest

from grove.api import labels
from grove.api.podgang import PodGang
from grove.plan.gangstatus import Surroundings
from grove.plan.podgang import GangPlan, plan_gang
from grove.runtime.writes import Create, Patch
from tests.fake_api.objects import json_patch, merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored, template

LATER = "2026-09-01T01:00:00Z"
BOTH = pod_set(clique("a", 2, min_available=1), clique("b", 1), groups=[group("g", ["b"], 2, 1)])


def paper(obj: Object = BOTH, **fields: Any) -> Paper:
    result = Paper.of(obj)
    result.fill(**fields)
    return result


def plan(made: Paper, live: PodGang | None, *, gang: str = "web-0", hurry: bool = False) -> GangPlan:
    state = made.state(gang)
    around = Surroundings(made.state(state.gang.base) if state.gang.base else None)
    return plan_gang(made.template, state, around, live, hurry=hurry, now=NOW)


def after(made: Paper, live: PodGang | None = None, **options: Any) -> PodGang:
    """The PodGang once its plan has been carried out."""
    todo = plan(made, live, **options)
    wire = {} if live is None else live.wire
    for write in todo.spec:
        assert isinstance(write, Create | Patch)
        wire = stored(write.body) if isinstance(write, Create) else merge_patch(wire, write.body)
    if todo.status is not None:
        wire = merge_patch(wire, {"status": todo.status.status})
    return PodGang.from_wire(wire)


def references(gang: PodGang) -> dict[str, list[str]]:
    return {one.name: [pod.name for pod in one.pod_references] for one in gang.spec.podgroups}


def names(made: Paper, podclique: str) -> list[str]:
    return sorted(pod.name for pod in made.pods[f"uid-{podclique}"])


def conditions(gang: PodGang) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.reason) for one in gang.status.conditions}


def summary(todo: GangPlan) -> tuple[int, str, int, bool]:
    """Writes of the spec, phase written ("" when no status is), gates lifted, whether something is put off."""
    return len(todo.spec), todo.status.status["phase"] if todo.status else "", len(todo.gates), todo.deferred


NOTHING = (0, "", 0, False)
PUT_OFF = (0, "", 0, True)


# A gang's way to Running


def test_a_gang_that_comes_up_smoothly_takes_two_writes_and_its_gates() -> None:
    made = Paper.of(BOTH)
    assert summary(plan(made, None)) == PUT_OFF
    made.add("web-0-a", 0, 1)
    assert summary(plan(made, None)) == PUT_OFF
    made.fill("web-0")
    assert summary(plan(made, None)) == (1, "", 3, True)
    gang = after(made)
    made.fill("web-0", gated=False)
    assert summary(plan(made, gang)) == PUT_OFF
    made.fill("web-0", node="node-1")
    assert summary(plan(made, gang)) == PUT_OFF
    made.fill("web-0", ready=True)
    assert summary(plan(made, gang)) == (0, "Running", 0, False)
    assert summary(plan(made, after(made, gang))) == NOTHING


def test_one_that_lingers_shows_where_it_stands() -> None:
    made = Paper.of(BOTH)
    gang = after(made, hurry=True)
    assert gang.status.phase == "Pending"
    assert conditions(gang)["Initialized"] == ("False", "PodGangPodsCreationPending")
    assert summary(plan(made, gang, hurry=True)) == NOTHING
    made.fill("web-0", gated=False)
    gang = after(made, gang, hurry=True)
    assert conditions(gang)["Initialized"] == ("True", "PodGangPodsCreated")
    assert conditions(gang)["Scheduled"][0] == "False"
    made.fill("web-0", node="node-1")
    gang = after(made, gang, hurry=True)
    assert (gang.status.phase, conditions(gang)["Scheduled"][0], conditions(gang)["Ready"][0]) == (
        "Starting",
        "True",
        "False",
    )


def test_phases_follow_the_minimums() -> None:
    made = paper(gated=False)
    gang = after(made)
    made.pods["uid-web-0-a"] = []
    made.add("web-0-a", 0, ready=True)  # one of two, one is needed
    made.add("web-0-a", 1, gated=False)
    made.pods["uid-web-0-g-0-b"] = []
    made.add("web-0-g-0-b", 0, node="node-1")
    assert after(made, gang, hurry=True).status.phase == "Starting"
    made.pods["uid-web-0-g-0-b"] = []
    made.add("web-0-g-0-b", 0, ready=True)
    assert after(made, gang).status.phase == "Running"
    made.pods["uid-web-0-g-0-b"] = []
    assert after(made, gang, hurry=True).status.phase == "Pending"


def test_a_message_names_what_is_missing() -> None:
    made = Paper.of(BOTH)
    made.add("web-0-a", 0)
    found = {one.type: one.message for one in after(made, hurry=True).status.conditions}
    assert "web-0-a has 1 of 2" in found["Initialized"]
    assert "web-0-g-0-b has 0 of 1" in found["Initialized"]
    made.fill("web-0", gated=False)
    found = {one.type: one.message for one in after(made, hurry=True).status.conditions}
    assert "web-0-a has 0 of 1" in found["Scheduled"]


def test_a_message_stays_short() -> None:
    made = Paper.of(pod_set(*(clique(f"c{i}") for i in range(40))))
    (initialized, *_) = after(made, hurry=True).status.conditions
    assert "35 more" in initialized.message
    assert len(initialized.message) < 300


# References


def test_references_are_all_pods_of_the_gang_sorted_by_name() -> None:
    made = paper()
    assert references(after(made)) == {"web-0-a": names(made, "web-0-a"), "web-0-g-0-b": names(made, "web-0-g-0-b")}
    assert references(after(made, gang="web-0-g-0")) == {"web-0-g-1-b": names(made, "web-0-g-1-b")}


def test_a_replaced_pod_is_referenced_in_place_of_the_one_before() -> None:
    made = paper(gated=False)
    gang = after(made)
    made.pods["uid-web-0-a"].pop()
    (fresh,) = made.add("web-0-a", 1, predecessor="x")
    todo = plan(made, gang)
    assert [write.name for write in todo.gates if isinstance(write, Patch)] == [fresh.name]
    assert fresh.name in references(after(made, gang))["web-0-a"]
    assert len(references(after(made, gang))["web-0-a"]) == 2


def test_a_running_gang_that_is_short_of_a_pod_keeps_its_references_for_a_moment() -> None:
    made = paper(ready=True)
    gang = after(made, hurry=True)
    gone = made.pods["uid-web-0-a"].pop()
    assert summary(plan(made, gang)) == PUT_OFF
    assert gone.name not in references(after(made, gang, hurry=True))["web-0-a"]


def test_gates_come_off_only_from_pods_that_are_referenced() -> None:
    obj = pod_set(clique("a", 3, min_available=1))
    made = Paper.of(obj)
    made.fill(ready=True)
    gang = after(made, hurry=True)
    made.pods["uid-web-0-a"] = made.pods["uid-web-0-a"][:1]
    (fresh,) = made.add("web-0-a", 1, predecessor="x")  # one more is missing, so references wait
    assert summary(plan(made, gang)) == PUT_OFF
    todo = plan(made, gang, hurry=True)
    assert fresh.name in references(after(made, gang, hurry=True))["web-0-a"]
    assert len(todo.gates) == 1


def test_minimums_are_set_right() -> None:
    made = paper(gated=False)
    gang = after(made)
    wire = merge_patch(gang.wire, {"spec": {"podgroups": [{**gang.wire["spec"]["podgroups"][0], "minReplicas": 9}]}})
    assert after(made, PodGang.from_wire(wire)).spec == gang.spec


# Gates


def test_a_gate_is_removed_by_name_from_the_pod_that_was_seen() -> None:
    spec: Object = {"containers": [{"name": "c"}], "schedulingGates": [{"name": "example.com/quota"}]}
    made = Paper.of(pod_set(clique("a", 1, podSpec=spec)))
    wire = pod_wire(made.podcliques["web-0-a"], 0, uid="u")
    made.add("web-0-a", 0, uid="u")
    (lift,) = plan(made, None).gates
    assert isinstance(lift, Patch)
    assert lift.uid == "u"
    assert isinstance(lift.body, list)
    assert json_patch(wire, lift.body)["spec"]["schedulingGates"] == [{"name": "example.com/quota"}]
    wire["spec"]["schedulingGates"].insert(0, {"name": "example.com/late"})
    with pytest.raises(Exception, match="422"):
        json_patch(wire, lift.body)


def test_pods_of_a_scaled_gang_are_referenced_before_the_base_is_scheduled_but_held() -> None:
    made = paper()
    assert summary(plan(made, None, gang="web-0-g-0")) == (1, "", 0, True)
    gang = after(made, gang="web-0-g-0")
    made.fill("web-0", node="node-1")
    assert summary(plan(made, gang, gang="web-0-g-0")) == (0, "", 1, True)


# Status of others


def test_conditions_of_others_stay() -> None:
    made = paper()
    foreign = {
        "type": "DisruptionTarget", "status": "True", "reason": "Preempted", "message": "", "lastTransitionTime": NOW
    }  # fmt: skip
    gang = after(made)
    wire = merge_patch(gang.wire, {"status": {"conditions": [foreign], "placementScore": 0.5}})
    result = after(made, PodGang.from_wire(wire), hurry=True)
    assert result.wire["status"]["conditions"][0] == foreign
    assert [one.type for one in result.status.conditions] == [
        "DisruptionTarget", "Initialized", "Scheduled", "Ready", "Unhealthy"
    ]  # fmt: skip
    assert result.status.placement_score == 0.5


def test_a_condition_s_time_moves_only_when_it_flips() -> None:
    made = paper()
    gang = after(made, hurry=True)
    made.fill("web-0", ready=True)
    todo = plan_gang(made.template, made.state("web-0"), Surroundings(), gang, hurry=False, now=LATER)
    assert todo.status is not None
    times = {one["type"]: one["lastTransitionTime"] for one in todo.status.status["conditions"]}
    assert times == {"Initialized": NOW, "Scheduled": LATER, "Ready": LATER, "Unhealthy": NOW}


def test_initialized_stays_while_a_running_gang_grows_and_falls_when_all_start_anew() -> None:
    made = paper(ready=True)
    gang = after(made)
    made.pods["uid-web-0-a"].pop()
    assert conditions(after(made, gang, hurry=True))["Initialized"][0] == "True"
    made.pods.clear()
    made.add("web-0-a", 0, predecessor="x")
    restarted = after(made, gang, hurry=True)
    assert conditions(restarted)["Initialized"] == ("False", "PodGangPodsCreationPending")
    assert restarted.status.phase == "Pending"


def test_never_initialized_with_references_missing() -> None:
    made = paper(gated=False)
    gang = after(made)
    wire = merge_patch(gang.wire, {"spec": {"podgroups": []}, "status": None})
    # Pods run, but nothing says that they were ever referenced: the references come first, in the same plan.
    todo = plan(made, PodGang.from_wire(wire), hurry=True)
    assert todo.spec
    assert references(after(made, PodGang.from_wire(wire), hurry=True)) == references(gang)


# Metadata


def gang_of(obj: Object, live: PodGang | None = None, **metadata: Any) -> PodGang:
    made = Paper.of(obj)
    made.template = template({**obj, "metadata": {**obj["metadata"], **metadata}})
    made.fill(gated=False)
    return after(made, live)


def test_labels_and_annotations_of_the_set_are_mirrored() -> None:
    gang = gang_of(
        pod_set(clique("a")),
        labels={"app": "web", "kai.scheduler/queue": "q", "grove.io/x": "y", labels.PART_OF: "mine"},
        annotations={
            "note": "x",
            "grove.io/topology-name": "t",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        },
    )
    assert gang.labels == {
        "app": "web",
        "kai.scheduler/queue": "q",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/part-of": "web",
        "app.kubernetes.io/component": "podgang",
        "grove.io/scheduler-name": "default-scheduler",
    }
    assert gang.annotations == {"note": "x"}


def test_changed_labels_follow_and_foreign_ones_stay() -> None:
    obj = pod_set(clique("a"))
    before = gang_of(obj, labels={"app": "web", "old": "x"}, annotations={"note": "x"})
    fields: Object = {"f:labels": {"f:app": {}, "f:old": {}}, "f:annotations": {"f:note": {}}}
    managed = [{"manager": "grove-operator", "fieldsV1": {"f:metadata": fields}}]
    extra = {"labels": {"foreign": "x"}, "annotations": {"kai.scheduler/skip-podgrouper": "true"}}
    live = PodGang.from_wire(merge_patch(before.wire, {"metadata": {**extra, "managedFields": managed}}))
    result = gang_of(obj, live, labels={"app": "other"})
    assert {k: v for k, v in result.labels.items() if "/" not in k} == {"app": "other", "foreign": "x"}
    assert result.annotations == {"kai.scheduler/skip-podgrouper": "true"}


@pytest.mark.parametrize(("before", "now"), [("", "high"), ("high", "low"), ("low", "")])
def test_priority_class(before: str, now: str) -> None:
    def with_class(name: str) -> Object:
        return pod_set(clique("a"), priorityClassName=name) if name else pod_set(clique("a"))

    live = gang_of(with_class(before))
    assert live.wire["spec"].get("priorityClassName", "") == before
    assert gang_of(with_class(now), live).wire["spec"].get("priorityClassName", "") == now
    assert gang_of(with_class(now), gang_of(with_class(now), live)) == gang_of(with_class(now), live)


def test_what_others_add_to_the_spec_stays() -> None:
    made = paper(ready=True)
    gang = after(made)
    wire = merge_patch(gang.wire, {"spec": {"reuseReservationRef": {"namespace": "default", "name": "x"}}})
    assert summary(plan(made, PodGang.from_wire(wire))) == NOTHING


def test_a_gang_on_its_way_out_is_waited_for() -> None:
    made = paper()
    gang = after(made)
    going = PodGang.from_wire({**gang.wire, "metadata": {**gang.wire["metadata"], "deletionTimestamp": NOW}})
    assert plan(made, going, hurry=True) == GangPlan(made.state("web-0"))
