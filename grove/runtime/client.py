"""A lean client of the API server: JSON in, JSON out, a quarter of a millisecond of CPU per request.

Only what surely did not happen is retried here: requests the server turned away (429, 503) or never got. A write whose
answer was lost is reported with status 0; the caller looks at the cluster again and decides anew.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, overload
from urllib.parse import urlencode

import aiohttp
import orjson
from yarl import URL

from grove.runtime import clock, metrics
from grove.runtime.errors import ApiError, jittered
from grove.runtime.resources import ResourceType

V = TypeVar("V")

Object = dict[str, Any]

MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"

_ATTEMPTS = 5
_RETRY_AFTER_CAP = 10.0
_CONNECT_SECONDS = 5.0
_WATCH_SECONDS = (15, 20)
_WATCH_GRACE = 5.0


@dataclass(frozen=True, slots=True)
class Listing(Generic[V]):
    """A complete list and the resource version it shows the cluster at."""

    items: list[V]
    resource_version: str


class Client:
    """Requests to one API server.

    ``session`` returns the session to use now, so that it can be replaced. ``reauth`` is awaited after a 401 (a token
    was rotated), once for all requests that met it; then each is repeated once. ``qps``/``burst`` limit the requests
    per second, watches aside; None leaves that to the server's priority and fairness. ``timeout`` is for one attempt,
    in seconds.
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
    ) -> None:
        self._session = session
        self._base_url = base_url.rstrip("/")
        self._reauth = reauth
        self._logins = 0
        self._login_lock = asyncio.Lock()
        self._limiter = RateLimiter(qps, burst) if qps else None
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=_CONNECT_SECONDS)

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
        limit: int = 500,
    ) -> Listing[Object]: ...

    @overload
    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        limit: int = 500,
        view: Callable[[Object], V],
    ) -> Listing[V]: ...

    async def list(
        self,
        resource: ResourceType,
        *,
        namespace: str | None = None,
        label_selector: str | None = None,
        limit: int = 500,
        view: Callable[[Object], Any] = lambda obj: obj,
    ) -> Listing[Any]:
        """Return all objects, fetched ``limit`` at a time and each turned by ``view`` at once, which keeps memory low.

        A list whose continue token expired starts over, then in one piece, which cannot expire. Raises ApiError.
        """
        path = resource.path(namespace)
        params = {"limit": str(limit)} if limit else {}
        if label_selector:
            params["labelSelector"] = label_selector
        items: list[Any] = []
        while True:
            try:
                page = await self.request("GET", path, params=params, verb="list", resource=resource.label)
            except ApiError as error:
                if not error.is_gone or "continue" not in params:
                    raise
                items.clear()
                params = {"labelSelector": label_selector} if label_selector else {}
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
        }
        if label_selector:
            params["labelSelector"] = label_selector
        path = resource.path(namespace)
        limits = aiohttp.ClientTimeout(total=seconds + _WATCH_GRACE, sock_connect=_CONNECT_SECONDS)
        try:
            async with await self._send("GET", path, params, None, {}, limits, "watch", resource.label) as response:
                if on_open is not None:
                    on_open()
                async for line in _lines(response.content):
                    event: Object = orjson.loads(line)
                    if event["type"] == "ERROR":
                        status = event["object"]
                        raise ApiError(
                            int(status.get("code") or 500),
                            str(status.get("reason") or ""),
                            str(status.get("message") or ""),
                            verb="watch",
                            path=path,
                        )
                    yield event
        except (TimeoutError, aiohttp.ClientError, OSError, orjson.JSONDecodeError) as error:
            raise ApiError(0, type(error).__name__, str(error), verb="watch", path=path) from error

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
        verb = verb or method.lower()
        data = None if body is None else orjson.dumps(body)
        headers = {} if data is None else {"Content-Type": content_type}
        if self._limiter is not None:
            await self._limiter.wait()
        start = time.perf_counter()
        try:
            async with await self._send(method, path, params, data, headers, self._timeout, verb, resource) as response:
                content = await response.read()
            return orjson.loads(content) if content else None
        except (TimeoutError, aiohttp.ClientError, OSError, orjson.JSONDecodeError) as error:
            raise ApiError(0, type(error).__name__, str(error), verb=verb, path=path) from error
        finally:
            metrics.request_timer(verb).observe(time.perf_counter() - start)

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

    async def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, str] | None,
        data: bytes | None,
        headers: dict[str, str],
        limits: aiohttp.ClientTimeout,
        verb: str,
        resource: str,
    ) -> aiohttp.ClientResponse:
        """Return the open response of a request the server accepted; raises ApiError."""
        url = URL(f"{self._base_url}{path}?{urlencode(params)}" if params else f"{self._base_url}{path}", encoded=True)
        attempt = 0
        relogin = self._reauth is not None
        while True:
            attempt += 1
            logins = self._logins
            try:
                response = await self._session().request(method, url, data=data, headers=headers, timeout=limits)
            except aiohttp.ClientConnectorError as error:  # nobody listens: the request was not sent
                metrics.request_counter(verb, resource, 0).inc()
                failure = ApiError(0, type(error).__name__, str(error), verb=verb, path=path, not_sent=True)
                delay = 0.1 * attempt if attempt < 3 else None
            except (TimeoutError, aiohttp.ClientError, OSError):
                metrics.request_counter(verb, resource, 0).inc()
                raise
            else:
                metrics.request_counter(verb, resource, response.status).inc()
                if response.status < 400:
                    return response
                async with response:
                    failure = ApiError.from_response(
                        response.status,
                        await response.read(),
                        response.headers.get("Retry-After"),
                        verb=verb,
                        path=path,
                    )
                delay = failure.retry_after if failure.status in (429, 503) and attempt < _ATTEMPTS else None
            if failure.status == 401 and relogin:
                relogin = False
                try:
                    await self._login_again(logins)
                except Exception as error:
                    raise failure from error
            elif delay is not None:
                await asyncio.sleep(jittered(min(delay, _RETRY_AFTER_CAP)))
            else:
                raise failure

    async def _login_again(self, logins: int) -> None:
        async with self._login_lock:
            if self._logins == logins and self._reauth is not None:
                await self._reauth()
                self._logins += 1


class RateLimiter:
    """A token bucket: ``burst`` requests at once, then ``qps`` per second, first come first served."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._window = burst * self._interval
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        now = clock.now()
        self._next = max(self._next, now - self._window) + self._interval
        if self._next > now:
            await asyncio.sleep(self._next - now)


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
