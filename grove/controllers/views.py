"""Mappings that show what stores hold at the moment, without copying it."""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Generic, TypeVar

from grove.plan.observed import PodView
from grove.runtime.cache import Store, Stored

S = TypeVar("S", bound=Stored)
V = TypeVar("V")


class Owned(Mapping[str, V], Generic[S, V]):
    """Objects of one namespace that one of `owners` (uids) controls, looked up by name."""

    def __init__(self, store: Store[S], namespace: str, owners: Collection[str], show: Callable[[S], V]) -> None:
        self._store = store
        self._namespace = namespace
        self._owners = owners
        self._show = show

    def __getitem__(self, name: str) -> V:
        obj: Any = self._store.get(self._namespace, name)
        if obj is None or obj.owner_uid not in self._owners:
            raise KeyError(name)
        return self._show(obj)

    def __iter__(self) -> Iterator[str]:
        return iter([obj.name for owner in self._owners for obj in self._store.by_index("owner", owner)])

    def __len__(self) -> int:
        return sum(self._store.count("owner", owner) for owner in self._owners)


class PodsByOwner(Mapping[str, list[PodView]]):
    """Pods by the uid of their PodClique."""

    def __init__(self, pods: Store[PodView]) -> None:
        self._pods = pods

    def __getitem__(self, uid: str) -> list[PodView]:
        return self._pods.by_index("owner", uid)

    def get(self, uid: str, default: Any = None) -> list[PodView]:
        return self._pods.by_index("owner", uid)

    def __iter__(self) -> Iterator[str]:
        return iter({pod.owner_uid for pod in self._pods})

    def __len__(self) -> int:
        return len({pod.owner_uid for pod in self._pods})
