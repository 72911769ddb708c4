"""The informer: keeps a store equal to what the API server has.

List, then watch from there; when the watch history is gone, list again and compare. A relist compares with everything
the store knows, so a removal that no watch told of is still seen.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from typing import Any, Generic, TypeVar

from grove.runtime import clock, metrics
from grove.runtime.cache import Key, Store, Stored
from grove.runtime.client import Client
from grove.runtime.errors import ApiError, jittered
from grove.runtime.resources import ResourceType

logger = logging.getLogger(__name__)

T = TypeVar("T", bound=Stored)

_BACKOFF_CAP = 5.0
_SLOW = 20.0
_LONG_SILENCE = 10.0
_REFUSAL = 5.0
"""Seconds after which a refusal is believed: an API server that has just started knows no roles, and refuses all."""
_BRIEF_WATCH = 1.0
_MUTE_WATCH = 150.0


class Informer(Generic[T]):
    """Feeds ``store`` with the objects of one resource, each turned by ``view`` into what the store keeps.

    ``namespace`` None means all. A resource that is not served (a CRD not installed) is waited for; with ``optional``
    the store counts as synced, and empty, meanwhile, and so it does when we may not read it for some seconds.
    ``on_served`` is told when that changes. An object that ``view`` cannot read is skipped: the version known before
    stays. Lists come ``page`` objects at a time: what a page weighs decoded stays with the process for good.
    """

    def __init__(
        self,
        client: Client,
        resource: ResourceType,
        store: Store[T],
        view: Callable[[dict[str, Any]], T],
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        optional: bool = False,
        page: int = 100,
        recheck_seconds: float = _SLOW,
        on_served: Callable[[bool], None] = lambda _: None,
    ) -> None:
        self.resource = resource
        self.store = store
        self.last_contact = clock.now()
        self._served = False
        self._on_served = on_served
        self._client = client
        self._view = view
        self._namespace = namespace
        self._label_selector = label_selector
        self._field_selector = field_selector
        self._optional = optional
        self._page = page
        self._recheck_seconds = recheck_seconds
        self._resource_version = ""
        self._refresh = asyncio.Event()
        self._failures = 0
        self._absences = 0
        self._mute = 0.0
        self._lost_since: float | None = None
        self._refused_since: float | None = None
        self._told = ""
        self._unreadable: set[tuple[str, str]] = set()

    @property
    def synced(self) -> asyncio.Event:
        """Set once the store holds a complete list."""
        return self.store.synced

    @property
    def served(self) -> bool:
        """Whether the API server serves the resource, as far as is known."""
        return self._served

    @served.setter
    def served(self, served: bool) -> None:
        if self._served != served:
            self._served = served
            self._on_served(served)

    def silence(self) -> float:
        """Return for how many seconds the API server has not been heard of. A quiet watch gets a bookmark every
        minute.
        """
        return clock.now() - self.last_contact

    def refresh(self) -> None:
        """List again now: ends the wait for a missing resource, a back-off or the running watch."""
        self._resource_version = ""
        self._refresh.set()

    async def run(self) -> None:
        """Keep the store up to date until cancelled; no answer of the API server ends it."""
        while True:
            try:
                delay = await self._interruptible(self._list_and_watch())
            except ApiError as error:
                delay = await self._after(error)
            except Exception:
                logger.exception("%s: an answer of the API server makes no sense, listing again", self.resource.label)
                self._resource_version = ""
                delay = max(1.0, self._backoff())
            if delay:
                await self._interruptible(asyncio.sleep(delay))
            self._refresh.clear()

    async def _interruptible(self, work: Coroutine[Any, Any, float | None]) -> float:
        """Run ``work`` until it ends, whose result is returned, or ``refresh`` is called, which returns 0."""
        task = asyncio.ensure_future(work)
        refresh = asyncio.ensure_future(self._refresh.wait())
        try:
            await asyncio.wait((task, refresh), return_when=asyncio.FIRST_COMPLETED)
            return (task.result() or 0.0) if task.done() else 0.0
        finally:
            refresh.cancel()
            task.cancel()
            await asyncio.gather(task, refresh, return_exceptions=True)

    async def _list_and_watch(self) -> float:
        """Bring the store up to date and follow one watch to its end; return the seconds to wait before the next."""
        if not self._resource_version:
            await self._list()
        start = clock.now()
        events = self._client.watch(
            self.resource,
            resource_version=self._resource_version,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            on_open=self._heard,
        )
        heard = False
        async with aclosing(events):
            async for event in events:
                self._take(event)
                self._failures = 0
                heard = True
        lasted = clock.now() - start
        if lasted < _BRIEF_WATCH:
            return self._backoff()
        self._mute = 0.0 if heard else self._mute + lasted
        if self._mute > _MUTE_WATCH:
            # Not even a bookmark: the version lies in the future of a server whose database was restored from a backup.
            self._resource_version = ""
            self._mute = 0.0
        self._failures = 0
        return 0.0

    async def _list(self) -> None:
        unreadable: set[Key] = set()
        listing = await self._client.list(
            self.resource,
            namespace=self._namespace,
            label_selector=self._label_selector,
            field_selector=self._field_selector,
            limit=self._page,
            view=lambda obj: self._read(obj, unreadable),
        )
        metrics.LISTS.labels(self.resource.label).inc()
        self._heard()
        self.store.replace(
            (obj for obj in listing.items if obj is not None), int(listing.resource_version), keep=unreadable
        )
        self._resource_version = listing.resource_version

    def _take(self, event: dict[str, Any]) -> None:
        """Take over one watch event."""
        kind, obj = event["type"], event["object"]
        metadata = obj["metadata"]
        version = metadata["resourceVersion"]
        metrics.watch_counter(self.resource.label, kind).inc()
        if kind == "DELETED":
            self.store.remove(metadata.get("namespace", ""), metadata["name"], metadata["uid"], int(version))
        elif kind != "BOOKMARK" and not self.store.knows(metadata.get("namespace", ""), metadata["name"], int(version)):
            seen = self._read(obj)
            if seen is not None:
                self.store.put(seen)
        self._resource_version = version
        self.last_contact = clock.now()

    def _read(self, obj: dict[str, Any], unreadable: set[Key] | None = None) -> T | None:
        try:
            seen = self._view(obj)
            if self._unreadable:
                self._unreadable.discard((seen.namespace, seen.name))
            return seen
        except Exception:
            metadata = obj.get("metadata") or {}
            key = (metadata.get("namespace", ""), metadata.get("name", ""))
            if unreadable is not None:
                unreadable.add(key)
            if key not in self._unreadable:
                self._unreadable.add(key)
                logger.exception("%s %s/%s cannot be read and is left out", self.resource.label, *key)
            return None

    def _heard(self) -> None:
        self.served = True
        self._absences = 0
        self.last_contact = clock.now()
        if self._told:
            away = f" after {self.last_contact - self._lost_since:.0f} s" if self._lost_since is not None else ""
            logger.info("%s: watching again%s", self.resource.label, away)
        self._told = ""
        self._lost_since = self._refused_since = None

    async def _after(self, error: ApiError) -> float:
        """Return how many seconds to wait after an error."""
        now = clock.now()
        if error.status:
            self.last_contact = now
        if error.is_gone:
            self._resource_version = ""
            return self._backoff()
        if error.is_not_found:
            return await self._missing()
        if error.status in (401, 403):
            self._refused_since = now if self._refused_since is None else self._refused_since
            if now - self._refused_since < _REFUSAL:
                return self._backoff()
            self._tell("refused: %s", error)
            if self._optional:
                self.served = False
                self._resource_version = ""
                self.store.clear()
            return jittered(_SLOW)
        if error.status >= 500 and self._failures > 2:
            self._resource_version = ""  # it may be this version that the server cannot serve
        self._lost_since = now if self._lost_since is None else self._lost_since
        if now - self._lost_since > _LONG_SILENCE:
            self._tell("no contact for %.0f s: %s", now - self._lost_since, error)
        return max(self._backoff(), error.retry_after or 0.0)

    async def _missing(self) -> float:
        """Handle a 404: the resource is not served, or just becomes so."""
        try:
            served = await self._client.discover(self.resource.group, self.resource.version)
        except ApiError:
            return self._backoff()
        if self.resource.plural in (served or ()):
            return self._backoff()
        self.served = False
        self._resource_version = ""
        self._tell("not served by this cluster, waiting for it")
        if self._optional or self.synced.is_set():
            self.store.clear()
        # An API server that has just started does not serve custom resources at once: soon first, then rarely.
        self._absences += 1
        return jittered(min(self._recheck_seconds, 2.0 ** min(self._absences, 16)))

    def _backoff(self) -> float:
        """Return 0 for a first failure, then 0.1 s doubling up to the cap."""
        self._failures += 1
        return 0.0 if self._failures == 1 else jittered(min(_BACKOFF_CAP, 0.1 * 2.0 ** min(self._failures - 2, 16)))

    def _tell(self, message: str, *values: object) -> None:
        """Log a state once."""
        if self._told != message:
            self._told = message
            level = logging.INFO if self._optional else logging.WARNING
            logger.log(level, "%s: " + message, self.resource.label, *values)
