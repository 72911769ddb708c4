"""What is kept of a pod."""

from typing import Any

import pytest

from grove.plan.observed import PodView
from tests.unit.support import Object, Paper, clique, pod_set, pod_wire

OWNER = Paper.of(pod_set(clique("a", 3))).podcliques["web-0-a"]


def view(status: Object | None = None, **fields: Any) -> PodView:
    wire = pod_wire(OWNER, 1, **fields)
    if status is not None:
        wire["status"] = status
    return PodView.from_wire(wire)


def test_a_fresh_pod() -> None:
    wire = pod_wire(OWNER, 1, uid="u", created="2026-09-01T00:00:10Z")
    seen = PodView.from_wire(wire)
    assert (seen.namespace, seen.uid, seen.resource_version) == ("default", "u", 1)
    assert (seen.owner_uid, seen.set_name, seen.replica_index, seen.gang) == ("uid-web-0-a", "web", "0", "web-0")
    assert (seen.index, seen.gates) == (1, ("grove.io/podgang-pending-creation",))
    assert seen.template_hash == OWNER.labels["grove.io/pod-template-hash"]
    assert seen.created == 1788220810.0  # date -u -d 2026-09-01T00:00:10Z +%s
    assert (seen.gated, seen.schedule_gated, seen.active) == (True, True, True)
    assert not any((seen.scheduled, seen.ready, seen.finished, seen.deleting, seen.node))


def test_nothing_but_a_name() -> None:
    seen = PodView.from_wire({"metadata": {"name": "x"}})
    assert (seen.index, seen.phase, seen.owner_uid, seen.created) == (-1, "Pending", "", 0.0)
    assert seen.active


def test_foreign_gates_are_not_ours() -> None:
    wire = pod_wire(OWNER, 0)
    wire["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    seen = PodView.from_wire(wire)
    assert (seen.gated, seen.gates) == (False, ("example.com/quota",))


@pytest.mark.parametrize(
    ("label", "hostname", "index"),
    [
        ("4", "web-0-a-7", 4),
        (None, "web-0-a-7", 7),
        ("", "web-0-a-7", 7),
        ("x", "web-0-a-7", 7),
        ("-1", "web-0-a-x", -1),
        ("²", "web-0-a-²", -1),
        (None, None, -1),
        (None, "web", -1),
    ],
)
def test_index(label: str | None, hostname: str | None, index: int) -> None:
    tags = {} if label is None else {"grove.io/podclique-pod-index": label}
    assert PodView.from_wire({"metadata": {"name": "x", "labels": tags}, "spec": {"hostname": hostname}}).index == index


@pytest.mark.parametrize(
    ("phase", "deleting", "finished", "active"),
    [
        ("Pending", False, False, True),
        ("Running", False, False, True),
        ("Unknown", False, False, True),
        ("Running", True, False, False),
        ("Failed", False, True, False),
        ("Succeeded", False, True, False),
        ("Failed", True, True, False),
    ],
)
def test_which_pods_hold_their_index(phase: str, deleting: bool, finished: bool, active: bool) -> None:
    seen = view(phase=phase, deleting=deleting, node="node-1")
    assert (seen.finished, seen.active) == (finished, active)


def test_only_the_controlling_owner_counts() -> None:
    owners = [{"uid": "other"}, {"uid": "mine", "controller": True}]
    assert PodView.from_wire({"metadata": {"name": "x", "ownerReferences": owners}}).owner_uid == "mine"
    assert PodView.from_wire({"metadata": {"name": "x", "ownerReferences": owners[:1]}}).owner_uid == ""


CRASHED = {"lastState": {"terminated": {"exitCode": 1}}, "ready": False, "started": False}
FINE = {"lastState": {"terminated": {"exitCode": 0}}, "ready": False, "started": False}
STARTING = {"lastState": {}, "ready": False, "started": True}
NOT_READY = [{"type": "Ready", "status": "False"}]
READY = [{"type": "Ready", "status": "True"}]


@pytest.mark.parametrize(
    ("status", "errored", "started_not_ready"),
    [
        ({"containerStatuses": [CRASHED]}, True, False),
        ({"initContainerStatuses": [CRASHED], "containerStatuses": [FINE]}, True, False),
        ({"containerStatuses": [CRASHED, STARTING]}, True, False),
        ({"containerStatuses": [CRASHED], "conditions": READY}, False, False),
        ({"containerStatuses": [FINE]}, False, False),
        ({"containerStatuses": [STARTING]}, False, True),
        ({"containerStatuses": [STARTING], "conditions": NOT_READY}, False, True),
        ({"containerStatuses": [STARTING], "conditions": READY}, False, False),
        ({"initContainerStatuses": [STARTING]}, False, False),
        ({"containerStatuses": [{"state": {"terminated": {"exitCode": 1}}}]}, False, False),
        ({}, False, False),
    ],
)
def test_pods_that_crash_or_start(status: Object, errored: bool, started_not_ready: bool) -> None:
    seen = view(status)
    assert (seen.errored, seen.started_not_ready) == (errored, started_not_ready)


def test_a_pod_that_waits_for_a_node_is_neither_gated_nor_scheduled() -> None:
    seen = view({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}, gated=False)
    assert not any((seen.scheduled, seen.schedule_gated, seen.gated))
