"""Gangs that stay below their minimum get new pods, once, whatever happens to the operator meanwhile."""

import asyncio
import random

import pytest

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.runtime.events import EVENT
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, group, pod_set

DELAY = 100.0


def gang_set(minimum: int, group_minimum: int, c_minimum: int = 1, delay: str = "100s") -> Object:
    """Ten pods: two a, and two replicas of a group of one b and three c."""
    cliques = [clique("a", 2, minimum), clique("b", 1, 1), clique("c", 3, c_minimum)]
    return pod_set(*cliques, groups=[group("g", ["b", "c"], 2, group_minimum)], terminationDelay=delay)


WHOLE = gang_set(2, 2, 3)
PARTIAL = gang_set(1, 1)


class Nodes:
    """Takes pods together with their nodes: what comes in their place at the same index finds none."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._lost: set[str] = set()
        cluster.pods.schedulable = lambda pod: pod["spec"]["hostname"] not in self._lost

    def lose(self, podclique: str, *indices: int) -> None:
        """Lose the pods of a PodClique at these indices, and their nodes."""
        pods = self._cluster.pods_of(podclique)
        for index in indices:
            self._lost.add(pods[index]["spec"]["hostname"])
            self._cluster.delete(POD, pods[index]["metadata"]["name"])

    def restore(self) -> None:
        """All nodes are back."""
        self._lost.clear()
        self._cluster.pods.step()


def uids(cluster: Cluster, prefix: str = "web-0") -> set[str]:
    """uids of the live pods of the PodCliques whose names begin so."""
    found = [
        pod for pod in cluster.api.objects(POD) if pod["metadata"]["labels"]["grove.io/podclique"].startswith(prefix)
    ]
    return {pod["metadata"]["uid"] for pod in found if "deletionTimestamp" not in pod["metadata"]}


def owners(cluster: Cluster) -> set[str]:
    """uids of all that pods belong to."""
    kinds = (PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG)
    return {obj["metadata"]["uid"] for kind in kinds for obj in cluster.api.objects(kind)}


def condition(cluster: Cluster, resource: object, name: str, kind: str) -> Object:
    """A condition of an object, {} when there is none."""
    found = cluster.get(resource, name)["status"].get("conditions") or ()  # type: ignore[arg-type]
    return next((one for one in found if one["type"] == kind), {})


def events(cluster: Cluster, reason: str) -> list[Object]:
    """The Events with a reason."""
    return [event for event in cluster.api.objects(EVENT) if event["reason"] == reason]


# What is replaced (acceptance list 3)


@pytest.mark.parametrize("podclique", ["web-0-a", "web-0-g-0-c"])
@in_cluster
async def test_a_lost_pod_of_a_whole_gang_replaces_all(cluster: Cluster, podclique: str) -> None:
    """GT-1, GT-2."""
    await cluster.up(WHOLE)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose(podclique, 0)
    await asyncio.sleep(DELAY - 10)
    assert len(uids(cluster) & before) == 9
    await asyncio.sleep(20)
    assert not uids(cluster) & before
    assert len(uids(cluster)) == 10
    await asyncio.sleep(10 * DELAY)
    assert cluster.watchdog.created == 10 + 1 + 10  # once, however long it takes
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": WHOLE})
    assert cluster.watchdog.created == 21


@in_cluster
async def test_above_the_minimum_nothing_is_replaced(cluster: Cluster) -> None:
    """GT-3."""
    await cluster.up(PARTIAL)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(2 * DELAY)
    assert len(uids(cluster) & before) == 9
    nodes.lose("web-0-a", 1)
    await asyncio.sleep(DELAY + 10)
    assert not uids(cluster) & before
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": PARTIAL})


@in_cluster
async def test_a_replica_of_a_group_that_can_be_missed_is_replaced_alone(cluster: Cluster) -> None:
    """GT-4."""
    await cluster.up(PARTIAL)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-g-0-c", 0)
    await asyncio.sleep(2 * DELAY)
    assert len(uids(cluster) & before) == 9
    nodes.lose("web-0-g-0-c", 1, 2)
    await asyncio.sleep(5 * DELAY)
    assert not uids(cluster, "web-0-g-0") & before
    assert len(uids(cluster) & before) == 6
    assert cluster.watchdog.created == 10 + 3 + 4
    nodes.lose("web-0-g-1-c", 0)
    await asyncio.sleep(2 * DELAY)
    assert len(uids(cluster) & before) == 5
    before = uids(cluster)
    nodes.lose("web-0-g-1-c", 1, 2)
    await asyncio.sleep(DELAY + 10)
    assert not uids(cluster) & before
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": PARTIAL})


@in_cluster
async def test_the_minimum_of_a_clique_in_a_group(cluster: Cluster) -> None:
    """GT-5."""
    obj = gang_set(1, 1, 3)
    await cluster.up(obj)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-g-0-c", 0, 1, 2)
    await asyncio.sleep(DELAY + 10)
    assert not uids(cluster, "web-0-g-0") & before
    assert len(uids(cluster) & before) == 6
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": obj})


@in_cluster
async def test_a_pod_of_a_scaled_gang(cluster: Cluster) -> None:
    """GT-6."""
    await cluster.up(PARTIAL)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-g-1-c", 0)
    await asyncio.sleep(3 * DELAY)
    assert len(uids(cluster) & before) == 9
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": PARTIAL})


@in_cluster
async def test_other_replicas_of_the_set_are_left_alone(cluster: Cluster) -> None:
    obj = {**WHOLE, "spec": {**WHOLE["spec"], "replicas": 2}}
    await cluster.up(obj)
    nodes, before = Nodes(cluster), uids(cluster, "web-1")
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY + 10)
    assert cluster.watchdog.created == 20 + 1 + 10
    assert uids(cluster, "web-1") == before


# What is kept


@in_cluster
async def test_podcliques_and_scaled_numbers_stay(cluster: Cluster) -> None:
    """Report G4."""
    await cluster.up(WHOLE)
    cluster.scale(PODCLIQUE, "web-0-a", 5)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 3)
    await cluster.quiet()
    kept = owners(cluster)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-a", 0, 1, 2, 3)
    await asyncio.sleep(DELAY + 10)
    assert not uids(cluster) & before
    assert kept == {
        obj["metadata"]["uid"]
        for kind in (PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG)
        for obj in cluster.api.objects(kind)
    }
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": WHOLE}, {"web-0-a": 5, "web-0-g": 3})


# When nothing is replaced


@in_cluster
async def test_a_gang_that_recovers_in_time(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    nodes = Nodes(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY - 10)
    nodes.restore()
    await asyncio.sleep(50)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY - 10)
    assert cluster.watchdog.created == 12  # the second breach has its own time
    await asyncio.sleep(20)
    assert cluster.watchdog.created == 22


@in_cluster
async def test_a_gang_that_never_ran(cluster: Cluster) -> None:
    cluster.pods.schedulable = lambda pod: pod["metadata"]["labels"]["grove.io/podclique"] != "web-0-a"
    cluster.create(WHOLE)
    await asyncio.sleep(20 * DELAY)
    assert condition(cluster, PODCLIQUE, "web-0-a", "MinAvailableBreached")["status"] == "True"
    assert cluster.watchdog.created == 10


@in_cluster
async def test_replicas_without_room_do_not_take_the_healthy_ones_with_them(cluster: Cluster) -> None:
    """Report G3."""
    await cluster.up(PARTIAL)
    before = uids(cluster)
    cluster.pods.schedulable = lambda pod: False
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 5)
    cluster.scale(PODCLIQUE, "web-0-a", 4)
    await asyncio.sleep(20 * DELAY)
    assert before <= uids(cluster)
    assert cluster.watchdog.created == 10 + 3 * 4 + 2


@in_cluster
async def test_idle_and_awake_without_room(cluster: Cluster) -> None:
    """Report G11."""
    await cluster.up(WHOLE)
    before = uids(cluster, "web-0-g")
    cluster.scale(PODCLIQUE, "web-0-a", 0)
    await asyncio.sleep(20 * DELAY)
    assert condition(cluster, PODCLIQUE, "web-0-a", "MinAvailableBreached")["status"] == "False"
    cluster.pods.schedulable = lambda pod: False
    cluster.scale(PODCLIQUE, "web-0-a", 2)
    await asyncio.sleep(20 * DELAY)
    assert uids(cluster, "web-0-g") == before
    assert cluster.watchdog.created == 12


@in_cluster
async def test_pods_that_end_by_themselves(cluster: Cluster) -> None:
    """Report G16: they are replaced one by one, and a gang at most once per delay."""
    await cluster.up(WHOLE)
    for _ in range(20):
        for pod in cluster.pods_of("web-0-a"):
            cluster.pods.finish("default", pod["metadata"]["name"], "Succeeded")
        await asyncio.sleep(30)
    assert cluster.watchdog.created == 10 + 20 * 2


# Other circumstances


@in_cluster
async def test_pods_stuck_on_a_dead_node_hold_nothing_up(cluster: Cluster) -> None:
    """Report G5."""
    await cluster.up(WHOLE)
    nodes, before = Nodes(cluster), uids(cluster)
    cluster.pods.gone_after = 10**6
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY + 10)
    assert len(cluster.api.objects(POD)) == 10 + 10  # those on the node, and new ones
    assert not uids(cluster) & before
    nodes.restore()
    await asyncio.sleep(20)
    assert condition(cluster, PODGANG, "web-0", "Ready")["status"] == "True"
    assert cluster.get(PODCLIQUESET, "web")["status"]["availableReplicas"] == 1


@pytest.mark.parametrize(("delay", "wait"), [("10s", 1), ("50s", 25), ("300s", 275)])
@in_cluster
async def test_a_changed_delay_counts_at_once(cluster: Cluster, delay: str, wait: float) -> None:
    await cluster.up(WHOLE)
    nodes = Nodes(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(30)
    cluster.patch(PODCLIQUESET, "web", {"spec": {"template": {"terminationDelay": delay}}})
    await asyncio.sleep(wait - 10 if wait > 10 else 0)
    assert cluster.watchdog.created == 11 if wait > 10 else True
    await asyncio.sleep(20)
    assert cluster.watchdog.created == 21


@in_cluster
async def test_crashing_pods_are_a_breach(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    cluster.pods.crash("default", cluster.pods_of("web-0-a")[0]["metadata"]["name"])
    await asyncio.sleep(DELAY - 10)
    assert condition(cluster, PODCLIQUE, "web-0-a", "MinAvailableBreached")["reason"] == "InsufficientReadyPods"
    assert cluster.watchdog.created == 10
    await asyncio.sleep(20)
    assert cluster.watchdog.created == 20
    await cluster.quiet()
    await cluster.check({"web": WHOLE})


# What is said


@in_cluster
async def test_conditions_and_events_before_and_after(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    nodes = Nodes(cluster)
    assert condition(cluster, PODGANG, "web-0", "Unhealthy")["status"] == "False"
    nodes.lose("web-0-g-1-c", 0)
    await asyncio.sleep(30)
    unhealthy = condition(cluster, PODGANG, "web-0", "Unhealthy")
    assert (unhealthy["status"], unhealthy["reason"]) == ("True", "ScheduledReplicasBelowMinAvailable")
    assert "web-0-g-1-c" in unhealthy["message"]
    assert condition(cluster, PODCLIQUESCALINGGROUP, "web-0-g", "MinAvailableBreached")["status"] == "True"
    assert condition(cluster, PODCLIQUESCALINGGROUP, "web-0-g", "GangTerminationInProgress") == {}
    (warning,) = events(cluster, "PodGangUnhealthy")
    assert warning["involvedObject"]["kind"] == "PodCliqueSet"
    assert "replica 0" in warning["message"]
    assert events(cluster, "PodCliqueSetReplicaDeleteSuccessful") == []
    await asyncio.sleep(DELAY)
    (done,) = events(cluster, "PodCliqueSetReplicaDeleteSuccessful")
    assert "web-0-g-1-c" in done["message"]
    for kind, name in ((PODCLIQUESCALINGGROUP, "web-0-g"), (PODCLIQUE, "web-0-g-1-c")):
        found = condition(cluster, kind, name, "GangTerminationInProgress")
        assert (found["status"], found["reason"]) == ("True", "GangTerminationActive")
    assert condition(cluster, PODGANG, "web-0", "DisruptionTarget")["status"] == "True"
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": WHOLE})
    assert condition(cluster, PODGANG, "web-0", "DisruptionTarget")["status"] == "False"
    assert condition(cluster, PODGANG, "web-0", "Unhealthy")["status"] == "False"
    assert condition(cluster, PODCLIQUESCALINGGROUP, "web-0-g", "GangTerminationInProgress") == {}
    assert len(events(cluster, "PodGangUnhealthy")) == 1
    assert len(events(cluster, "PodCliqueSetReplicaDeleteSuccessful")) == 1


# Crashes


@pytest.mark.parametrize("moment", range(60))
@in_cluster
async def test_killed_at_any_write_between_breach_and_the_new_pods(cluster: Cluster, moment: int) -> None:
    """However many writes the operator got done, the next one goes on from there, and no pod is made twice."""
    await cluster.up(WHOLE)
    nodes = Nodes(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY - 10)
    seen = len(cluster.api.writes())
    for _ in range(20_000):
        if len(cluster.api.writes()) >= seen + moment:
            break
        await asyncio.sleep(0.001)
    await cluster.end(kill=True)
    cluster.start()
    await asyncio.sleep(2 * DELAY)
    assert cluster.watchdog.created == 21
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": WHOLE})
    assert cluster.watchdog.created == 21


@in_cluster
async def test_a_restart_does_not_change_the_time(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    nodes = Nodes(cluster)
    nodes.lose("web-0-a", 0)
    for _ in range(8):
        await asyncio.sleep(10)
        await cluster.end(kill=random.random() < 0.5)
        cluster.start()
    assert cluster.watchdog.created == 11
    await asyncio.sleep(30)
    assert cluster.watchdog.created == 21
    for _ in range(8):
        await asyncio.sleep(DELAY / 4)
        await cluster.end()
        cluster.start()
    assert cluster.watchdog.created == 21


@in_cluster
async def test_a_time_that_came_while_no_operator_ran(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    nodes, before = Nodes(cluster), uids(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(30)
    await cluster.end(kill=True)
    await asyncio.sleep(5 * DELAY)
    cluster.start()
    await asyncio.sleep(5)
    assert not uids(cluster) & before


@in_cluster
async def test_two_operators(cluster: Cluster) -> None:
    await cluster.up(WHOLE)
    cluster.start()
    await asyncio.sleep(10)
    nodes = Nodes(cluster)
    nodes.lose("web-0-a", 0)
    await asyncio.sleep(DELAY + 30)
    nodes.restore()
    await cluster.quiet()
    await cluster.check({"web": WHOLE})
    assert cluster.watchdog.created == 21
