"""Fixtures of the cluster tests: one real Kubernetes cluster for the whole run."""

import contextlib
import secrets
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from grove.cluster import binaries
from tests.cluster import chart
from tests.cluster.capacity import Capacity, one_pod_nodes, wait_empty
from tests.cluster.gang_scheduler import KAI, VOLCANO
from tests.cluster.harness import ROOT, Harness, running_cluster
from tests.cluster.operators import OperatorProcess
from tests.cluster.webhooks import configured, free_port
from tests.cluster.workspace import Workspace

GANG_NODES = 28
NODES = 40
"""Fake nodes of the shared cluster: two blocks and two zones (a block is 20 nodes, a zone 28)."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the binaries before the first test: that takes longer than a test may, and its progress should be seen."""
    ours = any(Path(__file__).parent in item.path.parents for item in session.items)
    if session.config.option.collectonly or not ours:
        return
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        binaries.find_or_build()
        binaries.find_or_build(tools=(binaries.HELM,))
        binaries.find_or_build(tools=(binaries.KIND,))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """The shared cluster, with 40 nodes of 8 GPUs. What it refuses the chart's ServiceAccount fails the run."""
    folder = tmp_path_factory.mktemp("cluster")
    with running_cluster(folder / "cluster", NODES, apiserver_flags=chart.audited(folder)) as harness:
        yield harness
        assert chart.lacking(folder) == []


@pytest.fixture
def namespace(cluster: Harness) -> Iterator[str]:
    """A fresh namespace of the shared cluster."""
    with fresh_namespace(cluster) as name:
        yield name


@contextlib.contextmanager
def fresh_namespace(cluster: Harness) -> Iterator[str]:
    """A namespace that admits pods. It is deleted afterwards; nobody waits for that."""
    name = f"test-{secrets.token_hex(4)}"
    cluster.api("POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    cluster.wait(
        lambda: cluster.api("GET", f"/api/v1/namespaces/{name}/serviceaccounts/default"),
        message="a namespace gets its default service account, without which no pod is admitted",
    )
    yield name
    cluster.api("DELETE", f"/api/v1/namespaces/{name}")


@pytest.fixture(scope="session")
def crds(cluster: Harness) -> list[str]:
    """Names of the project's CRDs, applied and served on the shared cluster."""
    return apply_crds(cluster)


def apply_crds(cluster: Harness) -> list[str]:
    """Apply the project's CRDs and wait until they are served; their names."""
    cluster.kubectl("apply", "-f", ROOT / "crds")
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

    def established() -> list[str]:
        names = []
        for crd in cluster.api("GET", path)["items"]:
            if crd["spec"]["group"].endswith("grove.io"):
                conditions = {item["type"]: item["status"] for item in crd.get("status", {}).get("conditions") or ()}
                assert conditions.get("Established") == "True", f"{crd['metadata']['name']}: {conditions}"
                names.append(crd["metadata"]["name"])
        return names

    return cluster.wait(established, message="the CRDs are established")


@pytest.fixture(scope="session")
def operator(cluster: Harness, crds: list[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    """The operator, running on the shared cluster with the rights that the chart grants and no others."""
    folder = tmp_path_factory.mktemp("operator")
    chart.grant(cluster, folder)
    process = OperatorProcess(chart.account_kubeconfig(cluster, folder), folder)
    process.start()
    yield process
    if process.is_running:
        process.stop()


@pytest.fixture
def workspace(cluster: Harness, namespace: str, operator: OperatorProcess) -> Iterator[Workspace]:
    """A namespace of its own on the shared cluster, with the operator at work."""
    if not operator.is_running:
        operator.start()
    workspace = Workspace(cluster, namespace, operator)
    yield workspace
    workspace.close()


@dataclass(frozen=True)
class GangCluster:
    """A cluster of its own for KAI and Volcano, whose CRDs come and go there, and an operator that has both enabled."""

    harness: Harness
    operator: OperatorProcess
    port: int
    """of the operator's webhooks, which the API server does not call by itself"""


@pytest.fixture(scope="module")
def agents(cluster: Harness) -> Iterator[list[str]]:
    """30 cordoned nodes that hold one pod each."""
    with one_pod_nodes(cluster, 30) as names:
        yield names


@pytest.fixture
def capacity(workspace: Workspace, agents: list[str]) -> Iterator[Capacity]:
    """The agents, empty and all cordoned."""
    wait_empty(workspace.cluster, agents)
    capacity = Capacity(workspace.cluster, agents)
    yield capacity
    capacity.close()


@pytest.fixture(scope="session")
def gang_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GangCluster]:
    """The cluster for KAI and Volcano."""
    profiles = [{"name": dialect.scheduler} for dialect in (KAI, VOLCANO)]
    with running_cluster(tmp_path_factory.mktemp("gangs"), GANG_NODES, "gangs") as harness:
        apply_crds(harness)
        config = configured(port := free_port(), scheduler={"profiles": profiles})
        process = OperatorProcess(harness.kubeconfig, tmp_path_factory.mktemp("gang-operator"), config)
        process.start()
        yield GangCluster(harness, process, port)
        if process.is_running:
            process.stop()


@pytest.fixture
def gang_workspace(gang_cluster: GangCluster) -> Iterator[Workspace]:
    """A namespace of its own on that cluster."""
    if not gang_cluster.operator.is_running:
        gang_cluster.operator.start()
    with fresh_namespace(gang_cluster.harness) as name:
        workspace = Workspace(gang_cluster.harness, name, gang_cluster.operator)
        yield workspace
        workspace.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tell how things stood when a test failed that ran something."""
    report = yield
    used = getattr(item, "funcargs", {})
    workspace = used.get("workspace") or used.get("gang_workspace")
    if report.failed and call.when == "call" and isinstance(workspace, Workspace):
        report.sections.append(("How things stood", workspace.describe()))
    return report
