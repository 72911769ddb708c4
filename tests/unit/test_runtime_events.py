"""Kubernetes Events: what is written, what is folded, what is dropped."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.runtime import metrics
from grove.runtime.events import EVENT, EventRecorder, TokenBucket, shorten
from tests.fake_api import FakeApi
from tests.fake_api.virtual import cancel, elapsed, settle, virtual_time

WEB = {"apiVersion": "example.com/v1", "kind": "Widget", "namespace": "web", "name": "a", "uid": "u1"}


@asynccontextmanager
async def recording(api: FakeApi, **options: Any) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(api.client(), "operator", instance="operator-0", **options)
    task = asyncio.ensure_future(recorder.run())
    try:
        yield recorder
    finally:
        await cancel(task)


def outcomes() -> dict[str, float]:
    names = ("sent", "repeated", "limited", "overflowed", "failed")
    return {
        name: metrics.REGISTRY.get_sample_value("event_recorder_events_total", {"outcome": name}) or 0.0
        for name in names
    }


def written(api: FakeApi) -> list[tuple[str, str, int]]:
    return sorted((event["reason"], event["message"], event["count"]) for event in api.objects(EVENT))


@virtual_time
async def test_an_event_as_kubectl_describe_reads_it() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Created", "made it", action="Create")
        await recorder.drain()
    (event,) = api.objects(EVENT, "web")
    assert event["involvedObject"] == WEB
    assert event["metadata"]["name"].startswith("a.")
    wanted = {
        "type": "Normal",
        "reason": "Created",
        "message": "made it",
        "action": "Create",
        "count": 1,
        "source": {"component": "operator"},
        "reportingComponent": "operator",
        "reportingInstance": "operator-0",
    }
    assert {field: event[field] for field in wanted} == wanted
    assert event["firstTimestamp"] == event["lastTimestamp"]


@virtual_time
async def test_cluster_scoped_objects_have_their_events_in_default() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        recorder.event({"apiVersion": "v1", "kind": "Node", "name": "n1", "namespace": ""}, "Normal", "Seen", "hello")
        await recorder.drain()
    (event,) = api.objects(EVENT, "default")
    assert event["involvedObject"] == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


@virtual_time
async def test_repetitions_raise_the_count_of_one_event() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        for _ in range(3):
            recorder.event(WEB, "Warning", "Failed", "no luck")
            await asyncio.sleep(60)
        recorder.event(WEB, "Warning", "Failed", "other message")
        recorder.event({**WEB, "uid": "u2"}, "Warning", "Failed", "no luck")
        recorder.event(WEB, "Warning", "Other", "no luck")
        recorder.event(WEB, "Normal", "Failed", "no luck")
        await recorder.drain()
    assert written(api) == [
        ("Failed", "no luck", 1),
        ("Failed", "no luck", 1),
        ("Failed", "no luck", 3),
        ("Failed", "other message", 1),
        ("Other", "no luck", 1),
    ]
    assert [request.verb for request in api.writes()] == ["create", "patch", "patch"] + ["create"] * 4


@virtual_time
async def test_repetitions_that_wait_are_written_together() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        for _ in range(20):
            recorder.event(WEB, "Normal", "Created", "made it")
        await recorder.drain()
    assert written(api) == [("Created", "made it", 20)]
    assert len(api.writes()) == 1


@virtual_time
async def test_after_ten_minutes_it_is_a_new_event() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        for wait in (599, 2, 1):
            recorder.event(WEB, "Normal", "Created", "made it")
            await asyncio.sleep(wait)
        await recorder.drain()
    assert written(api) == [("Created", "made it", 1), ("Created", "made it", 2)]


@virtual_time
async def test_normal_events_are_limited_warnings_four_times_as_high() -> None:
    api = FakeApi()
    before = outcomes()
    async with recording(api) as recorder:
        for number in range(500):
            recorder.event(WEB, "Normal", "Created", f"number {number}")
            recorder.event(WEB, "Warning", "Failed", f"number {number}")
            if number % 50 == 0:
                await recorder.drain()
        await recorder.drain()
        assert elapsed() == 0
        by_type = [event["type"] for event in api.objects(EVENT)]
        assert (by_type.count("Normal"), by_type.count("Warning")) == (50, 200)
        assert outcomes()["limited"] - before["limited"] == 750
        await asyncio.sleep(10)
        for number in range(500, 600):
            recorder.event(WEB, "Normal", "Created", f"number {number}")
        await recorder.drain()
    assert len(api.objects(EVENT)) == 250 + 10


@virtual_time
async def test_a_full_backlog_drops_and_never_blocks() -> None:
    before = outcomes()
    recorder = EventRecorder(FakeApi().client(), "operator", burst=5000)
    for number in range(1500):
        recorder.event(WEB, "Normal", "Created", f"number {number}")
    assert outcomes()["overflowed"] - before["overflowed"] == 500


@virtual_time
async def test_an_event_that_expired_is_written_anew_with_its_count() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Created", "made it")
        await recorder.drain()
        (event,) = api.objects(EVENT)
        api.delete(EVENT, "web", event["metadata"]["name"])
        recorder.event(WEB, "Normal", "Created", "made it")
        await recorder.drain()
    assert written(api) == [("Created", "made it", 2)]


@virtual_time
async def test_a_lost_answer_does_not_make_a_second_event() -> None:
    api = FakeApi()
    api.faults.lose_response(verb="create")
    async with recording(api) as recorder:
        for _ in range(3):
            recorder.event(WEB, "Normal", "Created", "made it")
            await recorder.drain()
    assert written(api) == [("Created", "made it", 3)]


@virtual_time
async def test_failures_are_swallowed_and_the_next_event_is_written(caplog: pytest.LogCaptureFixture) -> None:
    api = FakeApi()
    api.terminating_namespaces.add("web")
    caplog.set_level("INFO", logger="grove.runtime.events")
    before = outcomes()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Created", "made it")
        await recorder.drain()
        assert caplog.records == [], "a namespace on its way out is nothing to talk about"
        api.faults.refuse(500, "InternalError")
        recorder.event({**WEB, "namespace": "ok"}, "Normal", "Created", "one")
        await recorder.drain()
        assert len(caplog.records) == 1
        recorder.event({**WEB, "namespace": "ok"}, "Normal", "Created", "two")
        await recorder.drain()
    assert outcomes()["failed"] - before["failed"] == 2
    assert written(api) == [("Created", "two", 1)]


@virtual_time
async def test_drain_gives_up_after_its_grace() -> None:
    api = FakeApi()
    api.faults.latency = 100
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Created", "made it")
        await settle()
        await recorder.drain(grace=3)
        assert elapsed() == 3


def test_messages_are_cut_to_1024_bytes_at_a_character() -> None:
    assert shorten("short") == "short"
    assert shorten("half a pair: \ud83d") == "half a pair: ?"
    assert shorten("x" * 1024) == "x" * 1024
    assert shorten("x" * 1025) == "x" * 1021 + "…"
    cut = shorten("é" * 600)
    assert cut == "é" * 510 + "…"
    assert len(cut.encode()) == 1023


@given(st.text(max_size=2000))
def test_a_cut_message_is_a_beginning_and_fits(message: str) -> None:
    cut = shorten(message, 64)
    assert len(cut.encode()) <= 64
    assert cut == message or (message.startswith(cut[:-1]) and cut[-1] == "…")


@virtual_time
async def test_long_messages_reach_the_server_short() -> None:
    api = FakeApi()
    async with recording(api) as recorder:
        recorder.event(WEB, "Normal", "Created", "ü" * 5000)
        await recorder.drain()
    assert len(api.objects(EVENT)[0]["message"].encode()) <= 1024


@virtual_time
async def test_a_bucket_fills_up_to_its_burst() -> None:
    bucket = TokenBucket(burst=3, rate=0.5)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
    await asyncio.sleep(2)
    assert [bucket.take() for _ in range(2)] == [True, False]
    await asyncio.sleep(3600)
    assert [bucket.take() for _ in range(4)] == [True, True, True, False]
