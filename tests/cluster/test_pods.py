"""Pods that fail, are evicted, deleted or never finish dying are replaced, and only they."""

from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import HOLD, Object, Workspace, index, is_ready, uid, uids


def replaced(workspace: Workspace, before: list[Object], lost: set[int]) -> list[Object]:
    """Wait until other pods have taken the indices `lost`; the pods of now, which are the same at all other indices."""

    def look() -> list[Object]:
        now = workspace.pods()
        assert [index(pod) for pod in now] == [index(pod) for pod in before]
        kept = {index(pod) for pod in now if uid(pod) in uids(before)}
        assert kept == {index(pod) for pod in before} - lost, f"kept are {kept}"
        return now

    now = workspace.wait(look, f"the pods {lost} are replaced")
    assert [pod["spec"]["hostname"] for pod in now] == [pod["spec"]["hostname"] for pod in before]
    return now


def test_a_failed_and_an_evicted_pod_are_replaced(workspace: Workspace) -> None:
    """Each once. What ended stays until its successor is made, for people to read why."""
    workspace.create("pcs", podcliqueset("p", clique("a", 4)))
    pods = workspace.settled("p", 4)
    before = workspace.revision()
    failed, evicted = (pods[position]["metadata"]["name"] for position in (1, 2))
    workspace.patch("pod", evicted, {"metadata": {"annotations": {"sim.test/fail-reason": "Evicted"}}})
    for name in (failed, evicted):
        workspace.label("pod", name, fail="true")
    workspace.wait(lambda: workspace.get("pclq", "p-0-a")["status"]["replicas"] == 2, "those that ended do not count")
    now = replaced(workspace, pods, {1, 2})
    assert len({pod["metadata"]["name"] for pod in (*pods, *now)}) == 6
    workspace.settled("p", 4)
    workspace.wait(lambda: len(workspace.items("pod")) == 4, "those that ended are removed")
    history = workspace.changes(before, "pod")
    added = {index(change.object): change for change in history if change.type == "ADDED"}
    removed = {index(change.object): change for change in history if change.type == "DELETED"}
    assert len([change for change in history if change.type == "ADDED"]) == 2
    for position in (1, 2):
        assert added[position].version < removed[position].version


def test_a_pod_that_does_not_finish_dying_is_replaced_and_not_counted(workspace: Workspace) -> None:
    """A foreign finalizer holds it. Its successor has the same hostname; the finalizer is left alone."""
    workspace.create("pcs", podcliqueset("p", clique("a", 3)))
    pods = workspace.settled("p", 3)
    stuck = pods[0]["metadata"]["name"]
    before = workspace.revision()
    workspace.hold("pod", stuck)
    workspace.delete("pod", stuck)
    replaced(workspace, pods, {0})
    workspace.settled("p", 3)
    workspace.reads("pclq", "p-0-a", replicas=3, readyReplicas=3, scheduledReplicas=3, updatedReplicas=3)
    old = workspace.get("pod", stuck)
    assert old["metadata"]["finalizers"] == HOLD
    assert is_ready(old), "it would have been counted as ready"
    for change in workspace.changes(before, "pclq"):
        told = change.object["status"]
        assert max(told["replicas"], told["readyReplicas"], told["scheduledReplicas"]) <= 3, "it was counted"
    workspace.release("pod", stuck)
    workspace.wait(lambda: len(workspace.items("pod")) == 3, "it is gone")


def test_two_deletions_of_one_slot_in_a_row(workspace: Workspace) -> None:
    """Each is replaced once, with a name of its own, also while its predecessors are still dying."""
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("p", clique("a", 2, annotations={"sim.test/term-delay": "60s"})))
    pods = workspace.settled("p", 2)
    for _ in range(2):
        workspace.delete("pod", pods[1]["metadata"]["name"], grace_seconds=60)
        pods = replaced(workspace, pods, {1})
        workspace.settled("p", 2)
    assert len(workspace.items("pod")) == 4
    added = [change.name for change in workspace.changes(before, "pod") if change.type == "ADDED"]
    assert len(added) == len(set(added)) == 4


def test_an_eviction_through_the_api(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("p", clique("a", 2)))
    pods = workspace.settled("p", 2)
    name = pods[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    workspace.cluster.api("POST", workspace.path("pod", name, "eviction"), eviction)
    replaced(workspace, pods, {0})
    workspace.settled("p", 2)


def test_a_restart_of_the_operator_makes_no_pod(workspace: Workspace) -> None:
    """Names come from what exists, so whoever comes after a crash in the middle goes on where it stopped."""
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("p", *(clique(name, 10) for name in "abcd")))
    workspace.wait(lambda: len(workspace.items("pod")) >= 5, "some pods are there")
    workspace.operator.kill()
    workspace.operator.start()
    workspace.settled("p", 40)
    added = [change.name for change in workspace.changes(before, "pod") if change.type == "ADDED"]
    assert len(added) == 40
