"""When a PodClique is below its minimum, and what its status keeps of that until the gang is terminated or whole again.

Two conditions and a time hold all there is to remember, so that a restart of the operator changes nothing:

- MinAvailableBreached with the reference's reasons (behaviour 5.5); its lastTransitionTime is when the breach began.
- GangTerminationInProgress: absent until the PodClique has its minimum on nodes for the first time, False from then on,
  True from a termination until the minimum is there again. So a clique that never ran terminates nothing, and one
  breach terminates once.
- status.podsTerminatedUntil: pods created up to then are to go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grove.api.base import find_condition
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.api.times import epoch, rfc3339
from grove.plan.conditions import Want, find, is_true, merged
from grove.plan.observed import PodView

_ARMED = "the gang is terminated once the PodClique has been below minAvailable for terminationDelay"


@dataclass(frozen=True, slots=True)
class Breach:
    """A PodClique that had its minimum of pods and has it no more."""

    since: float
    """seconds since the epoch"""
    terminated: bool
    """its gang has been terminated for it"""
    reason: str
    """reason of MinAvailableBreached"""


def breach_of(podclique: PodClique) -> Breach | None:
    """The breach that a PodClique's status tells of; None when there is none, or it never had its minimum."""
    breached = find_condition(podclique.status.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    termination = find_condition(podclique.status.conditions, ConditionType.GANG_TERMINATION_IN_PROGRESS)
    if podclique.deleting or breached is None or breached.status != "True" or termination is None:
        return None
    since, terminated = epoch(breached.last_transition_time), termination.status == "True"
    # One that was below its minimum from the start has the whole time from when it had its minimum on nodes.
    since = since if terminated else max(since, epoch(termination.last_transition_time))
    return Breach(since, terminated, breached.reason)


def was_scheduled(podclique: PodClique) -> bool:
    """Whether the PodClique has had its minimum of pods on nodes since it was made or woke from idle."""
    return find_condition(podclique.status.conditions, ConditionType.GANG_TERMINATION_IN_PROGRESS) is not None


def never_had_minimum(podclique: PodClique) -> bool:
    """Whether the PodClique waits for its minimum of nodes, which it has not had since it was made or woke from idle.

    One that an update is at work on does not count.
    """
    breached = find_condition(podclique.status.conditions, ConditionType.MIN_AVAILABLE_BREACHED)
    waits = breached is not None and breached.status == "True" and not podclique.deleting
    return waits and not was_scheduled(podclique)


def terminated_since(podclique: PodClique, seconds: float) -> bool:
    """Whether a termination of the gang has begun, and maybe ended, since that time (seconds since the epoch)."""
    found = find_condition(podclique.status.conditions, ConditionType.GANG_TERMINATION_IN_PROGRESS)
    return found is not None and epoch(found.last_transition_time) >= int(seconds)


def termination_message(podclique: PodClique) -> str:
    """Why the gang was terminated; "" unless that is still in progress."""
    found = find_condition(podclique.status.conditions, ConditionType.GANG_TERMINATION_IN_PROGRESS)
    return found.message if found is not None and found.status == "True" else ""


def terminated_until(podclique: PodClique) -> float:
    """Pods created up to this time, in seconds since the epoch, go with the gang that was terminated."""
    until = podclique.status.pods_terminated_until
    return epoch(until) if until else float("-inf")


def remaining(podclique: PodClique, pods: Iterable[PodView]) -> list[PodView]:
    """The active pods of a PodClique without those that go with a terminated gang."""
    until = terminated_until(podclique)
    return [pod for pod in pods if pod.active and pod.created > until]


def termination_mark(podclique: PodClique, pods: Iterable[PodView], message: str, now: str) -> dict[str, Any]:
    """The status fields that terminate the pods a PodClique has now. `now` is RFC 3339.

    The time is that of the newest pod, by the API server's own clock: whatever takes its place was created later.
    """
    kind = ConditionType.GANG_TERMINATION_IN_PROGRESS
    live = (podclique.wire.get("status") or {}).get("conditions") or ()
    others = [condition for condition in live if condition.get("type") != kind]
    status: dict[str, Any] = {
        "conditions": merged(others, [Want(kind, True, Reason.GANG_TERMINATION_ACTIVE, message)], now)
    }
    newest = max((pod.created for pod in pods), default=0.0)
    if newest:
        status["podsTerminatedUntil"] = rfc3339(newest)
    return status


def breach_conditions(
    live: Sequence[Mapping[str, Any]], present: Sequence[PodView], minimum: int, *, suspended: bool
) -> list[Want]:
    """MinAvailableBreached and GangTerminationInProgress as they should read; a type that is missing here should go.

    `present` are the pods that count, `minimum` is 0 for an idle PodClique, `live` the conditions there are;
    `suspended`: an update is at work on the PodClique.
    """
    scheduled = sum(pod.scheduled for pod in present)
    breach = _breach(present, scheduled, minimum, suspended=suspended)
    kind = ConditionType.GANG_TERMINATION_IN_PROGRESS
    if not minimum:
        return [breach]
    if is_true(live, kind) and breach.status is not False:
        termination = find(live, kind)
        return [breach, Want(kind, True, termination.get("reason", ""), termination.get("message", ""))]
    if scheduled >= minimum or find(live, kind):
        return [breach, Want(kind, False, Reason.MIN_AVAILABLE_REACHED, _ARMED)]
    return [breach]


def _breach(present: Sequence[PodView], scheduled: int, minimum: int, *, suspended: bool) -> Want:
    kind = ConditionType.MIN_AVAILABLE_BREACHED
    if suspended:
        return Want(kind, None, Reason.UPDATE_IN_PROGRESS, "pods are being replaced by the update")
    if scheduled < minimum:
        text = f"{scheduled} pods are scheduled, at least {minimum} are needed"
        return Want(kind, True, Reason.SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE, text)
    bad = sum(pod.scheduled and (pod.errored or pod.started_not_ready) for pod in present)
    text = f"{scheduled - bad} pods are ready or starting, at least {minimum} are needed"
    if scheduled - bad < minimum:
        return Want(kind, True, Reason.INSUFFICIENT_READY_PODS, text)
    return Want(kind, False, Reason.SUFFICIENT_READY_PODS, text)
