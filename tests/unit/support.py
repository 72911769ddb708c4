"""Builders of the objects that the tests of the core are about, and a small cluster on paper to hold them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from grove.admission.defaults import default_podcliqueset
from grove.api import labels, names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.plan import children
from grove.plan.gangs import Gang, GangState, ReplicaView, expected_gangs, live_group_replicas, observe
from grove.plan.observed import PodView
from grove.plan.pods import build_pod, pod_name
from grove.plan.ranks import rank_offset
from grove.plan.template import Template

Object = dict[str, Any]

SAMPLES = Path(__file__).parents[2] / "samples"
GOLDEN = Path(__file__).parent / "golden"
NOW = "2026-09-01T00:00:00Z"


def clique(name: str, replicas: int | None = None, min_available: int | None = None, **fields: Any) -> Object:
    """A clique of a set's template; `fields` beside labels and annotations go to its spec, the image to its podSpec."""
    pod_spec = {"containers": [{"name": "main", "image": fields.pop("image", "example.com/image:1")}]}
    result: Object = {"name": name, **{key: fields.pop(key) for key in ("labels", "annotations") if key in fields}}
    spec: Object = {"podSpec": pod_spec, "replicas": replicas, "minAvailable": min_available, **fields}
    result["spec"] = {key: value for key, value in spec.items() if value is not None}
    return result


def group(name: str, cliques: Sequence[str], replicas: int = 1, min_available: int = 1, **fields: Any) -> Object:
    """A scaling group of a set's template."""
    return {"name": name, "cliqueNames": list(cliques), "replicas": replicas, "minAvailable": min_available, **fields}


def pod_set(
    *cliques: Object, groups: Sequence[Object] = (), name: str = "web", replicas: int = 1, **template: Any
) -> Object:
    """A PodCliqueSet as a user writes it; `template` goes to spec.template."""
    spec = {"replicas": replicas, "template": {"cliques": list(cliques), **template}}
    if groups:
        spec["template"]["podCliqueScalingGroups"] = list(groups)  # type: ignore[index]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec}


def stored(obj: Object, generation: int = 1, version: int = 1, **metadata: Any) -> Object:
    """An object as the API server would return it: with uid `uid-<name>` unless it is given."""
    meta = {"uid": f"uid-{obj['metadata']['name']}", "generation": generation, "resourceVersion": str(version)}
    return {**obj, "metadata": {**obj["metadata"], **meta, **metadata}}


def template(obj: Object, **metadata: Any) -> Template:
    """The template of a set that is stored."""
    return Template(PodCliqueSet.from_wire(default_podcliqueset(stored(obj, **metadata))))


def sample(file: str) -> Template:
    """The template of a sample, read from its file."""
    return Template(PodCliqueSet.from_wire(default_podcliqueset(load(SAMPLES / file))))


def load(path: Path) -> Any:
    """The content of a YAML file."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def by_name(objects: Sequence[Object]) -> dict[str, Object]:
    """Objects by name."""
    return {obj["metadata"]["name"]: obj for obj in objects}


def pod_wire(
    podclique: PodClique,
    index: int,
    *,
    tpl: Template | None = None,
    name: str = "",
    uid: str = "",
    predecessor: str = "",
    gated: bool = True,
    node: str = "",
    ready: bool = False,
    phase: str = "",
    created: str = NOW,
    deleting: bool = False,
    labels_: Mapping[str, str] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Object:
    """A pod of a PodClique as the API server would return it. A ready one has a node, one with a node has no gate."""
    name = name or pod_name(podclique.name, podclique.uid, index, predecessor, {})
    obj = build_pod(podclique, index, name, rank_offset(podclique, tpl))
    node = node or ("node-1" if ready else "")
    metadata: Object = {"uid": uid or f"uid-{name}", "creationTimestamp": created}
    if deleting:
        metadata["deletionTimestamp"] = NOW
    obj = stored(obj, **metadata)
    obj["metadata"]["labels"] = {**obj["metadata"]["labels"], **(labels_ or {})}
    conditions = [{"type": "Ready", "status": str(ready)}]
    if node or not gated:
        obj["spec"]["schedulingGates"] = obj["spec"]["schedulingGates"][1:]
    if node:
        obj["spec"]["nodeName"] = node
        conditions.append({"type": "PodScheduled", "status": "True"})
    elif gated:
        conditions.append({"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"})
    phase = phase or ("Running" if ready else "Pending")
    obj["status"] = {"phase": phase, "conditions": conditions, **(status or {})}
    return obj


def pod(podclique: PodClique, index: int, **fields: Any) -> PodView:
    """The view of such a pod."""
    return PodView.from_wire(pod_wire(podclique, index, **fields))


@dataclass
class Paper:
    """One replica of a set on paper: PodCliques, scaling groups and pods that tests put in place by hand."""

    template: Template
    replica: int = 0
    podcliques: dict[str, PodClique] = field(default_factory=dict)
    scaling_groups: dict[str, PodCliqueScalingGroup] = field(default_factory=dict)
    pods: dict[str, list[PodView]] = field(default_factory=dict)

    @classmethod
    def of(cls, obj: Object, scaled: Mapping[str, int] | None = None, replica: int = 0) -> "Paper":
        """All PodCliques and scaling groups of a set's replica, without pods; `scaled` gives live replicas by name."""
        paper = cls(template(obj), replica)
        tpl, scaled = paper.template, scaled or {}
        for config in tpl.groups.values():
            wire = stored(children.scaling_group(tpl, replica, config))
            wire["spec"]["replicas"] = scaled.get(wire["metadata"]["name"], config.replicas)
            paper.scaling_groups[wire["metadata"]["name"]] = PodCliqueScalingGroup.from_wire(wire)
        made = [children.standalone_podclique(tpl, replica, one) for one in tpl.standalone]
        for name in tpl.groups:
            live = paper.scaling_groups[names.scaling_group_name(tpl.name, replica, name)]
            made += [
                children.member_podclique(tpl, name, live, replica, index, member)
                for index in range(live.spec.replicas)
                for member in tpl.members(name)
            ]
        for wire in made:
            wire["spec"]["replicas"] = scaled.get(wire["metadata"]["name"], wire["spec"]["replicas"])
            paper.podcliques[wire["metadata"]["name"]] = PodClique.from_wire(stored(wire))
        return paper

    @property
    def view(self) -> ReplicaView:
        groups = live_group_replicas(self.template, self.replica, self.scaling_groups)
        return ReplicaView(self.podcliques, groups, self.pods)

    @property
    def gangs(self) -> list[Gang]:
        return expected_gangs(self.template, self.replica, self.view)

    def state(self, gang: str) -> GangState:
        """A gang as observed."""
        return observe(next(one for one in self.gangs if one.name == gang), self.view)

    def add(self, podclique: str, *indices: int, **fields: Any) -> list[PodView]:
        """Put pods in place."""
        owner = self.podcliques[podclique]
        made = [pod(owner, index, tpl=self.template, **fields) for index in indices]
        self.pods.setdefault(owner.uid, []).extend(made)
        return made

    def fill(self, gang: str = "", **fields: Any) -> None:
        """Put every pod of a gang (of all) in place, in place of those that are there."""
        for podclique in self.podcliques.values():
            if podclique.labels[labels.PODGANG] == gang or not gang:
                self.pods[podclique.uid] = []
                self.add(podclique.name, *range(podclique.spec.replicas or 0), **fields)
