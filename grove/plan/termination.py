"""Gang termination: which gangs have been below their minimum for terminationDelay, and what is done about it.

Pods are replaced; PodCliques, scaling groups and their numbers stay. Two things can be terminated (reference 6.4, 6.5):
one replica of a scaling group, when the group can do without it, and else the whole replica of the set. Everything is
decided from the status of the PodCliques (see `breach`), so it does not matter who decides, or how often. Beyond the
reference, a gang that was placed in part is terminated too (see `in_part`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from grove.api import names
from grove.api.durations import format_duration, parse_duration
from grove.api.labels import DEFAULT_TERMINATION_DELAY
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan.breach import Breach, breach_of, terminated_since, termination_mark, was_scheduled
from grove.plan.gangstatus import Due
from grove.plan.in_part import gangs_in_part
from grove.plan.kinds import PODCLIQUE
from grove.plan.observed import PodView
from grove.plan.podclique import idle
from grove.plan.progress import updating
from grove.plan.replica import ReplicaSnapshot
from grove.plan.template import Template
from grove.runtime.writes import Patch

PLACING_SECONDS: Final = 30.0
"""How long a gang may be placed in part before that is a shortage: its pods are bound one after the other."""


@dataclass(frozen=True, slots=True)
class Target:
    """What a termination would replace the pods of."""

    text: str
    """for people: `replica 0 of PodCliqueSet web`"""
    podcliques: tuple[str, ...]
    scaling_group: str = ""
    """the scaling group whose replica this is; "" for a replica of the set"""


@dataclass(frozen=True, slots=True)
class Termination:
    """A target that has been below its minimum for too long."""

    target: Target
    due: float
    """seconds since the epoch"""
    causes: tuple[str, ...]
    """the PodCliques that are below their minimum"""

    def message(self, delay: float) -> str:
        """Why its pods are replaced, for people."""
        more = f" and {len(self.causes) - 1} more" if len(self.causes) > 1 else ""
        return (
            f"{self.target.text} gets new pods: {self.causes[0]}{more} below minAvailable for {format_duration(delay)}"
        )


@dataclass(frozen=True, slots=True)
class TerminationPlan:
    """What is to be terminated now, and what later unless it recovers."""

    now: tuple[Termination, ...] = ()
    due: Mapping[str, Due] = field(default_factory=dict)
    """by the PodClique that is below its minimum"""
    again_after: float | None = None
    """seconds until the next one is due"""


@dataclass(frozen=True, slots=True)
class _Shortage:
    """A target that is below its minimum."""

    since: float
    target: Target
    causes: tuple[str, ...]


def termination_delay(template: Template) -> float:
    """spec.template.terminationDelay in seconds; the default where it says nothing that makes sense."""
    try:
        seconds = parse_duration(template.pcs.spec.template.termination_delay or "").total_seconds()
    except (ValueError, OverflowError):
        seconds = 0.0
    return seconds if seconds > 0 else parse_duration(DEFAULT_TERMINATION_DELAY).total_seconds()


def plan_terminations(template: Template, replica: int, snapshot: ReplicaSnapshot, now: float) -> TerminationPlan:
    """Decide what of a set's replica is to be terminated. `now` in seconds since the epoch.

    Of shortages of the whole replica the one that began first decides; while there is one, no replica of a group is
    terminated by itself.
    """
    if replica >= template.replicas:
        return TerminationPlan()
    shortages = list(_shortages(template, replica, snapshot.podcliques, snapshot.scaling_groups))
    waits = []
    for part in _in_part(template, replica, snapshot):
        left = part.since + PLACING_SECONDS - now
        if left > 0:
            waits.append(left)
        else:
            shortages.append(part)
    delay = termination_delay(template)
    due = {
        cause: Due(shortage.since + delay, shortage.target.text)
        for shortage in sorted(shortages, key=lambda shortage: -shortage.since)
        for cause in shortage.causes
    }
    ripe = [shortage for shortage in shortages if shortage.since + delay <= now]
    whole = [shortage for shortage in ripe if not shortage.target.scaling_group]
    if whole:
        causes = tuple(cause for shortage in whole for cause in shortage.causes)
        terminations = [Termination(whole[0].target, min(s.since for s in whole) + delay, causes)]
    else:
        terminations = [Termination(shortage.target, shortage.since + delay, shortage.causes) for shortage in ripe]
    waits += [shortage.since + delay - now for shortage in shortages if shortage not in ripe]
    return TerminationPlan(tuple(terminations), due, min(waits, default=None))


def termination_writes(
    termination: Termination,
    podcliques: Mapping[str, PodClique],
    pods: Mapping[str, Iterable[PodView]],
    delay: float,
    now: str,
) -> tuple[list[Patch], list[Patch]]:
    """Mark the PodCliques of a target, so that their own passes replace the pods. `pods` by uid of the PodClique.

    The causes are marked in a second step, when all others are: until then the termination is still due, and a pass
    after a crash goes on with it. Who has been marked since it was due is not marked again.
    """
    others: list[Patch] = []
    causes: list[Patch] = []
    for name in termination.target.podcliques:
        podclique = podcliques.get(name)
        if podclique is None or podclique.deleting or idle(podclique) or terminated_since(podclique, termination.due):
            continue
        status = termination_mark(podclique, pods.get(podclique.uid, ()), termination.message(delay), now)
        body = {"metadata": {"resourceVersion": str(podclique.resource_version)}, "status": status}
        patch = Patch(PODCLIQUE, podclique.namespace, name, body, "status", podclique.uid)
        (causes if name in termination.causes else others).append(patch)
    return others, causes


def _shortages(
    template: Template,
    replica: int,
    podcliques: Mapping[str, PodClique],
    scaling_groups: Mapping[str, PodCliqueScalingGroup],
) -> Iterator[_Shortage]:
    standalone = _standalone(template, replica)
    if any(name not in podcliques for name in standalone):
        return  # on its way back; what the replica lacks is not known before it is there
    groups = _groups(template, replica, scaling_groups)
    whole = _whole(template, replica, groups)
    for name in standalone:
        breach = breach_of(podcliques[name])
        if breach is not None and not breach.terminated:
            yield _Shortage(breach.since, whole, (name,))
    for live, replicas in groups:
        yield from _shortages_of_group(template, live, replicas, podcliques, whole)


def _in_part(template: Template, replica: int, snapshot: ReplicaSnapshot) -> Iterator[_Shortage]:
    """Gangs that are placed in part, however short a time. A scaled gang is a replica of its group."""
    for part in gangs_in_part(template, replica, snapshot):
        groups = _groups(template, replica, snapshot.scaling_groups)
        target = _whole(template, replica, groups)
        if part.gang.base:
            target = next(
                _replica_of(live, index, members)
                for live, replicas in groups
                for index, members in enumerate(replicas)
                if part.lacking[0] in members
            )
        yield _Shortage(part.since, target, part.lacking)


_Groups = Sequence[tuple[PodCliqueScalingGroup, Sequence[tuple[str, ...]]]]
"""Scaling groups, each with the names of the PodCliques of its replicas."""


def _standalone(template: Template, replica: int) -> list[str]:
    return [names.podclique_name(template.name, replica, clique.name) for clique in template.standalone]


def _groups(template: Template, replica: int, scaling_groups: Mapping[str, PodCliqueScalingGroup]) -> _Groups:
    groups = []
    for group in template.groups:
        live = scaling_groups.get(names.scaling_group_name(template.name, replica, group))
        if live is not None:
            cliques = [clique.name for clique in template.members(group)]
            groups.append((live, [_members(live.name, index, cliques) for index in range(live.spec.replicas)]))
    return groups


def _members(scaling_group: str, index: int, cliques: Iterable[str]) -> tuple[str, ...]:
    return tuple(names.scaling_group_podclique_name(scaling_group, index, clique) for clique in cliques)


def _whole(template: Template, replica: int, groups: _Groups) -> Target:
    members = (name for _, replicas in groups for members in replicas for name in members)
    text = f"replica {replica} of PodCliqueSet {template.name}"
    return Target(text, (*_standalone(template, replica), *members))


def _replica_of(group: PodCliqueScalingGroup, index: int, members: tuple[str, ...]) -> Target:
    return Target(f"replica {index} of PodCliqueScalingGroup {group.name}", members, group.name)


def _shortages_of_group(
    template: Template,
    group: PodCliqueScalingGroup,
    replicas: Sequence[tuple[str, ...]],
    podcliques: Mapping[str, PodClique],
    whole: Target,
) -> Iterator[_Shortage]:
    """Shortages of a scaling group: of the whole set replica when too few of the group's replicas are left.

    Replicas that never ran are no loss; a group that never had enough of them cannot fall short of that.
    """
    lost: list[tuple[int, dict[str, Breach]]] = []
    for index, members in enumerate(replicas):
        found = {name: breach for name in members if name in podcliques and (breach := breach_of(podcliques[name]))}
        if found:
            lost.append((index, found))
    news = [(index, fresh) for index, found in lost if (fresh := _not_terminated(found))]
    if not news or updating(group, template):
        return
    spare = max(len(replicas) - group.spec.min_available, 0)
    if len(lost) <= spare:
        for index, fresh in news:
            yield _Shortage(_begin(fresh), _replica_of(group, index, replicas[index]), tuple(fresh))
        return
    ran = sum(all(name in podcliques and was_scheduled(podcliques[name]) for name in members) for members in replicas)
    if ran >= group.spec.min_available:
        since = max(sorted(_begin(found) for _, found in lost)[spare], min(_begin(fresh) for _, fresh in news))
        yield _Shortage(since, whole, tuple(name for _, fresh in news for name in fresh))


def _not_terminated(breaches: Mapping[str, Breach]) -> dict[str, Breach]:
    return {name: breach for name, breach in breaches.items() if not breach.terminated}


def _begin(breaches: Mapping[str, Breach]) -> float:
    return min(breach.since for breach in breaches.values())
