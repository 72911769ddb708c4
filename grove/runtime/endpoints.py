"""Plain HTTP for probes and metrics.

It is answered by the event loop that does the work: where that is stuck no answer comes, which is what a probe asks.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from aiohttp import web

from grove.runtime.metrics import exposition

_GRACE = 1.0


@dataclass(frozen=True, slots=True)
class Page:
    """An answer."""

    text: bytes
    status: int = 200
    content_type: str = "text/plain; charset=utf-8"


def metrics_page() -> Page:
    """All metrics of the process in Prometheus' text format."""
    return Page(exposition(), content_type="text/plain; version=0.0.4; charset=utf-8")


def probe(problems: Callable[[], list[str]]) -> Callable[[], Page]:
    """A page that says ok, or with status 503 what is wrong, one problem per line."""

    def page() -> Page:
        found = problems()
        return Page("\n".join(found).encode(), 503) if found else Page(b"ok")

    return page


async def serve(sock: socket.socket, pages: Mapping[str, Callable[[], Page]]) -> None:
    """Serve pages, by path, on a bound socket until cancelled."""
    app = web.Application()
    for path, page in pages.items():
        app.router.add_get(path, _handler(page))
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_GRACE)
    await runner.setup()
    try:
        await web.SockSite(runner, sock).start()
        await asyncio.get_running_loop().create_future()
    finally:
        await runner.cleanup()
        sock.close()


def _handler(page: Callable[[], Page]) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(_: web.Request) -> web.Response:
        shown = page()
        return web.Response(body=shown.text, status=shown.status, headers={"Content-Type": shown.content_type})

    return handle
