"""Objects that the operator keeps as the API server sent them: of kinds that are not Grove's, and of schedulers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from grove.api import labels
from grove.plan.update import slim
from grove.runtime.cache import Store
from grove.runtime.resources import ResourceType
from grove.schedulers import Watch


@dataclass(frozen=True, slots=True)
class Child:
    """A Service, a HorizontalPodAutoscaler or an object of a scheduler as the API server sent it."""

    wire: dict[str, Any]
    resource_version: int
    owner_uid: str

    @property
    def namespace(self) -> str:
        return str(self.wire["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        return str(self.wire["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.wire["metadata"]["uid"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.wire["metadata"].get("labels") or {}

    @classmethod
    def from_wire(cls, obj: dict[str, Any]) -> "Child":
        """Keep what plans compare: metadata and spec."""
        obj.pop("status", None)
        return cls.of_scheduler(lambda whole: whole, obj)

    @classmethod
    def of_scheduler(cls, view: Callable[[dict[str, Any]], dict[str, Any]], obj: dict[str, Any]) -> "Child":
        """Keep what the scheduler's back end looks at."""
        obj = slim(view(obj))
        metadata = obj["metadata"]
        owner = next((ref.get("uid", "") for ref in metadata.get("ownerReferences") or () if ref.get("controller")), "")
        return cls(obj, int(metadata["resourceVersion"]), owner)


Feed = tuple[Store[Any], Callable[[dict[str, Any]], Any]]
"""A store, and what it keeps of an object in wire form."""


class SchedulerObjects:
    """The kinds of the scheduler back ends, as far as the API server serves them (`grove.schedulers.Cluster`)."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.stores: dict[Watch, Store[Child]] = {
            watch: Store({"gang": lambda obj: [(obj.namespace, obj.labels.get(labels.PODGANG))]}) for watch in watches
        }
        self._served: set[ResourceType] = set()
        self._subscribers: list[Callable[[], None]] = []

    def serves(self, resource: ResourceType) -> bool:
        """Whether the API server serves the kind now."""
        return resource in self._served

    def get(self, resource: ResourceType, namespace: str, name: str) -> dict[str, Any] | None:
        """One object; None when there is none."""
        found = (store.get(namespace, name) for store in self._of(resource))
        return next((obj.wire for obj in found if obj is not None), None)

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> list[dict[str, Any]]:
        """The objects whose label names the gang."""
        return [obj.wire for store in self._of(resource) for obj in store.by_index("gang", (namespace, gang))]

    def feed(self, resource: ResourceType) -> Feed | None:
        """Where the answers to our writes of a kind go; None for kinds that no back end watches."""
        watch = next((watch for watch in self.stores if watch.resource == resource), None)
        return (self.stores[watch], partial(Child.of_scheduler, watch.view)) if watch is not None else None

    def _of(self, resource: ResourceType) -> list[Store[Child]]:
        return [store for watch, store in self.stores.items() if watch.resource == resource]

    def on_served(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a kind becomes served or is served no more."""
        self._subscribers.append(callback)

    def note_served(self, resource: ResourceType, served: bool) -> None:
        """Take note of what an informer found out."""
        (self._served.add if served else self._served.discard)(resource)
        for callback in self._subscribers:
            callback()
