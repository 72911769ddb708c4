"""Requests per second, held within limits."""

import asyncio

from grove.runtime import clock, metrics


class RateLimiter:
    """A token bucket: ``burst`` requests at once, then ``qps`` per second, first come first served."""

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._window = burst * self._interval
        self._next = 0.0

    async def wait(self) -> None:
        """Return when the next request may be sent."""
        now = clock.now()
        self._next = max(self._next, now - self._window) + self._interval
        metrics.LIMITER_SECONDS.observe(max(0.0, self._next - now))
        if self._next > now:
            await asyncio.sleep(self._next - now)
