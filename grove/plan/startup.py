"""The order in which cliques start: who waits for whom, in the template and between the PodCliques made from it.

An edge says that a clique starts after another one has minAvailable ready pods. Within the base gang it holds between
all PodCliques of the two cliques; in a scaled gang only within its replica of the scaling group (reference 4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from grove.api import names
from grove.api.podcliqueset import CliqueStartupType, PodCliqueTemplateSpec

if TYPE_CHECKING:
    from grove.plan.template import Template


@dataclass(frozen=True, slots=True)
class Place:
    """Where a PodClique stands in a replica of a set."""

    clique: str
    """name of the clique in the template"""
    group: str = ""
    """name of its scaling group in the template, "" for a standalone clique"""
    index: int = 0
    """replica of the scaling group"""


def edges(cliques: Sequence[PodCliqueTemplateSpec], startup_type: CliqueStartupType) -> dict[str, tuple[str, ...]]:
    """Clique → the cliques it starts after, each once; cliques that wait for nobody are left out.

    InOrder: the clique before it in the template. Explicit: those in its startsAfter; names of no other clique, which
    admission refuses, do not count. AnyOrder: nobody.
    """
    known = [clique.name for clique in cliques]
    if startup_type == CliqueStartupType.IN_ORDER:
        return {after: (before,) for before, after in pairwise(known)}
    if startup_type == CliqueStartupType.EXPLICIT:
        named = {
            clique.name: tuple(
                dict.fromkeys(name for name in clique.spec.starts_after if name in known and name != clique.name)
            )
            for clique in cliques
        }
        return {clique: parents for clique, parents in named.items() if parents}
    return {}


def parents(template: Template, place: Place) -> list[Place]:
    """The places that a place starts after, in the order of startsAfter and then of the groups' replicas.

    In the base gang: every replica up to minAvailable of a parent's scaling group. In a scaled gang: the parents in the
    same replica of the same group; others are not waited for, since the gang's gates wait for the base gang.
    """
    group = template.groups.get(place.group)
    scaled = group is not None and place.index >= group.min_available
    found: list[Place] = []
    for clique in template.starts_after.get(place.clique, ()):
        theirs = template.group_of.get(clique, "")
        if scaled:
            if theirs == place.group:
                found.append(Place(clique, theirs, place.index))
        elif theirs:
            found += [Place(clique, theirs, index) for index in range(template.groups[theirs].min_available)]
        else:
            found.append(Place(clique))
    return found


def waiting_places(template: Template, group_replicas: Mapping[str, int]) -> Iterator[Place]:
    """The places of a set's replica that start after others; `group_replicas` has live replicas by group name."""
    for clique in template.starts_after:
        name = template.group_of.get(clique, "")
        group = template.groups.get(name)
        replicas = 1 if group is None else group_replicas.get(name, group.replicas)
        for place in (Place(clique, name, index) for index in range(replicas)):
            if parents(template, place):
                yield place


def podclique_name(template: Template, replica: int, place: Place) -> str:
    """Name of the PodClique at a place in replica `replica` of a set."""
    if not place.group:
        return names.podclique_name(template.name, replica, place.clique)
    group = names.scaling_group_name(template.name, replica, place.group)
    return names.scaling_group_podclique_name(group, place.index, place.clique)


def starts_after(template: Template, replica: int, place: Place) -> list[str]:
    """PodClique.spec.startsAfter: names of the PodCliques that the one at `place` starts after."""
    return [podclique_name(template, replica, parent) for parent in parents(template, place)]


def levels(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Nodes by the step in which they can start, given what each starts after.

    Every node is a key; a node stands one level after the last of those it starts after. Those on a cycle, and what
    comes after them, can never start and are in no level.
    """
    result: list[list[str]] = []
    started: set[str] = set()
    left = list(graph)
    while level := [node for node in left if started.issuperset(graph[node])]:
        result.append(level)
        started.update(level)
        left = [node for node in left if node not in started]
    return result


def find_cycles(graph: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Cycles of a graph, given each node's successors; nodes that are no key have none.

    Every node that is on any cycle is connected by cycles to one that is reported, and no node is reported twice.
    Each cycle starts at its first node in the order of `graph`.
    """
    order = {node: position for position, node in enumerate(graph)}
    cycles: list[list[str]] = []
    reported: set[str] = set()
    done: set[str] = set()
    for start in graph:
        path: list[str] = []
        position: dict[str, int] = {}
        pending = [(start, iter(graph[start]))] if start not in done else []
        if pending:
            path, position = [start], {start: 0}
        while pending:
            node, successors = pending[-1]
            following = next(successors, None)
            if following is None:
                pending.pop()
                path.pop()
                del position[node]
                done.add(node)
            elif following in position:
                cycle = path[position[following] :]
                if reported.isdisjoint(cycle):
                    reported.update(cycle)
                    first = min(range(len(cycle)), key=lambda index: order[cycle[index]])
                    cycles.append(cycle[first:] + cycle[:first])
            elif following in graph and following not in done:
                position[following] = len(path)
                path.append(following)
                pending.append((following, iter(graph[following])))
    return cycles
