"""Gangs that stay below their minimum get new pods (acceptance list 3, and reports G1, G3 to G5, G11, G16).

Each pod has a node of its own, so a node that is lost with its pod leaves one pod too many.
"""

import time

import pytest

from tests.cluster.workloads import clique, group, partial, podcliqueset, whole
from tests.cluster.workspace import Object, Workspace, condition, is_ready, uid, uids, verdict

DELAY = 4.0
"""terminationDelay of all gangs here, in seconds."""


class Gang:
    """One set of ten pods that run, each on a node of its own."""

    def __init__(self, workspace: Workspace, pcs: Object) -> None:
        self.workspace = workspace
        self.name: str = pcs["metadata"]["name"]
        workspace.open_rooms(10)
        workspace.create("pcs", pcs)
        self.before = uids(workspace.settled(self.name, 10))
        self.revision = workspace.revision()

    def uids(self, podclique: str = "") -> set[str]:
        """uids of the active pods whose PodClique's name continues so."""
        return {
            uid(pod)
            for pod in self.workspace.pods()
            if pod["metadata"]["labels"]["grove.io/podclique"].startswith(f"{self.name}-0-{podclique}")
        }

    def lose(self, podclique: str, count: int = 1) -> None:
        """Lose pods of a PodClique together with their nodes."""
        running = [pod for pod in self.workspace.clique_pods(f"{self.name}-0-{podclique}") if "nodeName" in pod["spec"]]
        for pod in running[:count]:
            self.workspace.lose(pod)

    def replaced(self, podclique: str = "", pods: int = 10) -> None:
        """Wait until no pod is left of those that ran, and others are there."""

        def look() -> bool:
            now = self.uids(podclique)
            assert not now & self.before, f"{len(now & self.before)} of the pods before are left"
            return len(now) == pods

        self.workspace.wait(look, f"the pods of {podclique or 'the whole gang'} are replaced")

    def left_alone(self, pods: int, podclique: str = "") -> None:
        """Give a termination all the time it would need; so many of the pods that ran are still there."""
        time.sleep(2 * DELAY)
        assert len(self.uids(podclique) & self.before) == pods

    def breached(self, podclique: str) -> None:
        """Wait until a PodClique says that it is below its minimum."""
        self.workspace.reads(
            "pclq", f"{self.name}-0-{podclique}", ("MinAvailableBreached", "True", "ScheduledReplicasBelowMinAvailable")
        )

    def recovers(self) -> None:
        """With all nodes back, wait until everything runs."""
        self.workspace.restore_rooms()
        self.workspace.settled(self.name, 10)

    @property
    def created(self) -> int:
        """Pods created since all ran."""
        return sum(change.type == "ADDED" for change in self.workspace.changes(self.revision, "pod"))


def delayed(pcs: Object) -> Object:
    pcs["spec"]["template"]["terminationDelay"] = f"{DELAY:.0f}s"
    return pcs


@pytest.fixture
def full(workspace: Workspace) -> Gang:
    """All ten pods are needed (WL1-gt)."""
    return Gang(workspace, delayed(whole(room=workspace.namespace)))


@pytest.fixture
def slack(workspace: Workspace) -> Gang:
    """Every minimum is 1 (WL2-gt)."""
    return Gang(workspace, delayed(partial(room=workspace.namespace)))


def test_gt1_a_standalone_clique_takes_all_with_it(full: Gang) -> None:
    full.lose("pc-a")
    full.breached("pc-a")
    full.replaced()
    full.recovers()
    assert full.created == 1 + 10


def test_gt2_a_group_that_needs_all_replicas_takes_all_with_it(full: Gang) -> None:
    full.lose("sg-x-0-pc-c")
    full.breached("sg-x-0-pc-c")
    full.workspace.reads(
        "pcsg",
        "workload1-0-sg-x",
        ("MinAvailableBreached", "True", "InsufficientAvailablePodCliqueScalingGroupReplicas"),
    )
    full.replaced()
    full.recovers()
    assert full.created == 1 + 10


def test_gt3_a_minimum_is_enough(slack: Gang) -> None:
    slack.lose("pc-a")
    slack.left_alone(9)
    slack.lose("pc-a")
    slack.replaced()
    slack.recovers()
    assert slack.created == 2 + 10


def test_gt4_a_replica_of_a_group_then_the_group(slack: Gang) -> None:
    slack.lose("sg-x-0-pc-c")
    slack.left_alone(9)
    slack.lose("sg-x-0-pc-c", 2)
    slack.replaced("sg-x-0", 4)
    slack.left_alone(6)  # and what waits for nodes is not replaced again
    assert slack.created == 3 + 4
    slack.lose("sg-x-1-pc-c")
    slack.left_alone(5)
    slack.lose("sg-x-1-pc-c", 3)  # the node that sg-x-0 left may have taken the one before
    slack.before |= slack.uids("sg-x-0")
    slack.replaced()
    slack.recovers()


def test_gt5_the_minimum_of_a_clique_in_a_group(workspace: Workspace) -> None:
    room = workspace.namespace
    pcs = podcliqueset(
        "workload5",
        clique("pc-a", 2, 1, room=room),
        clique("pc-b", 1, 1, room=room),
        clique("pc-c", 3, 3, room=room),
        group("sg-x", "pc-b pc-c", 2, 1),
    )
    gang = Gang(workspace, delayed(pcs))
    gang.lose("sg-x-0-pc-c", 3)
    gang.replaced("sg-x-0", 4)
    gang.left_alone(6)
    gang.recovers()
    assert gang.created == 3 + 4


def test_gt6_one_pod_of_a_scaled_gang(slack: Gang) -> None:
    slack.lose("sg-x-1-pc-c")
    slack.left_alone(9)
    slack.recovers()
    assert slack.created == 1


def test_scaled_numbers_and_podcliques_stay(workspace: Workspace) -> None:
    """G4: a clique scaled to 5 has 5 again afterwards."""
    workspace.create("pcs", delayed(podcliqueset("s", clique("a", 2), clique("b", 1, room=workspace.namespace))))
    workspace.open_rooms(1)
    workspace.settled("s", 3)
    workspace.scale("pclq", "s-0-a", 5)
    before = uids(workspace.settled("s", 6))
    owners = uids(workspace.items("pclq"))
    workspace.lose(workspace.clique_pods("s-0-b")[0])
    workspace.wait(lambda: not uids(workspace.pods()) & before, "all pods are replaced")
    workspace.restore_rooms()
    workspace.settled("s", 6)
    assert uids(workspace.items("pclq")) == owners
    assert workspace.get("pclq", "s-0-a")["spec"]["replicas"] == 5


def test_a_dead_node_does_not_hold_the_new_gang(workspace: Workspace) -> None:
    """G5: pods that stay Terminating count nowhere, and the new gang runs beside them."""
    workspace.create("pcs", delayed(podcliqueset("d", clique("a", 2, 2, room=workspace.namespace))))
    workspace.open_rooms(2)
    pods = workspace.settled("d", 2)
    for pod in pods:
        workspace.hold("pod", pod["metadata"]["name"])
    workspace.lose(pods[0])
    workspace.wait(lambda: len(uids(workspace.clique_pods("d-0-a")) - uids(pods)) == 2, "both pods are replaced")
    workspace.open_rooms(2)
    workspace.settled("d", 2)
    assert {uid(pod) for pod in workspace.items("pod")} > uids(pods)
    workspace.reads("pclq", "d-0-a", readyReplicas=2)


def test_groups_without_room_leave_the_healthy_ones_alone(workspace: Workspace) -> None:
    """G3: replicas that never existed are no loss."""
    room = workspace.namespace
    workspace.create("pcs", delayed(podcliqueset("g", clique("a", 1, room=room), group("g", "a", 3, 3))))
    workspace.open_rooms(3)
    before = uids(workspace.settled("g", 3))
    workspace.scale("pcsg", "g-0-g", 5)
    workspace.wait(lambda: len(workspace.pods()) == 5, "two more are there")
    time.sleep(2 * DELAY)
    assert len(uids(workspace.pods()) & before) == 3


def test_idle_is_no_breach(workspace: Workspace) -> None:
    """G11."""
    workspace.create("pcs", delayed(podcliqueset("i", clique("a", 2), clique("b", 1), group("g", "b"))))
    workspace.settled("i", 3)
    before = uids(workspace.clique_pods("i-0-a"))
    workspace.scale("pcsg", "i-0-g", 0)
    workspace.settled("i", 2)
    time.sleep(2 * DELAY)
    assert uids(workspace.pods()) == before
    assert verdict(workspace.get("pg", "i-0"), "Unhealthy")[0] == "False"


def test_pods_that_complete_are_no_storm(workspace: Workspace) -> None:
    """G16: pods that end are replaced; with them the gang at most once per delay."""
    long_delay = podcliqueset("c", clique("a", 2), clique("b", 1), terminationDelay="1h")
    workspace.create("pcs", long_delay)
    before = uids(workspace.settled("c", 3))
    revision = workspace.revision()
    done = workspace.clique_pods("c-0-a")[0]
    workspace.patch("pod", done["metadata"]["name"], {"status": {"phase": "Succeeded"}}, "status")
    workspace.wait(lambda: uid(done) not in uids(workspace.pods()), "it is replaced")
    assert len(uids(workspace.settled("c", 3)) & before) == 2
    assert sum(change.type == "ADDED" for change in workspace.changes(revision, "pod")) == 1


def test_killed_between_breach_and_termination(full: Gang) -> None:
    """A restart neither forgets the breach nor terminates twice."""
    full.lose("pc-a")
    full.breached("pc-a")
    full.workspace.operator.kill()
    time.sleep(DELAY)
    full.workspace.operator.start()
    full.replaced()
    full.workspace.operator.kill()
    full.workspace.operator.start()
    time.sleep(2 * DELAY)
    assert full.created == 1 + 10
    full.recovers()
    assert full.created == 1 + 10


def test_the_delay_may_change_while_it_runs(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("t", clique("a", 2, 2, room=workspace.namespace)))  # 4h by default
    workspace.open_rooms(2)
    before = uids(workspace.settled("t", 2))
    workspace.lose(workspace.pods()[0])
    workspace.reads("pclq", "t-0-a", ("MinAvailableBreached", "True", "ScheduledReplicasBelowMinAvailable"))
    assert len(uids(workspace.pods()) & before) == 1
    workspace.patch("pcs", "t", {"spec": {"template": {"terminationDelay": "1s"}}})
    workspace.wait(lambda: not uids(workspace.pods()) & before, "the gang is replaced")


def test_what_is_told_before_and_after(full: Gang) -> None:
    workspace, name = full.workspace, full.name
    full.lose("sg-x-1-pc-c")
    workspace.until("pg", f"{name}-0", lambda gang: verdict(gang, "Unhealthy")[0] == "True", "the PodGang is unhealthy")
    warned = workspace.wait(lambda: workspace.events(name, "PodGangUnhealthy"), "an event warns")
    assert f"{name}-0-sg-x-1-pc-c" in warned[0]["message"]
    full.replaced()
    told = workspace.wait(lambda: workspace.events(name, "PodCliqueSetReplicaDeleteSuccessful"), "an event tells")
    assert f"{name}-0-sg-x-1-pc-c" in told[0]["message"]
    assert verdict(workspace.get("pclq", f"{name}-0-sg-x-1-pc-c"), "GangTerminationInProgress") == (
        "True",
        "GangTerminationActive",
    )
    workspace.until(
        "pg",
        f"{name}-0",
        lambda gang: verdict(gang, "DisruptionTarget") == ("True", "GangTerminationActive"),
        "the PodGang is a disruption target",
    )
    full.recovers()
    workspace.until(
        "pg",
        f"{name}-0",
        lambda gang: (verdict(gang, "Unhealthy")[0], verdict(gang, "DisruptionTarget")[0]) == ("False", "False"),
        "the PodGang is well",
    )
    assert len(workspace.events(name, "PodGangUnhealthy")) == 1
    assert condition(workspace.get("pcsg", f"{name}-0-sg-x"), "GangTerminationInProgress") == {}
    assert all(is_ready(pod) for pod in workspace.pods())
