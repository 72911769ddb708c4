"""Holding pods until the cliques they start after are ready, and letting them go.

A pod is held by its init container (see `init_container`), which waits for the annotation `grove.io/startup`. It is
released once, by one write, and stays released: a parent that is lost later stops nobody.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from grove.api import labels, names
from grove.api.base import find_condition
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.plan.breach import remaining
from grove.plan.conditions import Want
from grove.plan.gangs import ReplicaView
from grove.plan.kinds import POD
from grove.plan.observed import PodView
from grove.plan.podclique import clique_of, idle
from grove.plan.progress import under_way
from grove.plan.rollout import is_stale
from grove.plan.startup import Place, parents, podclique_name, waiting_places
from grove.plan.template import Template, min_available
from grove.runtime.writes import Patch, Write

TEXT_SPACING = 30.0
"""Seconds that a pod waits before the text that says for whom is written anew."""

_NAMED = 5  # PodCliques named in a text; the others are counted


@dataclass(frozen=True, slots=True)
class Parent:
    """A PodClique that others start after."""

    podclique: str
    clique: str
    ready: int
    """active, ready pods of its present gang, without those that go with a terminated one"""
    needed: int
    """minAvailable"""


class Readiness:
    """Who is ready in one replica of a set. Looks at every PodClique at most once; good for one pass."""

    def __init__(self, template: Template, replica: int, view: ReplicaView) -> None:
        self._template = template
        self._replica = replica
        self._view = view
        self._parents: dict[tuple[Place, bool], Parent] = {}
        self._rolls = under_way(template)
        self._lacking: dict[Place, tuple[Parent, ...]] = {}

    def lacking(self, place: Place) -> tuple[Parent, ...]:
        """The parents of a place that have too few ready pods, in the order of startsAfter.

        An idle one (0 replicas, or in an idle scaling group) is looked through: its own parents count in its place.
        Within a replica of a scaling group pods of an older template do not count while an update runs, since the
        replica's pods go together.
        """
        group = self._template.groups.get(place.group)
        if group is not None and place.index < group.min_available and not self._rolls:
            place = replace(place, index=0)  # all replicas in the base gang wait for the same
        if place not in self._lacking:
            found = (self._parent(parent, self._goes_with(place, parent)) for parent in self._effective(place))
            self._lacking[place] = tuple(parent for parent in found if parent.ready < parent.needed)
        return self._lacking[place]

    def _effective(self, place: Place) -> Iterator[Place]:
        pending, seen = parents(self._template, place)[::-1], set()
        while pending:
            parent = pending.pop()
            if parent in seen:
                continue
            seen.add(parent)
            if self._idle(parent):
                pending += parents(self._template, parent)[::-1]
            else:
                yield parent

    def _idle(self, place: Place) -> bool:
        group = self._template.groups.get(place.group)
        if group is not None and place.index >= self._view.scaling_group_replicas.get(group.name, group.replicas):
            return True
        live = self._view.podcliques.get(podclique_name(self._template, self._replica, place))
        return self._template.cliques[place.clique].spec.replicas == 0 if live is None else idle(live)

    def _goes_with(self, place: Place, parent: Place) -> bool:
        """Whether a running update replaces the pods of both together."""
        return self._rolls and bool(place.group) and (place.group, place.index) == (parent.group, parent.index)

    def _parent(self, place: Place, current: bool) -> Parent:
        """The parent at a place; with `current` only its pods of the present template count."""
        if (place, current) not in self._parents:
            name = podclique_name(self._template, self._replica, place)
            live = self._view.podcliques.get(name)
            needed = min_available(self._template.cliques[place.clique])
            ready = 0 if live is None else self._ready(live, current)
            self._parents[place, current] = Parent(name, place.clique, ready, needed)
        return self._parents[place, current]

    def _ready(self, podclique: PodClique, current: bool) -> int:
        gang = podclique.labels.get(labels.PODGANG, "")
        pods = remaining(podclique, self._view.pods.get(podclique.uid, ()))
        mine = [pod for pod in pods if pod.ready and pod.gang == gang]
        return sum(not current or not is_stale(pod, podclique) for pod in mine)


@dataclass(frozen=True, slots=True)
class StartupPlan:
    """What to do about the held pods of one replica of a set."""

    writes: tuple[Write, ...] = ()
    released: tuple[tuple[str, int], ...] = ()
    """name of a PodClique and how many of its pods are released"""
    stale: tuple[str, ...] = ()
    """names of PodCliques whose condition has changed"""
    reworded: tuple[str, ...] = ()
    """names of those that still wait, but for other numbers than their condition says"""
    again_after: float | None = None
    """seconds until the text of a pod is due"""


def plan_startup(template: Template, replica: int, view: ReplicaView, now: float) -> StartupPlan:
    """Release the held pods whose parents are ready; tell the others for whom they wait.

    A text is written anew when it names a clique too many, for a pod that is 30 seconds old or more. So a pod costs one
    write, and one more at most for each parent clique beyond the first. `now` is in seconds since the epoch.
    """
    if not template.starts_after:
        return StartupPlan()
    readiness = Readiness(template, replica, view)
    writes: list[Write] = []
    released: list[tuple[str, int]] = []
    stale: list[str] = []
    reworded: list[str] = []
    waits: list[float] = []
    for place in waiting_places(template, view.scaling_group_replicas):
        podclique = view.podcliques.get(podclique_name(template, replica, place))
        if podclique is None or podclique.deleting:
            continue
        pods = remaining(podclique, view.pods.get(podclique.uid, ()))
        held, lacking = [pod for pod in pods if pod.held], readiness.lacking(place)
        if held and not lacking:
            writes += [_release(pod) for pod in held]
            released.append((podclique.name, len(held)))
        text = waiting_for(lacking)
        for pod in (pod for pod in held if lacking and _outdated(pod.waits_for, text)):
            wait = pod.created + TEXT_SPACING - now
            if 0 < wait <= TEXT_SPACING:  # else it is due, or one of the clocks is wrong
                waits.append(wait)
            else:
                writes.append(_annotate(pod, {labels.STARTUP_WAITING_FOR: text}))
        want = startup_condition(pods, lacking)
        live = find_condition(podclique.status.conditions, want.type)
        if live is None or live.status != want.wire_status:
            stale.append(podclique.name)
        elif live.message != want.message:
            reworded.append(podclique.name)
    return StartupPlan(tuple(writes), tuple(released), tuple(stale), tuple(reworded), min(waits, default=None))


def place_of(podclique: PodClique, template: Template) -> Place | None:
    """Where a PodClique stands in its set; None when it is none of the template's."""
    clique = clique_of(podclique, template)
    if clique is None:
        return None
    index = names.index_of(podclique.labels.get(labels.SCALING_GROUP_REPLICA_INDEX, ""))
    return Place(clique, template.group_of.get(clique, ""), index or 0)


def lacking_parents(podclique: PodClique, template: Template, readiness: Readiness) -> tuple[Parent, ...] | None:
    """The parents that a PodClique waits for; None when it starts after nobody."""
    place = place_of(podclique, template)
    if place is None or not parents(template, place):
        return None
    return readiness.lacking(place)


def startup_condition(pods: Iterable[PodView], lacking: Sequence[Parent]) -> Want:
    """The condition StartupReleased of a PodClique that starts after others, given its pods."""
    kind, held = ConditionType.STARTUP_RELEASED, [pod.held for pod in pods if pod.active]
    if lacking and (any(held) or not held):
        counts = [f"{parent.podclique} has {parent.ready} of {parent.needed}" for parent in lacking]
        return Want(kind, False, Reason.WAITING_FOR_PARENTS, f"waiting for ready pods: {_listed(counts)}")
    return Want(kind, True, Reason.PARENTS_READY, "the cliques it starts after have their minimum of ready pods")


def waiting_for(lacking: Sequence[Parent]) -> str:
    """For whom a pod waits: `pca (at least 3 ready), …`, words that hold until one of these cliques is ready."""
    return ", ".join(dict.fromkeys(f"{parent.clique} (at least {parent.needed} ready)" for parent in lacking))


def _outdated(have: str, want: str) -> bool:
    """Whether a text names a clique that is ready. One that is missing, as it was ready for a moment, can wait."""
    named, lacking = set(have.split(", ")), set(want.split(", "))
    return lacking < named or named.isdisjoint(lacking)


def _release(pod: PodView) -> Patch:
    return _annotate(pod, {labels.STARTUP: labels.STARTUP_RELEASED, labels.STARTUP_WAITING_FOR: None})


def _annotate(pod: PodView, annotations: dict[str, str | None]) -> Patch:
    body: dict[str, Any] = {"metadata": {"annotations": annotations}}
    return Patch(POD, pod.namespace, pod.name, body, uid=pod.uid)


def _listed(items: Sequence[str]) -> str:
    more = f" and {len(items) - _NAMED} more" if len(items) > _NAMED else ""
    return ", ".join(items[:_NAMED]) + more
