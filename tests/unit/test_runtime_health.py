"""What probes say."""

import asyncio

from grove.runtime import health
from grove.runtime.queue import WorkQueue
from tests.fake_api import FakeApi
from tests.fake_api.seen import WIDGETS
from tests.fake_api.virtual import cancel, virtual_time
from tests.fake_api.watched import Watched


def test_what_probes_say() -> None:
    api = FakeApi([WIDGETS])
    watched = Watched(api)
    queue: WorkQueue[str] = WorkQueue(lambda key: asyncio.sleep(0), name="probed")
    assert health.unsynced([watched.informer]) == ["widgets.example.com: not listed yet"]
    watched.store.replace([], 1)
    assert health.unsynced([watched.informer]) == []
    assert health.stuck([queue], 0) == []


@virtual_time
async def test_a_stuck_pass_is_reported() -> None:
    queue: WorkQueue[str] = WorkQueue(lambda key: asyncio.sleep(1000), name="probed")
    task = asyncio.ensure_future(queue.run())
    queue.add("a")
    await asyncio.sleep(400)
    assert health.stuck([queue], 300) == ["probed: a pass has been running for 400 s"]
    assert health.stuck([queue], 500) == []
    await cancel(task)
    await queue.stop(0)
