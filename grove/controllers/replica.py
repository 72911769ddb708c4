"""Reconciles one replica of a PodCliqueSet: its children, and its gangs up to the lifting of gates."""

import time

from grove.api.labels import EventReason
from grove.controllers.actor import Actor, Failure, Outcome, Patience, Reasons, earliest, now_text
from grove.controllers.routing import AT_ONCE, SOON, Name, ReplicaKey, Wake
from grove.controllers.scheduling import Scheduling, lost_guarantee
from grove.controllers.startup import Startup
from grove.controllers.termination import Terminator
from grove.controllers.verdicts import Verdicts
from grove.controllers.world import World
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.plan.podgang import GangPlan
from grove.plan.replica import plan_children, plan_gangs
from grove.plan.template import Template
from grove.plan.termination import TerminationPlan, plan_terminations
from grove.runtime.queue import Done
from grove.runtime.writes import Create, Patch, Write

_PODCLIQUE = (EventReason.POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL, EventReason.POD_CLIQUE_CREATE_OR_UPDATE_FAILED)
_GROUP = (EventReason.SCALING_GROUP_CREATE_SUCCESSFUL, EventReason.SCALING_GROUP_CREATE_OR_UPDATE_FAILED)
_GANG = (EventReason.POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL, EventReason.POD_GANG_CREATE_OR_UPDATE_FAILED)
_EVENTS: Reasons = {
    (PODCLIQUE, Create): _PODCLIQUE,
    (PODCLIQUE, Patch): _PODCLIQUE,
    (PODCLIQUESCALINGGROUP, Create): _GROUP,
    (PODGANG, Create): _GANG,
}


class ReplicaReconciler:
    """One pass over a set replica. What goes wrong is kept for the set's status (`failures_of`)."""

    def __init__(
        self,
        world: World,
        actor: Actor,
        patience: Patience,
        wake: Wake,
        scheduling: Scheduling,
        startup: Startup,
        verdicts: Verdicts,
    ) -> None:
        self._world = world
        self._actor = actor
        self._patience = patience
        self._wake = wake
        self._scheduling = scheduling
        self._startup = startup
        self._terminator = Terminator(world, actor)
        self._verdicts = verdicts
        self._failures: dict[Name, dict[int, list[Failure]]] = {}

    def failures_of(self, template: Template) -> list[Failure]:
        """What went wrong last in the replicas of a set, those of the lowest first."""
        failed = self._failures.get((template.namespace, template.name), {})
        return [failure for replica in sorted(failed) if replica < template.replicas for failure in failed[replica]]

    async def reconcile(self, key: ReplicaKey) -> Done:
        """Bring replica `key` in line with its set. Raises PassFailedError when writes failed."""
        namespace, name, replica = key
        template = self._world.sets.get(namespace, name)
        if template is None or replica >= template.replicas:
            self._remember(key, [])
            self._scheduling.siblings.forget(key)
            return Done()
        start = time.thread_time()
        wrong = bool(self._verdicts.errors(template))
        writes = () if wrong else plan_children(template, replica, self._world.replica_snapshot(template, replica))
        cost = time.thread_time() - start
        outcome = await self._actor.act((PODCLIQUESET, template.pcs.wire), writes, _EVENTS)
        released, text_due = await self._startup.release(template, replica)
        outcome.add(released)
        start = time.thread_time()
        terminations = self._plan_terminations(template, replica)
        cost += time.thread_time() - start
        outcome.add(await self._terminator.carry_out(template, replica, terminations.now))
        start = time.thread_time()
        plans = self._plan_gangs(template, replica, terminations)
        if wrong:
            plans = {name: plan for name, plan in plans.items() if self._world.podgangs.get(namespace, name)}
        cost += time.thread_time() - start
        carried_out, again_after = await self._carry_out(template, replica, plans)
        outcome.add(carried_out)
        self._remember(key, outcome.failures)
        waits = (self._due(namespace, plans), terminations.again_after, text_due, again_after, outcome.finish())
        return Done(earliest(*waits), cost)

    def _plan_terminations(self, template: Template, replica: int) -> TerminationPlan:
        return plan_terminations(template, replica, self._world.replica_snapshot(template, replica), time.time())

    def _plan_gangs(self, template: Template, replica: int, terminations: TerminationPlan) -> dict[str, GangPlan]:
        snapshot = self._world.replica_snapshot(template, replica)
        return plan_gangs(
            template,
            replica,
            snapshot,
            hurry=lambda gang: self._patience.spent((template.namespace, gang)),
            now=now_text(),
            place=self._scheduling.place(template, replica, snapshot),
            due=terminations.due,
            topology=self._scheduling.topology(template),
        )

    async def _carry_out(
        self, template: Template, replica: int, plans: dict[str, GangPlan]
    ) -> tuple[Outcome, float | None]:
        """PodGangs first, then what the scheduler needs, their status, the gates; a step that fails stops the later
        ones of its gang. Also the seconds until the scheduler's back end wants to look again.

        What failed for other children does not: a gang is judged by its pods, not by a Service that could not be made.
        """
        regarding = (PODCLIQUESET, template.pcs.wire)
        outcome = await self._actor.act(regarding, [write for plan in plans.values() for write in plan.spec], _EVENTS)
        broken = {failure.name for failure in outcome.failures}
        snapshot = self._world.replica_snapshot(template, replica)
        states = {name: plan.state for name, plan in plans.items()}
        for key in self._scheduling.siblings.note(template, replica, states):
            self._wake.replica(key, SOON)
        decisions = self._scheduling.decide(template, replica, snapshot, states)
        gang_of = {write.name: name for name, decision in decisions.items() for write in decision.writes}
        done = await self._actor.act(regarding, [w for n, d in decisions.items() if n not in broken for w in d.writes])
        broken |= {gang_of[failure.name] for failure in done.failures if failure.name in gang_of}
        outcome.add(done)
        statuses: list[Write] = []
        for name, plan in plans.items():
            gang = self._world.podgangs.get(template.namespace, name)
            if plan.status is not None and gang is not None and name not in broken:
                body = {"metadata": {"resourceVersion": str(gang.resource_version)}, "status": plan.status.status}
                statuses.append(Patch(PODGANG, gang.namespace, name, body, "status", gang.uid))
                lost = lost_guarantee(gang.wire.get("status") or {}, plan.status.status)
                if lost and replica == 0 and not plan.state.gang.base:  # one event speaks for all gangs of a set
                    self._actor.event(*regarding, "Warning", EventReason.NO_GANG_GUARANTEE, lost)
                if lost and (reason := self._scheduling.mapping_failed(template)):
                    self._actor.event(PODGANG, gang.wire, "Warning", reason, lost)
        done = await self._actor.act(regarding, statuses)
        broken |= {failure.name for failure in done.failures}
        outcome.add(done)
        for name, plan in plans.items():
            for notice in plan.status.notices if plan.status is not None and name not in broken else ():
                self._actor.event(*regarding, "Warning", notice.reason, notice.message)
        gates = [
            gate
            for name, plan in plans.items()
            for gate in plan.gates
            if name in decisions and name not in broken and gate.name not in decisions[name].hold
        ]
        outcome.add(await self._actor.act(regarding, gates))
        return outcome, earliest(*(decision.again_after for decision in decisions.values()))

    def _due(self, namespace: str, plans: dict[str, GangPlan]) -> float | None:
        """Seconds until a postponed gang write is due."""
        waits = []
        for name, plan in plans.items():
            if plan.deferred:
                waits.append(self._patience.wait((namespace, name)))
            else:
                self._patience.settle((namespace, name))
        return min(waits, default=None)

    def _remember(self, key: ReplicaKey, failures: list[Failure]) -> None:
        """Keep a replica's failures for the set's status, and wake the set when they changed."""
        shown = [failure for failure in failures if not failure.passing]
        name, replica = key[:2], key[2]
        failed = self._failures.setdefault(name, {})
        before = failed.pop(replica, [])
        if shown:
            failed[replica] = shown
        if not failed:
            del self._failures[name]
        if shown != before:
            self._wake.podcliqueset(name, AT_ONCE)
