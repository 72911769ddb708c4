"""What people reported about large sets (R): work that grows too fast, writes for nothing, logs that drown."""

import re
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

from grove.controllers.world import World
from grove.plan import kinds
from grove.plan.expand import expand
from grove.plan.podclique import podclique_status
from grove.plan.podcliqueset import plan_removals, podcliqueset_status
from grove.plan.pods import plan_pods
from grove.plan.replica import plan_children, plan_gangs
from grove.plan.scalinggroup import look_at_all, plan_members, scaling_group_status, surplus_of
from grove.plan.summary import summarise
from tests.cluster.harness import Harness
from tests.cluster.operators import OperatorProcess
from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import CHILDREN, PATHS, Workspace


def created(workspace: Workspace, pods: int) -> None:
    """Wait until so many pods exist. None of these tests needs them to run, which is most of the effort."""
    workspace.wait(lambda: len(workspace.names("pod")) == pods, f"{pods} pods exist", 180)


def test_r1_a_large_set_goes_by_garbage_collection(workspace: Workspace, operator: OperatorProcess) -> None:
    """The set itself is gone at once, and the operator deletes none of its hundred PodCliques."""
    room = workspace.namespace
    parts = [clique(name, count, room=room) for name, count in (("pl", 1), ("pw", 2), ("dl", 1), ("dw", 2))]
    groups = [group("prefill", "pl pw", 25), group("decode", "dl dw", 25)]
    workspace.create("pcs", podcliqueset("r", *parts, *groups))
    created(workspace, 150)
    mark = len(operator.log)
    workspace.delete("pcs", "r")
    assert workspace.find("pcs", "r") is None
    workspace.gone("r", timeout=180)
    assert "Deleting" not in operator.log[mark:]


def writes(cluster: Harness) -> dict[str, float]:
    """Requests that write the kinds only the operator and users write, by verb and resource, since the server started.

    A patch that changes nothing counts too; no resourceVersion would show it. Deletions do not count: the namespace
    controller makes some for each namespace that goes, even where there is nothing to delete.
    """
    found: dict[str, float] = {}
    resources = "podcliquesets|podcliques|podcliquescalinggroups|podgangs|services"
    for line in str(cluster.api("GET", "/metrics")).splitlines():
        if not line.startswith("apiserver_request_total{"):
            continue
        resource = re.search(rf'resource="({resources})"', line)
        verb = re.search(r'verb="(POST|PUT|PATCH|APPLY)"', line)
        if resource and verb:
            key = f"{verb[1]} {resource[1]}"
            found[key] = found.get(key, 0.0) + float(line.rpartition(" ")[2])
    return found


def is_alone(workspace: Workspace) -> bool:
    """Whether no other namespace holds anything that concerns the operator; what is being deleted does not."""
    for kind in ("pcs", "pcsg", "pclq", "pg"):
        everywhere = workspace.cluster.api("GET", "/{}/{}".format(*PATHS[kind]))["items"]
        staying = [obj["metadata"] for obj in everywhere if "deletionTimestamp" not in obj["metadata"]]
        others = {metadata["namespace"] for metadata in staying} - {workspace.namespace}
        assert not others, f"{kind} in {others}"
    return True


def test_r2_touching_a_large_set_writes_nothing(workspace: Workspace) -> None:
    """Twenty-five replicas; an annotation asks for a look at all of them, one touches a child: no request follows."""
    workspace.create("pcs", podcliqueset("r", clique("a", 2), replicas=25))
    workspace.settled("r", 50, timeout=120)

    def all_told() -> bool:
        gangs = workspace.get("pcs", "r")["status"]["podGangStatuses"]
        told = [pclq["status"]["readyReplicas"] for pclq in workspace.items("pclq")]
        return told == [2] * 25 and [gang["phase"] for gang in gangs] == ["Running"] * 25

    workspace.wait(all_told, "every status says so")
    workspace.wait(partial(is_alone, workspace), "the sets of tests before are gone", 120)
    before = writes(workspace.cluster)
    workspace.patch("pcs", "r", {"metadata": {"annotations": {"grove.io/reconcile-trigger": "now"}}})
    workspace.patch("pclq", "r-7-a", {"metadata": {"annotations": {"example.com/touch": "now"}}})
    time.sleep(3)
    after = writes(workspace.cluster)
    made = {key: after[key] - before.get(key, 0.0) for key in after if after[key] != before.get(key, 0.0)}
    assert made == {"PATCH podcliquesets": 1, "PATCH podcliques": 1}, "those of the test"


def namespace_with(sets: int) -> World:
    """What the operator sees when so many sets of the usual shape run in one namespace."""
    world = World()
    for number in range(sets):
        pcs = workload(f"w{number}")
        pcs["metadata"] |= {"namespace": "n", "uid": f"uid-w{number}", "resourceVersion": "1", "generation": 1}
        world.take(kinds.PODCLIQUESET, pcs)
        template = world.sets.get("n", f"w{number}")
        assert template
        for obj in expand(template)[0].objects:
            metadata = obj["metadata"]
            metadata |= {"uid": f"uid-{metadata['name']}", "resourceVersion": "1", "generation": 1}
            metadata["ownerReferences"] = [
                {**owner, "uid": f"uid-{owner['name']}"} for owner in metadata["ownerReferences"]
            ]
            world.take(KINDS[obj["kind"]], obj)
    return world


KINDS = {
    kind.kind: kind
    for kind in (
        kinds.PODCLIQUESCALINGGROUP, kinds.PODCLIQUE, kinds.PODGANG, kinds.POD, kinds.SERVICE, kinds.AUTOSCALER
    )
}  # fmt: skip


def passes(world: World) -> None:
    """What the passes over one set read and work out: of the set, its replica, a group and a clique."""
    template = world.sets.get("n", "w7")
    pclq = world.podcliques.get("n", "w7-0-a")
    scaling_group = world.scaling_groups.get("n", "w7-0-g")
    assert template
    assert pclq
    assert scaling_group
    assert plan_removals(template, world.set_snapshot(template)) == ()
    summary = summarise(template, 0, world.replica_snapshot(template, 0))
    assert podcliqueset_status(template, [summary], world.replica_snapshot, [], "")["replicas"] == 1
    assert plan_children(template, 0, world.replica_snapshot(template, 0)) == ()
    gangs = plan_gangs(template, 0, world.replica_snapshot(template, 0), hurry=lambda _: True, now="")
    assert gangs.keys() == {"w7-0", "w7-0-g-0"}
    members = world.members(scaling_group)
    units = look_at_all(scaling_group, template, members, world.pods_by_owner())
    assert plan_members(scaling_group, template, units, surplus_of(units, members.values())) == ()
    assert scaling_group_status(scaling_group, template, units, [], "")["replicas"] == 2
    pods = world.pods.by_index("owner", pclq.uid)
    assert plan_pods(pclq, pods, last_occupants={}, rank_offset=None, now=0.0).writes == ()
    assert podclique_status(pclq, pods, world.set_of(pclq), [], "")["replicas"] == 2


def steps(work: Callable[[], None]) -> int:
    """How many bytecode instructions `work` runs: a measure of effort that no busy machine disturbs."""
    count = 0

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def test_r3_the_effort_for_a_clique_does_not_grow_with_the_namespace() -> None:
    """From 50 to 500 sets in one namespace (250 to 2500 cliques), a pass does the same amount of work."""
    effort = {}
    for sets in (50, 500):
        world = namespace_with(sets)
        passes(world)  # what is worked out once per object is worked out here
        effort[sets] = steps(partial(passes, world))
    assert effort[50] > 1000, "the measure measures"
    assert effort[500] <= 1.01 * effort[50]


def test_r5_deleting_is_quiet(workspace: Workspace, operator: OperatorProcess) -> None:
    """Less than two lines in the log per deleted object, and none of them a warning."""
    workspace.create("pcs", podcliqueset("r", clique("a", 2, room=workspace.namespace), replicas=30))
    created(workspace, 60)
    objects = sum(len(workspace.names(kind)) for kind in ("pcs", *CHILDREN))
    mark = len(operator.log)
    workspace.delete("pcs", "r")
    workspace.gone("r")
    lines = operator.log[mark:].splitlines()
    assert len(lines) < 2 * objects
    assert [line for line in lines if " INFO " not in line] == []
