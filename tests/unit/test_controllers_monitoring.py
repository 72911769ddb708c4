"""Metrics of Grove itself, against a cluster in memory."""

import asyncio

from prometheus_client import CollectorRegistry

from grove.controllers.monitoring import GANG_SECONDS, PHASES
from grove.plan.kinds import POD, PODCLIQUE
from grove.plan.observed import POD_STATES
from tests.fake_api.store import Change
from tests.unit.expectations import gated
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import clique, pod_set


class Scrape:
    """What one scrape of an operator's own metrics shows."""

    def __init__(self, cluster: Cluster) -> None:
        registry = CollectorRegistry()
        registry.register(cluster.operators[0].controllers.monitor)
        self._registry = registry

    def __call__(self, name: str, **tags: str) -> float | None:
        return self._registry.get_sample_value(name, tags)

    def total(self, name: str) -> float:
        return sum(
            sample.value for family in self._registry.collect() if family.name == name for sample in family.samples
        )


def stages(stage: str) -> float:
    child = GANG_SECONDS.labels(stage)
    return next(sample.value for sample in child._samples() if sample.name == "_count")


def within(seconds: float) -> float:
    """How many gangs were complete so soon after their creation."""
    samples = GANG_SECONDS.labels("complete")._samples()
    return next(one.value for one in samples if one.name == "_bucket" and float(one.labels["le"]) == seconds)


@in_cluster
async def test_a_set_that_comes_up_is_counted(cluster: Cluster) -> None:
    before = {stage: stages(stage) for stage in ("complete", "scheduled", "ready")}
    await cluster.up(pod_set(clique("a", 3), clique("b", 2)))
    shown = Scrape(cluster)
    assert shown("grove_pods", state="ready") == 5
    assert shown.total("grove_pods") == 5
    assert shown("grove_podgangs", phase="Running") == shown.total("grove_podgangs") == 1
    assert shown("grove_podcliquesets", state="settled") == 1
    assert shown.total("grove_gated_pods") == 0
    assert shown("grove_min_available_breached", kind="PodClique") == 0
    assert shown("informer_objects", resource="pods") == 5
    assert {stage: stages(stage) - count for stage, count in before.items()} == dict.fromkeys(before, 1)


@in_cluster
async def test_gated_pods_are_counted_by_what_their_gang_waits_for(cluster: Cluster) -> None:
    cluster.api.faults.refuse(403, "Forbidden", verb="create", resource="pods", skip=2, times=None)
    cluster.start()
    cluster.create(pod_set(clique("a", 3)))
    await cluster.rest(5)
    shown = Scrape(cluster)
    assert shown("grove_pods", state="gated") == 2
    assert shown("grove_gated_pods", reason="PodGangPodsCreationPending") == 2
    assert shown("grove_podgangs", phase="Pending") == 1


@in_cluster
async def test_the_gates_of_two_hundred_sets_at_once_come_off_within_seconds(cluster: Cluster) -> None:
    """Report R7: 99 of 100 within 10 s, and a metric that tells."""
    created: dict[str, float] = {}
    held: list[float] = []

    def look(change: Change) -> None:
        if change.resource == POD and change.new is not None:
            now, name = asyncio.get_running_loop().time(), change.new["metadata"]["name"]
            if gated(change.new):
                created.setdefault(name, now)
            elif name in created:
                held.append(now - created.pop(name))

    cluster.api.listeners.append(look)
    before, quick = stages("complete"), within(10)
    for number in range(200):
        cluster.create(pod_set(clique("a", 2), name=f"set-{number}"))
    await cluster.rest(20)
    assert len(held) == 400
    assert sorted(held)[400 * 99 // 100] < 10
    assert stages("complete") - before == 200
    assert within(10) - quick >= 198


@in_cluster
async def test_the_number_of_series_does_not_grow_with_the_cluster(cluster: Cluster) -> None:
    cluster.start()
    monitor = cluster.operators[0].controllers.monitor

    def count() -> int:
        return sum(len(family.samples) for family in monitor.collect() if family.name != "grove_gated_pods")

    empty = count()
    await cluster.up(pod_set(clique("a", 20), clique("b", 20), replicas=3))
    assert len(cluster.names(PODCLIQUE)) == 6
    assert count() - empty <= len(monitor._informers), "at most the silence of informers that were not served before"
    assert empty >= len(POD_STATES) + len(PHASES)
