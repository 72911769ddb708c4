"""The HTTP face of the in-memory API server: paths, lists in pages, watches, faults."""

import asyncio
import contextlib
import itertools
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, unquote, urlsplit

import aiohttp
import orjson
from aiohttp import web

from grove.runtime.client import Client
from grove.runtime.resources import ResourceType
from tests.fake_api.faults import Faults, Request, seconds
from tests.fake_api.logs import Logs
from tests.fake_api.objects import ApiStatus, Object, Selector, field_selector, json_patch, label_selector, merge_patch
from tests.fake_api.store import Change, Scale, Storage
from tests.fake_api.wire import ConnectionLostError, Reply, Session, Watch

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


class FakeApi(Storage):
    """An API server in memory.

    ``client()`` speaks to it without sockets, ``listen()`` puts it on a loopback port. ``faults`` make it fail;
    ``requests`` holds every request that came in over HTTP. The methods of Storage act at once, beside HTTP and
    faults: use them as the user, the kubelet or another controller. ``token``, when set, is demanded as bearer token.
    ``logs`` are what containers wrote.
    """

    def __init__(self, resources: Iterable[ResourceType] = ()) -> None:
        super().__init__(resources)
        self.faults = Faults()
        self.logs = Logs()
        self.requests: list[Request] = []
        self.token: str | None = None
        self.watches: list[Watch] = []
        self._pages: dict[str, tuple[int, list[bytes]]] = {}
        self._page_ids = itertools.count(1)
        self.listeners.append(self._broadcast)

    def client(self, *, token: str | None = None, **options: Any) -> Client:
        """Return a client that needs no sockets; ``options`` go to Client."""
        session = cast(aiohttp.ClientSession, Session(self.handle, token))
        return Client(lambda: session, "http://api", **options)

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        """Listen on a loopback port; yields the base URL."""
        app = web.Application(client_max_size=2**26)
        app.router.add_route("*", "/{path:.*}", self._serve)
        silent = logging.Logger("broken connections are the point here", logging.CRITICAL)
        runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, logger=silent)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            self.drop_watches()
            await runner.cleanup()

    def writes(self, verb: str | None = None, resource: str | None = None) -> list[Request]:
        """Return the writes that clients sent, by verb and plural name, failed ones included."""
        return [
            request
            for request in self.requests
            if request.is_write and verb in (None, request.verb) and resource in (None, request.resource)
        ]

    def drop_watches(self, resource: ResourceType | None = None, broken: bool = True) -> None:
        """End all watches (of a resource), by default as broken connections."""
        for watch in self.watches:
            if resource in (None, watch.resource):
                watch.end(broken)

    def bookmark(self) -> None:
        """Send a bookmark to every watch."""
        for watch in self.watches:
            obj = {
                "kind": watch.resource.kind,
                "apiVersion": watch.resource.api_version,
                "metadata": {"resourceVersion": str(self.version)},
            }
            watch.send(orjson.dumps({"type": "BOOKMARK", "object": obj}) + b"\n")

    def expire_pages(self) -> None:
        """Make every continue token given out so far too old."""
        self._pages.clear()

    async def quiet(self, idle: float = 0.1, timeout: float = 30.0) -> None:  # noqa: ASYNC109
        """Return once nobody has asked or changed anything for ``idle`` seconds; raises TimeoutError."""
        async with asyncio.timeout(timeout):
            seen = None
            while seen != (now := (self.version, len(self.requests))):
                seen = now
                await asyncio.sleep(idle)

    async def handle(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """Answer one request; raises ConnectionLostError when the connection breaks."""
        if self.faults.down:
            raise ConnectionLostError(sent=False)
        parts = urlsplit(url)
        query = dict(parse_qsl(parts.query))
        await asyncio.sleep(seconds(self.faults.latency))
        if self.token is not None and headers.get("Authorization") != f"Bearer {self.token}":
            return _refusal(ApiStatus(401, "Unauthorized", "Unauthorized"))
        segments = [unquote(part) for part in parts.path.split("/")[1:]]
        request, resource = self._request(method, segments, query)
        self.requests.append(request)
        fault = self.faults.of(request)
        if fault is not None and fault.outcome == "reset":
            raise ConnectionLostError
        try:
            if fault is not None and fault.outcome == "refuse":
                raise ApiStatus(fault.status, fault.reason, "injected", fault.retry_after)
            if resource is None:
                reply = self._discovery(segments)
            else:
                content_type = headers.get("Content-Type", "").split(";")[0]
                reply = self._do(request, resource, query, content_type, orjson.loads(body) if body else None)
        except ApiStatus as refusal:
            reply = _refusal(refusal)
        request.status = reply.status
        await asyncio.sleep(seconds(self.faults.latency))
        if fault is not None and fault.outcome == "lose":
            raise ConnectionLostError
        return reply

    def _request(self, method: str, segments: list[str], query: dict[str, str]) -> tuple[Request, ResourceType | None]:
        group, rest = ("", segments[2:]) if segments[0] == "api" else ("".join(segments[1:2]), segments[3:])
        namespace = ""
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        plural, name, subresource = (*rest, "", "", "")[:3]
        verb = _VERBS.get(method) or ("get" if name else "watch" if query.get("watch") == "true" else "list")
        return Request(verb, plural, namespace, name, subresource), self.served(group, plural)

    def _do(
        self, request: Request, resource: ResourceType, query: dict[str, str], content_type: str, body: Any
    ) -> Reply:
        namespace, name = request.namespace, request.name
        if request.subresource == "scale":
            return self._scale(request, resource, content_type, body)
        if request.subresource == "log":
            return Reply(200, self.logs.read(orjson.loads(self.raw(resource, namespace, name)), query))
        match request.verb:
            case "get":
                return Reply(200, self.raw(resource, namespace, name))
            case "list":
                return self._list(resource, namespace, query)
            case "watch":
                return self._watch(resource, namespace, query)
            case "create":
                metadata = body.setdefault("metadata", {})
                if namespace and metadata.setdefault("namespace", namespace) != namespace:
                    raise ApiStatus(400, "BadRequest", "the namespace of the object does not match the request")
                return Reply(201, orjson.dumps(self.create(resource, body)))
            case "delete":
                gone = self.delete(resource, namespace, name, body)
                return Reply(
                    200,
                    orjson.dumps(gone or {"kind": "Status", "apiVersion": "v1", "status": "Success", "metadata": {}}),
                )
        change = _change(request.verb, content_type, body)
        changed = self.update(resource, namespace, name, change, status=request.subresource == "status")
        return Reply(200, orjson.dumps(changed))

    def _list(self, resource: ResourceType, namespace: str, query: dict[str, str]) -> Reply:
        token = query.get("continue")
        if token is None:
            version, items = self.version, self.select(resource, namespace, _selector(query))
        elif token in self._pages:
            version, items = self._pages.pop(token)
        else:
            raise ApiStatus(410, "Expired", "The provided continue parameter is too old")
        limit = int(query.get("limit") or 0) or len(items)
        metadata = {"resourceVersion": str(version)}
        if len(items) > limit:
            metadata["continue"] = f"page-{next(self._page_ids)}"
            self._pages[metadata["continue"]] = (version, items[limit:])
        head = orjson.dumps({"kind": f"{resource.kind}List", "apiVersion": resource.api_version, "metadata": metadata})
        return Reply(200, b'%b,"items":[%b]}' % (head[:-1], b",".join(items[:limit])))

    def _watch(self, resource: ResourceType, namespace: str, query: dict[str, str]) -> Reply:
        since = int(query["resourceVersion"])
        watch = Watch(resource, namespace, _selector(query), float(query.get("timeoutSeconds", 300)))
        if since < self.compacted[resource]:
            gone = orjson.loads(ApiStatus(410, "Expired", f"too old resource version: {since}").body())
            watch.send(orjson.dumps({"type": "ERROR", "object": gone}) + b"\n")
            watch.end()
            return Reply(200, watch=watch)
        for change in self.history[resource]:
            if change.version > since:
                self._tell_watch(watch, change)
        self.watches.append(watch)
        return Reply(200, watch=watch)

    def _broadcast(self, change: Change) -> None:
        self.watches = [watch for watch in self.watches if not watch.ended]
        for watch in self.watches:
            if watch.resource == change.resource:
                self._tell_watch(watch, change)

    def _tell_watch(self, watch: Watch, change: Change) -> None:
        line = watch.line(change)
        if line is None:
            return
        kind = orjson.loads(line)["type"] if self.faults.lose_event else ""
        if self.faults.lose_event and self.faults.lose_event(kind, change.resource, change.last):
            return
        line *= 2 if self.faults.duplicate_events else 1
        watch.send(line, seconds(self.faults.watch_delay))

    def _scale(self, request: Request, resource: ResourceType, content_type: str, body: Any) -> Reply:
        where = self.scales.get(resource)
        if where is None:
            raise ApiStatus(404, "NotFound", "the server could not find the requested resource")
        obj: Object = orjson.loads(self.raw(resource, request.namespace, request.name))
        if request.verb != "get":
            wanted = _change(request.verb, content_type, body)(_as_scale(obj, where))

            def change(current: Object) -> Object:
                current["metadata"]["resourceVersion"] = wanted["metadata"].get("resourceVersion")
                *parents, last = where.replicas.split(".")
                target = current
                for part in parents:
                    target = target.setdefault(part, {})
                target[last] = wanted["spec"]["replicas"]
                return current

            obj = self.update(resource, request.namespace, request.name, change)
        return Reply(200, orjson.dumps(_as_scale(obj, where)))

    def _discovery(self, segments: list[str]) -> Reply:
        if segments == ["version"]:
            return Reply(200, orjson.dumps({"gitVersion": "v1.37.2"}))
        if segments == ["apis"]:
            groups = sorted({(one.group, one.version) for one in self.resources() if one.group})
            found = [{"name": group, "versions": [{"version": version}]} for group, version in groups]
            return Reply(200, orjson.dumps({"groups": found}))
        if (segments[0] == "api" and len(segments) == 2) or (segments[0] == "apis" and len(segments) == 3):
            group, version = ("", segments[1]) if segments[0] == "api" else (segments[1], segments[2])
            served = [one for one in self.resources() if (one.group, one.version) == (group, version)]
            if served:
                return Reply(
                    200, orjson.dumps({"resources": [{"name": one.plural, "kind": one.kind} for one in served]})
                )
        raise ApiStatus(404, "NotFound", "the server could not find the requested resource")

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        try:
            reply = await self.handle(request.method, request.raw_path, request.headers, await request.read())
            if reply.watch is None:
                return web.Response(status=reply.status, body=reply.body, headers=dict(reply.headers))
            response = web.StreamResponse()
            await response.prepare(request)
            async for chunk in reply.watch.stream():
                await response.write(chunk)
        except ConnectionLostError:
            if request.transport is not None:
                request.transport.abort()
            raise ConnectionResetError from None
        else:
            await response.write_eof()
            return response


def _refusal(refusal: ApiStatus) -> Reply:
    headers = {} if refusal.retry_after is None else {"Retry-After": f"{refusal.retry_after:.0f}"}
    return Reply(refusal.status, refusal.body(), headers)


def _selector(query: Mapping[str, str]) -> Selector | None:
    tests = [label_selector(query["labelSelector"])] if query.get("labelSelector") else []
    tests += [field_selector(query["fieldSelector"])] if query.get("fieldSelector") else []
    return (lambda obj: all(test(obj) for test in tests)) if tests else None


def _change(verb: str, content_type: str, body: Any) -> Callable[[Object], Object]:
    if verb == "update":
        return lambda _: cast(Object, body)
    if content_type == "application/merge-patch+json":
        return lambda obj: cast(Object, merge_patch(obj, body))
    if content_type == "application/json-patch+json":
        return lambda obj: cast(Object, json_patch(obj, body))
    raise ApiStatus(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {content_type}")


def _as_scale(obj: Object, where: Scale) -> Object:
    def at(path: str) -> Any:
        value: Any = obj
        for part in path.split("."):
            value = (value or {}).get(part)
        return value

    metadata = {field: obj["metadata"][field] for field in ("name", "namespace", "uid", "resourceVersion")}
    status = {"replicas": at(where.status_replicas) or 0}
    if where.selector and at(where.selector):
        status["selector"] = at(where.selector)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": at(where.replicas) or 0},
        "status": status,
    }
