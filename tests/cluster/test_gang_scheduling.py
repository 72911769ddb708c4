"""Gangs on the real scheduler, all or none: capacity comes node by node, one pod fits on each (GS-1 to GS-12)."""

from collections import Counter

import pytest

from tests.cluster.capacity import POD, Capacity
from tests.cluster.gates import minimums
from tests.cluster.workloads import partial, whole
from tests.cluster.workspace import Object, Workspace, is_gated, is_ready, verdict

WL1 = ("workload1", whole("workload1", podSpec=POD))
WL2 = ("workload2", partial("workload2", podSpec=POD))

# Steps: +N opens N more nodes; sgR=N scales the group of set replica R; pcs=N scales the set; R/P says that exactly R
# pods run and are ready, P have no node, and no gang is placed in part.
CASES = {
    "GS-1": (WL1, "+9 0/10 +1 10/0"),
    "GS-2": (WL1, "+9 0/10 +1 10/0 sg0=3 10/4 +4 14/0"),
    "GS-3": (WL1, "+9 0/10 +1 10/0 pcs=2 10/10 +10 20/0"),
    "GS-4": (WL1, "+9 0/10 +1 10/0 sg0=3 10/4 +4 14/0 pcs=2 14/10 +10 24/0 sg1=3 24/4 +4 28/0"),
    "GS-5": (WL2, "+2 0/10 +1 3/7 +7 10/0"),
    "GS-6": (WL2, "+2 0/10 +1 3/7 +7 10/0 sg0=3 10/4 +2 12/2 +2 14/0"),
    "GS-7": (WL2, "+2 0/10 +1 3/7 +2 5/5 +5 10/0 sg0=3 10/4 +2 12/2 +2 14/0"),
    "GS-8": (WL2, "+2 0/10 sg0=3 0/14 +1 3/11 +4 7/7 +7 14/0"),
    "GS-9": (WL2, "+2 0/10 +1 3/7 +7 10/0 pcs=2 10/10 +3 13/7 +7 20/0"),
    "GS-10": (WL2, "+2 0/10 pcs=2 0/20 +4 6/14 +4 10/10 +10 20/0"),
    "GS-11": (
        WL2,
        "+2 0/10 +1 3/7 +7 10/0 sg0=3 10/4 +2 12/2 +2 14/0 pcs=2 14/10 +3 17/7 +7 24/0 sg1=3 24/4 +2 26/2 +2 28/0",
    ),
    "GS-12": (WL2, "+2 0/10 pcs=2 0/20 sg0=3 0/24 sg1=3 0/28 +4 6/22 +8 14/14 +14 28/0"),
}


def runs(workspace: Workspace, running: int, pending: int) -> bool:
    """Whether just so many pods run, the others have no node, and the scheduler has refused every gang it was given."""
    pods = workspace.pods()
    placed = [pod for pod in pods if pod["spec"].get("nodeName")]
    assert len(pods) == running + pending, f"{len(pods)} pods"
    assert len(placed) == running == sum(map(is_ready, placed)), f"{len(placed)} placed"
    assert len({pod["spec"]["nodeName"] for pod in placed}) == running
    for gang in workspace.items("pg"):
        name = gang["metadata"]["name"]
        counts = Counter(pod["metadata"]["labels"]["grove.io/podclique"] for pod in placed if gang_of(pod) == name)
        missing = {podclique: least - counts[podclique] for podclique, least in minimums(gang).items()}
        members = [pod for pod in pods if gang_of(pod) == name and "schedulingGroup" in pod["spec"]]
        if max(missing.values()) > 0:
            assert not counts, f"{name} is placed in part: {counts}"
            # Only when the scheduler has tried it is known that nothing more comes.
            assert any(map(is_gated, members)) or refused(workspace, name), f"{name} was not tried yet"
    return True


def gang_of(pod: Object) -> str:
    """The name of a pod's gang."""
    return str(pod["metadata"]["labels"]["grove.io/podgang"])


def refused(workspace: Workspace, gang: str) -> bool:
    """Whether the scheduler has tried to place a gang and could not."""
    groups = workspace.items("podgroup", f"grove.io/podgang={gang}")
    return any(verdict(group, "PodGroupInitiallyScheduled")[0] == "False" for group in groups)


def play(workspace: Workspace, capacity: Capacity, name: str, step: str) -> None:
    """Do what a step says, or wait until things are as it says."""
    if step.startswith("+"):
        capacity.open(int(step))
    elif "=" in step:
        what, number = step.split("=")
        group = f"{name}-{what.removeprefix('sg')}-sg-x"
        workspace.scale(*(("pcs", name) if what == "pcs" else ("pcsg", group)), int(number))
    else:
        running, pending = map(int, step.split("/"))
        workspace.wait(lambda: runs(workspace, running, pending), f"{step} pods run/wait", 120)


@pytest.mark.parametrize("case", CASES)
def test_gangs_are_placed_whole_or_not_at_all(workspace: Workspace, capacity: Capacity, case: str) -> None:
    (name, obj), steps = CASES[case]
    workspace.create("pcs", obj)
    for step in steps.split():
        play(workspace, capacity, name, step)
