"""Anything may happen in any order to sets, pods, operators and the wire: in the end the cluster is as it should be."""

import asyncio
import random
from collections.abc import Coroutine
from contextlib import ExitStack
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from grove.plan.kinds import AUTOSCALER, POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG, SERVICE
from grove.runtime.resources import ResourceType
from tests.fake_api.virtual import VirtualLoop
from tests.unit.expectations import active
from tests.unit.harness import LATENCY, Cluster, virtual_clock
from tests.unit.support import Object, clique, group, pod_set

NAMES = ("web", "web-0")  # each could be taken for a part of the other's children
SIZES = {"a": (0, 2, 3, 5), "b": (0, 1, 2), "c": (0, 1, 3)}
PICK = st.integers(0, 10**6)
WAIT = 0.5
"""Seconds that news may be late."""


def new_set(name: str, replicas: int) -> Object:
    """A standalone clique (2 of 3) with an autoscaler, and a group of two cliques, of which one replica is a must."""
    return pod_set(
        clique("a", 3, 2, autoScalingConfig={"maxReplicas": 9}),
        clique("b", 2, 1),
        clique("c", 1, 1),
        groups=[group("g", ["b", "c"], 2, 1)],
        name=name,
        replicas=replicas,
    )


class Chaos(RuleBasedStateMachine):
    """What users asked for (`sets`, `scaled`) against what the cluster is.

    Names in `vague` were scaled and perhaps made anew since, so that either number is right.
    """

    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(virtual_clock())
        self.runner = self.stack.enter_context(asyncio.Runner(loop_factory=VirtualLoop))
        self.random = random.Random(1)
        self.sets: dict[str, Object] = {}
        self.scaled: dict[str, int] = {}
        self.vague: set[str] = set()
        self.alone = True
        """one operator did it all, so none can have made a pod that another did not know of"""
        self.cluster: Cluster

    @initialize(
        probability=st.sampled_from([0.0, 0.03, 0.1]), seed=PICK, operators=st.integers(1, 2), late=st.booleans()
    )
    def begin(self, probability: float, seed: int, operators: int, late: bool) -> None:
        self.random.seed(seed)
        self.run(self._begin(probability, seed, operators, late))

    async def _begin(self, probability: float, seed: int, operators: int, late: bool) -> None:
        times = {"bind_after": 0.3, "ready_after": 1.0, "gone_after": 2.0}
        self.cluster = Cluster(**{key: self._up_to(seconds) for key, seconds in times.items()})
        self.cluster.watchdog.staleness = 2 * WAIT
        faults = self.cluster.api.faults
        if probability:
            faults.chaos(probability, seed)
        if late:
            faults.latency, faults.watch_delay = self._up_to(0.02), self._up_to(WAIT)
            faults.duplicate_events = True
        self.alone = operators == 1
        for _ in range(operators):
            self.cluster.start()

    def _up_to(self, seconds: float) -> Any:
        return lambda: self.random.uniform(LATENCY, seconds)

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something in the cluster's time."""
        self.runner.run(work)

    def now(self, work: Any, *args: Any) -> None:
        """Call a function of the cluster in its time."""

        async def call() -> None:
            work(*args)

        self.run(call())

    def names(self, resource: ResourceType) -> list[str]:
        return sorted(self.cluster.names(resource))

    def unclear(self, prefix: str) -> None:
        """What is called so may be made anew with the template's number."""
        self.vague |= {name for name in self.scaled if name.startswith(prefix)}

    # Users

    @rule(name=st.sampled_from(NAMES), replicas=st.integers(0, 2))
    def create_or_scale(self, name: str, replicas: int) -> None:
        if name not in self.sets:
            self.sets[name] = new_set(name, replicas)
            self.now(self.cluster.create, self.sets[name])
            return
        spec = {**self.sets[name]["spec"], "replicas": replicas}
        self.sets[name] = {**self.sets[name], "spec": spec}
        for index in range(replicas, 3):
            self.unclear(f"{name}-{index}-")
        self.now(self.cluster.scale, PODCLIQUESET, name, replicas)

    @precondition(lambda self: self.sets)
    @rule(which=PICK)
    def delete_a_set(self, which: int) -> None:
        name = sorted(self.sets)[which % len(self.sets)]
        del self.sets[name]
        self.unclear(f"{name}-")
        self.now(self.cluster.delete, PODCLIQUESET, name)

    @precondition(lambda self: self.names(PODCLIQUESCALINGGROUP))
    @rule(which=PICK, replicas=st.integers(0, 3))
    def scale_a_group(self, which: int, replicas: int) -> None:
        names = self.names(PODCLIQUESCALINGGROUP)
        name = names[which % len(names)]
        self.scaled[name] = replicas
        self.unclear(f"{name}-")
        self.now(self.cluster.scale, PODCLIQUESCALINGGROUP, name, replicas)

    @precondition(lambda self: self.names(PODCLIQUE))
    @rule(which=PICK, size=st.integers(0, 3))
    def scale_a_clique(self, which: int, size: int) -> None:
        names = self.names(PODCLIQUE)
        name = names[which % len(names)]
        replicas = SIZES[name[-1]][size % len(SIZES[name[-1]])]
        self.scaled[name] = replicas
        self.now(self.cluster.scale, PODCLIQUE, name, replicas)

    @precondition(lambda self: self.sets)
    @rule(which=PICK, clique=st.sampled_from("abc"), size=st.integers(0, 3))
    def change_a_number_in_the_template(self, which: int, clique: str, size: int) -> None:
        name = sorted(self.sets)[which % len(self.sets)]
        replicas = SIZES[clique][size % len(SIZES[clique])]
        template = self.sets[name]["spec"]["template"]
        cliques = [
            {**one, "spec": {**one["spec"], "replicas": replicas}} if one["name"] == clique else one
            for one in template["cliques"]
        ]
        spec = {**self.sets[name]["spec"], "template": {**template, "cliques": cliques}}
        self.sets[name] = {**self.sets[name], "spec": spec}
        # The new number is applied, unless the operator has not seen the one before.
        self.vague |= {
            one for one in self.names(PODCLIQUE) if one.startswith(f"{name}-") and one.endswith(f"-{clique}")
        }
        self.now(self.cluster.patch, PODCLIQUESET, name, {"spec": spec})

    # Others

    def _some_pod(self, which: int) -> str | None:
        pods = [pod["metadata"]["name"] for pod in self.cluster.api.objects(POD) if active(pod)]
        return pods[which % len(pods)] if pods else None

    @rule(which=PICK, end=st.sampled_from(["delete", "fail", "stick", "crash"]))
    def end_a_pod(self, which: int, end: str) -> None:
        name = self._some_pod(which)
        if name is None:
            return
        if end == "delete":
            self.now(self.cluster.delete, POD, name)
        elif end == "stick":
            before, self.cluster.pods.gone_after = self.cluster.pods.gone_after, 30.0
            self.now(self.cluster.delete, POD, name)
            self.run(asyncio.sleep(0))
            self.cluster.pods.gone_after = before
        elif self.cluster.get(POD, name)["spec"].get("nodeName"):
            self.now(self.cluster.pods.finish if end == "fail" else self.cluster.pods.crash, "default", name)
            if end == "crash":
                self.now(self.cluster.pods.set_ready, "default", name, True)

    @rule(which=PICK, kind=st.sampled_from([SERVICE, PODGANG, AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP]))
    def delete_a_child(self, which: int, kind: ResourceType) -> None:
        names = self.names(kind)
        if names:
            name = names[which % len(names)]
            self.unclear(name)
            self.now(self.cluster.delete, kind, name)

    @rule(which=PICK, kind=st.sampled_from([PODGANG, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET]))
    def take_a_status_away(self, which: int, kind: ResourceType) -> None:
        names = self.names(kind)
        if names:
            change = {"status": {"replicas": 7, "phase": "Odd", "conditions": []}}
            self.run(self._patch_status(kind, names[which % len(names)], change))

    async def _patch_status(self, kind: ResourceType, name: str, change: Object) -> None:
        self.cluster.patch(kind, name, change, status=True)

    @rule(seconds=st.floats(0.0, 3.0))
    def time_goes_by(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))

    # Operators and the wire

    @rule(kill=st.booleans(), seconds=st.floats(0.0, 2.0))
    def restart_an_operator(self, kill: bool, seconds: float) -> None:
        self.run(self._restart(kill, seconds))

    async def _restart(self, kill: bool, seconds: float) -> None:
        self.alone = False
        await self.cluster.end(kill)
        await asyncio.sleep(seconds)
        self.cluster.start()

    @rule(seconds=st.floats(0.0, 2.0))
    def the_api_server_is_down(self, seconds: float) -> None:
        self.run(self._down(seconds))

    async def _down(self, seconds: float) -> None:
        self.cluster.api.faults.down = True
        self.cluster.api.drop_watches()
        await asyncio.sleep(seconds)
        self.cluster.api.faults.down = False

    @rule(compact=st.booleans())
    def watches_break(self, compact: bool) -> None:
        if compact:
            self.now(self.cluster.api.compact)
        self.now(self.cluster.api.drop_watches)

    @rule(seconds=st.floats(0.0, 1.0))
    def news_of_removals_are_lost(self, seconds: float) -> None:
        self.run(self._lose(seconds))

    async def _lose(self, seconds: float) -> None:
        # Nobody may count on what it has not heard for so long.
        self.cluster.watchdog.staleness = 10**6
        self.cluster.api.faults.lose_event = lambda kind, _, obj: kind == "DELETED"
        await asyncio.sleep(seconds)
        self.cluster.api.faults.lose_event = None

    # In the end

    def teardown(self) -> None:
        try:
            if hasattr(self, "cluster"):
                self.run(self._end())
        finally:
            self.stack.close()

    async def _end(self) -> None:
        cluster = self.cluster
        try:
            await cluster.heal()
            await cluster.check(self.sets, self.scaled | self._live(self.vague))
            assert not (self.alone and cluster.watchdog.doubles), cluster.watchdog.doubles
            for name in self.sets:
                cluster.delete(PODCLIQUESET, name)
            await cluster.quiet()
            await cluster.check({})
        finally:
            await cluster.close()

    def _live(self, names: set[str]) -> dict[str, int]:
        """The numbers that objects have now, of those whose number may be one of several."""
        found = {}
        for resource in (PODCLIQUE, PODCLIQUESCALINGGROUP):
            for obj in self.cluster.api.objects(resource):
                if obj["metadata"]["name"] in names:
                    found[obj["metadata"]["name"]] = obj["spec"]["replicas"]
        return found


Chaos.TestCase.settings = settings(
    max_examples=30,
    stateful_step_count=15,
    deadline=None,
    derandomize=True,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
TestChaos = Chaos.TestCase
