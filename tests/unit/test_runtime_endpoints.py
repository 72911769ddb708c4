"""Probes and metrics over real HTTP."""

import asyncio

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families

from grove.runtime import endpoints
from grove.runtime.transport import bind
from tests.fake_api.virtual import cancel


@pytest.mark.parametrize("address", ["127.0.0.1", ""])
async def test_what_probes_and_scrapes_get(address: str) -> None:
    problems: list[str] = []
    sock = bind(address, 0)
    pages = {"/healthz": endpoints.probe(lambda: problems), "/metrics": endpoints.metrics_page}
    task = asyncio.create_task(endpoints.serve(sock, pages))
    base = f"http://127.0.0.1:{sock.getsockname()[1]}"
    await asyncio.sleep(0)
    async with aiohttp.ClientSession() as session:

        async def get(path: str) -> tuple[int, str, str]:
            async with session.get(base + path) as response:
                return response.status, await response.text(), response.headers["Content-Type"]

        for _ in range(100):
            try:
                assert (await get("/healthz"))[:2] == (200, "ok")
                break
            except aiohttp.ClientConnectorError:
                await asyncio.sleep(0.05)
        problems += ["pods: no news", "podclique: stuck"]
        assert (await get("/healthz"))[:2] == (503, "pods: no news\npodclique: stuck")
        assert (await get("/other"))[0] == 404
        status, text, kind = await get("/metrics")
        assert (status, kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
        assert {"workqueue_depth", "rest_client_requests"} <= {f.name for f in text_string_to_metric_families(text)}
    await cancel(task)
    with pytest.raises(OSError, match=r"refused|failed"):
        await asyncio.open_connection("127.0.0.1", int(base.rpartition(":")[2]))
