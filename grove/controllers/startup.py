"""The start order: what the reconcilers ask about it, and the step of a pass that lets pods go."""

import logging
import time
from collections.abc import Sequence

from grove.api.podclique import PodClique
from grove.controllers.actor import Actor, Outcome
from grove.controllers.routing import SOON, Wake
from grove.controllers.world import World
from grove.plan.conditions import Want
from grove.plan.init_container import Hold, InitContainer
from grove.plan.kinds import PODCLIQUESET
from grove.plan.observed import PodView
from grove.plan.release import Parent, Readiness, lacking_parents, plan_startup, startup_condition, waiting_for
from grove.plan.replica import view_of
from grove.plan.scalinggroup import set_replica
from grove.plan.template import Template

logger = logging.getLogger(__name__)

_COUNTS_SECONDS = 5.0  # while parents come up the numbers in a condition change with each of their pods


class Startup:
    """Knows for whom a PodClique waits. Of a set without an order it asks nothing and costs nothing."""

    def __init__(self, world: World, actor: Actor, wake: Wake, settings: InitContainer) -> None:
        self._world = world
        self._actor = actor
        self._wake = wake
        self._settings = settings

    def hold(self, podclique: PodClique, template: Template) -> Hold | None:
        """How new pods are held until the cliques they start after are ready; None when there are none."""
        lacking = self._lacking(podclique, template)
        return None if lacking is None else Hold(self._settings, waiting_for(lacking))

    def conditions(self, podclique: PodClique, pods: Sequence[PodView], template: Template | None) -> list[Want]:
        """The condition of a PodClique that starts after others; none for all others."""
        lacking = None if template is None else self._lacking(podclique, template)
        return [] if lacking is None else [startup_condition(pods, lacking)]

    async def release(self, template: Template, replica: int) -> tuple[Outcome, float | None]:
        """Let pods go whose parents are ready, and wake those whose condition no longer says how it stands.

        What became of it, and the seconds until a text is due.
        """
        if not template.starts_after:
            return Outcome(), None
        view = view_of(template, replica, self._world.replica_snapshot(template, replica))
        plan = plan_startup(template, replica, view, time.time())
        for name, pods in plan.released:
            logger.info("PodClique %s/%s: released %d pods, its parents are ready", template.namespace, name, pods)
        for names, within in ((plan.stale, SOON), (plan.reworded, _COUNTS_SECONDS)):
            for name in names:
                self._wake.podclique((template.namespace, name), within)
        return await self._actor.act((PODCLIQUESET, template.pcs.wire), plan.writes), plan.again_after

    def _lacking(self, podclique: PodClique, template: Template) -> tuple[Parent, ...] | None:
        if not template.starts_after:
            return None
        replica = set_replica(podclique)
        view = view_of(template, replica, self._world.replica_snapshot(template, replica))
        return lacking_parents(podclique, template, Readiness(template, replica, view))
