"""Carries gang terminations out: marks the PodCliques, whose own passes then replace the pods, and tells about it."""

import logging
from collections.abc import Sequence

from grove.api.labels import EventReason
from grove.controllers.actor import Actor, Outcome, now_text
from grove.controllers.world import World
from grove.plan.kinds import PODCLIQUESET
from grove.plan.template import Template
from grove.plan.termination import Termination, termination_delay, termination_writes

logger = logging.getLogger(__name__)

_REPLICA = (EventReason.REPLICA_DELETE_SUCCESSFUL, EventReason.REPLICA_DELETE_FAILED)
_GROUP_REPLICA = (EventReason.SCALING_GROUP_REPLICA_DELETE_SUCCESSFUL, EventReason.SCALING_GROUP_REPLICA_DELETE_FAILED)


class Terminator:
    """Terminates gangs; used by the pass over a set's replica, so one at a time per replica."""

    def __init__(self, world: World, actor: Actor) -> None:
        self._world = world
        self._actor = actor

    async def carry_out(self, template: Template, replica: int, terminations: Sequence[Termination]) -> Outcome:
        """Carry out what is due. What fails is due again in the next pass, which goes on from there."""
        outcome = Outcome()
        for termination in terminations:
            outcome.add(await self._terminate(template, replica, termination))
        return outcome

    async def _terminate(self, template: Template, replica: int, termination: Termination) -> Outcome:
        regarding = (PODCLIQUESET, template.pcs.wire)
        snapshot = self._world.replica_snapshot(template, replica)
        delay = termination_delay(template)
        others, causes = termination_writes(termination, snapshot.podcliques, snapshot.pods, delay, now_text())
        outcome = await self._actor.act(regarding, others)
        if not outcome.failures:
            outcome.add(await self._actor.act(regarding, causes))
        success, failure = _GROUP_REPLICA if termination.target.scaling_group else _REPLICA
        failed = next((failure.description for failure in outcome.failures if not failure.passing), "")
        if failed:
            self._actor.event(*regarding, "Warning", failure, failed)
        elif not outcome.failures:
            message = termination.message(delay)
            logger.info("PodCliqueSet %s/%s: %s", template.namespace, template.name, message)
            self._actor.event(*regarding, "Normal", success, message)
        return outcome
