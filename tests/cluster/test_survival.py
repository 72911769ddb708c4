"""Whatever happens to the operator, its network or the API server: in the end exactly what was asked for is there.

And each pod was made once: the books of a watch of our own are compared with the causes there were (storm.Ledger).
"""

import random
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.chaos import Proxy, assert_rest, dice, resetting
from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster
from tests.cluster.operators import OperatorProcess
from tests.cluster.storm import Storm
from tests.cluster.updates import Update
from tests.cluster.workloads import clique, podcliqueset, whole
from tests.cluster.workspace import CHILDREN, Workspace, uids

NODES = 10


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster of this file's own, because its API server goes down."""
    with running_cluster(tmp_path_factory.mktemp("survival"), NODES) as harness:
        harness.kubectl("apply", "-f", ROOT / "crds")
        established = ("wait", "--for=condition=Established", "crd", "--all")
        harness.wait(lambda: harness.kubectl(*established), message="the CRDs are established")
        yield harness


@pytest.fixture
def proxy(cluster: Harness, tmp_path: Path) -> Iterator[Proxy]:
    """A network between operator and API server that can be disturbed."""
    proxy = Proxy(cluster.kubeconfig, tmp_path)
    yield proxy
    proxy.stop()


@pytest.fixture
def operator(request: pytest.FixtureRequest, cluster: Harness, tmp_path: Path) -> Iterator[OperatorProcess]:
    """An operator for one test, behind the proxy if the test has one."""
    through = request.getfixturevalue("proxy") if "proxy" in request.fixturenames else cluster
    process = OperatorProcess(through.kubeconfig, tmp_path)
    yield process
    if process.is_running:
        process.kill()


@pytest.fixture
def source() -> random.Random:
    """Where all that is random comes from."""
    return dice()


def wait_served(workspace: Workspace) -> None:
    """Wait until the API server that has just started serves custom resources too: at first it answers 429 to them."""

    def is_served(kind: str) -> bool:
        try:
            workspace.items(kind)
        except ApiStatus:
            return False
        return True

    for kind in ("pcs", "pcsg", "pclq", "pg"):
        workspace.wait(partial(is_served, kind), f"{kind} is served")


def test_killed_thirty_times(workspace: Workspace, operator: OperatorProcess, source: random.Random) -> None:
    storm = Storm(workspace, source, sets=20)
    for _ in range(30):
        storm.steps(source.randint(2, 6))
        time.sleep(source.uniform(0.0, 1.0))
        operator.kill()
        storm.steps(source.randint(0, 2))
        operator.start(wait=source.random() < 0.9)
    storm.calm_down()
    assert_rest(workspace.cluster, 3.0)


@pytest.mark.timeout(1800)  # twenty starts of a process, on a machine that may be busy
def test_killed_twenty_times_in_an_update(
    workspace: Workspace, operator: OperatorProcess, source: random.Random
) -> None:
    """It goes on where it was: no pod goes that must stay, and each slot is filled once."""
    obj = whole("w")
    obj["spec"]["replicas"] = 2
    update = Update(workspace, obj, 20)
    update.edit("pc-a", "pc-b", "pc-c")
    for _ in range(20):
        time.sleep(source.uniform(0.0, 1.0))
        operator.kill()
        operator.start()
    update.all_updated(update.done(20), "pc-a", "pc-b", "pc-c")
    assert update.made() == dict.fromkeys(update.before, 1)


def test_the_api_server_restarts(workspace: Workspace, source: random.Random) -> None:
    storm = Storm(workspace, source, sets=6)
    workspace.create("pcs", podcliqueset("steady", clique("a", 8, 8)))
    steady = uids(workspace.settled("steady", 8))
    for _ in range(2):
        storm.steps(8)
        workspace.cluster.restart_apiserver()
        wait_served(workspace)
        storm.steps(4)
    assert workspace.operator.is_running, workspace.operator.tail()
    assert uids(workspace.clique_pods("steady-0-a")) == steady
    workspace.delete("pcs", "steady")
    # The garbage collector can miss that an owner was deleted while its watches were broken, and never look again.
    workspace.cluster.stop("kube-controller-manager")
    workspace.cluster.start("kube-controller-manager")
    storm.calm_down()


def test_started_before_the_api_server(workspace: Workspace, operator: OperatorProcess) -> None:
    operator.kill()
    workspace.create("pcs", podcliqueset("late", clique("a", 2, 2)))
    workspace.cluster.stop("kube-apiserver")
    operator.start(wait=False)
    time.sleep(3.0)  # long enough to be refused a connection
    assert operator.is_running, operator.tail()
    workspace.cluster.start("kube-apiserver")
    wait_served(workspace)
    workspace.settled("late", 2)


def test_connections_are_reset(workspace: Workspace, proxy: Proxy, source: random.Random) -> None:
    """Watches break off, and writes of which nobody knows whether they were done."""
    storm = Storm(workspace, source, sets=6)
    with resetting(proxy, source, share=0.3, pause=0.2) as done:
        for _ in range(20):
            storm.steps(2)
            time.sleep(source.uniform(0.0, 0.5))
    assert done["resets"] >= 20, "this disturbed nobody"
    storm.calm_down()


def test_the_network_is_slow(workspace: Workspace, proxy: Proxy, source: random.Random) -> None:
    """What was written is seen late, and what happens to different objects is seen in any order."""
    storm = Storm(workspace, source, sets=6)
    proxy.delay = 0.6
    for _ in range(15):
        storm.steps(2)
        time.sleep(source.uniform(0.0, 0.5))
    storm.calm_down()


def test_s18_watches_fall_silent(workspace: Workspace, proxy: Proxy, operator: OperatorProcess) -> None:
    """The watches are still open, but nothing comes through any more; a change is seen within 30 s nevertheless."""
    workspace.create("pcs", podcliqueset("w", clique("a", 2, 1)))
    before = uids(workspace.settled("w", 2))
    operator.restart()  # so that hardly any connection is open but those of the watches
    assert proxy.silence() >= len(CHILDREN), "each kind has its watch"
    workspace.scale("pclq", "w-0-a", 5)
    workspace.wait(lambda: len(workspace.clique_pods("w-0-a")) == 5, "the change is seen", timeout=30.0)
    assert before < uids(workspace.settled("w", 5)), "the pods that were there stay"


def test_two_operators_at_once(
    workspace: Workspace, source: random.Random, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """As when a lease is lost: no slot gets two pods, and once all is done neither has anything to write."""
    second = OperatorProcess(workspace.cluster.kubeconfig, tmp_path_factory.mktemp("second"))
    second.start()
    try:
        storm = Storm(workspace, source, sets=8)
        for _ in range(20):
            storm.steps(3)
            time.sleep(source.uniform(0.0, 0.5))
        storm.calm_down()
        assert second.is_running, second.tail()
        assert_rest(workspace.cluster, 10.0)
    finally:
        second.kill()
