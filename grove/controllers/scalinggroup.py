"""Reconciles one PodCliqueScalingGroup: the PodCliques of its replicas, then its status."""

import time
from collections.abc import Sequence

from grove.api.labels import SCALING_GROUP_FINALIZER, EventReason
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.controllers.actor import Actor, Outcome, Patience, Reasons, earliest, now_text
from grove.controllers.routing import Name
from grove.controllers.summaries import Summaries
from grove.controllers.world import World
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.plan.progress import outdated, replica_of
from grove.plan.rollout import may_roll
from grove.plan.scalinggroup import group_of, plan_members, scaling_group_status, surplus_of
from grove.plan.template import Template
from grove.plan.units import Unit, plan_units
from grove.plan.update import differs, without_finalizer
from grove.runtime.queue import Done
from grove.runtime.writes import Create, Delete, Patch

_EVENTS: Reasons = {
    (PODCLIQUE, Create): (EventReason.POD_CLIQUE_CREATE_SUCCESSFUL, EventReason.POD_CLIQUE_CREATE_FAILED),
    (PODCLIQUE, Patch): (
        EventReason.POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL,
        EventReason.POD_CLIQUE_CREATE_OR_UPDATE_FAILED,
    ),
    (PODCLIQUE, Delete): (
        EventReason.SCALING_GROUP_REPLICA_DELETE_SUCCESSFUL,
        EventReason.SCALING_GROUP_REPLICA_DELETE_FAILED,
    ),
    (POD, Delete): (EventReason.POD_DELETE_SUCCESSFUL, EventReason.POD_DELETE_FAILED),
}


class ScalingGroupReconciler:
    """One pass: give every replica its PodCliques, remove those of replicas that went, say how it stands."""

    def __init__(self, world: World, actor: Actor, patience: Patience, summaries: Summaries) -> None:
        self._world = world
        self._actor = actor
        self._patience = patience
        self._summaries = summaries

    async def reconcile(self, key: Name) -> Done:
        """Bring the scaling group `key` in line with its spec. Raises PassFailedError when writes failed."""
        start = time.thread_time()
        group = self._world.scaling_groups.get(*key)
        if group is None:
            self._patience.settle(("group", key))
            return Done()
        if group.deleting:
            release = without_finalizer(PODCLIQUESCALINGGROUP, group, SCALING_GROUP_FINALIZER)
            return Done((await self._actor.act((PODCLIQUESCALINGGROUP, group.wire), release)).finish())
        template = self._world.set_of(group)
        if template is None or template.pcs.deleting:
            return Done()
        writes = plan_members(group, template, *self._look(group, template))
        cost = 2 * (time.thread_time() - start)  # the status looks once more at what is written now
        outcome = await self._actor.act((PODCLIQUESCALINGGROUP, group.wire), writes, _EVENTS)
        if not outcome.failures:
            outcome.add(await self._roll(group, template))
        waits = await self._write_status(self._world.scaling_groups.get(*key), template, outcome)
        return Done(earliest(waits, outcome.finish()), cost)

    async def _roll(self, group: PodCliqueScalingGroup, template: Template) -> Outcome:
        """Replace pods of replicas that an update has reached; see `UnitPlan` for the order."""
        name, replica = group_of(group, template), replica_of(group)
        if name is None or replica is None or not may_roll(template, replica, self._world.replica_snapshot):
            return Outcome()
        plan = plan_units(name, template, *self._look(group, template))
        outcome = await self._actor.act((PODCLIQUESCALINGGROUP, group.wire), plan.first, _EVENTS)
        if not outcome.failures:
            outcome.add(await self._actor.act((PODCLIQUESCALINGGROUP, group.wire), plan.then, _EVENTS))
        return outcome

    def _look(self, group: PodCliqueScalingGroup, template: Template) -> tuple[Sequence[Unit], Sequence[PodClique]]:
        """The replicas, and the PodCliques of none, looked for only when there are more than the replicas have."""
        units, owned = self._summaries.units(group, template), self._world.members(group)
        more = len(owned) > sum(len(unit.podcliques) for unit in units)
        return units, surplus_of(units, owned.values()) if more else ()

    async def _write_status(
        self, group: PodCliqueScalingGroup | None, template: Template, outcome: Outcome
    ) -> float | None:
        """Write the status if it differs; seconds until a postponed write is due."""
        if group is None or group.deleting:
            return None
        key = ("group", (group.namespace, group.name))
        live = group.wire.get("status") or {}
        now = now_text()
        units, errors = self._summaries.units(group, template), outcome.last_errors(live, now)
        status = scaling_group_status(group, template, units, errors, now)
        if not differs(live, status):
            self._patience.settle(key)
            return None
        settled = status.get("updatedReplicas") == group.spec.replicas or bool(status["lastErrors"])
        settled = settled or outdated(group, template)  # the set waits for that to be taken back
        if not settled and not self._patience.spent(key):
            return self._patience.wait(key)
        if group.spec.replicas and group.status.scheduled_replicas and not status.get("scheduledReplicas"):
            lost = f"none of {group.status.scheduled_replicas} scheduled replicas is left"
            self._actor.event(
                PODCLIQUESCALINGGROUP, group.wire, "Warning", EventReason.ALL_SCHEDULED_REPLICAS_LOST, lost
            )
        outcome.add(await self._actor.patch_status(PODCLIQUESCALINGGROUP, group.wire, status))
        self._patience.settle(key)
        return None
