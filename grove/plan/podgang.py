"""The PodGang object of a gang: its references, when it is written, and the gates that come off with it."""

from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.api.labels import Component
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan.children import managed_labels
from grove.plan.diff import covers
from grove.plan.gangs import GangState, gates_to_lift
from grove.plan.gangstatus import GangStatus, Surroundings, gang_status
from grove.plan.kinds import POD, PODGANG
from grove.plan.observed import PodView
from grove.plan.template import Template, mirrored, owner_reference
from grove.plan.update import differs, patch_for
from grove.runtime.writes import Create, Patch, Write


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
    desired = _podgang(template, state)
    spec = _spec_writes(live, desired)
    postponed = bool(spec) and not (state.complete or hurry)
    if postponed:
        spec = ()
    referenced = _referenced(live.wire if postponed and live is not None else desired) if live or spec else set()
    gates = tuple(_lift(pod) for pod in gates_to_lift(state, around.base) if pod.name in referenced)
    have: dict[str, Any] = (live.wire.get("status") if live is not None else None) or {}
    shown = gang_status(state, have, around, complete=state.complete and not postponed, now=now)
    urgent = hurry or shown.status["phase"] == PodGangPhase.RUNNING
    changed = differs(have, shown.status) and (live is not None or bool(spec))
    late = changed and not urgent
    return GangPlan(state, spec, shown if changed and urgent else None, gates, deferred=postponed or late)


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


def _referenced(podgang: dict[str, Any]) -> set[str]:
    groups = (podgang.get("spec") or {}).get("podgroups") or ()
    return {reference["name"] for group in groups for reference in group.get("podReferences") or ()}


def _lift(pod: PodView) -> Patch:
    """Remove our gate, by name: the patch fails when the list of gates has changed or another pod has the name."""
    path = f"/spec/schedulingGates/{pod.gates.index(labels.POD_GATE)}"
    body = [{"op": "test", "path": f"{path}/name", "value": labels.POD_GATE}, {"op": "remove", "path": path}]
    return Patch(POD, pod.namespace, pod.name, body, uid=pod.uid)
