"""The operator's picture of the cluster: one store per kind, and the snapshots that passes read from them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
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
from grove.plan.replica import ReplicaSnapshot
from grove.plan.scalinggroup import set_replica
from grove.plan.template import Template
from grove.plan.update import slim
from grove.runtime.cache import Store, Stored
from grove.runtime.client import Client
from grove.runtime.informer import Informer
from grove.runtime.resources import ResourceType

MANAGED = f"{labels.MANAGED_BY}={labels.MANAGED_BY_GROVE}"

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Child:
    """A Service or HorizontalPodAutoscaler as the API server sent it."""

    wire: dict[str, Any]
    resource_version: int
    owner_uid: str

    @property
    def namespace(self) -> str:
        return str(self.wire["metadata"]["namespace"])

    @property
    def name(self) -> str:
        return str(self.wire["metadata"]["name"])

    @property
    def uid(self) -> str:
        return str(self.wire["metadata"]["uid"])

    @classmethod
    def from_wire(cls, obj: dict[str, Any]) -> "Child":
        """Keep what plans compare: metadata and spec."""
        obj = slim(obj)
        obj.pop("status", None)
        metadata = obj["metadata"]
        owner = next((ref.get("uid", "") for ref in metadata.get("ownerReferences") or () if ref.get("controller")), "")
        return cls(obj, int(metadata["resourceVersion"]), owner)


class World:
    """Everything the operator knows of the cluster. PodCliqueSets are stored defaulted, as their `Template`."""

    def __init__(self) -> None:
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
        self.pods: Store[PodView] = Store({"owner": lambda pod: [pod.owner_uid]})
        self.services: Store[Child] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.autoscalers: Store[Child] = Store({"owner": lambda obj: [obj.owner_uid]})
        self.last_occupants: dict[str, dict[int, str]] = {}
        """Per PodClique uid: the uid of the pod last seen to leave an index (see `remember_occupant`)."""
        self.taking = False
        """Whether the change being told is the answer to a write of ours."""
        self._feeds: dict[ResourceType, tuple[Store[Any], Callable[[dict[str, Any]], Any], str | None]] = {
            kinds.PODCLIQUESET: (self.sets, _template, None),
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

    def informers(self, client: Client) -> list[Informer[Any]]:
        """One informer per kind; only managed Pods, Services and autoscalers are watched."""
        return [
            Informer(client, resource, store, view, label_selector=selector)
            for resource, (store, view, selector) in self._feeds.items()
        ]

    def take(self, resource: ResourceType, obj: dict[str, Any]) -> None:
        """Take over an object the API server returned to a write, so that the next pass reads it."""
        if resource in self._feeds:
            store, view, _ = self._feeds[resource]
            obj.setdefault("kind", resource.kind)
            self.taking = True
            try:
                store.put(view(obj))
            finally:
                self.taking = False

    def forget(self, resource: ResourceType, namespace: str, name: str, uid: str) -> None:
        """Drop an object that a delete found gone."""
        store = self._feeds[resource][0]
        known = store.get(namespace, name)
        if known is not None and known.uid == uid:
            store.remove(namespace, name, uid, known.resource_version)

    def remember_occupant(self, old: PodView | None, new: PodView | None) -> None:
        """Note who left an index, so that the successor's name is the same for every operator that saw it go.

        A hint only: where it is lost (a restart) the name differs, and the younger of two pods at one index goes.
        """
        if old is None or new is not None or old.index < 0:
            return
        if self.podcliques.by_index("uid", old.owner_uid):  # else its memory would outlive the PodClique
            self.last_occupants.setdefault(old.owner_uid, {})[old.index] = old.uid

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
        )

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
            pods=_PodsByOwner(self.pods),
        )

    def members(self, scaling_group: PodCliqueScalingGroup) -> dict[str, PodClique]:
        """The PodCliques a scaling group owns, by name."""
        return {obj.name: obj for obj in self.podcliques.by_index("owner", scaling_group.uid)}

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
        return sum(len(self._store.by_index("owner", owner)) for owner in self._owners)


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


def _template(obj: dict[str, Any]) -> Template:
    obj["metadata"].pop("managedFields", None)
    return Template(PodCliqueSet.from_wire(default_podcliqueset(obj)))
