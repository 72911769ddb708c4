"""How a set stands, in numbers: pods by role, gangs by phase, and one word for all of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grove.api import labels
from grove.api.labels import ConditionType
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang, PodGangPhase
from grove.inspect.rollout import is_observed, update_condition
from grove.inspect.scene import Scene
from grove.inspect.text import Tone, bar, counted, short
from grove.plan.podclique import clique_of, wanted_pods

_SHOWN: Final = 10
"""Gangs that are listed; the rest is counted."""

_TONES: Final = {"Ready": Tone.GOOD, "Idle": Tone.QUIET, "Unavailable": Tone.BAD}


@dataclass(frozen=True, slots=True)
class Role:
    """The PodCliques of one clique of the template, over all replicas."""

    name: str
    wanted: int
    minimum: int
    """what the base gangs need: the sum of the minimums of the PodCliques in them"""
    ready: int
    scheduled: int
    gated: int
    updated: int
    breached: int
    """PodCliques that had their minimum and have it no more"""

    def line(self, width: int) -> str:
        """For people; `width` is that of the names."""
        drawn = bar(self.wanted, self.ready, self.scheduled)
        if not self.wanted:
            return f"{self.name:<{width}}  {drawn}  idle"
        parts = [f"{self.ready}/{self.wanted} ready"]
        if self.scheduled > self.ready:
            parts.append(f"{self.scheduled} on nodes")
        if self.gated:
            parts.append(f"{self.gated} gated")
        if self.updated < self.wanted:
            parts.append(f"{self.updated} of the present template")
        parts.append(f"at least {self.minimum}")
        if self.breached:
            parts.append(f"{counted(self.breached, 'PodClique')} below the minimum")
        return f"{self.name:<{width}}  {drawn}  {', '.join(parts)}"


@dataclass(frozen=True, slots=True)
class GangLine:
    """One gang."""

    name: str
    phase: str
    score: float | None
    reason: str
    """of the first condition on the way that is not true; "" for one that runs"""
    message: str
    unhealthy: str
    """what is said of a minimum that is lost; "" while none is"""

    def line(self, width: int) -> str:
        """For people."""
        score = "" if self.score is None else f"  placement {self.score:g}"
        why = f"  {self.reason}: {short(self.message, 200)}" if self.reason else ""
        unhealthy = f"  {short(self.unhealthy, 200)}" if self.unhealthy else ""
        return f"{self.name:<{width}}  {self.phase}{score}{why}{unhealthy}"


@dataclass(frozen=True, slots=True)
class SetStatus:
    """One set."""

    namespace: str
    name: str
    state: str
    """Ready, Degraded, Updating, Unavailable, Idle, Terminating"""
    sentence: str
    wanted: int
    available: int
    updated: int
    roles: Sequence[Role]
    gangs: Sequence[GangLine]
    update: str
    """what a running update waits for; "" when none runs"""
    errors: Sequence[str]

    @property
    def done(self) -> bool:
        """Nothing is missing and nothing is on its way."""
        return self.state in ("Ready", "Idle")

    @property
    def tone(self) -> Tone:
        return _TONES.get(self.state, Tone.BUSY)

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "namespace": self.namespace,
            "name": self.name,
            "state": self.state,
            "message": self.sentence,
            "replicas": {"wanted": self.wanted, "available": self.available, "updated": self.updated},
            "cliques": [{key: getattr(role, key) for key in Role.__slots__} for role in self.roles],
            "gangs": [{key: getattr(gang, key) for key in GangLine.__slots__} for gang in self.gangs],
            "update": self.update,
            "errors": list(self.errors),
        }

    def lines(self) -> Iterator[str]:
        """For people, without the first line, which is the state."""
        width = max([len("replicas"), *(len(role.name) for role in self.roles)])
        drawn = bar(self.wanted, self.available, self.available)
        yield f"{'replicas':<{width}}  {drawn}  {self.available}/{self.wanted} available"
        yield from (role.line(width) for role in self.roles)
        phases = Counter(gang.phase for gang in self.gangs)
        scores = [gang.score for gang in self.gangs if gang.score is not None]
        told = ", ".join(f"{number} {phase}" for phase, number in phases.items()) or "none"
        yield f"{'gangs':<{width}}  {told}" + (f"; placement {min(scores):g} to {max(scores):g}" if scores else "")
        listed = [gang for gang in self.gangs if gang.reason or gang.unhealthy]
        inner = max((len(gang.name) for gang in listed[:_SHOWN]), default=0)
        yield from (f"  {gang.line(inner)}" for gang in listed[:_SHOWN])
        if len(listed) > _SHOWN:
            yield f"  … and {len(listed) - _SHOWN} more that do not run"
        if self.update:
            yield f"{'update':<{width}}  {self.update}"
        yield from (f"{'error':<{width}}  {short(error)}" for error in self.errors[:_SHOWN])


def set_status(scene: Scene) -> SetStatus:
    """How a set stands. Its pods are not looked at: the statuses of the PodCliques count them."""
    pcs = scene.template.pcs
    roles = tuple(_roles(scene))
    gangs = tuple(_gang(gang) for _, gang in sorted(scene.podgangs.items()))
    state, sentence = _state(pcs, roles)
    running = update_condition(pcs)
    update = running.message if running is not None and running.status == "True" else ""
    holders: list[PodCliqueSet | PodCliqueScalingGroup | PodClique] = [pcs]
    holders += [*scene.scaling_groups.values(), *scene.podcliques.values()]
    errors = tuple(f"{one.name}: {error.description}" for one in holders for error in one.status.last_errors)
    status = pcs.status
    available, updated = status.available_replicas, status.updated_replicas
    return SetStatus(
        pcs.namespace, pcs.name, state, sentence, pcs.spec.replicas, available, updated, roles, gangs, update, errors
    )


def phase_tone(gang: PodGang) -> Tone:
    """How good a gang's phase is."""
    phase = gang.status.phase
    return Tone.GOOD if phase == PodGangPhase.RUNNING else Tone.BUSY if phase == PodGangPhase.STARTING else Tone.BAD


def _state(pcs: PodCliqueSet, roles: Sequence[Role]) -> tuple[str, str]:
    """The set in one word, and in one sentence."""
    wanted, status = pcs.spec.replicas, pcs.status
    available = f"{status.available_replicas} of {counted(wanted, 'replica')} available"
    pods, ready = sum(role.wanted for role in roles), sum(role.ready for role in roles)
    if pcs.deleting:
        return "Terminating", "is being deleted"
    if status.available_replicas < wanted:
        return "Unavailable", available
    update = update_condition(pcs)
    if not is_observed(pcs):
        return "Updating", "the operator has not taken over the last change yet"
    if update is not None and update.status == "True":
        return "Updating", f"{available}, {status.updated_replicas} updated"
    if not wanted:
        return "Idle", "0 replicas are asked for"
    if ready < pods:
        return "Degraded", f"{available}, {ready} of {counted(pods, 'pod')} ready"
    return "Ready", f"{available}, {counted(pods, 'pod')} ready"


def _roles(scene: Scene) -> Iterator[Role]:
    by_clique: dict[str, list[PodClique]] = {name: [] for name in scene.template.cliques}
    for podclique in scene.podcliques.values():
        name = clique_of(podclique, scene.template)
        if name is not None and not podclique.deleting:
            by_clique[name].append(podclique)
    for name, podcliques in by_clique.items():
        statuses = [one.status for one in podcliques]
        yield Role(
            name,
            wanted=sum(wanted_pods(one) for one in podcliques),
            minimum=sum(
                min(one.spec.min_available or 1, wanted_pods(one))
                for one in podcliques
                if labels.BASE_PODGANG not in one.labels
            ),
            ready=sum(one.ready_replicas for one in statuses),
            scheduled=sum(one.scheduled_replicas for one in statuses),
            gated=sum(one.schedule_gated_replicas for one in statuses),
            updated=sum(one.updated_replicas for one in statuses),
            breached=sum(_is_breached(one) for one in podcliques),
        )


def _is_breached(podclique: PodClique) -> bool:
    conditions = {one.type: one for one in podclique.status.conditions}
    breached = conditions.get(ConditionType.MIN_AVAILABLE_BREACHED)
    return (
        breached is not None and breached.status == "True" and ConditionType.GANG_TERMINATION_IN_PROGRESS in conditions
    )


def _gang(gang: PodGang) -> GangLine:
    conditions = {one.type: one for one in gang.status.conditions}
    order = (ConditionType.INITIALIZED, ConditionType.SCHEDULED, ConditionType.READY)
    behind = next(
        (conditions[kind] for kind in order if kind in conditions and conditions[kind].status != "True"), None
    )
    unhealthy = conditions.get(ConditionType.UNHEALTHY)
    return GangLine(
        gang.name,
        gang.status.phase or PodGangPhase.PENDING.value,
        gang.status.placement_score,
        behind.reason if behind is not None else "",
        behind.message if behind is not None else "",
        unhealthy.message if unhealthy is not None and unhealthy.status == "True" else "",
    )
