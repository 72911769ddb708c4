"""What is wrong with the process, for probes: an empty list is health."""

from collections.abc import Iterable
from typing import Any

from grove.runtime.informer import Informer
from grove.runtime.queue import WorkQueue


def unsynced(informers: Iterable[Informer[Any]]) -> list[str]:
    """Return a line per informer whose store has no complete list yet: the operator is not ready."""
    return [f"{informer.resource.label}: not listed yet" for informer in informers if not informer.synced.is_set()]


def silent(informers: Iterable[Informer[Any]], seconds: float) -> list[str]:
    """Return a line per informer that has heard nothing for so long. Bookmarks come about once a minute."""
    return [
        f"{informer.resource.label}: no news from the API server for {informer.silence():.0f} s"
        for informer in informers
        if informer.silence() > seconds
    ]


def stuck(queues: Iterable[WorkQueue[Any]], seconds: float) -> list[str]:
    """Return a line per queue with a pass that runs for so long."""
    return [
        f"{queue.name}: a pass has been running for {queue.oldest_running():.0f} s"
        for queue in queues
        if queue.oldest_running() > seconds
    ]
