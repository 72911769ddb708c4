"""Gangs on paper as back ends see them: pods made and prepared, scheduler objects written as a back end says."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.plan.gangs import observe
from grove.plan.observed import PodView
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Patch, Write
from grove.schedulers import Backend, GangView, Slot, Unplaced
from grove.schedulers.default import DefaultScheduler
from grove.schedulers.native import COMPOSITE, PODGROUP
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored

EPOCH = 1788220800.0
"""NOW in seconds since the epoch."""

BOTH = {PODGROUP, COMPOSITE}
# Base gang: two of three a, one of two b, one of two c; the second replica of g is a scaled gang.
SET = pod_set(
    clique("a", 3, min_available=2),
    clique("b", 2, min_available=1),
    clique("c", 2, min_available=1),
    groups=[group("g", ["b", "c"], 2, 1)],
)


@dataclass
class Offer:
    """What an API server serves of schedulers' kinds, and the objects of these kinds."""

    served: set[ResourceType] = field(default_factory=set)
    objects: dict[tuple[ResourceType, str], Object] = field(default_factory=dict)
    """by kind and name, all in one namespace"""

    def serves(self, resource: ResourceType) -> bool:
        return resource in self.served

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        return self.objects.get((resource, name))

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> list[Object]:
        return [
            obj
            for (kind, _), obj in self.objects.items()
            if kind == resource and obj["metadata"]["labels"].get(labels.PODGANG) == gang
        ]

    def write(self, writes: Iterable[Write]) -> None:
        """Do what a back end asks for."""
        for write in writes:
            key = (write.resource, write.name)
            if isinstance(write, Create):
                assert key not in self.objects, f"{key} exists"
                self.objects[key] = stored(write.body)
            elif isinstance(write, Delete):
                assert self.objects.pop(key)["metadata"]["uid"] == write.uid
            else:
                assert isinstance(write, Patch)
                assert isinstance(write.body, dict)
                self.objects[key] = merge_patch(self.objects[key], write.body)

    def specs(self, resource: ResourceType) -> dict[str, Object]:
        """The specs of a kind's objects, by name."""
        return {name: obj["spec"] for (kind, name), obj in self.objects.items() if kind == resource}


@dataclass
class Stage:
    """One replica of a set, its pods prepared by a back end, and what the API server offers to that."""

    paper: Paper
    backend: Backend
    offer: Offer
    podgangs: dict[str, PodGang] = field(default_factory=dict)
    elsewhere: list[Unplaced] = field(default_factory=list)
    """unplaced gangs of other replicas of the set"""
    driven_out: float = 0.0
    """when a scheduler was last seen to drive out a pod of the gang"""
    topology: Topology = NOWHERE
    """what the set's constraints mean"""

    def add(self, podclique: str, *indices: int, **fields: Any) -> list[Object]:
        """Make pods as the back end wants them and put them in place; their wire form."""
        owner = self.paper.podcliques[podclique]
        made = []
        for index in indices:
            slot = Slot(self.paper.template, owner, index, self.offer)
            made.append(self.backend.prepare_pod(pod_wire(owner, index, tpl=self.paper.template, **fields), slot))
        self.paper.pods.setdefault(owner.uid, []).extend(map(PodView.from_wire, made))
        return made

    def fill(self, **fields: Any) -> None:
        """Put every pod in place that the PodCliques ask for, in place of those that are there."""
        for podclique in self.paper.podcliques.values():
            self.paper.pods[podclique.uid] = []
            self.add(podclique.name, *range(podclique.spec.replicas or 0), **fields)

    def remove(self, podclique: str, *indices: int) -> None:
        """Take pods away."""
        uid = self.paper.podcliques[podclique].uid
        self.paper.pods[uid] = [pod for pod in self.paper.pods[uid] if pod.index not in indices]

    def podgang(self, name: str, **spec: Any) -> PodGang:
        """The PodGang of a gang, with further fields of its spec."""
        metadata = {"name": name, "namespace": "default", "creationTimestamp": NOW}
        self.podgangs[name] = PodGang.from_wire(stored({"metadata": metadata, "spec": {"podgroups": [], **spec}}))
        return self.podgangs[name]

    def view(self, name: str, now: float = EPOCH, **spec: Any) -> GangView:
        """A gang as the back end is shown it."""
        podgang = self.podgang(name, **spec) if spec or name not in self.podgangs else self.podgangs[name]
        states = {gang.name: observe(gang, self.paper.view) for gang in self.paper.gangs}
        return GangView(
            self.paper.template,
            self.paper.replica,
            states[name],
            podgang,
            self.offer,
            now,
            self.paper.podcliques,
            states,
            self.podgangs,
            [Unplaced(one, states.get(one.gang.base)) for one in states.values() if not one.scheduled] + self.elsewhere,
            self.driven_out,
            self.topology,
        )

    def settle(self, name: str, **spec: Any) -> tuple[Write, ...]:
        """Write what the back end wants for a gang until it wants no more; all it wanted."""
        done: list[Write] = []
        for _ in range(5):
            writes = self.backend.decide(self.view(name, **spec)).writes
            if not writes:
                return tuple(done)
            self.offer.write(writes)
            done += writes
        raise AssertionError(f"it never rests: {writes}")

    def held(self, name: str, now: float = EPOCH) -> set[tuple[str, int]]:
        """PodClique and index of the pods whose gates stay."""
        hold = self.backend.decide(self.view(name, now)).hold
        return {
            (podclique.name, pod.index)
            for podclique in self.paper.podcliques.values()
            for pod in self.paper.pods.get(podclique.uid, ())
            if pod.name in hold
        }


def condition_at(kind: str, status: str, seconds: float, **fields: str) -> Object:
    """A condition that changed so many seconds after NOW."""
    at = datetime.fromtimestamp(EPOCH + seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return {"type": kind, "status": status, "lastTransitionTime": at, **fields}


def conditions(*conditions: Mapping[str, str]) -> Object:
    """A status with conditions."""
    return {"status": {"conditions": [dict(one) for one in conditions]}}


def stage(obj: Object = SET, served: Any = BOTH, **scaled: int) -> Stage:
    """A set with all its pods; `scaled` gives live replicas by object name with _ for -."""
    live = {name.replace("_", "-"): replicas for name, replicas in scaled.items()}
    result = Stage(Paper.of(obj, live), DefaultScheduler("default-scheduler", {}), Offer(set(served)))
    result.fill()
    return result


def counts(made: Stage) -> dict[str, int]:
    """minCount of each PodGroup by the name of its PodClique, or of its gang."""
    specs = made.offer.specs(PODGROUP)
    return {name.rpartition("-")[0]: spec["schedulingPolicy"]["gang"]["minCount"] for name, spec in specs.items()}


def scaled(made: Stage, podclique: str, replicas: int) -> PodClique:
    wire = made.paper.podcliques[podclique].wire
    return PodClique.from_wire({**wire, "spec": {**wire["spec"], "replicas": replicas}})


def with_condition(made: Stage, kind: str, status: str, message: str = "", at: str = "") -> None:
    """Let the scheduler set a condition on all PodGroups."""
    for (resource, _), obj in made.offer.objects.items():
        if resource == PODGROUP:
            obj.update(
                conditions(
                    {"type": kind, "status": status, "message": message, "lastTransitionTime": at, "reason": "R"}
                )
            )
