"""Where back ends meet the cluster: they read the caches through here, and passes ask them through here."""

import time
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from grove.admission import Facts
from grove.admission.fields import Field, FieldError, Finding, cliques
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import ConditionType
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.api.times import epoch
from grove.controllers.siblings import Siblings
from grove.controllers.world import World
from grove.plan.conditions import Want
from grove.plan.gangs import GangState
from grove.plan.placement import Placement
from grove.plan.pods import Prepare
from grove.plan.replica import Place, ReplicaSnapshot
from grove.plan.template import Template
from grove.plan.topology import Topology, binding_name, levels_condition, topology_of
from grove.runtime.resources import ResourceType
from grove.schedulers import Decision, GangView, Schedulers, Slot
from grove.schedulers.podgroups import pod_names

SCHEDULER_UNAVAILABLE: Final = "ERR_SCHEDULER_UNAVAILABLE"
"""Code in lastErrors of a set, and of its PodCliques, whose scheduler lacks something in the cluster."""
UNAVAILABLE_SECONDS: Final = 60.0
"""After how many seconds such an object is looked at again at the latest; news of what lacked come by event."""
_BINDING_SECONDS: Final = 3.0


def lost_guarantee(have: Mapping[str, Any], status: Mapping[str, Any]) -> str:
    """Why a PodGang's new status says that its gang has no guarantee; "" when the one before (`have`) said the same."""
    now, before = (_guarantee(one) for one in (status, have))
    return str(now["message"]) if now.get("status") == "False" and now.get("message") != before.get("message") else ""


def _guarantee(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = status.get("conditions") or ()
    return next((condition for condition in conditions if condition.get("type") == ConditionType.GANG_GUARANTEED), {})


class Scheduling:
    """The enabled back ends, at work on the operator's picture of the cluster."""

    def __init__(self, schedulers: Schedulers, world: World) -> None:
        self._schedulers = schedulers
        self._world = world
        self.siblings = Siblings(world)

    def missing(self, template: Template) -> str:
        """What the cluster lacks for a set's scheduler, in one sentence; "" when it can work."""
        return self._schedulers.of(template).missing(self._world.scheduler_objects)

    def to_blame(self, template: Template) -> tuple[ResourceType, dict[str, Any], str] | None:
        """The object that lacks what is missing, and the reason of an event on it."""
        return self._schedulers.of(template).to_blame(self._world.scheduler_objects)

    def mapping_failed(self, template: Template) -> str:
        """Reason of the event on a PodGang without guarantee; "" for none."""
        return self._schedulers.of(template).mapping_failed

    def errors(self, template: Template) -> Iterator[FieldError]:
        """What is wrong with a set for its scheduler."""
        found = self.findings(Field(template.pcs.wire))
        yield from (finding for finding in found if isinstance(finding, FieldError))

    def findings(self, root: Field) -> Iterator[Finding]:
        """What is wrong with a defaulted PodCliqueSet for its scheduler, which the first clique with one names."""
        named = (clique["spec"]["podSpec"]["schedulerName"].text for clique in cliques(root))
        backend = self._schedulers.named(next(filter(None, named), ""))
        yield from backend.validate(root, self._world.scheduler_objects)

    def facts(self) -> Facts:
        """What the rules of admission ask about schedulers."""
        return Facts(
            default_scheduler=self._schedulers.default, schedulers=[backend.name for backend in self._schedulers]
        )

    def prepare(self, podclique: PodClique, template: Template) -> Prepare:
        """How new pods of a PodClique are prepared for the scheduler."""
        backend, cluster = self._schedulers.of(template), self._world.scheduler_objects

        def prepare(pod: dict[str, Any], index: int) -> dict[str, Any]:
            pod["spec"]["schedulerName"] = podclique.spec.pod_spec.get("schedulerName") or backend.name
            return backend.prepare_pod(pod, Slot(template, podclique, index, cluster, self.topology(template)))

        return prepare

    def topology(self, template: Template) -> Topology:
        """How close together a set's pods must be; nothing is asked for where topologyAwareScheduling is off."""
        return topology_of(template, self._binding(template))

    def awaits_levels(self, template: Template) -> float | None:
        """Seconds for which a new set gets no pods, as its ClusterTopologyBinding has not been seen; None for no such.

        Of two objects that were applied one after the other the second may be seen first.
        """
        if not self._world.topology_aware or not binding_name(template) or self._binding(template) is not None:
            return None
        left = epoch(template.pcs.metadata.creation_timestamp) + _BINDING_SECONDS - time.time()
        return min(left, _BINDING_SECONDS) if left > 0 else None

    def levels_condition(self, template: Template) -> Want | None:
        """Whether the levels that a set asks for are there."""
        ignored = self._schedulers.of(template).ignores_topology(template, self._world.scheduler_objects)
        aware = self._world.topology_aware
        return levels_condition(template, self._binding(template), topology_aware=aware, ignored=ignored)

    def _binding(self, template: Template) -> ClusterTopologyBinding | None:
        return self._world.bindings.get("", binding_name(template)) if self._world.topology_aware else None

    def place(self, template: Template, replica: int, snapshot: ReplicaSnapshot) -> Place:
        """How the placement of a replica's gangs is read back."""
        backend, now = self._schedulers.of(template), time.time()

        if missing := self.missing(template):
            return lambda *_: Placement(reason=missing)
        topology = self.topology(template)

        def place(state: GangState, gangs: Mapping[str, GangState]) -> Placement:
            return backend.placement(self._view(template, replica, snapshot, state, gangs, topology, now))

        return place

    def decide(
        self, template: Template, replica: int, snapshot: ReplicaSnapshot, gangs: Mapping[str, GangState]
    ) -> dict[str, Decision]:
        """What to do about the scheduler objects of a replica's gangs whose PodGang exists, by gang.

        None at all while the scheduler lacks something. Objects of a PodGang that had the name before are waited for:
        the garbage collector would take them away under pods that are being placed.
        """
        if self.missing(template):
            return {}
        backend, topology, now = self._schedulers.of(template), self.topology(template), time.time()
        views = [self._view(template, replica, snapshot, state, gangs, topology, now) for state in gangs.values()]
        kinds = {watch.resource for watch in backend.watches}
        decisions = {
            view.state.gang.name: Decision(hold=pod_names(view)) if _left_over(view, kinds) else backend.decide(view)
            for view in views
            if isinstance(view.podgang, PodGang) and not view.podgang.deleting
        }
        self.siblings.note_waiting(template, replica, any(decision.hold for decision in decisions.values()))
        return decisions

    def _view(
        self,
        template: Template,
        replica: int,
        snapshot: ReplicaSnapshot,
        state: GangState,
        gangs: Mapping[str, GangState],
        topology: Topology,
        now: float,
    ) -> GangView:
        return GangView(
            template,
            replica,
            state,
            snapshot.podgangs.get(state.gang.name),
            self._world.scheduler_objects,
            now,
            snapshot.podcliques,
            gangs,
            snapshot.podgangs,
            self.siblings.unplaced(template, replica),
            self._world.driven_out.get((template.namespace, state.gang.name), 0.0),
            topology,
        )


def _left_over(gang: GangView, kinds: Collection[ResourceType]) -> bool:
    """Whether an object of an earlier PodGang of this name is still there."""
    assert gang.podgang is not None
    return any(
        owner.get("kind") == PodGang.KIND and owner.get("uid") != gang.podgang.uid
        for kind in kinds
        for obj in gang.objects_of(kind)
        for owner in obj["metadata"].get("ownerReferences") or ()
    )
