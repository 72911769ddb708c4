"""Who is woken by which change. Every reconciler waits for its key; none polls."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from grove.api import labels, names
from grove.api.base import Resource
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.controllers.others import Child
from grove.controllers.world import World
from grove.plan.breach import breach_of, never_had_minimum, terminated_until
from grove.plan.observed import PodView
from grove.plan.podclique import wanted_pods
from grove.plan.progress import current_replica, replica_of, under_way, updating
from grove.plan.template import Template
from grove.plan.topology import binding_name
from grove.runtime.cache import Store, Stored

R = TypeVar("R", bound=Resource)

Name = tuple[str, str]
"""namespace, name"""
ReplicaKey = tuple[str, str, int]
"""namespace and name of a PodCliqueSet, index of its replica"""


AT_ONCE = 0.0
SOON = 0.05
"""Seconds for changes that come in swarms and decide nothing by themselves: pods of one clique getting ready, say."""
LATER = 0.2
"""Seconds for what only counts towards a summary."""
IN_CASE = 10.0
"""Seconds for what the pass knows, as it wrote it itself: one more look, should nothing else ask for it before."""


_BOOKKEEPING = ("resourceVersion", "generation", "managedFields")


@dataclass(frozen=True, slots=True)
class Wake:
    """Where the keys of each reconciler go: each takes a key and the seconds until its pass at the latest."""

    podcliqueset: Callable[[Name, float], None]
    replica: Callable[[ReplicaKey, float], None]
    scaling_group: Callable[[Name, float], None]
    podclique: Callable[[Name, float], None]


@dataclass(frozen=True, slots=True)
class _Urgency:
    """Within how many seconds a pod's change is looked at, by the pass of its PodClique and by that of its gang."""

    podclique: float
    replica: float
    counts: bool
    """whether there is one more or one less that holds its place, or that is ready"""


class Router:
    """Subscribes to the stores, while connected, and wakes the passes that read what changed.

    A status that changes wakes the pass that writes it, too, unless the change is the answer to its own write: the
    answer may have been lost, and others (a second operator, a person) may have written it.
    """

    def __init__(self, world: World, wake: Wake) -> None:
        self._world = world
        self._wake = wake
        self._routes: list[tuple[Store[Any], Callable[[Any, Any], None]]] = [
            (world.sets, self._set_changed),
            (world.bindings, self._binding_changed),
            (world.scaling_groups, self._scaling_group_changed),
            (world.podcliques, self._podclique_changed),
            (world.podgangs, self._podgang_changed),
            (world.pods, self._pod_changed),
            (world.services, self._service_changed),
            (world.autoscalers, self._autoscaler_changed),
            *((store, self._scheduler_object_changed) for store in world.scheduler_objects.stores.values()),
        ]
        self._connected = False
        world.scheduler_objects.on_served(self._schedulers_changed)

    def connect(self) -> None:
        """Wake everything that is there, and from now on what a change concerns."""
        self._connected = True
        for store, changed in self._routes:
            for obj in store:
                changed(None, obj)
            store.on_change(changed)

    def disconnect(self) -> None:
        """Wake nothing any more."""
        self._connected = False
        for store, changed in self._routes:
            store.off_change(changed)

    def _set_changed(self, old: Template | None, new: Template | None) -> None:
        template = new or old
        assert template is not None
        key = (template.namespace, template.name)
        if old is not None and new is not None and not _beyond_status(old.pcs, new.pcs):
            if not self._world.taking:
                self._wake.podcliqueset(key, SOON)
            self._update_changed(old, new)
            return
        self._wake.podcliqueset(key, AT_ONCE)
        for replica in range(template.replicas):
            self._wake.replica((*key, replica), AT_ONCE)
        if new is None:
            return
        if old is None or old.generation_hash != new.generation_hash or old.uid != new.uid:
            for podclique in self._world.podcliques.by_index("set", key):
                self._wake.podclique((podclique.namespace, podclique.name), AT_ONCE)
        if old is None or old.pcs.generation != new.pcs.generation:
            for group in self._world.scaling_groups.by_index("owner", new.uid):
                self._wake.scaling_group((group.namespace, group.name), AT_ONCE)

    def _binding_changed(self, old: ClusterTopologyBinding | None, new: ClusterTopologyBinding | None) -> None:
        """Wake the sets whose constraints speak of a binding's levels."""
        binding = new or old
        assert binding is not None
        if old is not None and new is not None and old.spec == new.spec:
            return
        for template in self._world.sets:
            if binding_name(template) == binding.name:
                key = (template.namespace, template.name)
                self._wake.podcliqueset(key, SOON)
                for replica in range(template.replicas):
                    self._wake.replica((*key, replica), SOON)
                for podclique in self._world.podcliques.by_index("set", key) if old is None else ():
                    self._wake.podclique((podclique.namespace, podclique.name), SOON)

    def _update_changed(self, old: Template, new: Template) -> None:
        """Wake whose turn has come in a rolling update, and everybody when one begins or ends."""
        turn = current_replica(new)
        if under_way(old) != under_way(new):
            replicas = range(new.replicas)
        elif turn is not None and turn != current_replica(old):
            replicas = range(turn, turn + 1)
        else:
            return
        for replica in replicas:
            for clique in new.standalone:
                self._wake.podclique((new.namespace, names.podclique_name(new.name, replica, clique.name)), AT_ONCE)
            for group in new.groups:
                self._wake.scaling_group((new.namespace, names.scaling_group_name(new.name, replica, group)), AT_ONCE)

    def _scaling_group_changed(self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None) -> None:
        group = new or old
        assert group is not None
        more = old is None or new is None or _beyond_status(old, new)
        if more or not self._world.taking:
            self._wake.scaling_group((group.namespace, group.name), AT_ONCE if more else SOON)
        for seen in _sightings(old, new):
            self._wake_set(seen, AT_ONCE if more else LATER)
            if more:
                self._wake_replica(seen, AT_ONCE)
        if old is None or (new is not None and (old.uid != new.uid or self._ended(old, new))):
            for podclique in self._world.podcliques.by_index("owner", group.uid):
                self._wake.podclique((podclique.namespace, podclique.name), AT_ONCE)

    def _ended(self, old: PodCliqueScalingGroup, new: PodCliqueScalingGroup) -> bool:
        """Whether an update of a group has ended, so that breach counts again for its PodCliques."""
        template = self._world.set_of(new)
        return template is not None and updating(old, template) and not updating(new, template)

    def _podclique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        podclique = new or old
        assert podclique is not None
        if new is None:
            self._world.last_occupants.pop(podclique.uid, None)
        more = old is None or new is None or _beyond_status(old, new)
        if more or not self._world.taking:
            self._wake.podclique((podclique.namespace, podclique.name), AT_ONCE if more else SOON)
        if old is not None and new is not None and not more:
            self._podclique_judged(old, new)
        for seen in _sightings(old, new):
            group = seen.labels.get(labels.SCALING_GROUP)
            if group is not None:
                self._wake.scaling_group((seen.namespace, group), AT_ONCE if more else SOON)
            if more or group is None:
                self._wake_set(seen, LATER)
            if more:
                self._wake_replica(seen, IN_CASE if group is None and self._is_made(old) else AT_ONCE)

    def _podclique_judged(self, old: PodClique, new: PodClique) -> None:
        """Wake who reads a status: the gang's pass for what it tells, the PodClique's own when its pods are to go."""
        if terminated_until(old) != terminated_until(new):
            self._wake.podclique((new.namespace, new.name), AT_ONCE)
        if _judgement(old) != _judgement(new):
            self._wake_replica(new, SOON)

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        podgang = new or old
        assert podgang is not None
        self._wake_set(podgang, LATER)
        if old is None or new is None or _beyond_status(old, new) or not self._world.taking:
            for podclique in self._world.podcliques.by_index("gang", (podgang.namespace, podgang.name))[:1]:
                self._wake_replica(podclique, IN_CASE if self._is_made(old) else AT_ONCE if new is None else SOON)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        if old == new:
            return
        urgency = self._urgency(old, new)
        for owner in {seen.owner_uid for seen in (old, new) if seen is not None}:  # a pod may be taken from its owner
            for podclique in self._world.podcliques.by_index("uid", owner):
                self._wake.podclique((podclique.namespace, podclique.name), urgency.podclique)
                self._wake_replica(podclique, urgency.replica)
                group = podclique.labels.get(labels.SCALING_GROUP)
                if urgency.counts and group is not None:
                    # Its update goes on by the pods: new ones may be ready before a status ever told of the gap.
                    self._wake.scaling_group((podclique.namespace, group), LATER)
                if urgency.counts:
                    self._wake_update(podclique)
        if new is not None and not new.owner_uid:
            self._wake.podclique((new.namespace, new.podclique), AT_ONCE)

    def _urgency(self, old: PodView | None, new: PodView | None) -> _Urgency:
        """Judge the change of a pod.

        A pod that holds its place no more gets a successor at once, and one that came joins its gang. One that got
        ready lets others go, or start where there is an order; one on a node lets scaled gangs start, and what goes
        beyond the minimum. The rest is only told in statuses.
        """
        before, after = old is not None and old.active, new is not None and new.active
        if before != after or (old is not None and new is not None and _tags(old) != _tags(new)):
            return _Urgency(SOON if self._world.taking and after else AT_ONCE, AT_ONCE if after else LATER, counts=True)
        if old is None or new is None:  # it has ended now, and held its place no more before
            return _Urgency(SOON, LATER, counts=False)
        if self._world.taking and replace(old, gates=new.gates) == new:
            return _Urgency(LATER, IN_CASE, counts=False)
        turned = old.ready != new.ready
        placed = old.scheduled != new.scheduled or old.node != new.node or old.refusal != new.refusal
        template = self._world.sets.get(new.namespace, new.set_name)
        urgent = old.owner_uid != new.owner_uid or (
            template is not None
            and ((turned and bool(template.starts_after)) or (placed and self._others_wait(new, template)))
        )
        return _Urgency(SOON if turned else LATER, SOON if urgent else LATER, counts=turned)

    def _others_wait(self, pod: PodView, template: Template) -> bool:
        """Whether there may be pods whose gates come off only when others are on nodes."""
        owners = self._world.podcliques.by_index("uid", pod.owner_uid)
        return bool(template.groups) or any(wanted_pods(one) > (one.spec.min_available or 0) for one in owners)

    def _wake_update(self, podclique: PodClique) -> None:
        """Wake the set whose update has come to these pods, as it judges by pods whether the replica is done.

        Pods that go and come within a moment need not move the status of their PodClique at all.
        """
        template = self._world.set_of(podclique)
        if template is not None and current_replica(template) == replica_of(podclique) is not None:
            self._wake_set(podclique, SOON)

    def _service_changed(self, old: Child | None, new: Child | None) -> None:
        for child in (new, old):
            if child is not None:
                tags = child.wire["metadata"].get("labels") or {}
                self._wake_owner(child.namespace, tags, IN_CASE if self._is_made(old) else SOON)

    def _autoscaler_changed(self, old: Child | None, new: Child | None) -> None:
        child = new or old
        assert child is not None
        # It is called like its target, which knows its replica.
        target: Resource | None = self._world.podcliques.get(child.namespace, child.name)
        target = target or self._world.scaling_groups.get(child.namespace, child.name)
        if target is not None:
            self._wake_replica(target, IN_CASE if self._is_made(old) else SOON)

    def _scheduler_object_changed(self, old: Child | None, new: Child | None) -> None:
        if old is not None and new is not None and _content(old) == _content(new):
            return
        if new is not None and self._world.taking:
            return  # the answer to a write of ours says what the pass that wrote it knows
        tags = [child.labels for child in (new, old) if child is not None]
        if not any(labels.PODGANG in tag for tag in tags):
            self._schedulers_changed()  # a queue, say, which any number of sets may use
        for child in (new, old):
            if child is not None:
                self._wake_owner(child.namespace, child.labels, SOON)

    def _schedulers_changed(self) -> None:
        """Something changed that all sets of a scheduler may depend on, which is rare."""
        for template in self._world.sets:
            key = (template.namespace, template.name)
            self._wake.podcliqueset(key, SOON)
            for replica in range(template.replicas):
                self._wake.replica((*key, replica), SOON)
            for podclique in self._world.podcliques.by_index("set", key):
                self._wake.podclique((podclique.namespace, podclique.name), SOON)

    def _wake_set(self, child: Resource, within: float) -> None:
        self._wake.podcliqueset((child.namespace, child.labels.get(labels.PART_OF, "")), within)

    def _wake_replica(self, child: Resource, within: float) -> None:
        self._wake_owner(child.namespace, child.labels, within)

    def _wake_owner(self, namespace: str, tags: Mapping[str, str], within: float) -> None:
        index, name = names.index_of(tags.get(labels.PODCLIQUESET_REPLICA_INDEX, "")), tags.get(labels.PART_OF, "")
        if index is not None and self._world.sets.get(namespace, name) is not None:  # a set that comes wakes them all
            self._wake.replica((namespace, name, index), within)

    def _is_made(self, old: Stored | None) -> bool:
        """Whether the change is the answer to the create of an object, `old` being what was known of it."""
        return old is None and self._world.taking


def _tags(pod: PodView) -> tuple[str, ...]:
    return pod.gang, pod.template_hash, pod.group_template_hash


def _sightings(old: R | None, new: R | None) -> list[R]:
    """The states of a child whose labels name those that a change concerns.

    The one before counts too where its labels were others: who takes a label away must not hide the child from the
    pass that puts it back.
    """
    same = old is not None and new is not None and old.labels == new.labels
    return [seen for seen in ((new,) if same else (new, old)) if seen is not None]


def _content(child: Child) -> dict[str, object]:
    """What is kept of an object, without its version."""
    metadata = {key: value for key, value in child.wire["metadata"].items() if key not in _BOOKKEEPING}
    return {**child.wire, "metadata": metadata}


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


def _judgement(podclique: PodClique) -> tuple[object, ...]:
    """What the gang's pass reads of a PodClique's status."""
    return breach_of(podclique), never_had_minimum(podclique), podclique.status.last_errors
