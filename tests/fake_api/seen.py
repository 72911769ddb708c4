"""What tests of the runtime keep of an object, and how they wait."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from grove.runtime.resources import ResourceType
from tests.fake_api.objects import Object

WIDGETS = ResourceType("example.com", "v1", "widgets", "Widget")


@dataclass(frozen=True)
class Seen:
    """An object as a store keeps it."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    spec: dict[str, Any] = field(default_factory=dict, hash=False)
    labels: dict[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, obj: Object) -> "Seen":
        """Read an object; raises KeyError when it lacks what every stored object has."""
        metadata = obj["metadata"]
        return cls(
            metadata["namespace"],
            metadata["name"],
            metadata["uid"],
            int(metadata["resourceVersion"]),
            obj.get("spec") or {},
            metadata.get("labels") or {},
        )


def widget(name: str, namespace: str = "default", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """Return a Widget to create."""
    return {"metadata": {"name": name, "namespace": namespace, "labels": labels or {}}, "spec": spec}


def pod(name: str, namespace: str = "default", *, gates: tuple[str, ...] = (), **spec: Any) -> Object:
    """Return a Pod to create."""
    spec = {"containers": [{"name": "main", "image": "example.com/image:1"}], **spec}
    if gates:
        spec["schedulingGates"] = [{"name": gate} for gate in gates]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": spec}


async def until(condition: Callable[[], object], timeout: float = 30.0) -> None:  # noqa: ASYNC109
    """Return once the condition holds; raises TimeoutError."""
    async with asyncio.timeout(timeout):
        while not condition():  # noqa: ASYNC110  # conditions of any kind
            await asyncio.sleep(0.002)
