"""Two replicas of the operator: one works, the other stands by and takes over, whatever ends the first."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cluster.harness import ROOT, ApiStatus, Harness, running_cluster
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import Workspace, uids

LEASE = "grove-operator-leader-election"
ELECTION = {
    "enabled": True,
    "leaseDuration": "16s",
    "renewDeadline": "13s",  # long enough to be kept while the machine is busy with other things
    "retryPeriod": "1s",
    "resourceNamespace": "default",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster of this file's own, because its API server goes down."""
    with running_cluster(tmp_path_factory.mktemp("failover"), 5) as harness:
        harness.kubectl("apply", "-f", ROOT / "crds")
        established = ("wait", "--for=condition=Established", "crd", "--all")
        harness.wait(lambda: harness.kubectl(*established), message="the CRDs are established")
        yield harness


class Pair:
    """Two operators on one cluster."""

    def __init__(self, cluster: Harness, folder: Path) -> None:
        self._cluster = cluster
        self.members = []
        for name in ("one", "two"):
            (folder / name).mkdir()
            config = {**QUIET, "leaderElection": ELECTION}
            self.members.append(OperatorProcess(cluster.kubeconfig, folder / name, config))

    def start(self) -> None:
        for member in self.members:
            member.start()
        self.wait_leader()

    def close(self) -> None:
        for member in self.members:
            if member.is_running:
                member.kill()
        self._cluster.kubectl("delete", "lease", LEASE, "-n", "default", "--ignore-not-found")

    def spec(self) -> dict[str, object]:
        path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE}"
        try:
            return dict(self._cluster.api("GET", path)["spec"])
        except ApiStatus as error:
            if error.status in (404, 429, 503):
                return {}
            raise

    def leader(self) -> OperatorProcess | None:
        """The member that says in its log what the Lease says."""
        holder = self.spec().get("holderIdentity")
        return next(
            (m for m in self.members if holder and f"Leading, by Lease default/{LEASE}, as {holder}" in m.log), None
        )

    def wait_leader(self, other_than: OperatorProcess | None = None) -> OperatorProcess:
        def look() -> OperatorProcess:
            leader = self.leader()
            assert leader is not None
            assert leader is not other_than
            return leader

        return self._cluster.wait(look, message="another leads" if other_than else "one of them leads")

    def other(self, than: OperatorProcess) -> OperatorProcess:
        return next(member for member in self.members if member is not than)


@pytest.fixture
def pair(cluster: Harness, tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(cluster, tmp_path)
    pair.start()
    yield pair
    pair.close()


@pytest.fixture
def workspace(cluster: Harness, namespace: str, pair: Pair) -> Iterator[Workspace]:
    """A namespace of its own, with the pair at work."""
    workspace = Workspace(cluster, namespace, pair.members[0])
    yield workspace
    workspace.close()


@contextmanager
def paused(member: OperatorProcess) -> Iterator[None]:
    """It gets no time within the block, as on a node that hangs or a machine that is moved."""
    os.kill(member.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(member.pid, signal.SIGCONT)


def test_one_works_and_the_other_takes_over_at_once(workspace: Workspace, pair: Pair) -> None:
    workspace.create("pcs", podcliqueset("a", clique("w", 2)))
    before = uids(workspace.settled("a", 2))
    first = pair.wait_leader()
    second = pair.other(first)
    workspace.cluster.wait(lambda: "Standing by" in second.log, message="the other stands by")
    assert "Created" not in second.log, "who stands by writes nothing"
    assert first.stop() == 0
    assert "Released Lease" in first.log
    assert pair.wait_leader(first) is second
    workspace.create("pcs", podcliqueset("b", clique("w", 3)))
    workspace.settled("b", 3)
    assert uids(workspace.clique_pods("a-0-w")) == before
    first.start()
    second.stop()
    workspace.scale("pcs", "b", 2)
    workspace.settled("b", 6)


def test_killed(workspace: Workspace, pair: Pair) -> None:
    """Nothing is released: the other leads when the Lease ends, and finishes what was begun."""
    first = pair.wait_leader()
    workspace.create("pcs", podcliqueset("a", clique("w", 8), replicas=2))
    first.kill()
    assert pair.wait_leader(first) is not first
    workspace.settled("a", 16)
    assert len(workspace.pods()) == 16


def test_paused_beyond_its_lease(workspace: Workspace, pair: Pair) -> None:
    """When it wakes up another leads. It writes nothing, stands by, and can lead again later."""
    first = pair.wait_leader()
    second = pair.other(first)
    workspace.create("pcs", podcliqueset("a", clique("w", 8), replicas=2))
    mark = len(first.log)
    with paused(first):
        assert pair.wait_leader(first) is second
        workspace.settled("a", 16)
        workspace.scale("pcs", "a", 1)
        before = uids(workspace.settled("a", 8))
    workspace.cluster.wait(lambda: "No longer leading" in first.log[mark:], message="it notices")
    workspace.cluster.wait(lambda: "Standing by: " in first.log[mark:], message="it stands by")
    assert uids(workspace.settled("a", 8)) == before
    second.stop()
    assert pair.wait_leader(second) is first
    workspace.scale("pcs", "a", 2)
    assert before < uids(workspace.settled("a", 16))


def test_the_api_server_is_away_for_longer_than_the_lease(workspace: Workspace, pair: Pair) -> None:
    """Neither leads meanwhile, both live on, and one goes on where it stopped."""
    first = pair.wait_leader()
    workspace.create("pcs", podcliqueset("a", clique("w", 4)))
    before = uids(workspace.settled("a", 4))
    workspace.cluster.stop("kube-apiserver")
    workspace.cluster.wait(lambda: "No longer leading" in first.log, message="it gives up")
    workspace.cluster.start("kube-apiserver")
    pair.wait_leader()
    assert all(member.is_running for member in pair.members)
    workspace.wait(lambda: bool(workspace.items("pcs")), "the API server serves sets again")
    workspace.scale("pcs", "a", 2)
    assert before < uids(workspace.settled("a", 8))


def test_clocks_differ(workspace: Workspace, pair: Pair) -> None:
    """A Lease whose times lie in the future, or long ago, is worth as much as any other."""
    first = pair.wait_leader()
    second = pair.other(first)
    for year in ("2099", "1999"):
        times = {"renewTime": f"{year}-01-01T00:00:00.000000Z", "acquireTime": f"{year}-01-01T00:00:00.000000Z"}
        path = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/{LEASE}"
        workspace.cluster.api("PATCH", path, {"spec": times}, "application/merge-patch+json")
        workspace.cluster.wait(lambda: str(pair.spec()["renewTime"])[:4] not in ("2099", "1999"), message="a renewal")
        assert pair.leader() is first
        assert "Leading" not in second.log
