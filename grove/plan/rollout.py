"""A rolling update decided: which replica of a set has its turn, and which pods go now.

Nothing is stored but the turn itself (see `progress`). A pod is stale when its hash is not that of its PodClique; a
pod of the template that is ready has arrived. What is down anyway, on its way out or not ready yet, uses up the budget
(`maxUnavailable`); stale pods that do not serve go without asking for it, since nothing is lost with them.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol

from grove.api import labels, names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import RollingUpdate
from grove.plan.adoption import translated
from grove.plan.breach import was_scheduled
from grove.plan.kinds import POD
from grove.plan.observed import PodView
from grove.plan.podclique import clique_of, idle, runs, wanted_pods
from grove.plan.progress import current_replica, replica_of, under_way
from grove.plan.template import Template
from grove.runtime.writes import Delete

UPDATED = "has an older template"
"""Why a pod is deleted, for the log."""


class Snapshot(Protocol):
    """What exists of a set, or of one of its replicas."""

    @property
    def podcliques(self) -> Mapping[str, PodClique]:
        """by name"""
        ...

    @property
    def scaling_groups(self) -> Mapping[str, PodCliqueScalingGroup]:
        """by name"""
        ...

    @property
    def pods(self) -> Mapping[str, Iterable[PodView]]:
        """by uid of the owning PodClique"""
        ...


@dataclass(frozen=True, slots=True)
class Standing:
    """How far one PodClique is on its way to the set's template."""

    told: bool
    """it exists and carries the set's template, so that its new pods are current"""
    wanted: int
    minimum: int
    pods: tuple[PodView, ...] = ()
    """active pods"""
    stale: tuple[PodView, ...] = ()
    """those of another template"""
    ran: bool = False
    """it has had its minimum on nodes, or has a pod on one"""

    @property
    def arrived(self) -> int:
        """Ready pods of the template."""
        return sum(pod.ready for pod in self.pods) - sum(pod.ready for pod in self.stale)

    @property
    def done(self) -> bool:
        """Every pod that is wanted carries the template and is ready."""
        return self.told and not self.stale and self.arrived >= self.wanted

    @property
    def serves(self) -> bool:
        """Its minimum is ready, of whichever template."""
        return sum(pod.ready for pod in self.pods) >= self.minimum

    @property
    def latest(self) -> float:
        """When the last of the arrived got ready, in seconds since the epoch; 0 when none has."""
        gone = {pod.uid for pod in self.stale}
        return max((pod.ready_since for pod in self.pods if pod.uid not in gone), default=0.0)


@dataclass(frozen=True, slots=True)
class Part:
    """A clique or scaling group in one replica of the set, as the update sees it."""

    name: str
    """of the PodClique or PodCliqueScalingGroup"""
    units: tuple[tuple[Standing, ...], ...]
    """replicas of a scaling group with their cliques; a standalone clique is one unit of one"""
    needed: int
    """how many units must serve"""
    config: RollingUpdate | None
    group: bool = False
    """whether it is a scaling group"""

    @property
    def done(self) -> bool:
        return all(standing.done for unit in self.units for standing in unit)

    @property
    def serves(self) -> bool:
        return sum(all(standing.serves for standing in unit) for unit in self.units) >= self.needed

    @property
    def latest(self) -> float:
        return max((standing.latest for unit in self.units for standing in unit), default=0.0)


def stand(podclique: PodClique | None, pods: Mapping[str, Iterable[PodView]], template: Template) -> Standing:
    """Look at a PodClique and its pods, given by uid of the owner; None stands for one that does not exist."""
    if podclique is None:
        return Standing(told=False, wanted=1, minimum=1)
    active = tuple(pod for pod in pods.get(podclique.uid, ()) if pod.active)
    return Standing(
        told=not podclique.deleting and runs(podclique, template),
        wanted=wanted_pods(podclique),
        minimum=0 if idle(podclique) else podclique.spec.min_available or 1,
        pods=active,
        stale=tuple(pod for pod in active if is_stale(pod, podclique)),
        ran=was_scheduled(podclique) or any(pod.scheduled for pod in active),
    )


def is_stale(pod: PodView, podclique: PodClique) -> bool:
    """Whether a pod was made from another template than its PodClique has now."""
    return translated(podclique, pod.template_hash) != podclique.labels.get(labels.POD_TEMPLATE_HASH, "")


def unit_podcliques(
    group: str, live: PodCliqueScalingGroup, template: Template, podcliques: Mapping[str, PodClique]
) -> Iterator[tuple[PodClique | None, ...]]:
    """The PodCliques of each replica of a scaling group; None stands for one that does not exist.

    `group` is the template's name of the scaling group, `podcliques` holds what exists by name.
    """
    cliques = [clique.name for clique in template.members(group)]
    for index in range(live.spec.replicas):
        called = (names.scaling_group_podclique_name(live.name, index, clique) for clique in cliques)
        yield tuple(podcliques.get(name) for name in called)


def parts(template: Template, replica: int, snapshot: Snapshot) -> Iterator[Part]:
    """The cliques and scaling groups of a set replica, in the order of the template."""
    podcliques, pods = snapshot.podcliques, snapshot.pods
    for clique in template.standalone:
        name = names.podclique_name(template.name, replica, clique.name)
        yield Part(name, ((stand(podcliques.get(name), pods, template),),), 1, clique.rolling_update)
    for group in template.groups.values():
        name = names.scaling_group_name(template.name, replica, group.name)
        live = snapshot.scaling_groups.get(name)
        if live is None:
            missing = tuple(stand(None, pods, template) for _ in template.members(group.name))
            yield Part(
                name, (missing,) * group.replicas, min(group.min_available, group.replicas), group.rolling_update
            )
        else:
            found = unit_podcliques(group.name, live, template, podcliques)
            units = tuple(tuple(stand(one, pods, template) for one in unit) for unit in found)
            yield Part(name, units, min(group.min_available, len(units)), group.rolling_update, group=True)


@dataclass(frozen=True, slots=True)
class ReplicaStanding:
    """How a replica of the set stands to an update, by its pods."""

    arrived: bool
    """all its pods carry the template and are ready"""
    scheduled: bool
    """some pod has a node"""
    serves: bool
    stale: bool
    """some pod has another template"""
    lacks_room: bool
    """it has no stale pod, and what is not ready of it never ran: there is nothing that an update can do for it"""


def replica_standing(template: Template, replica: int, snapshot: Snapshot) -> ReplicaStanding:
    """Look at the pods of a set replica."""
    seen = list(parts(template, replica, snapshot))
    standings = [standing for part in seen for unit in part.units for standing in unit]
    stale = any(one.stale for one in standings)
    return ReplicaStanding(
        arrived=all(part.done for part in seen),
        scheduled=any(pod.scheduled for one in standings for pod in one.pods),
        serves=all(part.serves for part in seen),
        stale=stale,
        lacks_room=not stale and not any(one.ran and not one.done for one in standings),
    )


def pick(template: Template, standings: Sequence[ReplicaStanding]) -> int | None:
    """The replica whose turn it is; None when all have arrived.

    A replica keeps its turn until it has, but one that lacks room lets those go first that do not: else no change
    would reach what runs, not even one that makes room.
    """
    progress = template.pcs.status.update_progress
    waiting = order(standings)
    if waiting and progress is not None and progress.update_ended_at is None and progress.currently_updating:
        current = progress.currently_updating[0].replica_index
        if current in waiting and standings[current].lacks_room == standings[waiting[0]].lacks_room:
            return current
    return next(iter(waiting), None)


def order(standings: Sequence[ReplicaStanding]) -> list[int]:
    """The replicas that have not arrived, in the order in which their turn comes.

    First those without a pod on a node, then those that do not serve, then the lowest (reference 7.2): what is down
    already comes first, and holds up those that serve. Last come those that lack room.
    """
    waiting = [replica for replica, one in enumerate(standings) if not one.arrived]
    return sorted(waiting, key=lambda replica: _rank(standings[replica]))


def _rank(one: ReplicaStanding) -> tuple[bool, bool, bool]:
    return one.lacks_room, one.scheduled, one.serves


def may_roll(template: Template, replica: int, snapshot: Callable[[Template, int], Snapshot]) -> bool:
    """Whether stale pods of a set replica may be replaced now.

    They may when it is the replica's turn, and also when none of its pods has a node: a fix reaches what never ran
    everywhere at once. `snapshot` as in `roll_limit`.
    """
    if not under_way(template):
        return False
    if replica == current_replica(template):
        return True
    return not _any_scheduled(template, replica, snapshot(template, replica))


def roll_limit(podclique: PodClique, template: Template, snapshot: Callable[[Template, int], Snapshot]) -> int | None:
    """How many pods of a standalone PodClique may be down while stale ones are replaced now; None: none is replaced.

    `snapshot` gives what exists of a replica of the set; it is asked only when the answer depends on it.
    """
    if labels.SCALING_GROUP in podclique.labels or not under_way(template) or not runs(podclique, template):
        return None
    clique, replica = clique_of(podclique, template), replica_of(podclique)
    if clique is None or replica is None or not may_roll(template, replica, snapshot):
        return None
    return max_unavailable(template.cliques[clique].rolling_update, wanted_pods(podclique))


def max_unavailable(config: RollingUpdate | None, wanted: int) -> int:
    """How many of `wanted` may be down at a time: at least 1, a share rounded down. What makes no sense is 1."""
    value = config.max_unavailable if config is not None else None
    if isinstance(value, str):
        share = value.removesuffix("%")
        value = wanted * int(share) // 100 if share.isascii() and share.isdigit() and len(share) <= 3 else 1
    return max(value or 1, 1)


def stale_pods_to_go(podclique: PodClique, pods: Collection[PodView], elsewhere: int, limit: int) -> list[PodView]:
    """The stale pods of a standalone PodClique that are replaced now; `pods` are those that stay otherwise.

    All that are not ready go, and of the ready ones, oldest first, as many as `limit` leaves when everything that is
    down is counted: pods that are not ready, and `elsewhere` those that are missing or terminating.
    """
    stale = [pod for pod in pods if is_stale(pod, podclique)]
    free = limit - elsewhere - sum(not pod.ready for pod in pods)
    ready = sorted((pod for pod in stale if pod.ready), key=lambda pod: (pod.created, pod.index))
    return [pod for pod in stale if not pod.ready] + ready[: max(free, 0)]


def delete(pod: PodView) -> Delete:
    """The deletion of a pod that is replaced by one of the template."""
    return Delete(POD, pod.namespace, pod.name, pod.uid, UPDATED)


def _podcliques(template: Template, replica: int, snapshot: Snapshot) -> Iterator[PodClique]:
    """The PodCliques of a set replica that exist, looked up one by one as they are asked for."""
    alone = (names.podclique_name(template.name, replica, clique.name) for clique in template.standalone)
    yield from filter(None, map(snapshot.podcliques.get, alone))
    for group in template.groups:
        live = snapshot.scaling_groups.get(names.scaling_group_name(template.name, replica, group))
        if live is not None:
            units = unit_podcliques(group, live, template, snapshot.podcliques)
            yield from filter(None, chain.from_iterable(units))


def _any_scheduled(template: Template, replica: int, snapshot: Snapshot) -> bool:
    """Whether some pod of a set replica has a node. Of a replica that runs no more than the first pod is looked at."""
    found = _podcliques(template, replica, snapshot)
    return any(pod.active and pod.scheduled for podclique in found for pod in snapshot.pods.get(podclique.uid, ()))
