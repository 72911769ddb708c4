"""An event loop whose clock jumps to the next timer instead of waiting: hours pass in milliseconds, exactly."""

import asyncio
import functools
import selectors
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Selector(selectors.SelectSelector):
    """Never waits: it moves the clock instead."""

    clock = 1000.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready:
            if timeout is None:
                raise RuntimeError("the test waits for something that nothing will bring about")
            self.clock += max(timeout, 0.0)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """The loop; sockets do not work in it, as no time passes for the other side."""

    def __init__(self) -> None:
        self._jumping = _Selector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.clock


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual_time(test: Callable[P, Coroutine[Any, Any, R]]) -> Callable[P, R]:
    """Decorate an async test so that it runs in virtual time."""

    @functools.wraps(test)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        return run(test(*args, **kwargs))

    return wrapper


def elapsed() -> float:
    """Return the seconds that have passed since the loop began."""
    return asyncio.get_running_loop().time() - _Selector.clock


async def settle(rounds: int = 50) -> None:
    """Let everything that is ready run, without moving the clock."""
    for _ in range(rounds):
        await asyncio.sleep(0)


async def cancel(*tasks: Awaitable[Any]) -> None:
    """Cancel tasks and wait for their end."""
    futures = [asyncio.ensure_future(task) for task in tasks]
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
