"""Watches the set, its PodCliques and its pods, and notes when a goal is reached. One watch per kind, no polling."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESET
from grove.runtime.cache import Store
from grove.runtime.client import Client
from grove.runtime.informer import Informer
from tests.bench.scenarios import NAMESPACE, UPDATED_IMAGE

_DEADLINE = 1200.0

Goals = Mapping[str, Callable[[], bool]]


class GoalMissedError(Exception):
    """Something did not come about in time; the message says what and how far it got."""


@dataclass(frozen=True, slots=True)
class Seen:
    """An object, reduced to what goals ask for."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    gated: bool = False
    ready: bool = False
    updated: bool = False
    """of a pod: it is ready and has the new image; of the set: its update has ended"""
    settled: bool = False
    released: bool = False
    """its init container, which waits for other cliques, may end"""
    clique: str = ""
    """name of the PodClique"""


class Observer:
    """Counts of what exists now, and the moments at which goals became true."""

    def __init__(self, client: Client) -> None:
        self.gated = 0
        self.ready = 0
        self.updated = 0
        self.ready_of: Counter[str] = Counter()
        """ready pods by PodClique"""
        self.released_of: Counter[str] = Counter()
        """pods by PodClique that waited for other cliques and do so no more"""
        self._pods: Store[Seen] = Store()
        self._podcliques: Store[Seen] = Store()
        self._sets: Store[Seen] = Store()
        self._pending: dict[str, Callable[[], bool]] = {}
        self._reached: dict[str, float] = {}
        self._all_reached = asyncio.Event()
        self._pods.on_change(self._count)
        for store in (self._pods, self._podcliques, self._sets):
            store.on_change(lambda _old, _new: self._check())
        self._informers = [
            Informer(client, POD, self._pods, _pod, namespace=NAMESPACE),
            Informer(client, PODCLIQUE, self._podcliques, _object, namespace=NAMESPACE),
            Informer(client, PODCLIQUESET, self._sets, _set, namespace=NAMESPACE),
        ]

    @property
    def pods(self) -> int:
        """How many pods there are, terminating ones included."""
        return len(self._pods)

    @property
    def podcliques(self) -> int:
        """How many PodCliques there are."""
        return len(self._podcliques)

    @property
    def settled(self) -> bool:
        """Whether the set's status says, about its present generation, that all replicas are available."""
        return any(seen.settled for seen in self._sets)

    @property
    def update_ended(self) -> bool:
        """Whether the set's status says, about its present generation, that an update has ended in all replicas."""
        return any(seen.updated for seen in self._sets)

    @property
    def empty(self) -> bool:
        """Whether neither the set nor a PodClique nor a pod is left."""
        return not (len(self._pods) or len(self._podcliques) or len(self._sets))

    @asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Watch while the block runs."""
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(informer.run()) for informer in self._informers]
            await asyncio.gather(*(informer.store.wait_synced() for informer in self._informers))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    async def reach(self, goals: Goals) -> dict[str, float]:
        """Wait until each goal was true once; the loop's time at which it was first. Raises GoalMissedError
        after 20 minutes.
        """
        self._pending, self._reached = dict(goals), {}
        self._all_reached.clear()
        self._check()
        try:
            await asyncio.wait_for(self._all_reached.wait(), _DEADLINE)
        except TimeoutError as error:
            raise GoalMissedError(
                f"not within {_DEADLINE:.0f} s: {', '.join(self._pending)}; now {self.podcliques} PodCliques, "
                f"{self.pods} pods, {self.gated} gated, {self.ready} ready, {self.updated} updated"
            ) from error
        return self._reached

    def _count(self, old: Seen | None, new: Seen | None) -> None:
        for seen, change in ((old, -1), (new, 1)):
            if seen is not None:
                self.gated += change * seen.gated
                self.ready += change * seen.ready
                self.updated += change * seen.updated
                self.ready_of[seen.clique] += change * seen.ready
                self.released_of[seen.clique] += change * seen.released

    def _check(self) -> None:
        if not self._pending:
            return
        now = asyncio.get_running_loop().time()
        for name in [name for name, reached in self._pending.items() if reached()]:
            del self._pending[name]
            self._reached[name] = now
        if not self._pending:
            self._all_reached.set()


def _seen(obj: dict[str, Any], **facts: Any) -> Seen:
    metadata = obj["metadata"]
    return Seen(metadata["namespace"], metadata["name"], metadata["uid"], int(metadata["resourceVersion"]), **facts)


def _object(obj: dict[str, Any]) -> Seen:
    return _seen(obj)


def _pod(obj: dict[str, Any]) -> Seen:
    conditions = obj["status"].get("conditions") or ()
    ready = any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)
    return _seen(
        obj,
        gated=bool(obj["spec"].get("schedulingGates")),
        ready=ready,
        updated=ready and obj["spec"]["containers"][0]["image"] == UPDATED_IMAGE,
        released=(obj["metadata"].get("annotations") or {}).get(labels.STARTUP) == labels.STARTUP_RELEASED,
        clique=(obj["metadata"].get("labels") or {}).get(labels.PODCLIQUE, ""),
    )


def _set(obj: dict[str, Any]) -> Seen:
    status = obj.get("status") or {}
    current = status.get("observedGeneration") == obj["metadata"]["generation"]
    replicas = obj["spec"]["replicas"]
    ended = "updateEndedAt" in status.get("updateProgress", {}) and status.get("updatedReplicas") == replicas
    return _seen(obj, settled=current and status.get("availableReplicas") == replicas, updated=current and ended)
