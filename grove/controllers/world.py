"""The operator's picture of the cluster: one store per kind, and the snapshots that passes read from them."""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from grove.admission.defaults import default_podcliqueset
from grove.api import labels
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang
from grove.controllers.others import Child, Feed, SchedulerObjects
from grove.controllers.views import Owned, PodsByOwner
from grove.plan import kinds
from grove.plan.observed import PodView
from grove.plan.podcliqueset import SetSnapshot
from grove.plan.progress import updating
from grove.plan.replica import ReplicaSnapshot
from grove.plan.scalinggroup import set_replica
from grove.plan.template import Template
from grove.plan.update import slim
from grove.runtime.cache import Store, Stored
from grove.runtime.client import Client
from grove.runtime.informer import Informer
from grove.runtime.resources import ResourceType
from grove.schedulers import Schedulers, enable
from grove.schedulers.crds import CRD

MANAGED = f"{labels.MANAGED_BY}={labels.MANAGED_BY_GROVE}"

_SERVED_SECONDS = 2.0
_DRIVEN_OUT_SECONDS = 60.0
"""How long it is remembered that a gang was driven out; its pods are waited for less long."""
_RECHECK_SECONDS = 60.0
"""How often kinds that are not served are looked for: an API server restarted with other features is seen so."""


class World:
    """Everything the operator knows of the cluster. PodCliqueSets are stored defaulted, as their `Template`."""

    def __init__(self, schedulers: Schedulers | None = None, *, topology_aware: bool = False) -> None:
        """With `topology_aware` ClusterTopologyBindings and the topologies of schedulers are read too."""
        schedulers = schedulers or enable()
        topologies = schedulers.topology_watches if topology_aware else ()
        self.scheduler_objects = SchedulerObjects(schedulers.watches + topologies)
        self.topology_aware = topology_aware
        self.bindings: Store[ClusterTopologyBinding] = Store()
        self.sets: Store[Template] = Store()
        self.scaling_groups: Store[PodCliqueScalingGroup] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.podcliques: Store[PodClique] = Store(
            {
                "owner": lambda obj: [obj.owner_uid],
                "uid": lambda obj: [obj.uid],
                "set": lambda obj: [(obj.namespace, obj.labels.get(labels.PART_OF))],
                "gang": lambda obj: [(obj.namespace, obj.labels.get(labels.PODGANG))],
            }
        )
        self.podgangs: Store[PodGang] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.pods: Store[PodView] = Store(
            {
                "owner": lambda pod: [pod.owner_uid],
                "orphaned from": lambda pod: [] if pod.owner_uid else [(pod.namespace, pod.podclique)],
            }
        )
        self.services: Store[Child] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.autoscalers: Store[Child] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.last_occupants: dict[str, dict[int, str]] = {}
        """Per PodClique uid: the uid of the pod last seen to leave an index (see `remember_occupant`)."""
        self.driven_out: dict[tuple[str, str], float] = {}
        """Per namespace and gang: when a scheduler was last seen to drive out a pod of it, in seconds since the epoch;
        what is older than a minute is dropped (see `_note_driven_out`)."""
        self.taking = False
        """Whether the change being told is the answer to a write of ours."""
        self._feeds: dict[ResourceType, tuple[Store[Any], Callable[[dict[str, Any]], Any], str | None]] = {
            kinds.PODCLIQUESET: (self.sets, lambda obj: _template(obj, schedulers.default), None),
            kinds.PODCLIQUESCALINGGROUP: (
                self.scaling_groups,
                lambda obj: PodCliqueScalingGroup.from_wire(slim(obj)),
                None,
            ),
            kinds.PODCLIQUE: (self.podcliques, lambda obj: PodClique.from_wire(slim(obj)), None),
            kinds.PODGANG: (self.podgangs, lambda obj: PodGang.from_wire(slim(obj)), None),
            kinds.POD: (self.pods, PodView.from_wire, MANAGED),
            kinds.SERVICE: (self.services, Child.from_wire, MANAGED),
            kinds.AUTOSCALER: (self.autoscalers, Child.from_wire, MANAGED),
        }
        if topology_aware:
            self._feeds[kinds.CLUSTERTOPOLOGYBINDING] = (
                self.bindings,
                lambda obj: ClusterTopologyBinding.from_wire(slim(obj)),
                None,
            )
        self.losses: dict[str, int] = {}
        """Per uid of everything that owns something: how many children it lost since it was last seen to be there."""
        owners: tuple[Store[Any], ...] = (self.sets, self.scaling_groups, self.podcliques)
        for store in owners:
            store.on_change(self._note_owner)
        for store in (self.scaling_groups, self.podcliques, self.podgangs, self.services, self.autoscalers, self.pods):
            store.on_change(self._note_loss)
        self.pods.on_change(self.remember_occupant)
        self.pods.on_change(self._note_driven_out)

    def informers(self, client: Client) -> list[Informer[Any]]:
        """One informer per kind; of Pods, Services and autoscalers only managed ones. Schedulers' kinds may lack."""
        ours: list[Informer[Any]] = [
            Informer(client, resource, store, view, label_selector=selector)
            for resource, (store, view, selector) in self._feeds.items()
        ]
        theirs: list[Informer[Any]] = [
            Informer(
                client,
                watch.resource,
                store,
                partial(Child.of_scheduler, watch.view),
                label_selector=watch.label_selector,
                field_selector=watch.field_selector,
                optional=True,
                recheck_seconds=_RECHECK_SECONDS,
                on_served=partial(self.scheduler_objects.note_served, watch.resource),
            )
            for watch, store in self.scheduler_objects.stores.items()
        ]
        for watch, store in self.scheduler_objects.stores.items():
            if watch.resource == CRD:
                store.on_change(partial(_look_again, theirs))
        return ours + theirs

    def take(self, resource: ResourceType, obj: dict[str, Any]) -> None:
        """Take over an object the API server returned to a write, so that the next pass reads it."""
        feed = self._feed(resource)
        if feed is not None:
            store, view = feed
            obj.setdefault("kind", resource.kind)
            self.taking = True
            try:
                store.put(view(obj))
            finally:
                self.taking = False

    def forget(self, resource: ResourceType, namespace: str, name: str, uid: str) -> None:
        """Drop an object that a delete found gone."""
        feed = self._feed(resource)
        store = feed[0] if feed is not None else None
        known = store.get(namespace, name) if store is not None else None
        if store is not None and known is not None and known.uid == uid:
            store.remove(namespace, name, uid, known.resource_version)

    def _feed(self, resource: ResourceType) -> Feed | None:
        return self._feeds[resource][:2] if resource in self._feeds else self.scheduler_objects.feed(resource)

    def remember_occupant(self, old: PodView | None, new: PodView | None) -> None:
        """Note who left an index, so that the successor's name is the same for every operator that saw it go.

        A hint only: where it is lost (a restart) the name differs, and the younger of two pods at one index goes.
        """
        if old is None or new is not None or old.index < 0:
            return
        if self.podcliques.by_index("uid", old.owner_uid):  # else its memory would outlive the PodClique
            self.last_occupants.setdefault(old.owner_uid, {})[old.index] = old.uid

    def _note_driven_out(self, old: PodView | None, new: PodView | None) -> None:
        """Note that a gang loses its pods one after the other: one that is gone already tells nobody of the next."""
        pod = new or old
        if pod is None or not pod.driven_out:
            return
        now = time.time()
        for gang in [gang for gang, seen in self.driven_out.items() if seen + _DRIVEN_OUT_SECONDS < now]:
            del self.driven_out[gang]
        self.driven_out[pod.namespace, pod.gang] = now

    def _note_owner(self, old: Stored | None, new: Stored | None) -> None:
        if old is not None and (new is None or new.uid != old.uid):
            self.losses.pop(old.uid, None)
        if new is not None:
            self.losses.setdefault(new.uid, 0)

    def _note_loss(self, old: Any, new: Any) -> None:
        """Count a child that went, a pod already when it is about to go."""
        child = old or new
        if (new is None or not getattr(new, "active", True)) and child.owner_uid in self.losses:
            self.losses[child.owner_uid] += 1

    def set_snapshot(self, template: Template) -> SetSnapshot:
        """A live view of all a set has; read it within one step, it changes with the stores."""
        groups = {obj.name: obj for obj in self.scaling_groups.by_index("owner", template.uid)}
        owners = {template.uid, *(group.uid for group in groups.values())}
        podcliques = self.podcliques.by_index("set", (template.namespace, template.name))
        return SetSnapshot(
            podcliques={obj.name: obj for obj in podcliques if obj.owner_uid in owners},
            scaling_groups=groups,
            podgangs={obj.name: obj for obj in self.podgangs.by_index("owner", template.uid)},
            services={obj.name: obj.wire for obj in self.services.by_index("owner", template.uid)},
            autoscalers={obj.name: obj.wire for obj in self.autoscalers.by_index("owner", template.uid)},
            pods=self.pods_by_owner(),
        )

    def owned(self, template: Template) -> int:
        """How many objects a set itself owns."""
        stores: tuple[Store[Any], ...] = (
            self.podgangs, self.autoscalers, self.scaling_groups, self.podcliques, self.services,
        )  # fmt: skip
        return sum(store.count("owner", template.uid) for store in stores)

    def replica_snapshot(self, template: Template, replica: int) -> ReplicaSnapshot:
        """A live view of what a set replica has. Objects are looked up by name, so its cost is the replica's size."""
        owners = {template.uid}
        groups = Owned(self.scaling_groups, template.namespace, owners, lambda obj: obj)
        for group in template.groups:
            live = groups.get(f"{template.name}-{replica}-{group}")
            if live is not None and set_replica(live) == replica:
                owners = owners | {live.uid}
        mine = {template.uid}
        return ReplicaSnapshot(
            podcliques=Owned(self.podcliques, template.namespace, owners, lambda obj: obj),
            scaling_groups=groups,
            podgangs=Owned(self.podgangs, template.namespace, mine, lambda obj: obj),
            services=Owned(self.services, template.namespace, mine, lambda obj: obj.wire),
            autoscalers=Owned(self.autoscalers, template.namespace, mine, lambda obj: obj.wire),
            pods=self.pods_by_owner(),
        )

    def members(self, scaling_group: PodCliqueScalingGroup) -> Mapping[str, PodClique]:
        """The PodCliques a scaling group owns, by name, as they are when it is asked."""
        return Owned(self.podcliques, scaling_group.namespace, {scaling_group.uid}, lambda obj: obj)

    def set_of(self, child: PodClique | PodCliqueScalingGroup) -> Template | None:
        """The set a child belongs to by its label, if the set or one of its scaling groups owns it."""
        template = self.sets.get(child.namespace, child.labels.get(labels.PART_OF, ""))
        if template is None:
            return None
        if child.owner_uid == template.uid:
            return template
        group = self.scaling_groups.get(child.namespace, child.labels.get(labels.SCALING_GROUP, ""))
        owned = group is not None and group.uid == child.owner_uid and group.owner_uid == template.uid
        return template if owned else None

    def pods_by_owner(self) -> Mapping[str, list[PodView]]:
        """All pods by the uid of their PodClique, as they are when it is asked."""
        return PodsByOwner(self.pods)

    def being_updated(self, podclique: PodClique) -> bool:
        """Whether a rolling update is at work on a PodClique or on the scaling group that owns it."""
        template = self.set_of(podclique)
        if template is None:
            return False
        group = self.scaling_groups.get(podclique.namespace, podclique.labels.get(labels.SCALING_GROUP, ""))
        return updating(podclique if group is None else group, template)


def _look_again(informers: Collection[Informer[Any]], old: Child | None, new: Child | None) -> None:
    """Look at once for the kinds of a group whose CustomResourceDefinition changed: they come and go together."""
    groups = {crd.name.partition(".")[2] for crd in (old, new) if crd is not None}
    for informer in informers:
        if informer.resource.group in groups:
            informer.refresh()
            # The API server serves a new kind a moment after it says so.
            asyncio.get_running_loop().call_later(_SERVED_SECONDS, _refresh_unserved, informer)


def _refresh_unserved(informer: Informer[Any]) -> None:
    if not informer.served:
        informer.refresh()


def _template(obj: dict[str, Any], default_scheduler: str) -> Template:
    obj["metadata"].pop("managedFields", None)
    return Template(PodCliqueSet.from_wire(default_podcliqueset(obj)), default_scheduler)
