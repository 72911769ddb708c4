"""How far the rollout of a set's template is, by the set's status alone, and how to ask for another one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from grove.api.base import Condition, find_condition
from grove.api.labels import ConditionType, Reason
from grove.api.podcliqueset import PodCliqueSet
from grove.inspect.text import counted
from grove.plan.progress import rolling
from grove.plan.template import Template

RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"
"""The annotation by which `kubectl rollout restart` changes a pod template."""


class Verdict(StrEnum):
    """Whether a rollout is over."""

    DONE = "Done"
    WAITING = "Waiting"
    STUCK = "Stuck"
    """nothing moves by itself, or has not for as long as it may take"""


@dataclass(frozen=True, slots=True)
class Rollout:
    """How far a rollout is."""

    verdict: Verdict
    sentence: str


def rollout(pcs: PodCliqueSet) -> Rollout:
    """Judge a set's rollout, the first one too (docs/updates.md, "Watching it")."""
    status, wanted = pcs.status, pcs.spec.replicas
    if pcs.deleting:
        return Rollout(Verdict.STUCK, "is being deleted")
    update = update_condition(pcs)
    if not is_observed(pcs):
        return Rollout(Verdict.WAITING, "waiting until every PodClique has been given the template")
    if update is not None and update.status == "True":
        late = update.reason == Reason.PROGRESS_DEADLINE_EXCEEDED
        return Rollout(Verdict.STUCK if late else Verdict.WAITING, update.message)
    if status.available_replicas >= wanted and status.updated_replicas >= wanted:
        text = f"all {wanted} replicas run" if wanted != 1 else "the replica runs"
        return Rollout(Verdict.DONE, f"{text} the template and {'are' if wanted != 1 else 'is'} available")
    if update is not None and update.reason == Reason.UPDATE_ON_DELETE and status.updated_replicas < wanted:
        return Rollout(Verdict.STUCK, update.message)
    have = min(status.updated_replicas, status.available_replicas)
    return Rollout(Verdict.WAITING, f"{have} of {counted(wanted, 'replica')} run the template and are available")


def is_observed(pcs: PodCliqueSet) -> bool:
    """Whether the set's status speaks of its present generation."""
    return (pcs.status.observed_generation or 0) >= pcs.generation


def update_condition(pcs: PodCliqueSet) -> Condition | None:
    """The condition UpdateInProgress, which is absent before the first update."""
    return find_condition(pcs.status.conditions, ConditionType.UPDATE_IN_PROGRESS)


def restart_patch(pcs: PodCliqueSet, cliques: Iterable[str], at: str) -> list[dict[str, Any]]:
    """The JSON patch that gives pods of these cliques a template of a new hash, and so replaces them.

    It is an annotation in the clique, as kubectl does with Deployments; `at` is RFC 3339. The patch holds only for the
    generation that was read. Raises ValueError for a clique that the template does not have.
    """
    names = [clique.name for clique in pcs.spec.template.cliques]
    patch: list[dict[str, Any]] = [{"op": "test", "path": "/metadata/generation", "value": pcs.generation}]
    for clique in cliques:
        if clique not in names:
            raise ValueError(f"there is no clique {clique} in the template; there are {', '.join(names)}")
        index = names.index(clique)
        path = f"/spec/template/cliques/{index}/annotations"
        annotations = dict(pcs.spec.template.cliques[index].annotations)
        patch.append({"op": "add", "path": path, "value": {**annotations, RESTARTED_AT: at}})
    return patch


def restart_note(pcs: PodCliqueSet, cliques: Iterable[str]) -> str:
    """What comes of a restart, in one sentence: also of what the user may not expect."""
    template = Template(pcs)
    if not rolling(template):
        return "updateStrategy is OnDelete: pods stay until somebody deletes them"
    groups = list(dict.fromkeys(template.group_of[one] for one in cliques if one in template.group_of))
    whole = f"; replicas of {', '.join(groups)} are replaced as a whole" if groups else ""
    return f"pods are replaced as in an update, one replica of the set after the other{whole}"
