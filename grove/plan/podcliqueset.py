"""A PodCliqueSet as a whole: what has to go, and its status. What a replica should have is in `replica`."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Any

from grove.api import names
from grove.api.labels import ConditionType
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.plan.conditions import Want, merged
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE
from grove.plan.observed import PodView
from grove.plan.rollout import Snapshot
from grove.plan.summary import ReplicaSummary, expected_children
from grove.plan.template import Template
from grove.plan.update_status import Reached, update_status
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Delete, Write

_SHOWN = 100
"""Gangs that a set's status lists. It is written often while a set comes up or is updated, and so is kept small."""

_EXPLAINED = 10
"""Gangs of which it shows the conditions, a kilobyte each."""


@dataclass(slots=True)
class SetSnapshot:
    """What exists of a PodCliqueSet, by name: children its uid owns, and the PodCliques of its scaling groups."""

    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    scaling_groups: Mapping[str, PodCliqueScalingGroup] = field(default_factory=dict)
    podgangs: Mapping[str, PodGang] = field(default_factory=dict)
    services: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    autoscalers: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    pods: Mapping[str, Iterable[PodView]] = field(default_factory=dict)
    """by uid of the owning PodClique"""


def plan_removals(template: Template, snapshot: SetSnapshot) -> tuple[Write, ...]:
    """Delete the children no replica expects any more (scaled in, or their configuration went).

    Their own children follow by garbage collection.
    """
    if template.pcs.deleting:
        return ()
    wanted: dict[ResourceType, set[str]] = defaultdict(set)
    for replica in range(template.replicas):
        for kind, expected in expected_children(template, replica, snapshot).items():
            wanted[kind].update(expected)
    own_podcliques = [pclq for pclq in snapshot.podcliques.values() if pclq.owner_uid == template.uid]
    return (
        *_surplus(PODGANG, (gang.wire for gang in snapshot.podgangs.values()), wanted),
        *_surplus(AUTOSCALER, snapshot.autoscalers.values(), wanted),
        *_surplus(PODCLIQUESCALINGGROUP, (group.wire for group in snapshot.scaling_groups.values()), wanted),
        *_surplus(PODCLIQUE, (pclq.wire for pclq in own_podcliques), wanted),
        *_surplus(SERVICE, snapshot.services.values(), wanted),
    )


def podcliqueset_status(
    template: Template,
    replicas: Sequence[ReplicaSummary],
    snapshot: Callable[[Template, int], Snapshot],
    errors: Sequence[dict[str, Any]],
    now: str,
    levels: Want | None = None,
) -> dict[str, Any]:
    """The status a PodCliqueSet should show (API doc 1.7), from the summaries of its `replicas`.

    observedGeneration and currentGenerationHash move together, once every child has been given the new template and
    no status of a child says any more that all is updated when it means the template before: a
    client that sees the generation observed never reads a child's status of the template before. `snapshot` gives what
    exists of a replica; it is asked for the one that is being updated. `now` is RFC 3339. `levels` is the condition
    TopologyLevelsUnavailable (see `topology`), None for none.
    """
    status: dict[str, Any] = {
        "replicas": template.pcs.spec.replicas,
        "availableReplicas": sum(replica.available for replica in replicas),
        "updatedReplicas": sum(replica.available and replica.updated for replica in replicas),
        "hpaPodSelector": names.podcliqueset_selector(template.name),
        "podGangStatuses": _gang_statuses(replicas),
        "lastErrors": list(errors),
    }
    reached = _reached(replicas, template)
    if reached.told:
        status["observedGeneration"] = template.pcs.generation
        status["currentGenerationHash"] = template.generation_hash
    update = update_status(template, reached, snapshot, now)
    if update.progress is not None:
        status["updateProgress"] = update.progress
    live = (template.pcs.wire.get("status") or {}).get("conditions") or ()
    wanted = [condition for condition in (update.condition, levels) if condition is not None]
    if live or wanted:
        status["conditions"] = merged(live, wanted, now, dropping=[ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE])
    return status


def _gang_statuses(replicas: Sequence[ReplicaSummary]) -> list[dict[str, Any]]:
    """Phase of the first gangs by name, and conditions of some; those that do not run come first."""
    waiting = (gang for replica in replicas if not replica.runs for gang in replica.gangs if not gang.runs)
    running = (gang for replica in replicas for gang in replica.gangs if gang.runs)
    shown = list(islice(chain(waiting, running), _SHOWN))
    entries = []
    for place, gang in enumerate(shown):
        entry: dict[str, Any] = {"name": gang.name, "phase": gang.phase}
        entries.append(entry | {"conditions": gang.conditions} if gang.conditions and place < _EXPLAINED else entry)
    return sorted(entries, key=lambda entry: str(entry["name"]))


def _reached(replicas: Sequence[ReplicaSummary], template: Template) -> Reached:
    return Reached(
        told=all(replica.told for replica in replicas),
        converged=all(replica.available and replica.updated for replica in replicas),
        stale=any(replica.stale for replica in replicas),
        counts={
            "updatedPodCliquesCount": sum(replica.cliques for replica in replicas),
            "totalPodCliquesCount": len(replicas) * len(template.standalone),
            "updatedPodCliqueScalingGroupsCount": sum(replica.groups for replica in replicas),
            "totalPodCliqueScalingGroupsCount": len(replicas) * len(template.groups),
        },
        standings=[replica.standing for replica in replicas],
    )


def _surplus(
    resource: ResourceType, owned: Iterable[Mapping[str, Any]], wanted: Mapping[ResourceType, Collection[str]]
) -> list[Write]:
    return [
        Delete(resource, meta["namespace"], meta["name"], meta["uid"], "no longer wanted")
        for meta in (obj["metadata"] for obj in owned)
        if meta["name"] not in wanted.get(resource, ()) and not meta.get("deletionTimestamp")
    ]
