"""Reconciles one PodClique: its pods, then its status."""

import time

from grove.api.labels import PODCLIQUE_FINALIZER, EventReason
from grove.api.podclique import PodClique
from grove.controllers.actor import Actor, Failure, Outcome, Patience, Reasons, earliest, now_text
from grove.controllers.routing import Name
from grove.controllers.scheduling import SCHEDULER_UNAVAILABLE, UNAVAILABLE_SECONDS, Scheduling
from grove.controllers.startup import Startup
from grove.controllers.world import World
from grove.plan.adoption import adopt
from grove.plan.kinds import POD, PODCLIQUE
from grove.plan.podclique import podclique_status, wanted_pods
from grove.plan.pods import BURST, plan_pods
from grove.plan.ranks import rank_offset
from grove.plan.rollout import roll_limit
from grove.plan.update import differs, without_finalizer
from grove.runtime.queue import Done
from grove.runtime.writes import Create, Delete

_EVENTS: Reasons = {
    (POD, Create): (EventReason.POD_CREATE_SUCCESSFUL, EventReason.POD_CREATE_FAILED),
    (POD, Delete): (EventReason.POD_DELETE_SUCCESSFUL, EventReason.POD_DELETE_FAILED),
}


class PodCliqueReconciler:
    """One pass: fill the free slots or delete the surplus, then say how it stands."""

    def __init__(
        self, world: World, actor: Actor, patience: Patience, scheduling: Scheduling, startup: Startup
    ) -> None:
        self._world = world
        self._actor = actor
        self._patience = patience
        self._scheduling = scheduling
        self._startup = startup

    async def reconcile(self, key: Name) -> Done:
        """Bring the PodClique `key` in line with its spec. Raises PassFailedError when writes failed."""
        start = time.thread_time()
        podclique = self._world.podcliques.get(*key)
        if podclique is None:
            self._patience.settle(("status", key))
            return Done()
        if podclique.deleting:
            release = without_finalizer(PODCLIQUE, podclique, PODCLIQUE_FINALIZER)
            return Done((await self._actor.act((PODCLIQUE, podclique.wire), release)).finish())
        template = self._world.set_of(podclique)
        if template is None or template.pcs.deleting:
            return Done()  # orphaned or about to go: the garbage collector decides, no pod is made any more
        orphans = adopt(podclique, self._world.pods.by_index("orphaned from", key))
        outcome = await self._actor.act((PODCLIQUE, podclique.wire), orphans)
        if outcome.failures:
            return Done(outcome.finish())
        waiting = self._scheduling.missing(template)
        awaits_levels = self._scheduling.awaits_levels(template)
        plan = plan_pods(
            podclique,
            self._world.pods.by_index("owner", podclique.uid),
            last_occupants=self._world.last_occupants.get(podclique.uid, {}),
            rank_offset=rank_offset(podclique, template),
            now=time.time(),
            burst=0 if waiting or awaits_levels else BURST,
            prepare=self._scheduling.prepare(podclique, template),
            hold=self._startup.hold(podclique, template),
            roll=roll_limit(podclique, template, self._world.replica_snapshot),
        )
        cost = 2 * (time.thread_time() - start)  # the status looks at the same pods once more
        outcome = await self._actor.act((PODCLIQUE, podclique.wire), plan.writes, _EVENTS)
        if waiting:
            outcome.failures.append(Failure(SCHEDULER_UNAVAILABLE, waiting, news_come=UNAVAILABLE_SECONDS))
        waits = await self._write_status(self._world.podcliques.get(*key), outcome)
        return Done(earliest(plan.again_after, waits, outcome.finish(), awaits_levels), cost)

    async def _write_status(self, podclique: PodClique | None, outcome: Outcome) -> float | None:
        """Write the status if it differs; seconds until a postponed write is due."""
        if podclique is None or podclique.deleting:
            return None
        key = (podclique.namespace, podclique.name)
        live = podclique.wire.get("status") or {}
        now = now_text()
        pods, template = self._world.pods.by_index("owner", podclique.uid), self._world.set_of(podclique)
        more, suspended = self._startup.conditions(podclique, pods, template), self._world.being_updated(podclique)
        errors = outcome.last_errors(live, now)
        status = podclique_status(podclique, pods, template, errors, now, more, suspended=suspended)
        if not differs(live, status):
            self._patience.settle(("status", key))
            return None
        settled = status["readyReplicas"] == wanted_pods(podclique) or bool(status["lastErrors"])
        if not settled and not self._patience.spent(("status", key)):
            return self._patience.wait(("status", key))
        if wanted_pods(podclique) and podclique.status.scheduled_replicas and not status["scheduledReplicas"]:
            lost = f"none of {podclique.status.scheduled_replicas} scheduled pods is left"
            self._actor.event(PODCLIQUE, podclique.wire, "Warning", EventReason.ALL_SCHEDULED_REPLICAS_LOST, lost)
        outcome.add(await self._actor.patch_status(PODCLIQUE, podclique.wire, status))
        self._patience.settle(("status", key))
        return None
