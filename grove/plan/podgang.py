"""The PodGang object of a gang: its references, when it is written, and the gates that come off with it."""

from dataclasses import dataclass, replace
from typing import Any

from grove.api import labels
from grove.api.labels import Component
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan.children import managed_labels
from grove.plan.diff import covers, replacement
from grove.plan.gangs import Gang, GangState, Member, gates_to_lift
from grove.plan.gangstatus import GangStatus, Surroundings, gang_status
from grove.plan.kinds import POD, PODGANG
from grove.plan.observed import PodView
from grove.plan.template import Template, mirrored, owner_reference
from grove.plan.topology import Packed, Topology
from grove.plan.update import differs, patch_for
from grove.runtime.writes import Create, Patch, Write

_AS_WRITTEN = ("priorityClassName", "topologyConstraint", "topologyConstraintGroupConfigs")
"""Fields of a PodGang's spec that are as we write them, or not there."""


@dataclass(frozen=True, slots=True)
class GangPlan:
    """What to do about one gang. The three steps are taken in order; one that fails stops the later ones."""

    state: GangState
    spec: tuple[Write, ...] = ()
    status: GangStatus | None = None
    """the status to write, None when the live one says it all"""
    gates: tuple[Write, ...] = ()
    deferred: bool = False
    """something is left for a calmer moment: call again with `hurry`"""


def plan_gang(
    template: Template, state: GangState, around: Surroundings, live: PodGang | None, *, hurry: bool, now: str
) -> GangPlan:
    """Write the PodGang when its gang is complete, then its status, then lift the gates of the pods it references.

    References to an incomplete gang and states on the way to Running are of little use and change within moments;
    they are written with `hurry` only, so that a gang that comes up smoothly costs one PodGang and one or two status
    writes. Gates wait for the references, not for the status that tells of them. `now` is RFC 3339.
    """
    if live is not None and live.deleting:
        return GangPlan(state)
    desired = _podgang(template, state, around.topology)
    spec = _spec_writes(live, desired)
    postponed = bool(spec) and not (state.complete or hurry)
    if postponed:
        spec = ()
    referenced = _referenced(live.wire if postponed and live is not None else desired) if live or spec else set()
    gates = tuple(_lift(pod) for pod in gates_to_lift(state, around.base) if pod.name in referenced)
    have: dict[str, Any] = (live.wire.get("status") if live is not None else None) or {}
    around = replace(around, within=_within(desired["spec"]))
    shown = gang_status(state, have, around, complete=state.complete and not postponed, now=now)
    urgent = hurry or shown.status["phase"] == PodGangPhase.RUNNING
    changed = differs(have, shown.status) and (live is not None or bool(spec))
    late = changed and not urgent
    return GangPlan(state, spec, shown if changed and urgent else None, gates, deferred=postponed or late)


def _podgang(template: Template, state: GangState, topology: Topology) -> dict[str, Any]:
    groups = [
        {
            "name": group.member.podclique,
            "minReplicas": group.member.min_replicas,
            "podReferences": [{"namespace": pod.namespace, "name": pod.name} for pod in group.pods],
        }
        | _constrained(topology.cliques.get(group.member.clique))
        for group in state.groups
    ]
    spec: dict[str, Any] = {"podgroups": groups, **_constrained(_whole(template, state.gang, topology))}
    if configs := _group_configs(template, state.gang, topology):
        spec["topologyConstraintGroupConfigs"] = configs
    if template.priority_class_name:
        spec["priorityClassName"] = template.priority_class_name
    own = managed_labels(template.name, Component.PODGANG.value) | {labels.SCHEDULER_NAME: template.scheduler_name}
    metadata = {
        "name": state.gang.name,
        "namespace": template.namespace,
        "labels": mirrored(template.pcs.labels) | own,
        "annotations": mirrored(template.pcs.annotations)
        | ({labels.TOPOLOGY_NAME: topology.name} if topology.name else {}),
        "ownerReferences": owner_reference(labels.API_VERSION, "PodCliqueSet", template.name, template.uid),
    }
    return {"apiVersion": labels.SCHEDULER_API_VERSION, "kind": "PodGang", "metadata": metadata, "spec": spec}


def _whole(template: Template, gang: Gang, topology: Topology) -> Packed | None:
    group = template.group_of.get(gang.members[0].clique, "")
    return topology.of_gang(group, scaled=bool(gang.base))


def _group_configs(template: Template, gang: Gang, topology: Topology) -> list[dict[str, Any]]:
    """The constraints of scaling groups in a base gang: one for each of their replicas (reference 9.1)."""
    units: dict[str, list[Member]] = {}
    for member in gang.members if not gang.base else ():
        if topology.groups.get(template.group_of.get(member.clique, "")):
            units.setdefault(member.unit, []).append(member)
    return [
        {"name": unit, "podGroupNames": [member.podclique for member in members]}
        | _constrained(topology.groups[template.group_of[members[0].clique]])
        for unit, members in units.items()
    ]


def _within(spec: dict[str, Any]) -> str:
    """The levels that a gang's pods, or some of them, must be within, the broadest first."""
    parts = (spec, *spec.get("topologyConstraintGroupConfigs", ()), *spec["podgroups"])
    packs = (part.get("topologyConstraint", {}).get("packConstraint", {}) for part in parts)
    return ", ".join(dict.fromkeys(f"one {pack['required']}" for pack in packs if "required" in pack))


def _constrained(packed: Packed | None) -> dict[str, Any]:
    return {"topologyConstraint": packed} if packed else {}


def _spec_writes(live: PodGang | None, desired: dict[str, Any]) -> tuple[Write, ...]:
    if live is None:
        return (Create(PODGANG, desired),)
    want, have = desired["spec"], live.wire.get("spec") or {}
    changes = {} if _covers(have.get("podgroups"), want["podgroups"]) else {"podgroups": want["podgroups"]}
    for key in _AS_WRITTEN:
        if (have.get(key) or None) != want.get(key):
            changes[key] = replacement(have.get(key), want.get(key))
    return tuple(patch_for(PODGANG, live.wire, desired, changes))


def _covers(have: Any, want: list[dict[str, Any]]) -> bool:
    """Whether live pod groups say all that is wanted, and have no constraint that is wanted no more."""
    key = "topologyConstraint"
    return covers(have, want) and [group.get(key) for group in have] == [group.get(key) for group in want]


def _referenced(podgang: dict[str, Any]) -> set[str]:
    groups = (podgang.get("spec") or {}).get("podgroups") or ()
    return {reference["name"] for group in groups for reference in group.get("podReferences") or ()}


def _lift(pod: PodView) -> Patch:
    """Remove our gate, by name: the patch fails when the list of gates has changed or another pod has the name."""
    path = f"/spec/schedulingGates/{pod.gates.index(labels.POD_GATE)}"
    body = [{"op": "test", "path": f"{path}/name", "value": labels.POD_GATE}, {"op": "remove", "path": path}]
    return Patch(POD, pod.namespace, pod.name, body, uid=pod.uid)
