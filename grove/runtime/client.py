"""A lean client of the API server: JSON in, JSON out, a quarter of a millisecond of CPU per request.

Only what surely did not happen is retried here: requests the server turned away (429, 503) or never got. A write whose
answer was lost is reported with status 0; the caller looks at the cluster again and decides anew.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar, overload
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from grove.runtime import metrics
from grove.runtime.errors import ApiError, jittered
from grove.runtime.limiter import RateLimiter
from grove.runtime.resources import ResourceType

V = TypeVar("V")

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

NOT_LEADING = "NotLeading"
"""Reason of an ApiError: a write that was not sent, as this process is not, or no longer, the one that may."""

_ATTEMPTS = 5
_CONNECT_ATTEMPTS = 3
_RETRY_AFTER_CAP = 10.0
_CONNECT_SECONDS = 5.0
_WATCH_SECONDS = (15, 20)
_WATCH_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Listing(Generic[V]):
    """A complete list and the resource version it shows the cluster at."""

    items: list[V]
    resource_version: str


_LOST = (TimeoutError, aiohttp.ClientError, OSError)
"""What aiohttp raises when no answer came."""


@dataclass(slots=True)
class _Call:
    """One request: ``verb`` and ``resource`` label it in metrics and errors, the rest is sent."""

    verb: str
    resource: str
    method: str
    path: str
    limits: aiohttp.ClientTimeout
    params: Mapping[str, str] | None = None
    data: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def lost(self, error: Exception, *, not_sent: bool = False) -> ApiError:
        """Return the error of a request that got no answer."""
        return ApiError(0, type(error).__name__, str(error), verb=self.verb, path=self.path, not_sent=not_sent)


class Client:
    """Requests to one API server.

    ``session`` returns the session to use now, so that it can be replaced. ``reauth`` is awaited after a 401 (a token
    was rotated), once for all requests that met it; then each is repeated once. ``qps``/``burst`` limit the requests
    per second, watches aside; None leaves that to the server's priority and fairness. ``timeout`` is for one attempt,
    in seconds. ``may_write`` is asked right before anything but a read is sent; its no is an ApiError with the reason
    ``NOT_LEADING``.
    """

    def __init__(
        self,
        session: Callable[[], aiohttp.ClientSession],
        base_url: str,
        *,
        reauth: Callable[[], Awaitable[None]] | None = None,
        qps: float | None = None,
        burst: int = 100,
        timeout: float = 30.0,
        may_write: Callable[[], bool] = lambda: True,
    ) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._reauth = reauth
        self._logins = 0
        self._login_lock = asyncio.Lock()
        self._limiter = RateLimiter(qps, burst) if qps else None
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)
        self._may_write = may_write

    async def get(self, resource: ResourceType, namespace: str, name: str) -> Object:
        """Return one object; raises ApiError."""
        return await self._object("get", "GET", resource, resource.path(namespace, name))

    async def create(self, resource: ResourceType, body: Object) -> Object:
        """Create an object in the namespace its metadata names and return it as stored; raises ApiError."""
        path = resource.path(body["metadata"].get("namespace"))
        return await self._object("create", "POST", resource, path, body=body)

    async def patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        body: Object | list[Object],
        subresource: str | None = None,
    ) -> Object:
        """Apply a JSON merge patch (dict) or JSON patch (list) and return the object; raises ApiError."""
        path = resource.path(namespace, name, subresource)
        content_type = JSON_PATCH if isinstance(body, list) else MERGE_PATCH
        return await self._object("patch", "PATCH", resource, path, body=body, content_type=content_type)

    async def replace(
        self, resource: ResourceType, namespace: str, name: str, body: Object, subresource: str | None = None
    ) -> Object:
        """Replace an object (with a resourceVersion: only that version) and return it; raises ApiError."""
        return await self._object("update", "PUT", resource, resource.path(namespace, name, subresource), body=body)

    async def delete(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        *,
        uid: str = "",
        grace_period_seconds: int | None = None,
        propagation_policy: str | None = None,
    ) -> Object:
        """Delete an object, only while it has ``uid`` if given; return the object as it ends or a Status; raises
        ApiError.
        """
        options: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_period_seconds is not None:
            options["gracePeriodSeconds"] = grace_period_seconds
        if propagation_policy is not None:
            options["propagationPolicy"] = propagation_policy
        return await self._object("delete", "DELETE", resource, resource.path(namespace, name), body=options)

    @overload
    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
    ) -> Listing[Object]: ...

    @overload
    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        view: Callable[[Object], V],
    ) -> Listing[V]: ...

    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        limit: int = 500,
        view: Callable[[Object], Any] = lambda obj: obj,
    ) -> Listing[Any]:
        """Return all objects, fetched ``limit`` at a time and each turned by ``view`` at once, which keeps memory low.

        A list whose continue token expired starts over, then in one piece, which cannot expire. Raises ApiError.
        """
        path = resource.path(namespace)
        selection = _selection(label_selector, field_selector)
        params = selection | ({"limit": str(limit)} if limit else {})
        items: list[Any] = []
        while True:
            try:
                page = await self.request("GET", path, params=params, verb="list", resource=resource.label)
            except ApiError as error:
                if not error.is_gone or "continue" not in params:
                    raise
                items.clear()
                params = dict(selection)
                continue
            for item in page.get("items") or ():
                item.setdefault("apiVersion", resource.api_version)
                item.setdefault("kind", resource.kind)
                items.append(view(item))
            token = page["metadata"].get("continue")
            if not token:
                return Listing(items, page["metadata"]["resourceVersion"])
            params["continue"] = token

    async def watch(
        self,
        resource: ResourceType,
        *,
        resource_version: str,
        namespace: str | None = None,
        label_selector: str | None = None,
        field_selector: str | None = None,
        seconds: int | None = None,
        on_open: Callable[[], None] | None = None,
    ) -> AsyncGenerator[Object, None]:
        """Yield the watch events after ``resource_version``, bookmarks included, until the server ends the watch.

        ``seconds`` is how long the server may keep it; by default random between 15 and 20. A connection that is open
        but dead (a proxy that lost the server behind it acknowledges everything) shows only in an end that does not
        come, since HTTP/1.1 has no ping; such a watch is given up 5 s after its time. ``on_open`` is called once the
        server has accepted the watch. Raises ApiError: 410 when the version is too old, 0 when the connection broke.
        """
        seconds = seconds or random.randint(*_WATCH_SECONDS)  # noqa: S311
        params = {
            "watch": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            "allowWatchBookmarks": "true",
            **_selection(label_selector, field_selector),
        }
        limits = aiohttp.ClientTimeout(total=seconds + _WATCH_GRACE, sock_connect=_CONNECT_SECONDS)
        call = _Call("watch", resource.label, "GET", resource.path(namespace), limits, params)
        try:
            async with await self._send(call) as response:
                if on_open is not None:
                    on_open()
                async for line in _lines(response.content):
                    event: Object = orjson.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError.from_status(int(status.get("code") or 500), status, verb="watch", path=call.path)
                    yield event
        except (*_LOST, orjson.JSONDecodeError) as error:
            raise call.lost(error) from error

    async def discover(self, group: str, version: str) -> set[str] | None:
        """Return the plural names (subresources too) served under a group and version, None when it is not served."""
        path = f"/apis/{group}/{version}" if group else f"/api/{version}"
        try:
            answer = await self.request("GET", path, verb="discover")
        except ApiError as error:
            if error.is_not_found:
                return None
            raise
        return {entry["name"] for entry in answer.get("resources") or ()}

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        verb: str = "",
        resource: str = "",
    ) -> Any:
        """Send one request and return the decoded JSON answer (None when empty); raises ApiError.

        ``verb`` and ``resource`` label the metrics.
        """
        call = _Call(verb or method.lower(), resource, method, path, self._timeout, params)
        if body is not None:
            call.data, call.headers = orjson.dumps(body), {"Content-Type": content_type}
        content = await self._content(call)
        try:
            return orjson.loads(content) if content else None
        except orjson.JSONDecodeError as error:
            raise call.lost(error) from error

    async def text(self, path: str, params: Mapping[str, str] | None = None, *, resource: str = "") -> str:
        """Return the answer to a GET as it is, such as a pod's log; raises ApiError."""
        content = await self._content(_Call("get", resource, "GET", path, self._timeout, params))
        return content.decode(errors="replace")

    async def _content(self, call: _Call) -> bytes:
        """Send one request and return what comes back."""
        if self._limiter is not None:
            await self._limiter.wait()
        start = time.perf_counter()
        try:
            async with await self._send(call) as response:
                return await response.read()
        except _LOST as error:
            raise call.lost(error) from error
        finally:
            metrics.request_timer(call.verb).observe(time.perf_counter() - start)

    async def _object(
        self,
        verb: str,
        method: str,
        resource: ResourceType,
        path: str,
        *,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Object:
        answer: Object = await self.request(
            method, path, body=body, content_type=content_type, verb=verb, resource=resource.label
        )
        return answer

    async def _send(self, call: _Call) -> aiohttp.ClientResponse:
        """Return the open response of a request the server accepted; raises ApiError, or aiohttp's when it was lost."""
        attempt = 0
        relogin = self._reauth is not None
        while True:
            attempt += 1
            logins = self._logins
            if call.method != "GET" and not self._may_write():
                raise ApiError(0, NOT_LEADING, "another leads", verb=call.verb, path=call.path, not_sent=True)
            failure = await self._attempt(call)
            if not isinstance(failure, ApiError):
                return failure
            if failure.status == 401 and relogin:
                relogin = False
                try:
                    await self._login_again(logins)
                except Exception as error:
                    raise failure from error
            elif failure.not_sent and attempt < _CONNECT_ATTEMPTS:
                await asyncio.sleep(jittered(0.1 * attempt))
            elif failure.status in (429, 503) and failure.retry_after is not None and attempt < _ATTEMPTS:
                await asyncio.sleep(jittered(min(failure.retry_after, _RETRY_AFTER_CAP)))
            else:
                raise failure

    async def _attempt(self, call: _Call) -> aiohttp.ClientResponse | ApiError:
        """Send once; return the open response, or the refusal."""
        query = f"?{urlencode(call.params)}" if call.params else ""
        url = URL(f"{self._base_url}{call.path}{query}", encoded=True)
        status = 0
        try:
            response = await self._session().request(
                call.method, url, data=call.data, headers=call.headers, timeout=call.limits
            )
            status = response.status
        except aiohttp.ClientConnectorError as error:  # nobody listens: the request was not sent
            return call.lost(error, not_sent=True)
        finally:
            metrics.request_counter(call.verb, call.resource, status).inc()
        if status < 400:
            return response
        async with response:
            wish = response.headers.get("Retry-After")
            body = await response.read()
        return ApiError.from_response(status, body, wish, verb=call.verb, path=call.path)

    async def _login_again(self, logins: int) -> None:
        async with self._login_lock:
            if self._logins == logins and self._reauth is not None:
                await self._reauth()
                self._logins += 1


def _selection(labels: str | None, fields: str | None) -> dict[str, str]:
    """The query parameters that narrow a list or watch."""
    return {key: value for key, value in (("labelSelector", labels), ("fieldSelector", fields)) if value}


async def _lines(stream: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream, of any length; the last one counts only when it is complete."""
    begun: list[bytes] = []
    async for chunk in stream.iter_any():
        lines = chunk.split(b"\n")
        if len(lines) == 1:
            begun.append(chunk)
            continue
        begun.append(lines[0])
        lines[0] = b"".join(begun)
        begun = [lines.pop()]
        for line in lines:
            if line:
                yield line
