"""Sets that are updated in virtual time, and a recorder that looks at every event of it."""

import asyncio
import copy
import functools
import inspect
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from tests.fake_api import FakeApi
from tests.fake_api.store import Change
from tests.fake_api.virtual import run
from tests.unit.expectations import GANG, active, gated
from tests.unit.harness import LATENCY, Cluster, virtual_clock
from tests.unit.support import Object, clique, group, pod_set

REPEAT = int(os.environ.get("GROVE_TEST_REPEAT", "2"))
"""How often a test with random times runs, each time with others."""

CLIQUE = "grove.io/podclique"
GROUP = "grove.io/podcliquescalinggroup"
SET_REPLICA = "grove.io/podcliqueset-replica-index"
GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"
LATE = 0.5
"""Seconds that the operator may be late in hearing of a scaling."""
FOLLOWS = 10.0
"""Seconds within which the references of a PodGang follow its pods."""


def workload(replicas: int = 1, *, minimum: bool = True, **fields: Any) -> Object:
    """Ten pods per replica: two a; one b and three c in each of two replicas of sg (WL1; without `minimum` WL2)."""
    return pod_set(
        clique("a", 2, 2 if minimum else 1, **fields),
        clique("b", 1, 1),
        clique("c", 3, 3 if minimum else 1),
        groups=[group("sg", ["b", "c"], 2, 2 if minimum else 1)],
        replicas=replicas,
    )


def changed(obj: Object, *cliques: str, to: str = "2") -> Object:
    """The set with a new image for some cliques."""
    result = copy.deepcopy(obj)
    for one in result["spec"]["template"]["cliques"]:
        if one["name"] in cliques:
            one["spec"]["podSpec"]["containers"][0]["image"] = f"example.com/image:{to}"
    return result


def image(pod: Object) -> str:
    """The version of a pod's image."""
    return str(pod["spec"]["containers"][0]["image"]).rpartition(":")[2]


class Recorder:
    """Looks at every write that is committed and notes what an update must never do.

    A ready pod of a standalone clique goes only while enough others are ready; one of a scaling group only while
    enough other replicas of the group are ready as a whole; and one of a set's replica only while every other replica
    of the set that has ever been whole still is. A PodGang refers to all of its pods that have started, and to none
    that went more than `FOLLOWS` seconds ago. `created` counts pods by hostname: how often each slot was filled.
    """

    def __init__(self, api: FakeApi, unavailable: int = 1) -> None:
        self.broken: list[str] = []
        self.created: Counter[str] = Counter()
        self.deepest: Counter[str] = Counter()
        """most pods of a standalone PodClique that were down when a ready one had just gone"""
        self.moves: list[str] = []
        """replicas of the set in the order in which ready pods went"""
        self._api = api
        self._unavailable = unavailable
        self._pods: dict[str, dict[str, Object]] = defaultdict(dict)
        """active pods by PodClique and uid"""
        self._scales: dict[str, list[tuple[float, int]]] = defaultdict(list)
        self._whole: set[str] = set()
        """replicas of the set that have been whole since they were last scaled"""
        self._references: dict[str, set[str]] = {}
        """names that each PodGang refers to"""
        self._gone: dict[tuple[str, str], float] = {}
        """pods that went, by gang and name, to which their PodGang still refers, and when"""
        api.listeners.append(self._look)

    def _look(self, change: Change) -> None:
        self._follow()
        if change.resource == PODGANG:
            self._podgang(change)
        elif change.resource in (PODCLIQUE, PODCLIQUESCALINGGROUP):
            now, name = asyncio.get_running_loop().time(), change.last["metadata"]["name"]
            count = change.last["spec"]["replicas"] if change.new is not None else 0
            if not self._scales[name] or self._scales[name][-1][1] != count:
                self._scales[name].append((now, count))
                self._whole.discard(change.last["metadata"]["labels"][SET_REPLICA])
        elif change.resource == POD:
            self._pod(change)

    def _pod(self, change: Change) -> None:
        pod = change.last
        uid, tags = pod["metadata"]["uid"], pod["metadata"]["labels"]
        if change.old is None:
            self.created[pod["spec"]["hostname"]] += 1
        if change.new is not None and active(pod):
            self._pods[tags[CLIQUE]][uid] = pod
            self._is_referenced(tags[GANG], pod)
        elif (lost := self._pods[tags[CLIQUE]].pop(uid, None)) is not None:
            self._gone[tags[GANG], pod["metadata"]["name"]] = asyncio.get_running_loop().time()
            if is_ready(lost):
                self._lost(lost)
        replica = tags[SET_REPLICA]
        if self._is_whole(replica):
            self._whole.add(replica)

    def _podgang(self, change: Change) -> None:
        name = change.last["metadata"]["name"]
        podgroups = change.new["spec"]["podgroups"] if change.new is not None else ()
        self._references[name] = {ref["name"] for one in podgroups for ref in one["podReferences"]}
        for one in podgroups:
            for pod in self._pods[one["name"]].values():
                self._is_referenced(name, pod)

    def _is_referenced(self, gang: str, pod: Object) -> None:
        if not gated(pod) and pod["metadata"]["name"] not in self._references.get(gang, ()):
            self.broken.append(f"{pod['metadata']['name']} has started, and {gang} does not refer to it")

    def _follow(self) -> None:
        now = asyncio.get_running_loop().time()
        for (gang, name), since in list(self._gone.items()):
            if name not in self._references.get(gang, ()):
                del self._gone[gang, name]
            elif now - since > FOLLOWS:
                del self._gone[gang, name]
                self.broken.append(f"{gang} referred to {name} for {now - since:.0f} s after it went")

    def _lost(self, pod: Object) -> None:
        tags, name = pod["metadata"]["labels"], pod["metadata"]["name"]
        if not self.moves or self.moves[-1] != tags[SET_REPLICA]:
            self.moves.append(tags[SET_REPLICA])
        if GROUP not in tags:
            have, want = self._ready_pods(tags[CLIQUE]), self._wanted(tags[CLIQUE]) - self._unavailable
            down = self._scales[tags[CLIQUE]][-1][1] - have
            self.deepest[tags[CLIQUE]] = max(self.deepest[tags[CLIQUE]], down)
            if have < want:
                self.broken.append(f"{name} went, {have} of {tags[CLIQUE]} are left ready, {want} must be")
        else:
            want = self._wanted(tags[GROUP]) - self._unavailable
            others = [index for index in range(self._wanted(tags[GROUP])) if str(index) != tags[GROUP_REPLICA]]
            have = sum(self._unit_whole(tags[GROUP], index) for index in others)
            if have < want:
                self.broken.append(f"{name} went, {have} other replicas of {tags[GROUP]} are left, {want} must be")
        broken = [one for one in self._whole if one != tags[SET_REPLICA] and not self._is_whole(one)]
        if broken and self._exists(tags[SET_REPLICA]):
            self.broken.append(f"{name} went while replica {', '.join(broken)} of the set was down")
        self._whole -= set(broken)

    def _exists(self, replica: str) -> bool:
        pcs = self._api.find(PODCLIQUESET, "default", "web")
        return pcs is not None and int(replica) < pcs["spec"]["replicas"]

    def _wanted(self, name: str) -> int:
        """The least number that was asked for of late."""
        now = asyncio.get_running_loop().time()
        scales = self._scales[name]
        recent = [count for when, count in scales if when >= now - LATE]
        return min([*recent, *(count for _, count in scales[-1:]), *(count for _, count in scales[-2:-1] if recent)])

    def _ready_pods(self, podclique: str) -> int:
        return sum(map(is_ready, self._pods[podclique].values()))

    def _unit_whole(self, scaling_group: str, index: int) -> bool:
        prefix = f"{scaling_group}-{index}-"
        members = [name for name in self._scales if name.startswith(prefix)]
        return bool(members) and all(self._ready_pods(name) >= self._wanted(name) for name in members)

    def _is_whole(self, replica: str) -> bool:
        mine = [
            obj["metadata"]["name"]
            for obj in self._api.objects(PODCLIQUE)
            if obj["metadata"]["labels"][SET_REPLICA] == replica and "deletionTimestamp" not in obj["metadata"]
        ]
        return bool(mine) and all(self._ready_pods(name) >= self._scales[name][-1][1] for name in mine)


class Rollout:
    """A set in a cluster, and what is done to it."""

    def __init__(self, cluster: Cluster, obj: Object, unavailable: int = 1) -> None:
        self.cluster = cluster
        self.obj = obj
        self.recorder = Recorder(cluster.api, unavailable)
        self.scaled: dict[str, int] = {}

    async def up(self) -> None:
        """Bring the set up, and let slots be counted from there."""
        await self.cluster.up(self.obj)
        self.recorder.created.clear()
        self.recorder.moves.clear()

    def edit(self, obj: Object) -> None:
        """Put a new spec, as a user does."""
        self.obj = obj
        self.cluster.api.update(PODCLIQUESET, "default", "web", lambda live: {**live, "spec": obj["spec"]})

    def scale(self, name: str, replicas: int) -> None:
        """Scale a PodClique or scaling group."""
        groups = self.cluster.names(PODCLIQUESCALINGGROUP)
        self.cluster.scale(PODCLIQUESCALINGGROUP if name in groups else PODCLIQUE, name, replicas)
        self.scaled[name] = replicas

    @property
    def status(self) -> Object:
        """The set's status."""
        found: Object = self.cluster.get(PODCLIQUESET, "web").get("status") or {}
        return found

    @property
    def progress(self) -> Object:
        """The set's updateProgress."""
        found: Object = self.status.get("updateProgress") or {}
        return found

    @property
    def condition(self) -> Object:
        """The set's condition UpdateInProgress."""
        return next((one for one in self.status.get("conditions") or () if one["type"] == "UpdateInProgress"), {})

    async def until(self, holds: Callable[[], Any], step: float = 0.05) -> None:
        """Wait for something; raises TimeoutError after an hour."""
        async with asyncio.timeout(3600):
            while not holds():  # noqa: ASYNC110 - it may be anything
                await asyncio.sleep(step)

    async def ended(self) -> None:
        """Wait until the update of the set as it is now has ended."""
        generation = self.cluster.get(PODCLIQUESET, "web")["metadata"]["generation"]
        await self.until(
            lambda: self.status.get("observedGeneration") == generation and "updateEndedAt" in self.progress
        )

    async def done(self, pods: int) -> None:
        """Wait for the end, and check that everything is as the set asks for: numbers, versions, statuses, silence."""
        await self.ended()
        await self.cluster.quiet()
        await self.check(pods)

    async def check(self, pods: int) -> None:
        """Check the state at rest, and that nothing was ever done that must not be."""
        await self.cluster.check({"web": self.obj}, self.scaled)
        assert not self.recorder.broken, "\n".join(self.recorder.broken)
        live = self.cluster.api.objects(POD)
        assert len(live) == pods
        wanted = {one["name"]: one["spec"]["podSpec"]["containers"][0]["image"] for one in self._cliques()}
        for pod in live:
            name = pod["metadata"]["labels"][CLIQUE].rpartition("-")[2]
            assert pod["spec"]["containers"][0]["image"] == wanted[name], pod["metadata"]["name"]
        assert self.progress.get("currentlyUpdating") is None
        assert self.condition["status"] == "False"
        for resource in (PODCLIQUE, PODCLIQUESCALINGGROUP):
            for obj in self.cluster.api.objects(resource):
                status = obj["status"]
                assert status["currentPodCliqueSetGenerationHash"] == self.status["currentGenerationHash"]
                assert "updateProgress" not in status or "updateEndedAt" in status["updateProgress"]
                breach = next(one for one in status["conditions"] if one["type"] == "MinAvailableBreached")
                assert breach["status"] == "False", obj["metadata"]["name"]

    def _cliques(self) -> list[Object]:
        cliques: list[Object] = self.obj["spec"]["template"]["cliques"]
        return cliques

    def uids(self) -> dict[str, str]:
        """uid of the pod in every slot."""
        pods = [pod for pod in self.cluster.api.objects(POD) if active(pod)]
        return {pod["spec"]["hostname"]: pod["metadata"]["uid"] for pod in pods}

    def slots(self, *prefixes: str) -> set[str]:
        """Slots whose PodClique's name begins so."""
        return {name for name in self.uids() if name.startswith(prefixes)}


@asynccontextmanager
async def slow_cluster(seed: int) -> AsyncIterator[Cluster]:
    """A cluster whose pods take random times, with one operator at work."""
    rng = random.Random(seed)

    def up_to(seconds: float) -> Callable[[], float]:
        return lambda: rng.uniform(LATENCY, seconds)

    cluster = Cluster(bind_after=up_to(0.3), ready_after=up_to(2.0), gone_after=up_to(3.0))
    cluster.watchdog.staleness = 1.0
    cluster.start()
    try:
        yield cluster
    finally:
        await cluster.close()


def is_ready(pod: Object) -> bool:
    """Whether a pod's condition Ready is true."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def updating(obj: Object, unavailable: int = 1, repeat: int = REPEAT) -> Callable[..., Any]:
    """Run an async test with a set that is up, in `repeat` clusters with different times."""

    def decorate(test: Callable[[Rollout], Awaitable[None]]) -> Callable[[int], None]:
        async def main(seed: int) -> None:
            async with slow_cluster(seed) as cluster:
                rollout = Rollout(cluster, obj, unavailable)
                await rollout.up()
                await test(rollout)

        @functools.wraps(test)
        def wrapper(seed: int) -> None:
            with virtual_clock():
                run(main(seed))

        wrapper.__signature__ = inspect.Signature([inspect.Parameter("seed", inspect.Parameter.POSITIONAL_OR_KEYWORD)])  # type: ignore[attr-defined]
        return pytest.mark.parametrize("seed", range(repeat))(wrapper)

    return decorate
