"""The operator's picture of the cluster: one store per kind, and the snapshots that passes read from them."""

import asyncio
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar

from grove.admission.defaults import default_podcliqueset
from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang
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
from grove.schedulers import Schedulers, Watch, enable
from grove.schedulers.crds import CRD

MANAGED = f"{labels.MANAGED_BY}={labels.MANAGED_BY_GROVE}"

V = TypeVar("V")

_SERVED_SECONDS = 2.0
_DRIVEN_OUT_SECONDS = 60.0
_RECHECK_SECONDS = 60.0
"""How often kinds that are not served are looked for: an API server restarted with other features is seen so."""


@dataclass(frozen=True, slots=True)
class Child:
    """A Service, a HorizontalPodAutoscaler or an object of a scheduler as the API server sent it."""

    wire: dict[str, Any]
    resource_version: int
    owner_uid: str

    @property
    def namespace(self) -> str:
        return str(self.wire["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        return str(self.wire["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.wire["metadata"]["uid"])

    @property
    def labels(self) -> Mapping[str, str]:
        return self.wire["metadata"].get("labels") or {}

    @classmethod
    def from_wire(cls, obj: dict[str, Any]) -> "Child":
        """Keep what plans compare: metadata and spec."""
        obj.pop("status", None)
        return cls.of_scheduler(lambda whole: whole, obj)

    @classmethod
    def of_scheduler(cls, view: Callable[[dict[str, Any]], dict[str, Any]], obj: dict[str, Any]) -> "Child":
        """Keep what the scheduler's back end looks at."""
        obj = slim(view(obj))
        metadata = obj["metadata"]
        owner = next((ref.get("uid", "") for ref in metadata.get("ownerReferences") or () if ref.get("controller")), "")
        return cls(obj, int(metadata["resourceVersion"]), owner)


Feed = tuple[Store[Any], Callable[[dict[str, Any]], Any]]
"""A store, and what it keeps of an object in wire form."""


class SchedulerObjects:
    """The kinds of the scheduler back ends, as far as the API server serves them (`grove.schedulers.Cluster`)."""

    def __init__(self, watches: Sequence[Watch]) -> None:
        self.stores: dict[Watch, Store[Child]] = {
            watch: Store({"gang": lambda obj: [(obj.namespace, obj.labels.get(labels.PODGANG))]}) for watch in watches
        }
        self._served: set[ResourceType] = set()
        self._subscribers: list[Callable[[], None]] = []

    def serves(self, resource: ResourceType) -> bool:
        """Whether the API server serves the kind now."""
        return resource in self._served

    def get(self, resource: ResourceType, namespace: str, name: str) -> dict[str, Any] | None:
        """One object; None when there is none."""
        found = (store.get(namespace, name) for store in self._of(resource))
        return next((obj.wire for obj in found if obj is not None), None)

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> list[dict[str, Any]]:
        """The objects whose label names the gang."""
        return [obj.wire for store in self._of(resource) for obj in store.by_index("gang", (namespace, gang))]

    def feed(self, resource: ResourceType) -> Feed | None:
        """Where the answers to our writes of a kind go; None for kinds that no back end watches."""
        watch = next((watch for watch in self.stores if watch.resource == resource), None)
        return (self.stores[watch], partial(Child.of_scheduler, watch.view)) if watch is not None else None

    def _of(self, resource: ResourceType) -> list[Store[Child]]:
        return [store for watch, store in self.stores.items() if watch.resource == resource]

    def on_served(self, callback: Callable[[], None]) -> None:
        """Call `callback` when a kind becomes served or is served no more."""
        self._subscribers.append(callback)

    def note_served(self, resource: ResourceType, served: bool) -> None:
        """Take note of what an informer found out."""
        (self._served.add if served else self._served.discard)(resource)
        for callback in self._subscribers:
            callback()


class World:
    """Everything the operator knows of the cluster. PodCliqueSets are stored defaulted, as their `Template`."""

    def __init__(self, schedulers: Schedulers | None = None) -> None:
        schedulers = schedulers or enable()
        self.scheduler_objects = SchedulerObjects(schedulers.watches)
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
        groups = _Owned(self.scaling_groups, template.namespace, owners, lambda obj: obj)
        for group in template.groups:
            live = groups.get(f"{template.name}-{replica}-{group}")
            if live is not None and set_replica(live) == replica:
                owners = owners | {live.uid}
        mine = {template.uid}
        return ReplicaSnapshot(
            podcliques=_Owned(self.podcliques, template.namespace, owners, lambda obj: obj),
            scaling_groups=groups,
            podgangs=_Owned(self.podgangs, template.namespace, mine, lambda obj: obj),
            services=_Owned(self.services, template.namespace, mine, lambda obj: obj.wire),
            autoscalers=_Owned(self.autoscalers, template.namespace, mine, lambda obj: obj.wire),
            pods=self.pods_by_owner(),
        )

    def members(self, scaling_group: PodCliqueScalingGroup) -> Mapping[str, PodClique]:
        """The PodCliques a scaling group owns, by name, as they are when it is asked."""
        return _Owned(self.podcliques, scaling_group.namespace, {scaling_group.uid}, lambda obj: obj)

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
        return _PodsByOwner(self.pods)

    def being_updated(self, podclique: PodClique) -> bool:
        """Whether a rolling update is at work on a PodClique or on the scaling group that owns it."""
        template = self.set_of(podclique)
        if template is None:
            return False
        group = self.scaling_groups.get(podclique.namespace, podclique.labels.get(labels.SCALING_GROUP, ""))
        return updating(podclique if group is None else group, template)


S = TypeVar("S", bound=Stored)


class _Owned(Mapping[str, V], Generic[S, V]):
    """Objects of one namespace that one of `owners` (uids) controls, looked up by name."""

    def __init__(self, store: Store[S], namespace: str, owners: Collection[str], show: Callable[[S], V]) -> None:
        self._store = store
        self._namespace = namespace
        self._owners = owners
        self._show = show

    def __getitem__(self, name: str) -> V:
        obj: Any = self._store.get(self._namespace, name)
        if obj is None or obj.owner_uid not in self._owners:
            raise KeyError(name)
        return self._show(obj)

    def __iter__(self) -> Iterator[str]:
        return iter([obj.name for owner in self._owners for obj in self._store.by_index("owner", owner)])

    def __len__(self) -> int:
        return sum(self._store.count("owner", owner) for owner in self._owners)


class _PodsByOwner(Mapping[str, list[PodView]]):
    """Pods by the uid of their PodClique."""

    def __init__(self, pods: Store[PodView]) -> None:
        self._pods = pods

    def __getitem__(self, uid: str) -> list[PodView]:
        return self._pods.by_index("owner", uid)

    def get(self, uid: str, default: Any = None) -> list[PodView]:
        return self._pods.by_index("owner", uid)

    def __iter__(self) -> Iterator[str]:
        return iter({pod.owner_uid for pod in self._pods})

    def __len__(self) -> int:
        return len({pod.owner_uid for pod in self._pods})


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
