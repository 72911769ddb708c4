"""One replica of a PodCliqueSet: the children it should have, and its gangs."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.plan import children
from grove.plan.gangs import GangState, ReplicaView, expected_gangs, live_group_replicas, observe
from grove.plan.gangstatus import Due, Surroundings
from grove.plan.kinds import AUTOSCALER, SERVICE
from grove.plan.observed import PodView
from grove.plan.placement import Placement
from grove.plan.podclique import ensure_podclique
from grove.plan.podgang import GangPlan, plan_gang
from grove.plan.scalinggroup import ensure_scaling_group
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology
from grove.plan.update import ensure
from grove.runtime.writes import Write

Place = Callable[[GangState, Mapping[str, GangState]], Placement]
"""Reads back what the scheduler says of a gang, given all gangs of the replica by name."""


@dataclass(frozen=True, slots=True)
class ReplicaSnapshot:
    """What exists of one set replica, by name; only objects that the set or its scaling groups own."""

    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    scaling_groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    podgangs: Mapping[str, PodGang] = field(default_factory=dict)
    services: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    autoscalers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pods: Mapping[str, Iterable[PodView]] = field(default_factory=dict)
    """by uid of the owning PodClique"""


def plan_children(template: Template, replica: int, snapshot: ReplicaSnapshot) -> tuple[Write, ...]:
    """The writes that give a replica its Service, PodCliques, scaling groups and autoscalers.

    The places of what later versions add: resource claims and ComputeDomains before the PodCliques that use them.
    """
    if replica >= template.replicas:
        return ()
    service = children.headless_service(template, replica)
    writes = ensure(SERVICE, snapshot.services.get(service["metadata"]["name"]), service)
    for clique in template.standalone:
        desired = children.standalone_podclique(template, replica, clique)
        writes += ensure_podclique(snapshot.podcliques.get(desired["metadata"]["name"]), desired)
    for group in template.groups.values():
        desired = children.scaling_group(template, replica, group)
        writes += ensure_scaling_group(snapshot.scaling_groups.get(desired["metadata"]["name"]), desired, group)
    for desired in children.autoscalers(template, replica):
        writes += ensure(AUTOSCALER, snapshot.autoscalers.get(desired["metadata"]["name"]), desired)
    return tuple(writes)


def view_of(template: Template, replica: int, snapshot: ReplicaSnapshot) -> ReplicaView:
    """What gangs and the start order depend on."""
    live_replicas = live_group_replicas(template, replica, snapshot.scaling_groups)
    return ReplicaView(snapshot.podcliques, live_replicas, snapshot.pods)


def plan_gangs(
    template: Template,
    replica: int,
    snapshot: ReplicaSnapshot,
    *,
    hurry: Callable[[str], bool],
    now: str,
    place: Place = lambda *_: Placement(),
    due: Mapping[str, Due] | None = None,
    topology: Topology = NOWHERE,
) -> dict[str, GangPlan]:
    """The plan of every gang of a replica, by gang name; `hurry` is asked per gang (see `plan_gang`).

    `due` are the gang terminations that are running down (see `termination`), `topology` is the set's.
    """
    if replica >= template.replicas:
        return {}
    view = view_of(template, replica, snapshot)
    states = {gang.name: observe(gang, view) for gang in expected_gangs(template, replica, view)}
    plans = {}
    for name, state in states.items():
        around = Surroundings(states.get(state.gang.base), place(state, states), due or {}, topology)
        plans[name] = plan_gang(template, state, around, snapshot.podgangs.get(name), hurry=hurry(name), now=now)
    return plans
