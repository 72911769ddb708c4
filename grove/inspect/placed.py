"""Causes that bite once a gang's gates are off: no place, the start order, containers, updates.

Checks as in `held`; they quote what the scheduler and the kubelet say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from grove.api import labels
from grove.api.base import find_condition
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.inspect.containers import Complaint, Trouble, complaints
from grove.inspect.findings import Cause, Finding, few
from grove.inspect.rollout import is_observed, update_condition
from grove.inspect.scene import Pod
from grove.inspect.scope import Scope
from grove.inspect.text import counted, short
from grove.plan.kinds import PODCLIQUE, PODCLIQUESET, PODGANG
from grove.plan.release import Readiness, lacking_parents
from grove.plan.rollout import is_stale
from grove.plan.scalinggroup import set_replica

_SAYS: Final = "the scheduler says: "


# -- the scheduler ---------------------------------------------------------------------------------------------------


def unscheduled(scope: Scope) -> Finding | None:
    """The scheduler finds no place, or has not answered."""
    waiting = [pod for pod in scope.pods if not pod.view.scheduled and not pod.view.gates]
    if not waiting:
        return None
    names = Counter(pod.view.podclique for pod in waiting)
    which = "this pod" if scope.pod is not None else ", ".join(f"{n} of {name}" for name, n in names.items())
    said = next((pod.view.refusal for pod in waiting if pod.view.refusal), "") or _gang_says(scope, waiting)
    scheduler = waiting[0].wire["spec"].get("schedulerName") or labels.DEFAULT_SCHEDULER
    evidence = (*few(_placed(scope)), *few(_guarantee(scope, waiting)), f"scheduler: {scheduler}")
    if not said:
        return Finding(
            Cause.SCHEDULER_SILENT,
            f"the scheduler has not answered yet for {which}",
            evidence,
            (f"wait a moment; if it stays so, see whether {scheduler} runs",),
        )
    advice = "free or add nodes that fit what the pods ask for, or let them ask for less"
    if "didn't match Pod's node affinity/selector" in said or "untolerated taint" in said:
        advice = "see nodeSelector, affinity and tolerations of the template, and labels and taints of the nodes"
    return Finding(Cause.UNSCHEDULABLE, f"no place for {which}; {_SAYS}{short(said)}", evidence, (advice,))


def _gang_says(scope: Scope, waiting: Sequence[Pod]) -> str:
    """The scheduler's word on the gang, as the PodGang quotes it."""
    for name in dict.fromkeys(pod.view.gang for pod in waiting):
        live = scope.scene.podgangs.get(name)
        found = find_condition(live.status.conditions, ConditionType.SCHEDULED) if live is not None else None
        if found is not None and found.status != "True" and _SAYS in found.message:
            return found.message.partition(_SAYS)[2]
    return ""


def _placed(scope: Scope) -> Iterator[str]:
    for gang in scope.gangs:
        for group in gang.groups:
            if group.scheduled < group.member.min_replicas:
                yield f"{group.member.podclique} has {group.scheduled} of {group.member.min_replicas} pods on nodes"


def _guarantee(scope: Scope, waiting: Sequence[Pod]) -> Iterator[str]:
    for name in dict.fromkeys(pod.view.gang for pod in waiting):
        live = scope.scene.podgangs.get(name)
        found = find_condition(live.status.conditions, ConditionType.GANG_GUARANTEED) if live is not None else None
        if found is not None and found.status == "False":
            yield f"{name} is not placed as a gang: {short(found.message)}"


def surplus(scope: Scope) -> Finding | None:
    """Pods beyond the minimum, which come after the minimums of their gang."""
    held = [pod for pod in scope.pods if pod.view.gated]
    if not held:
        return None
    name = held[0].view.gang
    gang = scope.scene.gangs.get(name)
    which = "it is" if scope.pod is not None else f"{counted(len(held), 'pod')} are"
    text = f"{which} beyond the minimum of PodGang {name}, which is placed first"
    asked = gang is None or (gang in scope.gangs and scope.resource in (PODGANG, PODCLIQUESET))
    because = None if asked or gang is None else scope.narrowed(PODGANG, name, scope.members(gang))
    return Finding(Cause.SURPLUS, text, because=because)


# -- on the node -----------------------------------------------------------------------------------------------------


def unreleased(scope: Scope) -> Finding | None:
    """Pods that are placed and wait for other cliques to be ready."""
    for podclique in scope.podcliques:
        held = [pod for pod in scope.pods if pod.view.held and pod.view.scheduled and _owns(podclique, pod)]
        found = _waits(scope, podclique, held) if held else None
        if found is not None:
            return found
    return None


def _waits(scope: Scope, podclique: PodClique, held: Sequence[Pod]) -> Finding | None:
    """For whom a PodClique's pods wait; None where those are asked about too, as their own cause comes first then."""
    template, replica = scope.scene.template, set_replica(podclique)
    who = "it" if scope.pod is not None or scope.resource == PODCLIQUE else podclique.name
    lacking = lacking_parents(podclique, template, Readiness(template, replica, scope.scene.view(replica)))
    if not lacking:
        text = f"{who} is about to start: those it starts after are ready"
        return Finding(Cause.STARTUP_ORDER, text, (), ("wait a moment; if it stays so, see whether the operator runs",))
    asked = {one.name for one in scope.podcliques}
    if all(one.podclique in asked for one in lacking):
        return None
    parents = "; ".join(f"{one.podclique}, which has {one.ready} of {one.needed} pods ready" for one in lacking)
    first = scope.scene.podcliques.get(lacking[0].podclique)
    return Finding(
        Cause.STARTUP_ORDER,
        f"{who} starts after {parents}",
        (f"{counted(len(held), 'pod')} of {podclique.name} wait in init container {labels.INIT_CONTAINER}",),
        because=scope.narrowed(PODCLIQUE, first.name, [first]) if first is not None else None,
    )


def unready(scope: Scope) -> Finding | None:
    """Containers that cannot start, crash, or are not ready."""
    waiting = [pod for pod in scope.pods if pod.view.scheduled and not pod.view.ready]
    waiting = [pod for pod in waiting if not pod.view.held] or waiting
    if not waiting:
        return None
    seen = [(pod, _worst(pod)) for pod in waiting]
    seen.sort(key=lambda item: item[1].trouble)
    pod, worst = seen[0]
    names = Counter(one.view.podclique for one in waiting)
    which = ", ".join(f"{counted(number, 'pod')} of {name}" for name, number in names.items())
    which += " is not ready" if len(waiting) == 1 else " are not ready"
    said = f": {short(worst.message, 200)}" if worst.message else ""
    told = f"{worst.text}{said}" if not worst.container else f"container {worst.container} {worst.text}{said}"
    sentence = told if scope.pod is not None else f"{which}; in {pod.view.name} {told}"
    lines = [f"{one.view.name} on {one.view.node}: {what.container} {what.text}".strip() for one, what in seen]
    return Finding(
        Cause.CONTAINERS, sentence, (*few(lines), *few(_warnings(scope, pod))), _container_advice(pod, worst)
    )


def _worst(pod: Pod) -> Complaint:
    found = complaints(pod.wire)
    if found:
        return found[0]
    gates = [one.get("conditionType", "") for one in pod.wire["spec"].get("readinessGates") or ()]
    conditions = {one.get("type"): one.get("status") for one in (pod.wire.get("status") or {}).get("conditions") or ()}
    closed = [gate for gate in gates if conditions.get(gate) != "True"]
    if closed:
        return Complaint(Trouble.NOT_READY, "", message=f"readiness gate {closed[0]} is not true")
    return Complaint(Trouble.CREATING, "", message="the kubelet has not reported its containers yet")


def _warnings(scope: Scope, pod: Pod) -> Iterator[str]:
    for event in scope.events.get(pod.view.name, ()):
        yield f"event {event.get('reason')}: {short(event.get('message') or '', 200)}"


def _container_advice(pod: Pod, worst: Complaint) -> tuple[str, ...]:
    name, logs = pod.view.name, f"kubectl logs -n NAMESPACE {pod.view.name} -c {worst.container}"
    describe = f"kubectl describe pod -n NAMESPACE {name}"
    match worst.trouble:
        case Trouble.CRASHED:
            return (f"see its last words: {logs} --previous",)
        case Trouble.CANNOT_START if "Image" in worst.reason:
            return ("see the image's name, and imagePullSecrets of the template",)
        case Trouble.NOT_READY | Trouble.NOT_STARTED:
            return (f"see what its probe asks for, and what it logs: {describe}; {logs}",)
        case Trouble.INITIALIZING:
            return (f"see what it does: {logs}",)
    return (f"see the events of the pod, and its node {pod.view.node}: {describe}",)


# -- updates ---------------------------------------------------------------------------------------------------------


def updating(scope: Scope) -> Finding | None:
    """An update that is under way, or pods of an older template that nobody replaces."""
    pcs = scope.scene.template.pcs
    update = update_condition(pcs)
    stale = [pod for one in scope.podcliques for pod in scope.pods if _owns(one, pod) and is_stale(pod.view, one)]
    if update is not None and update.status == "True":
        if scope.resource != PODCLIQUESET and not stale:
            return None
        late = update.reason == Reason.PROGRESS_DEADLINE_EXCEEDED
        advice = "see what keeps the new pods from being ready: kubectl grove explain of what is named" if late else ""
        text = f"an update is under way: {short(update.message)}"
        if scope.pod is not None:
            text = f"it has an older template, and an update is under way: {short(update.message)}"
        return Finding(Cause.UPDATE, text, _stale_lines(stale), (advice,) if advice else ())
    if update is not None and update.reason == Reason.UPDATE_ON_DELETE and stale:
        text = f"{counted(len(stale), 'pod')} of an older template stay until somebody deletes them (OnDelete)"
        return Finding(Cause.UPDATE, text, _stale_lines(stale), ("delete the pods, or switch to RollingRecreate",))
    if scope.resource == PODCLIQUESET and not is_observed(pcs):
        seen = f"generation {pcs.generation}, observed {pcs.status.observed_generation or 0}"
        text = f"the operator has not given every PodClique the last change yet: {seen}"
        return Finding(Cause.UPDATE, text, (), ("wait a moment; if it stays so, see whether the operator runs",))
    return None


def _stale_lines(stale: Sequence[Pod]) -> tuple[str, ...]:
    counts = Counter(pod.view.podclique for pod in stale)
    return few([f"{name}: {counted(number, 'pod')} of an older template" for name, number in counts.items()])


def _owns(podclique: PodClique, pod: Pod) -> bool:
    return pod.view.owner_uid == podclique.uid
