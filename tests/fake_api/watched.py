"""An informer under test: running, with its store and what its subscribers saw."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from grove.runtime.cache import Store
from grove.runtime.informer import Informer
from tests.fake_api import FakeApi
from tests.fake_api.seen import WIDGETS, Seen
from tests.fake_api.virtual import cancel


class Watched:
    """A running informer, its store and the changes its subscribers saw."""

    def __init__(self, api: FakeApi, view: Callable[[dict[str, Any]], Seen] = Seen.of, **options: Any) -> None:
        self.api = api
        self.client = options.pop("client", None) or api.client()
        self.store: Store[Seen] = Store()
        self.changes: list[str] = []
        self.store.on_change(self._note)
        self.informer: Informer[Seen] = Informer(self.client, WIDGETS, self.store, view, **options)

    def _note(self, old: Seen | None, new: Seen | None) -> None:
        kind = "+" if old is None else "-" if new is None else "~"
        self.changes.append(f"{kind}{(new or old).name}")  # type: ignore[union-attr]  # one of them is there

    @property
    def names(self) -> list[str]:
        return sorted(obj.name for obj in self.store)

    def equals_server(self) -> bool:
        server = {
            (obj["metadata"]["name"], int(obj["metadata"]["resourceVersion"])) for obj in self.api.objects(WIDGETS)
        }
        return {(obj.name, obj.resource_version) for obj in self.store} == server


@asynccontextmanager
async def watching(api: FakeApi, **options: Any) -> AsyncIterator[Watched]:
    watched = Watched(api, **options)
    task = asyncio.ensure_future(watched.informer.run())
    try:
        yield watched
    finally:
        await cancel(task)


def lists(api: FakeApi) -> int:
    return sum(request.verb == "list" for request in api.requests)


def touch(api: FakeApi, name: str, **spec: Any) -> None:
    api.update(WIDGETS, "default", name, lambda obj: {**obj, "spec": spec})
