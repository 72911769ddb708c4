"""The work queue: which key is worked on next.

As in Kubernetes' controllers, a key is worked on by one pass at a time, different keys run in parallel, and news that
arrive while a key waits or runs are folded into one further pass. Failures back off per key. On top, each key rests in
proportion to the CPU its passes cost, so that a large object in a storm of events takes a fixed share of the process
and no more.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from grove.runtime import clock, metrics

logger = logging.getLogger(__name__)

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Done:
    """What a successful pass tells the queue.

    ``again_after``: run the key again after so many seconds, whatever happens (a deadline). ``cost``: the seconds of
    CPU spent on planning; the key rests ``duty`` times as long.
    """

    again_after: float | None = None
    cost: float = 0.0


class WorkQueue(Generic[K]):
    """Runs ``work(key)`` for every key added, from ``run()`` on.

    ``concurrency`` passes run at once. A pass that raises is repeated after 50 ms, doubling up to ``backoff_cap``
    seconds, with jitter, until one succeeds; an exception's ``retry_after`` (seconds) is a lower bound. News do not
    wait for the back-off to end, as they may be what was missing, but for a second at most.
    """

    def __init__(
        self,
        work: Callable[[K], Awaitable[Done | None]],
        *,
        name: str,
        concurrency: int = 16,
        duty: float = 9.0,
        backoff_base: float = 0.05,
        backoff_cap: float = 30.0,
    ) -> None:
        self.name = name
        self._work = work
        self._concurrency = concurrency
        self._duty = duty
        self._backoff_base = backoff_base
        self._backoff_cap = backoff_cap
        self._ready: deque[K] = deque()
        self._queued: dict[K, float] = {}
        self._running: dict[K, tuple[float, asyncio.Task[None]]] = {}
        self._resting: set[K] = set()
        self._again: set[K] = set()
        self._timers: dict[K, asyncio.TimerHandle] = {}
        self._failures: dict[K, int] = {}
        self._open = False
        self._adds = metrics.QUEUE_ADDS.labels(name)
        self._retries = metrics.QUEUE_RETRIES.labels(name)
        self._wait_seconds = metrics.QUEUE_WAIT_SECONDS.labels(name)
        self._work_seconds = metrics.QUEUE_WORK_SECONDS.labels(name)
        metrics.QUEUE_DEPTH.labels(name).set_function(self.depth)
        metrics.QUEUE_LONGEST_SECONDS.labels(name).set_function(self.oldest_running)

    def add(self, key: K) -> None:
        """Run the key soon; if it waits already that pass will do, if it runs or rests it runs once more."""
        if key in self._queued:
            return
        if key in self._running or key in self._resting:
            self._again.add(key)
            return
        self._adds.inc()
        self._queued[key] = clock.now()
        self._ready.append(key)
        self._dispatch()

    def add_after(self, key: K, seconds: float) -> None:
        """Run the key after so many seconds; of several times asked for, the earliest counts. Needs a running loop.

        Any pass that starts before then does instead: it sees the news, and knows the deadline better.
        """
        if seconds <= 0:
            self.add(key)
            return
        if key in self._queued or key in self._again:
            return
        loop = asyncio.get_running_loop()
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= loop.time() + seconds:
                return
            timer.cancel()
        self._timers[key] = loop.call_later(seconds, self._due, key)

    def depth(self) -> int:
        """Return how many keys are ready and wait for a worker."""
        return len(self._ready)

    def running(self) -> int:
        """Return how many passes are running."""
        return len(self._running)

    def idle(self) -> bool:
        """Return whether nothing is ready, running or due to run once more; deadlines do not count."""
        return not (self._ready or self._running or self._again)

    def oldest_running(self) -> float:
        """Return the age in seconds of the oldest running pass, 0 if there is none: a stuck pass shows here."""
        starts = [start for start, _ in list(self._running.values())]  # a metrics thread may ask
        return clock.now() - min(starts) if starts else 0.0

    async def run(self) -> None:
        """Work until cancelled. Passes that run then go on; ``stop`` waits for them."""
        self._open = True
        self._dispatch()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._open = False

    async def stop(self, grace: float = 10.0) -> None:
        """Start no further pass, let the running ones finish within ``grace`` seconds, then cancel them.

        Nothing is remembered: whoever lets the queue run once more adds the keys again.
        """
        self._open = False
        tasks = [task for _, task in self._running.values()]
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=grace)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for timer in self._timers.values():
            timer.cancel()
        for memory in (self._timers, self._ready, self._queued, self._again, self._failures):
            memory.clear()

    def abort(self) -> None:
        """Start no further pass and cancel the running ones, at once: nothing that waits in them goes on."""
        self._open = False
        for _, task in self._running.values():
            task.cancel()

    def _dispatch(self) -> None:
        while self._open and self._ready and len(self._running) < self._concurrency:
            key = self._ready.popleft()
            now = clock.now()
            self._wait_seconds.observe(now - self._queued.pop(key))
            timer = self._timers.pop(key, None)
            if timer is not None:
                timer.cancel()
            self._running[key] = (now, asyncio.get_running_loop().create_task(self._pass(key)))

    async def _pass(self, key: K) -> None:
        start = clock.now()
        rest = 0.0
        try:
            done = await self._work(key)
        except Exception as exc:
            rest = min(self._failed(key, exc), 1.0)
        else:
            self._failures.pop(key, None)
            if done is not None:
                rest = done.cost * self._duty
                if done.again_after is not None:
                    self.add_after(key, max(done.again_after, 0.001))
        finally:
            self._work_seconds.observe(clock.now() - start)
            del self._running[key]
            if rest > 0:
                self._resting.add(key)
                asyncio.get_running_loop().call_later(rest, self._rested, key)
            else:
                self._run_again(key)
            self._dispatch()

    def _failed(self, key: K, error: Exception) -> float:
        count = self._failures[key] = self._failures.get(key, 0) + 1
        delay = min(self._backoff_cap, self._backoff_base * 2.0 ** min(count - 1, 32)) * random.uniform(0.75, 1.25)  # noqa: S311
        delay = max(delay, getattr(error, "retry_after", None) or 0.0)
        told = getattr(error, "told", False)  # who raised it has logged what matters
        expected = told or getattr(error, "retriable", False)
        logger.log(
            logging.DEBUG if told else logging.INFO if expected else logging.ERROR,
            "%s: %s failed (%d in a row), again in %.2f s: %r",
            *(self.name, key, count, delay, error),
            exc_info=None if expected or count > 1 else error,
        )
        self._retries.inc()
        self.add_after(key, delay)
        return delay

    def _rested(self, key: K) -> None:
        self._resting.discard(key)
        self._run_again(key)

    def _run_again(self, key: K) -> None:
        if key in self._again:
            self._again.discard(key)
            self.add(key)

    def _due(self, key: K) -> None:
        del self._timers[key]
        self.add(key)
