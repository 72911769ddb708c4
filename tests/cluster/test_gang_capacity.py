"""Gangs that compete for room on the real scheduler: crowds, priorities, foreign gates, restarts, weaker tiers."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from tests.cluster.capacity import POD, Capacity
from tests.cluster.harness import Harness
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.test_gang_scheduling import CASES, gang_of, play, refused, runs
from tests.cluster.workloads import clique, partial, podcliqueset
from tests.cluster.workspace import Object, Workspace, condition, gates, is_gated, is_ready, uid, uids, verdict

REPEAT = int(os.environ.get("GROVE_TEST_REPEAT", "3"))
"""How often races are run; the full number is 50."""


def pair(name: str, replicas: int = 1, first: Object | None = None, **template: str) -> Object:
    """A set whose gangs are two pods of two cliques; `first` adds to the first one's podSpec."""
    return podcliqueset(
        name,
        clique("a", 1, podSpec={**POD, **(first or {})}),
        clique("b", 1, podSpec=POD),
        replicas=replicas,
        **template,
    )


def placed(workspace: Workspace) -> Counter[str]:
    """How many pods of each gang have a node."""
    return Counter(gang_of(pod) for pod in workspace.pods() if pod["spec"].get("nodeName"))


def crowd(workspace: Workspace, whole: int, pending: int) -> bool:
    """Whether just so many gangs of two run whole, and the scheduler has refused all others."""
    counts = placed(workspace)
    assert sorted(counts.values()) == [2] * whole, f"{counts}"
    assert sum(map(is_ready, workspace.pods())) == 2 * whole
    others = [gang["metadata"]["name"] for gang in workspace.items("pg") if gang["metadata"]["name"] not in counts]
    assert len(others) == pending
    assert all(refused(workspace, gang) for gang in others)
    return True


def test_thirty_gangs_at_once_on_room_for_fifteen(workspace: Workspace, capacity: Capacity) -> None:
    capacity.open(30)
    workspace.create("pcs", pair("crowd", 30))
    workspace.wait(lambda: crowd(workspace, 15, 15), "15 gangs run and 15 wait", 180)


@pytest.mark.parametrize("component", ["kube-scheduler", "kube-apiserver"])
def test_a_restart_in_the_middle(workspace: Workspace, capacity: Capacity, component: str) -> None:
    """Killed while the gangs are being placed, and started again: in the end none is placed in part.

    A scheduler binds the pods of a gang one after the other, so what is killed may leave a half, which starts anew.
    """
    capacity.open(10)
    workspace.create("pcs", pair("crowd", 10, terminationDelay="5s"))
    workspace.wait(lambda: any(not is_gated(pod) for pod in workspace.pods()), "the first gang starts")
    workspace.cluster.stop(component)
    workspace.cluster.start(component)

    def all_placed() -> bool:
        pods = workspace.pods()
        counts = placed(workspace)
        nodes = {pod["spec"]["nodeName"] for pod in pods if pod["spec"].get("nodeName")}
        # The scheduler gives a node away twice when the answer to a binding never came, which happens when the API
        # server is killed. A kubelet would refuse the second pod, those of this cluster do not.
        twice = counts.total() - len(nodes)
        assert len(pods) == 20
        assert set(counts.values()) == {2}, f"{counts}"
        assert twice == 0 or component == "kube-apiserver"
        assert len(nodes) >= (9 if twice else 10), "there is room for one more gang"
        assert sum(map(is_ready, pods)) == counts.total()
        others = [pod for pod in pods if not pod["spec"].get("nodeName")]
        return all(verdict(pod, "PodScheduled") == ("False", "Unschedulable") for pod in others)

    workspace.wait(all_placed, "every node is taken, by whole gangs", 240)


def test_half_a_gang_starts_anew(workspace: Workspace, capacity: Capacity) -> None:
    """As when binding fails half way: its one half would hold a node for ever while the other one finds none."""
    capacity.open(1)
    workspace.create("pcs", pair("torn", terminationDelay="35s"))
    workspace.wait(lambda: refused(workspace, "torn-0"), "there is no room for both")
    before = workspace.pods()
    workspace.bind(before[0], capacity.opened[0])
    workspace.reads("pg", "torn-0", ("Unhealthy", "True", "ScheduledReplicasBelowMinAvailable"))
    workspace.wait(lambda: workspace.events("torn", "PodGangUnhealthy"), "an event tells")

    def anew() -> bool:
        pods = workspace.pods()
        assert len(pods) == 2
        assert not uids(pods) & uids(before)
        return all(verdict(pod, "PodScheduled") == ("False", "Unschedulable") for pod in pods)

    workspace.wait(anew, "both halves are new, and wait together")
    capacity.open(1)
    workspace.settled("torn", 2)


def test_two_gangs_that_fit_only_one_by_one_never_block_each_other(workspace: Workspace, capacity: Capacity) -> None:
    """Room for three: each gang of two could take a half and wait for the other for ever."""
    capacity.open(3)
    for attempt in range(REPEAT):
        names = [f"left-{attempt}", f"right-{attempt}"]
        for name in names:
            workspace.create("pcs", pair(name))
        workspace.wait(lambda: crowd(workspace, 1, 1), "one gang runs, the other waits", 120)
        [winner] = placed(workspace)
        workspace.delete("pcs", winner.removesuffix("-0"))
        workspace.gone(winner.removesuffix("-0"))
        workspace.wait(lambda: crowd(workspace, 1, 0), "the other runs", 120)
        for name in names:
            if workspace.find("pcs", name):
                workspace.delete("pcs", name)
                workspace.gone(name)


@pytest.fixture
def priorities(cluster: Harness) -> Iterator[None]:
    """PriorityClasses `test-low` and `test-high`."""
    path = "/apis/scheduling.k8s.io/v1/priorityclasses"
    for name, value in (("test-low", 10), ("test-high", 1000)):
        cluster.api("POST", path, {"metadata": {"name": name}, "value": value})
    yield
    for name in ("test-low", "test-high"):
        cluster.api("DELETE", f"{path}/{name}")


@pytest.mark.usefixtures("priorities")
def test_a_gang_of_high_priority_drives_out_a_whole_one_of_low(workspace: Workspace, capacity: Capacity) -> None:
    """One node would do for one of its pods, yet no half of the low gang stays, nor comes back."""
    capacity.open(3)
    workspace.create("pcs", pair("low", priorityClassName="test-low"))
    before = uids(workspace.settled("low", 2))
    assert {pod["spec"]["priority"] for pod in workspace.pods()} == {10}
    workspace.create("pcs", pair("high", priorityClassName="test-high"))
    workspace.settled("high", 2)

    def driven_out() -> bool:
        low = workspace.pods("app.kubernetes.io/part-of=low")
        assert len(low) == 2
        assert not before & uids(low)
        # The condition of a PodGroup that was placed once stays: now the pods alone tell.
        return {verdict(pod, "PodScheduled") for pod in low} == {("False", "Unschedulable")}

    workspace.wait(driven_out, "both pods of the low gang are back, and wait")
    capacity.open(1)
    workspace.settled("low", 2)


def test_a_foreign_gate_holds_the_whole_gang(workspace: Workspace, capacity: Capacity) -> None:
    foreign = "kueue.x-k8s.io/admission"
    capacity.open(2)
    workspace.create("pcs", pair("f", first={"schedulingGates": [{"name": foreign}]}))
    workspace.wait(
        lambda: [gates(pod) for pod in workspace.pods()] == [[foreign], []], "our gates are off, the other is not"
    )
    for _ in range(2):  # more than one pass of the operator, and more than one try of the scheduler
        workspace.operator.restart()
        assert [gates(pod) for pod in workspace.pods()] == [[foreign], []]
        assert not placed(workspace)
    [held] = workspace.clique_pods("f-0-a")
    workspace.patch("pod", held["metadata"]["name"], {"spec": {"schedulingGates": None}})
    workspace.settled("f", 2)


def test_a_clique_comes_back_from_idle_and_a_set_from_deletion(workspace: Workspace, capacity: Capacity) -> None:
    capacity.open(2)
    workspace.create("pcs", pair("s"))
    workspace.settled("s", 2)
    workspace.scale("pclq", "s-0-b", 0)
    workspace.settled("s", 1)
    workspace.wait(lambda: len(workspace.items("podgroup")) == 1, "the idle clique's group is gone")
    workspace.scale("pclq", "s-0-b", 1)
    workspace.settled("s", 2)
    [root] = workspace.items("cpg")
    assert root["spec"]["schedulingPolicy"] == {"gang": {"minGroupCount": 2}}

    old = {item["metadata"]["name"] for item in workspace.items("podgroup")}
    for pod in workspace.pods():
        workspace.hold("pod", pod["metadata"]["name"])  # so the old groups stay, too
    workspace.delete("pcs", "s")
    capacity.open(2)
    workspace.wait(lambda: workspace.find("pcs", "s") is None, "the set is gone")
    workspace.create("pcs", pair("s"))
    workspace.settled("s", 2)
    assert not old & {pod["spec"]["schedulingGroup"]["podGroupName"] for pod in workspace.pods()}


# Clusters that offer less


@pytest.fixture
def operator_with(workspace: Workspace, tmp_path: Path) -> Iterator[Callable[..., OperatorProcess]]:
    """Start an operator with other rights or another configuration in place of the shared one."""
    started: list[OperatorProcess] = []

    def start(kubeconfig: Path, **config: object) -> OperatorProcess:
        workspace.operator.stop()
        started.append(OperatorProcess(kubeconfig, tmp_path, {**QUIET, **config}))
        started[-1].start()
        return started[-1]

    yield start
    for process in started:
        process.stop()
    workspace.operator.start()


def limited(cluster: Harness, namespace: str, folder: Path) -> Iterator[Path]:
    """A kubeconfig of somebody who may do all but look at CompositePodGroups."""
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    others = [
        group["name"]
        for group in cluster.api("GET", "/apis")["groups"]
        if group["name"] not in ("scheduling.k8s.io", "authorization.k8s.io")
    ]
    rules = [
        {"apiGroups": ["", *others], "resources": ["*"], "verbs": ["*"]},
        {"apiGroups": ["scheduling.k8s.io"], "resources": ["podgroups"], "verbs": ["*"]},
    ]
    name = f"limited-{namespace}"
    cluster.api("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "limited"}})
    cluster.api("POST", f"{rbac}/clusterroles", {"metadata": {"name": name}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "limited", "namespace": namespace}
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]}
    cluster.api("POST", f"{rbac}/clusterrolebindings", binding)
    token = cluster.api("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts/limited/token", {"spec": {}})
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": token["status"]["token"]}
    file = folder / "limited.yaml"
    file.write_text(yaml.safe_dump(config))
    yield file
    cluster.api("DELETE", f"{rbac}/clusterrolebindings/{name}")
    cluster.api("DELETE", f"{rbac}/clusterroles/{name}")


@pytest.fixture
def without_composites(workspace: Workspace, tmp_path: Path) -> Iterator[Path]:
    """A kubeconfig for which there are PodGroups, but no CompositePodGroups."""
    yield from limited(workspace.cluster, workspace.namespace, tmp_path)


@pytest.mark.parametrize("case", ["GS-3", "GS-7", "GS-12"])
def test_podgroups_alone_place_gangs_whole_too(
    workspace: Workspace,
    capacity: Capacity,
    without_composites: Path,
    operator_with: Callable[..., OperatorProcess],
    case: str,
) -> None:
    operator_with(without_composites)
    (name, obj), steps = CASES[case]
    workspace.create("pcs", obj)
    for step in steps.split():
        play(workspace, capacity, name, step)
    assert {verdict(gang, "GangGuaranteed") for gang in workspace.items("pg")} == {("True", "PodGroup")}
    assert not workspace.items("cpg")
    assert len(workspace.items("podgroup")) == len(workspace.items("pg"))


def test_without_gangs_pods_are_placed_one_by_one_and_it_is_said(
    workspace: Workspace, capacity: Capacity, operator_with: Callable[..., OperatorProcess]
) -> None:
    profile = {"name": "default-scheduler", "config": {"gangScheduling": False}}
    operator_with(workspace.cluster.kubeconfig, scheduler={"profiles": [profile]})
    capacity.open(5)
    workspace.create("pcs", partial(podSpec=POD))
    workspace.wait(lambda: sum(placed(workspace).values()) == 5, "five pods are placed")
    why = "pods are placed one by one: gangScheduling is off in the operator's configuration"
    for gang in ("workload2-0", "workload2-0-sg-x-0"):
        workspace.reads("pg", gang, ("GangGuaranteed", "False", "NoGangScheduling"))
        assert condition(workspace.get("pg", gang), "GangGuaranteed")["message"] == why
    [event] = workspace.events("workload2", "NoGangGuarantee")
    assert (event["type"], event["message"]) == ("Warning", why)
    assert not workspace.items("podgroup")
    assert not any("schedulingGroup" in pod["spec"] for pod in workspace.pods())
    capacity.open(5)
    workspace.settled("workload2", 10)


def test_gangs_can_be_had_later(
    workspace: Workspace, capacity: Capacity, operator_with: Callable[..., OperatorProcess]
) -> None:
    """What ran before the operator knew of gangs runs on, and is a gang as its pods are replaced."""
    profile = {"name": "default-scheduler", "config": {"gangScheduling": False}}
    process = operator_with(workspace.cluster.kubeconfig, scheduler={"profiles": [profile]})
    capacity.open(4)
    workspace.create("pcs", pair("s"))
    before = uids(workspace.settled("s", 2))
    process.stop()
    with_gangs = operator_with(workspace.cluster.kubeconfig)
    workspace.reads("pg", "s-0", ("GangGuaranteed", "False", "PodsOutsideGroups"))
    assert uids(workspace.pods()) == before
    for pod in workspace.pods():
        workspace.delete("pod", pod["metadata"]["name"])
        workspace.wait(lambda: uid(pod) not in uids(workspace.pods()), "it is gone")  # noqa: B023
        workspace.settled("s", 2)
    workspace.reads("pg", "s-0", ("GangGuaranteed", "True", "CompositePodGroup"))
    assert runs(workspace, 2, 0)
    assert with_gangs.is_running
