"""The embedded cluster itself: starting, stopping, healing, and being a real Kubernetes."""

import os
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grove.cli.cluster import cluster as command
from grove.cluster import cluster as cluster_module
from grove.cluster import config, processes
from grove.cluster.cluster import Cluster
from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster, wait

POD = {"containers": [{"name": "main", "image": "example.com/none:1"}]}


def grove_cluster(*arguments: str | Path) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def create_pod(
    cluster: Harness,
    namespace: str,
    name: str,
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
) -> str:
    """Create a pod of one container and return its path."""
    pod = {"metadata": {"name": name, "labels": labels or {}}, "spec": POD | (spec or {})}
    cluster.api("POST", f"/api/v1/namespaces/{namespace}/pods", pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def programs(harness: Harness) -> dict[int, str]:
    return processes.running(home(harness) / "bin")


def home(harness: Harness) -> Path:
    return harness.cluster.directory / "kwok" / ".kwok" / "clusters" / harness.cluster.name


def phase(cluster: Harness, pod: str) -> str:
    return str(cluster.api("GET", pod)["status"]["phase"])


def is_ready(cluster: Harness, pod: str) -> bool:
    conditions = cluster.api("GET", pod)["status"].get("conditions", [])
    return {"Ready": "True"}.items() <= {item["type"]: item["status"] for item in conditions}.items()


def restart_count(cluster: Harness, pod: str) -> int:
    return int(cluster.api("GET", pod)["status"]["containerStatuses"][0]["restartCount"])


def patch(cluster: Harness, path: str, metadata: dict[str, Any]) -> None:
    cluster.api("PATCH", path, {"metadata": metadata}, "application/merge-patch+json")


def test_nodes_have_gpus_and_a_place_in_the_topology(cluster: Harness) -> None:
    nodes = {item["metadata"]["name"]: item for item in cluster.api("GET", "/api/v1/nodes")["items"]}
    assert len(nodes) == 40
    for node in nodes.values():
        assert node["status"]["allocatable"]["nvidia.com/gpu"] == "8"
        assert {"type": "Ready", "status": "True"}.items() <= _condition(node, "Ready").items()
    labels = nodes["node-39"]["metadata"]["labels"]  # 39 = 5·7 + 4 = 1·20 + 19 = 1·28 + 11
    assert labels["kubernetes.io/rack"] == "rack-5"
    assert labels["kubernetes.io/block"] == "block-1"
    assert labels["kubernetes.io/zone"] == labels["topology.kubernetes.io/zone"] == "zone-1"
    assert labels["kubernetes.io/hostname"] == "node-39"


def test_a_pod_runs_on_a_fake_node(cluster: Harness, namespace: str) -> None:
    gpus = {"containers": [POD["containers"][0] | {"resources": {"limits": {"nvidia.com/gpu": "8"}}}]}
    path = create_pod(cluster, namespace, "whole-node", spec=gpus)
    cluster.wait(lambda: phase(cluster, path) == "Running", message="the pod runs")
    pod = cluster.api("GET", path)
    assert pod["spec"]["nodeName"].startswith("node-")
    assert _condition(pod, "Ready")["status"] == "True"


def test_pods_live_as_their_labels_say(cluster: Harness, namespace: str) -> None:
    """The stages: a pod can fail, crash once, lose and regain readiness, and wait for the startup release."""
    initc = {"initContainers": [{"name": "grove-initc", "image": "example.com/none:1"}]}
    failing = create_pod(cluster, namespace, "failing", {"sim.test/fail": "true"})
    crashing = create_pod(cluster, namespace, "crashing", {"sim.test/crash": "once"})
    shaky = create_pod(cluster, namespace, "shaky")
    held = create_pod(cluster, namespace, "held", spec=initc)
    cluster.wait(lambda: is_ready(cluster, shaky), message="shaky is ready")
    patch(cluster, shaky, {"labels": {"sim.test/unready": "true"}})
    cluster.wait(lambda: not is_ready(cluster, shaky), message="shaky is not ready")
    patch(cluster, shaky, {"labels": {"sim.test/unready": None}})
    cluster.wait(lambda: is_ready(cluster, shaky), message="shaky is ready again")
    cluster.wait(lambda: phase(cluster, failing) == "Failed", message="failing fails")

    def restarts() -> bool:
        return is_ready(cluster, crashing) and restart_count(cluster, crashing) == 1

    cluster.wait(restarts, message="crashing has crashed once and is ready again")
    assert phase(cluster, held) == "Pending"
    patch(cluster, held, {"annotations": {"grove.io/startup": "released"}})
    cluster.wait(lambda: is_ready(cluster, held), message="held runs after its release")


def test_kubectl_speaks_to_it(cluster: Harness, namespace: str) -> None:
    cluster.kubectl(
        "apply", "-n", namespace, "-f", "-", input='{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}'
    )
    assert cluster.kubectl("get", "configmap", "a", "-n", namespace, "-o", "name") == "configmap/a\n"
    with pytest.raises(AssertionError, match="NotFound"):
        cluster.kubectl("get", "configmap", "b", "-n", namespace)


def test_it_says_which_version_it_is(cluster: Harness) -> None:
    assert cluster.api("GET", "/version")["gitVersion"] == "v1.37.2"


@pytest.mark.parametrize(
    ("version", "resource"), [("v1beta1", "podgroups"), ("v1beta1", "workloads"), ("v1alpha3", "compositepodgroups")]
)
def test_native_gang_apis_are_served(cluster: Harness, version: str, resource: str) -> None:
    resources = cluster.api("GET", f"/apis/scheduling.k8s.io/{version}")["resources"]
    assert resource in [item["name"] for item in resources]


def test_garbage_collection_and_autoscaling_work(cluster: Harness, namespace: str) -> None:
    """An autoscaler raises one replica to its minimum of three; deleting the owner deletes what it owns."""
    labels = {"app": "web"}
    apps, core = f"/apis/apps/v1/namespaces/{namespace}/deployments", f"/api/v1/namespaces/{namespace}/pods"
    template = {"metadata": {"labels": labels}, "spec": POD}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    cluster.api("POST", apps, {"metadata": {"name": "web"}, "spec": spec})
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    cluster.api(
        "POST",
        f"/apis/autoscaling/v2/namespaces/{namespace}/horizontalpodautoscalers",
        {"metadata": {"name": "web"}, "spec": {"minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": target}},
    )
    cluster.wait(
        lambda: cluster.api("GET", f"{apps}/web")["status"].get("readyReplicas") == 3,
        message="three replicas are ready",
    )
    cluster.api("DELETE", f"{apps}/web?propagationPolicy=Background")
    cluster.wait(lambda: not cluster.api("GET", core)["items"], message="the pods are gone")


def test_restart_of_the_api_server_keeps_data_and_breaks_its_process(cluster: Harness, namespace: str) -> None:
    path = create_pod(cluster, namespace, "survivor")
    cluster.wait(lambda: phase(cluster, path) == "Running", message="the pod runs")
    before, server = cluster.api("GET", path)["metadata"]["uid"], cluster.server
    old = {name: pid for pid, name in programs(cluster).items()}
    cluster.restart_apiserver()
    new = {name: pid for pid, name in programs(cluster).items()}
    assert {name for name in new if new[name] != old[name]} == {"kube-apiserver"}
    assert cluster.api("GET", path)["metadata"]["uid"] == before
    assert cluster.server == server
    after = create_pod(cluster, namespace, "newcomer")
    cluster.wait(lambda: phase(cluster, after) == "Running", message="the others found the API server again")


def test_stopped_scheduler_places_nothing_until_it_starts(cluster: Harness, namespace: str) -> None:
    cluster.stop("kube-scheduler")
    status = grove_cluster("status", "--dir", cluster.cluster.directory)
    path = create_pod(cluster, namespace, "waiting")
    assert status.exit_code == 1
    assert "kube-scheduler            not running" in status.output
    cluster.stop("kube-controller-manager")
    assert "nodeName" not in cluster.api("GET", path)["spec"]
    cluster.start("kube-scheduler")
    cluster.wait(lambda: phase(cluster, path) == "Running", message="the pod runs")
    assert "kube-controller-manager" not in programs(cluster).values(), "only what was asked for is started"
    cluster.start("kube-controller-manager")
    assert grove_cluster("status", "--dir", cluster.cluster.directory).exit_code == 0


def test_up_on_a_running_cluster_changes_nothing_but_missing_nodes(cluster: Harness) -> None:
    before = programs(cluster)
    again = grove_cluster("up", "--dir", cluster.cluster.directory)
    assert again.exit_code == 0, again.output
    assert "already running" in again.output
    assert f"export KUBECONFIG={cluster.kubeconfig}" in again.output
    assert programs(cluster) == before
    assert grove_cluster("up", "--dir", cluster.cluster.directory, "--nodes", "41").exit_code == 0
    assert len(cluster.api("GET", "/api/v1/nodes")["items"]) == 41
    cluster.api("DELETE", "/api/v1/nodes/node-40")


def test_a_folder_holds_one_cluster(cluster: Harness) -> None:
    other = grove_cluster("up", "--dir", cluster.cluster.directory, "--name", "other")
    assert other.exit_code == 1
    assert "holds the cluster grove: choose another folder for other with --dir" in other.output


def test_a_life_beside_another_cluster(cluster: Harness, tmp_path: Path) -> None:
    """Up, half dead, dead, down: the second cluster keeps its data until the end, the first one notices nothing."""
    first, folder = programs(cluster), tmp_path / "second cluster"
    with running_cluster(folder, nodes=1, name="second") as second:
        second.api("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
        with pytest.raises(ApiStatus) as refused:
            cluster.api("GET", "/api/v1/namespaces/kept")
        assert refused.value.status == 404
        assert refused.value.reason == "NotFound"

        second.stop("kube-scheduler")
        healed = grove_cluster("up", "--dir", folder)
        assert "cluster second is half dead: restarting it" in healed.output
        assert second.api("GET", "/api/v1/namespaces/kept")

        for pid in programs(second):
            os.kill(pid, signal.SIGKILL)
        second.wait(lambda: not programs(second), message="the processes end")
        assert grove_cluster("status", "--dir", folder).exit_code == 3
        assert "cluster second is stopped: restarting it" in grove_cluster("up", "--dir", folder).output
        assert second.api("GET", "/api/v1/namespaces/kept")
        assert len(programs(second)) == len(config.COMPONENTS)

        down = grove_cluster("down", "--dir", folder)
        assert (down.exit_code, down.output) == (0, "cluster second is gone\n")
        assert programs(second) == {}
        assert not folder.exists()
        assert grove_cluster("status", "--dir", folder).exit_code == 3
        assert grove_cluster("down", "--dir", folder).output == "cluster grove is not there: nothing to do\n"
    assert programs(cluster) == first


def test_a_cluster_that_cannot_be_restarted_is_made_anew(tmp_path: Path) -> None:
    told: list[str] = []
    with running_cluster(tmp_path, nodes=0) as harness:
        processes.stop(home(harness) / "bin")
        (home(harness) / "pki" / "ca.crt").unlink()
        status = Cluster(directory=tmp_path, report=told.append).up()
        assert status.state == "running"
        assert len(programs(harness)) == len(config.COMPONENTS)
    assert "kube-apiserver ended" in told[1]
    assert told[1].endswith("making the cluster anew; what was stored in it is lost")


def test_down_finds_processes_without_their_folder(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    with running_cluster(folder, nodes=0) as harness:
        shutil.rmtree(folder)
        assert sorted(programs(harness).values()) == sorted(config.COMPONENTS)
        assert grove_cluster("down", "--dir", folder).output == "cluster grove is gone\n"
        assert programs(harness) == {}
        assert not folder.exists()


def test_a_port_taken_at_the_last_moment_is_avoided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        taken = config.choose_ports() | {"kubeApiserverPort": listener.getsockname()[1]}
        choices = iter([taken])
        monkeypatch.setattr(cluster_module, "choose_ports", lambda: next(choices, None) or config.choose_ports())
        cluster = Cluster(directory=tmp_path, report=told.append)
        try:
            assert cluster.up(0).state == "running"
        finally:
            cluster.down()
    assert told == ["a port of kube-apiserver was taken meanwhile: trying other ports"]


def test_a_killed_test_run_leaves_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "cluster"
    script = f"""
import pathlib, time
from tests.cluster.harness import running_cluster
with running_cluster(pathlib.Path({str(folder)!r}), nodes=0) as harness:
    print("up", flush=True)
    time.sleep(600)
"""
    with subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        assert run.stdout.readline() == "up\n"
        run.kill()
    programs_folder = folder / "kwok" / ".kwok" / "clusters" / "grove" / "bin"
    wait(lambda: not folder.exists(), message="the folder goes")
    assert processes.running(programs_folder) == {}


def _condition(item: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(condition for condition in item["status"]["conditions"] if condition["type"] == kind)
