"""Deleting leaves nothing behind, takes nothing that is not ours, and needs no operator."""

import pytest

from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import CHILDREN, Workspace, uid, uids

SCALER = {"minReplicas": 1, "maxReplicas": 4}


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_deleting_leaves_nothing(workspace: Workspace, policy: str) -> None:
    parts = [clique("a", 2, 1, autoScalingConfig=SCALER), clique("b", 1), group("g", "b", 2, scaleConfig=SCALER)]
    workspace.create("pcs", podcliqueset("d", *parts, replicas=2))
    workspace.settled("d", 8)
    assert all(workspace.names(kind, "app.kubernetes.io/part-of=d") for kind in CHILDREN)
    before = workspace.revision()
    workspace.delete("pcs", "d", policy)
    workspace.gone("d")
    assert [change.name for change in workspace.changes(before, "pod") if change.type == "ADDED"] == []
    for kind in ("serviceaccount", "secret", "role", "rolebinding"):
        assert workspace.names(kind, "app.kubernetes.io/part-of=d") == []


def test_orphaned_children_live_on_and_are_taken_back(workspace: Workspace) -> None:
    """With --cascade=orphan the pods run on and nobody touches them; a set of the same name adopts its children."""
    workspace.create("pcs", workload())
    pods = uids(workspace.settled("w", 10))
    workspace.delete("pcs", "w", "Orphan")
    workspace.wait(lambda: workspace.find("pcs", "w") is None, "the set is gone")
    clique_uid = uid(workspace.get("pclq", "w-0-a"))
    assert "ownerReferences" not in workspace.get("pclq", "w-0-a")["metadata"]
    # Its scaling is at rest too: nobody says what a pod of it should be.
    workspace.scale("pclq", "w-0-a", 1)
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("other", clique("a", 1)))
    workspace.settled("other", 1)
    assert [change for change in workspace.changes(before, "pod") if change.name.startswith("w-")] == []
    workspace.scale("pclq", "w-0-a", 2)
    workspace.create("pcs", workload())
    assert uids(workspace.settled("w", 10)) == pods
    assert uid(workspace.get("pclq", "w-0-a")) == clique_uid
    workspace.delete("pcs", "w")
    workspace.gone("w")


def test_a_set_made_again_under_its_name(workspace: Workspace) -> None:
    """At once, while the old one's children are still going: nothing of the old is taken for the new."""
    workspace.create("pcs", workload())
    old = uids(workspace.settled("w", 10))
    workspace.delete("pcs", "w")
    workspace.wait(lambda: workspace.find("pcs", "w") is None, "the set is gone")
    workspace.create("pcs", workload())
    new = uids(workspace.settled("w", 10))
    assert not old & new
    owners = {reference["uid"] for kind in ("pcsg", "pg", "svc") for obj in workspace.items(kind)
              for reference in obj["metadata"]["ownerReferences"]}  # fmt: skip
    assert owners == {uid(workspace.get("pcs", "w"))}


def test_no_object_of_ours_has_a_finalizer(workspace: Workspace) -> None:
    """Nothing of ours has to be released first, so nothing of ours can hold a deletion up."""
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    held = [obj["metadata"]["name"] for kind in ("pcs", *CHILDREN) for obj in workspace.items(kind)
            if obj["metadata"].get("finalizers")]  # fmt: skip
    assert held == []


def test_finalizers_of_the_go_operator_are_released(workspace: Workspace) -> None:
    """A set that it made carries them on every level; without it somebody has to let go."""
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    for kind, name, finalizer in (
        ("pcs", "w", "grove.io/podcliqueset.grove.io"),
        ("pcsg", "w-0-g", "grove.io/podcliquescalinggroup.grove.io"),
        ("pclq", "w-0-a", "grove.io/podclique.grove.io"),
        ("pclq", "w-0-g-0-b", "grove.io/podclique.grove.io"),
    ):
        workspace.patch(kind, name, {"metadata": {"finalizers": [finalizer]}})
    workspace.delete("pcs", "w")
    workspace.gone("w")
