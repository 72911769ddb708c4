"""The strategy OnDelete (acceptance list 6): nothing restarts by itself, what is deleted comes back new."""

import copy

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP
from tests.unit.harness import LONG
from tests.unit.rollouts import Rollout, changed, image, updating, workload
from tests.unit.support import Object, clique, group, pod_set


def on_delete(replicas: int = 1) -> Object:
    """WL-OD: two a, of which one must run; one b and three c in each of two replicas of sg."""
    obj = pod_set(
        clique("a", 2, 1),
        clique("b", 1, 1),
        clique("c", 3, 3),
        groups=[group("sg", ["b", "c"], 2, 2)],
        replicas=replicas,
    )
    return with_strategy(obj, "OnDelete")


def with_strategy(obj: Object, strategy: str) -> Object:
    return {**obj, "spec": {**obj["spec"], "updateStrategy": {"type": strategy}}}


async def nothing_restarts(rollout: Rollout, pods: int) -> None:
    """Look for a long time: all pods stay, and the update counts as ended from its beginning."""
    before = rollout.uids()
    await rollout.cluster.rest(10 * LONG)
    assert rollout.uids() == before
    assert len(before) == pods
    progress = rollout.progress
    assert progress["updateStartedAt"] == progress["updateEndedAt"]
    assert "currentlyUpdating" not in progress
    assert 0 < progress["totalPodCliquesCount"] >= progress["updatedPodCliquesCount"]
    assert 0 < progress["totalPodCliqueScalingGroupsCount"] >= progress["updatedPodCliqueScalingGroupsCount"]
    assert rollout.condition["status"] == "False"
    assert rollout.condition["reason"] == "OnDelete"
    for resource in (PODCLIQUE, PODCLIQUESCALINGGROUP):
        for obj in rollout.cluster.api.objects(resource):
            child = obj["status"].get("updateProgress")
            assert child is None or "updateEndedAt" in child
            breach = next(one for one in obj["status"]["conditions"] if one["type"] == "MinAvailableBreached")
            assert breach["status"] == "False"


def delete(rollout: Rollout, podclique: str, index: int = 0) -> None:
    """Delete one pod as a user does."""
    rollout.cluster.delete(POD, rollout.cluster.pods_of(podclique)[index]["metadata"]["name"])


def images(rollout: Rollout, podclique: str) -> list[str]:
    return [image(pod) for pod in rollout.cluster.pods_of(podclique)]


def status(rollout: Rollout, podclique: str) -> Object:
    found: Object = rollout.cluster.get(PODCLIQUE, podclique)["status"]
    return found


@updating(on_delete())
async def test_od1_a_change_restarts_nothing(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await nothing_restarts(rollout, 10)
    assert rollout.status["updatedReplicas"] == 0
    assert status(rollout, "web-0-a")["updatedReplicas"] == 0


@updating(on_delete())
async def test_od2_a_deleted_pod_comes_back_new(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.quiet()
    delete(rollout, "web-0-a")
    await rollout.cluster.quiet()
    assert sorted(images(rollout, "web-0-a")) == ["1", "2"]
    assert status(rollout, "web-0-a")["updatedReplicas"] == 1
    await nothing_restarts(rollout, 10)


@updating(on_delete())
async def test_od3_scaling_in_takes_the_pod_of_the_older_template(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.quiet()
    delete(rollout, "web-0-a", 1)
    await rollout.cluster.quiet()
    rollout.scale("web-0-a", 1)
    await rollout.cluster.quiet()
    assert images(rollout, "web-0-a") == ["2"]
    await nothing_restarts(rollout, 9)
    assert rollout.status["updatedReplicas"] == 1


@updating(on_delete())
async def test_od4_a_change_in_a_group_restarts_no_replica(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "b"))
    await nothing_restarts(rollout, 10)
    assert rollout.progress["updatedPodCliqueScalingGroupsCount"] == 0


@updating(on_delete())
async def test_od5_just_the_deleted_pod_of_a_group_comes_back_new(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "c"))
    await rollout.cluster.quiet()
    before = rollout.cluster.get(PODCLIQUESCALINGGROUP, "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"]
    delete(rollout, "web-0-sg-0-c", 1)
    await rollout.cluster.quiet()
    assert images(rollout, "web-0-sg-0-c") == ["1", "2", "1"]
    await nothing_restarts(rollout, 10)
    after = rollout.cluster.get(PODCLIQUESCALINGGROUP, "web-0-sg")["status"]["currentPodCliqueSetGenerationHash"]
    assert after == before  # U8: not before every pod has been replaced
    for podclique in ("web-0-sg-0-c", "web-0-sg-1-c"):
        for index, version in enumerate(images(rollout, podclique)):
            if version == "1":
                delete(rollout, podclique, index)
                await rollout.cluster.quiet()
    await rollout.check(10)
    assert rollout.status["updatedReplicas"] == 1


@updating(on_delete())
async def test_od6_all_cliques_change(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.quiet()
    delete(rollout, "web-0-a")
    delete(rollout, "web-0-sg-1-c")
    await rollout.cluster.quiet()
    assert sorted(images(rollout, "web-0-a")) == ["1", "2"]
    assert sorted(images(rollout, "web-0-sg-1-c")) == ["1", "1", "2"]
    await nothing_restarts(rollout, 10)
    assert rollout.recorder.created.total() == 2


@updating(on_delete(2))
async def test_od7_nothing_restarts_in_any_replica(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await nothing_restarts(rollout, 20)


@updating(on_delete())
async def test_od8_a_term_of_affinity_reaches_the_deleted_pod_alone(rollout: Rollout) -> None:
    term = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["node-1"]}
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
        }
    }
    obj = copy.deepcopy(rollout.obj)
    obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["affinity"] = affinity
    before = rollout.uids()
    rollout.edit(obj)
    await rollout.cluster.quiet()
    delete(rollout, "web-0-a", 1)
    await rollout.cluster.quiet()
    kept, new = rollout.cluster.pods_of("web-0-a")
    assert "affinity" not in kept["spec"]
    assert new["spec"]["affinity"] == affinity
    assert sum(rollout.uids()[slot] != uid for slot, uid in before.items()) == 1


@updating(on_delete())
async def test_od9_strategies_are_switched(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await nothing_restarts(rollout, 10)
    rollout.edit(changed(with_strategy(rollout.obj, "RollingRecreate"), "b"))
    await rollout.done(10)
    assert images(rollout, "web-0-a") == ["2", "2"]
    rollout.edit(changed(with_strategy(rollout.obj, "OnDelete"), "c", to="3"))
    await nothing_restarts(rollout, 10)
    assert set(images(rollout, "web-0-sg-0-c")) == {"1"}


@updating(on_delete())
async def test_the_switch_to_rolling_alone_replaces_what_is_stale(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.quiet()
    rollout.edit(with_strategy(rollout.obj, "RollingRecreate"))
    await rollout.until(lambda: "updateEndedAt" not in rollout.progress)
    await rollout.done(10)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a"), 1)


@updating(workload(2))
async def test_the_switch_to_on_delete_stops_an_update(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.until(lambda: rollout.recorder.created.total() >= 3)
    rollout.edit(with_strategy(rollout.obj, "OnDelete"))
    await rollout.until(lambda: "updateEndedAt" in rollout.progress)
    await rollout.cluster.quiet()
    assert len({version for pod in rollout.uids() for version in images(rollout, pod.rpartition("-")[0])}) == 2
    assert "currentlyUpdating" not in rollout.progress
    rollout.edit(with_strategy(rollout.obj, "RollingRecreate"))
    await rollout.until(lambda: "updateEndedAt" not in rollout.progress)
    await rollout.done(20)
    assert set(rollout.recorder.created.values()) == {1}


@updating(on_delete())
async def test_a_mixed_group_is_left_alone_once_all_its_pods_are_current(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "b"))
    await rollout.cluster.quiet()
    for podclique in ("web-0-sg-0-b", "web-0-sg-1-b"):
        delete(rollout, podclique)
    await rollout.cluster.quiet()
    before = rollout.uids()
    rollout.edit(with_strategy(rollout.obj, "RollingRecreate"))
    await rollout.cluster.quiet()
    assert rollout.uids() == before
