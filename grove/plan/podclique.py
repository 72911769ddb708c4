"""A PodClique's object and status. Its pods are planned in `pods`."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from grove.api import labels, names
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.plan.adoption import adopted_hash
from grove.plan.breach import breach_conditions, remaining
from grove.plan.conditions import Want, merged
from grove.plan.diff import covers, replacement
from grove.plan.kinds import PODCLIQUE
from grove.plan.observed import PodView
from grove.plan.progress import child_progress, rolling, under_way, updating
from grove.plan.template import Template
from grove.plan.update import patch_for, three_way_replicas
from grove.runtime.writes import Create, Write


def ensure_podclique(live: PodClique | None, desired: dict[str, Any]) -> list[Write]:
    """Create a PodClique or bring it in line with its template; the replicas belong to whoever scales it."""
    if live is None:
        return [Create(PODCLIQUE, desired)]
    if live.deleting:
        return []
    adopted = adopted_hash(live, desired)
    if adopted is not None:
        annotations = {**desired["metadata"]["annotations"], labels.ADOPTED_TEMPLATE_HASH: adopted}
        desired = {**desired, "metadata": {**desired["metadata"], "annotations": annotations}}
    want, have = desired["spec"], live.wire.get("spec") or {}
    changes = {
        key: change
        for key in ("roleName", "minAvailable", "podSpec")
        if (not covers(have.get(key), want.get(key)) or _stale(live, desired, key))
        and (change := replacement(have.get(key), want.get(key))) != {}
    }
    if have.get("autoScalingConfig") != want.get("autoScalingConfig"):
        changes["autoScalingConfig"] = replacement(have.get("autoScalingConfig"), want.get("autoScalingConfig"))
    if (have.get("startsAfter") or []) != want.get("startsAfter", []):
        changes["startsAfter"] = want.get("startsAfter")
    replicas = three_way_replicas(
        live, wanted_pods(live), want["replicas"], has_autoscaler=want.get("autoScalingConfig") is not None
    )
    if replicas != wanted_pods(live):
        changes["replicas"] = replicas
    return patch_for(PODCLIQUE, live.wire, desired, changes)


def podclique_status(
    podclique: PodClique,
    pods: Iterable[PodView],
    template: Template | None,
    errors: Sequence[dict[str, Any]],
    now: str,
    more: Sequence[Want] = (),
    *,
    suspended: bool = False,
) -> dict[str, Any]:
    """The status a PodClique should show (API doc 1.8).

    Pods count nowhere that ended, are being deleted, or go with a terminated gang.

    `more` are conditions that only some PodCliques have. `suspended`: an update is at work on the PodClique, or on its
    scaling group (`progress.updating`), so that nothing is a breach. `now` is RFC 3339.
    """
    present = remaining(podclique, pods)
    target = podclique.labels.get(labels.POD_TEMPLATE_HASH, "")
    live = podclique.wire.get("status") or {}
    status: dict[str, Any] = {
        "observedGeneration": podclique.generation,
        "replicas": len(present),
        "readyReplicas": sum(pod.ready for pod in present),
        "updatedReplicas": sum(pod.template_hash == target for pod in present),
        "scheduleGatedReplicas": sum(pod.schedule_gated for pod in present),
        "scheduledReplicas": sum(pod.scheduled for pod in present),
        "lastErrors": list(errors),
    }
    if labels.SCALING_GROUP not in podclique.labels:
        set_name = podclique.labels.get(labels.PART_OF, "")
        status["hpaPodSelector"] = names.podclique_selector(set_name, podclique.name)
    if template is not None:
        status |= _update_fields(podclique, status, template, now)
    arrived = "currentPodTemplateHash" in status
    suspended = suspended and not (arrived and status["readyReplicas"] >= wanted_pods(podclique))
    minimum = 0 if idle(podclique) else podclique.spec.min_available or 1
    conditions = live.get("conditions") or ()
    breach = breach_conditions(conditions, present, minimum, suspended=suspended)
    wanted = [_scheduled(status["scheduledReplicas"], minimum), *breach, *more]
    status["conditions"] = merged(conditions, wanted, now, dropping=(ConditionType.GANG_TERMINATION_IN_PROGRESS,))
    return status


def _update_fields(podclique: PodClique, status: Mapping[str, Any], template: Template, now: str) -> dict[str, Any]:
    """The hashes, once a PodClique runs the set's template by the numbers of its `status`, and updateProgress."""
    target = podclique.labels.get(labels.POD_TEMPLATE_HASH, "")
    result: dict[str, Any] = {}
    arrived = _arrived(podclique, status, template)
    if arrived:
        result["currentPodTemplateHash"] = target
        result["currentPodCliqueSetGenerationHash"] = template.generation_hash
    if labels.SCALING_GROUP not in podclique.labels or not rolling(template):
        at_work = updating(podclique, template) and not arrived
        live, more = podclique.wire.get("status") or {}, {"podTemplateHash": target}
        progress = child_progress(live, template, at_work=at_work, arrived=arrived, now=now, more=more)
        if progress is not None:
            result["updateProgress"] = progress
    return result


def _arrived(podclique: PodClique, status: Mapping[str, Any], template: Template) -> bool:
    """Whether a PodClique runs the set's template, by the numbers of its status.

    While an update runs, pods that it took away must not look as if they had arrived.
    """
    if status["updatedReplicas"] != status["replicas"] or not runs(podclique, template):
        return False
    if not under_way(template):
        return True
    there = "readyReplicas" if updating(podclique, template) else "replicas"
    return bool(status[there] >= wanted_pods(podclique))


def runs(podclique: PodClique, template: Template) -> bool:
    """Whether a PodClique carries the pod template its set has now."""
    clique = clique_of(podclique, template)
    return clique is not None and podclique.labels.get(labels.POD_TEMPLATE_HASH) == template.pod_template_hashes[clique]


def clique_of(podclique: PodClique, template: Template) -> str | None:
    """The template's name of a PodClique's clique; exact, since one clique's name may end in another's."""
    replica = podclique.labels.get(labels.PODCLIQUESET_REPLICA_INDEX, "")
    group = podclique.labels.get(labels.SCALING_GROUP)
    if group is None:
        prefix = f"{template.name}-{replica}-"
    else:
        prefix = f"{group}-{podclique.labels.get(labels.SCALING_GROUP_REPLICA_INDEX, '')}-"
    clique = podclique.name.removeprefix(prefix)
    return clique if podclique.name.startswith(prefix) and clique in template.cliques else None


def is_updated(podclique: PodClique, template: Template) -> bool:
    """Whether the PodClique's status says that it runs the set's template with enough ready pods (API doc 1.7)."""
    status = podclique.status
    minimum = 0 if idle(podclique) else podclique.spec.min_available or 1
    return (
        runs(podclique, template)
        and status.current_pod_template_hash == podclique.labels.get(labels.POD_TEMPLATE_HASH)
        and status.current_pod_clique_set_generation_hash == template.generation_hash
        and status.ready_replicas >= minimum
        and status.updated_replicas >= minimum
    )


def is_available(podclique: PodClique | None) -> bool:
    """Whether the PodClique exists, is not going, and has minAvailable ready pods; an idle one is available."""
    if podclique is None or podclique.deleting:
        return False
    return idle(podclique) or podclique.status.ready_replicas >= (podclique.spec.min_available or 1)


def wanted_pods(podclique: PodClique) -> int:
    """How many pods the PodClique asks for; an absent number means 1."""
    return 1 if podclique.spec.replicas is None else podclique.spec.replicas


def idle(podclique: PodClique) -> bool:
    """0 replicas: no pods wanted, no member of a gang, no breach."""
    return wanted_pods(podclique) == 0


def _stale(live: PodClique, desired: dict[str, Any], key: str) -> bool:
    """A podSpec of another template is replaced whole, so that removed fields go too."""
    hashes = [meta.get(labels.POD_TEMPLATE_HASH) for meta in (live.labels, desired["metadata"]["labels"])]
    return key == "podSpec" and hashes[0] != hashes[1]


def _scheduled(scheduled: int, minimum: int) -> Want:
    enough = scheduled >= minimum
    return Want(
        ConditionType.POD_CLIQUE_SCHEDULED,
        enough,
        Reason.SUFFICIENT_SCHEDULED_PODS if enough else Reason.INSUFFICIENT_SCHEDULED_PODS,
        f"{scheduled} pods are scheduled, at least {minimum} are needed",
    )
