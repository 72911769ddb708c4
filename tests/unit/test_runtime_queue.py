"""The work queue, in virtual time: seconds here are exact."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from grove.runtime.errors import ApiError
from grove.runtime.queue import Done, WorkQueue
from tests.fake_api.virtual import cancel, elapsed, settle, virtual_time

Work = Callable[[str], Awaitable[Done | None]]


@asynccontextmanager
async def running(work: Work, **options: Any) -> Any:
    queue: WorkQueue[str] = WorkQueue(work, name="test", **options)
    task = asyncio.ensure_future(queue.run())
    await settle()
    try:
        yield queue
    finally:
        await cancel(task)
        await queue.stop(0)


class Log:
    """A worker that notes when it ran on what."""

    def __init__(self, seconds: float = 0.0, done: Done | None = None) -> None:
        self.seconds = seconds
        self.done = done
        self.passes: list[tuple[str, float]] = []
        self.now: set[str] = set()
        self.most = 0

    async def __call__(self, key: str) -> Done | None:
        assert key not in self.now, "one pass per key at a time"
        self.now.add(key)
        self.most = max(self.most, len(self.now))
        self.passes.append((key, round(elapsed(), 6)))
        await asyncio.sleep(self.seconds)
        self.now.discard(key)
        return self.done

    @property
    def keys(self) -> list[str]:
        return [key for key, _ in self.passes]

    @property
    def times(self) -> list[float]:
        return [when for _, when in self.passes]


@virtual_time
async def test_first_in_first_out() -> None:
    log = Log(seconds=1)
    async with running(log, concurrency=1) as queue:
        for key in "cab":
            queue.add(key)
        assert queue.depth() == 2
        await asyncio.sleep(10)
    assert log.passes == [("c", 0), ("a", 1), ("b", 2)]


@virtual_time
async def test_news_that_wait_are_folded_into_one_pass() -> None:
    log = Log(seconds=1)
    async with running(log, concurrency=1) as queue:
        queue.add("other")
        for _ in range(100):
            queue.add("a")
        assert queue.depth() == 1
        await asyncio.sleep(10)
    assert log.keys == ["other", "a"]


@virtual_time
async def test_a_key_that_gets_news_while_it_runs_runs_once_more() -> None:
    log = Log(seconds=1)
    async with running(log) as queue:
        queue.add("a")
        await asyncio.sleep(0.5)
        for _ in range(100):
            queue.add("a")
        await asyncio.sleep(10)
        assert queue.idle()
    assert log.passes == [("a", 0), ("a", 1)]


@virtual_time
async def test_a_busy_key_does_not_overtake_others() -> None:
    log = Log(seconds=1)
    async with running(log, concurrency=1) as queue:
        queue.add("a")
        queue.add("b")
        await settle()
        queue.add("a")
        await asyncio.sleep(10)
    assert log.keys == ["a", "b", "a"]


@virtual_time
async def test_keys_run_side_by_side_up_to_the_concurrency() -> None:
    log = Log(seconds=1)
    async with running(log, concurrency=3) as queue:
        for number in range(9):
            queue.add(str(number))
        await asyncio.sleep(0.5)
        assert (queue.running(), queue.depth()) == (3, 6)
        await asyncio.sleep(10)
    assert log.most == 3
    assert log.times == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@virtual_time
async def test_nothing_runs_before_run_and_nothing_is_forgotten() -> None:
    log = Log()
    queue: WorkQueue[str] = WorkQueue(log, name="test")
    queue.add("a")
    await asyncio.sleep(1)
    assert log.keys == []
    task = asyncio.ensure_future(queue.run())
    await settle()
    assert log.keys == ["a"]
    await cancel(task)


@virtual_time
async def test_of_several_deadlines_the_earliest_counts() -> None:
    log = Log()
    async with running(log) as queue:
        queue.add_after("a", 30)
        queue.add_after("a", 10)
        queue.add_after("a", 20)
        queue.add_after("b", 5)
        assert queue.depth() == 0
        await asyncio.sleep(100)
    assert log.passes == [("b", 5), ("a", 10)]


@virtual_time
async def test_a_pass_before_the_deadline_stands_for_it() -> None:
    log = Log(seconds=1)
    async with running(log, concurrency=1) as queue:
        queue.add_after("a", 10)
        await asyncio.sleep(5)
        queue.add("b")
        queue.add("a")
        queue.add_after("a", 20)  # it waits already
        await asyncio.sleep(100)
        assert log.passes == [("b", 5), ("a", 6)]
        queue.add("a")
        await asyncio.sleep(0.5)
        queue.add_after("a", 10)  # it runs: this is news to it
        await asyncio.sleep(100)
    assert log.times == [5, 6, 105, 115.5]


@virtual_time
async def test_a_deadline_that_has_passed_runs_at_once() -> None:
    log = Log()
    async with running(log) as queue:
        queue.add_after("a", 0)
        queue.add_after("b", -1)
        await settle()
        assert log.passes == [("a", 0), ("b", 0)]


@virtual_time
async def test_a_pass_asks_for_its_next_deadline() -> None:
    log = Log(done=Done(again_after=60))
    async with running(log) as queue:
        queue.add("a")
        await asyncio.sleep(150)
    assert log.times == [0, 60, 120]


@virtual_time
async def test_failures_back_off_doubling_from_50_ms_to_the_cap_and_success_forgets() -> None:
    times: list[float] = []

    async def work(key: str) -> None:
        times.append(elapsed())
        if len(times) != 15:
            raise RuntimeError("on purpose")

    async with running(work, backoff_cap=30.0) as queue:
        queue.add("a")
        await asyncio.sleep(1000)
        assert len(times) == 15, "a success ends the series"
        queue.add("a")
        await asyncio.sleep(0.1)
    waits = [later - before for before, later in pairwise(times[:15])]
    for number, wait in enumerate(waits):
        nominal = min(30.0, 0.05 * 2**number)
        assert 0.75 * nominal <= wait <= 1.25 * nominal + 1e-6, f"wait {number}"
    assert len(times) == 17, "after a success the back-off begins anew"


@virtual_time
async def test_a_wish_of_the_server_lengthens_the_back_off() -> None:
    times: list[float] = []

    async def work(key: str) -> None:
        times.append(elapsed())
        if len(times) == 1:
            raise ApiError(429, "TooManyRequests", "", verb="create", path="/", retry_after=7)

    async with running(work) as queue:
        queue.add("a")
        await asyncio.sleep(100)
    assert times == [0, 7]


@virtual_time
async def test_news_cut_a_long_back_off_short_but_do_not_make_a_hot_loop() -> None:
    times: list[float] = []
    queue: WorkQueue[str]

    async def work(key: str) -> None:
        times.append(elapsed())
        queue.add(key)  # its own writes bring news
        raise RuntimeError("on purpose")

    async with running(work) as queue:
        queue.add("a")
        await asyncio.sleep(60)
    assert 55 < len(times) < 80, "once a second when the back-off has grown"


@virtual_time
async def test_one_failing_key_does_not_slow_the_others() -> None:
    good: list[float] = []

    async def work(key: str) -> Done | None:
        if key == "bad":
            raise RuntimeError("on purpose")
        good.append(elapsed())
        return Done(again_after=1)

    async with running(work, concurrency=1) as queue:
        queue.add("bad")
        queue.add("good")
        await asyncio.sleep(9.5)
    assert good == list(range(10))


@virtual_time
async def test_a_costly_key_in_a_storm_takes_a_tenth_of_the_time() -> None:
    log = Log(seconds=0.1, done=Done(cost=0.1))
    async with running(log, duty=9.0) as queue:
        for _ in range(9_900):
            queue.add("a")
            await asyncio.sleep(0.001)
    assert log.times == [float(second) for second in range(10)], "0.1 s of work, 0.9 s of rest"


@virtual_time
async def test_a_resting_key_runs_again_only_for_news() -> None:
    log = Log(done=Done(cost=1.0))
    async with running(log, duty=2.0) as queue:
        queue.add("a")
        await asyncio.sleep(100)
        assert log.times == [0]
        queue.add("a")
        await asyncio.sleep(1)
        queue.add_after("a", 0.5)
        await asyncio.sleep(100)
        assert log.times == [0, 100, 102]
        assert queue.idle()


@virtual_time
async def test_a_stuck_pass_is_visible() -> None:
    log = Log(seconds=500)
    async with running(log) as queue:
        assert queue.oldest_running() == 0
        queue.add("a")
        await asyncio.sleep(100)
        queue.add("b")
        await asyncio.sleep(20)
        assert queue.oldest_running() == 120


@virtual_time
async def test_stop_lets_passes_finish_within_the_grace_and_starts_no_more() -> None:
    finished: list[str] = []

    async def work(key: str) -> None:
        await asyncio.sleep(float(key))
        finished.append(key)

    queue: WorkQueue[str] = WorkQueue(work, name="test", concurrency=2)
    task = asyncio.ensure_future(queue.run())
    await settle()
    for key in ("3", "30", "1"):
        queue.add(key)
    queue.add_after("2", 4)
    await settle()
    await cancel(task)
    await queue.stop(grace=10)
    assert (finished, elapsed()) == (["3"], 10)
    assert queue.running() == 0
    await asyncio.sleep(100)
    assert finished == ["3"]


class ToldError(Exception):
    """Says that whoever raised it has logged it."""

    told = True


@virtual_time
async def test_expected_failures_are_logged_quietly_others_with_one_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(key: str) -> None:
        if key == "told":
            raise ToldError("everybody knows")
        if key == "busy":
            raise ApiError(500, "InternalError", "try again", verb="get", path="/")
        raise RuntimeError("a bug")

    caplog.set_level(logging.INFO)
    async with running(work) as queue:
        for key in ("busy", "bug", "told"):
            queue.add(key)
        await asyncio.sleep(1)
    by_level = {
        record.levelname for record in caplog.records if "'busy'" in record.getMessage() or "busy" in record.message
    }
    assert by_level == {"INFO"}
    assert "everybody knows" not in caplog.text
    bugs = [record for record in caplog.records if record.levelname == "ERROR"]
    assert len(bugs) > 2
    assert [record.exc_info is not None and record.exc_info[0] is RuntimeError for record in bugs].count(True) == 1
    assert all("a bug" in record.getMessage() for record in bugs)
