"""What a PodClique's status keeps of a breach: when it began, whether it counts, and whether it was acted upon."""

from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.plan.breach import breach_of, remaining, terminated_since, termination_mark, was_scheduled
from grove.plan.podclique import podclique_status
from tests.fake_api.objects import merge_patch
from tests.unit.support import Object, Paper, clique, pod, pod_set, template

OBJ = pod_set(clique("a", 3, min_available=2))
TPL = template(OBJ)
FRESH = Paper.of(OBJ).podcliques["web-0-a"]

TERMINATION = "GangTerminationInProgress"


def at(second: int) -> str:
    return f"2026-09-01T00:00:{second:02}Z"


EPOCH = 1788220800.0  # date -u -d 2026-09-01T00:00:00Z +%s


def after(live: PodClique, second: int, *pods: Object, suspended: bool = False, **spec: Any) -> PodClique:
    """The PodClique once its status was written at a second, with these pods."""
    live = PodClique.from_wire(merge_patch(live.wire, {"spec": spec}))
    views = [pod(live, index, **fields) for index, fields in enumerate(pods)]
    status = podclique_status(live, views, TPL, [], at(second), suspended=suspended)
    return PodClique.from_wire(merge_patch(live.wire, {"status": status}))


def conditions(live: PodClique) -> dict[str, tuple[str, str]]:
    return {one.type: (one.status, one.last_transition_time) for one in live.status.conditions}


READY: Object = {"ready": True}
PENDING: Object = {"gated": False}
LOADING: Object = {"node": "n"}
CRASHED: Object = {"node": "n", "status": {"containerStatuses": [{"lastState": {"terminated": {"exitCode": 1}}}]}}


def test_never_scheduled_is_a_breach_that_does_not_count() -> None:
    live = after(FRESH, 1, PENDING, PENDING, PENDING)
    assert conditions(live)["MinAvailableBreached"] == ("True", at(1))
    assert TERMINATION not in conditions(live)
    assert (was_scheduled(live), breach_of(live)) == (False, None)


@pytest.mark.parametrize("state", [READY, LOADING, CRASHED])
def test_scheduled_once_is_enough_for_the_next_breach_to_count(state: Object) -> None:
    live = after(FRESH, 1, PENDING, PENDING)
    live = after(live, 2, state, state)
    assert conditions(live)[TERMINATION] == ("False", at(2))
    live = after(live, 5, PENDING, state)
    assert was_scheduled(live)
    breach = breach_of(live)
    assert breach is not None
    assert breach.since == EPOCH + (2 if state is CRASHED else 5)  # its time begins when it is scheduled
    assert (breach.terminated, breach.reason) == (False, "ScheduledReplicasBelowMinAvailable")


def test_a_breach_keeps_its_time_while_its_reason_changes() -> None:
    live = after(FRESH, 1, READY, READY)
    live = after(live, 3, READY, CRASHED)
    live = after(live, 7, READY)
    breach = breach_of(live)
    assert breach is not None
    assert (breach.since, breach.reason) == (EPOCH + 3, "ScheduledReplicasBelowMinAvailable")


def test_a_breach_ends_when_the_minimum_is_back() -> None:
    live = after(FRESH, 1, READY, READY)
    live = after(live, 3, READY)
    live = after(live, 5, READY, LOADING)
    assert breach_of(live) is None
    assert was_scheduled(live)


def test_idle_forgets_that_it_ever_ran() -> None:
    live = after(FRESH, 1, READY, READY)
    live = after(live, 3, replicas=0)
    assert conditions(live)["MinAvailableBreached"][0] == "False"
    assert TERMINATION not in conditions(live)
    live = after(live, 5, PENDING, PENDING, replicas=3)
    assert breach_of(live) is None


def test_an_update_is_no_breach() -> None:
    live = after(FRESH, 1, READY, READY)
    live = after(live, 3, READY, suspended=True)
    found = next(one for one in live.status.conditions if one.type == "MinAvailableBreached")
    assert (found.status, found.reason) == ("Unknown", "UpdateInProgress")
    assert breach_of(live) is None
    live = after(live, 5, READY)
    breach = breach_of(live)
    assert breach is not None
    assert breach.since == EPOCH + 5  # its time begins when the update has ended


# Termination


def marked(live: PodClique, second: int, *created: int) -> PodClique:
    pods = [pod(live, index, created=at(when)) for index, when in enumerate(created)]
    return PodClique.from_wire(merge_patch(live.wire, {"status": termination_mark(live, pods, "why", at(second))}))


def test_a_termination_takes_the_pods_of_then_and_none_later() -> None:
    live = marked(after(FRESH, 1, READY, READY), 20, 3, 9, 5)
    assert live.status.pods_terminated_until == at(9)
    pods = [pod(live, index, created=at(when)) for index, when in enumerate((3, 9, 10))]
    assert [one.index for one in remaining(live, pods)] == [2]


def test_without_a_termination_all_active_pods_remain() -> None:
    pods = [pod(FRESH, 0), pod(FRESH, 1, deleting=True), pod(FRESH, 2, phase="Failed")]
    assert [one.index for one in remaining(FRESH, pods)] == [0]
    assert marked(FRESH, 20).status.pods_terminated_until is None


def test_one_breach_terminates_once() -> None:
    live = after(after(FRESH, 1, READY, READY), 3, READY)
    live = marked(live, 20, 1)
    breach = breach_of(live)
    assert breach is not None
    assert breach.terminated
    later = {"gated": False, "created": at(21)}
    live = after(live, 30, later, later)  # new pods find no node
    breach = breach_of(live)
    assert breach is not None
    assert (breach.terminated, breach.since) == (True, EPOCH + 3)


def test_it_ends_with_the_minimum_and_the_next_breach_counts_anew() -> None:
    live = marked(after(after(FRESH, 1, READY, READY), 3, READY), 20, 1)
    new = {"ready": True, "created": at(21)}
    live = after(live, 30, new, new)
    assert conditions(live)[TERMINATION] == ("False", at(30))
    live = after(live, 40, new)
    breach = breach_of(live)
    assert breach is not None
    assert (breach.terminated, breach.since) == (False, EPOCH + 40)


def test_pods_that_go_do_not_count_as_the_minimum() -> None:
    """The PodClique was healthy when its gang was terminated, and its pods are not yet deleted."""
    live = marked(after(FRESH, 1, READY, READY), 20, 1)
    old = {"ready": True, "created": at(1)}
    live = after(live, 21, old, old)
    assert conditions(live)[TERMINATION] == ("True", at(20))
    assert live.status.replicas == live.status.ready_replicas == 0


def test_who_was_marked_is_known_also_when_it_is_over() -> None:
    live = marked(after(FRESH, 1, READY, READY), 20, 1)
    assert terminated_since(live, EPOCH + 20.7)  # the status has whole seconds
    assert not terminated_since(live, EPOCH + 21)
    new = {"ready": True, "created": at(21)}
    live = after(live, 30, new, new)
    assert terminated_since(live, EPOCH + 20)
    assert not terminated_since(FRESH, 0)


def test_conditions_of_others_stay() -> None:
    foreign = {"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": at(1)}
    live = PodClique.from_wire(merge_patch(FRESH.wire, {"status": {"conditions": [foreign]}}))
    live = marked(after(live, 2, READY, READY), 20, 1)
    assert live.wire["status"]["conditions"][0] == foreign
    assert {"MinAvailableBreached", "PodCliqueScheduled", TERMINATION} < conditions(live).keys()


@pytest.mark.parametrize("text", ["", "yesterday", "2026-13-01T00:00:00Z"])
def test_a_time_that_cannot_be_read_is_long_ago(text: str) -> None:
    status = {"conditions": [
        {"type": "MinAvailableBreached", "status": "True", "reason": "R", "message": "", "lastTransitionTime": text},
        {"type": TERMINATION, "status": "False", "reason": "R", "message": "", "lastTransitionTime": text},
    ]}  # fmt: skip
    breach = breach_of(PodClique.from_wire(merge_patch(FRESH.wire, {"status": status})))
    assert breach is not None
    assert breach.since == 0.0
