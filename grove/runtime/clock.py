"""One clock for everything that waits."""

import asyncio
import time


def now() -> float:
    """Return the seconds of the running loop's clock; outside a loop (a metrics thread) those of the same system
    clock.
    """
    try:
        return asyncio.get_running_loop().time()
    except RuntimeError:
        return time.monotonic()
