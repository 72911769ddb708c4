"""What people reported of updates (and how it must be): budgets, broken images, late changes, crashes, clients."""

import copy
import random

import pytest

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from grove.runtime.events import EVENT
from tests.fake_api.store import Change
from tests.fake_api.virtual import run
from tests.unit.expectations import active, gated
from tests.unit.harness import LONG, Cluster, virtual_clock
from tests.unit.rollouts import (
    GROUP_REPLICA,
    REPEAT,
    SET_REPLICA,
    Rollout,
    changed,
    image,
    is_ready,
    slow_cluster,
    updating,
    workload,
)
from tests.unit.support import Object, clique, group, pod_set


def rolling(obj: Object, name: str, **config: object) -> Object:
    """The set with a rollingUpdate for a clique or group."""
    result = copy.deepcopy(obj)
    template = result["spec"]["template"]
    for one in [*template["cliques"], *template.get("podCliqueScalingGroups", ())]:
        if one["name"] == name:
            one["rollingUpdate"] = config
    return result


def with_replicas(obj: Object, replicas: int) -> Object:
    return {**obj, "spec": {**obj["spec"], "replicas": replicas}}


# Budgets (U11)


@updating(rolling(pod_set(clique("a", 8, 1)), "a", maxUnavailable=2), unavailable=2)
async def test_two_of_eight_pods_at_a_time(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.done(8)
    assert set(rollout.recorder.created.values()) == {1}
    assert rollout.recorder.deepest["web-0-a"] == 2


@updating(rolling(pod_set(clique("a", 8, 1)), "a", maxUnavailable="30%"), unavailable=2)
async def test_a_share_is_rounded_down(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.done(8)
    assert rollout.recorder.deepest["web-0-a"] == 2


@updating(
    rolling(pod_set(clique("b", 1), clique("c", 2), groups=[group("sg", ["b", "c"], 5, 1)]), "sg", maxUnavailable=2),
    unavailable=2,
)
async def test_two_replicas_of_a_group_at_a_time(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "c"))
    await rollout.done(15)
    assert set(rollout.recorder.created.values()) == {1}


@updating(pod_set(clique("a", 6, 1)))
async def test_scaling_in_draws_on_the_same_budget(rollout: Rollout) -> None:
    rollout.cluster.pods.gone_after = 20.0
    rollout.scale("web-0-a", 4)
    await rollout.cluster.rest(1)
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.rest(10)
    assert rollout.recorder.created.total() == 0  # two are still on their way out
    await rollout.done(4)


# Broken images (U4, U9, U16)


@updating(workload(2))
async def test_an_image_that_never_gets_ready_stalls_and_rolls_on_once_it_is_fixed(rollout: Rollout) -> None:
    rollout.cluster.pods.may_start = lambda pod: image(pod) != "2"
    rollout.edit(changed(rolling(rollout.obj, "a", progressDeadline="5m"), "a", "b"))
    await rollout.until(lambda: rollout.recorder.created.total() >= 1 + 4)
    await rollout.cluster.rest(280)
    assert rollout.condition["reason"] == "UpdateInProgress"
    await rollout.cluster.rest(60)
    assert rollout.condition["status"] == "True"
    assert rollout.condition["reason"] == "ProgressDeadlineExceeded"
    assert "replica 0" in rollout.condition["message"]
    assert "0 of 2 pods of web-0-a run the template and are ready" in rollout.condition["message"]
    assert reasons(rollout.cluster).count("ProgressDeadlineExceeded") == 1
    before = rollout.uids()
    await rollout.cluster.rest(10 * LONG)
    assert rollout.uids() == before  # one pod of the clique and one replica of the group are down, no more
    assert rollout.recorder.created.total() == 1 + 4
    assert "updateEndedAt" not in rollout.progress
    assert rollout.status["updatedReplicas"] == 0
    rollout.cluster.pods.may_start = lambda pod: True
    rollout.edit(changed(rollout.obj, "a", "b", to="3"))
    await rollout.done(20)
    assert set(rollout.recorder.created.values()) <= {1, 2}  # what was broken came twice, all else once
    assert rollout.recorder.created.total() == 1 + 4 + 2 * (2 + 8)


@updating(workload())
async def test_an_update_has_not_ended_while_one_new_pod_is_not_ready(rollout: Rollout) -> None:
    rollout.cluster.pods.may_start = lambda pod: pod["spec"]["hostname"] != "web-0-a-1"
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.cluster.rest(10 * LONG)
    assert "updateEndedAt" not in rollout.progress
    rollout.cluster.pods.may_start = lambda pod: True
    rollout.cluster.pods.step()
    await rollout.done(10)
    assert rollout.recorder.created == {"web-0-a-0": 1, "web-0-a-1": 1}


@pytest.mark.parametrize("seed", range(REPEAT))
def test_old_pods_that_never_got_ready_are_replaced_at_once(seed: int) -> None:
    async def main() -> None:
        async with slow_cluster(seed) as cluster:
            cluster.pods.may_start = lambda pod: image(pod) != "1"
            rollout = Rollout(cluster, workload(2))
            cluster.create(rollout.obj)
            await cluster.quiet()
            rollout.recorder.created.clear()
            rollout.edit(changed(rollout.obj, "a", "b", "c"))
            await rollout.done(20)
            assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)

    with virtual_clock():
        run(main())


@pytest.mark.parametrize("seed", range(REPEAT))
def test_a_fix_reaches_what_never_had_a_node_in_all_replicas_at_once(seed: int) -> None:
    async def main() -> None:
        async with slow_cluster(seed) as cluster:
            cluster.pods.schedulable = lambda pod: False
            rollout = Rollout(cluster, workload(5))
            cluster.create(rollout.obj)
            await cluster.quiet()
            rollout.edit(changed(rollout.obj, "a", "b", "c"))
            await cluster.quiet()
            assert {image(pod) for pod in cluster.api.objects(POD)} == {"2"}
            cluster.pods.schedulable = lambda pod: True
            cluster.pods.step()
            await rollout.done(50)

    with virtual_clock():
        run(main())


@pytest.mark.parametrize("poor", [0, 1])
def test_a_change_reaches_what_runs_though_another_replica_never_found_room(poor: int) -> None:
    """So it also reaches it when it makes the room that the other lacks: smaller pods, here."""

    async def main() -> None:
        async with slow_cluster(poor) as cluster:
            cluster.pods.schedulable = lambda pod: pod["metadata"]["labels"][SET_REPLICA] != str(poor)
            rollout = Rollout(cluster, workload(2))
            cluster.create(rollout.obj)
            await cluster.quiet()
            rollout.recorder.created.clear()
            rollout.edit(changed(rollout.obj, "a", "b", "c"))
            await cluster.quiet()
            assert {image(pod) for pod in cluster.api.objects(POD)} == {"2"}
            assert [one["replicaIndex"] for one in rollout.progress["currentlyUpdating"]] == [poor]
            cluster.pods.schedulable = lambda pod: True
            cluster.pods.step()
            await rollout.done(20)
            assert rollout.recorder.created == dict.fromkeys(rollout.uids(), 1)

    with virtual_clock():
        run(main())


@updating(workload(2, minimum=False))
async def test_a_change_reaches_what_runs_though_a_scaled_gang_never_found_room(rollout: Rollout) -> None:
    """Of each set replica and of each of its groups, such as where an autoscaler asks for more than there is."""
    cluster, recorder = rollout.cluster, rollout.recorder
    cluster.pods.schedulable = lambda pod: pod["metadata"]["labels"].get(GROUP_REPLICA) != "2"
    for replica in range(2):
        rollout.scale(f"web-{replica}-sg", 3)
    await cluster.quiet()
    before = len(rollout.uids())
    recorder.created.clear()
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}

    def refused() -> bool:
        """What the scheduler says of pods without a node, over and over; whether the update has reached the others."""
        pods = cluster.api.objects(POD)
        for pod in pods:
            waits = not pod["spec"].get("nodeName") and not gated(pod)
            if waits and pod["metadata"]["labels"].get(GROUP_REPLICA) == "2" and refusal not in conditions(pod):
                cluster.patch(POD, pod["metadata"]["name"], {"status": {"conditions": [refusal]}}, status=True)
        return {image(pod) for pod in pods} == {"2"} and all(map(is_ready, without_third(pods)))

    await rollout.until(refused, 0.5)
    assert "updateEndedAt" not in rollout.progress
    assert recorder.created == dict.fromkeys(rollout.uids(), 1)
    assert len(rollout.uids()) == before == 28
    recorder.broken.clear()  # three replicas of a group were asked for, and there never were more than two
    cluster.pods.schedulable = lambda pod: True
    cluster.pods.step()
    await rollout.done(28)
    assert recorder.created == dict.fromkeys(rollout.uids(), 1)


def conditions(pod: Object) -> list[Object]:
    """Those of a pod's status."""
    return list((pod.get("status") or {}).get("conditions") or ())


def without_third(pods: list[Object]) -> list[Object]:
    """Pods but for those of the third replica of a scaling group."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(GROUP_REPLICA) != "2"]


@updating(workload(3))
async def test_a_replica_that_ran_before_keeps_its_turn_though_there_is_no_room_now(rollout: Rollout) -> None:
    rollout.cluster.pods.schedulable = lambda pod: False
    for name in ("web-0-a", "web-0-sg-0-b", "web-0-sg-0-c", "web-0-sg-1-b", "web-0-sg-1-c"):
        for pod in rollout.cluster.pods_of(name):
            rollout.cluster.delete(POD, pod["metadata"]["name"])
    await rollout.cluster.quiet()
    before = rollout.uids()
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.cluster.rest(10 * LONG)
    assert [one["replicaIndex"] for one in rollout.progress["currentlyUpdating"]] == [0]
    assert before.items() - rollout.uids().items() == {one for one in before.items() if one[0].startswith("web-0")}


# Changes during an update


@updating(workload(2))
async def test_the_last_change_wins(rollout: Rollout) -> None:
    for version in ("2", "3", "4"):
        rollout.edit(changed(rollout.obj, "a", "b", "c", to=version))
        await rollout.cluster.rest(1.5)
    await rollout.done(20)
    assert max(rollout.recorder.created.values()) <= 3
    last = [count for slot, count in rollout.recorder.created.items() if slot.startswith("web-1")]
    assert set(last) == {1}  # the second replica was reached by the last one only


@updating(workload(2))
async def test_a_change_taken_back_restarts_only_what_had_it(rollout: Rollout) -> None:
    before, first = rollout.uids(), rollout.obj
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.until(lambda: rollout.recorder.created.total() >= 3)
    touched = set(rollout.recorder.created)
    rollout.edit(first)
    await rollout.done(20)
    after = rollout.uids()
    assert touched <= {slot for slot, uid in after.items() if before[slot] != uid}
    assert all(after[slot] == uid for slot, uid in before.items() if slot.startswith("web-1"))


@updating(workload())
async def test_numbers_alone_restart_nothing(rollout: Rollout) -> None:
    before, generation = rollout.uids(), rollout.status["currentGenerationHash"]
    for count in (2, 3, 1, 2, 1):
        rollout.edit(with_replicas(rollout.obj, count))
        await rollout.cluster.rest(4)
        assert rollout.status["updatedReplicas"] <= 3
    await rollout.cluster.quiet()
    assert rollout.uids() == before
    assert rollout.status["currentGenerationHash"] == generation
    assert rollout.progress == {}


@updating(workload())
async def test_the_order_of_a_list_counts_and_the_same_again_does_not(rollout: Rollout) -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    for turn in (env, env[::-1]):
        obj = copy.deepcopy(rollout.obj)
        obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["env"] = turn
        rollout.recorder.created.clear()
        rollout.edit(obj)
        await rollout.done(10)
        assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a"), 1)
        rollout.edit(obj)
        await rollout.cluster.quiet()
        assert rollout.recorder.created.total() == 2


@updating(changed(workload(), "a"))
async def test_the_order_of_cliques_is_an_update_in_which_no_pod_changes(rollout: Rollout) -> None:
    before, obj = rollout.uids(), copy.deepcopy(rollout.obj)
    obj["spec"]["template"]["cliques"].reverse()
    rollout.edit(obj)
    await rollout.ended()
    await rollout.cluster.quiet()
    assert rollout.uids() == before
    assert rollout.status["updatedReplicas"] == 1


@updating(workload())
async def test_arguments_can_be_changed(rollout: Rollout) -> None:  # A3
    obj = copy.deepcopy(rollout.obj)
    obj["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["containers"][0]["args"] = ["--verbose"]
    rollout.edit(obj)
    await rollout.done(10)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-sg"), 1)


@updating(workload(2))
async def test_a_label_reaches_the_pods_by_an_update(rollout: Rollout) -> None:
    obj = copy.deepcopy(rollout.obj)
    obj["spec"]["template"]["cliques"][0]["annotations"] = {"nvidia.com/restartAt": "2026-09-01T00:00:00Z"}
    rollout.edit(obj)
    await rollout.done(20)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a", "web-1-a"), 1)
    assert rollout.cluster.pods_of("web-1-a")[0]["metadata"]["annotations"]["nvidia.com/restartAt"]


# Scaling (U10, S5, S7, S13)


@updating(workload())
async def test_a_scaled_number_stays_through_the_update(rollout: Rollout) -> None:
    rollout.scale("web-0-a", 5)
    await rollout.cluster.quiet()
    rollout.recorder.created.clear()
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.done(13)
    assert rollout.recorder.created == dict.fromkeys(rollout.slots("web-0-a"), 1)


@updating(workload())
async def test_updated_while_idle_and_by_another_operator(rollout: Rollout) -> None:
    rollout.scale("web-0-a", 0)
    rollout.scale("web-0-sg", 0)
    await rollout.cluster.quiet()
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.ended()
    await rollout.cluster.end()
    rollout.cluster.start()
    await rollout.cluster.quiet()
    rollout.scale("web-0-a", 2)
    rollout.scale("web-0-sg", 2)
    await rollout.cluster.quiet()
    await rollout.check(10)


# Pods that go by themselves (U15, U18)


@updating(workload(2))
async def test_a_pod_that_goes_before_its_turn_comes_back_new_and_stays(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a", "b", "c"))
    await rollout.until(lambda: rollout.progress.get("currentlyUpdating"))
    rollout.cluster.delete(POD, rollout.cluster.pods_of("web-1-sg-0-c")[1]["metadata"]["name"])
    await rollout.cluster.rest(0.5)
    assert image(rollout.cluster.pods_of("web-1-sg-0-c")[1]) == "2"
    rollout.recorder.broken.clear()  # that pod went while another replica was down
    await rollout.ended()
    await rollout.cluster.quiet()
    await rollout.cluster.check({"web": rollout.obj})
    assert set(rollout.recorder.created.values()) == {1}


@updating(workload(minimum=False))
async def test_each_slot_is_filled_once_per_cause(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "b"))
    await rollout.done(10)
    rollout.cluster.delete(POD, rollout.cluster.pods_of("web-0-sg-0-b")[0]["metadata"]["name"])
    await rollout.cluster.quiet()
    counts = rollout.recorder.created
    assert counts.pop("web-0-sg-0-b-0") == 2
    assert counts == dict.fromkeys(rollout.slots("web-0-sg") - {"web-0-sg-0-b-0"}, 1)


# Status (U3, U14)


@updating(workload())
async def test_a_hash_that_somebody_wrote_into_the_status_is_put_right(rollout: Rollout) -> None:
    right = rollout.cluster.get(PODCLIQUE, "web-0-a")["status"]
    rollout.cluster.patch(
        PODCLIQUE, "web-0-a", {"status": {"currentPodTemplateHash": "v1-0", "updatedReplicas": 0}}, status=True
    )
    await rollout.cluster.quiet()
    after = rollout.cluster.get(PODCLIQUE, "web-0-a")["status"]
    assert after["currentPodTemplateHash"] == right["currentPodTemplateHash"]
    assert after["updatedReplicas"] == 2
    assert rollout.status["updatedReplicas"] == 1


@updating(pod_set(clique("a", 1), replicas=30), repeat=1)
async def test_progress_does_not_grow_with_the_set(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.until(lambda: rollout.progress.get("updatedPodCliquesCount", 0) >= 15)
    assert rollout.progress["totalPodCliquesCount"] == 30
    assert len(rollout.progress["currentlyUpdating"]) == 1
    assert len(str(rollout.progress)) < 400
    await rollout.done(30)
    assert rollout.recorder.moves == [str(index) for index in range(30)]


@updating(workload(2))
async def test_events_tell_of_the_beginning_each_replica_and_the_end(rollout: Rollout) -> None:
    rollout.edit(changed(rollout.obj, "a"))
    await rollout.done(20)
    found = [reason for reason in reasons(rollout.cluster) if "Update" in reason and "Successful" not in reason]
    assert sorted(found) == ["ReplicaUpdateStarted", "ReplicaUpdateStarted", "UpdateFinished", "UpdateStarted"]


@updating(workload())
async def test_a_breach_is_suspended_and_counts_again_afterwards(rollout: Rollout) -> None:
    rollout.cluster.pods.may_start = lambda pod: image(pod) != "2"
    rollout.edit(changed(rollout.obj, "a", "b"))
    await rollout.cluster.rest(10 * LONG)
    for resource, name in ((PODCLIQUE, "web-0-a"), (PODCLIQUE, "web-0-sg-0-b"), (PODCLIQUESCALINGGROUP, "web-0-sg")):
        assert breach(rollout, resource, name) == ("Unknown", "UpdateInProgress")
    rollout.cluster.pods.may_start = lambda pod: True
    rollout.cluster.pods.step()
    await rollout.done(10)
    for pod in rollout.cluster.pods_of("web-0-a"):
        rollout.cluster.pods.crash("default", pod["metadata"]["name"])
    await rollout.cluster.rest(LONG)
    assert breach(rollout, PODCLIQUE, "web-0-a") == ("True", "InsufficientReadyPods")


def breach(rollout: Rollout, resource: object, name: str) -> tuple[str, str]:
    conditions = rollout.cluster.get(resource, name)["status"]["conditions"]  # type: ignore[arg-type]
    found = next(one for one in conditions if one["type"] == "MinAvailableBreached")
    return found["status"], found["reason"]


def reasons(cluster: Cluster) -> list[str]:
    """Reasons of all events on the set."""
    return [e["reason"] for e in cluster.api.objects(EVENT) if e["involvedObject"]["kind"] == "PodCliqueSet"]


# Crashes, and a client that looks on


class Client:
    """Judges readiness as Dynamo does, at every change of anything, and notes when it is told so falsely."""

    def __init__(self, rollout: Rollout) -> None:
        self.wrong: list[str] = []
        self.told = 0
        """changes at which the set was ready"""
        self._rollout = rollout
        rollout.cluster.api.listeners.append(self._look)

    def _look(self, change: Change) -> None:
        api = self._rollout.cluster.api
        pcs = api.find(PODCLIQUESET, "default", "web")
        if pcs is None or not self._ready(pcs):
            return
        self.told += 1
        version = image({"spec": pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]})
        pods = [pod for pod in api.objects(POD) if active(pod)]
        lag = [
            pod["metadata"]["name"]
            for pod in pods
            if image(pod) != version
            or not any(
                one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())
            )
        ]
        if lag:
            self.wrong.append(f"ready, but not {lag} at version {change.version}")

    def _ready(self, pcs: Object) -> bool:
        """Ready iff observed, and replicas = updated = ready (available) = desired everywhere (dynamo.md)."""
        if (pcs.get("status") or {}).get("observedGeneration", 0) < pcs["metadata"]["generation"]:
            return False
        api = self._rollout.cluster.api
        found = [
            (obj, "readyReplicas")
            for obj in api.objects(PODCLIQUE)
            if "grove.io/podcliquescalinggroup" not in obj["metadata"]["labels"]
        ]
        found += [(obj, "availableReplicas") for obj in api.objects(PODCLIQUESCALINGGROUP)]
        for obj, key in found:
            status, desired = obj.get("status") or {}, obj["spec"]["replicas"]
            if status.get("observedGeneration", 0) < obj["metadata"]["generation"]:
                return False
            if not status.get("replicas", 0) == status.get("updatedReplicas", 0) == status.get(key, 0) == desired:
                return False
        return bool(found)


@updating(workload())
async def test_a_client_is_never_told_too_early(rollout: Rollout) -> None:
    client = Client(rollout)
    for version in ("2", "3"):
        rollout.edit(changed(rollout.obj, "a", "b", "c", to=version))
        await rollout.done(10)
        assert client.wrong == []
        assert client.told > 0


@pytest.mark.parametrize("seed", range(max(REPEAT, 4)))
def test_the_operator_is_killed_at_random_moments(seed: int) -> None:
    async def main() -> None:
        rng = random.Random(seed)
        async with slow_cluster(seed) as cluster:
            rollout = Rollout(cluster, workload(2))
            await rollout.up()
            rollout.edit(changed(rollout.obj, "a", "b", "c"))
            for _ in range(20):
                await cluster.rest(rng.choice([0.01, 0.1, 1.0]) * rng.random())
                await cluster.end(kill=True)
                cluster.start()
            await rollout.done(20)
            assert set(rollout.recorder.created.values()) == {1}
            assert rollout.recorder.moves == ["0", "1"]

    with virtual_clock():
        run(main())


@pytest.mark.parametrize("seed", range(max(REPEAT, 4)))
def test_two_operators_and_a_bad_wire(seed: int) -> None:
    async def main() -> None:
        async with slow_cluster(seed) as cluster:
            cluster.start()
            rollout = Rollout(cluster, workload(2))
            await rollout.up()
            cluster.api.faults.chaos(0.05, seed)
            cluster.api.faults.duplicate_events = True
            rollout.edit(changed(rollout.obj, "a", "b", "c"))
            await rollout.ended()
            await cluster.heal()
            await rollout.check(20)
            assert set(rollout.recorder.created.values()) == {1}

    with virtual_clock():
        run(main())


@pytest.mark.parametrize("seed", range(REPEAT))
def test_an_update_costs_few_writes(seed: int) -> None:
    async def main() -> None:
        async with slow_cluster(seed) as cluster:
            rollout = Rollout(cluster, pod_set(clique("a", 2), replicas=10))
            await rollout.up()
            sent = len(cluster.api.writes())
            rollout.edit(changed(rollout.obj, "a"))
            await rollout.done(20)
            writes = cluster.committed(sent)
            assert {key: count for key, count in writes.items() if "status" not in key} == {
                "patch podcliques": 10,
                "delete pods": 20,
                "create pods": 20,
                "patch pods": 20,
            } | {"patch podgangs": writes["patch podgangs"]}
            # One for each pod; it may be seen that one went before its successor is there.
            assert 20 <= writes["patch podgangs"] <= 24
            statuses = sum(count for key, count in writes.items() if "status" in key)
            assert statuses <= 10 * 14, writes

    with virtual_clock():
        run(main())
