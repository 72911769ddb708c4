"""What a ClusterTopologyBinding asks for: a topology object per scheduler that has such, and its status.

Where the binding names an object that others keep (spec.schedulerTopologyBindings), it is compared and never written.
Else there is one of ours, called like the binding. Schedulers take no other levels for an object that exists, so it is
deleted and made again (reference 1.4 and 9.1).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from grove.api import labels
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import ConditionType, Reason
from grove.plan.conditions import Want, merged
from grove.plan.template import owner_reference
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Write

Object = dict[str, Any]
"""An object in wire form."""


@dataclass(frozen=True, slots=True)
class TopologyKind:
    """The cluster-scoped kind in which a scheduler is told the levels of a cluster. Levels are keys of node labels."""

    resource: ResourceType
    spec: Callable[[Sequence[str]], Object]
    """the spec of an object with these levels, broadest first"""
    levels: Callable[[Object], list[str]]
    """the levels of an object, broadest first"""


class Topologies(Protocol):
    """The topology objects that the cluster has, from the caches."""

    def serves(self, resource: ResourceType) -> bool:
        """Whether the API server serves the kind now."""
        ...

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        """One object; `namespace` is "" for cluster-scoped kinds. None when there is none."""
        ...


@dataclass(frozen=True, slots=True)
class Comparison:
    """One scheduler's topology object beside the levels of a binding."""

    scheduler: str
    reference: str
    """name of the object"""
    drift: str = ""
    """what is wrong, in one sentence; "" when it has the levels"""
    generation: int | None = None
    """of an object that others keep"""
    writes: tuple[Write, ...] = ()
    """what brings an object of ours in line"""
    enabled: bool = True
    """whether the operator has such a scheduler with topology objects"""


def compare_all(
    binding: ClusterTopologyBinding, kinds: Mapping[str, TopologyKind], topologies: Topologies
) -> list[Comparison]:
    """Compare the topology of every scheduler in `kinds`, sorted by name, then list references to other schedulers."""
    compared = [compare(binding, scheduler, kinds[scheduler], topologies) for scheduler in sorted(kinds)]
    for one in binding.spec.scheduler_topology_bindings:
        if one.scheduler_name not in kinds:
            drift = f"the operator has no profile {one.scheduler_name} with topology objects"
            compared.append(Comparison(one.scheduler_name, one.topology_reference, drift, enabled=False))
    return compared


def compare(binding: ClusterTopologyBinding, scheduler: str, kind: TopologyKind, topologies: Topologies) -> Comparison:
    """Compare the topology of one scheduler, and tell what to write where it is ours.

    One that was ours stays when the binding comes to name another: gangs that exist know it by the binding's name.
    """
    references = {one.scheduler_name: one.topology_reference for one in binding.spec.scheduler_topology_bindings}
    reference = references.get(scheduler)
    name = reference or binding.name
    if not topologies.serves(kind.resource):
        text = f"the API server does not serve {kind.resource.label} in version {kind.resource.version}"
        return Comparison(scheduler, name, text)
    live = topologies.get(kind.resource, "", name)
    if reference is None:
        return _compare_ours(binding, scheduler, kind, live)
    if live is None:
        return Comparison(scheduler, name, f"there is no {kind.resource.kind} {name}")
    levels, generation = kind.levels(live), live["metadata"].get("generation")
    if levels == _levels(binding):
        return Comparison(scheduler, name, generation=generation)
    text = f"{kind.resource.kind} {name} has the levels {_listed(levels)}, not {_listed(_levels(binding))}"
    return Comparison(scheduler, name, text, generation)


def binding_status(
    binding: ClusterTopologyBinding, compared: Sequence[Comparison], errors: Mapping[str, str], now: str
) -> Object:
    """The status, in wire form. `errors` tells, by scheduler, why its topology could not be written."""
    entries = [_entry(one, errors.get(one.scheduler, "")) for one in compared]
    wanted = [_drift(binding, compared, entries)] if entries else []
    live = (binding.wire.get("status") or {}).get("conditions") or ()
    conditions = merged(live, wanted, now, dropping=(ConditionType.SCHEDULER_TOPOLOGY_DRIFT,))
    return {"schedulerTopologyStatuses": entries, "conditions": conditions}


def _compare_ours(
    binding: ClusterTopologyBinding, scheduler: str, kind: TopologyKind, live: Object | None
) -> Comparison:
    what, wanted = f"{kind.resource.kind} {binding.name}", _levels(binding)
    if live is None:
        create = Create(kind.resource, _topology(binding, kind))
        return Comparison(scheduler, binding.name, f"there is no {what} yet", writes=(create,))
    metadata = live["metadata"]
    owners = metadata.get("ownerReferences") or ()
    if not any(owner.get("controller") and owner.get("uid") == binding.uid for owner in owners):
        text = f"{what} does not belong to this binding: delete it, or name it in spec.schedulerTopologyBindings"
        return Comparison(scheduler, binding.name, text)
    leaving = bool(metadata.get("deletionTimestamp"))
    if kind.levels(live) == wanted and not leaving:
        return Comparison(scheduler, binding.name)
    text = f"{what} is being replaced by one with the levels {_listed(wanted)}"
    reason = "the levels of its ClusterTopologyBinding have changed"
    delete = Delete(kind.resource, "", binding.name, metadata["uid"], reason)
    return Comparison(scheduler, binding.name, text, writes=() if leaving else (delete,))


def _topology(binding: ClusterTopologyBinding, kind: TopologyKind) -> Object:
    metadata = {
        "name": binding.name,
        "labels": {labels.MANAGED_BY: labels.MANAGED_BY_GROVE},
        "ownerReferences": owner_reference(labels.API_VERSION, binding.KIND, binding.name, binding.uid),
    }
    spec = kind.spec(_levels(binding))
    return {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, "spec": spec}


def _entry(one: Comparison, error: str) -> Object:
    message = error or one.drift
    entry: Object = {"schedulerName": one.scheduler, "topologyReference": one.reference, "inSync": not message}
    if one.generation is not None:
        entry["schedulerBackendTopologyObservedGeneration"] = one.generation
    return entry | ({"message": message} if message else {})


def _drift(binding: ClusterTopologyBinding, compared: Sequence[Comparison], entries: Sequence[Object]) -> Want:
    """The condition SchedulerTopologyDrift."""
    unknown = [one.scheduler for one in compared if not one.enabled]
    drifts = [f"{entry['schedulerName']}: {entry['message']}" for entry in entries if not entry["inSync"]]
    status: bool | None
    if unknown:
        text = f"the operator has no profile {', '.join(unknown)} with topology objects"
        status, reason = None, Reason.TOPOLOGY_NOT_FOUND
    elif drifts:
        status, reason, text = True, Reason.DRIFT, "; ".join(drifts)
    else:
        status, reason, text = False, Reason.IN_SYNC, "every scheduler with topology objects has these levels"
    return Want(ConditionType.SCHEDULER_TOPOLOGY_DRIFT, status, reason, text, binding.generation)


def _levels(binding: ClusterTopologyBinding) -> list[str]:
    return [level.key for level in binding.spec.levels]


def _listed(levels: Sequence[str]) -> str:
    return ", ".join(levels) or "none"
