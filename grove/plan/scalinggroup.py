"""A PodCliqueScalingGroup: its PodCliques and its status."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grove.api import labels, names
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueScalingGroupConfig
from grove.plan.conditions import Want, merged
from grove.plan.diff import covers
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.plan.observed import PodView
from grove.plan.progress import child_progress, replica_of, updating
from grove.plan.template import Template
from grove.plan.units import Unit, look_at
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


def look_at_all(
    scaling_group: PodCliqueScalingGroup,
    template: Template,
    live: Mapping[str, PodClique],
    pods: Mapping[str, Iterable[PodView]],
) -> list[Unit]:
    """The replicas of a scaling group, none when the template has it no more. `live` and `pods` as in `look_at`."""
    group, replicas = group_of(scaling_group, template), range(scaling_group.spec.replicas)
    return [look_at(group, scaling_group, index, template, live, pods) for index in replicas] if group else []


def surplus_of(units: Iterable[Unit], owned: Iterable[PodClique]) -> list[PodClique]:
    """Those PodCliques a scaling group owns that belong to none of its replicas: it was scaled in, say."""
    mine = {name for unit in units for name in unit.podcliques}
    return [podclique for podclique in owned if podclique.name not in mine]


def plan_members(
    scaling_group: PodCliqueScalingGroup, template: Template, units: Iterable[Unit], surplus: Iterable[PodClique]
) -> tuple[Write, ...]:
    """The writes that give every replica its PodCliques and remove the `surplus`.

    Scale-in takes the highest indices (reference 6.2).
    """
    lost = group_of(scaling_group, template) is None or set_replica(scaling_group) >= template.replicas
    if lost or scaling_group.deleting:
        return ()
    gone = (pclq for pclq in surplus if not pclq.deleting)
    return (
        *(write for unit in units for write in unit.writes),
        *(Delete(PODCLIQUE, pclq.namespace, pclq.name, pclq.uid, "scaled in") for pclq in gone),
    )


def scaling_group_status(
    scaling_group: PodCliqueScalingGroup,
    template: Template,
    units: Sequence[Unit],
    errors: Sequence[dict[str, Any]],
    now: str,
) -> dict[str, Any]:
    """The status a scaling group should show (API doc 1.9). `now` is RFC 3339.

    During an update a replica counts as updated once its pods say so, too: the statuses of PodCliques, which decide
    otherwise, follow a moment later, and an update must not look finished meanwhile.
    """
    status: dict[str, Any] = {
        "observedGeneration": scaling_group.generation,
        "replicas": scaling_group.spec.replicas,
        "selector": names.scaling_group_selector(scaling_group.labels.get(labels.PART_OF, ""), scaling_group.name),
        "lastErrors": list(errors),
    }
    group = group_of(scaling_group, template)
    if group is None:
        return status
    have, rolls = scaling_group.wire.get("status") or {}, updating(scaling_group, template)
    waiting = [index for index, unit in enumerate(units) if not unit.updated or (rolls and not unit.arrived)]
    arrived = all(unit.current for unit in units) and not (rolls and waiting)
    at_work = rolls and not arrived
    status |= {
        "scheduledReplicas": sum(unit.scheduled for unit in units),
        "availableReplicas": sum(unit.available for unit in units),
        "updatedReplicas": len(units) - len(waiting),
        "conditions": merged(
            have.get("conditions") or (),
            _conditions(scaling_group, units, suspended=at_work),
            now,
            dropping=(ConditionType.GANG_TERMINATION_IN_PROGRESS,),
        ),
    }
    if arrived:
        status["currentPodCliqueSetGenerationHash"] = template.generation_hash
    more: dict[str, Any] = {
        "updatedPodCliquesCount": sum(unit.updated_podcliques for unit in units),
        "totalPodCliquesCount": len(units) * len(template.members(group)),
    }
    if at_work and waiting:
        completed = sorted({*range(len(units))} - {*waiting})
        more["readyReplicaIndicesSelectedToUpdate"] = {"current": waiting[0], "completed": completed}
    progress = child_progress(have, template, at_work=at_work, arrived=arrived, now=now, more=more)
    if progress is not None:
        status["updateProgress"] = progress
    return status


_SUSPENDED = Want(
    ConditionType.MIN_AVAILABLE_BREACHED, None, Reason.UPDATE_IN_PROGRESS, "replicas are being replaced by the update"
)


def _conditions(scaling_group: PodCliqueScalingGroup, units: Sequence[Unit], *, suspended: bool) -> list[Want]:
    """MinAvailableBreached, and GangTerminationInProgress while the group is to come back from a termination."""
    breach = _SUSPENDED if suspended else _breach(scaling_group, sum(unit.healthy for unit in units))
    text = next((unit.terminated for unit in units if unit.terminated), "")
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
