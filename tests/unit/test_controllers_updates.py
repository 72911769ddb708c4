"""Rolling updates of whole sets (acceptance list 5), with pods that take random times."""

from grove.plan.kinds import PODCLIQUE
from tests.unit.rollouts import Rollout, changed, updating, workload


@updating(workload())
async def test_ru7_one_standalone_clique(rollout: Rollout) -> None:
    before = rollout.uids()
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.done(10)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a"), 1)
    kept = {slot: uid for slot, uid in rollout.uids().items() if not slot.startswith("web-0-a")}
    assert kept.items() <= before.items()


@updating(workload())
async def test_ru8_one_clique_of_a_group_takes_the_whole_replica_along(rollout: Rollout) -> None:
    owners = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in rollout.cluster.api.objects(PODCLIQUE)}
    rollout.edit(changed(rollout.obj, "b"))
    await rollout.done(10)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-sg"), 1)
    after = {obj["metadata"]["name"]: obj["metadata"]["uid"] for obj in rollout.cluster.api.objects(PODCLIQUE)}
    assert after == owners  # a replica keeps its PodCliques


@updating(workload(2))
async def test_ru9_all_cliques(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.done(20)
    assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)
    assert rollout.recorder.moves == ["0", "1"]


@updating(workload(2))
async def test_ru10_no_second_pod_goes_while_the_first_waits_for_a_node(rollout: Rollout) -> None:
    rollout.cluster.pods.schedulable = lambda pod: False
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.rest(600)
    assert sum(rollout.recorder.created.values()) == 1
    assert rollout.status["updatedReplicas"] == 0
    assert "updateEndedAt" not in rollout.progress
    assert [one["replicaIndex"] for one in rollout.progress["currentlyUpdating"]] == [0]
    assert rollout.condition["status"] == "True"
    assert "0 of 2 pods of web-0-a run the template and are ready" in rollout.condition["message"]
    rollout.cluster.pods.schedulable = lambda pod: True
    rollout.cluster.pods.step()
    await rollout.done(20)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a", "web-1-a"), 1)


@updating(workload(2))
async def test_ru11_the_set_is_scaled_out_at_once(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.rest(0.1)
    rollout.edit({**rollout.obj, "spec": {**rollout.obj["spec"], "replicas": 3}})
    await rollout.done(30)
    assert rollout.recorder.created == dict.fromkeys(
        rollout.slots("web-0-a", "web-1-a", "web-2"), 1
    )  # what is born new is not rolled again


@updating(workload(2))
async def test_ru12_the_set_is_scaled_in_while_the_last_replica_is_updated(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.until(lambda: [one["replicaIndex"] for one in rollout.progress.get("currentlyUpdating", ())] == [1])
    rollout.edit({**rollout.obj, "spec": {**rollout.obj["spec"], "replicas": 1}})
    await rollout.done(10)
    assert rollout.status["updatedReplicas"] == 1


@updating(workload(2))
async def test_ru13_the_set_is_scaled_in_afterwards(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.ended()
    rollout.edit({**rollout.obj, "spec": {**rollout.obj["spec"], "replicas": 1}})
    await rollout.done(10)


@updating(workload(2))
async def test_ru14_groups_are_scaled_out_during_the_update(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.rest(0.1)
    for replica in range(2):
        rollout.scale(f"web-{replica}-sg", 3)
    await rollout.done(28)
    assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)


@updating(workload(2))
async def test_ru15_groups_are_scaled_out_before(rollout: Rollout) -> None:
    for replica in range(2):
        rollout.scale(f"web-{replica}-sg", 3)
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.done(28)
    assert max(rollout.recorder.created.values()) <= 2  # some may have been made just before the update began


@updating(workload(2))
async def test_ru16_groups_are_scaled_in_during_the_update(rollout: Rollout) -> None:
    await scaled_first(rollout, {"web-0-sg": 3, "web-1-sg": 3})
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.rest(0.1)
    for replica in range(2):
        rollout.scale(f"web-{replica}-sg", 2)
    await rollout.done(20)


@updating(workload(2))
async def test_ru17_groups_are_scaled_in_before(rollout: Rollout) -> None:
    await scaled_first(rollout, {"web-0-sg": 3, "web-1-sg": 3})
    for replica in range(2):
        rollout.scale(f"web-{replica}-sg", 2)
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.done(20)


@updating(workload(2))
async def test_ru18_cliques_are_scaled_out_during_the_update(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.rest(0.1)
    for replica in range(2):
        rollout.scale(f"web-{replica}-a", 4)
    await rollout.done(24)
    assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)


@updating(workload(2))
async def test_ru19_cliques_are_scaled_out_before(rollout: Rollout) -> None:
    for replica in range(2):
        rollout.scale(f"web-{replica}-a", 4)
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.done(24)
    assert max(rollout.recorder.created.values()) <= 2


@updating(workload(2))
async def test_ru20_cliques_are_scaled_in_during_the_update(rollout: Rollout) -> None:
    await scaled_first(rollout, {"web-0-a": 3, "web-1-a": 3})
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.rest(0.1)
    for replica in range(2):
        rollout.scale(f"web-{replica}-a", 2)
    await rollout.done(20)


@updating(workload(2))
async def test_ru21_cliques_are_scaled_in_before(rollout: Rollout) -> None:
    await scaled_first(rollout, {"web-0-a": 3, "web-1-a": 3})
    for replica in range(2):
        rollout.scale(f"web-{replica}-a", 2)
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.done(20)


async def scaled_first(rollout: Rollout, counts: dict[str, int]) -> None:
    """Scale, and wait until that is done."""
    for name, count in counts.items():
        rollout.scale(name, count)
    await rollout.cluster.quiet()
    await rollout.cluster.check({"web": rollout.obj}, rollout.scaled)
    rollout.recorder.created.clear()
    rollout.recorder.moves.clear()
