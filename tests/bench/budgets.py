"""What the numbers may be at most: shares of what Grove's Go operator needed for the same shapes on two cores.

The Go operator ran on the same kind of cluster: two cores, KWOK nodes, default-scheduler without gangs, one clique of
two pods per replica. There is no such measurement of 5000 pods; there the cost per pod must not exceed that of 100x2.
"""

from dataclasses import dataclass

TIME_SHARE = 0.4
CPU_SHARE = 0.5
WRITES_PER_REPLICA = 10.0
"""A Service, a PodClique, a PodGang, two pods, two gates, three statuses."""
ADMISSION_MS = 50.0
"""A set of 3 KB, 99 of 100 times. Where pods are tried, the API server's own time comes on top, without a budget."""
FLATNESS = 1.1
"""CPU per pod relative to the smallest scenario; a tenth is the noise of the measurement."""

OPENING_SECONDS = 1.0
"""From the moment in which the last parent is ready to the release of the last of 200 pods."""


@dataclass(frozen=True, slots=True)
class Reference:
    """What the Go operator needed: seconds until pods were created, Ready, deleted; CPU seconds; MB of memory."""

    created: float
    ready: float
    deleted: float
    cpu: float
    memory: float


REFERENCES = {
    "100x2 plain": Reference(created=12, ready=31, deleted=6.5, cpu=3.2, memory=66),
    "500x2 plain": Reference(created=38, ready=89, deleted=27, cpu=17, memory=124),
}


def budget(scenario: str, measure: str) -> float | None:
    """The most that `measure` (a key of `report.measures`) may be in a scenario, None when it has no budget."""
    if measure in ("admission: defaults, p99", "admission: rules, p99"):
        return ADMISSION_MS
    if measure in ("touch: writes", "idle: writes"):
        return 0.0
    if "CPU per pod, relative to" in measure:
        return FLATNESS
    if measure == "deploy: clique ready → next one free, longest":
        return OPENING_SECONDS
    reference = REFERENCES.get(scenario)
    if reference is None:
        return None
    return {
        "deploy: pods created": TIME_SHARE * reference.created,
        "deploy: Ready": TIME_SHARE * reference.ready,
        "delete: pods gone": TIME_SHARE * reference.deleted,
        "deploy: CPU": CPU_SHARE * reference.cpu,
        "memory: peak": reference.memory,
        "deploy: writes per replica": WRITES_PER_REPLICA,
    }.get(measure)
