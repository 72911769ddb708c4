"""A PodCliqueSet as a whole: what has to go, and its status. What a replica should have is in `replica`."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api import names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan import children
from grove.plan.gangs import ReplicaView, expected_gangs, live_group_replicas
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE
from grove.plan.podclique import is_available, is_updated, runs
from grove.plan.template import Template
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Delete, Write

_PHASES = frozenset(PodGangPhase)
"""What the schema of podGangStatuses allows; a PodGang's own phase may be any word that some scheduler wrote."""


@dataclass(slots=True)
class SetSnapshot:
    """What exists of a PodCliqueSet, by name: children its uid owns, and the PodCliques of its scaling groups."""

    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    scaling_groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    podgangs: Mapping[str, PodGang] = field(default_factory=dict)
    services: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    autoscalers: Mapping[str, dict[str, Any]] = field(default_factory=dict)


def plan_removals(template: Template, snapshot: SetSnapshot) -> tuple[Write, ...]:
    """Delete the children no replica expects any more (scaled in, or their configuration went).

    Their own children follow by garbage collection.
    """
    if template.pcs.deleting:
        return ()
    replicas = range(template.replicas)
    podcliques = {names.podclique_name(template.name, i, c.name) for i in replicas for c in template.standalone}
    groups = {names.scaling_group_name(template.name, i, group) for i in replicas for group in template.groups}
    autoscalers = {hpa["metadata"]["name"] for i in replicas for hpa in children.autoscalers(template, i)}
    services = {names.headless_service_name(template.name, i) for i in replicas}
    gangs = {gang.name for i in replicas for gang in expected_gangs(template, i, _replica_view(template, i, snapshot))}
    own_podcliques = [pclq for pclq in snapshot.podcliques.values() if pclq.owner_uid == template.uid]
    return (
        *_surplus(PODGANG, (gang.wire for gang in snapshot.podgangs.values()), gangs),
        *_surplus(AUTOSCALER, snapshot.autoscalers.values(), autoscalers),
        *_surplus(PODCLIQUESCALINGGROUP, (group.wire for group in snapshot.scaling_groups.values()), groups),
        *_surplus(PODCLIQUE, (pclq.wire for pclq in own_podcliques), podcliques),
        *_surplus(SERVICE, snapshot.services.values(), services),
    )


def podcliqueset_status(template: Template, snapshot: SetSnapshot, errors: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The status a PodCliqueSet should show (API doc 1.7).

    observedGeneration and currentGenerationHash move together, once every child has been given the new template: a
    client that sees the generation observed never reads a child's status of the template before.
    """
    health = [_replica_health(template, i, snapshot) for i in range(template.replicas)]
    status: dict[str, Any] = {
        "replicas": template.pcs.spec.replicas,
        "availableReplicas": sum(replica.available for replica in health),
        "updatedReplicas": sum(replica.available and replica.updated for replica in health),
        "hpaPodSelector": names.podcliqueset_selector(template.name),
        "podGangStatuses": [
            {"name": name, "phase": gang.status.phase if gang.status.phase in _PHASES else PodGangPhase.PENDING.value}
            for name, gang in sorted(snapshot.podgangs.items())
        ],
        "lastErrors": list(errors),
    }
    if all(replica.told for replica in health):
        status["observedGeneration"] = template.pcs.generation
        status["currentGenerationHash"] = template.generation_hash
    return status


@dataclass(frozen=True, slots=True)
class _ReplicaHealth:
    told: bool
    """every child exists and carries the set's template"""
    available: bool
    updated: bool


def _replica_health(template: Template, replica: int, snapshot: SetSnapshot) -> _ReplicaHealth:
    told = available = updated = True
    for clique in template.standalone:
        pclq = snapshot.podcliques.get(names.podclique_name(template.name, replica, clique.name))
        told = told and pclq is not None and runs(pclq, template)
        available = available and is_available(pclq)
        updated = updated and pclq is not None and is_updated(pclq, template)
    for group in template.groups:
        name = names.scaling_group_name(template.name, replica, group)
        scaling_group = snapshot.scaling_groups.get(name)
        told = told and scaling_group is not None and _members_told(template, group, scaling_group, snapshot)
        available = available and _group_available(scaling_group)
        current = scaling_group.status.current_pod_clique_set_generation_hash if scaling_group is not None else None
        updated = updated and current == template.generation_hash
    return _ReplicaHealth(told, available, updated)


def _members_told(template: Template, group: str, scaling_group: PodCliqueScalingGroup, snapshot: SetSnapshot) -> bool:
    for index in range(scaling_group.spec.replicas):
        for clique in template.members(group):
            name = names.scaling_group_podclique_name(scaling_group.name, index, clique.name)
            pclq = snapshot.podcliques.get(name)
            if pclq is None or not runs(pclq, template):
                return False
    return True


def _group_available(scaling_group: PodCliqueScalingGroup | None) -> bool:
    if scaling_group is None or scaling_group.deleting:
        return False
    minimum = 0 if scaling_group.spec.replicas == 0 else scaling_group.spec.min_available
    return scaling_group.status.available_replicas >= minimum


def _replica_view(template: Template, replica: int, snapshot: SetSnapshot) -> ReplicaView:
    return ReplicaView(
        podcliques=snapshot.podcliques,
        scaling_group_replicas=live_group_replicas(template, replica, snapshot.scaling_groups),
    )


def _surplus(resource: ResourceType, owned: Iterable[Mapping[str, Any]], expected: set[str]) -> list[Write]:
    return [
        Delete(resource, meta["namespace"], meta["name"], meta["uid"], "no longer wanted")
        for meta in (obj["metadata"] for obj in owned)
        if meta["name"] not in expected and not meta.get("deletionTimestamp")
    ]
