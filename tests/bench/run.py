"""One run: the life of one PodCliqueSet, measured phase by phase."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import aiohttp

from grove.cluster import processes
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG, SERVICE
from grove.runtime.client import Client
from grove.runtime.transport import open_session
from tests.bench.admission import Latencies, asking
from tests.bench.observer import Goals, Observer
from tests.bench.operator import OperatorProcess
from tests.bench.scenarios import NAME, NAMESPACE, Scenario
from tests.bench.usage import (
    Memory,
    Meter,
    Reading,
    Usage,
    credentials,
    difference,
    fetch,
    memory,
    server_writes,
)

_TOUCH_SECONDS = 10.0
_OURS = [resource.label for resource in (PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE)]
"""Kinds that nobody but the operator writes, until the garbage collector comes in the end."""


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase: seconds until each of its goals, and what was consumed until all was quiet again."""

    name: str
    seconds: dict[str, float]
    usage: Usage


@dataclass(slots=True)
class Run:
    """All that was measured. `counted` is (operator, API server): writes of a kind up to the deletion."""

    scenario: str
    pods: int
    replicas: int
    started: Memory
    startup_cpu: float
    phases: list[Phase] = field(default_factory=list)
    counted: dict[str, tuple[int, int]] = field(default_factory=dict)
    admission: Latencies = field(default_factory=dict)
    bare: dict[str, float] = field(default_factory=dict)
    """seconds that a loop without an operator took, by measure"""

    def phase(self, name: str) -> Phase:
        """The phase of that name."""
        return next(phase for phase in self.phases if phase.name == name)


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster and the operator to measure."""

    server: str
    kubeconfig: Path
    programs: Path
    operator: OperatorProcess


async def measure(scenario: Scenario, target: Target, idle: float, say: Callable[[str], None]) -> Run:
    """Measure one life of the scenario's set; `idle` is in seconds, `say` gets a line per phase.

    Raises GoalMissedError when the set does not get where it should.
    """
    async with open_session(ssl=await credentials(target.kubeconfig)) as session:
        run = _Measurement(scenario, target, session, say)
        async with run.observer.watching():
            await run.whole_life(idle)
        return run.result


class _Measurement:
    def __init__(
        self, scenario: Scenario, target: Target, session: aiohttp.ClientSession, say: Callable[[str], None]
    ) -> None:
        self._scenario = scenario
        self._server = target.server
        self._webhooks_url = target.operator.webhooks_url
        self._session = session
        self._say = say
        self._client = Client(lambda: session, target.server)
        self.observer = Observer(self._client)
        pids = {name: pid for pid, name in processes.running(target.programs).items()}
        pids |= {"operator": target.operator.pid, "bench": os.getpid()}
        self._meter = Meter(pids, session, target.operator.metrics_url)
        self.result = Run(scenario.name, scenario.pods, scenario.replicas, memory(target.operator.pid), 0.0)

    async def whole_life(self, idle: float) -> None:
        """Go through all phases."""
        now = await self._meter.calm()
        self.result.startup_cpu = round(now.cpu["operator"], 2)
        server_before = await self._server_writes()
        first = now
        with ExitStack() as asked:
            if self._scenario.admission:
                self.result.admission = asked.enter_context(asking(self._webhooks_url))
            now = await self._phase("deploy", now, self._deploy, self._deployed(self._scenario.pods))
        now = await self._phase("touch", now, self._touch, {}, _TOUCH_SECONDS)
        now = await self._phase("idle", now, None, {}, idle)
        for scale in self._scenario.scales:
            body = {"spec": {"replicas": scale.replicas}}
            act = partial(self._client.patch, scale.resource, NAMESPACE, scale.name, body, "scale")
            now = await self._phase(scale.title, now, act, self._scaled(scale.pods))
        if self._scenario.update:
            now = await self._phase("update", now, self._update, self._updated())
        self._cross_check(first, now, server_before, await self._server_writes())
        act = partial(self._client.delete, PODCLIQUESET, NAMESPACE, NAME, propagation_policy="Background")
        gone = {"pods gone": lambda: self.observer.pods == 0, "all gone": lambda: self.observer.empty}
        await self._phase("delete", now, act, gone)

    async def _phase(
        self,
        name: str,
        before: Reading,
        act: Callable[[], Awaitable[object]] | None,
        goals: Goals,
        watch_for: float = 0.0,
    ) -> Reading:
        """Do something, wait for the goals (or a fixed time) and for quiet, and note what it took."""
        start = asyncio.get_running_loop().time()
        if act is not None:
            await act()
        reached = await self.observer.reach(goals) if goals else {}
        if watch_for:
            await asyncio.sleep(watch_for)
            after = await self._meter.read()
        else:
            after = await self._meter.settle()
        seconds = {goal: round(at - start, 2) for goal, at in reached.items()}
        phase = Phase(name, seconds, difference(before, after))
        self.result.phases.append(phase)
        milestones = ", ".join(f"{goal} {value:.1f} s" for goal, value in seconds.items())
        self._say(
            f"  {name}: {milestones + '; ' if milestones else ''}operator {phase.usage.cpu['operator']:.2f} s CPU, "
            f"{sum(phase.usage.writes.values())} writes, {phase.usage.memory.now:.0f} MB"
        )
        return after

    async def _deploy(self) -> None:
        await self._client.create(PODCLIQUESET, self._scenario.manifest())

    async def _touch(self) -> None:
        body = {"metadata": {"annotations": {"grove.io/reconcile-trigger": "touched"}}}
        await self._client.patch(PODCLIQUESET, NAMESPACE, NAME, body)

    def _deployed(self, pods: int) -> Goals:
        seen = self.observer
        return {
            "PodCliques": lambda: seen.podcliques == self._scenario.podcliques,
            "pods created": lambda: seen.pods == pods,
            "ungated": lambda: seen.pods == pods and seen.gated == 0,
            **self._opened(),
            "Ready": lambda: seen.ready == pods,
            "status converged": lambda: seen.settled,
        }

    def _opened(self) -> Goals:
        """Of a chain: when each clique is ready, and when the first and the last pod of the next are free to start."""
        seen, goals = self.observer, dict[str, Callable[[], bool]]()
        for before, after in pairwise(self._scenario.chain):
            parent, child = f"{NAME}-0-{before}", f"{NAME}-0-{after}"
            goals[f"{before} ready"] = partial(_reached, seen.ready_of, parent, self._scenario.chain[before])
            goals[f"{after} opens"] = partial(_reached, seen.released_of, child, 1)
            goals[f"{after} free"] = partial(
                _reached, seen.released_of, child, self._scenario.pods // len(self._scenario.chain)
            )
        return goals

    async def _update(self) -> None:
        await self._client.patch(PODCLIQUESET, NAMESPACE, NAME, self._scenario.updated())

    def _updated(self) -> Goals:
        seen = self.observer
        return {
            "Ready": lambda: seen.pods == seen.updated == self._scenario.pods,
            "status converged": lambda: seen.update_ended,
        }

    def _scaled(self, pods: int) -> Goals:
        seen = self.observer
        return {"pods": lambda: seen.pods == pods, "Ready": lambda: seen.pods == seen.ready == pods}

    async def _server_writes(self) -> Mapping[str, int]:
        return server_writes(await fetch(self._session, f"{self._server}/metrics"))

    def _cross_check(self, first: Reading, last: Reading, before: Mapping[str, int], after: Mapping[str, int]) -> None:
        for kind in _OURS:
            own = sum(n for (_, resource), n in (last.writes - first.writes).items() if resource == kind)
            # The benchmark's own requests are counted by the server too.
            scaled = sum(scale.resource.label == kind for scale in self._scenario.scales)
            self.result.counted[kind] = (own, after.get(kind, 0) - before.get(kind, 0) - scaled)


def _reached(counts: Mapping[str, int], key: str, number: int) -> bool:
    return counts[key] >= number
