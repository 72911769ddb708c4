"""The informer: the store ends up equal to the server, whatever the watch goes through."""

import asyncio
from typing import Any

import pytest

from grove.runtime.client import Client
from grove.runtime.transport import open_session
from tests.fake_api import FakeApi
from tests.fake_api.seen import WIDGETS, Seen, until, widget
from tests.fake_api.watched import lists, touch, watching


@pytest.fixture
def api() -> FakeApi:
    return FakeApi([WIDGETS])


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
