"""Nodes that hold one pod each, cordoned and opened one by one: capacity in pods, as gang tests count it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from grove.cluster import nodes
from tests.cluster.harness import Harness
from tests.cluster.workspace import MERGE

Object = dict[str, Any]

TAINT = "test/agent"
"""Label and taint of these nodes, so that pods of other tests do not come here."""

POD: Object = {
    "nodeSelector": {TAINT: "true"},
    "tolerations": [{"key": TAINT, "operator": "Exists"}],
    "terminationGracePeriodSeconds": 5,
    "containers": [
        {
            "name": "main",
            "image": "registry.example/main:1",
            "resources": {"requests": {"memory": "80Mi"}, "limits": {"memory": "80Mi"}},
        }
    ],
}
"""podSpec of pods that need half of such a node and a bit."""


class Capacity:
    """Some of these nodes, in one test: first all are cordoned."""

    def __init__(self, cluster: Harness, names: list[str]) -> None:
        self._cluster = cluster
        self._closed = list(names)
        self.opened: list[str] = []

    def open(self, count: int) -> None:
        """Uncordon so many more."""
        for _ in range(count):
            self.opened.append(self._closed.pop())
            self._cordon(self.opened[-1], False)

    def close(self, count: int | None = None) -> None:
        """Cordon those that were opened last, or all; pods on them stay."""
        for _ in range(len(self.opened) if count is None else count):
            self._closed.append(self.opened.pop())
            self._cordon(self._closed[-1], True)

    def _cordon(self, node: str, cordoned: bool) -> None:
        self._cluster.api("PATCH", f"/api/v1/nodes/{node}", {"spec": {"unschedulable": cordoned or None}}, MERGE)


@contextmanager
def one_pod_nodes(cluster: Harness, count: int) -> Iterator[list[str]]:
    """So many cordoned nodes of 150Mi, gone after the block."""
    names = [f"agent-{number}" for number in range(count)]
    for name in names:
        node = nodes.node(0)
        node["metadata"].update(name=name, labels={"kubernetes.io/hostname": name, TAINT: "true"})
        node["spec"] = {"unschedulable": True, "taints": [{"key": TAINT, "value": "true", "effect": "NoSchedule"}]}
        for field in ("capacity", "allocatable"):
            node["status"] = {**node["status"], field: {"cpu": "4", "memory": "150Mi", "pods": "110"}}
        cluster.api("POST", "/api/v1/nodes", node)
    try:
        nodes.wait_usable(cluster.cluster.client())
        yield names
    finally:
        for name in names:
            cluster.api("DELETE", f"/api/v1/nodes/{name}")


def wait_empty(cluster: Harness, names: list[str]) -> None:
    """Wait until no pod is on the nodes any more."""

    def empty() -> bool:
        left = {
            pod["metadata"]["name"]
            for pod in cluster.api("GET", "/api/v1/pods")["items"]
            if pod["spec"].get("nodeName") in names
        }
        assert not left, f"still there: {sorted(left)}"
        return True

    cluster.wait(empty, 120, "the pods of the test before are gone")
