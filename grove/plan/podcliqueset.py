"""A PodCliqueSet as a whole: what has to go, and its status. What a replica should have is in `replica`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api import names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan import children
from grove.plan.conditions import merged
from grove.plan.gangs import ReplicaView, expected_gangs, live_group_replicas
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE
from grove.plan.observed import PodView
from grove.plan.podclique import is_available, is_updated, runs
from grove.plan.progress import outdated
from grove.plan.template import Template
from grove.plan.update_status import Reached, update_status
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Delete, Write

_PHASES = frozenset(PodGangPhase)
"""What the schema of podGangStatuses allows; a PodGang's own phase may be any word that some scheduler wrote."""

_WITH_CONDITIONS = 100
"""Gangs whose conditions a set's status shows: those of thousands would not fit into one object."""


@dataclass(slots=True)
class SetSnapshot:
    """What exists of a PodCliqueSet, by name: children its uid owns, and the PodCliques of its scaling groups."""

    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    scaling_groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    podgangs: Mapping[str, PodGang] = field(default_factory=dict)
    services: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    autoscalers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pods: Mapping[str, Iterable[PodView]] = field(default_factory=dict)
    """by uid of the owning PodClique"""


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


def podcliqueset_status(
    template: Template, snapshot: SetSnapshot, errors: Sequence[dict[str, Any]], now: str
) -> dict[str, Any]:
    """The status a PodCliqueSet should show (API doc 1.7).

    observedGeneration and currentGenerationHash move together, once every child has been given the new template and
    no status of a child says any more that all is updated when it means the template before: a
    client that sees the generation observed never reads a child's status of the template before. `now` is RFC 3339.
    """
    health = [_replica_health(template, i, snapshot) for i in range(template.replicas)]
    status: dict[str, Any] = {
        "replicas": template.pcs.spec.replicas,
        "availableReplicas": sum(replica.available for replica in health),
        "updatedReplicas": sum(replica.available and replica.updated for replica in health),
        "hpaPodSelector": names.podcliqueset_selector(template.name),
        "podGangStatuses": _gang_statuses(snapshot.podgangs),
        "lastErrors": list(errors),
    }
    reached = _reached(health, template)
    if reached.told:
        status["observedGeneration"] = template.pcs.generation
        status["currentGenerationHash"] = template.generation_hash
    update = update_status(template, snapshot, reached, now)
    if update.progress is not None:
        status["updateProgress"] = update.progress
    if update.condition is not None:
        live = (template.pcs.wire.get("status") or {}).get("conditions") or ()
        status["conditions"] = merged(live, [update.condition], now)
    return status


def _gang_statuses(podgangs: Mapping[str, PodGang]) -> list[dict[str, Any]]:
    """Phase and conditions of each gang by name; conditions of the first hundred only, those that run come last."""
    shown = sorted(podgangs, key=lambda name: (podgangs[name].status.phase == PodGangPhase.RUNNING, name))
    entries = []
    for place, name in enumerate(shown):
        phase = podgangs[name].status.phase
        entry: dict[str, Any] = {"name": name, "phase": phase if phase in _PHASES else PodGangPhase.PENDING.value}
        conditions = (podgangs[name].wire.get("status") or {}).get("conditions")
        entries.append(entry | {"conditions": conditions} if conditions and place < _WITH_CONDITIONS else entry)
    return sorted(entries, key=lambda entry: str(entry["name"]))


@dataclass(frozen=True, slots=True)
class _ReplicaHealth:
    told: bool
    """every child exists, carries the set's template, and does not speak of another"""
    available: bool
    updated: bool
    stale: bool
    """some PodClique has pods of another template than its own"""
    cliques: int
    """standalone PodCliques that run the set's template"""
    groups: int
    """scaling groups that do"""


def _reached(health: Sequence[_ReplicaHealth], template: Template) -> Reached:
    return Reached(
        told=all(replica.told for replica in health),
        converged=all(replica.available and replica.updated for replica in health),
        stale=any(replica.stale for replica in health),
        counts={
            "updatedPodCliquesCount": sum(replica.cliques for replica in health),
            "totalPodCliquesCount": len(health) * len(template.standalone),
            "updatedPodCliqueScalingGroupsCount": sum(replica.groups for replica in health),
            "totalPodCliqueScalingGroupsCount": len(health) * len(template.groups),
        },
    )


def _replica_health(template: Template, replica: int, snapshot: SetSnapshot) -> _ReplicaHealth:
    told = available = True
    stale = False
    cliques = groups = 0
    for clique in template.standalone:
        pclq = snapshot.podcliques.get(names.podclique_name(template.name, replica, clique.name))
        told = told and pclq is not None and runs(pclq, template) and not outdated(pclq, template)
        available = available and is_available(pclq)
        stale = stale or _has_stale_pods(pclq)
        cliques += pclq is not None and is_updated(pclq, template)
    for group in template.groups:
        name = names.scaling_group_name(template.name, replica, group)
        scaling_group = snapshot.scaling_groups.get(name)
        members = [] if scaling_group is None else list(_members(template, group, scaling_group, snapshot))
        told = told and scaling_group is not None and not outdated(scaling_group, template)
        told = told and all(one is not None and runs(one, template) for one in members)
        available = available and _group_available(scaling_group)
        stale = stale or any(map(_has_stale_pods, members))
        current = scaling_group.status.current_pod_clique_set_generation_hash if scaling_group is not None else None
        groups += current == template.generation_hash
    updated = cliques == len(template.standalone) and groups == len(template.groups)
    return _ReplicaHealth(told, available, updated, stale, cliques, groups)


def _members(
    template: Template, group: str, scaling_group: PodCliqueScalingGroup, snapshot: SetSnapshot
) -> Iterator[PodClique | None]:
    for index in range(scaling_group.spec.replicas):
        for clique in template.members(group):
            yield snapshot.podcliques.get(names.scaling_group_podclique_name(scaling_group.name, index, clique.name))


def _has_stale_pods(podclique: PodClique | None) -> bool:
    return podclique is not None and podclique.status.updated_replicas != podclique.status.replicas


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
