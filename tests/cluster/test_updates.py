"""Updates on a real cluster: RU-7 to RU-21 and OD-1 to OD-9 of the acceptance list, several at a time.

Each scenario has a namespace of its own and waits most of the time, so they run side by side; the results are asked
for one by one. GROVE_TEST_REPEAT repeats each.
"""

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.cluster.conftest import fresh_namespace
from tests.cluster.harness import Harness
from tests.cluster.operators import OperatorProcess
from tests.cluster.updates import Update, is_updated
from tests.cluster.workloads import clique, group, podcliqueset, whole
from tests.cluster.workspace import Object, Workspace, condition, uids

REPEAT = int(os.environ.get("GROVE_TEST_REPEAT", "1"))
AT_ONCE = 6
ALL = ("pc-a", "pc-b", "pc-c")
NEVER_READY = {"sim.test/ready-delay": "1h"}

Scenario = Callable[[Workspace], None]
SCENARIOS: dict[str, Scenario] = {}


def scenario(function: Scenario) -> Scenario:
    """Add a scenario under its own name."""
    SCENARIOS[function.__name__] = function
    return function


def replicas(count: int) -> Object:
    """The ten pods of WL1, so often."""
    obj = whole("w")
    obj["spec"]["replicas"] = count
    return obj


@scenario
def ru_7(workspace: Workspace) -> None:
    """One standalone clique: one pod at a time, and nothing else."""
    update = Update(workspace, replicas(1), 10)
    update.edit("pc-a")
    update.all_updated(update.done(10), "pc-a")
    assert update.made() == {"w-0-pc-a-0": 1, "w-0-pc-a-1": 1}


@scenario
def ru_8(workspace: Workspace) -> None:
    """One clique of a group: each replica of the group as a whole, one at a time; its PodCliques stay."""
    update = Update(workspace, replicas(1), 10)
    cliques = uids(workspace.items("pclq"))
    update.edit("pc-b")
    pods = update.done(10)
    update.all_updated(pods, "pc-b")
    assert update.made() == {host: 1 for host in update.before if "-sg-x-" in host}
    assert uids(workspace.items("pclq")) == cliques


@scenario
def ru_9(workspace: Workspace) -> None:
    """All cliques."""
    update = Update(workspace, replicas(1), 10)
    update.edit(*ALL)
    update.all_updated(update.done(10), *ALL)
    assert update.made() == dict.fromkeys(update.before, 1)


@scenario
def ru_10(workspace: Workspace) -> None:
    """No room for the new pod: exactly one is deleted, one is made, and no second follows until there is room."""
    room = workspace.namespace
    workspace.open_rooms(2)
    obj = podcliqueset("w", clique("pc-a", 2, 2, room=room), clique("pc-b", 1, 1), group("sg-x", "pc-b", 2, 2))
    update = Update(workspace, obj, 4)
    workspace.close_rooms()
    update.edit("pc-a")
    workspace.wait(lambda: update.made().total() == 1, "a pod was replaced")
    workspace.until("pcs", "w", waits, "it says what it waits for")
    assert update.made().total() == 1
    assert "updateEndedAt" not in update.progress
    workspace.open_rooms(2)
    update.all_updated(update.done(4), "pc-a")
    assert update.made() == {"w-0-pc-a-0": 1, "w-0-pc-a-1": 1}


def waits(pcs: Object) -> bool:
    """Whether the condition tells whom the update waits for."""
    found = condition(pcs, "UpdateInProgress")
    return found["status"] == "True" and "0 of 2 pods of w-0-pc-a" in found["message"]


@scenario
def ru_11(workspace: Workspace) -> None:
    """The set is scaled out right after the change: the new replica is born new."""
    update = Update(workspace, replicas(2), 20)
    update.edit("pc-a")
    update.edit(replicas=3)
    update.all_updated(update.done(30), "pc-a")
    assert all(count == 1 for host, count in update.made().items() if host.startswith("w-2"))


@scenario
def ru_12(workspace: Workspace) -> None:
    """The set is scaled in while its second replica is updated."""
    update = Update(workspace, replicas(2), 20)
    update.edit(*ALL)
    workspace.wait(
        lambda: [one["replicaIndex"] for one in update.progress.get("currentlyUpdating", ())] == [1],
        "the second replica is updated",
    )
    update.edit(replicas=1)
    update.all_updated(update.done(10), *ALL)


@scenario
def ru_13(workspace: Workspace) -> None:
    """The set is scaled in after the update."""
    update = Update(workspace, replicas(2), 20)
    update.edit(*ALL)
    update.ended()
    update.edit(replicas=1)
    update.all_updated(update.done(10), *ALL)


@scenario
def ru_14(workspace: Workspace) -> None:
    """Groups are scaled out during the update: the new replicas are born new and not updated again."""
    update = Update(workspace, replicas(2), 20)
    update.edit(*ALL)
    update.told()
    update.scale("pcsg", "sg-x", 3)
    update.all_updated(update.done(28), *ALL)
    assert set(update.made().values()) == {1}


@scenario
def ru_15(workspace: Workspace) -> None:
    """Groups are scaled out right before the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pcsg", "sg-x", 3)
    update.edit(*ALL)
    update.all_updated(update.done(28), *ALL)


@scenario
def ru_16(workspace: Workspace) -> None:
    """Groups are scaled in during the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pcsg", "sg-x", 3)
    workspace.settled("w", 28)
    update.edit(*ALL)
    update.scale("pcsg", "sg-x", 2)
    update.all_updated(update.done(20), *ALL)


@scenario
def ru_17(workspace: Workspace) -> None:
    """Groups are scaled in right before the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pcsg", "sg-x", 3)
    workspace.settled("w", 28)
    update.scale("pcsg", "sg-x", 2)
    update.edit(*ALL)
    update.all_updated(update.done(20), *ALL)


@scenario
def ru_18(workspace: Workspace) -> None:
    """Cliques are scaled out during the update: the new pods are born new and not updated again."""
    update = Update(workspace, replicas(2), 20)
    update.edit(*ALL)
    update.told()
    update.scale("pclq", "pc-a", 4)
    update.all_updated(update.done(24), *ALL)
    assert set(update.made().values()) == {1}


@scenario
def ru_19(workspace: Workspace) -> None:
    """Cliques are scaled out right before the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pclq", "pc-a", 4)
    update.edit(*ALL)
    update.all_updated(update.done(24), *ALL)


@scenario
def ru_20(workspace: Workspace) -> None:
    """Cliques are scaled in during the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pclq", "pc-a", 3)
    workspace.settled("w", 22)
    update.edit(*ALL)
    update.scale("pclq", "pc-a", 2)
    update.all_updated(update.done(20), *ALL)


@scenario
def ru_21(workspace: Workspace) -> None:
    """Cliques are scaled in right before the update."""
    update = Update(workspace, replicas(2), 20)
    update.scale("pclq", "pc-a", 3)
    workspace.settled("w", 22)
    update.scale("pclq", "pc-a", 2)
    update.edit(*ALL)
    update.all_updated(update.done(20), *ALL)


@scenario
def u4_u16(workspace: Workspace) -> None:
    """A template that never gets ready: one pod goes, the set says that it is stuck, and the fix rolls on."""
    obj = replicas(1)
    obj["spec"]["template"]["cliques"][0]["rollingUpdate"] = {"progressDeadline": "3s"}
    update = Update(workspace, obj, 10)
    broken = update.obj["spec"]["template"]["cliques"][0]
    broken["annotations"] = NEVER_READY
    update.edit()
    workspace.until("pcs", "w", is_stuck, "it says that it is stuck")
    assert "updateEndedAt" not in update.progress
    assert update.made().total() == 1
    del update.obj["spec"]["template"]["cliques"][0]["annotations"]
    update.edit("pc-a")
    update.all_updated(update.done(10), "pc-a")


def is_stuck(pcs: Object) -> bool:
    """Whether the condition tells of the deadline, and of whom the update waits for."""
    found = condition(pcs, "UpdateInProgress")
    return found["reason"] == "ProgressDeadlineExceeded" and "of 2 pods of w-0-pc-a" in found["message"]


# -- OnDelete ------------------------------------------------------------------------------------------------------


def on_delete(count: int = 1) -> Object:
    """WL-OD."""
    obj = podcliqueset(
        "w", clique("pc-a", 2, 1), clique("pc-b", 1, 1), clique("pc-c", 3, 3), group("sg-x", "pc-b pc-c", 2, 2)
    )
    obj["spec"] |= {"updateStrategy": {"type": "OnDelete"}, "replicas": count}
    return obj


def nothing_restarts(update: Update, besides: int = 0) -> None:
    """The update counts as ended from its beginning, and no pod was made but `besides`."""
    update.ended()
    update.workspace.until("pcs", "w", lambda pcs: drift(pcs["status"]), "it tells of the drift")
    assert update.made().total() == besides


def drift(status: Object) -> bool:
    """Whether a status says that pods wait to be deleted."""
    progress = status["updateProgress"]
    assert progress["updateStartedAt"]
    assert "currentlyUpdating" not in progress
    assert 0 < progress["totalPodCliquesCount"] >= progress.get("updatedPodCliquesCount", 0)
    found = condition({"status": status}, "UpdateInProgress")
    return (found["status"], found["reason"]) == ("False", "OnDelete")


def replace(update: Update, podclique: str) -> Object:
    """Delete a pod that is not updated; its successor."""
    old = next(pod for pod in update.workspace.clique_pods(podclique) if not is_updated(pod))
    update.workspace.delete("pod", old["metadata"]["name"])

    def back() -> Object | None:
        pods = update.workspace.clique_pods(podclique)
        host = old["spec"]["hostname"]
        return next((pod for pod in pods if pod["spec"]["hostname"] == host and pod != old), None)

    return update.workspace.wait(back, f"{old['spec']['hostname']} is back") or {}


@scenario
def od_1(workspace: Workspace) -> None:
    """A change restarts nothing, in a clique or a group (OD-4), in any replica (OD-7)."""
    update = Update(workspace, on_delete(2), 20)
    update.edit("pc-a", "pc-b")
    nothing_restarts(update)
    assert len(workspace.pods()) == 20


@scenario
def od_2(workspace: Workspace) -> None:
    """What is deleted comes back new (OD-2); scaling in takes the pod of the older template (OD-3)."""
    update = Update(workspace, on_delete(), 10)
    update.edit("pc-a")
    nothing_restarts(update)
    new = replace(update, "w-0-pc-a")
    assert is_updated(new)
    workspace.reads("pclq", "w-0-pc-a", updatedReplicas=1, readyReplicas=2)
    workspace.scale("pclq", "w-0-pc-a", 1)
    pods = workspace.settled("w", 9)
    assert uids([new]) <= uids(pods)
    assert update.made().total() == 1


@scenario
def od_5(workspace: Workspace) -> None:
    """Of a group just the deleted pod comes back new (OD-5), also when all cliques change (OD-6)."""
    update = Update(workspace, on_delete(), 10)
    update.edit("pc-c")
    nothing_restarts(update)
    assert is_updated(replace(update, "w-0-sg-x-0-pc-c"))
    update.edit(*ALL)
    update.told()
    assert is_updated(replace(update, "w-0-pc-a"))
    nothing_restarts(update, besides=2)


@scenario
def od_8(workspace: Workspace) -> None:
    """A term of affinity reaches the deleted pod alone, which lands on another node."""
    update = Update(workspace, on_delete(), 10)
    old = workspace.clique_pods("w-0-pc-a")[0]
    term = {"key": "kubernetes.io/hostname", "operator": "NotIn", "values": [old["spec"]["nodeName"]]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    update.obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["affinity"] = affinity
    update.edit()
    nothing_restarts(update)
    new = replace(update, "w-0-pc-a")
    assert new["spec"]["affinity"] == affinity
    placed = workspace.until("pod", new["metadata"]["name"], lambda pod: "nodeName" in pod["spec"], "it has a node")
    assert placed["spec"]["nodeName"] != old["spec"]["nodeName"]
    assert update.made().total() == 1


@scenario
def od_9(workspace: Workspace) -> None:
    """The strategy is switched to rolling, and back."""
    update = Update(workspace, on_delete(), 10)
    update.edit("pc-a")
    nothing_restarts(update)
    update.edit("pc-b", updateStrategy={"type": "RollingRecreate"})
    update.all_updated(update.done(10), "pc-a", "pc-b")
    count = update.made().total()
    assert count == 2 + 2 * 4
    update.edit("pc-c", updateStrategy={"type": "OnDelete"})
    nothing_restarts(update, besides=count)


# -- running them --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def outcomes(cluster: Harness, operator: OperatorProcess) -> Iterator[dict[str, list[Future[None]]]]:
    """What becomes of each scenario; the last to be asked for are the last to run."""

    def play(function: Scenario) -> None:
        with fresh_namespace(cluster) as namespace:
            workspace = Workspace(cluster, namespace, operator)
            try:
                function(workspace)
            except Exception as error:
                error.add_note(workspace.describe())
                raise
            finally:
                workspace.close()

    if not operator.is_running:
        operator.start()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {name: [pool.submit(play, one) for _ in range(REPEAT)] for name, one in SCENARIOS.items()}
        pool.shutdown(cancel_futures=True)


@pytest.mark.parametrize("name", SCENARIOS)
def test_update(outcomes: dict[str, list[Future[None]]], name: str) -> None:
    for outcome in outcomes[name]:
        outcome.result()
