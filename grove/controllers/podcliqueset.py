"""Reconciles a PodCliqueSet as a whole: removes what no replica needs any more, then its status."""

import time
from collections.abc import Sequence

from grove.api.labels import INVALID_SPEC, PODCLIQUESET_FINALIZER, EventReason
from grove.controllers.actor import Actor, Failure, Outcome, Patience, Reasons, earliest, now_text
from grove.controllers.replica import ReplicaReconciler
from grove.controllers.routing import SOON, Name
from grove.controllers.scheduling import SCHEDULER_UNAVAILABLE, Scheduling
from grove.controllers.summaries import Summaries
from grove.controllers.verdicts import Verdicts
from grove.controllers.world import World
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.plan.podcliqueset import plan_removals, podcliqueset_status
from grove.plan.template import Template
from grove.plan.update import differs, without_finalizer
from grove.plan.update_status import news, next_deadline, turned
from grove.runtime.queue import Done
from grove.runtime.writes import Delete, Write

_EVENTS: Reasons = {
    (PODCLIQUE, Delete): (EventReason.POD_CLIQUE_DELETE_SUCCESSFUL, EventReason.POD_CLIQUE_DELETE_FAILED),
    (PODCLIQUESCALINGGROUP, Delete): (
        EventReason.SCALING_GROUP_DELETE_SUCCESSFUL,
        EventReason.SCALING_GROUP_DELETE_FAILED,
    ),
    (PODGANG, Delete): (EventReason.POD_GANG_DELETE_SUCCESSFUL, EventReason.POD_GANG_DELETE_FAILED),
}


class PodCliqueSetReconciler:
    """One pass over a set. Its replicas are reconciled by themselves; their failures are read from `replicas`."""

    def __init__(
        self,
        world: World,
        actor: Actor,
        patience: Patience,
        replicas: ReplicaReconciler,
        scheduling: Scheduling,
        verdicts: Verdicts,
        summaries: Summaries,
    ) -> None:
        self._world = world
        self._scheduling = scheduling
        self._actor = actor
        self._patience = patience
        self._replicas = replicas
        self._verdicts = verdicts
        self._summaries = summaries

    async def reconcile(self, key: Name) -> Done:
        """Bring the set `key` in line with its spec. Raises PassFailedError when writes failed."""
        start = time.thread_time()
        template = self._world.sets.get(*key)
        if template is None:
            self._patience.settle(("set", key))
            self._verdicts.forget(key)
            return Done()
        pcs = template.pcs
        if pcs.deleting:
            release = without_finalizer(PODCLIQUESET, pcs, PODCLIQUESET_FINALIZER)
            return Done((await self._actor.act((PODCLIQUESET, pcs.wire), release)).finish())
        writes = () if self._verdicts.errors(template) else self._removals(template)
        cost = 2 * (time.thread_time() - start)  # the status looks at the same objects once more
        outcome = await self._actor.act((PODCLIQUESET, pcs.wire), writes, _EVENTS)
        waits = await self._write_status(self._world.sets.get(*key), outcome)
        return Done(earliest(waits, outcome.finish()), cost)

    def _removals(self, template: Template) -> Sequence[Write]:
        """What no replica needs any more. It is looked for only when there are more objects than are needed."""
        if self._world.owned(template) == sum(replica.owned for replica in self._summaries.of(template)):
            return ()
        return plan_removals(template, self._world.set_snapshot(template))

    async def _write_status(self, template: Template | None, outcome: Outcome) -> float | None:
        """Write the status if it differs; seconds until a postponed write is due."""
        if template is None or template.pcs.deleting:
            return None
        key = ("set", (template.namespace, template.name))
        live = template.pcs.wire.get("status") or {}
        shown = self._spec_errors(template) + outcome.failures + self._replicas.failures_of(template)
        now, snapshot = now_text(), self._world.replica_snapshot
        errors = Outcome(shown).last_errors(live, now)
        levels = self._scheduling.levels_condition(template)
        status = podcliqueset_status(template, self._summaries.of(template), snapshot, errors, now, levels)
        if not differs(live, status):
            self._patience.settle(key)
            return next_deadline(template, snapshot, now)
        settled = status["updatedReplicas"] == template.replicas or bool(status["lastErrors"])
        observed = live.get("observedGeneration") != status.get("observedGeneration", live.get("observedGeneration"))
        if not (settled or observed or turned(live, status) or self._patience.spent(key)):
            return self._patience.wait(key)
        written = await self._actor.patch_status(PODCLIQUESET, template.pcs.wire, status)
        if not written.failures:
            for kind, reason, message in news(live, status):
                self._actor.event(PODCLIQUESET, template.pcs.wire, kind, reason, message)
        outcome.add(written)
        self._patience.settle(key)
        return SOON if turned(live, status) else next_deadline(template, snapshot, now)

    def _spec_errors(self, template: Template) -> list[Failure]:
        """What is wrong with the spec, and what keeps the set's scheduler from working for it."""
        missing = self._scheduling.missing(template)
        errors = [*self._verdicts.errors(template)]
        errors += [Failure(SCHEDULER_UNAVAILABLE, missing)] if missing else []
        errors += [Failure(INVALID_SPEC, str(error)) for error in self._scheduling.errors(template)]
        shown = {error.get("description") for error in (template.pcs.wire.get("status") or {}).get("lastErrors") or ()}
        for error in errors[:5]:
            if error.description not in shown:
                unavailable = error.code == SCHEDULER_UNAVAILABLE
                reason = EventReason.SCHEDULER_UNAVAILABLE if unavailable else EventReason.INVALID_SPEC
                self._actor.event(PODCLIQUESET, template.pcs.wire, "Warning", reason, error.description)
                if unavailable and (blamed := self._scheduling.to_blame(template)):
                    self._actor.event(*blamed[:2], "Warning", blamed[2], error.description)
        return errors
