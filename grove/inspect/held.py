"""Causes that keep pods from the scheduler: they end, they are refused, their gang is not complete, gates hold them.

A check takes what is asked about and says what it found, or None. The texts name objects, counts and fields, and
quote what the operator and the API server say.
"""

from __future__ import annotations

from collections import Counter

from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.inspect.containers import complaints
from grove.inspect.findings import SHOWN, Cause, Finding, few, has_pods
from grove.inspect.scene import Pod
from grove.inspect.scope import Scope
from grove.inspect.text import counted, short
from grove.plan.breach import terminated_until
from grove.plan.gangs import GangState
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.plan.podclique import clique_of, wanted_pods
from grove.plan.rollout import is_stale

# -- what is on its way out ------------------------------------------------------------------------------------------


def deleted(scope: Scope) -> Finding | None:
    """It is being deleted, and why as far as that can be told."""
    if scope.pod is not None:
        return _deleted_pod(scope, scope.pod) if scope.pod.view.deleting else None
    held = _holder(scope)
    if held is None or not held.deleting:
        return None
    finalizers = held.metadata.finalizers
    evidence = (f"finalizers: {', '.join(finalizers)}",) if finalizers else ()
    advice = ("it goes when whoever set the finalizers removes them",) if finalizers else ()
    return Finding(Cause.DELETION, f"is being deleted since {held.metadata.deletion_timestamp}", evidence, advice)


def _deleted_pod(scope: Scope, pod: Pod) -> Finding:
    podclique, metadata = scope.podcliques[0], pod.wire["metadata"]
    if pod.view.created <= terminated_until(podclique):
        reason = "its gang starts anew, as it stayed below its minimum for terminationDelay"
    elif is_stale(pod.view, podclique):
        reason = "it has an older template and is replaced by the update"
    elif pod.view.index >= wanted_pods(podclique):
        reason = f"{podclique.name} was scaled in to {wanted_pods(podclique)}"
    else:
        reason = "somebody deleted it, an eviction perhaps; another pod takes its place"
    evidence = [f"grace period until {metadata['deletionTimestamp']}"]
    if finalizers := metadata.get("finalizers"):
        evidence.append(f"finalizers: {', '.join(finalizers)}")
    return Finding(Cause.DELETION, f"is being deleted: {reason}", tuple(evidence))


def ended(scope: Scope) -> Finding | None:
    """The pod ran to an end."""
    if scope.pod is None or not scope.pod.view.finished:
        return None
    status = scope.pod.wire.get("status") or {}
    said = ": ".join(part for part in (status.get("reason"), status.get("message")) if part)
    text = f"has ended, {scope.pod.view.phase}" + (f" ({short(said)})" if said else "")
    found = complaints(scope.pod.wire)
    evidence = tuple(f"container {one.container} {one.text}" for one in found[:SHOWN])
    return Finding(Cause.ENDED, text, evidence, ("nothing: another pod takes its index, then this one is deleted",))


# -- the operator and the API server ---------------------------------------------------------------------------------


def unobserved(scope: Scope) -> Finding | None:
    """The operator has done nothing about the set yet."""
    pcs = scope.scene.template.pcs
    if scope.resource != PODCLIQUESET or pcs.status.observed_generation or pcs.status.last_errors:
        return None
    if scope.scene.podcliques or not pcs.spec.replicas:
        return None
    text = "the operator has not worked on it yet: there is no PodClique and no status"
    return Finding(
        Cause.NOT_OBSERVED,
        text,
        (f"created at {pcs.metadata.creation_timestamp}",),
        ("see whether the operator runs, and what it logs: kubectl grove diagnose",),
    )


def refused(scope: Scope) -> Finding | None:
    """What the API server refuses the operator: pods by a quota, a policy or a webhook (status.lastErrors)."""
    troubled = [one for one in _concerned(scope) if one.status.last_errors]
    if not troubled:
        return None
    first = troubled[0]
    error = first.status.last_errors[0]
    have = f": {has_pods(scope, first)}" if isinstance(first, PodClique) else ""
    sentence = f"what {first.name} needs is refused{have}; {short(error.description)}"
    lines = [
        f"{one.kind or 'object'} {one.name}: {entry.code} at {entry.observed_at}: {short(entry.description)}"
        for one in troubled
        for entry in one.status.last_errors
    ]
    return Finding(Cause.REFUSED, sentence, few(lines), (remedy(error.description),))


def _concerned(scope: Scope) -> list[PodCliqueSet | PodCliqueScalingGroup | PodClique]:
    """Whose errors count: those of the PodCliques that are meant, and of their gangs while that waits for pods."""
    found: dict[str, PodCliqueSet | PodCliqueScalingGroup | PodClique] = {}
    if scope.pod is None:
        found |= {one.uid: one for one in scope.podcliques}
    for gang in scope.gangs:
        if not gang.released or not gang.complete:
            gated = any(pod.view.gated for pod in scope.pods)
            found |= {one.uid: one for one in scope.members(gang) if gated or scope.missing}
    held = _holder(scope)
    if held is not None:
        found[held.uid] = held
    if scope.resource == PODCLIQUESET:
        found |= {one.uid: one for one in scope.scene.scaling_groups.values()}
    return list(found.values())


def _holder(scope: Scope) -> PodCliqueSet | PodCliqueScalingGroup | PodClique | None:
    """The object that is asked about, when it is one of the users' kinds."""
    if scope.resource == PODCLIQUESET:
        return scope.scene.template.pcs
    if scope.resource == PODCLIQUESCALINGGROUP:
        return scope.scene.scaling_groups.get(scope.name)
    return scope.podcliques[0] if scope.resource == PODCLIQUE and scope.podcliques else None


def remedy(description: str) -> str:
    """What to do about a refusal, by its words."""
    again = "the operator tries again by itself"
    if "exceeded quota" in description:
        return f"raise the ResourceQuota or free what it counts; {again}"
    if "violates PodSecurity" in description:
        return f"change the podSpec, or the Pod Security level of the namespace; {again}"
    if "admission webhook" in description:
        return f"see what the webhook that is named asks for; {again}"
    if "is forbidden" in description:
        return f"see who forbids it: a quota, a policy, or the operator's rights; {again}"
    return f"see what the error names; {again}"


# -- gates -----------------------------------------------------------------------------------------------------------


def incomplete(scope: Scope) -> Finding | None:
    """Grove's own gate: a gang whose pods are not all there, or whose base gang is not scheduled."""
    for gang in scope.gangs:
        name = gang.gang.name
        concerned = any(pod.view.gated and pod.view.gang == name for pod in scope.pods)
        concerned = concerned or any(one.labels.get(labels.PODGANG) == name for one in scope.missing)
        found = _gated(scope, gang) if concerned and not gang.released else None
        if found is not None:
            return found
    if not scope.missing:
        return None
    lacking = ", ".join(has_pods(scope, one) for one in scope.missing[:SHOWN])
    return Finding(
        Cause.GANG_INCOMPLETE,
        f"pods are missing: {lacking}",
        (),
        ("wait a moment: the operator is about to make them; if not, see whether it runs",),
    )


def _gated(scope: Scope, gang: GangState) -> Finding | None:
    """Why the gates of a gang that has not begun are on."""
    name = gang.gang.name
    missing = [f"{g.member.podclique} has {len(g.pods)} of {g.member.replicas}" for g in gang.groups if not g.whole]
    held = sum(pod.gated for group in gang.groups for pod in group.pods)
    gates = (f"gate {labels.POD_GATE} holds {counted(held, 'pod')} of {name}",)
    if missing:
        return Finding(
            Cause.GANG_INCOMPLETE,
            f"PodGang {name} waits for pods to be created: {', '.join(missing[:SHOWN])}",
            gates,
            ("wait a moment: the operator makes them; if not, see whether it runs",),
        )
    base = scope.scene.gangs.get(gang.gang.base)
    if base is not None and not base.scheduled:
        text = f"PodGang {name} waits until its base gang {base.gang.name} is scheduled"
        other = scope.narrowed(PODGANG, base.gang.name, scope.members(base))
        # Where the base gang is asked about too, its own cause is the first.
        return None if base in scope.gangs else Finding(Cause.BASE_GANG, text, gates, because=other)
    if any(set(pod.gates) - {labels.POD_GATE} for group in gang.groups for pod in group.pods):
        return None
    return Finding(
        Cause.GATE_STAYS,
        f"PodGang {name} is complete, and its gates are about to come off",
        gates,
        ("wait a moment; if they stay, see whether the operator runs: kubectl grove diagnose",),
    )


def foreign_gates(scope: Scope) -> Finding | None:
    """Gates that somebody else put on pods of the gang, which Grove never removes."""
    waiting = {pod.view.gang for pod in scope.pods if not pod.view.scheduled}
    held: Counter[tuple[str, str]] = Counter()
    own = {pod.view.uid for pod in scope.pods}
    for gang in (gang for gang in scope.gangs if gang.gang.name in waiting):
        for group in gang.groups:
            for pod in group.pods:
                held.update((gate, group.member.podclique) for gate in pod.gates if gate != labels.POD_GATE)
    if scope.pod is not None and (mine := [gate for gate in scope.pod.view.gates if gate != labels.POD_GATE]):
        text = f"scheduling gate {mine[0]} holds it; Grove removes its own gate only"
        return Finding(Cause.FOREIGN_GATE, text, (), (_gate_advice(scope, mine[0], scope.podcliques[0]),))
    if not held or not own:
        return None
    (gate, podclique), number = next(iter(held.items()))
    text = f"scheduling gate {gate} holds {counted(number, 'pod')} of {podclique}; Grove removes its own gate only"
    lines = [f"{gate} holds {some} of {name}" for (gate, name), some in held.items()]
    return Finding(
        Cause.FOREIGN_GATE, text, few(lines), (_gate_advice(scope, gate, scope.scene.podcliques[podclique]),)
    )


def _gate_advice(scope: Scope, gate: str, podclique: PodClique) -> str:
    template = scope.scene.template
    clique = clique_of(podclique, template)
    gates = template.cliques[clique].spec.pod_spec.get("schedulingGates") or () if clique is not None else ()
    if any(one.get("name") == gate for one in gates):
        return f"the template of clique {clique} asks for it (podSpec.schedulingGates): whoever it is for removes it"
    return f"find the controller or webhook that set {gate}: it removes it when it is content"
