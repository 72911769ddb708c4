"""What the status of each object says, and that it says it in the end without another event."""

from functools import partial

from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import Object, Workspace, condition

BREACHED = "MinAvailableBreached"


def test_conditions_of_a_podclique_through_its_life(workspace: Workspace) -> None:
    """Never scheduled, no room for the minimum, enough, crashing, recovered, all lost; an event tells of the last."""
    reads_a = partial(workspace.reads, "pclq", "s-0-a")
    patient = {"sim.test/backoff": "10m"}  # a crashed pod stays down until it is told otherwise
    workspace.create("pcs", podcliqueset("s", clique("a", 3, 2, room=workspace.namespace, annotations=patient)))
    few = (BREACHED, "True", "ScheduledReplicasBelowMinAvailable")
    unplaced = ("PodCliqueScheduled", "False", "InsufficientScheduledPods")
    placed = ("PodCliqueScheduled", "True", "SufficientScheduledPods")
    fine = (BREACHED, "False", "SufficientReadyPods")
    reads_a(few, unplaced, replicas=3, scheduledReplicas=0, readyReplicas=0)
    workspace.open_rooms(1)
    workspace.wait(lambda: "at least 2" in condition(workspace.get("pclq", "s-0-a"), BREACHED)["message"], "it says so")
    workspace.open_rooms(2)
    reads_a(fine, placed, scheduledReplicas=3, readyReplicas=3, updatedReplicas=3, scheduleGatedReplicas=0)
    names = [pod["metadata"]["name"] for pod in workspace.pods()]

    workspace.label("pod", names[0], unready="true")
    reads_a(fine, placed, scheduledReplicas=3, readyReplicas=2)
    for name in names[1:]:
        workspace.patch("pod", name, {"metadata": {"annotations": {"sim.test/uptime": "10ms"}}})
        workspace.label("pod", name, crash="loop")
    reads_a((BREACHED, "True", "InsufficientReadyPods"), placed, scheduledReplicas=3, readyReplicas=0)
    workspace.label("pod", names[0], unready=None)
    reads_a((BREACHED, "True", "InsufficientReadyPods"), placed, scheduledReplicas=3, readyReplicas=1)
    assert workspace.events("s-0-a", "AllScheduledReplicasLost") == []

    workspace.close_rooms()
    for name in names:
        workspace.delete("pod", name, grace_seconds=0)
    reads_a(few, unplaced, replicas=3, scheduledReplicas=0, readyReplicas=0)
    lost = workspace.wait(lambda: workspace.events("s-0-a", "AllScheduledReplicasLost"), "an event tells of the loss")
    assert [event["type"] for event in lost] == ["Warning"]


def test_no_event_when_some_scheduled_pods_are_left(workspace: Workspace) -> None:
    """3 to 2 is no loss of all, and neither is 0 to 0."""
    room = workspace.namespace
    workspace.create("pcs", podcliqueset("e", clique("a", 3, 1, room=room), clique("b", 1, room=room)))
    workspace.reads("pclq", "e-0-a", replicas=3, scheduledReplicas=0)
    workspace.delete("pod", workspace.clique_pods("e-0-a")[0]["metadata"]["name"])
    workspace.reads("pclq", "e-0-a", replicas=3, scheduledReplicas=0)
    workspace.open_rooms(4)
    workspace.settled("e", 4)
    workspace.close_rooms()
    for podclique in ("e-0-a", "e-0-b"):
        workspace.delete("pod", workspace.clique_pods(podclique)[0]["metadata"]["name"], grace_seconds=0)
    workspace.reads("pclq", "e-0-a", replicas=3, scheduledReplicas=2)
    workspace.reads("pclq", "e-0-b", replicas=1, scheduledReplicas=0)
    # When the loss of b's only pod is told, a loss of a's pods would have been told too.
    workspace.wait(lambda: workspace.events("e-0-b", "AllScheduledReplicasLost"), "the loss of all is told")
    assert workspace.events("e-0-a", "AllScheduledReplicasLost") == []


def make_unready(workspace: Workspace, podclique: str, unready: bool = True) -> None:
    """All pods of a PodClique stop (or start) being ready."""
    for pod in workspace.clique_pods(podclique):
        workspace.label("pod", pod["metadata"]["name"], unready="true" if unready else None)


def test_breach_of_a_scaling_group(workspace: Workspace) -> None:
    """In breach when fewer than minAvailable replicas are whole and healthy; all numbers count whole replicas."""
    workspace.create("pcs", podcliqueset("b", clique("x", 1), clique("y", 1), group("g", "x y", 3, 2)))
    workspace.settled("b", 6)
    fine = (BREACHED, "False", "SufficientAvailablePodCliqueScalingGroupReplicas")
    bad = (BREACHED, "True", "InsufficientAvailablePodCliqueScalingGroupReplicas")
    reads_g = partial(workspace.reads, "pcsg", "b-0-g")
    reads_g(fine, replicas=3, scheduledReplicas=3, availableReplicas=3, updatedReplicas=3)
    make_unready(workspace, "b-0-g-0-y")
    reads_g(fine, scheduledReplicas=3, availableReplicas=2)
    workspace.reads("pclq", "b-0-g-0-y", (BREACHED, "True", "InsufficientReadyPods"))
    make_unready(workspace, "b-0-g-2-x")
    reads_g(bad, scheduledReplicas=3, availableReplicas=1)
    workspace.reads("pcs", "b", replicas=1, availableReplicas=0, updatedReplicas=0)
    workspace.scale("pcsg", "b-0-g", 5)
    reads_g(fine, replicas=5, scheduledReplicas=5, availableReplicas=3)
    workspace.reads("pcs", "b", availableReplicas=1, updatedReplicas=1)
    make_unready(workspace, "b-0-g-0-y", unready=False)
    make_unready(workspace, "b-0-g-2-x", unready=False)
    reads_g(fine, availableReplicas=5, updatedReplicas=5)


def test_available_replicas_of_a_set(workspace: Workspace) -> None:
    """A replica counts when every clique and every group of it has its minimum ready; strangers do not count."""
    workspace.create("pcs", podcliqueset("v", clique("a", 2, 1), clique("x", 1), group("g", "x", 2, 1), replicas=2))
    workspace.settled("v", 8)
    available = partial(workspace.reads, "pcs", "v")
    make_unready(workspace, "v-0-g-0-x")
    available(replicas=2, availableReplicas=2)  # one of two group replicas is enough
    make_unready(workspace, "v-0-g-1-x")
    available(availableReplicas=1, updatedReplicas=1)
    make_unready(workspace, "v-1-a")
    available(availableReplicas=0, updatedReplicas=0)
    workspace.label("pod", workspace.clique_pods("v-1-a")[0]["metadata"]["name"], unready=None)
    available(availableReplicas=1)
    make_unready(workspace, "v-0-g-0-x", unready=False)
    available(availableReplicas=2, updatedReplicas=2)
    pod = {"containers": [{"name": "m", "image": "none"}]}
    tags = {"app.kubernetes.io/part-of": "v", "app.kubernetes.io/managed-by": "grove-operator"}
    stranger = {"roleName": "r", "replicas": 1, "minAvailable": 1, "podSpec": pod}
    workspace.create(
        "pclq",
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "metadata": {"name": "v-7-a", "labels": {**tags, "grove.io/podcliqueset-replica-index": "7"}},
            "spec": stranger,
        },
    )
    make_unready(workspace, "v-1-a", unready=False)
    workspace.reads("pclq", "v-1-a", readyReplicas=2)
    available(replicas=2, availableReplicas=2, updatedReplicas=2)
    assert workspace.clique_pods("v-7-a") == []


def test_generation_and_hash_are_told_together(workspace: Workspace) -> None:
    """At no moment does the set say it has observed a generation without the hash of just that template."""
    before = workspace.revision()
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    first = workspace.get("pcs", "w")["status"]["currentGenerationHash"]

    def new_image(pcs: Object) -> None:
        pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/main:2"

    generation = workspace.update("pcs", "w", new_image)["metadata"]["generation"]
    workspace.reads("pcs", "w", observedGeneration=generation)
    second = workspace.get("pcs", "w")["status"]["currentGenerationHash"]
    assert first != second
    for change in workspace.changes(before, "pcs"):
        status = change.object.get("status", {})
        hashes = {None: None, generation: second}
        assert status.get("currentGenerationHash") == hashes.get(status.get("observedGeneration"), first)
