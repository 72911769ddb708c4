"""The cache: what we know of one resource, with indexes, safe against stale and late news.

News of an object reaches the store from three sides: lists, watch events and the answers to our own writes (so that a
pass reads its own writes). They may arrive in any order; the resource version decides. Resource versions of one
resource compare as integers (KEP-5504).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Generic, Protocol, TypeVar

logger = logging.getLogger(__name__)

_NEVER = 2**63

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped objects) and name."""


class Stored(Protocol):
    """What the store needs to know of an object."""

    @property
    def namespace(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...

    @property
    def resource_version(self) -> int: ...


T = TypeVar("T", bound=Stored)
Subscriber = Callable[[T | None, T | None], None]


class Store(Generic[T]):
    """The objects of one resource by namespace and name.

    ``indexes`` maps an index name to a function that gives the values under which an object is found, such as
    ``{"owner": lambda pod: [pod.owner_uid]}``. Stored objects must not be changed in place.
    """

    TOMBSTONES = 2048
    """How many removals are remembered. Each guards against one late answer to a write, so a few would do."""

    def __init__(self, indexes: Mapping[str, Callable[[T], Iterable[Hashable]]] | None = None) -> None:
        self._objects: dict[Key, T] = {}
        self._index_functions = dict(indexes or {})
        self._indexes: dict[str, dict[Hashable, dict[Key, T]]] = {name: {} for name in self._index_functions}
        self._tombstones: OrderedDict[str, int] = OrderedDict()
        self._floor = 0
        self._subscribers: list[Subscriber[T]] = []
        self.synced = asyncio.Event()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate over a copy of the object list: the store may change meanwhile."""
        return iter(list(self._objects.values()))

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object, or None."""
        return self._objects.get((namespace, name))

    def knows(self, namespace: str, name: str, resource_version: int) -> bool:
        """Return whether this version of the object, or a later one, is held: such news need not even be read."""
        known = self._objects.get((namespace, name))
        return known is not None and known.resource_version >= resource_version

    def by_index(self, index: str, value: Hashable) -> list[T]:
        """Return the objects an index holds under ``value``; the cost depends on their number alone."""
        return list(self._indexes[index].get(value, {}).values())

    def count(self, index: str, value: Hashable) -> int:
        """Return how many objects an index holds under ``value``."""
        return len(self._indexes[index].get(value, ()))

    def on_change(self, callback: Subscriber[T]) -> None:
        """Call ``callback(old, new)`` after each change; old is None for a new object, new for a removed one."""
        self._subscribers.append(callback)

    def off_change(self, callback: Subscriber[T]) -> None:
        """Call ``callback`` no more."""
        self._subscribers.remove(callback)

    async def wait_synced(self) -> None:
        """Return once the first complete list has been taken over."""
        await self.synced.wait()

    def put(self, obj: T) -> bool:
        """Take over an object unless something as new is known; return whether the store changed.

        Refused: the same or an older version, an object already removed, one that a complete list did not contain.
        """
        key = (obj.namespace, obj.name)
        version = obj.resource_version
        known = self._objects.get(key)
        if known is not None:
            if version <= known.resource_version:
                return False
        elif version <= self._floor:
            return False
        if version <= self._tombstones.get(obj.uid, -1):
            return False
        if known is not None and known.uid != obj.uid:
            self._bury(known.uid, version)
        self._objects[key] = obj
        self._reindex(key, known, obj)
        self._notify(key, known, obj)
        return True

    def remove(self, namespace: str, name: str, uid: str, resource_version: int | None = None) -> bool:
        """Forget the object with this uid as of ``resource_version`` (None: for good); return whether it was there.

        An object that is newer than the news stays (it left a label selection and came back), and so does another
        object of the same name.
        """
        version = _NEVER if resource_version is None else resource_version
        self._bury(uid, version)
        key = (namespace, name)
        known = self._objects.get(key)
        if known is None or known.uid != uid or known.resource_version > version:
            return False
        del self._objects[key]
        self._reindex(key, known, None)
        self._notify(key, known, None)
        return True

    def replace(self, objects: Iterable[T], resource_version: int, keep: Collection[Key] = ()) -> None:
        """Take over a complete list made at ``resource_version`` and mark the store synced.

        Known objects that the list lacks are removed, but not those newer than the list (our own writes) nor the keys
        in ``keep`` (listed, but unreadable). Lists never go back in time, except when the API server's database was
        restored from a backup: then what was known is void.
        """
        if resource_version < self._floor:
            logger.warning(
                "The API server went back in time, from %d to %d: starting over", self._floor, resource_version
            )
            self.clear()
            self._tombstones.clear()
            self._floor = 0
        present = set(keep)
        for obj in objects:
            present.add((obj.namespace, obj.name))
            self.put(obj)
        gone = [obj for key, obj in self._objects.items() if key not in present]
        for obj in gone:
            self.remove(obj.namespace, obj.name, obj.uid, resource_version)
        self._floor = max(self._floor, resource_version)
        self.synced.set()

    def clear(self) -> None:
        """Forget everything: the resource itself is gone."""
        for obj in self:
            self.remove(obj.namespace, obj.name, obj.uid, obj.resource_version)
        self.synced.set()

    def _bury(self, uid: str, version: int) -> None:
        self._tombstones[uid] = max(version, self._tombstones.pop(uid, -1))
        if len(self._tombstones) > self.TOMBSTONES:
            self._tombstones.popitem(last=False)

    def _reindex(self, key: Key, old: T | None, new: T | None) -> None:
        for index, values_of in self._index_functions.items():
            buckets = self._indexes[index]
            values = set() if new is None else set(values_of(new))
            if old is not None:
                for value in set(values_of(old)) - values:
                    bucket = buckets[value]
                    del bucket[key]
                    if not bucket:
                        del buckets[value]
            if new is not None:
                for value in values:
                    buckets.setdefault(value, {})[key] = new

    def _notify(self, key: Key, old: T | None, new: T | None) -> None:
        for callback in self._subscribers:
            try:
                callback(old, new)
            except Exception:
                logger.exception("A subscriber failed on a change of %s/%s", *key)
