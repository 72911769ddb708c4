"""Whose turn it is in a rolling update, and what the statuses of children say of theirs.

The set's status in the cluster decides: it names the one replica that is being updated. So every pass, a restarted
operator and a second one agree, and nothing has to be remembered.
"""

from collections.abc import Mapping
from typing import Any

from grove.api import labels, names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import UpdateStrategyType
from grove.plan.hashes import is_ours
from grove.plan.template import Template


def rolling(template: Template) -> bool:
    """Whether the operator itself replaces stale pods (RollingRecreate, the default)."""
    strategy = template.pcs.spec.update_strategy
    return strategy is None or strategy.type == UpdateStrategyType.ROLLING_RECREATE


def under_way(template: Template) -> bool:
    """Whether an update to just this template runs: it has begun, by the set's status, and has not ended."""
    status = template.pcs.status
    progress = status.update_progress
    return (
        rolling(template)
        and status.current_generation_hash == template.generation_hash
        and progress is not None
        and progress.update_ended_at is None
    )


def current_replica(template: Template) -> int | None:
    """The replica of the set whose turn it is; None when no update runs or none has been picked."""
    progress = template.pcs.status.update_progress
    if progress is None or not progress.currently_updating or not under_way(template):
        return None
    index = progress.currently_updating[0].replica_index
    return index if 0 <= index < template.replicas else None


def replica_of(child: PodClique | PodCliqueScalingGroup) -> int | None:
    """Index of the set replica a child belongs to; None when its label does not tell."""
    return names.index_of(child.labels.get(labels.PODCLIQUESET_REPLICA_INDEX, ""))


def updating(child: PodClique | PodCliqueScalingGroup, template: Template) -> bool:
    """Whether a rolling update is at work on a child, so that breach and gang termination are suspended for it.

    It is when its replica's turn has come and its status does not say yet that it runs the set's template. That is
    said once all its pods do and are ready, and stays said: what breaks afterwards is a breach again. For a PodClique
    in a scaling group ask for the group, which is updated replica by replica.
    """
    current = current_replica(template)
    return (
        current is not None
        and replica_of(child) == current
        and child.status.current_pod_clique_set_generation_hash != template.generation_hash
    )


def outdated(child: PodClique | PodCliqueScalingGroup, template: Template) -> bool:
    """Whether a child's status says that all is updated, but means a template before the set's."""
    status = child.status
    earlier = status.current_pod_clique_set_generation_hash not in (None, template.generation_hash)
    return earlier and status.updated_replicas >= status.replicas


def child_progress(
    live: Mapping[str, Any], template: Template, *, at_work: bool, arrived: bool, now: str, more: Mapping[str, Any]
) -> dict[str, Any] | None:
    """status.updateProgress of a child (API doc 1.8, 1.9) with that status as it is now; None when there is none.

    `at_work` is `updating`, `arrived` whether the status says from now on that the child runs the set's template.
    Under OnDelete an update ends as it begins. `more` are further fields. `now` is RFC 3339.
    """
    progress = live.get("updateProgress") or {}
    before, target = live.get("currentPodCliqueSetGenerationHash") or "", template.generation_hash
    same = progress.get("podCliqueSetGenerationHash") == target
    begins = is_ours(before) and before != target and (arrived or not rolling(template))
    if not (at_work or same or begins):
        return dict(progress) or None
    started = progress.get("updateStartedAt") if same else None
    result = {"updateStartedAt": started or now, "podCliqueSetGenerationHash": target, **more}
    if not at_work and (arrived or before == target or not rolling(template)):
        result["updateEndedAt"] = (progress.get("updateEndedAt") if same else None) or now
    return result
