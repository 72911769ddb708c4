"""Two replicas of the operator: the one that stands by knows all that there is, writes nothing, and goes on at once."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import cast

import aiohttp

from grove.controllers.operator import Controllers
from grove.plan.kinds import PODCLIQUE
from grove.runtime.client import Client
from grove.runtime.election import LEASE, Election
from tests.fake_api.virtual import run
from tests.fake_api.wire import Reply, Session
from tests.unit.expectations import differences
from tests.unit.harness import Cluster, virtual_clock
from tests.unit.support import clique, pod_set


class Candidate:
    """An operator that works while it holds the Lease."""

    def __init__(self, cluster: Cluster, name: str) -> None:
        self._cluster = cluster
        self.writes: list[str] = []
        """requests to write that it sent, but for the Lease"""
        session = cast(aiohttp.ClientSession, Session(self._handle))
        self.election = Election(Client(lambda: session, "http://api"), "default", "lease", name)
        client = Client(lambda: session, "http://api", may_write=self.election.leads)
        self.controllers = Controllers(client, cluster.config, self.election)
        self._task = asyncio.create_task(self.controllers.run())

    async def _handle(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        if method != "GET" and "/leases" not in url:
            self.writes.append(f"{method} {url}")
        return await self._cluster.api.handle(method, url, headers, body)

    async def stop(self) -> None:
        """End it as SIGTERM does."""
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task


def test_who_stands_by_knows_all_writes_nothing_and_goes_on_at_once() -> None:
    async def main() -> None:
        cluster = Cluster()
        cluster.api.install(LEASE)
        first = Candidate(cluster, "first")
        await cluster.rest(1)
        second = Candidate(cluster, "second")
        await cluster.rest(1)
        assert (first.election.leads(), second.election.leads()) == (True, False)
        obj = pod_set(clique("a", 3))
        cluster.create(obj)
        await cluster.rest(30)
        world = second.controllers.world
        assert [template.name for template in world.sets] == ["web"]
        assert {pod.name for pod in world.pods} == cluster.uids().keys()
        assert second.writes == []
        cluster.scale(PODCLIQUE, "web-0-a", 5)
        await first.stop()
        await cluster.rest(5)  # a third of what the Lease would have lasted
        assert second.election.leads()
        assert len(cluster.pods_of("web-0-a")) == 5
        before = len(first.writes)
        await cluster.rest(60)
        assert not differences(cluster.api, {"web": obj}, {"web-0-a": 5})
        assert len(first.writes) == before
        await second.stop()
        await cluster.close()

    with virtual_clock():
        run(main())
