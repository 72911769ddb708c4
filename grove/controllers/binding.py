"""Reconciles one ClusterTopologyBinding: the topology objects of schedulers, then its status."""

import logging
from collections.abc import Mapping
from typing import Any

from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import ConditionType, EventReason
from grove.controllers.actor import Actor, Outcome, Reasons, now_text
from grove.controllers.others import Child
from grove.controllers.routing import Name
from grove.controllers.world import World
from grove.plan.binding import Comparison, TopologyKind, binding_status, compare, compare_all
from grove.plan.conditions import find
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING
from grove.plan.update import differs
from grove.runtime.cache import Store
from grove.runtime.queue import Done, WorkQueue
from grove.runtime.writes import Create, Delete

logger = logging.getLogger(__name__)

_DRIFT = ConditionType.SCHEDULER_TOPOLOGY_DRIFT


class BindingReconciler:
    """One pass: make, or replace, the topology object of every scheduler that has none from others; say how it stands.

    `kinds` has the kind of topology of each enabled scheduler that has topology objects.
    """

    def __init__(self, world: World, actor: Actor, kinds: Mapping[str, TopologyKind]) -> None:
        self._world = world
        self._actor = actor
        self._kinds = kinds
        # Made and deleted objects are logged; the API has no events for them.
        self._reasons: Reasons = {
            (kind.resource, verb): ("", "") for kind in kinds.values() for verb in (Create, Delete)
        }

    async def reconcile(self, key: Name) -> Done:
        """Bring the schedulers in line with the binding `key`. Raises PassFailedError when writes failed."""
        binding = self._world.bindings.get(*key)
        if binding is None or binding.deleting:
            return Done()  # what was made of it goes with it
        outcomes = {scheduler: await self._sync(binding, scheduler) for scheduler in self._kinds}
        outcome = Outcome([failure for one in outcomes.values() for failure in one.failures])
        status = self._status(binding, outcomes)
        if not outcome.failures:
            status["observedGeneration"] = binding.generation
        if differs(binding.wire.get("status") or {}, status):
            outcome.add(await self._write_status(binding, status))
        return Done(outcome.finish())

    async def _sync(self, binding: ClusterTopologyBinding, scheduler: str) -> Outcome:
        """Write the topology of one scheduler. What is deleted is made again at once, unless a finalizer keeps it."""
        outcome = Outcome()
        for _ in (Delete, Create):
            if not outcome.failures:
                writes = self._compare(binding, scheduler).writes
                outcome.add(await self._actor.act((CLUSTERTOPOLOGYBINDING, binding.wire), writes, self._reasons))
        return outcome

    def _compare(self, binding: ClusterTopologyBinding, scheduler: str) -> Comparison:
        return compare(binding, scheduler, self._kinds[scheduler], self._world.scheduler_objects)

    def _status(self, binding: ClusterTopologyBinding, outcomes: Mapping[str, Outcome]) -> dict[str, Any]:
        compared = compare_all(binding, self._kinds, self._world.scheduler_objects)
        told = {name: [one for one in outcome.failures if not one.passing] for name, outcome in outcomes.items()}
        errors = {name: failures[0].description for name, failures in told.items() if failures}
        return binding_status(binding, compared, errors, now_text())

    async def _write_status(self, binding: ClusterTopologyBinding, status: dict[str, Any]) -> Outcome:
        outcome = await self._actor.patch_status(CLUSTERTOPOLOGYBINDING, binding.wire, status)
        if not outcome.failures:
            live = (binding.wire.get("status") or {}).get("conditions") or ()
            self._tell(binding, find(live, _DRIFT), find(status["conditions"], _DRIFT))
        return outcome

    def _tell(self, binding: ClusterTopologyBinding, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
        """An event when the schedulers fall behind, and when they have caught up."""
        before, now = old.get("status"), new.get("status")
        if now == before:
            return
        if now == "True":
            self._event(binding, "Warning", EventReason.TOPOLOGY_DRIFT_DETECTED, new["message"])
        elif now == "False" and before is not None:
            self._event(binding, "Normal", EventReason.TOPOLOGY_IN_SYNC, new["message"])

    def _event(self, binding: ClusterTopologyBinding, kind: str, reason: str, message: str) -> None:
        logger.info("%s %s: %s", binding.KIND, binding.name, message)
        self._actor.event(CLUSTERTOPOLOGYBINDING, binding.wire, kind, reason, message)


class BindingRouter:
    """Wakes bindings, while connected, when they or topology objects change, and when a kind of these gets served."""

    def __init__(self, world: World, kinds: Mapping[str, TopologyKind], queue: WorkQueue[Name]) -> None:
        self._world = world
        self._queue = queue
        resources = {kind.resource for kind in kinds.values()}
        stores = world.scheduler_objects.stores
        self._topologies: list[Store[Child]] = [store for watch, store in stores.items() if watch.resource in resources]
        self._connected = False
        world.scheduler_objects.on_served(self._served)

    def connect(self) -> None:
        """Wake every binding, and from now on those that a change concerns."""
        self._connected = True
        self._world.bindings.on_change(self._binding_changed)
        for store in self._topologies:
            store.on_change(self._topology_changed)
        self._served()

    def disconnect(self) -> None:
        """Wake nothing any more."""
        self._connected = False
        self._world.bindings.off_change(self._binding_changed)
        for store in self._topologies:
            store.off_change(self._topology_changed)

    def _binding_changed(self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None) -> None:
        if new is not None and not self._world.taking:  # else it is the pass's own status
            self._queue.add((new.namespace, new.name))

    def _topology_changed(self, old: Child | None, new: Child | None) -> None:
        topology = new or old
        assert topology is not None
        if self._world.taking:
            return  # the pass knows what it made
        for binding in self._world.bindings:
            references = (one.topology_reference for one in binding.spec.scheduler_topology_bindings)
            if topology.name in (binding.name, *references):
                self._queue.add((binding.namespace, binding.name))

    def _served(self) -> None:
        if self._connected:
            for binding in self._world.bindings:
                self._queue.add((binding.namespace, binding.name))
