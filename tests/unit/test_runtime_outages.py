"""The informer when the server is away, refuses, forgets or talks nonsense; in virtual time."""

import asyncio
import logging
import random

import pytest

from grove.runtime import health
from tests.fake_api import FakeApi
from tests.fake_api.seen import WIDGETS, Seen, until, widget
from tests.fake_api.virtual import elapsed, settle, virtual_time
from tests.fake_api.watched import lists, touch, watching


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
            assert 14 <= len(api.requests) <= 19, "a few times in the first seconds, then every 20 s"
            assert not watched.store.synced.is_set()
            api.faults.clear()
            await asyncio.sleep(30)
            assert watched.store.synced.is_set()
    assert [record.levelname for record in handler.records] == ["WARNING", "INFO"]
    assert "refused" in handler.records[0].getMessage()


@virtual_time
async def test_a_server_that_has_just_started_refuses_all_for_a_moment() -> None:
    """It knows no roles yet. What it serves is not forgotten meanwhile, and soon watched again."""
    api = FakeApi([WIDGETS])
    api.create(WIDGETS, widget("a"))
    told: list[bool] = []
    handler = _Records()
    with handler:
        async with watching(api, optional=True, on_served=told.append) as watched:
            await watched.store.wait_synced()
            api.faults.refuse(403, "Forbidden", times=None)
            api.drop_watches()
            await asyncio.sleep(4)
            assert watched.names == ["a"]
            api.create(WIDGETS, widget("b"))
            api.faults.clear()
            await asyncio.sleep(5)
            assert watched.names == ["a", "b"]
    assert told == [True]
    assert handler.records == []


@virtual_time
async def test_a_right_that_is_taken_away_is_believed_to_be_gone_after_some_seconds() -> None:
    api = FakeApi([WIDGETS])
    api.create(WIDGETS, widget("a"))
    told: list[bool] = []
    async with watching(api, optional=True, on_served=told.append) as watched:
        await watched.store.wait_synced()
        api.faults.refuse(403, "Forbidden", times=None)
        api.drop_watches()
        await asyncio.sleep(15)
        assert (watched.names, told) == ([], [True, False])


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
