"""The part of `grove plan` that depends on the scheduler: what its back end makes of gangs and pods, on paper."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from grove.admission.fields import Field, Finding
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.plan.expand import Replica
from grove.plan.gangs import ReplicaView, expected_gangs, observe
from grove.plan.observed import PodView
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create
from grove.schedulers import Backend, GangView, Slot, UnknownBackend, enable, installed

Object = dict[str, Any]


class Paper:
    """Stands in for a cluster that has nothing yet, and either serves every kind or is not known at all."""

    def __init__(self, serves: bool) -> None:
        self._serves = serves

    def serves(self, resource: ResourceType) -> bool:
        return self._serves

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        return None

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> Sequence[Object]:
        return ()


def backend_of(obj: Object) -> Backend:
    """The back end of a set (wire form), by the first schedulerName of its pods.

    Where pods name none it is the cluster's to choose, so nothing is assumed.
    """
    cliques = ((obj.get("spec") or {}).get("template") or {}).get("cliques") or ()
    names = ((clique["spec"].get("podSpec") or {}).get("schedulerName") for clique in cliques)
    name = next((name for name in names if name), "")
    return enable([(name, {})]).named(name) if name in installed() else UnknownBackend(name)


def with_scheduler(obj: Object, name: str) -> Object:
    """A set (wire form) whose pods name this scheduler; whatever else is wrong with it stays."""
    if not name:
        return obj
    spec = obj.get("spec")
    template = spec.get("template") if isinstance(spec, dict) else None
    cliques = template.get("cliques") if isinstance(template, dict) else None
    if not isinstance(cliques, list):
        return obj
    changed = [_clique_with_scheduler(clique, name) for clique in cliques]
    return {**obj, "spec": {**obj["spec"], "template": {**obj["spec"]["template"], "cliques": changed}}}


def _clique_with_scheduler(clique: Any, name: str) -> Any:
    spec = clique.get("spec") if isinstance(clique, dict) else None
    pod_spec = spec.get("podSpec") if isinstance(spec, dict) else None
    if not isinstance(pod_spec, dict):
        return clique
    return {**clique, "spec": {**clique["spec"], "podSpec": {**pod_spec, "schedulerName": name}}}


def findings(obj: Object) -> list[Finding]:
    """What the back end of a valid set has to say about it, with no cluster at hand."""
    return list(backend_of(obj).validate(Field(obj), Paper(serves=False)))


def scheduled(replica: Replica, template: Template, topology: Topology = NOWHERE) -> Replica:
    """The replica with its pods prepared for the scheduler and the scheduler's objects, in a cluster that has all."""
    backend, cluster = backend_of(template.pcs.wire), Paper(serves=True)
    if isinstance(backend, UnknownBackend):
        return replica
    podcliques = {obj["metadata"]["name"]: _with_uid(obj) for obj in replica.podcliques}
    pods = []
    for pod in replica.pods:
        slot = Slot(template, podcliques[_owner(pod)], PodView.from_wire(pod).index, cluster, topology)
        pods.append(_prepared(pod, backend, slot))
    by_owner: dict[str, list[PodView]] = {}
    for pod in pods:
        owner = _owner(pod)
        known = {**pod["metadata"], "ownerReferences": [{"uid": owner, "controller": True}]}
        by_owner.setdefault(owner, []).append(PodView.from_wire({**pod, "metadata": known}))
    view = ReplicaView(podcliques, {}, by_owner)
    states = {gang.name: observe(gang, view) for gang in expected_gangs(template, replica.index, view)}
    podgangs = {obj["metadata"]["name"]: PodGang.from_wire(obj) for obj in replica.podgangs}
    decisions = [
        backend.decide(
            GangView(
                template,
                replica.index,
                states[name],
                podgang,
                cluster,
                0.0,
                podcliques,
                states,
                podgangs,
                topology=topology,
            )
        )
        for name, podgang in podgangs.items()
    ]
    made = [write.body for decision in decisions for write in decision.writes if isinstance(write, Create)]
    return replace(replica, pods=tuple(pods), scheduler_objects=tuple(made))


def _prepared(pod: Object, backend: Backend, slot: Slot) -> Object:
    pod = {**pod, "metadata": {**pod["metadata"]}, "spec": {**pod["spec"], "schedulerName": backend.name}}
    return backend.prepare_pod(pod, slot)


def _owner(pod: Object) -> str:
    return str(pod["metadata"]["ownerReferences"][0]["name"])


def _with_uid(obj: Object) -> PodClique:
    # Names stand in for the uids that the API server would give.
    return PodClique.from_wire({**obj, "metadata": {**obj["metadata"], "uid": obj["metadata"]["name"]}})
