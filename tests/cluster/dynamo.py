"""A client that treats PodCliqueSets as NVIDIA Dynamo's operator does, down to its habits.

It writes whole objects and keeps its own count of generations: whatever moves a set's generation besides it is taken
for a manual edit and overwritten. It scales through /scale of the children, and judges readiness by their status.
"""

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

from tests.cluster.harness import ApiStatus
from tests.cluster.workspace import Object, Workspace, condition

HASH = "nvidia.com/last-applied-hash"
GENERATION = "nvidia.com/last-applied-generation"
DEPLOYMENT = "nvidia.com/dynamo-graph-deployment-name"
RESTART = "nvidia.com/restartAt"


@dataclass
class Component:
    """One role of a deployment: a clique of its own, or a leader and workers in a scaling group."""

    name: str
    replicas: int
    workers: int = 0
    """workers beside the leader in each replica; 0 makes it a clique of its own"""
    room: str = ""
    """namespace for whose nodes its pods wait (Workspace.open_rooms)"""

    @property
    def kind(self) -> str:
        return "pcsg" if self.workers else "pclq"

    @property
    def pods(self) -> int:
        return self.replicas * (1 + self.workers)


class DynamoClient:
    """Looks after one deployment in one namespace."""

    def __init__(self, workspace: Workspace, name: str, *components: Component) -> None:
        self.workspace = workspace
        self.name = name
        self.components = {component.name: component for component in components}
        self.delay = "15m"
        self.restarted = {component.name: "2026-09-01T00:00:00Z" for component in components}
        """when each component was asked to restart"""
        self.fights = 0
        """how often the set had another generation than the last write should have given it"""
        body = {"metadata": {"name": name}}
        self._owner = workspace.create("cm", body)  # stands in for the DynamoGraphDeployment

    # -- the set ---------------------------------------------------------------------------------------------------

    def reconcile(self) -> bool:
        """Create or update the PodCliqueSet if that is called for; whether something was written."""
        live = self.workspace.find("pcs", self.name)
        if live is None:
            spec = self._spec({})
            self.workspace.create("pcs", self._object(spec))
            return True
        metadata = live["metadata"]
        assert metadata["ownerReferences"][0]["uid"] == self._owner["metadata"]["uid"], "not ours to change"
        spec = self._spec(live["spec"])
        edited = int(metadata["annotations"][GENERATION]) != metadata["generation"]
        if not edited and metadata["annotations"][HASH] == _digest(spec):
            return False
        self.fights += edited
        live["spec"] = spec
        metadata["annotations"] |= {HASH: _digest(spec), GENERATION: str(metadata["generation"] + 1)}
        try:
            self.workspace.cluster.api("PUT", self.workspace.path("pcs", self.name), live)
        except ApiStatus as error:
            if error.status != 409:
                raise
            return self.reconcile()
        return True

    def _object(self, spec: Object) -> Object:
        owner = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": self.name,
            "uid": self._owner["metadata"]["uid"],
            "controller": True,
            "blockOwnerDeletion": True,
        }
        return {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueSet",
            "metadata": {
                "name": self.name,
                "labels": {DEPLOYMENT: self.name},
                "annotations": {HASH: _digest(spec), GENERATION: "1"},
                "ownerReferences": [owner],
            },
            "spec": spec,
        }

    def _spec(self, live: Mapping[str, Any]) -> Object:
        """The spec as it should be; replicas are those of the live set, for others scale what it made."""
        template = live.get("template", {})
        cliques = {item["name"]: item["spec"]["replicas"] for item in template.get("cliques", [])}
        groups = {item["name"]: item["replicas"] for item in template.get("podCliqueScalingGroups", [])}
        wanted: Object = {
            "cliqueStartupType": "CliqueStartupTypeAnyOrder",
            "headlessServiceConfig": {"publishNotReadyAddresses": True},
            "terminationDelay": self.delay,
            "cliques": [],
            "podCliqueScalingGroups": [],
        }
        for component in self.components.values():
            name = component.name
            if not component.workers:
                replicas = cliques.get(name, component.replicas)
                wanted["cliques"].append(self._clique(component, name, replicas, 1))
                continue
            members = [(f"{name}-ldr", 1), (f"{name}-wkr", component.workers)]
            wanted["cliques"] += [self._clique(component, member, count, count) for member, count in members]
            wanted["podCliqueScalingGroups"].append(
                {
                    "name": name,
                    "cliqueNames": [member for member, _ in members],
                    "replicas": groups.get(name, component.replicas),
                    "minAvailable": 1,
                }
            )
        return {"replicas": 1, "template": wanted}

    def _clique(self, component: Component, name: str, replicas: int, minimum: int) -> Object:
        command = "run --rank $((GROVE_PCLQ_POD_INDEX + 1))"
        container: Object = {"name": "main", "image": "repo/engine:1", "command": ["sh", "-c", command]}
        pod_spec: Object = {"schedulerName": "default-scheduler", "containers": [container]}
        if component.room:
            container["resources"] = {"requests": {"cpu": "33"}}
            pod_spec["nodeSelector"] = {"test/room": component.room}
        return {
            "name": name,
            "labels": {
                DEPLOYMENT: self.name,
                "nvidia.com/dynamo-component": component.name,
                "nvidia.com/dynamo-component-type": component.name,
                "nvidia.com/dynamo-namespace": f"serve-{self.name}",
                "nvidia.com/selector": f"{self.name}-{component.name}",
                "kai.scheduler/queue": "dynamo",
            },
            "annotations": {RESTART: self.restarted[component.name]},
            "spec": {"roleName": name, "replicas": replicas, "minAvailable": minimum, "podSpec": pod_spec},
        }

    # -- scaling ---------------------------------------------------------------------------------------------------

    def scale(self, name: str, replicas: int) -> None:
        """Want so many replicas of a component from now on, and write that to /scale if the child exists."""
        component = self.components[name]
        component.replicas = replicas
        path = self.workspace.path(component.kind, self.child(name), "scale")
        while True:
            try:
                scale = deepcopy(self.workspace.cluster.api("GET", path))
                if scale["spec"].get("replicas", 0) != replicas:
                    scale["spec"]["replicas"] = replicas
                    self.workspace.cluster.api("PUT", path, scale)
            except ApiStatus as error:
                if error.status == 409:
                    continue
                if error.status != 404:
                    raise
            return

    def child(self, name: str) -> str:
        """Name of the object that stands for a component."""
        return f"{self.name}-0-{name}"

    # -- reading ---------------------------------------------------------------------------------------------------

    def verdict(self, name: str) -> str:
        """Ready, or the reason why a component is not, by the child's status alone."""
        component = self.components[name]
        child = self.workspace.find(component.kind, self.child(name))
        if child is None:
            return "Missing"
        status, desired = child.get("status", {}), component.replicas
        counts = [status.get(field, 0) for field in ("replicas", "updatedReplicas")]
        ready = status.get("availableReplicas" if component.workers else "readyReplicas", 0)
        observed = status.get("observedGeneration", 0) >= child["metadata"]["generation"]
        if observed and (desired == 0 or [*counts, ready] == [desired] * 3):
            return "Ready"
        scheduled = status.get("scheduledReplicas", 0)
        unplaced = condition(child, "PodCliqueScheduled").get("status") == "False"
        if status.get("scheduleGatedReplicas", 0) or unplaced or 0 < scheduled < desired:
            return "InsufficientCapacity"
        return "Updating" if counts != [desired] * 2 else "PodsNotReady"

    def is_ready(self) -> bool:
        """Whether the set has observed its spec, its children run it, and every component is ready."""
        pcs = self.workspace.get("pcs", self.name)
        status = pcs.get("status", {})
        assert status.get("observedGeneration", 0) >= pcs["metadata"]["generation"], f"{status}"
        for component in self.components.values():
            assert self.verdict(component.name) == "Ready", f"{component.name}: {self.verdict(component.name)}"
            child = self.workspace.get(component.kind, self.child(component.name))
            ours, theirs = status["currentGenerationHash"], child["status"]["currentPodCliqueSetGenerationHash"]
            assert ours == theirs, f"{component.name} runs {theirs}, not {ours}"
        return True

    def pods(self, name: str) -> list[Object]:
        """Active pods of a component, found as Dynamo's Services find them."""
        labels = {"dynamo-component": name, "dynamo-component-type": name, "dynamo-namespace": f"serve-{self.name}"}
        return self.workspace.pods(",".join(f"nvidia.com/{key}={value}" for key, value in labels.items()))


def _digest(spec: Object) -> str:
    return hashlib.sha256(json.dumps(spec, sort_keys=True).encode()).hexdigest()[:16]
