"""What is known of each set's replicas, worked out anew only where something changed.

The set's own pass comes often while replicas come up or are updated one after the other. It would cost as much as the
set is large if it looked at everything each time.
"""

from typing import Any

from grove.api import labels
from grove.api.base import Resource
from grove.api.podgang import PodGang
from grove.controllers.routing import Name
from grove.controllers.world import Child, World
from grove.plan.observed import PodView
from grove.plan.summary import ReplicaSummary, summarise
from grove.plan.template import Template
from grove.runtime.cache import Store

Basis = tuple[str, int]
"""uid and generation of the set that summaries were made for"""


class Summaries:
    """The summaries of all sets. What changes in a store drops those it belongs to, by its labels before and after."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._known: dict[Name, tuple[Basis, dict[int, ReplicaSummary]]] = {}
        stores: tuple[Store[Any], ...] = (
            world.scaling_groups, world.podcliques, world.services, world.autoscalers,
        )  # fmt: skip
        for store in stores:
            store.on_change(self._child_changed)
        world.podgangs.on_change(self._podgang_changed)
        world.pods.on_change(self._pod_changed)
        world.sets.on_change(self._set_changed)

    def of(self, template: Template) -> list[ReplicaSummary]:
        """The summaries of a set's replicas."""
        name, basis = (template.namespace, template.name), (template.uid, template.pcs.generation)
        if name not in self._known or self._known[name][0] != basis:
            self._known[name] = (basis, {})
        known = self._known[name][1]
        for replica in range(template.replicas):
            if replica not in known:
                known[replica] = summarise(template, replica, self._world.replica_snapshot(template, replica))
        return [known[replica] for replica in range(template.replicas)]

    def _child_changed(self, old: Resource | Child | None, new: Resource | Child | None) -> None:
        for child in (old, new):
            if child is not None:
                self._drop(child)

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        gang = new or old
        assert gang is not None
        podcliques = self._world.podcliques.by_index("gang", (gang.namespace, gang.name))
        if podcliques:  # their labels tell of the replica, those of a PodGang do not
            self._drop(podcliques[0])
        else:
            self._known.pop((gang.namespace, gang.labels.get(labels.PART_OF, "")), None)

    def _pod_changed(self, old: PodView | None, new: PodView | None) -> None:
        for owner in {pod.owner_uid for pod in (old, new) if pod is not None}:
            for podclique in self._world.podcliques.by_index("uid", owner):
                self._drop(podclique)

    def _set_changed(self, old: Template | None, new: Template | None) -> None:
        if old is not None and new is None:
            self._known.pop((old.namespace, old.name), None)

    def _drop(self, child: Resource | Child) -> None:
        name = (child.namespace, child.labels.get(labels.PART_OF, ""))
        index = child.labels.get(labels.PODCLIQUESET_REPLICA_INDEX, "")
        if not (name[1] and index.isascii() and index.isdigit()):
            self._known.clear()  # somebody took a label away, so whose it is cannot be told
        elif name in self._known:
            self._known[name][1].pop(int(index), None)
