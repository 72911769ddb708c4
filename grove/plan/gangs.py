"""PodGangs of one PodCliqueSet replica: who belongs to which, when a gang is complete, when its gates come off.

The base gang holds the standalone cliques and the first minAvailable replicas of every scaling group; each further
replica of a scaling group is a scaled gang of its own. A clique with 0 replicas is idle and in no gang.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from grove.api import names
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueScalingGroupConfig
from grove.plan.breach import remaining
from grove.plan.observed import PodView
from grove.plan.podclique import wanted_pods
from grove.plan.template import Template, min_available


@dataclass(frozen=True, slots=True)
class Member:
    """One pod group a gang should have: a PodClique with its minimum."""

    podclique: str
    clique: str
    """name of the clique in the template"""
    replicas: int
    min_replicas: int
    unit: str = ""
    """the replica of a scaling group that it is in, `<group>-<index>`; "" outside of groups"""


@dataclass(frozen=True, slots=True)
class Gang:
    """One PodGang that should exist."""

    name: str
    members: tuple[Member, ...]
    base: str = ""
    """name of the base gang; "" for the base gang itself"""


@dataclass(frozen=True, slots=True)
class GroupState:
    """One member of a gang and the pods it has."""

    member: Member
    exists: bool
    pods: tuple[PodView, ...] = ()
    """active pods that carry the gang's label and do not go with a terminated gang, sorted by name"""
    leaving: tuple[PodView, ...] = ()
    """pods of the gang that are being deleted and still hold their place on a node"""
    live: PodClique | None = None
    """the PodClique, when it exists"""

    @property
    def whole(self) -> bool:
        """Every pod the PodClique asks for is there."""
        return self.exists and len(self.pods) >= self.member.replicas

    @property
    def scheduled(self) -> int:
        return sum(pod.scheduled for pod in self.pods)

    @property
    def minimum_since(self) -> float:
        """When the last pod of its minimum was given a node, in seconds since the epoch; only once it is scheduled."""
        since = sorted(pod.scheduled_since for pod in self.pods if pod.scheduled)[: self.member.min_replicas]
        return since[-1] if since else 0.0

    @property
    def ready(self) -> int:
        return sum(pod.ready for pod in self.pods)


@dataclass(frozen=True, slots=True)
class GangState:
    """A gang as observed."""

    gang: Gang
    groups: tuple[GroupState, ...]

    @property
    def complete(self) -> bool:
        """Every pod the gang expects exists and carries its label."""
        return all(group.whole for group in self.groups)

    @property
    def released(self) -> bool:
        """Some pod of the gang has lost its gate, so the gang has been complete before."""
        return any(not pod.gated for group in self.groups for pod in group.pods)

    @property
    def scheduled(self) -> bool:
        return all(group.scheduled >= group.member.min_replicas for group in self.groups)

    @property
    def scheduled_since(self) -> float:
        """When the last pod of the gang's minimum was given a node, in seconds since the epoch; only once it is."""
        return max(group.minimum_since for group in self.groups)

    @property
    def ready(self) -> bool:
        return all(group.ready >= group.member.min_replicas for group in self.groups)


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """What exists of one set replica, as far as its gangs depend on it."""

    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    """by name; only those that the set or its scaling groups own"""
    scaling_group_replicas: Mapping[str, int] = field(default_factory=dict)
    """live spec.replicas by group name of the template; the template's value stands in where the object is missing"""
    pods: Mapping[str, Iterable[PodView]] = field(default_factory=dict)
    """by uid of the owning PodClique"""


def live_group_replicas(
    template: Template, replica: int, scaling_groups: Mapping[str, PodCliqueScalingGroup]
) -> dict[str, int]:
    """Live replicas of a set replica's scaling groups (`scaling_groups` by name), by the template's group names."""
    named = {group: names.scaling_group_name(template.name, replica, group) for group in template.groups}
    return {group: scaling_groups[name].spec.replicas for group, name in named.items() if name in scaling_groups}


def expected_gangs(template: Template, replica: int, view: ReplicaView) -> list[Gang]:
    """The gangs of a set replica, the base gang first; gangs whose members are all idle do not exist."""
    base_name = names.base_podgang_name(template.name, replica)
    base: list[Member] = []
    for clique in template.standalone:
        name = names.podclique_name(template.name, replica, clique.name)
        base.extend(_member(template, view, name, clique.name))
    scaled: list[Gang] = []
    for group in template.groups.values():
        scaling_group = names.scaling_group_name(template.name, replica, group.name)
        for index in range(view.scaling_group_replicas.get(group.name, group.replicas)):
            members = _group_members(template, view, group, scaling_group, index)
            if index < group.min_available:
                base.extend(members)
            elif members:
                name = names.scaled_podgang_name(scaling_group, index, group.min_available)
                scaled.append(Gang(name, tuple(members), base_name))
    return ([Gang(base_name, tuple(base))] if base else []) + scaled


def observe(gang: Gang, view: ReplicaView) -> GangState:
    """Match a gang's members with the pods that exist."""
    groups = []
    for member in gang.members:
        podclique = view.podcliques.get(member.podclique)
        pods = [pod for pod in view.pods.get(podclique.uid, ()) if pod.gang == gang.name] if podclique else []
        present = remaining(podclique, pods) if podclique is not None else []
        leaving = tuple(pod for pod in pods if pod.deleting and pod.node and not pod.finished)
        mine = tuple(sorted(present, key=lambda pod: pod.name))
        groups.append(GroupState(member, podclique is not None, mine, leaving, podclique))
    return GangState(gang, tuple(groups))


def gates_to_lift(state: GangState, base: GangState | None) -> list[PodView]:
    """Pods whose gate comes off now (all of them are in the PodGang the same pass writes before).

    A gang starts whole, and a scaled gang only once its base gang is scheduled. Afterwards a pod joins as soon as it is
    referenced; a clique that comes back from idle joins once it is whole itself.
    """
    if state.released:
        open_groups = [g for g in state.groups if g.whole or any(not pod.gated for pod in g.pods)]
    elif state.complete and (base is None or base.scheduled):
        open_groups = list(state.groups)
    else:
        return []
    return [pod for group in open_groups for pod in group.pods if pod.gated]


def _member(template: Template, view: ReplicaView, podclique: str, clique: str, unit: str = "") -> list[Member]:
    live = view.podcliques.get(podclique)
    wanted = (template.cliques[clique].spec.replicas or 0) if live is None else wanted_pods(live)
    if not wanted:
        return []
    return [Member(podclique, clique, wanted, min_available(template.cliques[clique]), unit)]


def _group_members(
    template: Template, view: ReplicaView, group: PodCliqueScalingGroupConfig, scaling_group: str, index: int
) -> list[Member]:
    result: list[Member] = []
    for clique in template.members(group.name):
        name = names.scaling_group_podclique_name(scaling_group, index, clique.name)
        result.extend(_member(template, view, name, clique.name, f"{scaling_group}-{index}"))
    return result
