"""A PodCliqueScalingGroup: its PodCliques and its status."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grove.api import labels, names
from grove.api.base import find_condition
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueScalingGroupConfig
from grove.plan.breach import termination_message
from grove.plan.children import member_podclique
from grove.plan.conditions import Want, merged
from grove.plan.diff import covers
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.plan.podclique import ensure_podclique, is_available, is_updated
from grove.plan.progress import child_progress, replica_of, updating
from grove.plan.template import Template
from grove.plan.update import patch_for, three_way_replicas
from grove.runtime.writes import Create, Delete, Write


def ensure_scaling_group(
    live: PodCliqueScalingGroup | None, desired: dict[str, Any], config: PodCliqueScalingGroupConfig
) -> list[Write]:
    """Create a scaling group or bring it in line with its template; the replicas belong to whoever scales it."""
    if live is None:
        return [Create(PODCLIQUESCALINGGROUP, desired)]
    if live.deleting:
        return []
    want, have = desired["spec"], live.wire.get("spec") or {}
    changes = {key: want[key] for key in ("minAvailable", "cliqueNames") if not covers(have.get(key), want[key])}
    replicas = three_way_replicas(
        live, live.spec.replicas, config.replicas, has_autoscaler=config.scale_config is not None
    )
    if replicas != live.spec.replicas:
        changes["replicas"] = replicas
    return patch_for(PODCLIQUESCALINGGROUP, live.wire, desired, changes)


def group_of(scaling_group: PodCliqueScalingGroup, template: Template) -> str | None:
    """The template's name of a scaling group."""
    replica = set_replica(scaling_group)
    expected = {names.scaling_group_name(template.name, replica, group): group for group in template.groups}
    return expected.get(scaling_group.name)


def set_replica(child: PodCliqueScalingGroup | PodClique) -> int:
    """Index of the set replica a child belongs to; -1 when its label does not tell."""
    index = replica_of(child)
    return -1 if index is None else index


def plan_members(
    scaling_group: PodCliqueScalingGroup, template: Template, live: Mapping[str, PodClique]
) -> tuple[Write, ...]:
    """The writes that give every replica its PodCliques and remove those of replicas that went.

    `live` holds the PodCliques the group owns, by name. Scale-in takes the highest indices (reference 6.2).
    """
    group = group_of(scaling_group, template)
    if group is None or scaling_group.deleting or set_replica(scaling_group) >= template.replicas:
        return ()
    writes: list[Write] = []
    expected: set[str] = set()
    for index in range(scaling_group.spec.replicas):
        for clique in template.members(group):
            desired = member_podclique(template, group, scaling_group, set_replica(scaling_group), index, clique)
            expected.add(desired["metadata"]["name"])
            writes += ensure_podclique(live.get(desired["metadata"]["name"]), desired)
    gone = [pclq for name, pclq in live.items() if name not in expected and not pclq.deleting]
    writes += [Delete(PODCLIQUE, pclq.namespace, pclq.name, pclq.uid, "scaled in") for pclq in gone]
    return tuple(writes)


@dataclass(frozen=True, slots=True)
class ReplicaHealth:
    """One replica of a scaling group."""

    complete: bool
    breached: bool
    scheduled: bool
    available: bool
    updated: bool


def replica_health(cliques: Iterable[PodClique | None], template: Template) -> ReplicaHealth:
    """Judge one replica by the status of its PodCliques; None stands for one that does not exist."""
    members = list(cliques)
    present = [pclq for pclq in members if pclq is not None and not pclq.deleting]
    complete = len(present) == len(members)
    scheduled = complete and all(_condition(pclq, ConditionType.POD_CLIQUE_SCHEDULED) for pclq in present)
    available = scheduled and all(is_available(pclq) for pclq in present)
    return ReplicaHealth(
        complete=complete,
        breached=any(_condition(pclq, ConditionType.MIN_AVAILABLE_BREACHED) for pclq in present),
        scheduled=scheduled,
        available=available,
        updated=available and all(is_updated(pclq, template) for pclq in present),
    )


def scaling_group_status(
    scaling_group: PodCliqueScalingGroup,
    template: Template | None,
    live: Mapping[str, PodClique],
    errors: Sequence[dict[str, Any]],
    now: str,
    unfinished: Collection[int] = (),
) -> dict[str, Any]:
    """The status a scaling group should show (API doc 1.9). `live` as in `plan_members`; `now` is RFC 3339.

    `unfinished` are replicas in which pods are stale, missing or not ready, seen from the pods: the statuses of
    PodCliques, which decide otherwise, follow a moment later, and an update must not look finished meanwhile.
    """
    replicas = scaling_group.spec.replicas
    status: dict[str, Any] = {
        "observedGeneration": scaling_group.generation,
        "replicas": replicas,
        "selector": names.scaling_group_selector(scaling_group.labels.get(labels.PART_OF, ""), scaling_group.name),
        "lastErrors": list(errors),
    }
    if template is None or group_of(scaling_group, template) is None:
        return status
    health = [replica_health(_replica(scaling_group, live, index), template) for index in range(replicas)]
    have = scaling_group.wire.get("status") or {}
    healthy = sum(replica.complete and not replica.breached for replica in health)
    arrived = all(
        _runs_generation(pclq, template) for index in range(replicas) for pclq in _replica(scaling_group, live, index)
    )
    if updating(scaling_group, template):
        health = [replace(one, updated=one.updated and index not in unfinished) for index, one in enumerate(health)]
        arrived = arrived and all(replica.updated for replica in health)
    at_work = updating(scaling_group, template) and not arrived
    status |= {
        "scheduledReplicas": sum(replica.scheduled for replica in health),
        "availableReplicas": sum(replica.available for replica in health),
        "updatedReplicas": sum(replica.updated for replica in health),
        "conditions": merged(
            have.get("conditions") or (),
            _conditions(scaling_group, healthy, live.values(), suspended=at_work),
            now,
            dropping=(ConditionType.GANG_TERMINATION_IN_PROGRESS,),
        ),
    }
    if arrived:
        status["currentPodCliqueSetGenerationHash"] = template.generation_hash
    more = _counts(scaling_group, template, live, health, at_work=at_work)
    progress = child_progress(have, template, at_work=at_work, arrived=arrived, now=now, more=more)
    if progress is not None:
        status["updateProgress"] = progress
    return status


def _counts(
    scaling_group: PodCliqueScalingGroup,
    template: Template,
    live: Mapping[str, PodClique],
    health: Sequence[ReplicaHealth],
    *,
    at_work: bool,
) -> dict[str, Any]:
    """The further fields of a group's updateProgress."""
    cliques = [pclq for index in range(len(health)) for pclq in _replica(scaling_group, live, index)]
    result: dict[str, Any] = {
        "updatedPodCliquesCount": sum(pclq is not None and is_updated(pclq, template) for pclq in cliques),
        "totalPodCliquesCount": len(cliques),
    }
    waiting = [index for index, replica in enumerate(health) if not replica.updated]
    if at_work and waiting:
        completed = [index for index, replica in enumerate(health) if replica.updated]
        result["readyReplicaIndicesSelectedToUpdate"] = {"current": waiting[0], "completed": completed}
    return result


def _replica(scaling_group: PodCliqueScalingGroup, live: Mapping[str, PodClique], index: int) -> list[PodClique | None]:
    cliques = scaling_group.spec.clique_names
    return [live.get(names.scaling_group_podclique_name(scaling_group.name, index, clique)) for clique in cliques]


def _runs_generation(podclique: PodClique | None, template: Template) -> bool:
    if podclique is None or podclique.deleting:
        return False
    return podclique.status.current_pod_clique_set_generation_hash == template.generation_hash


_SUSPENDED = Want(
    ConditionType.MIN_AVAILABLE_BREACHED, None, Reason.UPDATE_IN_PROGRESS, "replicas are being replaced by the update"
)


def _conditions(
    scaling_group: PodCliqueScalingGroup, healthy: int, cliques: Iterable[PodClique], *, suspended: bool
) -> list[Want]:
    """MinAvailableBreached, and GangTerminationInProgress while the group is to come back from a termination."""
    breach = _SUSPENDED if suspended else _breach(scaling_group, healthy)
    text = next((text for clique in cliques if (text := termination_message(clique))), "")
    if breach.status is False or not text:
        return [breach]
    return [breach, Want(ConditionType.GANG_TERMINATION_IN_PROGRESS, True, Reason.GANG_TERMINATION_ACTIVE, text)]


def _breach(scaling_group: PodCliqueScalingGroup, healthy: int) -> Want:
    minimum = 0 if scaling_group.spec.replicas == 0 else scaling_group.spec.min_available
    breached = healthy < minimum
    return Want(
        ConditionType.MIN_AVAILABLE_BREACHED,
        breached,
        Reason.INSUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS
        if breached
        else Reason.SUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS,
        f"{healthy} replicas are not in breach, at least {minimum} are needed",
    )


def _condition(podclique: PodClique, kind: ConditionType) -> bool:
    condition = find_condition(podclique.status.conditions, kind)
    return condition is not None and condition.status == "True"
