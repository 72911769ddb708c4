"""What is known of the replicas of sets and of scaling groups, worked out anew only where something changed.

The passes of set and group come often while replicas come up or are updated one after the other. They would cost as
much as set and group are large if they looked at everything each time.
"""

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from grove.api import labels, names
from grove.api.base import Resource
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.controllers.others import Child
from grove.controllers.routing import Name
from grove.controllers.world import World
from grove.plan.observed import PodView
from grove.plan.scalinggroup import group_of
from grove.plan.summary import ReplicaSummary, summarise
from grove.plan.template import Template
from grove.plan.units import Unit, look_at

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Known(Generic[K, V]):
    """What is known of replicas, by what they are replicas of."""

    def __init__(self) -> None:
        self._known: dict[K, tuple[Hashable, dict[int, V]]] = {}

    def of(self, key: K, basis: Hashable, replicas: int, look: Callable[[int], V]) -> list[V]:
        """All replicas of `key`. Those that are not known are looked at, and all are on another `basis` than before."""
        if key not in self._known or self._known[key][0] != basis:
            self._known[key] = (basis, {})
        known = self._known[key][1]
        for index in range(replicas):
            if index not in known:
                known[index] = look(index)
        return [known[index] for index in range(replicas)]

    def drop(self, key: K, index: str | None) -> None:
        """Forget a replica of `key`, given by its label, or all of them where the label does not tell."""
        number = names.index_of(index or "")
        if number is None:
            self.forget(key)
        elif key in self._known:
            self._known[key][1].pop(number, None)

    def forget(self, key: K) -> None:
        """Forget all replicas of `key`."""
        self._known.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()


class Summaries:
    """The summaries of all sets and groups. What changes in a store drops those it belongs to, by its labels before
    and after.
    """

    def __init__(self, world: World) -> None:
        self._world = world
        self._pods = world.pods_by_owner()
        self._replicas: Known[Name, ReplicaSummary] = Known()
        """by the set's name"""
        self._units: Known[str, Unit] = Known()
        """by the scaling group's uid"""
        world.services.on_change(self._child_changed)
        world.autoscalers.on_change(self._child_changed)
        world.scaling_groups.on_change(self._scaling_group_changed)
        world.podcliques.on_change(self._podclique_changed)
        world.podgangs.on_change(self._podgang_changed)
        world.pods.on_change(self._pod_changed)
        world.sets.on_change(self._set_changed)

    def of(self, template: Template) -> list[ReplicaSummary]:
        """The summaries of a set's replicas."""
        name, basis = (template.namespace, template.name), (template.uid, template.pcs.generation)
        return self._replicas.of(
            name,
            basis,
            template.replicas,
            lambda replica: summarise(template, replica, self._world.replica_snapshot(template, replica)),
        )

    def units(self, scaling_group: PodCliqueScalingGroup, template: Template) -> list[Unit]:
        """The replicas of a scaling group, none when the template has it no more."""
        group = group_of(scaling_group, template)
        if group is None:
            return []
        basis = (template.uid, template.pcs.generation, scaling_group.generation)
        live = self._world.members(scaling_group)
        return self._units.of(
            scaling_group.uid,
            basis,
            scaling_group.spec.replicas,
            lambda index: look_at(group, scaling_group, index, template, live, self._pods),
        )

    def _child_changed(self, old: Resource | Child | None, new: Resource | Child | None) -> None:
        for child in (old, new):
            if child is not None:
                self._drop_replica(child)

    def _podclique_changed(self, old: PodClique | None, new: PodClique | None) -> None:
        for podclique in (old, new):
            if podclique is not None:
                self._drop(podclique)

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        gang = new or old
        assert gang is not None
        podcliques = self._world.podcliques.by_index("gang", (gang.namespace, gang.name))
        if podcliques:  # their labels tell of the replica, those of a PodGang do not
            self._drop_replica(podcliques[0])
        else:
            self._replicas.forget((gang.namespace, gang.labels.get(labels.PART_OF, "")))

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        for owner in {pod.owner_uid for pod in (old, new) if pod is not None}:
            for podclique in self._world.podcliques.by_index("uid", owner):
                self._drop(podclique)

    def _set_changed(self, old: Template | None, new: Template | None) -> None:
        if old is not None and new is None:
            self._replicas.forget((old.namespace, old.name))

    def _scaling_group_changed(self, old: PodCliqueScalingGroup | None, new: PodCliqueScalingGroup | None) -> None:
        self._child_changed(old, new)
        if old is not None and (new is None or new.uid != old.uid):
            self._units.forget(old.uid)

    def _drop(self, podclique: PodClique) -> None:
        self._drop_replica(podclique)
        self._units.drop(podclique.owner_uid, podclique.labels.get(labels.SCALING_GROUP_REPLICA_INDEX))

    def _drop_replica(self, child: Resource | Child) -> None:
        set_name = child.labels.get(labels.PART_OF)
        if set_name:
            self._replicas.drop((child.namespace, set_name), child.labels.get(labels.PODCLIQUESET_REPLICA_INDEX))
        else:
            self._replicas.clear()  # somebody took the label away, so whose it is cannot be told
