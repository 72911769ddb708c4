"""The gang scheduling cases of the reference (GS-1 to GS-12), through the PodGroups that KAI and Volcano get.

A stand-in for the scheduler places pods by these PodGroups alone, so what runs and what waits shows whether they say
the right thing; what they say is compared with the set's shape after every step, too.
"""

import copy
from collections.abc import Iterator

import pytest

from tests.cluster.gang_scheduler import KAI, VOLCANO, Dialect, GangScheduler
from tests.cluster.schedulers import install
from tests.cluster.workloads import partial, whole
from tests.cluster.workspace import Object, Workspace, gates, is_ready

SIZES = {"pc-a": 2, "pc-b": 1, "pc-c": 3}

CASES = {
    "GS-1": "WL1: nodes 9 = 0/10, nodes 10 = 10/0",
    "GS-2": "WL1: nodes 9 = 0/10, nodes 10 = 10/0, group 0 to 3 = 10/4, nodes 14 = 14/0",
    "GS-3": "WL1: nodes 9 = 0/10, nodes 10 = 10/0, replicas 2 = 10/10, nodes 20 = 20/0",
    "GS-4": """WL1: nodes 9 = 0/10, nodes 10 = 10/0, group 0 to 3 = 10/4, nodes 14 = 14/0, replicas 2 = 14/10,
        nodes 24 = 24/0, group 1 to 3 = 24/4, nodes 28 = 28/0""",
    "GS-5": "WL2: nodes 2 = 0/10, nodes 3 = 3/7, nodes 10 = 10/0",
    "GS-6": """WL2: nodes 2 = 0/10, nodes 3 = 3/7, nodes 10 = 10/0, group 0 to 3 = 10/4, nodes 12 = 12/2,
        nodes 14 = 14/0""",
    "GS-7": """WL2: nodes 2 = 0/10, nodes 3 = 3/7, nodes 5 = 5/5, nodes 10 = 10/0, group 0 to 3 = 10/4,
        nodes 12 = 12/2, nodes 14 = 14/0""",
    "GS-8": "WL2: nodes 2 = 0/10, group 0 to 3 = 0/14, nodes 3 = 3/11, nodes 7 = 7/7, nodes 14 = 14/0",
    "GS-9": """WL2: nodes 2 = 0/10, nodes 3 = 3/7, nodes 10 = 10/0, replicas 2 = 10/10, nodes 13 = 13/7,
        nodes 20 = 20/0""",
    "GS-10": "WL2: nodes 2 = 0/10, replicas 2 = 0/20, nodes 6 = 6/14, nodes 10 = 10/10, nodes 20 = 20/0",
    "GS-11": """WL2: nodes 2 = 0/10, nodes 3 = 3/7, nodes 10 = 10/0, group 0 to 3 = 10/4, nodes 12 = 12/2,
        nodes 14 = 14/0, replicas 2 = 14/10, nodes 17 = 17/7, nodes 24 = 24/0, group 1 to 3 = 24/4, nodes 26 = 26/2,
        nodes 28 = 28/0""",
    "GS-12": """WL2: nodes 2 = 0/10, replicas 2 = 0/20, group 0 to 3 = 0/24, group 1 to 3 = 0/28, nodes 6 = 6/22,
        nodes 14 = 14/14, nodes 28 = 28/0""",
}
"""What is done, and how many pods run and how many wait then. Every replica of the group has 4 pods."""


class Stage:
    """One workload, its stand-in scheduler, and what should be there."""

    def __init__(self, workspace: Workspace, dialect: Dialect, workload: Object) -> None:
        self.workspace = workspace
        self.scheduler = GangScheduler(workspace, dialect)
        self.name: str = workload["metadata"]["name"]
        self.minimums = {one["name"]: one["spec"]["minAvailable"] for one in workload["spec"]["template"]["cliques"]}
        self.needed: int = workload["spec"]["template"]["podCliqueScalingGroups"][0]["minAvailable"]
        self.groups = {0: 2}
        """replicas of the scaling group by set replica"""
        workspace.create("pcs", for_scheduler(workload, dialect))

    def expected(self) -> dict[str, dict[str, int]]:
        """The minimums of every PodGroup there should be."""
        result: dict[str, dict[str, int]] = {}
        for replica, groups in self.groups.items():
            base = f"{self.name}-{replica}"
            result[base] = {f"{base}-pc-a": self.minimums["pc-a"]}
            for index in range(groups):
                name = base if index < self.needed else f"{base}-sg-x-{index - self.needed}"
                members = {f"{base}-sg-x-{index}-{one}": self.minimums[one] for one in ("pc-b", "pc-c")}
                result[name] = {**result.get(name, {}), **members}
        return result

    def step(self, what: str, running: int, waiting: int) -> None:
        """Do one thing and wait until exactly so many pods run, and the others stay."""
        self.do(what)
        self.reaches(what, running, waiting)

    def do(self, what: str) -> None:
        """Do one thing."""
        match what.split():
            case ["nodes", number]:
                self.scheduler.nodes = int(number)
            case ["group", replica, "to", number]:
                self.groups[int(replica)] = int(number)
                patch = {"spec": {"replicas": int(number)}}
                self.workspace.patch("pcsg", f"{self.name}-{replica}-sg-x", patch)
            case ["replicas", number]:
                self.groups = {index: self.groups.get(index, 2) for index in range(int(number))}
                self.workspace.scale("pcs", self.name, int(number))

    def reaches(self, what: str, running: int, waiting: int) -> None:
        """Wait until so many pods run and wait after `what` was done, and the scheduler has nothing left to do."""
        self.workspace.wait(lambda: self._stands(running, waiting), f"{what}: {running} run, {waiting} wait", 120)
        assert self.scheduler.cycle() == 0

    def _stands(self, running: int, waiting: int) -> bool:
        self.scheduler.cycle()
        pods = self.workspace.pods()
        placed = [pod for pod in pods if "nodeName" in pod["spec"]]
        assert (len(placed), len(pods) - len(placed)) == (running, waiting)
        assert all(is_ready(pod) for pod in placed)
        assert self.scheduler.podgroups() == self.expected()
        for name, members in self.expected().items():
            have = {self.scheduler.bound.get((name, one), 0) >= need for one, need in members.items()}
            assert have == {True} or not any(self.scheduler.bound.get((name, one)) for one in members), "a partial gang"
        self._gates_are_right(pods)
        return True

    def _gates_are_right(self, pods: list[Object]) -> None:
        """A pod has its gate exactly as long as the base gang of its gang is not placed."""
        for pod in pods:
            base = pod["metadata"]["labels"].get("grove.io/base-podgang")
            members = self.expected()[base] if base else {}
            open_ = all(self.scheduler.bound.get((base or "", one), 0) >= need for one, need in members.items())
            assert bool(gates(pod)) == (not open_), f"{pod['metadata']['name']}: {gates(pod)}"


def for_scheduler(workload: Object, dialect: Dialect) -> Object:
    """The workload with its pods for one scheduler; for KAI with the queue on all cliques, as the reference has it."""
    workload = copy.deepcopy(workload)
    for one in workload["spec"]["template"]["cliques"]:
        one["spec"]["podSpec"]["schedulerName"] = dialect.scheduler
        if dialect is KAI:
            one.setdefault("labels", {})["kai.scheduler/queue"] = "test"
    return workload


def steps(case: str) -> Iterator[tuple[str, int, int]]:
    for part in case.split(":", 1)[1].split(","):
        what, counts = part.split("=")
        running, waiting = counts.split("/")
        yield what.strip(), int(running), int(waiting)


BOTH = pytest.mark.parametrize("dialect", [KAI, VOLCANO], ids=lambda dialect: dialect.scheduler)


@BOTH
@pytest.mark.parametrize("case", CASES)
def test_gang_scheduling(gang_workspace: Workspace, case: str, dialect: Dialect) -> None:
    install(gang_workspace.cluster, dialect)
    workload = whole() if CASES[case].startswith("WL1") else partial()
    stage = Stage(gang_workspace, dialect, workload)
    for step in steps(CASES[case]):
        stage.step(*step)


@BOTH
def test_scaling_in_takes_podgroups_and_groups_away(gang_workspace: Workspace, dialect: Dialect) -> None:
    install(gang_workspace.cluster, dialect)
    stage = Stage(gang_workspace, dialect, partial())
    for step in steps(
        "in: nodes 28 = 10/0, group 0 to 3 = 14/0, group 0 to 1 = 6/0, replicas 2 = 16/0, replicas 1 = 6/0"
    ):
        stage.step(*step)
    base, clique = "workload2-0", "workload2-0-pc-a"
    whole_gang = stage.scheduler.podgroups()
    gang_workspace.scale("pclq", clique, 0)
    idle = {base: {name: need for name, need in whole_gang[base].items() if name != clique}}
    gang_workspace.wait(lambda: stage.scheduler.podgroups() == idle, "an idle clique is in no PodGroup")
    gang_workspace.scale("pclq", clique, 3)
    gang_workspace.wait(lambda: stage.scheduler.podgroups() == whole_gang, "it is back, with the same minimum")
    stage.step("nothing", 7, 0)


def test_an_operator_that_is_killed_again_and_again_ends_with_the_same(gang_workspace: Workspace) -> None:
    """GS-8 with a crash right after every step: the PodGroups, the gates and what runs are as without."""
    install(gang_workspace.cluster, KAI)
    stage = Stage(gang_workspace, KAI, partial())
    for what, running, waiting in steps(CASES["GS-8"]):
        stage.do(what)
        gang_workspace.operator.kill()
        gang_workspace.operator.start()
        stage.reaches(what, running, waiting)
