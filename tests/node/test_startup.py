"""The start order with real containers: their start times, and what the init container is and says."""

from datetime import datetime
from pathlib import Path
from typing import Any

from tests.cluster.harness import Harness
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.repeat import repetitions
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import Object, Workspace, condition, is_ready
from tests.node.node import MAIN_IMAGE, OPERATOR_IMAGE, Node

IN_ORDER: Object = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
READY_WHEN_TOLD = {"exec": {"command": ["test", "-f", "/tmp/ready"]}, "periodSeconds": 1, "timeoutSeconds": 60}

RESTRICTED: Object = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def main(script: str = "sleep 3600", **fields: Any) -> Object:
    """A main container that runs a shell script, and ends at once when it is told to."""
    command = ["sh", "-c", f"trap exit TERM; {script} & wait"]
    return {"name": "main", "image": MAIN_IMAGE, "command": command, "securityContext": RESTRICTED, **fields}


def slow(seconds: int) -> Object:
    """A main container that is ready after so many seconds."""
    return main(f"(sleep {seconds}; touch /tmp/ready; sleep 3600)", readinessProbe=READY_WHEN_TOLD)


def told() -> Object:
    """A main container that is ready once `let_be_ready` says so."""
    return main(readinessProbe=READY_WHEN_TOLD)


def role(name: str, replicas: int, minimum: int, *containers: Object, **pod_spec: Any) -> Object:
    return clique(name, replicas, minimum, podSpec={"containers": list(containers) or [main()], **pod_spec})


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def init_status(pod: Object) -> Object:
    """The status of the init container that holds a pod."""
    found = [one for one in pod["status"].get("initContainerStatuses", []) if one["name"] == "grove-initc"]
    return dict(found[0]) if found else {}


def waiting_pods(workspace: Workspace, node: Node, podclique: str, count: int = 1) -> list[Object]:
    """The pods of a PodClique, once their init containers run and have said what they wait for."""

    def look() -> list[Object]:
        pods = workspace.clique_pods(podclique)
        assert len(pods) == count
        assert all("running" in init_status(pod).get("state", {}) and node.log(pod, "grove-initc") for pod in pods)
        return pods

    return workspace.wait(look, f"the pods of {podclique} wait", 180)


def check_started_after(parents: list[Object], children: list[Object], minimum: int) -> None:
    """No main container of the children started before enough parents were Ready."""
    ready = sorted(when(condition(pod, "Ready")["lastTransitionTime"]) for pod in parents)[minimum - 1]
    for pod in children:
        [status] = pod["status"]["containerStatuses"]
        assert when(status["state"]["running"]["startedAt"]) >= ready
        ended = init_status(pod)["state"]["terminated"]
        assert (ended["exitCode"], init_status(pod)["restartCount"]) == (0, 0)


def test_containers_start_in_order(workspace: Workspace, node: Node) -> None:
    cliques = [role("a", 2, 2, told()), role("b", 2, 1, told()), role("c", 1, 1)]
    workspace.create("pcs", podcliqueset("s", *cliques, **IN_ORDER))
    for name, count in (("b", 2), ("c", 1)):
        waiting_pods(workspace, node, f"s-0-{name}", count)
    for name in "ab":
        for pod in workspace.clique_pods(f"s-0-{name}"):
            let_be_ready(workspace, node, pod)
    workspace.settled("s", 5, timeout=180)
    a, b, c = (workspace.clique_pods(f"s-0-{name}") for name in "abc")
    check_started_after(a, b, 2)
    check_started_after(b, c, 1)
    for pods, text in ((b, "waiting for a (at least 2 ready)"), (c, "waiting for b (at least 1 ready)")):
        for pod in pods:
            lines = node.log(pod, "grove-initc")
            assert {*lines[:-1]} == {text}
            assert lines[-1] == "released"


def test_the_init_container_has_no_powers(workspace: Workspace, node: Node) -> None:
    """As the kernel sees its process: no root, no capabilities, no new privileges, filtered calls, nothing to write."""
    workspace.create("pcs", podcliqueset("s", role("a", 1, 1, told()), role("b", 1, 1), **IN_ORDER))
    [pod] = waiting_pods(workspace, node, "s-0-b")
    options = node.powerless(init_status(pod)["containerID"])
    assert "ro" in options["/"]
    assert "ro" in options["/var/grove/pod-info"]


def test_a_waiting_pod_ends_when_told(workspace: Workspace, node: Node) -> None:
    """SIGTERM ends it by itself: its exit code is not that of SIGKILL, which comes after the grace period."""
    workspace.create("pcs", podcliqueset("s", role("a", 1, 1, told()), role("b", 1, 1), **IN_ORDER))
    [pod] = waiting_pods(workspace, node, "s-0-b")
    name, before = pod["metadata"]["name"], workspace.revision()
    workspace.delete("pod", name)
    workspace.wait(lambda: workspace.find("pod", name) is None, "the pod is gone", 120)
    changes = [change.object for change in workspace.changes(before, "pod") if change.name == name]
    codes = {init_status(one).get("state", {}).get("terminated", {}).get("exitCode") for one in changes}
    assert codes - {None} == {143}


def test_while_the_operator_is_away_pods_wait(workspace: Workspace, node: Node) -> None:
    workspace.create("pcs", podcliqueset("s", role("a", 1, 1, told()), role("b", 1, 1), **IN_ORDER))
    [child] = waiting_pods(workspace, node, "s-0-b")
    with workspace.operator.stopped():
        [parent] = workspace.clique_pods("s-0-a")
        let_be_ready(workspace, node, parent)
        assert "running" in init_status(workspace.get("pod", child["metadata"]["name"]))["state"]
    workspace.settled("s", 2, timeout=120)
    check_started_after(workspace.clique_pods("s-0-a"), workspace.clique_pods("s-0-b"), 1)


def let_be_ready(workspace: Workspace, node: Node, pod: Object) -> None:
    """Make the file that the readiness probe of a pod looks for."""
    name = pod["metadata"]["name"]
    found = workspace.wait(lambda: container_id(workspace.get("pod", name)), f"{name} has a container", 180)
    (node.process_of(found) / "root" / "tmp" / "ready").touch()
    workspace.wait(lambda: is_ready(workspace.get("pod", name)), f"{name} is ready", 180)


def container_id(pod: Object) -> str:
    """The id of a pod's first container, "" while it does not run."""
    statuses = pod.get("status", {}).get("containerStatuses") or [{}]
    return str(statuses[0]["containerID"]) if "running" in statuses[0].get("state", {}) else ""


KINDS: dict[str, Object] = {
    "best-effort": {"containers": [main()]},
    "burstable": {"containers": [main(resources={"requests": {"cpu": "10m", "memory": "16Mi"}})]},
    "guaranteed": {"containers": [main(resources={"limits": {"cpu": "200m", "memory": "64Mi"}})]},
    "guaranteed-small": {"containers": [main(resources={"limits": {"cpu": "50m", "memory": "24Mi"}})]},
    "own-user": {
        "securityContext": {"runAsUser": 4711, "runAsNonRoot": True, "fsGroup": 4712},
        "containers": [main()],
    },
    "own-init-and-sidecar": {
        "initContainers": [
            main("true", name="first"),
            {**main(name="sidecar"), "restartPolicy": "Always"},
        ],
        "containers": [main(), main(name="second")],
    },
    "own-account": {"serviceAccountName": "mine", "automountServiceAccountToken": False, "containers": [main()]},
}


def test_a_pod_of_each_kind_in_a_restricted_namespace(cluster: Harness, workspace: Workspace, node: Node) -> None:
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api("PATCH", f"/api/v1/namespaces/{workspace.namespace}", enforce, "application/merge-patch+json")
    workspace.create("serviceaccount", {"metadata": {"name": "mine"}})
    children = [clique(kind, 1, startsAfter=["first"], podSpec=spec) for kind, spec in KINDS.items()]
    explicit: Object = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
    workspace.create("pcs", podcliqueset("s", role("first", 1, 1, slow(1)), *children, **explicit))
    workspace.settled("s", 1 + len(KINDS), timeout=240)
    first = workspace.clique_pods("s-0-first")
    for kind in KINDS:
        [pod] = workspace.clique_pods(f"s-0-{kind}")
        status = init_status(pod)
        assert (status["state"]["terminated"]["reason"], status["restartCount"]) == ("Completed", 0), kind
        ready = when(condition(first[0], "Ready")["lastTransitionTime"])
        for container in pod["status"]["containerStatuses"]:
            assert when(container["state"]["running"]["startedAt"]) >= ready, kind
        assert node.log(pod, "grove-initc")[-1] == "released"
    quality = {kind: workspace.clique_pods(f"s-0-{kind}")[0]["status"]["qosClass"] for kind in KINDS}
    assert quality["best-effort"] == "BestEffort"
    assert quality["burstable"] == "Burstable"
    assert {quality["guaranteed"], quality["guaranteed-small"]} == {"Guaranteed"}
    [pod] = workspace.clique_pods("s-0-own-init-and-sidecar")
    order = [one["name"] for one in pod["status"]["initContainerStatuses"]]
    assert order == ["first", "sidecar", "grove-initc"]
    sidecar = pod["status"]["initContainerStatuses"][1]
    assert when(sidecar["state"]["running"]["startedAt"]) <= when(init_status(pod)["state"]["terminated"]["startedAt"])


def test_t3_many_starts_without_a_restart(workspace: Workspace) -> None:
    """Of the init container, whose parents change while it ends."""
    count = repetitions(6, 50)
    workspace.create("pcs", podcliqueset("s", role("a", 2, 1, slow(1)), role("b", count, 1), **IN_ORDER))
    workspace.settled("s", 2 + count, timeout=600)
    assert [init_status(pod)["restartCount"] for pod in workspace.clique_pods("s-0-b")] == count * [0]


def test_the_python_program(
    cluster: Harness, namespace: str, operator: OperatorProcess, tmp_path: Path, node: Node
) -> None:
    if operator.is_running:
        operator.stop()
    config = {**QUIET, "initContainer": {"program": "python", "image": OPERATOR_IMAGE}}
    process = OperatorProcess(cluster.kubeconfig, tmp_path, config)
    process.start()
    workspace = Workspace(cluster, namespace, process)
    try:
        child = main(resources={"limits": {"cpu": "200m", "memory": "24Mi"}})  # more it may not have either
        workspace.create("pcs", podcliqueset("s", role("a", 1, 1, told()), role("b", 1, 1, child), **IN_ORDER))
        waiting_pods(workspace, node, "s-0-b")
        [parent] = workspace.clique_pods("s-0-a")
        let_be_ready(workspace, node, parent)
        workspace.settled("s", 2, timeout=180)
        check_started_after(workspace.clique_pods("s-0-a"), workspace.clique_pods("s-0-b"), 1)
        [pod] = workspace.clique_pods("s-0-b")
        lines = node.log(pod, "grove-initc")
        assert ({*lines[:-1]}, lines[-1]) == ({"waiting for a (at least 1 ready)"}, "released")
        workspace.close()
    finally:
        process.stop()
