"""Metrics and probes of the operator as Prometheus and the kubelet get them."""

import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.cluster.harness import Harness
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import Object, Workspace


def free_ports(count: int) -> list[int]:
    socks = [socket.socket() for _ in range(count)]
    try:
        for sock in socks:
            sock.bind(("127.0.0.1", 0))
        return [sock.getsockname()[1] for sock in socks]
    finally:
        for sock in socks:
            sock.close()


class Observed:
    """An operator with its ports open, one of several: it takes part in an election of its own."""

    def __init__(self, cluster: Harness, folder: Path, lease: str) -> None:
        self.metrics, self.probes = free_ports(2)
        address = {"bindAddress": "127.0.0.1"}
        server = {"metrics": {**address, "port": self.metrics}, "healthProbes": {**address, "port": self.probes}}
        election = {"enabled": True, "resourceNamespace": "default", "resourceName": lease}
        config = {**QUIET, "server": {**QUIET["server"], **server}, "leaderElection": election}
        self.process = OperatorProcess(cluster.kubeconfig, folder, config)

    def get(self, port: int, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def scrape(self) -> dict[tuple[str, ...], float]:
        """Every sample by its name and the values of its labels."""
        _, text = self.get(self.metrics, "/metrics")
        families = text_string_to_metric_families(text)
        return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


@pytest.fixture
def observed(cluster: Harness, operator: OperatorProcess, namespace: str, tmp_path: Path) -> Iterator[Observed]:
    """The only operator at work: what the shared one did would be missing from the numbers."""
    if operator.is_running:
        operator.stop()
    observed = Observed(cluster, tmp_path, lease=namespace)
    observed.process.start()
    yield observed
    observed.process.kill()


def test_a_scrape_shows_what_happens(cluster: Harness, namespace: str, observed: Observed) -> None:
    workspace = Workspace(cluster, namespace, observed.process)
    cluster.wait(lambda: observed.scrape()["leader_election_master_status", namespace] == 1, message="it leads")
    workspace.create("pcs", podcliqueset("m", clique("a", 3)))
    workspace.settled("m", 3)

    def shows() -> dict[tuple[str, ...], float]:
        found = observed.scrape()
        assert found["grove_pods", "ready"] >= 3
        assert found["grove_podgang_duration_seconds_count", "ready"] >= 1
        return found

    found = cluster.wait(shows, message="the scrape shows the pods")
    assert found["grove_podgangs", "Running"] >= 1
    assert found["rest_client_requests_total", "201", "pods", "create"] >= 3
    assert found["workqueue_work_duration_seconds_count", "podclique"] >= 1
    assert found["informer_objects", "podcliques.grove.io"] >= 1
    assert found["informer_silence_seconds", "pods"] < 120
    assert found["grove_events_total", "PodCreateSuccessful", "Normal"] >= 1
    assert found["process_resident_memory_bytes",] > 2**20
    assert found["rest_client_rate_limiter_duration_seconds_count",] >= 0
    assert found["workqueue_longest_running_processor_seconds", "podclique"] >= 0
    assert not [key for key in found if any("m-0-a" in part for part in key)], "no series of single objects"
    workspace.delete("pcs", "m")
    workspace.gone("m")


def test_a_scrape_tells_of_gates_breaches_recycled_gangs_and_updates(
    cluster: Harness, namespace: str, observed: Observed
) -> None:
    workspace = Workspace(cluster, namespace, observed.process)
    cluster.wait(lambda: observed.scrape()["leader_election_master_status", namespace] == 1, message="it leads")
    room = clique("a", 2, room=namespace)
    pcs = podcliqueset("m", room, clique("b", 1, 1), group("g", "b", 2, 1), terminationDelay="1h")
    workspace.create("pcs", pcs)

    def shows(**least: float) -> None:
        """Wait until samples, by name and labels with two underscores between them, are at least so large."""

        def look() -> bool:
            found = observed.scrape()
            seen = {name: found.get(tuple(name.split("__")), 0) for name in least}
            assert all(seen[name] >= value for name, value in least.items()), f"{seen}"
            return True

        cluster.wait(look, message=f"the scrape shows {least}")

    shows(grove_gated_pods__WaitingForBaseGang=1, grove_pods__gated=1, grove_pods__unscheduled=2)
    shows(grove_podgangs__Pending=2)
    workspace.open_rooms(2)
    workspace.settled("m", 4)
    shows(**{f"grove_podgang_duration_seconds_count__{stage}": 2 for stage in ("complete", "scheduled", "ready")})
    workspace.lose(workspace.clique_pods("m-0-a")[0])
    shows(grove_min_available_breached__PodClique=1, grove_events_total__PodGangUnhealthy__Warning=1)
    workspace.patch("pcs", "m", {"spec": {"template": {"terminationDelay": "1s"}}})
    shows(grove_events_total__PodCliqueSetReplicaDeleteSuccessful__Normal=1)
    workspace.restore_rooms()
    workspace.settled("m", 4)

    def hold(obj: Object) -> None:
        """Two pods that never get ready: the update stays under way."""
        obj["spec"]["template"]["cliques"][0]["annotations"] = {"sim.test/ready-delay": "1h"}

    workspace.update("pcs", "m", hold)
    shows(grove_podcliquesets__updating=1, grove_events_total__UpdateStarted__Normal=1, grove_pods__starting=1)
    workspace.delete("pcs", "m")
    workspace.gone("m")
    workspace.close()


def test_probes(cluster: Harness, observed: Observed) -> None:
    assert observed.get(observed.probes, "/healthz") == (200, "ok")
    cluster.wait(lambda: observed.get(observed.probes, "/readyz") == (200, "ok"), message="it is ready")
    os.kill(observed.process.pid, signal.SIGSTOP)
    try:
        with pytest.raises(OSError, match="timed out"):
            observed.get(observed.probes, "/healthz")
    finally:
        with suppress(ProcessLookupError):
            os.kill(observed.process.pid, signal.SIGCONT)


def test_not_ready_before_the_caches_are_filled(tmp_path: Path, cluster: Harness) -> None:
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(cluster.kubeconfig.read_text().replace(cluster.server, "https://127.0.0.1:1"))
    observed = Observed(cluster, tmp_path, lease="nowhere")
    observed.process = OperatorProcess(
        nowhere,
        tmp_path,
        {
            **QUIET,
            "server": {
                "webhooks": {"port": 0},
                "metrics": {"port": 0},
                "healthProbes": {"port": observed.probes, "bindAddress": "127.0.0.1"},
            },
        },
    )
    observed.process.start(wait=False)
    try:
        status, text = cluster.wait(lambda: observed.get(observed.probes, "/readyz"), message="probes are served")
        assert status == 503
        assert "pods: not listed yet" in text or "not started yet" in text
        assert observed.get(observed.probes, "/healthz")[0] == 200, "a restart would not help"
    finally:
        observed.process.kill()
