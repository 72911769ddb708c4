"""Who is woken by which change. Every reconciler waits for its key; none polls."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from grove.api import labels
from grove.api.base import Resource
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.controllers.world import Child, World
from grove.plan.observed import PodView
from grove.plan.template import Template

Name = tuple[str, str]
"""namespace, name"""
ReplicaKey = tuple[str, str, int]
"""namespace and name of a PodCliqueSet, index of its replica"""


@dataclass(frozen=True, slots=True)
class Wake:
    """Where the keys of each reconciler go."""

    podcliqueset: Callable[[Name], None]
    replica: Callable[[ReplicaKey], None]
    scaling_group: Callable[[Name], None]
    podclique: Callable[[Name], None]


class Router:
    """Subscribes to the stores and wakes the passes that read what changed."""

    def __init__(self, world: World, wake: Wake) -> None:
        self._world = world
        self._wake = wake
        world.sets.on_change(self._set_changed)
        world.scaling_groups.on_change(self._scaling_group_changed)
        world.podcliques.on_change(self._podclique_changed)
        world.podgangs.on_change(self._podgang_changed)
        world.pods.on_change(self._pod_changed)
        world.services.on_change(self._service_changed)
        world.autoscalers.on_change(self._autoscaler_changed)

    def _set_changed(self, old: Template | None, new: Template | None) -> None:
        template = new or old
        assert template is not None
        if old is not None and new is not None and not _beyond_status(old.pcs, new.pcs):
            return
        key = (template.namespace, template.name)
        self._wake.podcliqueset(key)
        if new is None:
            return
        for replica in range(new.replicas):
            self._wake.replica((*key, replica))
        if old is None or old.generation_hash != new.generation_hash or old.uid != new.uid:
            for podclique in self._world.podcliques.by_index("set", key):
                self._wake.podclique((podclique.namespace, podclique.name))
        if old is None or old.pcs.generation != new.pcs.generation:
            for group in self._world.scaling_groups.by_index("owner", new.uid):
                self._wake.scaling_group((group.namespace, group.name))

    def _scaling_group_changed(self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None) -> None:
        group = new or old
        assert group is not None
        self._wake_set(group)
        if old is None or new is None or _beyond_status(old, new):
            self._wake.scaling_group((group.namespace, group.name))
            self._wake_replica(group)

    def _podclique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        podclique = new or old
        assert podclique is not None
        if new is None:
            self._world.last_occupants.pop(podclique.uid, None)
        beyond_status = old is None or new is None or _beyond_status(old, new)
        group = podclique.labels.get(labels.SCALING_GROUP)
        if group is not None:
            self._wake.scaling_group((podclique.namespace, group))
        if beyond_status or group is None:
            self._wake_set(podclique)
        if beyond_status:
            self._wake.podclique((podclique.namespace, podclique.name))
            self._wake_replica(podclique)

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        podgang = new or old
        assert podgang is not None
        self._wake_set(podgang)
        for podclique in self._world.podcliques.by_index("gang", (podgang.namespace, podgang.name))[:1]:
            self._wake_replica(podclique)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        pod = new or old
        assert pod is not None
        if old is not None and new is not None and replace(old, resource_version=new.resource_version) == new:
            return
        for podclique in self._world.podcliques.by_index("uid", pod.owner_uid):
            self._wake.podclique((podclique.namespace, podclique.name))
            self._wake_replica(podclique)

    def _service_changed(self, old: Child | None, new: Child | None) -> None:
        child = new or old
        assert child is not None
        self._wake_owner(child.namespace, child.wire["metadata"].get("labels") or {})

    def _autoscaler_changed(self, old: Child | None, new: Child | None) -> None:
        child = new or old
        assert child is not None
        # It is called like its target, which knows its replica.
        target: Resource | None = self._world.podcliques.get(child.namespace, child.name)
        target = target or self._world.scaling_groups.get(child.namespace, child.name)
        if target is not None:
            self._wake_replica(target)

    def _wake_set(self, child: Resource) -> None:
        self._wake.podcliqueset((child.namespace, child.labels.get(labels.PART_OF, "")))

    def _wake_replica(self, child: Resource) -> None:
        self._wake_owner(child.namespace, child.labels)

    def _wake_owner(self, namespace: str, tags: Any) -> None:
        index = tags.get(labels.PODCLIQUESET_REPLICA_INDEX, "")
        if index.isascii() and index.isdigit():
            self._wake.replica((namespace, tags.get(labels.PART_OF, ""), int(index)))


def _beyond_status(old: Resource, new: Resource) -> bool:
    """Whether more than the status changed."""
    return (
        old.uid != new.uid
        or old.generation != new.generation
        or old.deleting != new.deleting
        or old.labels != new.labels
        or old.annotations != new.annotations
        or old.metadata.finalizers != new.metadata.finalizers
        or old.metadata.owner_references != new.metadata.owner_references
    )
