"""What a pass tells of writes that failed."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from unittest.mock import Mock, patch

from grove.controllers import actor
from grove.controllers.actor import Actor
from grove.controllers.world import World
from grove.plan.kinds import POD, PODCLIQUE
from grove.runtime.apply import Result
from grove.runtime.errors import ApiError
from grove.runtime.events import MESSAGE_BYTES
from grove.runtime.writes import Create, Write
from tests.unit.support import NOW, Paper, clique, pod_set

OWNER = Paper.of(pod_set(clique("a", 10))).podcliques["web-0-a"]


def refused(message: str) -> Callable[..., Any]:
    async def apply(_: Any, writes: Sequence[Write], **__: Any) -> list[Result]:
        return [Result(write, error=ApiError(422, "Invalid", message, verb="create", path="/")) for write in writes]

    return apply


def create(name: str) -> Create:
    metadata: Mapping[str, Any] = {"namespace": "default", "name": name}
    return Create(POD, {"metadata": metadata})


def test_a_status_has_room_for_every_refusal() -> None:
    writes = [create(f"web-0-a-{number}") for number in range(10)]
    with patch.object(actor, "apply", refused(f"spec.nodeSelector: Invalid value: {'y!' * 50_000}")):
        outcome = asyncio.run(Actor(Mock(), World(), Mock()).act((PODCLIQUE, OWNER.wire), writes))
    errors = outcome.last_errors({}, NOW)
    assert len(errors) == 10
    for error, write in zip(errors, writes, strict=True):
        assert error["description"].startswith(f"create Pod default/{write.name}: spec.nodeSelector: Invalid value: y!")
        assert len(error["description"].encode()) <= MESSAGE_BYTES
