"""Gangs of Kubernetes 1.37 (KEP-4671, KEP-5732): which objects a PodGang becomes, and which pod is in which group.

A group's scheduling policy says how many of its pods must be placed together. The scheduler fills groups greedily, so
a pod beyond the minimum could take the room that another clique's minimum needs, and nothing would ever be placed.
Therefore only the first minReplicas pods of each clique, by index, are in a group; the surplus is in none.

Of pods that come or lose a gate one by one below a root the scheduler looks through all each time, and for each of them
at all others: that grows with the third power of the gang. So a large gang gets its root last, when all gates are off:
pods that have no root are set aside. A small one gets it first, since of pods that are there before their root the
scheduler may try the first alone, and then backs off for a second.

What topology constraints require is on CompositePodGroups only: one for the gang, for a replica of a scaling group, and
for a clique, whichever the template constrains. Unlike a PodGroup they can be made anew under pods that wait, when the
levels of the cluster change; which of them there are depends on nothing that can change. What they were made with is
noted on the PodGroups below (annotation grove.io/topology-levels), as it has to outlive them.

Nearly every field of a group is immutable, and so is a pod's membership. So the name of a group ends in a hash of what
cannot change in it: after such a change new pods join a new group, and the old one goes with its last pod. A group asks
for no more pods than it has or will get, which keeps it whole while pods move over.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from grove.api import labels
from grove.api.podclique import PodClique
from grove.plan.diff import covers
from grove.plan.gangs import Gang, GroupState, Member
from grove.plan.hashes import suffix
from grove.plan.template import Template
from grove.plan.topology import Packed, Topology, constrained
from grove.plan.update import ensure
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Delete, Write
from grove.schedulers.backend import Cluster, GangView, Object
from grove.schedulers.objects import gang_metadata

PODGROUP: Final = ResourceType("scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup")
LARGE: Final = 200
"""Pods in groups beyond which a gang gets its root last."""

_TOPOLOGY: Final = "schedulingConstraints"
_NO_LEVEL: Final = "-"

COMPOSITE: Final = ResourceType("scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup")


class Tier(StrEnum):
    """What the cluster offers; the value is the kind of a gang's root object."""

    NONE = ""
    PODGROUP = "PodGroup"
    """one group per gang, with the minimums of all cliques"""
    COMPOSITE = "CompositePodGroup"
    """a group per clique, and one above them that asks for all"""


def tier_of(cluster: Cluster) -> Tier:
    """The best that the API server serves now."""
    if not cluster.serves(PODGROUP):
        return Tier.NONE
    return Tier.COMPOSITE if cluster.serves(COMPOSITE) else Tier.PODGROUP


def minimum(podclique: PodClique) -> int:
    """How many pods of a PodClique are placed together, those with the lowest indices."""
    return max(podclique.spec.min_available or 1, 1)


@dataclass(frozen=True, slots=True)
class Above:
    """A CompositePodGroup, seen from below."""

    name: str
    key: str
    """the node label of whose values there may be but one below it, "" for no such"""


@dataclass(frozen=True, slots=True)
class Naming:
    """Names of the groups of one set: what is immutable in a group is in its name."""

    template: Template
    tier: Tier
    priority: str
    """PriorityClass of the groups and their pods, "" for the cluster's default"""

    def group_of(self, podclique: PodClique, clique: str) -> str:
        """The group that a new pod of a PodClique joins; `clique` is the PodClique's name in the template."""
        gang = podclique.labels.get(labels.PODGANG, "")
        if self.tier is Tier.PODGROUP:
            return self.root_of(gang)
        alone = self.alone(clique, scaled=labels.BASE_PODGANG in podclique.labels)
        return f"{podclique.name}-{suffix(podclique.uid, self.priority, 'alone' if alone else 'member')}"

    def root_of(self, gang: str) -> str:
        """The object at the top of a gang, if its groups are no roots themselves."""
        return f"{gang}-{suffix(self.template.uid, self.priority)}"

    def above(self, gang: Gang, member: Member, topology: Topology) -> tuple[Above, ...]:
        """The CompositePodGroups above the group of a gang's member, the root first."""
        clique, group = member.clique, self.template.group_of.get(member.clique, "")
        whole = topology.of_gang(group, scaled=bool(gang.base))
        above = [Above(self.root_of(gang.name), _key(whole))]
        if group and self.template.groups[group].topology_constraint is not None and not gang.base:
            name = f"{member.unit}-{suffix(self.template.uid, self.priority, 'unit')}"  # a scaled gang is such a unit
            above.append(Above(name, _key(topology.groups.get(group))))
        if self.template.cliques[clique].topology_constraint is not None:
            name = f"{member.podclique}-{suffix(self.template.uid, self.priority, 'clique')}"
            above.append(Above(name, _key(topology.cliques.get(clique))))
        return tuple(above)

    def alone(self, clique: str, *, scaled: bool) -> bool:
        """Whether a gang can never have but one PodClique, so that a group needs nothing above it."""
        if constrained(self.template):
            return False
        if scaled:
            return any(len(g.clique_names) == 1 for g in self.template.groups.values() if clique in g.clique_names)
        grouped = sum(len(group.clique_names) * group.min_available for group in self.template.groups.values())
        return len(self.template.standalone) + grouped == 1


@dataclass(frozen=True, slots=True)
class Leaf:
    """The group of some pods of a gang: those of one clique, or of all in the tier without CompositePodGroups."""

    name: str
    min_count: int
    above: tuple[Above, ...]
    """the CompositePodGroups above it, the root first"""
    owner: PodClique | None
    """None is the PodGang"""

    @property
    def parent(self) -> str:
        """Name of the CompositePodGroup right above it, "" for none."""
        return self.above[-1].name if self.above else ""


def plan_objects(gang: GangView, naming: Naming) -> tuple[Write, ...]:
    """Create, patch and delete the objects of a gang whose PodGang and PodCliques all exist."""
    assert gang.podgang is not None
    live = {obj["metadata"]["name"]: obj for obj in gang.objects_of(PODGROUP)}
    live_composites = {obj["metadata"]["name"]: obj for obj in gang.objects_of(COMPOSITE)}
    leaves = _in_force(gang, [_as_made(leaf, live.get(leaf.name)) for leaf in _leaves(gang, naming)], live)
    starts = _starts(gang, leaves)
    made = [leaf for leaf in leaves if leaf.above or leaf.name in live or starts]
    writes = [write for leaf in made for write in _ensure_leaf(gang, naming, live.get(leaf.name), leaf)]
    used = {pod.scheduling_group for group in gang.state.groups for pod in group.pods} | {leaf.name for leaf in leaves}
    writes += [_delete(PODGROUP, obj) for name, obj in live.items() if name not in used and _stays(obj)]
    composites = _composites(gang, naming, leaves)
    root = naming.root_of(gang.state.gang.name)
    if not (starts or (root in live_composites and gang.state.released)):
        composites = [desired for desired in composites if desired["metadata"]["name"] != root]
    for desired in composites:
        writes += _ensure_composite(live_composites.get(desired["metadata"]["name"]), desired)
    used = {_parent(obj) for name, obj in live.items() if name in used} - {root}
    used |= {desired["metadata"]["name"] for desired in composites}
    writes += [_delete(COMPOSITE, obj) for name, obj in live_composites.items() if name not in used and _stays(obj)]
    return tuple(writes)


def _starts(gang: GangView, leaves: Sequence[Leaf]) -> bool:
    """Whether the root of a gang may be there: if the gang is large its gates are off, or some of it is placed."""
    if sum(leaf.min_count for leaf in leaves) <= LARGE:
        return True
    names = {leaf.name for leaf in leaves}
    members = [pod for group in gang.state.groups for pod in group.pods if pod.scheduling_group in names]
    return any(pod.node for pod in members) or (bool(members) and not any(pod.gated for pod in members))


def expected_members(group: GroupState, name: str) -> int:
    """How many pods of a clique its group can count on: those in it, and those that will be made and join it.

    minReplicas is the most that is asked for. A pod below that index which is in no group, or in another, leaves its
    place only when it is replaced.
    """
    joined = sum(pod.scheduling_group == name for pod in group.pods)
    taken = {pod.index for pod in group.pods}
    free = sum(index not in taken for index in range(group.member.min_replicas))
    coming = min(free, max(group.member.replicas - len(group.pods), 0))
    return min(joined + coming, group.member.min_replicas)


def _leaves(gang: GangView, naming: Naming) -> list[Leaf]:
    """The groups that have or will get pods."""
    leaves: list[Leaf] = []
    for group in gang.state.groups:
        member = group.member
        podclique = gang.podcliques[member.podclique]
        name = naming.group_of(podclique, member.clique)
        count = expected_members(group, name)
        if count:
            alone = naming.alone(member.clique, scaled=bool(gang.state.gang.base))
            above = () if alone else naming.above(gang.state.gang, member, gang.topology)
            leaves.append(Leaf(name, count, above, podclique))
    if naming.tier is Tier.PODGROUP and leaves:
        return [Leaf(naming.root_of(gang.state.gang.name), sum(leaf.min_count for leaf in leaves), (), None)]
    return leaves


def _as_made(leaf: Leaf, live: Object | None) -> Leaf:
    """A live group keeps the parent it was made with."""
    if live is None or (parent := _parent(live)) == leaf.parent:
        return leaf
    names = [above.name for above in leaf.above]
    above = leaf.above[: names.index(parent) + 1] if parent in names else (Above(parent, ""),)
    return replace(leaf, above=above if parent else ())


def _in_force(gang: GangView, leaves: list[Leaf], live: Mapping[str, Object]) -> list[Leaf]:
    """The leaves with the levels that count for them: where pods are on nodes those they were placed with.

    Such pods may be anywhere in what came since, and the scheduler finds no place for the successor of one among them.
    So a level that goes is given up, and one that comes, or gets another key, counts once the gang starts anew.
    """
    placed = {pod.scheduling_group for group in gang.state.groups for pod in group.pods if pod.node}
    keys = {above.name: above.key for leaf in leaves for above in leaf.above}
    for leaf in leaves:
        if leaf.name in placed and leaf.name in live:
            notes = live[leaf.name]["metadata"].get("annotations") or {}
            had = dict(zip(_names(leaf), notes.get(labels.TOPOLOGY_LEVELS, "").split(), strict=False))
            for above in leaf.above:
                keys[above.name] = had.get(above.name, _NO_LEVEL).replace(_NO_LEVEL, "") if above.key else ""
    return [replace(leaf, above=tuple(Above(one.name, keys[one.name]) for one in leaf.above)) for leaf in leaves]


def _names(leaf: Leaf) -> list[str]:
    return [above.name for above in leaf.above]


def _composites(gang: GangView, naming: Naming, leaves: Sequence[Leaf]) -> list[Object]:
    """The CompositePodGroups above the leaves: each asks for all that is below it."""
    keys = {above.name: above.key for leaf in leaves for above in leaf.above}
    below: dict[str, set[str]] = {}
    parents: dict[str, str] = {}
    for leaf in leaves:
        path = _names(leaf)
        for parent, child in itertools.pairwise((*path, f"{leaf.name} below")):
            below.setdefault(parent, set()).add(child)
        parents |= {child: parent for parent, child in itertools.pairwise(path)}
    return [
        _composite(gang, naming, name, parents.get(name, ""), len(children), keys[name])
        for name, children in below.items()
    ]


def _composite(gang: GangView, naming: Naming, name: str, parent: str, count: int, topology: str) -> Object:
    assert gang.podgang is not None
    spec = _common_spec(gang, naming, parent, "gang" if not parent else "group")
    spec["schedulingPolicy"] = {"gang": {"minGroupCount": count}}
    if topology:
        spec[_TOPOLOGY] = {"topology": [{"key": topology}]}
    metadata = gang_metadata(gang, name, gang.podgang)
    return {"apiVersion": COMPOSITE.api_version, "kind": COMPOSITE.kind, "metadata": metadata, "spec": spec}


def _ensure_leaf(gang: GangView, naming: Naming, live: Object | None, leaf: Leaf) -> list[Write]:
    assert gang.podgang is not None
    spec = _common_spec(gang, naming, leaf.parent, "pods")
    spec["schedulingPolicy"] = {"gang": {"minCount": leaf.min_count}}
    metadata = gang_metadata(gang, leaf.name, leaf.owner or gang.podgang)
    if leaf.above and constrained(gang.template):
        levels = " ".join(above.key or _NO_LEVEL for above in leaf.above)
        metadata["annotations"] = {labels.TOPOLOGY_LEVELS: levels}
    desired = {"apiVersion": PODGROUP.api_version, "kind": PODGROUP.kind, "metadata": metadata, "spec": spec}
    if live is not None:
        # Of a live group only the count can change; what else differs is what the API server filled in.
        desired["spec"] = {"schedulingPolicy": spec["schedulingPolicy"]}
    return ensure(PODGROUP, live, desired)


def _ensure_composite(live: Object | None, desired: Object) -> list[Write]:
    """Of a CompositePodGroup nothing can change: it is deleted, and made again once it is gone.

    Nothing keeps it from going, and its groups, which know it by name, do not mind: a pod that waits goes on waiting.
    """
    if live is not None and _stays(live):
        have, want = live.get("spec") or {}, desired["spec"]
        if not covers(have, want) or (_TOPOLOGY in have and _TOPOLOGY not in want):
            return [_delete(COMPOSITE, live)]
    return ensure(COMPOSITE, live, desired)


def _common_spec(gang: GangView, naming: Naming, parent: str, role: str) -> Object:
    """The fields that groups and composite groups share. A root is evicted whole: below its minimum it is of no use."""
    spec: Object = {}
    if parent:
        spec["parentCompositePodGroupName"] = parent
    else:
        spec["disruptionMode"] = {"all": {}}
    if naming.tier is Tier.COMPOSITE:
        # In a tree a name is demanded; an object of that name is not, and no scheduler reads Workloads.
        spec["workloadRef"] = {"workloadName": gang.state.gang.name, "templateName": role}
    if naming.priority:
        spec["priorityClassName"] = naming.priority
    return spec


def _key(packed: Packed | None) -> str:
    """The node label that a constraint requires to have one value; "" for none."""
    return ((packed or {}).get("packConstraint") or {}).get("required") or ""


def _parent(podgroup: Object) -> str:
    return str((podgroup.get("spec") or {}).get("parentCompositePodGroupName") or "")


def _stays(obj: Object) -> bool:
    return not obj["metadata"].get("deletionTimestamp")


def _delete(resource: ResourceType, obj: Object) -> Delete:
    metadata = obj["metadata"]
    return Delete(resource, metadata["namespace"], metadata["name"], metadata["uid"], "no longer wanted as it is")
