"""Topology by pod affinity, as far as Kubernetes' own scheduler does not see to it by itself.

It keeps the groups of a gang within the levels that are required (KEP-5732). It knows no preferred levels, and pods
beyond a minimum are in no group. So what a constraint prefers becomes a preference of each pod for nodes near the pods
that it belongs to, and what one requires becomes a demand of pods beyond the minimum, which are placed after it. Where
the scheduler has no topology at all, what is required is a preference too: pods that must be near one that is not
placed yet could tear a gang apart.

The pods of a clique are drawn to each other, those of a scaling group's replica, and those of a gang.
"""

from collections.abc import Iterator, Mapping
from enum import Enum, auto
from typing import Final

from grove.api import labels
from grove.plan.topology import Packed, Topology
from grove.schedulers.backend import Object

_WEIGHT: Final = 100
"""The most that Kubernetes takes: two levels that are asked for add up."""


class Required(Enum):
    """Who keeps a pod within a level that is required."""

    BY_GROUP = auto()
    """the group that it is in"""
    BY_POD = auto()
    """the pod itself, by its affinity"""
    NOT = auto()
    """nobody: it is a preference"""


def drawn_together(pod: Object, group: str, clique: str, topology: Topology, required: Required) -> Object:
    """Give a new pod the affinity that its clique's, its scaling group's and its set's constraints amount to.

    `group` and `clique` are names of the template. What the user asks for stays. `pod` is changed.
    """
    hard: list[Object] = []
    soft: list[Object] = []
    for strength, term in _terms(pod["metadata"]["labels"], group, clique, topology):
        if strength == "required" and required is Required.BY_POD:
            hard.append(term)
        elif strength == "preferred" or required is Required.NOT:
            soft.append({"weight": _WEIGHT, "podAffinityTerm": term})
    affinity = dict(pod["spec"].get("affinity") or {})
    near = dict(affinity.get("podAffinity") or {})
    for kind, terms in (("required", hard), ("preferred", soft)):
        if terms:
            field = f"{kind}DuringSchedulingIgnoredDuringExecution"
            near[field] = [*(near.get(field) or ()), *terms]
    if hard or soft:
        pod["spec"]["affinity"] = {**affinity, "podAffinity": near}
    return pod


def _terms(tags: Mapping[str, str], group: str, clique: str, topology: Topology) -> Iterator[tuple[str, Object]]:
    """Strength and affinity term of each constraint that a pod with these labels is under, the narrowest first.

    A scaled gang is a replica of its scaling group, so what the set asks for counts only where the group asks nothing.
    """
    scaled = labels.BASE_PODGANG in tags
    unit = (labels.SCALING_GROUP, labels.SCALING_GROUP_REPLICA_INDEX)
    near: list[tuple[Packed | None, tuple[str, ...]]] = [
        (topology.cliques.get(clique), (labels.PODCLIQUE,)),
        (topology.groups.get(group), unit),
        (None if scaled and group in topology.groups else topology.whole, (labels.PODGANG,)),
    ]
    for packed, keys in near:
        pack = (packed or {}).get("packConstraint") or {}
        for strength, level in pack.items():
            selector = {"matchLabels": {key: tags[key] for key in keys}}
            yield strength, {"topologyKey": level, "labelSelector": selector}
