"""Children go with their owners. Where the news of theirs come first, they get no successors that nobody wants."""

import pytest

from grove.controllers.world import World
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from grove.runtime.resources import ResourceType
from tests.fake_api.objects import Object
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import clique, group, pod_set

SET = pod_set(clique("a", 3, 1), clique("b", 2), groups=[group("g", ["b"], 2, 1)])
PODS = 3 + 2 * 2


def world(cluster: Cluster) -> World:
    return cluster.operators[0].controllers.world


@pytest.mark.parametrize("late", [PODCLIQUESET, PODCLIQUE, PODCLIQUESCALINGGROUP], ids=lambda kind: kind.kind)
@in_cluster
async def test_a_deleted_set_makes_nothing_new(cluster: Cluster, late: ResourceType) -> None:
    await cluster.up(SET)
    made = cluster.committed()

    def is_lost(kind: str, resource: ResourceType, _: Object) -> bool:
        return kind == "DELETED" and resource == late

    cluster.api.faults.lose_event = is_lost
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    new = cluster.committed() - made
    assert not [write for write in new if write.startswith("create")], new
    await cluster.heal()
    assert not cluster.names(POD)
    assert world(cluster).losses == {}


@in_cluster
async def test_a_clique_scaled_in_gets_no_new_pods(cluster: Cluster) -> None:
    """The user takes a pod away and lowers the number by one, and only the first is told."""
    await cluster.up(SET)
    cluster.api.faults.lose_event = lambda _, resource, __: resource == PODCLIQUE
    cluster.scale(PODCLIQUE, "web-0-a", 2)
    cluster.delete(POD, cluster.pods_of("web-0-a")[0]["metadata"]["name"])
    await cluster.quiet()
    assert cluster.committed()["create pods"] == PODS
    assert len(cluster.pods_of("web-0-a")) == 2
    await cluster.heal()
    await cluster.check({"web": SET}, {"web-0-a": 2})


@in_cluster
async def test_an_owner_is_looked_at_once_for_all_it_lost(cluster: Cluster) -> None:
    await cluster.up(SET)
    before = len(cluster.api.requests)
    for pod in cluster.pods_of("web-0-a"):
        cluster.delete(POD, pod["metadata"]["name"], gracePeriodSeconds=0)
    await cluster.quiet()
    looks = [request for request in cluster.api.requests[before:] if request.verb == "get"]
    assert [(request.resource, request.name) for request in looks] == [("podcliques", "web-0-a")]
    assert cluster.committed()["create pods"] == PODS + 3


@in_cluster
async def test_without_an_answer_nothing_is_made(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.api.faults.refuse(500, verb="get", resource="podcliques", times=3)
    cluster.delete(POD, cluster.pods_of("web-0-a")[0]["metadata"]["name"])
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.committed()["create pods"] == PODS + 1
