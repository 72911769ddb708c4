"""What a PodGang says of itself: how far it is, what keeps it, and what is news in that."""

from dataclasses import replace
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.plan.conditions import Want, find
from grove.plan.gangstatus import Due, GangStatus, Surroundings, gang_status
from grove.plan.placement import Placement
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set

LATER = "2026-09-01T01:00:00Z"
EPOCH = 1788220800.0  # NOW
OBJ = pod_set(clique("a", 2), clique("b", 3, min_available=1), groups=[group("g", ["b"], 2, 1)])
NO_ROOM = "0/40 nodes are available: 33 node(s) didn't match Pod's node affinity/selector, 7 Insufficient cpu."


def refused(message: str) -> Object:
    return {"phase": "Pending", "conditions": [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    ]}  # fmt: skip


def shown(made: Paper, live: Object | None = None, gang: str = "web-0", now: str = NOW, **around: Any) -> GangStatus:
    state = made.state(gang)
    if state.gang.base:
        around["base"] = made.state(state.gang.base)
    return gang_status(state, live or {}, Surroundings(**around), complete=state.complete, now=now)


def condition(status: GangStatus, kind: str) -> tuple[str, str, str]:
    found = find(status.status["conditions"], kind)
    return found["status"], found["reason"], found["message"]


def paper(**fields: Any) -> Paper:
    made = Paper.of(OBJ)
    made.fill(**fields)
    return made


# Why it is pending


def test_pods_that_are_missing_and_why() -> None:
    made = paper()
    made.pods["uid-web-0-a"].pop()
    error = {"code": "ERR_CREATE_POD", "description": "create Pod: exceeded quota: pods", "observedAt": NOW}
    wire = merge_patch(made.podcliques["web-0-a"].wire, {"status": {"lastErrors": [error]}})
    made.podcliques["web-0-a"] = PodClique.from_wire(wire)
    status = shown(made)
    wanted = ("False", "PodGangPodsCreationPending",
              "waiting for pods to be created: web-0-a has 1 of 2; create Pod: exceeded quota: pods")  # fmt: skip
    assert condition(status, "Initialized") == condition(status, "Scheduled") == wanted
    (notice,) = status.notices
    assert notice.message == f"PodGang web-0 is {wanted[2]}"


def test_pods_that_are_just_being_made_are_no_news() -> None:
    made = paper()
    made.pods["uid-web-0-a"].pop()
    assert shown(made).notices == ()


def test_what_the_scheduler_answered() -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = []
    made.add("web-0-a", 0, node="n")
    made.add("web-0-a", 1, gated=False, status=refused(NO_ROOM))
    made.pods["uid-web-0-g-0-b"] = []
    made.add("web-0-g-0-b", 0, 1, 2, node="n")
    status = shown(made)
    text = f"waiting for scheduled pods: web-0-a has 1 of 2; the scheduler says: {NO_ROOM}"
    assert condition(status, "Scheduled") == ("False", "Unschedulable", text)
    assert [(notice.reason, notice.message) for notice in status.notices] == [
        ("PodGangPending", f"PodGang web-0 is {text}")
    ]
    assert status.status["phase"] == "Pending"


def test_what_the_back_end_reads_back_says_more() -> None:
    made = paper(gated=False)
    placement = Placement(reason="3 of 5 pods fit", score=0.75, conditions=(Want("Extra", True, "R", "m"),))
    status = shown(made, placement=placement)
    assert condition(status, "Scheduled")[1:] == (
        "Unschedulable",
        "waiting for scheduled pods: web-0-a has 0 of 2, web-0-g-0-b has 0 of 1; the scheduler says: 3 of 5 pods fit",
    )
    assert status.status["placementScore"] == 0.75
    assert condition(status, "Extra") == ("True", "R", "m")


def test_nobody_has_answered_yet() -> None:
    status = shown(paper(gated=False))
    assert condition(status, "Scheduled")[1] == "Waiting"
    assert status.notices == ()
    assert "placementScore" not in status.status


def test_gates_of_others_are_named() -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = [replace(pod, gates=("example.com/hold",)) for pod in made.pods["uid-web-0-a"]]
    status = shown(made)
    reason, message = condition(status, "Scheduled")[1:]
    assert reason == "SchedulingGated"
    assert message.endswith("; scheduling gate example.com/hold holds 2 of web-0-a")
    assert len(status.notices) == 1


def test_a_scaled_gang_waits_for_its_base() -> None:
    made = paper()
    status = shown(made, gang="web-0-g-0")
    reason, message = condition(status, "Scheduled")[1:]
    assert reason == "WaitingForBaseGang"
    assert "its base gang web-0 is not scheduled" in message
    assert status.notices == ()  # the base gang tells why


def test_above_the_minimum_refusals_do_not_matter() -> None:
    made = paper(node="n")
    made.pods["uid-web-0-g-0-b"][1] = replace(made.pods["uid-web-0-g-0-b"][1], scheduled=False, refusal=NO_ROOM)
    assert condition(shown(made), "Scheduled")[:2] == ("True", "MinimumPlaced")


def test_a_sentence_stays_short() -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = [
        replace(pod, refusal="no\n" * 5000 + "é") for pod in made.pods["uid-web-0-a"]
    ]  # fmt: skip
    message = condition(shown(made), "Scheduled")[2]
    assert len(message) < 600
    assert "\n" not in message


# What is news


@pytest.mark.parametrize(
    ("now", "news"),
    [
        (NO_ROOM, False),
        ("0/41 nodes are available: 33 node(s) didn't match Pod's node affinity/selector, 8 Insufficient cpu.", False),
        # With other numbers the parts come in another order.
        ("0/41 nodes are available: 4 Insufficient cpu, 37 node(s) didn't match Pod's node affinity/selector.", False),
        ("0/40 nodes are available: 40 Insufficient memory.", True),
        ("0/40 nodes are available: 33 node(s) had untolerated taint(s), 7 Insufficient cpu.", True),
    ],
)
def test_numbers_are_no_news(now: str, news: bool) -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = [replace(pod, refusal=NO_ROOM) for pod in made.pods["uid-web-0-a"]]
    before = shown(made)
    made.pods["uid-web-0-a"] = [replace(pod, refusal=now) for pod in made.pods["uid-web-0-a"]]
    after = shown(made, before.status, now=LATER)
    assert (after.status != before.status) == news
    assert bool(after.notices) == news


def test_a_pod_more_is_shown_but_no_news() -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = [replace(pod, refusal=NO_ROOM) for pod in made.pods["uid-web-0-a"]]
    before = shown(made)
    made.pods["uid-web-0-a"][0] = replace(made.pods["uid-web-0-a"][0], scheduled=True, refusal="")
    after = shown(made, before.status, now=LATER)
    assert "web-0-a has 1 of 2" in condition(after, "Scheduled")[2]
    assert after.notices == ()


def test_the_same_again_is_news() -> None:
    made = paper(gated=False)
    made.pods["uid-web-0-a"] = [replace(pod, refusal=NO_ROOM) for pod in made.pods["uid-web-0-a"]]
    first = shown(made)
    placed = paper(node="n")
    assert len(first.notices) == len(shown(made, shown(placed, first.status).status).notices) == 1


# Ready and Running


def test_phases_and_conditions_on_the_way() -> None:
    for fields, phase, verdicts in (
        ({}, "Pending", ("True", "False", "False")),
        ({"node": "n"}, "Starting", ("True", "True", "False")),
        ({"ready": True}, "Running", ("True", "True", "True")),
    ):
        status = shown(paper(**fields))
        assert status.status["phase"] == phase
        assert tuple(condition(status, kind)[0] for kind in ("Initialized", "Scheduled", "Ready")) == verdicts
        assert condition(status, "Unhealthy")[:2] == ("False", "SufficientReadyPods")
        assert find(status.status["conditions"], "DisruptionTarget") == {}


# Unhealthy, and termination


def breach(made: Paper, podclique: str, *, terminated: bool = False, since: str = NOW) -> None:
    conditions = [
        {"type": "MinAvailableBreached", "status": "True", "reason": "InsufficientReadyPods", "message": "m"},
        {"type": "GangTerminationInProgress", "status": str(terminated), "reason": "R", "message": "it was time"},
    ]
    wire = made.podcliques[podclique].wire
    timed = [{**one, "lastTransitionTime": since} for one in conditions]
    made.podcliques[podclique] = PodClique.from_wire(merge_patch(wire, {"status": {"conditions": timed}}))


DUE = {"web-0-a": Due(EPOCH + 7200, "replica 0 of PodCliqueSet web")}


def test_a_breach_tells_when_pods_will_be_replaced() -> None:
    made = paper(ready=True)
    breach(made, "web-0-a")
    status = shown(made, due=DUE, now=LATER)
    text = (
        "web-0-a has fallen below its minimum of 2; replica 0 of PodCliqueSet web gets new pods at "
        "2026-09-01T02:00:00Z unless it recovers"
    )
    assert condition(status, "Unhealthy") == ("True", "InsufficientReadyPods", text)
    assert [(notice.reason, notice.message) for notice in status.notices] == [
        ("PodGangUnhealthy", f"PodGang web-0: {text}, in 1h")
    ]
    again = shown(made, status.status, due=DUE, now="2026-09-01T01:30:00Z")
    assert again.status == status.status
    assert again.notices == ()


def test_another_time_is_news() -> None:
    made = paper(ready=True)
    breach(made, "web-0-a")
    before = shown(made, due=DUE)
    sooner = {"web-0-a": replace(DUE["web-0-a"], at=EPOCH + 60)}
    assert len(shown(made, before.status, due=sooner).notices) == 1


def test_the_first_to_be_due_is_named() -> None:
    made = paper(ready=True)
    breach(made, "web-0-a")
    breach(made, "web-0-g-0-b")
    due = {**DUE, "web-0-g-0-b": Due(EPOCH + 60, "replica 0 of PodCliqueScalingGroup web-0-g")}
    assert condition(shown(made, due=due), "Unhealthy")[2].startswith("web-0-g-0-b")


def test_a_clique_that_was_left_out_is_told_of_like_a_breach() -> None:
    made = paper(gated=False)
    status = shown(made, due=DUE)
    text = (
        "web-0-a never got its minimum of 2 on nodes, as other pods of the gang did; replica 0 of PodCliqueSet web "
        "gets new pods at 2026-09-01T02:00:00Z unless it recovers"
    )
    assert condition(status, "Unhealthy") == ("True", "ScheduledReplicasBelowMinAvailable", text)
    assert [notice.message for notice in status.notices] == [f"PodGang web-0: {text}, in 2h"]
    assert condition(shown(made), "Unhealthy")[0] == "False"


def test_while_and_after_pods_are_replaced() -> None:
    made = paper(gated=False)
    breach(made, "web-0-a", terminated=True)
    status = shown(made)
    assert condition(status, "DisruptionTarget") == ("True", "GangTerminationActive", "it was time")
    assert condition(status, "Unhealthy")[2].endswith("; the pods have been replaced")
    assert status.notices == ()
    well = shown(paper(ready=True), status.status, now=LATER)
    assert condition(well, "DisruptionTarget")[:2] == ("False", "GangTerminationEnded")
    assert condition(well, "Unhealthy")[0] == "False"


def test_a_disruption_that_a_scheduler_tells_of_is_its_own() -> None:
    theirs = {
        "type": "DisruptionTarget", "status": "True", "reason": "Preempted", "message": "", "lastTransitionTime": NOW
    }  # fmt: skip
    foreign = {"type": "Foreign", "status": "Unknown", "reason": "R", "message": "", "lastTransitionTime": NOW}
    status = shown(paper(ready=True), {"conditions": [foreign, theirs], "placementScore": 0.5}, now=LATER)
    assert status.status["conditions"][:2] == [foreign, theirs]
    assert "placementScore" not in status.status  # so that the one there is stays
