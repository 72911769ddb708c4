"""Scaling at three levels: who may, what goes and what stays, 0 as idle, and whose number counts."""

from functools import partial
from typing import Any

import pytest

from tests.cluster.gates import check_gates, is_initialized, minimums
from tests.cluster.harness import ApiStatus
from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import MERGE, Object, Workspace, index, is_gated, is_ready, uid, uids, verdict


def replicas(workspace: Workspace, kind: str, name: str) -> int:
    """spec.replicas of an object."""
    return int(workspace.get(kind, name)["spec"]["replicas"])


def set_template_replicas(workspace: Workspace, name: str, **counts: int) -> None:
    """Change replicas of cliques and groups in a set's template, with a full-object update."""

    def change(pcs: Object) -> None:
        template = pcs["spec"]["template"]
        for item in template["cliques"]:
            item["spec"]["replicas"] = counts.get(item["name"], item["spec"].get("replicas"))
        for item in template.get("podCliqueScalingGroups", []):
            item["replicas"] = counts.get(item["name"], item["replicas"])

    workspace.update("pcs", name, change)


def observed(workspace: Workspace, name: str) -> None:
    """Wait until every child of the set has been given its present template."""

    def look() -> bool:
        pcs = workspace.get("pcs", name)
        return bool(pcs["status"]["observedGeneration"] == pcs["metadata"]["generation"])

    workspace.wait(look, f"the present generation of {name} is observed")


def test_kubectl_scale_out_and_in_at_every_level(workspace: Workspace) -> None:
    """No pod that stays is restarted; a new replica of the set starts from the template, not from scaled values."""

    def scale(kind: str, name: str, count: int) -> None:
        workspace.cluster.kubectl("scale", kind, name, f"--replicas={count}", "-n", workspace.namespace)

    before = workspace.revision()
    workspace.create("pcs", workload())
    first = uids(workspace.settled("w", 10))
    scale("pclq", "w-0-a", 3)
    scale("pcsg", "w-0-g", 3)
    scaled = uids(workspace.settled("w", 15))
    assert first < scaled
    scale("pcs", "w", 2)
    both = uids(workspace.settled("w", 25))
    assert scaled < both
    assert (replicas(workspace, "pclq", "w-1-a"), replicas(workspace, "pcsg", "w-1-g")) == (2, 2)

    scale("pcs", "w", 1)
    assert uids(workspace.settled("w", 15)) == scaled
    scale("pcsg", "w-0-g", 2)
    scale("pclq", "w-0-a", 2)
    assert uids(workspace.settled("w", 10)) == first
    workspace.wait(lambda: workspace.names("pg") == ["w-0", "w-0-g-0"], "the gangs of what went are gone")
    assert workspace.names("pclq") == ["w-0-a", "w-0-g-0-b", "w-0-g-0-c", "w-0-g-1-b", "w-0-g-1-c"]
    sizes = {"w-0": 6, "w-0-g-0": 4, "w-0-g-1": 4, "w-1": 6, "w-1-g-0": 4}
    assert check_gates(workspace.changes(before, "pod", "pg"), sizes) == sizes.keys()


def are_left(workspace: Workspace, expected: list[Object]) -> bool:
    return uids(workspace.pods()) == uids(expected)


def test_a_clique_goes_in_by_need(workspace: Workspace) -> None:
    """Unplaced pods go first, then those that are not ready, then among equals the youngest, of the highest index."""
    workspace.create("pcs", podcliqueset("o", clique("a", 5, 1, room=workspace.namespace)))
    workspace.open_rooms(4)
    workspace.wait(lambda: sum(is_ready(pod) for pod in workspace.pods()) == 4, "four of five pods are placed")
    pods = workspace.pods()
    unplaced = next(pod for pod in pods if "nodeName" not in pod["spec"])
    placed = [pod for pod in pods if pod is not unplaced]
    workspace.label("pod", placed[0]["metadata"]["name"], unready="true")
    workspace.wait(lambda: not is_ready(workspace.get("pod", placed[0]["metadata"]["name"])), "one is not ready")
    survivors = [placed, placed[1:], placed[1:-1]]
    for count, expected in zip((4, 3, 2), survivors, strict=True):
        workspace.scale("pclq", "o-0-a", count)
        workspace.wait(partial(are_left, workspace, expected), f"the right {count} are left")
    workspace.settled("o", 2)


def test_a_group_goes_in_from_the_end_and_back_to_the_same_names(workspace: Workspace) -> None:
    workspace.create("pcs", workload(groups=3))
    first = workspace.settled("w", 14)
    workspace.scale("pcsg", "w-0-g", 1)
    left = workspace.settled("w", 6)
    workspace.wait(
        lambda: workspace.names("pclq") == ["w-0-a", "w-0-g-0-b", "w-0-g-0-c"], "the highest indices have gone"
    )
    assert uids(left) < uids(first)
    workspace.scale("pcsg", "w-0-g", 3)
    again = workspace.settled("w", 14)
    assert uids(left) < uids(again)
    assert [pod["spec"]["hostname"] for pod in again] == [pod["spec"]["hostname"] for pod in first]


def test_a_scaled_out_child_is_born_current(workspace: Workspace) -> None:
    """No update runs for it: it counts as updated as soon as it is available."""
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    workspace.scale("pcsg", "w-0-g", 3)
    workspace.settled("w", 14)
    pcs = workspace.get("pcs", "w")
    wanted = pcs["status"]["currentGenerationHash"]

    def converged() -> bool:
        group_status = workspace.get("pcsg", "w-0-g")["status"]
        assert [group_status[f"{kind}Replicas"] for kind in ("scheduled", "available", "updated")] == [3, 3, 3]
        for child in (*workspace.items("pclq"), workspace.get("pcsg", "w-0-g")):
            assert child["status"]["currentPodCliqueSetGenerationHash"] == wanted, child["metadata"]["name"]
            assert "updateProgress" not in child["status"]
        return "updateProgress" not in pcs["status"]

    workspace.wait(converged, "all children run the set's generation")


def test_an_index_in_the_middle_is_filled_again(workspace: Workspace) -> None:
    """Scale-out takes the lowest free index, here one that a scale-in freed."""
    workspace.create("pcs", podcliqueset("i", clique("a", 4, 1)))
    pods = workspace.settled("i", 4)
    workspace.label("pod", pods[1]["metadata"]["name"], unready="true")
    workspace.wait(lambda: not is_ready(workspace.get("pod", pods[1]["metadata"]["name"])), "pod 1 is not ready")
    workspace.scale("pclq", "i-0-a", 3)
    workspace.wait(lambda: [index(pod) for pod in workspace.pods()] == [0, 2, 3], "pod 1 goes")
    workspace.scale("pclq", "i-0-a", 5)
    again = workspace.settled("i", 5)
    assert [index(pod) for pod in again] == [0, 1, 2, 3, 4]
    assert [pod["spec"]["hostname"] for pod in again] == [f"i-0-a-{k}" for k in range(5)]


# -- 0 is idle -------------------------------------------------------------------------------------------------------


def test_a_clique_without_pods_is_idle(workspace: Workspace) -> None:
    """Neither member of the gang nor a breach; it joins the running gang when it is scaled out."""
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("z", clique("a", 2), clique("idle", 0, 2)))
    first = workspace.settled("z", 2)
    assert minimums(workspace.get("pg", "z-0")) == {"z-0-a": 2}
    idle = workspace.get("pclq", "z-0-idle")
    assert idle["spec"]["replicas"] == 0
    assert verdict(idle, "MinAvailableBreached") == ("False", "SufficientReadyPods")
    assert verdict(idle, "PodCliqueScheduled") == ("True", "SufficientScheduledPods")

    workspace.scale("pclq", "z-0-idle", 2)
    both = workspace.settled("z", 4)
    assert minimums(workspace.get("pg", "z-0")) == {"z-0-a": 2, "z-0-idle": 2}
    workspace.scale("pclq", "z-0-a", 0)
    workspace.settled("z", 2)
    assert uids(first) < uids(both)
    workspace.wait(lambda: minimums(workspace.get("pg", "z-0")) == {"z-0-idle": 2}, "the gang is what is left")
    workspace.wait(lambda: workspace.get("pg", "z-0")["status"]["phase"] == "Running", "what is left runs")
    workspace.scale("pclq", "z-0-idle", 0)
    workspace.settled("z", 0)
    workspace.wait(lambda: workspace.names("pg") == [], "a gang of nobody does not exist")
    workspace.scale("pclq", "z-0-a", 2)
    workspace.settled("z", 2)
    check_gates(workspace.changes(before, "pod", "pg"), {"z-0": 2})


def test_a_group_and_a_set_without_replicas_are_idle(workspace: Workspace) -> None:
    workspace.create("pcs", workload(groups=0))
    workspace.settled("w", 2)
    assert workspace.get("pcsg", "w-0-g")["spec"]["replicas"] == 0
    workspace.wait(
        lambda: (
            verdict(workspace.get("pcsg", "w-0-g"), "MinAvailableBreached")
            == ("False", "SufficientAvailablePodCliqueScalingGroupReplicas")
        ),
        "an idle group is in no breach",
    )
    workspace.scale("pcsg", "w-0-g", 1)
    workspace.settled("w", 6)
    assert set(minimums(workspace.get("pg", "w-0"))) == {"w-0-a", "w-0-g-0-b", "w-0-g-0-c"}
    workspace.scale("pcsg", "w-0-g", 0)
    workspace.settled("w", 2)
    workspace.scale("pcs", "w", 0)
    workspace.settled("w", 0)
    workspace.wait(lambda: not any(workspace.names(kind) for kind in ("pclq", "pcsg", "pg")), "no child is left")
    workspace.scale("pcs", "w", 1)
    workspace.settled("w", 2)


@pytest.mark.parametrize(("kind", "name"), [("pclq", "m-0-a"), ("pcsg", "m-0-g")])
def test_between_0_and_the_minimum_is_refused(workspace: Workspace, kind: str, name: str) -> None:
    """Through /scale too, and while the operator is down: it is a rule of the CRD."""
    workspace.create("pcs", podcliqueset("m", clique("a", 3, 2), clique("b", 1), group("g", "b", 3, 2)))
    workspace.settled("m", 6)
    for write in ("scale", ""):
        with pytest.raises(ApiStatus, match="or at least minAvailable") as refused:
            workspace.patch(kind, name, {"spec": {"replicas": 1}}, write)
        assert refused.value.status == 422
    assert replicas(workspace, kind, name) == 3
    workspace.scale(kind, name, 2)
    workspace.settled("m", 5)


# -- whose number it is ----------------------------------------------------------------------------------------------


def test_a_changed_template_number_is_applied_once(workspace: Workspace) -> None:
    """Scaled values stay until the template's own number changes; then that counts, until somebody scales again."""
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    workspace.scale("pclq", "w-0-a", 4)
    workspace.scale("pcsg", "w-0-g", 3)
    first = workspace.settled("w", 16)

    set_template_replicas(workspace, "w", a=3)
    workspace.settled("w", 15)
    assert (replicas(workspace, "pclq", "w-0-a"), replicas(workspace, "pcsg", "w-0-g")) == (3, 3)
    set_template_replicas(workspace, "w", g=1)
    workspace.settled("w", 7)
    assert (replicas(workspace, "pclq", "w-0-a"), replicas(workspace, "pcsg", "w-0-g")) == (3, 1)

    workspace.scale("pclq", "w-0-a", 5)
    left = workspace.settled("w", 9)
    workspace.patch("pcs", "w", {"spec": {"template": {"terminationDelay": "1h"}}})
    observed(workspace, "w")
    assert (replicas(workspace, "pclq", "w-0-a"), replicas(workspace, "pcsg", "w-0-g")) == (5, 1)
    assert uids(workspace.settled("w", 9)) == uids(left)
    assert len(uids(first) & uids(left)) == 3 + 4


def scale_as_autoscaler(workspace: Workspace, kind: str, name: str, count: int) -> None:
    """Write /scale as the controller manager's autoscaling controller does."""
    path = f"{workspace.path(kind, name, 'scale')}?fieldManager=kube-controller-manager"
    workspace.cluster.api("PATCH", path, {"spec": {"replicas": count}}, MERGE)


def test_an_autoscalers_number_is_never_reset(workspace: Workspace) -> None:
    """Neither with the set's own autoscaler nor with one of somebody else, whose write tells who it is."""
    own: dict[str, Any] = {"minReplicas": 1, "maxReplicas": 6}
    workspace.create("pcs", podcliqueset("h", clique("a", 2, 1, autoScalingConfig=own), clique("b", 2, 1)))
    workspace.settled("h", 4)
    workspace.scale("pclq", "h-0-a", 4)
    scale_as_autoscaler(workspace, "pclq", "h-0-b", 5)
    first = workspace.settled("h", 9)
    set_template_replicas(workspace, "h", a=3, b=3)
    observed(workspace, "h")
    assert (replicas(workspace, "pclq", "h-0-a"), replicas(workspace, "pclq", "h-0-b")) == (4, 5)
    assert uids(workspace.settled("h", 9)) == uids(first)


def test_the_real_autoscaler_scales_what_the_set_asks_it_to(workspace: Workspace) -> None:
    """It raises both kinds of target to their minimum through /scale, and the set leaves it at that."""
    scaler: dict[str, Any] = {"minReplicas": 2, "maxReplicas": 4}
    parts = [clique("a", 1, 1, autoScalingConfig=scaler), clique("b", 1, 1), group("g", "b", scaleConfig=scaler)]
    workspace.create("pcs", podcliqueset("k", *parts))
    workspace.settled("k", 4)
    for name in ("k-0-a", "k-0-g"):
        workspace.until("hpa", name, lambda hpa: verdict(hpa, "AbleToScale")[0] == "True", "it can scale")

    def without_autoscalers(pcs: Object) -> None:
        del pcs["spec"]["template"]["cliques"][0]["spec"]["autoScalingConfig"]
        del pcs["spec"]["template"]["podCliqueScalingGroups"][0]["scaleConfig"]

    workspace.update("pcs", "k", without_autoscalers)
    workspace.wait(lambda: workspace.names("hpa") == [], "without the configuration there is no autoscaler")
    assert (replicas(workspace, "pclq", "k-0-a"), replicas(workspace, "pcsg", "k-0-g")) == (2, 2)


def test_a_clique_joins_a_running_gang_pod_by_pod(workspace: Workspace) -> None:
    """A pod beyond the gang's start is released as soon as it is referenced, whatever the others do."""
    workspace.create("pcs", podcliqueset("j", clique("a", 1, 1, room=workspace.namespace), clique("b", 1)))
    workspace.open_rooms(1)
    workspace.settled("j", 2)
    workspace.scale("pclq", "j-0-a", 3)

    def waiting_for_room() -> bool:
        pods = workspace.clique_pods("j-0-a")
        assert len(pods) == 3
        return not any(is_gated(pod) for pod in pods)

    workspace.wait(waiting_for_room, "the new pods wait for a node, not for their gang")
    gang = workspace.get("pg", "j-0")
    assert is_initialized(gang)
    assert gang["status"]["phase"] == "Running", "the minimum still runs"
    assert uid(workspace.clique_pods("j-0-a")[0])
