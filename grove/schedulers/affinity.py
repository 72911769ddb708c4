"""Packing as far as it goes for a scheduler without preferred levels: pod affinity that is preferred, not required.

Kubernetes' own scheduler knows only levels that are required (KEP-5732). So what a constraint prefers becomes a
preference of each pod for nodes near the pods that it belongs to, and so does what one requires where the scheduler
has no topology at all. The pods of a clique are drawn to each other, those of a scaling group's replica, of a gang.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from grove.api import labels
from grove.plan.topology import Packed, Topology
from grove.schedulers.backend import Object

_WEIGHT: Final = 100
"""The most that Kubernetes takes: two levels that are asked for add up."""


def drawn_together(pod: Object, group: str, clique: str, topology: Topology, *, strengths: tuple[str, ...]) -> Object:
    """Give a new pod the preferences that its clique's, its scaling group's and its set's constraints amount to.

    `group` and `clique` are names of the template; `strengths` are those of `required` and `preferred` that the
    scheduler does not see to by itself. Preferences of the user's stay. `pod` is changed.
    """
    terms = list(_terms(pod["metadata"]["labels"], group, clique, topology, strengths))
    if terms:
        affinity = dict(pod["spec"].get("affinity") or {})
        near = dict(affinity.get("podAffinity") or {})
        kind = "preferredDuringSchedulingIgnoredDuringExecution"
        near[kind] = [*(near.get(kind) or ()), *terms]
        pod["spec"]["affinity"] = {**affinity, "podAffinity": near}
    return pod


def _terms(
    tags: Mapping[str, str], group: str, clique: str, topology: Topology, strengths: tuple[str, ...]
) -> Iterator[Object]:
    replica = (labels.SCALING_GROUP, labels.SCALING_GROUP_REPLICA_INDEX)
    near: list[tuple[Packed | None, tuple[str, ...]]] = [
        (topology.cliques.get(clique), (labels.PODCLIQUE,)),
        (topology.groups.get(group), replica),
        (topology.whole, (labels.PODGANG,)),
    ]
    for packed, keys in near:
        pack = (packed or {}).get("packConstraint") or {}
        for level in dict.fromkeys(pack[strength] for strength in strengths if strength in pack):
            selector = {"matchLabels": {key: tags[key] for key in keys}}
            yield {"weight": _WEIGHT, "podAffinityTerm": {"topologyKey": level, "labelSelector": selector}}
