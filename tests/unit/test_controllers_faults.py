"""Single faults of the wire, and operators that come and go: no pod is made without a cause."""

import asyncio
from collections.abc import Callable

import pytest

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG
from tests.fake_api import Faults
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import clique, group, pod_set

SET = pod_set(
    clique("a", 3, 2), clique("b", 2, 1), clique("c", 1), groups=[group("g", ["b", "c"], 3, 1)], replicas=2
)  # fmt: skip
PODS = 2 * (3 + 3 * (2 + 1))
SMALL = pod_set(clique("a", 2), clique("b", 1), groups=[group("g", ["b"], 2, 1)])


# The wire


WRITES = ("create", "patch", "delete")
FAULTS: dict[str, Callable[[Faults], object]] = {
    "409": lambda faults: [faults.refuse(409, "Conflict", verb=verb, times=None, probability=0.3) for verb in WRITES],
    "429": lambda faults: [
        faults.refuse(429, verb=verb, retry_after=1, times=None, probability=0.3) for verb in WRITES
    ],
    "500": lambda faults: [faults.refuse(500, verb=verb, times=None, probability=0.3) for verb in WRITES],
    "403": lambda faults: [faults.refuse(403, "Forbidden", verb=verb, times=None, probability=0.3) for verb in WRITES],
    "reset": lambda faults: [faults.reset(verb=verb, times=None, probability=0.3) for verb in WRITES],
    "lost answer": lambda faults: [faults.lose_response(verb=verb, times=None, probability=0.3) for verb in WRITES],
    "double events": lambda faults: setattr(faults, "duplicate_events", True),
    "late events": lambda faults: setattr(faults, "watch_delay", 1.0),
}


@pytest.mark.parametrize("fault", FAULTS)
@in_cluster
async def test_no_pod_too_many_whatever_the_wire_does(cluster: Cluster, fault: str) -> None:
    FAULTS[fault](cluster.api.faults)
    cluster.create(SET)
    await cluster.quiet()
    assert cluster.watchdog.created == PODS
    cluster.scale(PODCLIQUE, "web-0-a", 5)
    cluster.delete(POD, cluster.pods_of("web-1-a")[0]["metadata"]["name"])
    await cluster.quiet()
    assert cluster.watchdog.created == PODS + 3
    cluster.scale(PODCLIQUE, "web-0-a", 2)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-1-g", 2)
    await cluster.heal()
    await cluster.check({"web": SET}, {"web-0-a": 2, "web-1-g": 2})
    assert cluster.watchdog.created == PODS + 3
    assert cluster.watchdog.doubles == []


@in_cluster
async def test_removals_nobody_told_of_show_in_the_next_list(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.api.faults.lose_event = lambda kind, _, obj: kind == "DELETED"
    cluster.watchdog.staleness = 10**6
    cluster.delete(PODCLIQUE, "web-0-g-1-b")
    cluster.delete(PODGANG, "web-1")
    cluster.delete(POD, cluster.pods_of("web-0-a")[0]["metadata"]["name"], gracePeriodSeconds=0)
    await asyncio.sleep(1)
    await cluster.heal()
    await cluster.check({"web": SET})


@in_cluster
async def test_an_outage_of_the_api_server(cluster: Cluster) -> None:
    cluster.create(SET)
    for _ in range(5):
        await asyncio.sleep(0.01)
        cluster.api.faults.down = True
        cluster.api.drop_watches()
        await asyncio.sleep(7)
        cluster.api.faults.down = False
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.watchdog.created == PODS


# Operators that come and go


@in_cluster
async def test_a_restart_costs_nothing(cluster: Cluster) -> None:
    await cluster.up(SET)
    sent = len(cluster.api.writes())
    await cluster.end()
    cluster.start()
    await cluster.quiet()
    assert len(cluster.api.writes()) == sent


def writes_of_a_life() -> int:
    """How many writes one operator sends for the small set's way up."""
    counted: list[int] = []

    @in_cluster
    async def life(cluster: Cluster) -> None:
        await cluster.up(SMALL)
        counted.append(len(cluster.api.writes()))

    life()
    return counted[0]


@pytest.mark.parametrize("part", range(4))
def test_a_crash_at_any_write_is_healed_by_the_next_operator(part: int) -> None:
    for number in range(part, writes_of_a_life(), 4):
        crash_at(number)


@in_cluster
async def crash_at(cluster: Cluster, number: int) -> None:
    """Kill the operator when it has sent so many writes; the last is done, but it never learns that."""
    cluster.create(SMALL)
    while len(cluster.api.writes()) <= number:  # noqa: ASYNC110  # there is nothing to wait on
        await asyncio.sleep(0.0005)
    await cluster.end(kill=True)
    cluster.start()
    await cluster.quiet()
    await cluster.check({"web": SMALL})
    assert cluster.watchdog.created == 4, f"killed at write {number}"


@in_cluster
async def test_two_operators_at_once_make_each_pod_once(cluster: Cluster) -> None:
    cluster.start()
    await cluster.up(SET)
    assert cluster.watchdog.created == PODS
    for name in sorted(cluster.uids())[::3]:
        cluster.delete(POD, name)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.watchdog.created == PODS + PODS // 3
    assert cluster.watchdog.doubles == []
