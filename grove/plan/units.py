"""The replicas of a scaling group, called units here: what each lacks, how it stands, and which an update replaces now.

A unit changes only with the specs of set and group, and with its own PodCliques and pods. So in a group of hundreds of
units, of which one is at work, only that one needs to be looked at; what depends on all is decided by a loop over them.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from grove.api import labels
from grove.api.base import find_condition
from grove.api.labels import ConditionType
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan.breach import termination_message
from grove.plan.children import member_podclique
from grove.plan.observed import PodView
from grove.plan.podclique import ensure_podclique, is_available, is_updated
from grove.plan.progress import replica_of
from grove.plan.rollout import Standing, delete, max_unavailable, stand
from grove.plan.template import Template
from grove.runtime.writes import Delete, Write


@dataclass(frozen=True, slots=True)
class Unit:
    """One replica of a scaling group. `healthy` to `current` go by the status of its PodCliques, the rest by pods."""

    writes: tuple[Write, ...]
    """what brings its PodCliques in line with the template"""
    podcliques: tuple[str, ...]
    """names of those that exist"""
    healthy: bool
    """all exist, and none is in breach"""
    scheduled: bool
    available: bool
    updated: bool
    """it is available, and each runs the set's template with enough ready pods"""
    updated_podcliques: int
    """how many do"""
    current: bool
    """each says that it runs the set's template"""
    terminated: str
    """why its gang was terminated; "" unless that is still in progress"""
    standings: tuple[Standing, ...]
    """of its PodCliques, in the order of the group's cliqueNames"""
    stale: bool
    """it has pods of another template, and new ones would be of the set's"""
    up: bool
    """with pods of another template it serves, with none it is ready as a whole"""
    arrived: bool
    """every pod that is wanted carries the template and is ready"""
    lacks_room: bool
    """it has no stale pod and never ran, and the scheduler says that it cannot place it"""


def look_at(
    group: str,
    scaling_group: PodCliqueScalingGroup,
    index: int,
    template: Template,
    live: Mapping[str, PodClique],
    pods: Mapping[str, Iterable[PodView]],
) -> Unit:
    """Look at one unit. `live` holds the PodCliques that the scaling group owns, by name, `pods` those of each by uid.

    `group` is the template's name of the scaling group (`scalinggroup.group_of`).
    """
    replica = replica_of(scaling_group)
    assert replica is not None, "the template knows the group by its replica"
    members = template.members(group)
    desired = [member_podclique(template, group, scaling_group, replica, index, clique) for clique in members]
    found = [live.get(wanted["metadata"]["name"]) for wanted in desired]
    existing = [podclique for podclique in found if podclique is not None]
    present = [podclique for podclique in existing if not podclique.deleting]
    complete = len(present) == len(members)
    scheduled = complete and all(_condition(one, ConditionType.POD_CLIQUE_SCHEDULED) for one in present)
    available = scheduled and all(map(is_available, present))
    updated = sum(is_updated(one, template) for one in existing)
    standings = tuple(stand(one, pods, template) for one in found)
    stale, arrived = any(one.stale for one in standings), all(one.done for one in standings)
    return Unit(
        writes=tuple(
            write for one, wanted in zip(found, desired, strict=True) for write in ensure_podclique(one, wanted)
        ),
        podcliques=tuple(one.name for one in existing),
        healthy=complete and not any(_condition(one, ConditionType.MIN_AVAILABLE_BREACHED) for one in present),
        scheduled=scheduled,
        available=available,
        updated=available and updated == len(members),
        updated_podcliques=updated,
        current=complete and all(_runs_generation(one, template) for one in present),
        terminated=next(filter(None, map(termination_message, existing)), ""),
        standings=standings,
        stale=stale and all(one.told for one in standings),
        up=all(one.serves for one in standings) if stale else arrived,
        arrived=arrived,
        lacks_room=not stale
        and not any(one.ran for one in standings)
        and any(pod.refusal for one in standings for pod in one.pods),
    )


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """The pods of units that are replaced now.

    `first` are those whose own template is the same. They go before the stale ones do, so that a unit of which some
    pods are left after a crash still shows that it is to be replaced; a label tells them from those that came since.
    """

    first: tuple[Delete, ...] = ()
    then: tuple[Delete, ...] = ()


def plan_units(group: str, template: Template, units: Sequence[Unit], surplus: Iterable[PodClique]) -> UnitPlan:
    """Replace the units that have stale pods, each as a whole, within the budget.

    A unit that does not serve goes at once; of the others, lowest first, as many as the budget leaves. Down is a unit
    that is not up, and one that was scaled in until it is gone: `surplus` are PodCliques that belong to no unit. One
    that lacks room is not: it never was up, and would keep the template from the others for as long as it waits.
    """
    down = sum(not unit.up and not unit.lacks_room for unit in units)
    leaving = {one.labels.get(labels.SCALING_GROUP_REPLICA_INDEX) for one in surplus}
    free = max_unavailable(template.groups[group].rolling_update, len(units)) - down - len(leaving)
    stale = [unit for unit in units if unit.stale]
    going = [unit for unit in stale if not unit.up]
    going += [unit for unit in stale if unit.up][: max(free, 0)]
    digest = {template.group_template_hashes[clique.name] for clique in template.members(group)}
    standings = [standing for unit in going for standing in unit.standings]
    return UnitPlan(
        first=tuple(
            delete(pod)
            for standing in standings
            for pod in standing.pods
            if pod not in standing.stale and pod.group_template_hash not in digest
        ),
        then=tuple(delete(pod) for standing in standings for pod in standing.stale),
    )


def _condition(podclique: PodClique, kind: ConditionType) -> bool:
    condition = find_condition(podclique.status.conditions, kind)
    return condition is not None and condition.status == "True"


def _runs_generation(podclique: PodClique, template: Template) -> bool:
    return podclique.status.current_pod_clique_set_generation_hash == template.generation_hash
