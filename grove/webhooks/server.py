"""The HTTPS server that the API server calls: an AdmissionReview in, an AdmissionReview out.

Only what is no AdmissionReview at all is answered with an HTTP error. Everything else, a failure of ours included, is
an answer in the review, so that the user reads a sentence and not `failed calling webhook`.

The server has an event loop of its own, in a thread: somebody waits for each answer, and the main loop may be busy with
a thousand pods.
"""

import asyncio
import logging
import os
import socket
import ssl
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, nullcontext
from typing import Final, ParamSpec, TypeVar

from aiohttp import web

from grove.runtime import metrics
from grove.runtime.threads import LoopThread
from grove.webhooks.reviews import Answer, BadReviewError, Request, decode, encode

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Handler = Callable[[Request], Awaitable[Answer]]
_Next = Callable[[web.Request], Awaitable[web.StreamResponse]]

_MAX_BYTES: Final = 2**25
"""The API server takes objects up to 3 MB, sends old and new, and writes some characters as six."""
_LARGE: Final = 2**16
"""Reviews of more bytes are worked on in a thread, so that they do not hold up everybody else."""
_PATIENCE: Final = 9.0
"""Seconds for an answer; the API server gives up after 10, and tells the user less."""
_BACKLOG: Final = 128
_GRACE: Final = 5.0
_LAST_SECONDS: Final = 1.0
"""How long connections in use are given to hear that the server closes."""
_JSON: Final = "application/json"


class WebhookServer:
    """Serves `handlers`, by path, on a bound socket. It listens from the first certificate on.

    The handlers run in its own event loop. What they need there, such as connections, is `open` while it serves.
    """

    def __init__(
        self,
        sock: socket.socket,
        handlers: Mapping[str, Handler],
        open: AbstractAsyncContextManager[object] = nullcontext(),  # noqa: A002, B008
    ) -> None:
        self._socket = sock
        self._open = open
        self._thread = LoopThread("webhooks")
        self._serving = AsyncExitStack()
        self.certificate = b""
        """the certificate shown, as PEM"""
        self._newest: ssl.SSLContext | None = None
        self._listening = False
        self._app = web.Application(client_max_size=_MAX_BYTES, middlewares=[self._answer_last])
        for path, handler in handlers.items():
            self._app.router.add_post(path, _serve(path, handler))

    @property
    def listening(self) -> bool:
        """Whether requests are taken."""
        return self._listening

    async def show(self, certificate: bytes, key: bytes) -> None:
        """Show this certificate (PEM) to every client that connects from now on; open connections stay.

        Raises ValueError when the two do not fit together or cannot be read.
        """
        self._newest = _context(certificate, key)
        self.certificate = certificate
        if not self._listening:
            await self._thread.run(self._listen())
            self._listening = True

    async def close(self) -> None:
        """Take no further requests, finish those that run, and let go of the port."""
        if self._listening:
            self._listening = False
            await self._thread.run(self._serving.aclose())
        self._thread.stop()
        self._socket.close()

    async def _listen(self) -> None:
        # The context that listens has no certificate: each handshake takes the newest one.
        outer = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        outer.minimum_version = ssl.TLSVersion.TLSv1_2
        outer.sni_callback = self._take_newest
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=_GRACE, handle_signals=False)
        async with AsyncExitStack() as serving:
            await serving.enter_async_context(self._open)
            serving.push_async_callback(_leave, runner)
            await runner.setup()
            await web.SockSite(runner, self._socket, ssl_context=outer, backlog=_BACKLOG).start()
            self._serving = serving.pop_all()
        logger.info("Serving webhooks on port %d", self._socket.getsockname()[1])

    @web.middleware
    async def _answer_last(self, request: web.Request, handler: _Next) -> web.StreamResponse:
        """Tell clients to leave once the server closes: a request on its way to a closed connection would be lost."""
        response = await handler(request)
        if not self._listening:
            response.force_close()
        return response

    def _take_newest(self, connection: ssl.SSLObject, _name: str | None, _outer: ssl.SSLContext) -> None:
        assert self._newest is not None, "listens only once there is one"
        connection.context = self._newest


async def _leave(runner: web.AppRunner) -> None:
    """Close a server, after a moment in which connections that are in use hear of it."""
    if runner.server is not None and runner.server.connections:
        await asyncio.sleep(_LAST_SECONDS)
    await runner.cleanup()


def _context(certificate: bytes, key: bytes) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    with ExitStack() as files:
        try:
            context.load_cert_chain(_file(certificate, files), _file(key, files))
        except ssl.SSLError as error:
            raise ValueError(f"the certificate cannot be used: {error}") from error
    return context


def _file(content: bytes, files: ExitStack) -> str:
    """A path at which `content` can be read while `files` is open; Python's ssl reads nothing else.

    In memory where the system can: the root file system of a container may be read-only, and keys are better not
    written to disks.
    """
    if hasattr(os, "memfd_create"):
        number = os.memfd_create("pem")
        files.callback(os.close, number)
        os.write(number, content)
        return f"/proc/self/fd/{number}"
    file = files.enter_context(tempfile.NamedTemporaryFile())  # noqa: SIM115
    file.write(content)
    file.flush()
    return file.name


def _serve(path: str, handler: Handler) -> Callable[[web.Request], Awaitable[web.Response]]:
    seconds = metrics.WEBHOOK_SECONDS.labels(path)

    async def serve(request: web.Request) -> web.Response:
        start = time.perf_counter()
        response: web.StreamResponse = web.Response(status=500)
        try:
            response = await _respond(path, handler, request)
        except web.HTTPException as refusal:
            response = refusal
            raise
        finally:
            seconds.observe(time.perf_counter() - start)
            metrics.WEBHOOK_REQUESTS.labels(path, str(response.status)).inc()
        return response

    return serve


async def _respond(path: str, handler: Handler, request: web.Request) -> web.Response:
    if request.content_type != _JSON:
        raise web.HTTPUnsupportedMediaType(text=f"the content type must be {_JSON}\n")
    body = await request.read()
    try:
        review = await off_loop(len(body), decode, body)
    except BadReviewError as error:
        return web.Response(status=400, text=f"{error}\n")
    return web.Response(body=encode(review.uid, await _answer(path, handler, review)), content_type=_JSON)


async def _answer(path: str, handler: Handler, review: Request) -> Answer:
    try:
        async with asyncio.timeout(_PATIENCE):
            return await handler(review)
    except TimeoutError:
        return Answer(False, f"not checked within {_PATIENCE:.0f} s: try again, or make it smaller", 504, "Timeout")
    except Exception:
        logger.exception("%s failed on %s of %s in %s", path, review.operation, review.kind, review.namespace)
        return Answer(False, "not checked, by a fault of the operator that its log tells of", 500, "InternalError")


async def off_loop(size: int, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function, in a thread when its input of `size` bytes is large: nobody else has to wait for it then."""
    if size > _LARGE:
        return await asyncio.to_thread(function, *args, **kwargs)
    return function(*args, **kwargs)
