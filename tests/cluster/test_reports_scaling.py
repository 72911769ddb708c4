"""What people reported about scaling, pods and caches (S): each trigger, and the behaviour that is right."""

import secrets

import pytest
import yaml

from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.operators import OperatorProcess
from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import CHILDREN, HOLD, Object, Workspace, index, is_active, is_ready, uid, uids

SLOW_END = {"sim.test/term-delay": "60s"}
"""Annotation of pods that take a minute to end."""


def test_s1_a_pod_that_is_ending_is_no_candidate_for_scale_in(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("s", clique("a", 5, 1, annotations=SLOW_END)))
    original = workspace.settled("s", 5)
    for left in (4, 3):
        workspace.scale("pclq", "s-0-a", left)
        workspace.settled("s", left)
        workspace.patch("pcs", "s", {"metadata": {"annotations": {"grove.io/reconcile-trigger": str(left)}}})
        workspace.patch("pclq", "s-0-a", {"metadata": {"annotations": {"example.com/touch": str(left)}}})
    everyone = workspace.items("pod")
    assert uids(everyone) == uids(original), "two are ending, three live, none was made"
    assert sum(is_active(pod) for pod in everyone) == 3


def test_s2_a_pending_pod_deleted_at_once_comes_back(workspace: Workspace) -> None:
    """Twenty times, right after the pod appeared."""
    workspace.create("pcs", podcliqueset("s", clique("a", 3, 1, room=workspace.namespace)))
    seen: set[str] = set()
    for _ in range(20):
        pods = workspace.wait(lambda: len(now := workspace.pods()) == 3 and now, "there are three pods") or []
        fresh = [pod for pod in pods if uid(pod) not in seen]
        assert fresh, "the deleted pod was replaced"
        seen |= uids(pods)
        workspace.delete("pod", fresh[0]["metadata"]["name"], grace_seconds=0)
    workspace.wait(lambda: [index(pod) for pod in workspace.pods()] == [0, 1, 2], "three pods are back")


def test_s3_stale_reads_make_no_surplus_pods(workspace: Workspace) -> None:
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("s", clique("a", 50, room=workspace.namespace)))
    workspace.until("pclq", "s-0-a", lambda _: True, "it exists")
    for number in range(20):
        workspace.patch("pclq", "s-0-a", {"metadata": {"labels": {"example.com/burst": str(number)}}})
    workspace.until("pclq", "s-0-a", lambda pclq: pclq["status"]["replicas"] == 50, "it has its pods")
    changes = workspace.changes(before, "pod")
    assert len([change for change in changes if change.type == "ADDED"]) == 50
    assert not [change for change in changes if "deletionTimestamp" in change.object["metadata"]]


def test_s4_every_level_publishes_the_selector_of_just_its_pods(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("other", clique("a", 1)))
    workspace.create("pcs", workload())
    workspace.settled("other", 1)
    pods = workspace.settled("w", 10)

    def selected(kind: str, name: str) -> set[str]:
        scale = workspace.cluster.api("GET", workspace.path(kind, name, "scale"))
        assert scale["status"]["selector"], f"{kind} {name} has no selector"
        return uids(workspace.items("pod", scale["status"]["selector"]))

    of_a = uids([pod for pod in pods if pod["metadata"]["labels"]["grove.io/podclique"] == "w-0-a"])
    assert selected("pcs", "w") == uids(pods)
    assert selected("pclq", "w-0-a") == of_a
    assert selected("pcsg", "w-0-g") == uids(pods) - of_a
    for name in ("w-0-g-0-b", "w-0-g-1-c"):
        assert "hpaPodSelector" not in workspace.get("pclq", name)["status"]
        assert "selector" not in workspace.cluster.api("GET", workspace.path("pclq", name, "scale"))["status"]


def test_s5_applying_the_set_again_keeps_scaled_replicas(workspace: Workspace) -> None:
    pcs = workload()

    def apply() -> None:
        workspace.cluster.kubectl("apply", "-n", workspace.namespace, "-f", "-", input=yaml.safe_dump(pcs))

    apply()
    workspace.settled("w", 10)
    workspace.scale("pclq", "w-0-a", 5)
    workspace.settled("w", 13)
    pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "NEW", "value": "1"}]
    apply()

    def has_the_new_template(pclq: Object) -> bool:
        return {"name": "NEW", "value": "1"} in pclq["spec"]["podSpec"]["containers"][0].get("env", [])

    pclq = workspace.until("pclq", "w-0-a", has_the_new_template, "it has the new template")
    assert pclq["spec"]["replicas"] == 5
    workspace.until("pcs", "w", lambda now: now["status"]["observedGeneration"] == 2, "the change is observed")
    assert workspace.get("pclq", "w-0-a")["spec"]["replicas"] == 5
    # The update replaces them one by one, so now and then there is one less.
    workspace.wait(lambda: len(workspace.clique_pods("w-0-a")) == 5, "it has five pods")


def test_s7_status_converges_without_another_event(workspace: Workspace) -> None:
    """Twenty sets, each scaled in the middle of its start; then nobody touches anything."""
    names = [f"s{number}" for number in range(20)]
    for name in names:
        workspace.create("pcs", podcliqueset(name, clique("a", 1)))
    for name in names:
        workspace.scale("pcs", name, 2)
    for name in names:
        workspace.settled(name, 2)

    def all_told() -> bool:
        wrong = [
            pclq["metadata"]["name"]
            for pclq in workspace.items("pclq")
            if [pclq["status"].get(f"{kind}Replicas") for kind in ("ready", "scheduled", "updated")] != [1, 1, 1]
        ]
        assert not wrong, f"{wrong}"
        return True

    workspace.wait(all_told, "every clique's status is right")
    assert len(workspace.items("pclq")) == 40


def test_s9_no_pod_is_left_of_a_deleted_set(workspace: Workspace) -> None:
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    workspace.delete("pcs", "w")
    workspace.wait(lambda: not workspace.items("pod", "app.kubernetes.io/part-of=w"), "no pod is left")


def test_s10_a_replacement_takes_the_index_of_the_old_pod(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("s", clique("a", 3)))
    pods = workspace.settled("s", 3)
    workspace.delete("pod", pods[1]["metadata"]["name"])
    workspace.wait(lambda: not uids(workspace.pods()) & {uid(pods[1])} and len(workspace.pods()) == 3, "it is replaced")
    now = workspace.settled("s", 3)
    assert [pod["spec"]["hostname"] for pod in now] == ["s-0-a-0", "s-0-a-1", "s-0-a-2"]
    assert [pod["metadata"]["labels"]["grove.io/podclique-pod-index"] for pod in now] == ["0", "1", "2"]
    for pod in now:
        env = {item["name"]: item for item in pod["spec"]["containers"][0]["env"]}
        source = env["GROVE_PCLQ_POD_INDEX"]["valueFrom"]["fieldRef"]["fieldPath"]
        assert source == "metadata.labels['grove.io/podclique-pod-index']"


def test_s11_scale_in_leaves_no_stale_children(workspace: Workspace) -> None:
    """Ten replicas, three, ten, three. Their pods find no node, for all this is about what is made and removed."""
    room, scaler = workspace.namespace, {"minReplicas": 1, "maxReplicas": 2}
    parts = [clique("a", 1, 1, room=room, autoScalingConfig=scaler), clique("b", 1, room=room), group("g", "b", 2, 1)]
    workspace.create("pcs", podcliqueset("s", *parts, replicas=10))
    of_one_replica = {"pcsg": 1, "pclq": 3, "pg": 2, "pod": 3, "svc": 1, "hpa": 1}
    for replicas in (10, 3, 10, 3):
        workspace.scale("pcs", "s", replicas)

        def all_there(replicas: int = replicas) -> bool:
            for kind, count in of_one_replica.items():
                names = workspace.names(kind, "app.kubernetes.io/part-of=s")
                assert {int(name.split("-")[1]) for name in names} == set(range(replicas)), f"{kind}: {names}"
                assert len(names) == count * replicas, f"{kind}: {names}"
            return True

        workspace.wait(all_there, f"there is what belongs to {replicas} replicas and nothing else")


def test_s12_a_pod_with_a_deletion_timestamp_is_replaced_at_once(workspace: Workspace) -> None:
    """Not only when it is gone a minute later."""
    workspace.create("pcs", podcliqueset("s", clique("a", 2, annotations=SLOW_END)))
    pods = workspace.settled("s", 2)
    name = pods[0]["metadata"]["name"]
    workspace.delete("pod", name, grace_seconds=60)
    workspace.wait(
        lambda: [pod["spec"]["hostname"] for pod in workspace.pods() if is_ready(pod)] == ["s-0-a-0", "s-0-a-1"],
        "its successor is ready",
    )
    assert "deletionTimestamp" in workspace.get("pod", name)["metadata"], "the old one is still ending"


def test_s14_sets_deleted_while_the_operator_was_down(workspace: Workspace, operator: OperatorProcess) -> None:
    """A hundred and one of them; some carry the finalizer of the Go operator, which nobody else would release."""
    workspace.create("pcs", workload())
    for number in range(100):
        workspace.create("pcs", podcliqueset(f"s{number}", clique("a", 0)))
    workspace.settled("w", 10)
    workspace.settled("s99", 0)
    with operator.stopped():
        for name in ("w", "s0", "s1"):
            workspace.patch("pcs", name, {"metadata": {"finalizers": ["grove.io/podcliqueset.grove.io"]}})
        workspace.cluster.api("DELETE", workspace.path("pcs"), {"propagationPolicy": "Background"})
        workspace.wait(lambda: len(workspace.names("pcs")) == 3, "those without the finalizer are gone already")
    workspace.wait(lambda: not any(workspace.names(kind) for kind in ("pcs", *CHILDREN)), "nothing is left")


def test_s15_a_namespace_with_sets_can_be_deleted(cluster: Harness, operator: OperatorProcess) -> None:
    name = f"test-{secrets.token_hex(4)}"
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    path = f"/api/v1/namespaces/{name}"
    cluster.wait(lambda: cluster.api("GET", f"{path}/serviceaccounts/default"), message="it admits pods")
    workspace = Workspace(cluster, name, operator)
    for number in range(5):
        workspace.create("pcs", workload(f"w{number}", groups=1))
    for number in range(5):
        workspace.settled(f"w{number}", 6)
    cluster.api("DELETE", path)

    def gone() -> bool:
        try:
            state = cluster.api("GET", path)["status"]
        except ApiStatus as error:
            return error.status == 404
        raise AssertionError(f"{state}")

    cluster.wait(gone, 90, f"namespace {name} is gone")


def test_s16_nothing_is_written_to_what_is_being_deleted(workspace: Workspace) -> None:
    """Also in the middle of retries; finalizers of others are theirs to take off."""
    workspace.limit_pods(0)
    workspace.create("pcs", podcliqueset("s", clique("a", 2)))
    workspace.until("pclq", "s-0-a", lambda pclq: pclq["status"]["lastErrors"] != [], "its pods are refused")
    for kind, name in (("pcs", "s"), ("pclq", "s-0-a")):
        workspace.hold(kind, name)
    workspace.delete("pcs", "s")
    workspace.delete("pclq", "s-0-a")
    # News of one kind come in order: once the operator knows a set that was made later, it knows of the deletions.
    workspace.create("pcs", podcliqueset("next", clique("a", 0)))
    workspace.settled("next", 0)
    before = workspace.revision()
    workspace.delete("quota", "pods")  # the retry would succeed now
    # Another set is worked on from first to last meanwhile: a write to the first would show among the changes.
    workspace.create("pcs", podcliqueset("next-one", clique("a", 1)))
    workspace.settled("next-one", 1)
    changes = workspace.changes(before, "pcs", "pclq", "pod")
    assert [change.name for change in changes if not change.name.startswith("next")] == []
    for kind, name in (("pclq", "s-0-a"), ("pcs", "s")):
        assert workspace.get(kind, name)["metadata"]["finalizers"] == HOLD
        workspace.release(kind, name)
    workspace.gone("s")


@pytest.mark.parametrize("server_side", [False, True])
def test_s17_nothing_foreign_appears_on_an_applied_set(workspace: Workspace, server_side: bool) -> None:
    """No annotation or label to trip over, and applying the same file again changes nothing."""
    pcs = workload()
    pcs["metadata"] |= {"annotations": {"team": "red"}, "labels": {"app": "w"}}
    text = yaml.safe_dump(pcs)
    how = ["apply", "-n", workspace.namespace, *(["--server-side"] if server_side else []), "-f", "-"]
    workspace.cluster.kubectl(*how, input=text)
    workspace.settled("w", 10)
    metadata = workspace.get("pcs", "w")["metadata"]
    metadata["annotations"].pop("kubectl.kubernetes.io/last-applied-configuration", None)
    assert metadata["annotations"] == {"team": "red"}
    assert metadata["labels"] == {"app": "w"}
    assert not metadata.keys() & {"finalizers", "ownerReferences"}
    assert workspace.cluster.kubectl("diff", *how[1:], input=text) == ""
    workspace.cluster.kubectl(*how, input=text)
    assert workspace.get("pcs", "w")["metadata"]["generation"] == 1
    # What kubectl notes for itself reaches no pod, clique or gang.
    for kind in ("pclq", "pg", "pod"):
        for obj in workspace.items(kind):
            assert not [key for key in obj["metadata"].get("annotations", {}) if key.startswith("kubectl")]
