"""Kubernetes Events: what ``kubectl describe`` shows. They inform; no pass waits for one or fails by one."""

import asyncio
import datetime
import logging
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from grove.runtime import clock, metrics
from grove.runtime.client import NOT_LEADING, Client, Object
from grove.runtime.errors import ApiError
from grove.runtime.resources import ResourceType

logger = logging.getLogger(__name__)

EVENT = ResourceType("", "v1", "events", "Event")

MESSAGE_BYTES = 1024
REPEAT_SECONDS = 600.0
_REMEMBERED = 2048
_WAITING = 1000


@dataclass(slots=True)
class _Entry:
    """One event as the cluster has it; ``count`` runs ahead of ``written`` until it is sent."""

    body: Object
    first: float
    count: int = 1
    written: int = 0
    waiting: bool = False


class TokenBucket:
    """Allows ``burst`` at once and ``rate`` per second in the long run."""

    def __init__(self, burst: int, rate: float) -> None:
        self._burst = float(burst)
        self._rate = rate
        self._tokens = float(burst)
        self._filled = clock.now()

    def take(self) -> bool:
        """Take a token; False when there is none."""
        now = clock.now()
        self._tokens = min(self._burst, self._tokens + (now - self._filled) * self._rate)
        self._filled = now
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


class EventRecorder:
    """Writes core/v1 Events in the background, from ``run()`` on.

    The same object, type, reason and message within ten minutes raise the count of one Event. Normal events are
    limited to ``burst`` and then ``rate`` per second over all objects, warnings to four times that; what exceeds it,
    or a backlog of 1000, is dropped and counted in the metrics.
    """

    def __init__(
        self, client: Client, component: str, *, instance: str = "", burst: int = 50, rate: float = 1.0
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance or component
        self._buckets = {"Normal": TokenBucket(burst, rate), "Warning": TokenBucket(4 * burst, 4 * rate)}
        self._entries: OrderedDict[tuple[str, ...], _Entry] = OrderedDict()
        self._backlog: asyncio.Queue[_Entry] = asyncio.Queue(_WAITING)

    def event(self, regarding: Mapping[str, str], type_: str, reason: str, message: str, action: str = "") -> None:
        """Record an event; never blocks, never raises.

        ``regarding`` is a reference with apiVersion, kind, namespace ("" or absent for cluster-scoped objects), name
        and uid. ``type_`` is ``Normal`` or ``Warning``. The message is cut to 1024 bytes, as the API demands.
        """
        if not self._buckets["Warning" if type_ == "Warning" else "Normal"].take():
            metrics.EVENTS.labels("limited").inc()
            return
        metrics.EVENT_REASONS.labels(type_, reason).inc()
        message = shorten(message)
        key = (*(regarding.get(field, "") for field in ("kind", "namespace", "name", "uid")), type_, reason, message)
        now = clock.now()
        entry = self._entries.get(key)
        if entry is not None and now - entry.first < REPEAT_SECONDS:
            entry.count += 1
        else:
            entry = _Entry(self._body(regarding, type_, reason, message, action), now)
            self._entries[key] = entry
        self._entries.move_to_end(key)
        if len(self._entries) > _REMEMBERED:
            self._entries.popitem(last=False)
        entry.body["lastTimestamp"] = timestamp()
        self._enqueue(entry)

    async def run(self) -> None:
        """Send events until cancelled."""
        while True:
            entry = await self._backlog.get()
            entry.waiting = False
            try:
                await self._send(entry)
            except ApiError as error:
                # The namespace is gone or going, or events are forbidden: nobody would read it. Or another leads now.
                if not (error.is_not_found or error.is_forbidden or error.reason == NOT_LEADING):
                    logger.info("Event %s not written: %s", entry.body["reason"], error)
                metrics.EVENTS.labels("failed").inc()
            except Exception:
                logger.exception("Event %s not written", entry.body["reason"])
            finally:
                self._backlog.task_done()

    async def drain(self, grace: float = 2.0) -> None:
        """Wait until all recorded events are sent, ``grace`` seconds at most."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._backlog.join(), grace)

    def _enqueue(self, entry: _Entry) -> None:
        if entry.waiting:
            return
        try:
            self._backlog.put_nowait(entry)
            entry.waiting = True
        except asyncio.QueueFull:
            metrics.EVENTS.labels("overflowed").inc()

    async def _send(self, entry: _Entry) -> None:
        metadata, count = entry.body["metadata"], entry.count
        if entry.written:
            change = {"count": count, "lastTimestamp": entry.body["lastTimestamp"]}
            try:
                await self._client.patch(EVENT, metadata["namespace"], metadata["name"], change)
            except ApiError as error:
                if not error.is_not_found:
                    raise
            else:
                entry.written = count
                metrics.EVENTS.labels("repeated").inc()
                return
        try:
            await self._client.create(EVENT, {**entry.body, "count": count})
        except ApiError as error:
            if not error.is_already_exists:  # it was written before, but the answer was lost
                raise
        entry.written = count
        metrics.EVENTS.labels("sent").inc()

    def _body(self, regarding: Mapping[str, str], type_: str, reason: str, message: str, action: str) -> Object:
        namespace = regarding.get("namespace") or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{regarding['name'][:230]}.{uuid.uuid4().hex[:16]}", "namespace": namespace},
            "involvedObject": {field: value for field, value in regarding.items() if value},
            "type": type_,
            "reason": reason,
            "message": message,
            "action": action,
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": self._instance,
            "firstTimestamp": timestamp(),
        }


def shorten(message: str, limit: int = MESSAGE_BYTES) -> str:
    """Return the message cut to ``limit`` bytes of UTF-8 at a character's edge, ending in "…" when something is
    missing.
    """
    raw = message.encode(errors="replace")  # half a character cannot be sent
    if len(raw) <= limit:
        return raw.decode()
    return raw[: limit - len("…".encode())].decode(errors="ignore") + "…"


def timestamp() -> str:
    """Return the time now as Kubernetes writes it: UTC, in seconds."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
