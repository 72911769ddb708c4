"""Whole lives of sets: up, scaled, short of pods and back, down."""

import asyncio

import pytest

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, group, pod_set

SET = pod_set(
    clique("a", 3, 2), clique("b", 2, 1), clique("c", 1), groups=[group("g", ["b", "c"], 3, 1)], replicas=2
)  # fmt: skip
PODS = 2 * (3 + 3 * (2 + 1))
SMALL = pod_set(clique("a", 2), clique("b", 1), groups=[group("g", ["b"], 2, 1)])


def with_replicas(obj: Object, replicas: int) -> Object:
    return {**obj, "spec": {**obj["spec"], "replicas": replicas}}


# Up and down


@in_cluster
async def test_a_set_comes_up_with_as_few_writes_as_there_can_be(cluster: Cluster) -> None:
    await cluster.up(SET)
    writes = cluster.committed()
    assert {key: count for key, count in writes.items() if "status" not in key} == {
        "create services": 2,
        "create podcliquescalinggroups": 2,
        "create podcliques": 2 + 2 * 3 * 2,
        "create podgangs": 2 * 3,
        "create pods": PODS,
        "patch pods": PODS,
    }
    # Everything starts at once here, so each status is written when it is complete, and a gang's when it starts, too.
    statuses = {key: count for key, count in writes.items() if "status" in key}
    assert statuses == {
        "patch podgangs status": 2 * 3,
        "patch podcliques status": 2 + 2 * 3 * 2,
        "patch podcliquescalinggroups status": 2,
        "patch podcliquesets status": statuses["patch podcliquesets status"],
    }
    assert statuses["patch podcliquesets status"] <= 2
    assert cluster.watchdog.doubles == []


@in_cluster
async def test_nothing_is_left_of_a_deleted_set(cluster: Cluster) -> None:
    await cluster.up(SET)
    sent = len(cluster.api.writes())
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    await cluster.check({})
    assert cluster.committed(sent) == {}  # the garbage collector does it


@in_cluster
async def test_a_set_deleted_in_the_foreground(cluster: Cluster) -> None:
    await cluster.up(SET)
    sent = len(cluster.api.writes())
    cluster.delete(PODCLIQUESET, "web", propagationPolicy="Foreground")
    await cluster.quiet()
    await cluster.check({})
    assert cluster.committed(sent) == {}


@in_cluster
async def test_a_set_deleted_from_its_children_takes_them_back_when_it_comes_again(cluster: Cluster) -> None:
    await cluster.up(SET)
    before = cluster.uids()
    cluster.delete(PODCLIQUESET, "web", propagationPolicy="Orphan")
    await cluster.quiet()
    assert cluster.uids() == before
    cluster.create(SET)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.uids() == before


@in_cluster
async def test_many_sets_with_the_same_clique_names(cluster: Cluster) -> None:
    names = [*(f"s{i}" for i in range(9)), "s1-0"]
    sets = {
        name: pod_set(clique("leader", 1), clique("pleader", 2), groups=[group("g", ["pleader"], 2)], name=name)
        for name in names
    }
    for obj in sets.values():
        cluster.create(obj)
    await cluster.quiet()
    await cluster.check(sets)
    assert cluster.watchdog.created == 10 * 5


# Scaling


@in_cluster
async def test_scaling_touches_no_pod_that_stays(cluster: Cluster) -> None:
    await cluster.up(SET)
    scaled: dict[str, int] = {}
    for resource, name, replicas in (
        (PODCLIQUE, "web-0-a", 5),
        (PODCLIQUESCALINGGROUP, "web-1-g", 4),
        (PODCLIQUE, "web-0-a", 2),
        (PODCLIQUESCALINGGROUP, "web-1-g", 1),
        (PODCLIQUESCALINGGROUP, "web-0-g", 2),
    ):
        before = cluster.uids()
        cluster.scale(resource, name, replicas)
        scaled[name] = replicas
        await cluster.quiet()
        await cluster.check({"web": SET}, scaled)
        after = cluster.uids()
        assert before.items() <= after.items() or after.items() <= before.items()
    # A new replica of the set begins with the numbers of the template.
    cluster.scale(PODCLIQUESET, "web", 3)
    before = cluster.uids()
    await cluster.quiet()
    await cluster.check({"web": with_replicas(SET, 3)}, scaled)
    assert before.items() <= cluster.uids().items()
    cluster.scale(PODCLIQUESET, "web", 1)
    await cluster.quiet()
    await cluster.check({"web": with_replicas(SET, 1)}, scaled)
    assert cluster.uids().items() <= before.items()


@pytest.mark.parametrize("name", ["web-0-a", "web-0-g", "web-0-g-0-b", "web-0-g-2-c", "web"])
@in_cluster
async def test_idle_and_back(cluster: Cluster, name: str) -> None:
    await cluster.up(SET)
    resource = PODCLIQUESET if name == "web" else PODCLIQUESCALINGGROUP if name == "web-0-g" else PODCLIQUE
    before = cluster.get(resource, name)["spec"]["replicas"]
    cluster.scale(resource, name, 0)
    await cluster.quiet()
    await cluster.check({"web": with_replicas(SET, 0) if name == "web" else SET}, {name: 0})
    cluster.scale(resource, name, before)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.watchdog.doubles == []


@in_cluster
async def test_all_idle_is_a_set_without_gangs(cluster: Cluster) -> None:
    await cluster.up(SMALL)
    cluster.scale(PODCLIQUE, "web-0-a", 0)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 0)
    await cluster.quiet()
    await cluster.check({"web": SMALL}, {"web-0-a": 0, "web-0-g": 0})
    assert cluster.names(PODGANG) == cluster.names(POD) == set()


@in_cluster
async def test_a_number_changed_in_the_template_is_applied_once(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.scale(PODCLIQUE, "web-0-a", 5)
    await cluster.quiet()
    changed = pod_set(
        clique("a", 4, 2), clique("b", 2, 1), clique("c", 1), groups=[group("g", ["b", "c"], 3, 1)], replicas=2
    )  # fmt: skip
    cluster.patch(PODCLIQUESET, "web", {"spec": changed["spec"]})
    await cluster.quiet()
    await cluster.check({"web": changed})
    cluster.scale(PODCLIQUE, "web-1-a", 2)
    await cluster.quiet()
    await cluster.check({"web": changed}, {"web-1-a": 2})


# Pods that go


@in_cluster
async def test_a_deleted_pod_is_replaced_at_its_index(cluster: Cluster) -> None:
    await cluster.up(SET)
    pod = cluster.pods_of("web-0-g-1-b")[0]["metadata"]["name"]
    before = cluster.uids()
    cluster.delete(POD, pod)
    await cluster.quiet()
    await cluster.check({"web": SET})
    after = cluster.uids()
    assert cluster.watchdog.created == PODS + 1
    assert before.keys() - after.keys() == {pod}
    (fresh,) = after.keys() - before.keys()
    assert cluster.get(POD, fresh)["spec"]["hostname"] == "web-0-g-1-b-0"


@in_cluster
async def test_all_pods_at_once(cluster: Cluster) -> None:
    await cluster.up(SET)
    for name in cluster.uids():
        cluster.delete(POD, name)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.watchdog.created == 2 * PODS


@in_cluster
async def test_a_stuck_pod_is_replaced_at_once_and_only_once(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.pods.gone_after = 10**6
    stuck = cluster.pods_of("web-0-a")[1]
    for _ in range(3):
        name = cluster.pods_of("web-0-a")[1]["metadata"]["name"]
        cluster.delete(POD, name)
        await asyncio.sleep(30)
        assert len(cluster.pods_of("web-0-a")) == 3
    assert {pod["spec"]["hostname"] for pod in cluster.pods_of("web-0-a")} == {f"web-0-a-{index}" for index in range(3)}
    assert cluster.watchdog.created == PODS + 3
    # Only when the node is back they go, oldest first; nothing is made for that.
    for pod in cluster.api.objects(POD):
        if "deletionTimestamp" in pod["metadata"]:
            cluster.delete(POD, pod["metadata"]["name"], gracePeriodSeconds=0)
            await asyncio.sleep(1)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.api.find(POD, "default", stuck["metadata"]["name"]) is None
    assert cluster.watchdog.created == PODS + 3


@pytest.mark.parametrize(("phase", "reason"), [("Failed", ""), ("Failed", "Evicted"), ("Succeeded", "")])
@in_cluster
async def test_a_pod_that_ended_is_replaced_and_removed(cluster: Cluster, phase: str, reason: str) -> None:
    await cluster.up(SET)
    ended = cluster.pods_of("web-1-a")[2]["metadata"]["name"]
    cluster.pods.finish("default", ended, phase, reason)
    await cluster.quiet()
    await cluster.check({"web": SET})
    assert cluster.api.find(POD, "default", ended) is None
    assert cluster.watchdog.created == PODS + 1


@in_cluster
async def test_pods_that_always_fail_come_every_ten_seconds(cluster: Cluster) -> None:
    await cluster.up(SMALL)
    created = cluster.watchdog.created

    async def fail() -> None:
        while True:
            await asyncio.sleep(0.5)
            pod = cluster.pods_of("web-0-a")[0]
            if pod["spec"].get("nodeName") and pod["status"]["phase"] == "Running":
                cluster.pods.finish("default", pod["metadata"]["name"])

    failing = asyncio.ensure_future(fail())
    cluster.delete(POD, cluster.pods_of("web-0-a")[0]["metadata"]["name"])
    await asyncio.sleep(100)
    failing.cancel()
    assert 9 <= cluster.watchdog.created - created <= 12
    await cluster.quiet()
    await cluster.check({"web": SMALL})


@in_cluster
async def test_a_scaled_gang_waits_for_its_base(cluster: Cluster) -> None:
    cluster.pods.schedulable = lambda pod: pod["metadata"]["labels"]["grove.io/podclique"] != "web-0-a"
    cluster.create(SMALL)
    await cluster.quiet()
    gates = {
        pod["metadata"]["labels"]["grove.io/podgang"]: bool(pod["spec"].get("schedulingGates"))
        for pod in cluster.api.objects(POD)
    }
    assert gates == {"web-0": False, "web-0-g-0": True}
    assert cluster.get(PODGANG, "web-0")["status"]["phase"] == "Pending"
    cluster.pods.schedulable = lambda pod: True
    cluster.pods.step()
    await cluster.quiet()
    await cluster.check({"web": SMALL})


@in_cluster
async def test_a_gang_that_starts_slowly_shows_its_steps(cluster: Cluster) -> None:
    cluster.pods.ready_after = 30.0
    cluster.create(SMALL)
    await asyncio.sleep(20)
    status = cluster.get(PODGANG, "web-0")["status"]
    assert status["phase"] == "Starting"
    assert {one["type"]: one["status"] for one in status["conditions"]} == {
        "Initialized": "True",
        "Scheduled": "True",
        "GangGuaranteed": "False",
        "Ready": "False",
        "Unhealthy": "False",
    }
    numbers = cluster.get(PODCLIQUE, "web-0-a")["status"]
    assert (numbers["scheduledReplicas"], numbers.get("readyReplicas", 0)) == (2, 0)
    assert cluster.get(PODCLIQUESET, "web")["status"]["observedGeneration"] == 1
    await cluster.quiet()
    await cluster.check({"web": SMALL})
