"""What a PodGang's status says: how far the gang is, and in one sentence why it is no further.

All of it is derived from the gang's pods and PodCliques and from what its scheduler says, so it reads the same with
every scheduler. Conditions are merged by type; those of types and reasons that others write stay.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api import labels
from grove.api.durations import format_duration
from grove.api.labels import ConditionType, EventReason, Reason
from grove.api.podgang import PodGangPhase
from grove.api.times import epoch, rfc3339
from grove.plan.breach import Breach, breach_of, termination_message
from grove.plan.conditions import Want, find, is_true, merged
from grove.plan.gangs import GangState, GroupState
from grove.plan.placement import Placement
from grove.plan.topology import NOWHERE, Topology

_NAMED = 5  # groups named in one message; the rest is counted
_QUOTE = 400  # characters of what others say


@dataclass(frozen=True, slots=True)
class Due:
    """A gang termination whose time is running down."""

    at: float
    """seconds since the epoch"""
    target: str
    """what it replaces, for people: `replica 0 of PodCliqueSet web`"""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a gang's status depends on beside the gang itself."""

    base: GangState | None = None
    """the base gang of a scaled gang"""
    placement: Placement = field(default_factory=Placement)
    """the scheduler's word"""
    due: Mapping[str, Due] = field(default_factory=dict)
    """terminations by the PodClique that is below its minimum"""
    topology: Topology = NOWHERE
    """how close together the set's pods must be"""
    within: str = ""
    """what of it this gang's pods must be within, for people: `one kubernetes.io/rack`; "" for anywhere"""


@dataclass(frozen=True, slots=True)
class Notice:
    """News for an event on the PodCliqueSet, once the status that says the same is written."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class GangStatus:
    """The status a PodGang should show, and what of it is news."""

    status: dict[str, Any]
    notices: tuple[Notice, ...] = ()


def gang_status(
    state: GangState, live: Mapping[str, Any], around: Surroundings, *, complete: bool, now: str
) -> GangStatus:
    """Work out a PodGang's status. `live` is the one it has, {} before the first; `now` is RFC 3339.

    `complete` tells that every pod of the gang exists and is referenced.
    """
    conditions: Sequence[dict[str, Any]] = live.get("conditions") or ()
    initialized = complete or (is_true(conditions, ConditionType.INITIALIZED) and state.released)
    scheduled = initialized and state.scheduled
    ready = scheduled and state.ready
    phase = PodGangPhase.RUNNING if ready else PodGangPhase.STARTING if scheduled else PodGangPhase.PENDING
    wanted = [
        _initialized(state, initialized),
        _scheduled(state, initialized, around, find(conditions, ConditionType.SCHEDULED)),
        _ready(state, ready),
        _unhealthy(state, around.due),
        *_disruption(state, find(conditions, ConditionType.DISRUPTION_TARGET)),
        *around.placement.conditions,
    ]
    status: dict[str, Any] = {"phase": phase.value, "conditions": merged(conditions, wanted, now)}
    if around.placement.score is not None:
        status["placementScore"] = around.placement.score
    notices = [
        _pending_news(state, conditions, wanted[1]),
        _unhealthy_news(state, around.due, conditions, wanted[3], now),
    ]
    return GangStatus(status, tuple(notice for notice in notices if notice is not None))


def _initialized(state: GangState, initialized: bool) -> Want:
    if initialized:
        text = "every pod of the gang has been created and is referenced"
        return Want(ConditionType.INITIALIZED, True, Reason.POD_GANG_PODS_CREATED, text)
    return Want(ConditionType.INITIALIZED, False, Reason.POD_GANG_PODS_CREATION_PENDING, _not_created(state))


def _not_created(state: GangState) -> str:
    missing = _shortfall(state.groups, [len(g.pods) for g in state.groups], [g.member.replicas for g in state.groups])
    text = f"waiting for pods to be created: {missing}" if missing else "waiting for the PodGang to reference its pods"
    errors = [
        g.live.status.last_errors[0] for g in state.groups if not g.whole and g.live and g.live.status.last_errors
    ]
    return f"{text}; {_short(errors[0].description)}" if errors else text


def _scheduled(state: GangState, initialized: bool, around: Surroundings, live: Mapping[str, Any]) -> Want:
    kind = ConditionType.SCHEDULED
    if not initialized:
        return Want(kind, False, Reason.POD_GANG_PODS_CREATION_PENDING, _not_created(state))
    if state.scheduled:
        return Want(kind, True, Reason.MINIMUM_PLACED, "every group has its minimum of scheduled pods")
    lacking = [group for group in state.groups if group.scheduled < group.member.min_replicas]
    missing = _shortfall(lacking, [g.scheduled for g in lacking], [g.member.min_replicas for g in lacking])
    text = f"waiting for scheduled pods{around.within and f' within {around.within}'}: {missing}"
    reason, cause = _cause(lacking, around)
    if not cause:
        return Want(kind, False, reason, text)
    before = _cause_in(live.get("message") or "")
    return Want(kind, False, reason, f"{text}; {before if _blurred(before) == _blurred(cause) else cause}")


def _cause(lacking: Sequence[GroupState], around: Surroundings) -> tuple[str, str]:
    """Reason and explanation of what keeps groups from their minimum; the explanation is "" when nobody knows yet."""
    waiting = [(group, pod) for group in lacking for pod in group.pods if not pod.scheduled]
    if around.base is not None and not around.base.scheduled and any(pod.gated for _, pod in waiting):
        return Reason.WAITING_FOR_BASE_GANG, f"its base gang {around.base.gang.name} is not scheduled"
    if around.placement.held:
        return Reason.WAITING_FOR_OTHER_PODS, around.placement.held
    held: dict[tuple[str, str], int] = {}
    for group, pod in waiting:
        for gate in pod.gates:
            if gate != labels.POD_GATE:
                held[gate, group.member.podclique] = held.get((gate, group.member.podclique), 0) + 1
    if held:
        names = [
            f"scheduling gate {gate} holds {count} of {name}" for (gate, name), count in list(held.items())[:_NAMED]
        ]
        return Reason.SCHEDULING_GATED, ", ".join(names)
    if around.placement.reason:
        return Reason.UNSCHEDULABLE, f"the scheduler says: {_short(around.placement.reason)}"
    said = next((pod.refusal for _, pod in waiting if pod.refusal), "")
    return (Reason.UNSCHEDULABLE, f"the scheduler says: {_short(said)}") if said else (Reason.WAITING, "")


def _ready(state: GangState, ready: bool) -> Want:
    if ready:
        return Want(ConditionType.READY, True, Reason.MINIMUM_READY, "every group has its minimum of ready pods")
    missing = _shortfall(state.groups, [g.ready for g in state.groups], [g.member.min_replicas for g in state.groups])
    text = f"waiting for ready pods: {missing or 'the gang is not scheduled'}"
    return Want(ConditionType.READY, False, Reason.WAITING, text)


def _unhealthy(state: GangState, due: Mapping[str, Due]) -> Want:
    kind = ConditionType.UNHEALTHY
    worst = _worst(state, due)
    if worst is None:
        return Want(kind, False, Reason.SUFFICIENT_READY_PODS, "no clique has fallen below its minimum")
    group, breach = worst
    name = group.member.podclique
    if breach is None:
        text = f"{name} never got its minimum of {group.member.min_replicas} on nodes, as other pods of the gang did"
    else:
        text = f"{name} has fallen below its minimum of {group.member.min_replicas}"
    if breach is not None and breach.terminated:
        text += "; the pods have been replaced"
    elif name in due:
        text += f"; {due[name].target} gets new pods at {rfc3339(due[name].at)} unless it recovers"
    return Want(kind, True, breach.reason if breach else Reason.SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE, text)


def _worst(state: GangState, due: Mapping[str, Due]) -> tuple[GroupState, Breach | None] | None:
    """The group whose termination comes first: one in breach, or without that one that was left out (see `in_part`)."""
    judged = [(group, breach_of(group.live)) for group in state.groups if group.live]
    found = [(group, breach) for group, breach in judged if breach or group.member.podclique in due]
    never = Due(float("inf"), "")
    return min(found, key=lambda one: due.get(one[0].member.podclique, never).at, default=None)


def _disruption(state: GangState, live: Mapping[str, Any]) -> list[Want]:
    """DisruptionTarget while the gang's pods are replaced. One that a scheduler wrote is left alone."""
    kind = ConditionType.DISRUPTION_TARGET
    texts = [text for group in state.groups if group.live and (text := termination_message(group.live))]
    if texts:
        return [Want(kind, True, Reason.GANG_TERMINATION_ACTIVE, texts[0])]
    if live.get("reason") in (Reason.GANG_TERMINATION_ACTIVE, Reason.GANG_TERMINATION_ENDED):
        return [Want(kind, False, Reason.GANG_TERMINATION_ENDED, "the gang has its minimum again")]
    return []


def _pending_news(state: GangState, live: Sequence[Mapping[str, Any]], want: Want) -> Notice | None:
    """Why a gang is pending, when the reason is new. Numbers in it are not news: they change all the time.

    For a gang that waits for its base gang, or for others, their reasons are told, not its own.
    """
    cause = _cause_in(want.message)
    if want.status or not cause or want.reason in (Reason.WAITING_FOR_BASE_GANG, Reason.WAITING_FOR_OTHER_PODS):
        return None
    before = find(live, ConditionType.SCHEDULED)
    same = before.get("reason") == want.reason and _blurred(_cause_in(before.get("message") or "")) == _blurred(cause)
    return None if same else Notice(EventReason.POD_GANG_PENDING, f"PodGang {state.gang.name} is {want.message}")


def _unhealthy_news(
    state: GangState, due: Mapping[str, Due], live: Sequence[Mapping[str, Any]], want: Want, now: str
) -> Notice | None:
    """What will be terminated and when, told when that is new."""
    worst = _worst(state, due) if want.status else None
    if worst is None or (worst[1] and worst[1].terminated) or worst[0].member.podclique not in due:
        return None
    if find(live, ConditionType.UNHEALTHY).get("message") == want.message:
        return None
    left = format_duration(max(due[worst[0].member.podclique].at - epoch(now), 0.0))
    return Notice(EventReason.POD_GANG_UNHEALTHY, f"PodGang {state.gang.name}: {want.message}, in {left}")


def _shortfall(groups: Sequence[GroupState], have: Sequence[int], need: Sequence[int]) -> str:
    """Names the groups that lack pods: `simple1-0-pca has 1 of 3, …`; "" when none does."""
    lacking = [
        f"{group.member.podclique} has {got} of {wanted}"
        for group, got, wanted in zip(groups, have, need, strict=True)
        if got < wanted
    ]
    more = f" and {len(lacking) - _NAMED} more groups lack pods" if len(lacking) > _NAMED else ""
    return ", ".join(lacking[:_NAMED]) + more


def _cause_in(message: str) -> str:
    return message.partition("; ")[2]


def _blurred(text: str) -> frozenset[str]:
    """What a sentence says apart from its numbers and the order of its parts, which schedulers sort by number."""
    return frozenset(re.split(r"[,.:;]\s*", re.sub(r"\d+", "", text)))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _QUOTE else f"{text[: _QUOTE - 1]}…"
