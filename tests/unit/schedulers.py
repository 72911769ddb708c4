"""Gangs on paper for the tests of scheduler back ends, and a cluster that has what a test puts into it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from grove.admission import default, validate
from grove.admission.fields import Field
from grove.api import labels
from grove.api.podgang import PodGang
from grove.plan.gangstatus import Surroundings
from grove.plan.podgang import plan_gang
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Patch, Write
from grove.schedulers import Backend, GangView, crds
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, stored

Key = tuple[ResourceType, str, str]


@dataclass
class Shown:
    """What back ends see of the cluster."""

    served: set[ResourceType] = field(default_factory=set)
    objects: dict[Key, Object] = field(default_factory=dict)

    def serves(self, resource: ResourceType) -> bool:
        return resource in self.served

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        return self.objects.get((resource, namespace, name))

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> Sequence[Object]:
        return [
            obj
            for (kind, where, _), obj in self.objects.items()
            if (kind, where) == (resource, namespace) and obj["metadata"]["labels"].get(labels.PODGANG) == gang
        ]

    def put(self, resource: ResourceType, obj: Object) -> Object:
        """The object is in the cluster."""
        metadata = obj["metadata"]
        self.objects[resource, metadata.get("namespace", ""), metadata["name"]] = obj
        return obj

    def install(self, crd: Object, resource: ResourceType) -> None:
        """The CustomResourceDefinition is there and its resource is served."""
        self.served |= {crds.CRD, resource}
        self.put(crds.CRD, crds.watch(resource).view(stored(crd)))

    def carry_out(self, writes: Iterable[Write]) -> None:
        """Do what a back end wants to be done, of which there is something."""
        for write in writes:
            key = (write.resource, write.namespace, write.name)
            if isinstance(write, Create):
                assert key not in self.objects
                self.put(write.resource, stored(write.body))
            elif isinstance(write, Patch):
                assert isinstance(write.body, dict)
                if key in self.objects:
                    self.objects[key] = merge_patch(self.objects[key], write.body)
            else:
                assert isinstance(write, Delete)
                del self.objects[key]


def filled(obj: Object, scaled: Mapping[str, int] | None = None, *, joined: bool = True) -> Paper:
    """A set's replica with all its pods, which name their PodGroup if `joined`."""
    paper = Paper.of(obj, scaled)
    paper.fill()
    if joined:
        paper.pods = {uid: [replace(pod, pod_group=pod.gang) for pod in pods] for uid, pods in paper.pods.items()}
    return paper


def podgang(paper: Paper, gang: str, **spec: Any) -> PodGang:
    """The PodGang of a gang as it is stored; `spec` replaces fields of its spec."""
    state = paper.state(gang)
    (write,) = plan_gang(paper.template, state, Surroundings(), None, hurry=True, now=NOW).spec
    assert isinstance(write, Create)
    wire = stored(write.body)
    wire["spec"] |= spec
    return PodGang.from_wire(wire)


def view(
    paper: Paper, cluster: Shown, gang: str, live: PodGang | None = None, topology: Topology = NOWHERE
) -> GangView:
    """What a back end is given to decide on a gang."""
    states = {one.name: paper.state(one.name) for one in paper.gangs}
    live = live or podgang(paper, gang)
    return GangView(
        paper.template,
        paper.replica,
        states[gang],
        live,
        cluster,
        0.0,
        paper.podcliques,
        states,
        {gang: live},
        topology=topology,
    )


def findings(backend: Backend, cluster: Shown, obj: Object) -> list[str]:
    """What is wrong with a set as a user writes it, for admission and for the back end; each thing once."""
    found = [*validate(obj).errors, *backend.validate(Field(default(obj)), cluster)]
    return list(dict.fromkeys(map(str, found)))


def settled(backend: Backend, cluster: Shown, gang: GangView) -> None:
    """Nothing is left to do for a gang."""
    assert backend.decide(gang).writes == ()


def made(backend: Backend, cluster: Shown, gang: GangView, resource: ResourceType) -> Object:
    """The scheduler's object of a gang, once the back end has had its way."""
    cluster.carry_out(backend.decide(gang).writes)
    settled(backend, cluster, gang)
    found = cluster.get(resource, gang.template.namespace, gang.state.gang.name)
    if found is None:
        pytest.fail(f"there is no {resource.kind} {gang.state.gang.name}")
    return found
