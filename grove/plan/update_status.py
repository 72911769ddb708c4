"""What a set's status says of its update: begin, turns and end, the condition, and the news."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from grove.api import durations
from grove.api.labels import ConditionType, EventReason, Reason
from grove.api.times import epoch
from grove.plan.conditions import Want
from grove.plan.hashes import is_ours
from grove.plan.progress import current_replica, rolling
from grove.plan.rollout import Part, ReplicaStanding, Snapshot, parts, pick
from grove.plan.template import Template


@dataclass(frozen=True, slots=True)
class Reached:
    """How far a set's children are, by their status."""

    told: bool
    """every child exists and carries the template"""
    converged: bool
    """every replica is available and runs the template"""
    stale: bool
    """some PodClique has pods of another template than its own"""
    counts: Mapping[str, int]
    """updated and total PodCliques and scaling groups, by the names of the fields"""
    standings: Sequence[ReplicaStanding]
    """of each replica of the set"""


@dataclass(frozen=True, slots=True)
class UpdateStatus:
    """The part of a set's status that tells of its update."""

    progress: dict[str, Any] | None
    """status.updateProgress; None before the first update"""
    condition: Want | None


def update_status(
    template: Template, reached: Reached, snapshot: Callable[[Template, int], Snapshot], now: str
) -> UpdateStatus:
    """Work out status.updateProgress (API doc 1.7) and the condition UpdateInProgress. `now` is RFC 3339.

    An update begins in the same write that takes over currentGenerationHash, so the two always speak of the same
    template; the first rollout is no update. It also begins where stale pods are found that nobody else replaces: the
    strategy was OnDelete before, or a status was lost. It ends when every pod carries the template and is ready, and
    the statuses of all children say so.
    """
    status = template.pcs.wire.get("status") or {}
    live = status.get("updateProgress")
    before = status.get("currentGenerationHash")
    if before != template.generation_hash and not reached.told:
        return UpdateStatus(_counted(live, reached), None)
    changed = before != template.generation_hash and is_ours(before or "")
    if not rolling(template):
        return _on_delete(live, reached, now, changed=changed)
    idle = live is None or "updateEndedAt" in live
    if changed or (idle and reached.stale and any(one.stale for one in reached.standings)):
        began: dict[str, Any] = {"updateStartedAt": now}
    elif idle or live is None:
        return UpdateStatus(_counted(live, reached), _ended(live, status, template))
    else:
        began = (
            {"updateStartedAt": live["updateStartedAt"]} if live.get("updateStartedAt") else {"updateStartedAt": now}
        )
    replica = pick(template, reached.standings)
    if replica is None and reached.converged:
        done = {**began, "updateEndedAt": now}
        return UpdateStatus(_counted(done, reached), _ended(done, status, template))
    turn = _turn(replica, live, began, now)
    seen = [] if replica is None else list(parts(template, replica, snapshot(template, replica)))
    stuck, _ = _stuck(seen, turn, now)
    progress = {**began, "currentlyUpdating": [turn]} if turn else began
    return UpdateStatus(_counted(progress, reached), _running(replica, seen, stuck))


def next_deadline(template: Template, snapshot: Callable[[Template, int], Snapshot], now: str) -> float | None:
    """Seconds until the running update counts as stuck if nothing happens; None when it does already, or never will."""
    replica = current_replica(template)
    if replica is None:
        return None
    turn = (template.pcs.wire.get("status") or {})["updateProgress"]["currentlyUpdating"][0]
    return _stuck(list(parts(template, replica, snapshot(template, replica))), turn, now)[1]


def news(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What users should hear when a set's status changes: event type, reason and message."""
    old, new = before.get("updateProgress") or {}, after.get("updateProgress") or {}
    told: list[tuple[str, str, str]] = []
    began = new.get("updateStartedAt") != old.get("updateStartedAt")
    ended = "updateEndedAt" in new and (began or "updateEndedAt" not in old)
    if began:
        told.append(("Normal", EventReason.UPDATE_STARTED, "The template has changed"))
    turn = (new.get("currentlyUpdating") or [None])[0]
    if turn is not None and turn != (old.get("currentlyUpdating") or [None])[0]:
        told.append(("Normal", EventReason.REPLICA_UPDATE_STARTED, f"Updating replica {turn['replicaIndex']}"))
    if ended:
        told.append(("Normal", EventReason.UPDATE_FINISHED, _message(after) or "The update has ended"))
    if _reason(after) == Reason.PROGRESS_DEADLINE_EXCEEDED != _reason(before):
        told.append(("Warning", EventReason.PROGRESS_DEADLINE_EXCEEDED, _message(after)))
    return told


def turned(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    """Whether an update began, went on to another replica or ended: what its children wait for."""
    old, new = before.get("updateProgress") or {}, after.get("updateProgress") or {}
    return any(old.get(key) != new.get(key) for key in ("updateStartedAt", "updateEndedAt", "currentlyUpdating"))


def _on_delete(live: dict[str, Any] | None, reached: Reached, now: str, *, changed: bool) -> UpdateStatus:
    """Begun is ended: the rest is up to whoever deletes pods (reference 7.6)."""
    if changed:
        live = {"updateStartedAt": now, "updateEndedAt": now}
    elif live is not None:
        live = {"updateStartedAt": live.get("updateStartedAt", now), "updateEndedAt": live.get("updateEndedAt", now)}
    if live is None:
        return UpdateStatus(None, None)
    sentence = (
        "every pod runs the template"
        if reached.converged
        else "pods of an older template stay until somebody deletes them: {updatedPodCliquesCount} of "
        "{totalPodCliquesCount} PodCliques and {updatedPodCliqueScalingGroupsCount} of "
        "{totalPodCliqueScalingGroupsCount} scaling groups run the template".format(**reached.counts)
    )
    return UpdateStatus(
        _counted(live, reached), Want(ConditionType.UPDATE_IN_PROGRESS, False, Reason.UPDATE_ON_DELETE, sentence)
    )


def _turn(
    replica: int | None, live: Mapping[str, Any] | None, began: Mapping[str, Any], now: str
) -> dict[str, Any] | None:
    """The entry of currentlyUpdating; when all pods have arrived the last one stays until the statuses say so, too."""
    current = ((live or {}).get("currentlyUpdating") or [None])[0]
    same = live is not None and live.get("updateStartedAt") == began["updateStartedAt"]
    if same and current is not None and replica in (None, current["replicaIndex"]):
        return dict(current)
    return None if replica is None else {"replicaIndex": replica, "updateStartedAt": now}


def _running(replica: int | None, seen: list[Part], stuck: Part | None) -> Want:
    kind = ConditionType.UPDATE_IN_PROGRESS
    if stuck is not None and stuck.config is not None:
        text = f"replica {replica}: nothing more got ready within {stuck.config.progress_deadline}: {_waits_for(stuck)}"
        return Want(kind, True, Reason.PROGRESS_DEADLINE_EXCEEDED, text)
    part = next((part for part in seen if not part.done), None)
    if part is None:
        return Want(kind, True, Reason.UPDATE_IN_PROGRESS, "all pods run the template and are ready")
    return Want(kind, True, Reason.UPDATE_IN_PROGRESS, f"replica {replica}: {_waits_for(part)}")


def _waits_for(part: Part) -> str:
    unit = next(index for index, unit in enumerate(part.units) if not all(one.done for one in unit))
    arrived = sum(min(one.arrived, one.wanted) for one in part.units[unit])
    wanted = sum(one.wanted for one in part.units[unit])
    where = f"replica {unit} of {part.name}" if part.group else part.name
    return f"{arrived} of {wanted} pods of {where} run the template and are ready"


def _stuck(seen: list[Part], turn: Mapping[str, Any] | None, now: str) -> tuple[Part | None, float | None]:
    """The first part whose deadline has passed, and the seconds until the next one passes.

    Time counts from the beginning of the replica's turn, or from the last pod of the part that got ready since.
    """
    start = epoch((turn or {}).get("updateStartedAt") or now)
    left: list[float] = []
    for part in seen:
        limit = _seconds(part.config.progress_deadline if part.config is not None else None)
        if limit is None or part.done:
            continue
        rest = max(start, part.latest) + limit - epoch(now)
        if rest <= 0:
            return part, None
        left.append(rest)
    return None, min(left, default=None)


def _ended(live: Mapping[str, Any] | None, status: Mapping[str, Any], template: Template) -> Want | None:
    """The condition after an update; said once, so that later scaling does not change the sentence."""
    if live is None or _reason(status) == Reason.UPDATE_FINISHED:
        return None
    text = f"all {template.replicas} replicas run the template and are ready"
    return Want(ConditionType.UPDATE_IN_PROGRESS, False, Reason.UPDATE_FINISHED, text)


def _counted(progress: Mapping[str, Any] | None, reached: Reached) -> dict[str, Any] | None:
    return None if progress is None else {**progress, **reached.counts}


def _reason(status: Mapping[str, Any]) -> str:
    return str(_condition(status).get("reason", ""))


def _message(status: Mapping[str, Any]) -> str:
    return str(_condition(status).get("message", ""))


def _condition(status: Mapping[str, Any]) -> Mapping[str, Any]:
    found = (one for one in status.get("conditions") or () if one.get("type") == ConditionType.UPDATE_IN_PROGRESS)
    return next(found, {})


def _seconds(duration: str | None) -> float | None:
    """A deadline that is no duration above 0 is none; admission tells."""
    try:
        seconds = durations.parse_duration(duration or "0").total_seconds()
    except (ValueError, OverflowError):
        return None
    return seconds if seconds > 0 else None
