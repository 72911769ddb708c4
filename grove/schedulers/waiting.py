"""Which gates stay on though a gang may start: of pods whose room others need first, or still hold.

| who | waits for | for how long |
|---|---|---|
| a gang that is started anew | its old pods to leave their nodes | their grace period and a bit |
| a scaled gang | the base gangs of all replicas of its set | a bounded time |
| pods beyond a gang's minimum | that minimum | for ever, they would take its room |
| such pods | then all other gangs of the set | a bounded time |

A second small system is worth more than one that is half as large again. The bounded time counts from when it became
the waiting pods' turn, or the scheduler said that it cannot place the other gang, if that is later: a router's surplus
must not starve behind GPUs that do not exist.

The scheduler counts a pod as placed until it is gone. So a gang could come back in part beside those of its old pods
that are still ending, where there is room for a part. A pod whose node is dead never goes, but its grace period ends.
A gang that has to make room for a higher priority loses one pod after the other: when the first is gone, those that are
still placed are waited for too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from grove.api.times import epoch
from grove.plan.gangs import GangState, GroupState
from grove.plan.observed import PodView
from grove.schedulers.backend import GangView, Object, Unplaced

LEAVING_SECONDS: Final = 10.0
"""How much longer than its grace period a pod may need to leave its node."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Pods whose gates stay for now."""

    names: frozenset[str] = frozenset()
    again_after: float | None = None
    """seconds until they may come off by themselves"""
    reason: str = ""
    """why a whole gang waits, for people"""


def hold(gang: GangView, groups_of: Callable[[str], Sequence[Object]], seconds: float) -> Hold:
    """The pods of a gang whose gates stay.

    `groups_of` gives the PodGroups of a gang by its name; `seconds` is how long other gangs are waited for.
    """
    state = gang.state
    gated = frozenset(pod.name for group in state.groups for pod in group.pods if pod.gated)
    if not gated:
        return Hold()
    left = _leaving(gang) - gang.now
    if left > 0:
        return Hold(gated, left, "pods of it from before are still ending")
    beyond = gated & {pod.name for group in state.groups for pod in surplus(group)}
    base = gang.gangs.get(state.gang.base)
    if base is not None and base.scheduled and not state.released:
        first = _first(gang, base, (other for other in gang.unplaced if not other.state.gang.base), groups_of, seconds)
        if first is not None:
            return Hold(gated, first[1], f"the base gang {first[0]} is placed first")
    if not beyond or not state.scheduled:
        return Hold(beyond)
    first = _first(gang, state, gang.unplaced, groups_of, seconds)
    return Hold(beyond, first[1]) if first is not None else Hold()


def _first(
    gang: GangView,
    turn: GangState,
    others: Iterable[Unplaced],
    groups_of: Callable[[str], Sequence[Object]],
    seconds: float,
) -> tuple[str, float] | None:
    """One of the others that is still to be waited for, and for how many seconds, since `turn` was placed."""
    for other in others:
        name = other.state.gang.name
        since = max(_waits_since(other, groups_of(name)), turn.scheduled_since)
        if _has_pods(other.state) and since + seconds > gang.now:
            return name, since + seconds - gang.now
    return None


def surplus(group: GroupState) -> list[PodView]:
    """The pods of a clique that are in no group, as far as the minimum is met without them."""
    ordered = sorted(group.pods, key=lambda pod: (not pod.scheduling_group, pod.index))
    return [pod for pod in ordered[group.member.min_replicas :] if not pod.scheduling_group]


def _leaving(gang: GangView) -> float:
    """Until when a gang that starts anew waits for its old pods, in seconds since the epoch; 0 for others.

    It starts anew when nothing of it is placed any more, or the scheduler drives it out, which takes one pod after the
    other: those that are still placed will follow one that is gone already.
    """
    groups = gang.state.groups
    if sum(group.member.min_replicas for group in groups) == 1:
        return 0.0  # it has no parts
    old = [pod for group in groups for pod in group.leaving if pod.scheduling_group]
    gone = max((pod.leaves_at + LEAVING_SECONDS for pod in old), default=0.0)
    if not any(pod.node and pod.scheduling_group for group in groups for pod in group.pods):
        return gone
    driven_out = gang.driven_out + LEAVING_SECONDS if gang.driven_out else 0.0
    return max(gone, driven_out) if any(pod.driven_out for pod in old) else driven_out


def _has_pods(state: GangState) -> bool:
    """Without pods a gang takes no room."""
    return any(group.pods for group in state.groups)


def _waits_since(other: Unplaced, podgroups: Sequence[Object]) -> float:
    """When a gang that is not placed was first called unschedulable, else when it became its turn.

    The condition's time stays while the scheduler goes on trying.
    """
    refused = [
        epoch(condition["lastTransitionTime"])
        for podgroup in podgroups
        for condition in (podgroup.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "PodGroupInitiallyScheduled"
        and condition.get("status") == "False"
        and condition.get("lastTransitionTime")
    ]
    if refused:
        return max(refused)
    youngest = max((pod.created for group in other.state.groups for pod in group.pods), default=0.0)
    ready = other.base is not None and other.base.scheduled
    return max(youngest, other.base.scheduled_since) if other.base is not None and ready else youngest
