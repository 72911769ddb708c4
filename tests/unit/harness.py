"""A whole cluster in memory and in virtual time: users, operators, a scheduler, kubelets, and what must always hold."""

import asyncio
import datetime
import inspect
import random
import time as wall
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Concatenate, ParamSpec, cast
from unittest.mock import patch

import aiohttp

from grove.controllers import actor, podclique, podcliqueset, replica, scalinggroup, scheduling, startup
from grove.controllers.config import OperatorConfiguration
from grove.controllers.operator import Controllers
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.runtime.client import Client
from grove.runtime.resources import ResourceType
from tests.fake_api import FakeApi, PodSimulator, Scale
from tests.fake_api.objects import merge_patch
from tests.fake_api.virtual import run
from tests.fake_api.wire import ConnectionLostError, Reply, Session
from tests.unit.expectations import Watchdog, differences
from tests.unit.support import Object

EPOCH = datetime.datetime(2026, 9, 1, tzinfo=datetime.UTC)
LATENCY = 0.002
"""Seconds of a request's way, so that time passes where the operator is busy."""
LONG = 60.0
"""Seconds that are longer than any wait of the operator: back-off, patience, refilling."""


class _Clock:
    """Stands in for the module `time`: the loop's clock, and passes that cost nothing."""

    strftime = staticmethod(wall.strftime)

    @staticmethod
    def monotonic() -> float:
        return asyncio.get_running_loop().time()

    @staticmethod
    def thread_time() -> float:
        return 0.0

    @staticmethod
    def gmtime() -> wall.struct_time:
        return wall.gmtime(_Clock.time())

    @staticmethod
    def time() -> float:
        return EPOCH.timestamp() + asyncio.get_running_loop().time()


@contextmanager
def virtual_clock() -> Iterator[None]:
    """Let the controllers live in the loop's time, and every run with the same random numbers."""
    random.seed(0)
    with ExitStack() as stack:
        for module in (actor, podclique, podcliqueset, replica, scalinggroup, scheduling, startup):
            stack.enter_context(patch.object(module, "time", _Clock))
        yield


class OperatorProcess:
    """One operator at work. Its requests go on when it is killed, as on a real wire."""

    def __init__(self, api: FakeApi, config: OperatorConfiguration) -> None:
        self._api = api
        self._alive = True
        session = cast(aiohttp.ClientSession, Session(self._handle))
        self.controllers = Controllers(Client(lambda: session, "http://api"), config)
        self._task = asyncio.get_running_loop().create_task(self.controllers.run())

    async def _handle(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if not self._alive:
            raise ConnectionLostError(sent=False)
        reply = await asyncio.shield(asyncio.ensure_future(self._api.handle(method, url, headers, body)))
        if not self._alive:
            raise ConnectionLostError
        return reply

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def kill(self) -> None:
        """End it as SIGKILL does: it takes no answer and sends nothing any more."""
        self._alive = False
        await self.stop()


class Cluster:
    """The API server, pods that come up by themselves, and any number of operators."""

    def __init__(self, config: OperatorConfiguration | None = None, **pods: Any) -> None:
        self.config = config or OperatorConfiguration()
        self.api = FakeApi([PODGANG])
        self.api.now = lambda: EPOCH + datetime.timedelta(seconds=asyncio.get_running_loop().time())
        self.api.install(PODCLIQUESET, Scale(selector="status.hpaPodSelector"))
        self.api.install(PODCLIQUE, Scale(selector="status.hpaPodSelector"))
        self.api.install(PODCLIQUESCALINGGROUP, Scale(selector="status.selector"))
        self.api.faults.latency = LATENCY
        self.pods = PodSimulator(self.api, **pods)
        self.watchdog = Watchdog(self.api)
        self.operators: list[OperatorProcess] = []

    # Operators

    def start(self) -> OperatorProcess:
        """Start one more operator."""
        self.operators.append(OperatorProcess(self.api, self.config))
        return self.operators[-1]

    async def end(self, kill: bool = False) -> None:
        """End the operator that was started first."""
        process = self.operators.pop(0)
        await (process.kill() if kill else process.stop())

    async def close(self) -> None:
        """End all operators."""
        while self.operators:
            await self.end()

    # Users and other controllers

    def create(self, obj: Object) -> Object:
        """Create an object as a user."""
        resource = next(one for one in self.api.resources() if one.kind == obj["kind"])
        return self.api.create(resource, obj)

    def patch(self, resource: ResourceType, name: str, change: Object, *, status: bool = False) -> Object:
        """Merge a change into an object as a user or another controller."""
        return self.api.update(
            resource, "default", name, lambda obj: cast(Object, merge_patch(obj, change)), status=status
        )

    def scale(self, resource: ResourceType, name: str, replicas: int) -> None:
        """Scale an object."""
        self.patch(resource, name, {"spec": {"replicas": replicas}})

    def delete(self, resource: ResourceType, name: str, **options: Any) -> None:
        """Delete an object."""
        self.api.delete(resource, "default", name, options)

    def get(self, resource: ResourceType, name: str) -> Object:
        """An object that exists."""
        obj = self.api.find(resource, "default", name)
        assert obj is not None, f"{resource.kind} {name} does not exist"
        return obj

    def names(self, resource: ResourceType) -> set[str]:
        """Names of all objects of a kind."""
        return {obj["metadata"]["name"] for obj in self.api.objects(resource)}

    def pods_of(self, podclique: str) -> list[Object]:
        """The pods of a PodClique by index, those on their way out left out."""
        found = self.api.objects(POD, "default", **{"grove.io/podclique": podclique})
        live = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
        return sorted(live, key=lambda pod: int(pod["metadata"]["labels"]["grove.io/podclique-pod-index"]))

    def uids(self) -> dict[str, str]:
        """uid of every pod by name."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.api.objects(POD)}

    def committed(self, since: int = 0) -> Counter[str]:
        """What operators wrote, but events, by verb and resource; `since` leaves out so many requests to write."""
        done = [write for write in self.api.writes()[since:] if write.status < 300 and write.resource != "events"]
        return Counter(f"{write.verb} {write.resource} {write.subresource}".strip() for write in done)

    # Waiting and checking

    async def up(self, obj: Object) -> None:
        """Create a set and wait until it is what it should be."""
        self.create(obj)
        await self.quiet()
        await self.check({obj["metadata"]["name"]: obj})

    async def rest(self, seconds: float) -> None:
        """Let time go by."""
        await asyncio.sleep(seconds)

    async def quiet(self) -> None:
        """Return once nothing is written any more, not even after the longest wait; raises TimeoutError."""
        async with asyncio.timeout(60 * LONG):
            seen = None
            while seen != (now := (self.api.version, len(self.api.writes()))):
                seen = now
                await asyncio.sleep(LONG)

    async def heal(self) -> None:
        """End all faults; news that were lost come with new lists."""
        self.api.faults.clear()
        self.api.faults.latency = LATENCY
        self.api.compact()
        self.api.drop_watches()
        await self.quiet()

    async def check(self, sets: Mapping[str, Object], scaled: Mapping[str, int] | None = None) -> None:
        """Assert that the cluster is what the sets (by name) and the live scales (by name) ask for, and rests."""
        found = [*differences(self.api, sets, scaled or {}), *self.watchdog.broken]
        assert not found, "\n".join(found)
        before = len(self.api.writes())
        await asyncio.sleep(10 * LONG)
        late = [vars(write) for write in self.api.writes()[before:]]
        assert not late, f"not idle: {late}"


P = ParamSpec("P")


def in_cluster(test: Callable[Concatenate[Cluster, P], Awaitable[None]]) -> Callable[P, None]:
    """Decorate an async test: its first argument is a cluster with one operator at work, in virtual time."""

    async def main(*args: P.args, **kwargs: P.kwargs) -> None:
        cluster = Cluster()
        cluster.start()
        try:
            await test(cluster, *args, **kwargs)
        finally:
            await cluster.close()

    def wrapper(*args: P.args, **kwargs: P.kwargs) -> None:
        with virtual_clock():
            run(main(*args, **kwargs))

    wrapper.__name__ = test.__name__
    signature = inspect.signature(test)
    wrapper.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return wrapper
