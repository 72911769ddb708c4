"""Pods beyond a gang's minimum: they wait until the minimums are placed, for they would take their room.

A gang's surplus waits for its own gang, whose minimum it cannot do without, and then for the other gangs of its set
replica: a system of two halves is better than one half and a half. That second wait has an end, counted from when the
scheduler said that it cannot place the other gang: a router's surplus must not starve behind GPUs that do not exist.
"""

from collections.abc import Callable, Sequence

from grove.api.times import epoch
from grove.plan.gangs import GangState, GroupState
from grove.plan.observed import PodView
from grove.schedulers.backend import GangView, Object


def hold(gang: GangView, groups_of: Callable[[str], Sequence[Object]], seconds: float) -> tuple[set[str], float | None]:
    """Names of the surplus pods whose gates stay, and the seconds until they come off anyhow.

    `groups_of` gives the PodGroups of a gang by its name; `seconds` is how long other gangs are waited for.
    """
    names = {pod.name for group in gang.state.groups for pod in surplus(group) if pod.gated}
    if not names or not gang.state.scheduled:
        return names, None
    since = max((_waits_since(other, groups_of(other.gang.name)) for other in gang.unplaced), default=0.0)
    left = since + seconds - gang.now
    return (names, left) if left > 0 else (set(), None)


def surplus(group: GroupState) -> list[PodView]:
    """The pods of a clique that are in no group, as far as the minimum is met without them."""
    ordered = sorted(group.pods, key=lambda pod: (not pod.scheduling_group, pod.index))
    return [pod for pod in ordered[group.member.min_replicas :] if not pod.scheduling_group]


def _waits_since(state: GangState, podgroups: Sequence[Object]) -> float:
    """When a gang that is not placed was first called unschedulable, else when its youngest pod was made.

    The condition's time stays while the scheduler goes on trying. Without pods a gang takes no room: 0.
    """
    refused = [
        epoch(condition["lastTransitionTime"])
        for podgroup in podgroups
        for condition in (podgroup.get("status") or {}).get("conditions") or ()
        if condition.get("type") == "PodGroupInitiallyScheduled"
        and condition.get("status") == "False"
        and condition.get("lastTransitionTime")
    ]
    return max(refused or (pod.created for group in state.groups for pod in group.pods), default=0.0)
