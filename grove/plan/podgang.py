"""The PodGang object of a gang: its references, its status, and the gates that come off with it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.api.labels import Component, ConditionType, Reason
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan.children import managed_labels
from grove.plan.conditions import Want, is_true, merged
from grove.plan.diff import covers
from grove.plan.gangs import GangState, GroupState, gates_to_lift
from grove.plan.kinds import POD, PODGANG
from grove.plan.observed import PodView
from grove.plan.placement import Placement
from grove.plan.template import Template, mirrored, owner_reference
from grove.plan.update import differs, patch_for
from grove.runtime.writes import Create, Patch, Write

_WAITING = "Waiting"
_PLACED = "MinimumPlaced"
_RUNNING = "MinimumReady"


@dataclass(frozen=True, slots=True)
class GangPlan:
    """What to do about one gang. The three steps are taken in order; one that fails stops the later ones."""

    state: GangState
    spec: tuple[Write, ...] = ()
    status: dict[str, Any] | None = None
    """the status to write, None when the live one says it all"""
    gates: tuple[Write, ...] = ()
    deferred: bool = False
    """something is left for a calmer moment: call again with `hurry`"""


def plan_gang(
    template: Template,
    state: GangState,
    base: GangState | None,
    live: PodGang | None,
    *,
    hurry: bool,
    now: str,
    placement: Placement = Placement(),  # noqa: B008 - it is frozen
) -> GangPlan:
    """Write the PodGang when its gang is complete, then its status, then lift the gates of the pods it references.

    References to an incomplete gang and states on the way to Running are of little use and change within moments;
    they are written with `hurry` only, so that a gang that comes up smoothly costs one PodGang and one or two status
    writes. Gates wait for the references, not for the status that tells of them.
    `base` is the base gang's state for a scaled gang, None for a base gang. `now` is RFC 3339. `placement` is what
    the scheduler says.
    """
    if live is not None and live.deleting:
        return GangPlan(state)
    desired = _podgang(template, state)
    spec = _spec_writes(live, desired)
    postponed = bool(spec) and not (state.complete or hurry)
    if postponed:
        spec = ()
    referenced = _referenced(live.wire if postponed and live is not None else desired) if live or spec else set()
    gates = tuple(_lift(pod) for pod in gates_to_lift(state, base) if pod.name in referenced)
    status = _status(state, live, placement, complete=state.complete and not postponed, now=now)
    have = (live.wire.get("status") if live is not None else None) or {}
    urgent = hurry or status["phase"] == PodGangPhase.RUNNING
    changed = differs(have, status) and (live is not None or bool(spec))
    return GangPlan(state, spec, status if changed and urgent else None, gates, postponed or (changed and not urgent))


def _podgang(template: Template, state: GangState) -> dict[str, Any]:
    groups = [
        {
            "name": group.member.podclique,
            "minReplicas": group.member.min_replicas,
            "podReferences": [{"namespace": pod.namespace, "name": pod.name} for pod in group.pods],
        }
        for group in state.groups
    ]
    spec: dict[str, Any] = {"podgroups": groups}
    if template.priority_class_name:
        spec["priorityClassName"] = template.priority_class_name
    own = managed_labels(template.name, Component.PODGANG.value) | {labels.SCHEDULER_NAME: template.scheduler_name}
    metadata = {
        "name": state.gang.name,
        "namespace": template.namespace,
        "labels": mirrored(template.pcs.labels) | own,
        "annotations": mirrored(template.pcs.annotations),
        "ownerReferences": owner_reference(labels.API_VERSION, "PodCliqueSet", template.name, template.uid),
    }
    return {"apiVersion": labels.SCHEDULER_API_VERSION, "kind": "PodGang", "metadata": metadata, "spec": spec}


def _spec_writes(live: PodGang | None, desired: dict[str, Any]) -> tuple[Write, ...]:
    if live is None:
        return (Create(PODGANG, desired),)
    want, have = desired["spec"], live.wire.get("spec") or {}
    changes = {} if covers(have.get("podgroups"), want["podgroups"]) else {"podgroups": want["podgroups"]}
    if (have.get("priorityClassName") or "") != want.get("priorityClassName", ""):
        changes["priorityClassName"] = want.get("priorityClassName")
    return tuple(patch_for(PODGANG, live.wire, desired, changes))


def _status(
    state: GangState, live: PodGang | None, placement: Placement, *, complete: bool, now: str
) -> dict[str, Any]:
    have: dict[str, Any] = (live.wire.get("status") if live is not None else None) or {}
    initialized = complete or (_initialized(have) and state.released)
    scheduled = initialized and state.scheduled
    ready = scheduled and state.ready
    phase = PodGangPhase.RUNNING if ready else PodGangPhase.STARTING if scheduled else PodGangPhase.PENDING
    wanted = [
        _initialized_condition(state, initialized),
        _progress(ConditionType.SCHEDULED, scheduled, _PLACED, state.groups, [g.scheduled for g in state.groups]),
        _progress(ConditionType.READY, ready, _RUNNING, state.groups, [g.ready for g in state.groups]),
        *placement.conditions,
    ]
    return {"phase": phase.value, "conditions": merged(have.get("conditions") or (), wanted, now)}


def _initialized(status: dict[str, Any]) -> bool:
    return is_true(status.get("conditions") or (), ConditionType.INITIALIZED)


def _initialized_condition(state: GangState, initialized: bool) -> Want:
    if initialized:
        text = "every pod of the gang has been created and is referenced"
        return Want(ConditionType.INITIALIZED, True, Reason.POD_GANG_PODS_CREATED, text)
    missing = _shortfall(state.groups, [len(g.pods) for g in state.groups], [g.member.replicas for g in state.groups])
    text = f"waiting for pods to be created: {missing}" if missing else "waiting for the PodGang to reference its pods"
    return Want(ConditionType.INITIALIZED, False, Reason.POD_GANG_PODS_CREATION_PENDING, text)


def _progress(kind: ConditionType, reached: bool, reason: str, groups: Sequence[GroupState], have: list[int]) -> Want:
    word = kind.value.lower()
    if reached:
        return Want(kind, True, reason, f"every group has its minimum of {word} pods")
    missing = _shortfall(groups, have, [group.member.min_replicas for group in groups])
    return Want(kind, False, _WAITING, f"waiting for {word} pods: {missing or 'the gang is not initialized'}")


def _shortfall(groups: Sequence[GroupState], have: Sequence[int], need: Sequence[int]) -> str:
    """Names the groups that lack pods: `simple1-0-pca has 1 of 3, …`; "" when none does."""
    lacking = [
        f"{group.member.podclique} has {got} of {wanted}"
        for group, got, wanted in zip(groups, have, need, strict=True)
        if got < wanted
    ]
    more = f" and {len(lacking) - 5} more groups lack pods" if len(lacking) > 5 else ""
    return ", ".join(lacking[:5]) + more


def _referenced(podgang: dict[str, Any]) -> set[str]:
    groups = (podgang.get("spec") or {}).get("podgroups") or ()
    return {reference["name"] for group in groups for reference in group.get("podReferences") or ()}


def _lift(pod: PodView) -> Patch:
    """Remove our gate, by name: the patch fails when the list of gates has changed or another pod has the name."""
    path = f"/spec/schedulingGates/{pod.gates.index(labels.POD_GATE)}"
    body = [{"op": "test", "path": f"{path}/name", "value": labels.POD_GATE}, {"op": "remove", "path": path}]
    return Patch(POD, pod.namespace, pod.name, body, uid=pod.uid)
