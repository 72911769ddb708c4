"""The webhooks in the operator's process: when requests should go to another replica."""

import asyncio
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest

from grove.controllers import webhooks
from grove.controllers.config import OperatorConfiguration
from grove.controllers.scheduling import Scheduling
from grove.controllers.webhooks import Webhooks
from grove.controllers.world import World
from grove.runtime.transport import bind
from grove.schedulers import enable
from grove.webhooks.configurations import MUTATING, VALIDATING
from grove.webhooks.provision import SECRET
from tests.fake_api import FakeApi
from tests.fake_api.seen import until


async def test_ready_from_the_first_certificate_until_the_last_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server that is away takes no replica out of service: what is shown goes on being valid."""
    api, schedulers = FakeApi([SECRET, MUTATING, VALIDATING]), enable()
    scheduling = Scheduling(schedulers, World(schedulers))
    fault = api.faults.refuse(403, "Forbidden", resource="secrets", verb="create", times=None)
    served = Webhooks(
        api.client(),
        api.client(),
        bind("127.0.0.1", 0),
        OperatorConfiguration(),
        scheduling.facts,
        scheduling.findings,
        namespace="grove",
        open=nullcontext(),
    )
    task = asyncio.ensure_future(served.run())
    await until(lambda: served.problems() and "403 Forbidden" in served.problems()[0])
    api.faults.requests.remove(fault)
    await until(lambda: not served.problems())
    api.faults.down = True
    api.drop_watches()
    await asyncio.sleep(0.2)
    assert served.problems() == []
    monkeypatch.setattr(webhooks, "_now", lambda: datetime.now(UTC) + timedelta(days=730))
    assert "the certificate ended at" in served.problems()[0]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
