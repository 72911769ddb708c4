"""Objects of Grove's kinds for tests, and how to give them to the API server."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from tests.cluster.harness import ApiStatus, Harness

STRICT = "?fieldValidation=Strict"
PLURALS = {
    "PodCliqueSet": "podcliquesets",
    "PodClique": "podcliques",
    "PodCliqueScalingGroup": "podcliquescalinggroups",
    "ClusterTopologyBinding": "clustertopologybindings",
    "PodGang": "podgangs",
}
POD_SPEC = {"containers": [{"name": "main", "image": "busybox:stable"}]}


def collection(kind: str, namespace: str) -> str:
    group = "scheduler.grove.io" if kind == "PodGang" else "grove.io"
    scope = "" if kind == "ClusterTopologyBinding" else f"/namespaces/{namespace}"
    return f"/apis/{group}/v1alpha1{scope}/{PLURALS[kind]}"


def make(kind: str, spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    group = "scheduler.grove.io" if kind == "PodGang" else "grove.io"
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def clique(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"podSpec": POD_SPEC}} | fields


def pcs(template: dict[str, Any], name: str = "x") -> dict[str, Any]:
    return make("PodCliqueSet", {"replicas": 1, "template": {"cliques": [clique()]} | template}, name)


def create(cluster: Harness, namespace: str, obj: dict[str, Any], query: str = STRICT) -> Any:
    return cluster.api("POST", collection(obj["kind"], namespace) + query, obj)


def refused(cluster: Harness, namespace: str, obj: dict[str, Any]) -> str:
    """Try to create `obj`; why it is refused as invalid."""
    with pytest.raises(ApiStatus) as caught:
        create(cluster, namespace, obj)
    assert caught.value.status == 422
    return caught.value.message


def scalable(kind: str, replicas: int | None, min_available: int | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"cliqueNames": ["a"]} if kind == "PodCliqueScalingGroup" else {"podSpec": POD_SPEC}
    numbers = {"replicas": replicas, "minAvailable": min_available}
    return make(kind, spec | {key: number for key, number in numbers.items() if number is not None})


def store(cluster: Harness, path: str, obj: dict[str, Any]) -> dict[str, Any]:
    """Store an object with its status, also one of a time when packDomain was not refused yet."""
    new = copy.deepcopy(obj)
    template = new["spec"]["template"]
    for owner in (template, *template["cliques"], *template.get("podCliqueScalingGroups", ())):
        if domain := owner.get("topologyConstraint", {}).pop("packDomain", None):
            owner["topologyConstraint"]["pack"] = {"required": domain}
    stored: dict[str, Any] = cluster.api("POST", path, new)
    if new != obj:
        obj["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
        stored = cluster.api("PUT", f"{path}/{stored['metadata']['name']}", obj)
    if "status" in obj:
        stored = cluster.api("PUT", f"{path}/{stored['metadata']['name']}/status", {**stored, "status": obj["status"]})
    return stored
