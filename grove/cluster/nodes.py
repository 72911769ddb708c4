"""Fake nodes: Node objects that KWOK keeps Ready, with GPUs and topology labels."""

import time
from typing import Any

from grove.cluster.client import ApiStatus, Client
from grove.cluster.errors import ClusterError

NODES_PER_RACK, NODES_PER_BLOCK, NODES_PER_ZONE = 7, 20, 28
"""How many neighbours share a rack, a block, a zone. They do not divide each other: one may cut across another."""

_CAPACITY = {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110", "nvidia.com/gpu": "8"}


def node(index: int) -> dict[str, Any]:
    """The Node object `node-<index>`: 64 CPU, 256 Gi, 8 GPUs, room for 110 pods, and its place in the topology."""
    name = f"node-{index}"
    zone = f"zone-{index // NODES_PER_ZONE}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "type": "kwok",
                "kubernetes.io/hostname": name,
                "kubernetes.io/rack": f"rack-{index // NODES_PER_RACK}",
                "kubernetes.io/block": f"block-{index // NODES_PER_BLOCK}",
                "kubernetes.io/zone": zone,
                "topology.kubernetes.io/zone": zone,
            },
        },
        "status": {"capacity": _CAPACITY, "allocatable": _CAPACITY},
    }


def create(client: Client, count: int) -> None:
    """Make sure that `node-0` to `node-<count - 1>` exist; others are left alone."""
    for index in range(count):
        try:
            client.api("POST", "/api/v1/nodes", node(index))
        except ApiStatus as error:
            if error.reason != "AlreadyExists":
                raise


def wait_usable(client: Client, timeout: float = 120.0) -> int:
    """Wait until every node is Ready and takes pods, as far as it is not cordoned; returns how many there are.

    Raises ClusterError when one is not after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    while True:
        nodes = client.api("GET", "/api/v1/nodes")["items"]
        unusable = [item["metadata"]["name"] for item in nodes if not is_ready(item) or _has_startup_taint(item)]
        if not unusable:
            return len(nodes)
        if time.monotonic() > deadline:
            raise ClusterError(f"{len(unusable)} of {len(nodes)} nodes are not Ready, the first is {unusable[0]}")
        time.sleep(0.1)


def is_ready(item: dict[str, Any]) -> bool:
    """Whether the Node object has the condition Ready=True."""
    conditions = item.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _has_startup_taint(item: dict[str, Any]) -> bool:
    """The API server puts this taint on a new node; the controller manager removes it some time after Ready."""
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in item["spec"].get("taints", []))
