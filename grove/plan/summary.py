"""What a set's status needs to know of one of its replicas. It changes only with the template's spec and the replica's
objects, so that a set of hundreds of replicas, of which one is at work, need not look at all of them again.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Protocol

from grove.api import names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang, PodGangPhase
from grove.plan import children
from grove.plan.gangs import ReplicaView, expected_gangs, live_group_replicas
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE
from grove.plan.podclique import is_available, is_updated, runs
from grove.plan.progress import outdated
from grove.plan.rollout import ReplicaStanding, Snapshot, replica_standing, unit_podcliques
from grove.plan.template import Template
from grove.runtime.resources import ResourceType

_PHASES = frozenset(PodGangPhase)
"""What the schema of podGangStatuses allows; a PodGang's own phase may be any word that some scheduler wrote."""


class Children(Snapshot, Protocol):
    """What exists of a set, or of one of its replicas, by name: what the set owns, PodCliques of its groups, pods."""

    @property
    def podgangs(self) -> Mapping[str, PodGang]: ...

    @property
    def services(self) -> Mapping[str, Any]: ...

    @property
    def autoscalers(self) -> Mapping[str, Any]: ...


@dataclass(frozen=True, slots=True)
class GangSummary:
    """A gang as the set's status shows it."""

    name: str
    phase: str
    conditions: list[dict[str, Any]] | None

    @property
    def runs(self) -> bool:
        return self.phase == PodGangPhase.RUNNING


@dataclass(frozen=True, slots=True)
class ReplicaSummary:
    """One replica of a set."""

    told: bool
    """every child exists, carries the set's template, and does not speak of another"""
    available: bool
    updated: bool
    stale: bool
    """some PodClique's status tells of pods of another template than its own"""
    cliques: int
    """standalone PodCliques that run the set's template"""
    groups: int
    """scaling groups that do"""
    gangs: tuple[GangSummary, ...]
    owned: int
    """objects that the set itself owns and wants"""
    standing: ReplicaStanding
    """how its pods stand to an update"""

    @property
    def runs(self) -> bool:
        """Whether all its gangs do."""
        return all(gang.runs for gang in self.gangs)


def summarise(template: Template, replica: int, snapshot: Children) -> ReplicaSummary:
    """Look at everything a replica has."""
    told = available = True
    stale = False
    cliques = groups = 0
    for clique in template.standalone:
        pclq = snapshot.podcliques.get(names.podclique_name(template.name, replica, clique.name))
        told = told and pclq is not None and runs(pclq, template) and not outdated(pclq, template)
        available = available and is_available(pclq)
        stale = stale or _has_stale_pods(pclq)
        cliques += pclq is not None and is_updated(pclq, template)
    for group in template.groups:
        name = names.scaling_group_name(template.name, replica, group)
        scaling_group = snapshot.scaling_groups.get(name)
        units = () if scaling_group is None else unit_podcliques(group, scaling_group, template, snapshot.podcliques)
        members = list(chain.from_iterable(units))
        told = told and scaling_group is not None and not outdated(scaling_group, template)
        told = told and all(one is not None and runs(one, template) for one in members)
        available = available and _group_available(scaling_group)
        stale = stale or any(map(_has_stale_pods, members))
        current = scaling_group.status.current_pod_clique_set_generation_hash if scaling_group is not None else None
        groups += current == template.generation_hash
    wanted = expected_children(template, replica, snapshot)
    return ReplicaSummary(
        told=told,
        available=available,
        updated=cliques == len(template.standalone) and groups == len(template.groups),
        stale=stale,
        cliques=cliques,
        groups=groups,
        gangs=tuple(_gang(snapshot.podgangs[name]) for name in wanted[PODGANG] if name in snapshot.podgangs),
        owned=sum(1 for _ in _owned(template, wanted, snapshot)),
        standing=replica_standing(template, replica, snapshot),
    )


def expected_children(template: Template, replica: int, snapshot: Children) -> dict[ResourceType, list[str]]:
    """Names of what the set itself should own in a replica, by kind, in the order in which surplus goes."""
    live = live_group_replicas(template, replica, snapshot.scaling_groups)
    gangs = expected_gangs(template, replica, ReplicaView(snapshot.podcliques, live))
    return {
        PODGANG: [gang.name for gang in gangs],
        AUTOSCALER: [hpa["metadata"]["name"] for hpa in children.autoscalers(template, replica)],
        PODCLIQUESCALINGGROUP: [names.scaling_group_name(template.name, replica, group) for group in template.groups],
        PODCLIQUE: [names.podclique_name(template.name, replica, clique.name) for clique in template.standalone],
        SERVICE: [names.headless_service_name(template.name, replica)],
    }


def _owned(template: Template, wanted: Mapping[ResourceType, list[str]], snapshot: Children) -> Iterator[str]:
    there: dict[ResourceType, Mapping[str, Any]] = {
        PODGANG: snapshot.podgangs,
        AUTOSCALER: snapshot.autoscalers,
        PODCLIQUESCALINGGROUP: snapshot.scaling_groups,
        PODCLIQUE: snapshot.podcliques,
        SERVICE: snapshot.services,
    }
    for kind, expected in wanted.items():
        for name in expected:
            found = there[kind].get(name)
            if found is not None and (kind != PODCLIQUE or found.owner_uid == template.uid):
                yield name


def _gang(podgang: PodGang) -> GangSummary:
    phase = podgang.status.phase
    shown = phase if phase in _PHASES else PodGangPhase.PENDING.value
    return GangSummary(podgang.name, shown, (podgang.wire.get("status") or {}).get("conditions") or None)


def _has_stale_pods(podclique: PodClique | None) -> bool:
    return podclique is not None and podclique.status.updated_replicas != podclique.status.replicas


def _group_available(scaling_group: PodCliqueScalingGroup | None) -> bool:
    if scaling_group is None or scaling_group.deleting:
        return False
    minimum = 0 if scaling_group.spec.replicas == 0 else scaling_group.spec.min_available
    return scaling_group.status.available_replicas >= minimum
