"""The wire of the in-memory API server: answers, open watches, and a session without sockets."""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import aiohttp
import orjson
from aiohttp.client_reqrep import ConnectionKey

from grove.runtime.resources import ResourceType
from tests.fake_api.objects import Object, Selector
from tests.fake_api.store import Change


class ConnectionLostError(Exception):
    """The connection breaks. ``sent`` False: it never came about."""

    def __init__(self, sent: bool = True) -> None:
        super().__init__("connection lost")
        self.sent = sent


@dataclass
class Watch:
    """One open watch: what is still to be delivered, and how it ends."""

    resource: ResourceType
    namespace: str
    selector: Selector | None
    timeout: float
    due: float = 0.0
    pending: deque[bytes] = field(default_factory=deque)
    news: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    broken: bool = False

    def send(self, line: bytes, delay: float = 0.0) -> None:
        """Deliver a line, late by ``delay`` seconds, but in order."""
        loop = asyncio.get_running_loop()
        if delay or self.due > loop.time():
            self.due = max(loop.time() + delay, self.due + 1e-6)
            loop.call_at(self.due, self._arrive, line)
        else:
            self._arrive(line)

    def _arrive(self, line: bytes) -> None:
        self.pending.append(line)
        self.news.set()

    def end(self, broken: bool = False) -> None:
        """End the watch, cleanly or as a broken connection."""
        self.ended, self.broken = True, broken
        self.news.set()

    def line(self, change: Change) -> bytes | None:
        """Return the event this watch gets of a change: what enters the selection is added, what leaves it deleted."""
        old, new = (obj is not None and self._selects(obj) for obj in (change.old, change.new))
        if not old and not new:
            return None
        kind = b"MODIFIED" if old and new else b"ADDED" if new else b"DELETED"
        raw = change.raw
        if old and change.new is not None and not new:  # the last state that was selected, at the version that left
            last = cast(Object, change.old)
            raw = orjson.dumps({**last, "metadata": {**last["metadata"], "resourceVersion": str(change.version)}})
        return b'{"type":"%b","object":%b}\n' % (kind, raw)

    def _selects(self, obj: Object) -> bool:
        if self.namespace and obj["metadata"].get("namespace") != self.namespace:
            return False
        return self.selector is None or self.selector(obj)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the lines as they come until the watch ends; raises ConnectionLostError when it breaks."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.timeout):
                while True:
                    if self.pending:
                        chunk = b"".join(self.pending)
                        self.pending.clear()
                        yield chunk
                    if self.ended and not self.pending:
                        break
                    self.news.clear()
                    if not self.pending:
                        await self.news.wait()
        if self.broken:
            raise ConnectionLostError


@dataclass
class Reply:
    """An answer: a body, or an open watch."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    watch: Watch | None = None


Handler = Callable[[str, str, Mapping[str, str], bytes], Awaitable[Reply]]


_NOWHERE = ConnectionKey("api", 80, False, True, None, None, None, None)


class Session:
    """As much of aiohttp.ClientSession as Client uses, connected to a handler of requests directly."""

    def __init__(self, handle: Handler, token: str | None = None) -> None:
        self.token = token
        self._handle = handle

    async def request(
        self,
        method: str,
        url: Any,
        *,
        data: bytes | None,
        headers: dict[str, str],
        timeout: Any,  # noqa: ASYNC109
    ) -> "Answer":
        """Send a request; raises aiohttp's errors."""
        if self.token is not None:
            headers = {**headers, "Authorization": f"Bearer {self.token}"}
        try:
            async with asyncio.timeout(timeout.total):
                reply = await self._handle(method, url.raw_path_qs, headers, data or b"")
        except ConnectionLostError as lost:
            if lost.sent:
                raise aiohttp.ServerDisconnectedError from None
            raise aiohttp.ClientConnectorError(_NOWHERE, ConnectionRefusedError("nobody listens")) from None
        return Answer(reply)


class Answer:
    """As much of aiohttp.ClientResponse as Client uses; it is its own ``content``."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers = reply.headers
        self.content = self

    async def __aenter__(self) -> "Answer":
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reply.watch is not None:
            self._reply.watch.end()

    async def read(self) -> bytes:
        """Return the body."""
        return self._reply.body

    async def iter_any(self) -> AsyncIterator[bytes]:
        """Yield the chunks of a watch."""
        assert self._reply.watch is not None
        try:
            async for chunk in self._reply.watch.stream():
                yield chunk
        except ConnectionLostError:
            raise aiohttp.ClientPayloadError("connection lost") from None
