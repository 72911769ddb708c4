"""The informer: the store ends up equal to the server, whatever the watch goes through."""

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from grove.runtime import health
from grove.runtime.cache import Store
from grove.runtime.client import Client
from grove.runtime.informer import Informer
from grove.runtime.queue import WorkQueue
from grove.runtime.transport import open_session
from tests.fake_api import FakeApi
from tests.fake_api.seen import WIDGETS, Seen, until, widget
from tests.fake_api.virtual import cancel, elapsed, settle, virtual_time


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


@pytest.fixture
def api() -> FakeApi:
    return FakeApi([WIDGETS])


def lists(api: FakeApi) -> int:
    return sum(request.verb == "list" for request in api.requests)


def touch(api: FakeApi, name: str, **spec: Any) -> None:
    api.update(WIDGETS, "default", name, lambda obj: {**obj, "spec": spec})


async def test_list_then_watch(api: FakeApi) -> None:
    api.create(WIDGETS, widget("a", size=1))
    async with watching(api) as watched:
        await asyncio.wait_for(watched.store.wait_synced(), 10)
        assert watched.changes == ["+a"]
        api.create(WIDGETS, widget("b"))
        touch(api, "a", size=2)
        api.delete(WIDGETS, "default", "b")
        await until(lambda: len(watched.changes) == 4)
        assert watched.changes == ["+a", "+b", "~a", "-b"]
        assert watched.equals_server()
        assert lists(api) == 1


async def test_only_what_is_selected(api: FakeApi) -> None:
    api.create(WIDGETS, widget("other"))
    api.create(WIDGETS, widget("far", "elsewhere", labels={"mine": "yes"}))
    async with watching(api, namespace="default", label_selector="mine=yes") as watched:
        await watched.store.wait_synced()
        api.create(WIDGETS, widget("a", labels={"mine": "yes"}))
        await until(lambda: watched.names == ["a"])
        api.update(WIDGETS, "default", "a", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {}}})
        await until(lambda: watched.names == [])
        api.update(
            WIDGETS, "default", "a", lambda obj: {**obj, "metadata": {**obj["metadata"], "labels": {"mine": "yes"}}}
        )
        await until(lambda: watched.names == ["a"])
        assert watched.changes == ["+a", "-a", "+a"]


async def test_a_broken_watch_goes_on_where_it_was(api: FakeApi) -> None:
    async with watching(api) as watched:
        await watched.store.wait_synced()
        for number in range(5):
            await until(lambda: api.watches)
            api.drop_watches(broken=number % 2 == 0)
            api.create(WIDGETS, widget(f"w{number}"))
            await until(lambda: watched.equals_server())
        assert watched.changes == [f"+w{number}" for number in range(5)]
        await until(lambda: api.watches)
        api.compact()
        api.drop_watches()
        api.create(WIDGETS, widget("last"))
        await until(lambda: watched.equals_server())
        assert lists(api) == 1, "the watch went on from the last event, not from the list"


async def test_a_deletion_that_nobody_told_of_is_found_by_the_next_list(api: FakeApi) -> None:
    for name in "abc":
        api.create(WIDGETS, widget(name))
    api.faults.lose_event = lambda kind, resource, obj: kind == "DELETED" and obj["metadata"]["name"] == "b"
    async with watching(api) as watched:
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        api.delete(WIDGETS, "default", "b")
        api.delete(WIDGETS, "default", "c")
        await until(lambda: watched.names == ["a", "b"])
        api.faults.down = True
        api.drop_watches()
        touch(api, "a", size=2)
        api.compact()
        api.faults.down = False
        await until(lambda: watched.equals_server())
        assert watched.changes == ["+a", "+b", "+c", "-c", "~a", "-b"]
        assert lists(api) == 2


async def test_history_that_is_gone_leads_to_a_new_list(api: FakeApi) -> None:
    for name in "abc":
        api.create(WIDGETS, widget(name))
    async with watching(api) as watched:
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        api.faults.down = True
        api.drop_watches()
        api.delete(WIDGETS, "default", "a")
        touch(api, "b", size=2)
        api.create(WIDGETS, widget("d"))
        api.compact()
        api.faults.down = False
        await until(lambda: watched.equals_server())
        assert sorted(watched.changes[3:]) == ["+d", "-a", "~b"]
        assert lists(api) == 2
        api.create(WIDGETS, widget("e"))
        await until(lambda: "e" in watched.names)


async def test_events_that_come_twice_change_nothing_twice(api: FakeApi) -> None:
    api.faults.duplicate_events = True
    async with watching(api) as watched:
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        api.create(WIDGETS, widget("a"))
        touch(api, "a", size=2)
        api.delete(WIDGETS, "default", "a")
        api.create(WIDGETS, widget("last"))
        await until(lambda: watched.names == ["last"])
        assert watched.changes == ["+a", "~a", "-a", "+last"]


async def test_the_answer_to_a_write_and_its_event_wake_once(api: FakeApi) -> None:
    reads: list[str] = []

    def view(obj: dict[str, Any]) -> Seen:
        reads.append(obj["metadata"]["name"])
        return Seen.of(obj)

    api.faults.watch_delay = 0.05
    async with watching(api, view=view) as watched:
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        watched.store.put(Seen.of(await watched.client.create(WIDGETS, widget("a"))))
        assert watched.names == ["a"], "a pass reads its own writes"
        api.create(WIDGETS, widget("b"))
        await until(lambda: watched.names == ["a", "b"])
        assert watched.changes == ["+a", "+b"]
        assert reads == ["b"], "what the store has already is not even read"


async def test_a_list_does_not_remove_what_we_wrote_after_it(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    async with watching(api) as watched:
        await watched.store.wait_synced()
        listed = asyncio.Event()
        original = watched.client.list

        async def slow_list(*args: Any, **options: Any) -> Any:
            listing = await original(*args, **options)
            watched.store.put(Seen.of(api.create(WIDGETS, widget("ours"))))
            listed.set()
            return listing

        monkeypatch.setattr(watched.client, "list", slow_list)
        api.faults.lose_event = lambda *_: True
        watched.informer.refresh()
        await asyncio.wait_for(listed.wait(), 10)
        await until(lambda: lists(api) == 2)
        await until(lambda: api.watches)
        assert watched.names == ["ours"]


async def test_refresh_lists_again(api: FakeApi) -> None:
    async with watching(api) as watched:
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        api.faults.lose_event = lambda *_: True
        api.create(WIDGETS, widget("a"))
        watched.informer.refresh()
        await until(lambda: watched.names == ["a"])
        assert lists(api) == 2
        api.faults.lose_event = None
        api.create(WIDGETS, widget("b"))
        await until(lambda: watched.names == ["a", "b"])


async def test_an_object_that_cannot_be_read_is_left_out_and_told_once(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    def view(obj: dict[str, Any]) -> Seen:
        if obj["spec"].get("bad"):
            raise ValueError("what is this")
        return Seen.of(obj)

    api.create(WIDGETS, widget("bad", bad=True))
    api.create(WIDGETS, widget("good"))
    async with watching(api, view=view) as watched:
        await watched.store.wait_synced()
        assert watched.names == ["good"]
        touch(api, "bad", bad=True, more=1)
        touch(api, "good", bad=True)
        api.create(WIDGETS, widget("next"))
        await until(lambda: "next" in watched.names)
        assert watched.names == ["good", "next"], "the readable version is kept"
        watched.informer.refresh()
        await until(lambda: lists(api) == 2 and api.watches)
        assert watched.names == ["good", "next"]
        touch(api, "good", size=9)
        touch(api, "bad", size=9)
        await until(lambda: watched.equals_server())
    told = [record.getMessage() for record in caplog.records if "cannot be read" in record.getMessage()]
    assert [text.split()[1] for text in told] == ["default/bad", "default/good"]


@virtual_time
async def test_a_missing_resource_is_waited_for_and_picked_up() -> None:
    api = FakeApi()
    async with watching(api) as watched:
        await asyncio.sleep(300)
        assert not watched.informer.served
        assert not watched.store.synced.is_set(), "nobody may take it for empty"
        assert len(api.requests) <= 40, "looked for every 20 s, two requests each"
        assert watched.informer.silence() < 30, "the server answers, all is well"
        api.install(WIDGETS)
        api.create(WIDGETS, widget("a"))
        await asyncio.sleep(30)
        assert watched.names == ["a"]
        assert watched.informer.served


@virtual_time
async def test_an_optional_resource_that_is_missing_counts_as_empty() -> None:
    api = FakeApi()
    async with watching(api, optional=True) as watched:
        await watched.store.wait_synced()
        assert not watched.informer.served
        api.install(WIDGETS)
        api.create(WIDGETS, widget("a"))
        start = elapsed()
        watched.informer.refresh()  # told that it is there
        await until(lambda: watched.names == ["a"])
        assert elapsed() - start < 1


@virtual_time
async def test_a_resource_that_is_removed_takes_its_objects_along_and_may_come_back() -> None:
    api = FakeApi([WIDGETS])
    api.create(WIDGETS, widget("a"))
    api.create(WIDGETS, widget("b"))
    async with watching(api) as watched:
        await watched.store.wait_synced()
        api.faults.lose_event = lambda *_: True
        api.uninstall(WIDGETS)
        api.drop_watches()
        await asyncio.sleep(1)
        assert watched.changes == ["+a", "+b", "-a", "-b"]
        api.faults.lose_event = None
        api.install(WIDGETS)
        api.create(WIDGETS, widget("a"))
        await asyncio.sleep(30)
        assert watched.equals_server()


@virtual_time
async def test_a_refusal_is_told_once_and_asked_again_slowly() -> None:
    api = FakeApi([WIDGETS])
    handler = _Records()
    api.faults.refuse(403, "Forbidden", times=None)
    with handler:
        async with watching(api) as watched:
            await asyncio.sleep(200)
            assert 8 <= len(api.requests) <= 11
            assert not watched.store.synced.is_set()
            api.faults.clear()
            await asyncio.sleep(30)
            assert watched.store.synced.is_set()
    assert [record.levelname for record in handler.records] == ["WARNING", "INFO"]
    assert "refused" in handler.records[0].getMessage()


class _Records(logging.Handler):
    """Collects what the informer logs."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def __enter__(self) -> "_Records":
        logging.getLogger("grove.runtime.informer").addHandler(self)
        logging.getLogger("grove.runtime.informer").setLevel(logging.INFO)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("grove.runtime.informer").removeHandler(self)


@virtual_time
async def test_a_server_that_is_away_is_asked_every_few_seconds_and_told_of_twice() -> None:
    api = FakeApi([WIDGETS])
    handler = _Records()
    with handler:
        async with watching(api) as watched:
            await watched.store.wait_synced()
            await asyncio.sleep(100)
            assert handler.records == []
            api.bookmark()
            await settle()
            api.faults.down = True
            api.drop_watches()
            await asyncio.sleep(300)
            assert watched.informer.silence() >= 300
            assert health.silent([watched.informer], 60) == [
                "widgets.example.com: no news from the API server for 300 s"
            ]
            api.faults.down = False
            api.create(WIDGETS, widget("a"))
            await asyncio.sleep(7)
            assert watched.names == ["a"], "back within the cap of the back-off"
            assert health.silent([watched.informer], 60) == []
    assert [record.levelname for record in handler.records] == ["WARNING", "INFO"]
    assert "no contact" in handler.records[0].getMessage()
    assert "watching again after 30" in handler.records[1].getMessage()


@virtual_time
async def test_a_short_outage_is_not_worth_a_line() -> None:
    api = FakeApi([WIDGETS])
    handler = _Records()
    with handler:
        async with watching(api) as watched:
            await watched.store.wait_synced()
            api.faults.down = True
            api.drop_watches()
            await asyncio.sleep(5)
            api.faults.down = False
            await asyncio.sleep(10)
            for _ in range(20):
                api.drop_watches()
                await asyncio.sleep(60)
    assert handler.records == []


@virtual_time
async def test_watches_that_end_at_once_do_not_make_a_hot_loop() -> None:
    api = FakeApi([WIDGETS])
    api.faults.refuse(500, "InternalError", verb="watch", times=None)
    async with watching(api):
        await asyncio.sleep(100)
    assert len(api.requests) < 80
    api = FakeApi([WIDGETS])
    async with watching(api):
        for _ in range(100_000):
            api.drop_watches(broken=False)
            await asyncio.sleep(0.001)
    assert len(api.requests) < 80


@virtual_time
async def test_a_version_the_server_cannot_serve_is_given_up() -> None:
    api = FakeApi([WIDGETS])
    async with watching(api) as watched:
        await watched.store.wait_synced()
        api.faults.refuse(504, "Timeout", verb="watch", times=4)
        api.drop_watches()
        await asyncio.sleep(30)
        assert lists(api) >= 2
        api.create(WIDGETS, widget("a"))
        await settle()
        assert watched.names == ["a"]


@virtual_time
async def test_a_database_restored_from_a_backup_is_noticed() -> None:
    api = FakeApi([WIDGETS])
    api.create(WIDGETS, widget("a"))
    api.version = 5000
    api.create(WIDGETS, widget("b"))
    async with watching(api) as watched:
        await watched.store.wait_synced()
        assert watched.names == ["a", "b"]
        api.delete(WIDGETS, "default", "b")
        api.version = 900  # from here on the server counts from its past
        api.faults.lose_event = lambda *_: True
        api.drop_watches()
        await settle()
        api.compact()
        api.version = 901
        api.compacted[WIDGETS] = 0
        api.faults.lose_event = None
        await asyncio.sleep(1000)
        assert watched.equals_server()
        touch(api, "a", size=7)
        await settle()
        assert watched.equals_server()


@virtual_time
async def test_nonsense_from_the_server_does_not_end_the_informer() -> None:
    api = FakeApi([WIDGETS])
    async with watching(api) as watched:
        await watched.store.wait_synced()
        await settle()
        for line in (b'{"type":"ADDED","object":{}}\n', b"not json\n", b"[]\n", b'{"type":"ERROR","object":{}}\n'):
            api.watches[-1].send(line)
            await asyncio.sleep(10)
            assert api.watches[-1].ended is False, "a new watch is open"
        api.create(WIDGETS, widget("a"))
        await settle()
        assert watched.names == ["a"]


async def test_an_object_of_many_megabytes_passes(api: FakeApi) -> None:
    async with (
        api.listen() as url,
        open_session() as session,
        watching(api, client=Client(lambda: session, url)) as watched,
    ):
        await watched.store.wait_synced()
        await until(lambda: api.watches)
        api.create(WIDGETS, widget("big", text="x" * (3 * 2**20)))
        await until(lambda: watched.names == ["big"])


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


@pytest.mark.parametrize("seed", range(20))
def test_after_any_disorder_the_store_equals_the_server(seed: int) -> None:
    @virtual_time
    async def scenario() -> None:
        rng = random.Random(seed)
        api = FakeApi([WIDGETS])
        api.faults.watch_delay = lambda: rng.choice((0.0, 0.01, 0.2))
        api.faults.latency = lambda: rng.choice((0.0, 0.02))
        async with watching(api) as watched:

            async def write() -> None:
                name = f"w{rng.randrange(6)}"
                existing = api.find(WIDGETS, "default", name)
                if existing is None:
                    watched.store.put(Seen.of(await watched.client.create(WIDGETS, widget(name))))
                elif rng.random() < 0.5:
                    body = {"spec": {"size": rng.random()}}
                    watched.store.put(Seen.of(await watched.client.patch(WIDGETS, "default", name, body)))
                else:
                    await watched.client.delete(WIDGETS, "default", name)
                    if rng.random() < 0.5:
                        watched.store.remove("default", name, existing["metadata"]["uid"])

            async def trouble() -> None:
                match rng.randrange(4):
                    case 0:
                        api.drop_watches(broken=rng.random() < 0.5)
                    case 1:
                        api.compact()
                        api.drop_watches()
                    case 2:
                        api.faults.down = True
                        await asyncio.sleep(rng.random())
                        api.faults.down = False
                    case 3:
                        watched.informer.refresh()

            pending = []
            for _ in range(200):
                pending.append(asyncio.ensure_future(trouble() if rng.random() < 0.1 else write()))
                await asyncio.sleep(rng.choice((0.0, 0.005, 0.05)))
            await asyncio.gather(*pending, return_exceptions=True)
            await asyncio.sleep(20)
            assert watched.equals_server()

    scenario()
