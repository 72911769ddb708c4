"""Protection of managed objects, with real users: who may change what Grove made, and that a cluster goes on working.

The operator runs as a ServiceAccount. All of Kubernetes' controllers of this cluster share one user, which is exempt.
"""

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from grove.plan.kinds import PODCLIQUE, PODCLIQUESET
from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster
from tests.cluster.operators import OperatorProcess
from tests.cluster.webhooks import configured, free_port, install, wait_called
from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import MERGE, Workspace

ACCOUNT = "system:serviceaccount:grove:grove-operator"
KUBERNETES = "kwok-admin"
GARBAGE_COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
AUTOSCALER = "system:serviceaccount:kube-system:horizontal-pod-autoscaler"
NAMESPACES = "system:serviceaccount:kube-system:namespace-controller"


def kubeconfig_of_service_account(cluster: Harness, folder: Path) -> Path:
    """A kubeconfig with a token of the operator's ServiceAccount, which may do everything."""
    cluster.kubectl("create", "namespace", "grove")
    cluster.kubectl("create", "serviceaccount", "grove-operator", "-n", "grove")
    binding = ["create", "clusterrolebinding", "grove", "--clusterrole=cluster-admin"]
    cluster.kubectl(*binding, "--serviceaccount=grove:grove-operator")
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    token = cluster.kubectl("create", "token", "grove-operator", "-n", "grove", "--duration=4h").strip()
    config["users"] = [{"name": user["name"], "user": {"token": token}} for user in config["users"]]
    for context in config["contexts"]:
        context["context"]["namespace"] = "grove"
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    return path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, OperatorProcess]]:
    """A cluster of its own whose operator protects what it makes."""
    folder = tmp_path_factory.mktemp("protection")
    with running_cluster(folder / "cluster", nodes=10) as cluster:
        cluster.kubectl("apply", "-f", ROOT / "crds")
        cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
        port = free_port()
        authorizer = {"enabled": True, "exemptServiceAccountUserNames": [KUBERNETES, "friend"]}
        config = configured(port, authorizer=authorizer)
        operator = OperatorProcess(kubeconfig_of_service_account(cluster, folder), folder, config)
        operator.start()
        install(cluster, port, protect=True, exempt=[KUBERNETES, ACCOUNT])
        wait_called(cluster)
        yield cluster, operator
        operator.stop()


@pytest.fixture
def workspace(running: tuple[Harness, OperatorProcess]) -> Iterator[Workspace]:
    """A namespace with a set of every kind of child, all of it running."""
    cluster, operator = running
    if not operator.is_running:
        operator.start()
        wait_called(cluster)
    name = f"test-{secrets.token_hex(4)}"
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    cluster.wait(lambda: cluster.api("GET", account), message="the namespace has its service account")
    workspace = Workspace(cluster, name, operator)
    scaling = {"minReplicas": 1, "maxReplicas": 5, "metrics": [CPU]}
    workspace.create(
        "pcs", podcliqueset("w", clique("a", 2, 1, autoScalingConfig=scaling), clique("b", 1), group("g", "b"))
    )
    workspace.settled("w", 3)
    yield workspace
    workspace.close()


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}


def says(workspace: Workspace, user: str, *words: str) -> str:
    """Why kubectl fails for a user who may do everything as far as RBAC is concerned; an empty string when it works."""
    done = workspace.cluster.kubectl_says(*words, "-n", workspace.namespace, "--as", user, "--as-group=system:masters")
    return "" if done.returncode == 0 else done.stderr


MANAGED = ["podclique/w-0-a", "podcliquescalinggroup/w-0-g", "podgang/w-0", "service/w-0", "hpa/w-0-a"]


@pytest.mark.parametrize("verb", ["label", "delete"])
def test_a_stranger_may_neither_change_nor_delete(workspace: Workspace, verb: str) -> None:
    for managed in MANAGED:
        words = ["label", managed, "x=y"] if verb == "label" else ["delete", managed, "--wait=false"]
        refused = says(workspace, "alice", *words)
        assert 'admission webhook "authorizer.webhooks.grove.io" denied the request: ' in refused
        assert "is managed by Grove for PodCliqueSet w: alice may not" in refused
        assert f"-n {workspace.namespace} w grove.io/disable-managed-resource-protection=true" in refused


def test_a_stranger_may_make_none_that_looks_managed(workspace: Workspace) -> None:
    obj = workspace.get("pclq", "w-0-a")
    obj["metadata"] = {"name": "fake", "labels": obj["metadata"]["labels"]}
    done = workspace.cluster.kubectl_says(
        *("create", "-f", "-", "-n", workspace.namespace, "--as", "alice", "--as-group=system:masters"),
        input=yaml.safe_dump(obj),
    )
    assert "alice may not create it" in done.stderr


def test_pods_may_be_deleted_by_anybody_and_changed_by_nobody(workspace: Workspace) -> None:
    pods = [pod["metadata"]["name"] for pod in workspace.clique_pods("w-0-a")]
    assert "alice may not update it" in says(workspace, "alice", "label", f"pod/{pods[0]}", "x=y")
    assert says(workspace, "alice", "delete", f"pod/{pods[0]}", "--wait=false") == ""
    workspace.wait(lambda: pods[0] not in workspace.names("pod"), message="the pod is gone")
    workspace.settled("w", 3)


@pytest.mark.parametrize("user", ["friend", ACCOUNT, GARBAGE_COLLECTOR, AUTOSCALER, NAMESPACES, KUBERNETES])
def test_exempt_users_and_controllers_may(workspace: Workspace, user: str) -> None:
    for managed in MANAGED:
        assert says(workspace, user, "label", managed, "test=it") == ""


def test_scaling_is_no_change(workspace: Workspace) -> None:
    assert says(workspace, "alice", "scale", "pclq", "w-0-a", "--replicas=3") == ""
    assert says(workspace, "alice", "scale", "pcsg", "w-0-g", "--replicas=2") == ""
    workspace.settled("w", 5)


def test_an_annotation_of_the_set_lifts_it(workspace: Workspace) -> None:
    note = "grove.io/disable-managed-resource-protection"
    assert says(workspace, "alice", "annotate", "pcs", "w", f"{note}=yes") == ""
    assert says(workspace, "alice", "label", "podclique/w-0-a", "x=y") != ""
    assert says(workspace, "alice", "annotate", "pcs", "w", f"{note}=true", "--overwrite") == ""
    assert says(workspace, "alice", "label", "podclique/w-0-a", "x=y") == ""
    assert says(workspace, "alice", "delete", "podclique/w-0-a", "--wait=false") == ""


def test_what_is_of_no_set_is_free_with_a_warning(workspace: Workspace) -> None:
    tags = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "gone"}
    service = {"metadata": {"name": "stray", "labels": tags}, "spec": {"ports": [{"port": 80}]}}
    workspace.create("svc", service)
    words = ["label", "service/stray", "x=y", "-n", workspace.namespace, "--as=alice", "--as-group=system:masters"]
    done = workspace.cluster.kubectl_says(*words)
    assert done.returncode == 0
    assert f"Warning: Service {workspace.namespace}/stray is not protected" in done.stderr


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
def test_a_set_goes_with_all_it_has_while_no_operator_runs(workspace: Workspace, policy: str) -> None:
    workspace.operator.stop()
    assert "failed calling webhook" in says(workspace, "alice", "label", "podclique/w-0-a", "x=y")
    path = PODCLIQUESET.path(workspace.namespace, "w")
    workspace.cluster.api("DELETE", path, {"propagationPolicy": policy})
    workspace.gone("w")


def test_a_namespace_goes_while_no_operator_runs(workspace: Workspace) -> None:
    workspace.operator.stop()
    path = f"/api/v1/namespaces/{workspace.namespace}"
    workspace.cluster.api("DELETE", path)

    def gone() -> bool:
        try:
            workspace.cluster.api("GET", path)
        except ApiStatus as error:
            return error.status == 404
        return False

    workspace.cluster.wait(gone, timeout=120, message="the namespace is gone")


def test_finalizers_of_others_can_be_taken_off_by_the_garbage_collector_alone(workspace: Workspace) -> None:
    """An update is an update, whatever field; who must may."""
    path = PODCLIQUE.path(workspace.namespace, "w-0-a")
    workspace.cluster.api("PATCH", path, {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE)
    off = ["patch", "podclique/w-0-a", "--type=merge", "-p", '{"metadata":{"finalizers":null}}']
    assert "alice may not update it" in says(workspace, "alice", *off)
    assert says(workspace, GARBAGE_COLLECTOR, *off) == ""
