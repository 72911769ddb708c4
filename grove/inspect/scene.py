"""A set and all it has, put together from lists as the API server sends them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from grove.admission.defaults import default_podcliqueset
from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang
from grove.plan.gangs import GangState, ReplicaView, expected_gangs, live_group_replicas, observe
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.plan.observed import PodView
from grove.plan.template import Template
from grove.runtime.resources import ResourceType

Object = dict[str, Any]

KINDS: Final = (PODCLIQUESET, PODCLIQUESCALINGGROUP, PODCLIQUE, PODGANG, POD)
"""What a scene is made of."""


@dataclass(frozen=True, slots=True)
class Pod:
    """A pod, reduced to what plans read, and as the API server sent it."""

    view: PodView
    wire: Object


@dataclass(frozen=True)
class Scene:
    """One set and its children, each kind by name; children that it does not own are left out."""

    template: Template
    scaling_groups: Mapping[str, PodCliqueScalingGroup]
    podcliques: Mapping[str, PodClique]
    podgangs: Mapping[str, PodGang]
    pods: Mapping[str, Sequence[Pod]]
    """by uid of the owning PodClique, in the order of their indices"""

    def pods_of(self, podclique: PodClique) -> Sequence[Pod]:
        """All pods of a PodClique, those on their way out too."""
        return self.pods.get(podclique.uid, ())

    def view(self, replica: int) -> ReplicaView:
        """One replica as plans see it."""
        groups = live_group_replicas(self.template, replica, self.scaling_groups)
        return ReplicaView(self.podcliques, groups, self._views)

    @cached_property
    def gangs(self) -> Mapping[str, GangState]:
        """Every gang that should exist, by name, the base gang of a replica before its scaled ones."""
        return {
            gang.name: observe(gang, view)
            for replica in range(self.template.replicas)
            for view in [self.view(replica)]
            for gang in expected_gangs(self.template, replica, view)
        }

    @cached_property
    def _views(self) -> Mapping[str, list[PodView]]:
        return {uid: [pod.view for pod in pods] for uid, pods in self.pods.items()}


def scenes(found: Mapping[ResourceType, Iterable[Object]]) -> list[Scene]:
    """The sets among the objects, by namespace and name; `found` has objects of `KINDS`, a missing kind has none."""
    children: dict[tuple[str, str], dict[ResourceType, list[Object]]] = defaultdict(lambda: defaultdict(list))
    for resource in KINDS[1:]:
        for obj in found.get(resource, ()):
            meta = obj["metadata"]
            key = meta.get("namespace", ""), (meta.get("labels") or {}).get(labels.PART_OF, "")
            children[key][resource].append(obj)
    sets = [PodCliqueSet.from_wire(default_podcliqueset(obj)) for obj in found.get(PODCLIQUESET, ())]
    return [
        _scene(Template(pcs), children[pcs.namespace, pcs.name])
        for pcs in sorted(sets, key=lambda pcs: (pcs.namespace, pcs.name))
    ]


def _scene(template: Template, children: Mapping[ResourceType, list[Object]]) -> Scene:
    groups = [PodCliqueScalingGroup.from_wire(obj) for obj in children.get(PODCLIQUESCALINGGROUP, ())]
    groups = [group for group in groups if group.owner_uid == template.uid]
    owners = {template.uid, *(group.uid for group in groups)}
    podcliques = [PodClique.from_wire(obj) for obj in children.get(PODCLIQUE, ())]
    podgangs = [PodGang.from_wire(obj) for obj in children.get(PODGANG, ())]
    pods: dict[str, list[Pod]] = defaultdict(list)
    for obj in children.get(POD, ()):
        pod = Pod(PodView.from_wire(obj), obj)
        pods[pod.view.owner_uid].append(pod)
    return Scene(
        template,
        {group.name: group for group in sorted(groups, key=lambda one: one.name)},
        {one.name: one for one in podcliques if one.owner_uid in owners},
        {gang.name: gang for gang in podgangs if gang.owner_uid == template.uid},
        {uid: sorted(some, key=lambda pod: (pod.view.index, pod.view.name)) for uid, some in pods.items()},
    )
