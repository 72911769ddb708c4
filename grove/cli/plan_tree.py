"""An overview of what PodCliqueSets become, as a tree that stays short however large they are.

All replicas of a set are alike, and so are the replicas of a scaling group but for their gang. Of each run of equal
ones the first is shown in full.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeVar

from grove.api import labels
from grove.cli.plan_order import order_lines
from grove.cli.plan_scheduler import scheduled
from grove.inspect.text import Node, counted
from grove.plan.expand import Replica, expand
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology

Object = dict[str, Any]
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Overview:
    """A set and its first replica, which stands for all."""

    template: Template
    replica: Replica | None
    """None when the set has no replicas"""

    @classmethod
    def of(cls, template: Template, topology: Topology = NOWHERE) -> Overview:
        if not template.replicas:
            return cls(template, None)
        spec = template.pcs.spec.model_copy(update={"replicas": 1})
        [replica] = expand(Template(template.pcs.model_copy(update={"spec": spec})), topology)
        return cls(template, scheduled(replica, template, topology))

    def lines(self) -> Iterator[str]:
        """The tree, line by line."""
        name, replicas = f"{self.template.namespace}/{self.template.name}", self.template.replicas
        root = Node(f"PodCliqueSet {name}: {counted(replicas, 'replica')}")
        if self.replica is not None:
            root.children.append(Node("replica 0", _replica(self.replica, self.template)))
        if replicas > 1:
            root.children.append(Node(f"{_range('replica', 1, replicas - 1)}: the same"))
        return root.lines()


def total(overviews: Sequence[Overview]) -> str:
    """How many objects of each kind the sets become: `1 PodCliqueSet → 4 PodCliques, …, 9 Pods`."""
    counts: Counter[str] = Counter()
    for overview in overviews:
        for obj in overview.replica.objects if overview.replica else ():
            counts[obj["kind"]] += overview.template.replicas
    order = ["PodClique", "PodCliqueScalingGroup", "PodGang", "Service", "HorizontalPodAutoscaler", "Pod"]
    made = [counted(counts[kind], kind) for kind in (*order, *sorted(counts.keys() - order)) if counts[kind]]
    return f"{counted(len(overviews), 'PodCliqueSet')} → {', '.join(made) or 'nothing'}"


def _replica(replica: Replica, template: Template) -> list[Node]:
    standalone = [pclq for pclq in replica.podcliques if labels.SCALING_GROUP not in _labels(pclq)]
    nodes = [Node(f"Service {_name(service)}") for service in replica.services]
    nodes += [_podclique(pclq) for pclq in standalone]
    nodes += [_scaling_group(group, replica) for group in replica.scaling_groups]
    nodes += [_autoscaler(autoscaler) for autoscaler in replica.autoscalers]
    return nodes + _podgangs(replica, template)


def _podclique(podclique: Object) -> Node:
    name, replicas = _name(podclique), podclique["spec"]["replicas"]
    if not replicas:
        return Node(f"PodClique {name}: idle")
    hosts = f"{name}-0" if replicas == 1 else f"{name}-0 … {name}-{replicas - 1}"
    return Node(f"PodClique {name}: {counted(replicas, 'pod')} ({hosts})")


def _scaling_group(group: Object, replica: Replica) -> Node:
    spec = group["spec"]
    count = counted(spec["replicas"], "replica") if spec["replicas"] else "idle"
    node = Node(f"PodCliqueScalingGroup {_name(group)}: {count}, at least {spec['minAvailable']}")
    base = labels.BASE_PODGANG
    for run in _runs(_members(replica, _name(group)), lambda pclqs: [(_size(p), base in _labels(p)) for p in pclqs]):
        (index, podcliques), last = run[0], run[-1][0]
        gang = _labels(podcliques[0])[labels.PODGANG]
        kind = "scaled gang" if base in _labels(podcliques[0]) else "base gang"
        node.children.append(Node(f"replica {index} ({kind} {gang})", [_podclique(pclq) for pclq in podcliques]))
        if last > index:
            each = ", each a gang" if kind == "scaled gang" else ""
            node.children.append(Node(f"{_range('replica', index + 1, last)}: the same{each}"))
    return node


def _members(replica: Replica, group: str) -> list[tuple[int, list[Object]]]:
    """The PodCliques of a scaling group by the index of their replica."""
    members: dict[int, list[Object]] = {}
    for podclique in replica.podcliques:
        tags = _labels(podclique)
        if tags.get(labels.SCALING_GROUP) == group:
            members.setdefault(int(tags[labels.SCALING_GROUP_REPLICA_INDEX]), []).append(podclique)
    return sorted(members.items())


def _autoscaler(autoscaler: Object) -> Node:
    spec = autoscaler["spec"]
    bounds = f"{spec['minReplicas']} to {spec['maxReplicas']} replicas"
    return Node(f"HorizontalPodAutoscaler {_name(autoscaler)}: {spec['scaleTargetRef']['kind']} with {bounds}")


def _podgangs(replica: Replica, template: Template) -> list[Node]:
    podcliques = {_name(pclq): pclq for pclq in replica.podcliques}
    gangs = [
        _Gang(
            gang,
            [podcliques[group["name"]] for group in gang["spec"]["podgroups"]],
            template,
            [obj for obj in replica.scheduler_objects if _labels(obj)[labels.PODGANG] == _name(gang)],
        )
        for gang in replica.podgangs
    ]
    nodes: list[Node] = []
    for run in _runs(list(enumerate(gangs)), _Gang.shape):
        gang = run[0][1]
        nodes.append(gang.node())
        if len(run) > 1:
            first, last = run[1][1].name, run[-1][1].name
            which = f"PodGang {first}" if first == last else f"PodGangs {first} … {last}"
            nodes.append(Node(f"{which} ({gang.kind}): the same"))
    return nodes


@dataclass(frozen=True, slots=True)
class _Gang:
    """A PodGang and the PodCliques of its pod groups, in their order."""

    podgang: Object
    podcliques: list[Object]
    template: Template
    scheduler_objects: list[Object]

    @property
    def name(self) -> str:
        return _name(self.podgang)

    @property
    def kind(self) -> str:
        return "scaled" if any(labels.BASE_PODGANG in _labels(pclq) for pclq in self.podcliques) else "base"

    @property
    def minimums(self) -> list[int]:
        return [group["minReplicas"] for group in self.podgang["spec"]["podgroups"]]

    def shape(self) -> object:
        """What is equal for two gangs that differ in their names only."""
        groups = [_labels(pclq).get(labels.SCALING_GROUP) for pclq in self.podcliques]
        levels = [_within(one) for one in (self.podgang["spec"], *self.podgang["spec"]["podgroups"])]
        return self.kind, groups, [_size(pclq) for pclq in self.podcliques], self.minimums, levels

    def node(self) -> Node:
        pods = sum(_size(pclq) for pclq in self.podcliques)
        text = f"PodGang {self.name} ({self.kind}): at least {sum(self.minimums)} of {counted(pods, 'pod')}"
        text += _within(self.podgang["spec"])
        order = [Node(line) for line in self._order()]
        steps = [Node("start order", order)] if order else []
        theirs = [Node(_scheduler_object(obj)) for obj in self.scheduler_objects]
        units = self.podgang["spec"].get("topologyConstraintGroupConfigs") or ()
        near = [Node(f"{unit['name']}{_within(unit)}") for unit in units]
        return Node(text, [*(Node(line) for line in self._groups()), *near, *steps, *theirs])

    def _order(self) -> list[str]:
        """The steps in which the gang's cliques start; in a scaled gang only those of its group count."""
        cliques = list(dict.fromkeys(_clique(pclq) for pclq in self.podcliques))
        after = self.template.starts_after
        if self.kind == "scaled":
            group = self.template.group_of[cliques[0]]
            mates = self.template.groups[group].clique_names
            after = {name: tuple(one for one in parents if one in mates) for name, parents in after.items()}
        return order_lines(cliques, after)

    def _groups(self) -> Iterator[str]:
        """A line per pod group; the replicas of a scaling group share the lines of their cliques."""
        alike: dict[tuple[str, int, str, str], list[str]] = {}
        seen: Counter[object] = Counter()
        for podclique, group in zip(self.podcliques, self.podgang["spec"]["podgroups"], strict=True):
            tags = _labels(podclique)
            owner = tags.get(labels.SCALING_GROUP, _name(podclique))
            place = owner, tags.get(labels.SCALING_GROUP_REPLICA_INDEX)
            seen[place] += 1
            count = f"at least {group['minReplicas']} of {counted(_size(podclique), 'pod')}"
            alike.setdefault((owner, seen[place], count, _within(group)), []).append(_name(podclique))
        for (_, _, count, within), names in alike.items():
            who = f"{names[0]}: {count}" if len(names) == 1 else f"{names[0]} … {names[-1]}: {count} each"
            yield who + within


def _within(constrained: Object) -> str:
    """Which nodes some pods may be spread over: `, on nodes of one <label>, if possible of one <label>`."""
    pack = ((constrained.get("topologyConstraint") or {}).get("packConstraint")) or {}
    required = [f", on nodes of one {pack['required']}"] if pack.get("required") else []
    where = "of one" if required else "on nodes of one"
    preferred = [f", if possible {where} {pack['preferred']}"] if pack.get("preferred") else []
    return "".join(required + preferred)


def _scheduler_object(obj: Object) -> str:
    group = obj["apiVersion"].partition("/")[0]
    queue = obj["spec"].get("queue")
    return f"{obj['kind']} {_name(obj)} of {group}" + (f", in queue {queue}" if queue else "")


def _runs(items: Sequence[tuple[int, T]], shape: Callable[[T], object]) -> Iterator[list[tuple[int, T]]]:
    """Numbered items in runs of equal shape."""
    for _, run in groupby(items, key=lambda item: shape(item[1])):
        yield list(run)


def _range(what: str, first: int, last: int) -> str:
    return f"{what} {first}" if first == last else f"{what}s {first} to {last}"


def _name(obj: Object) -> str:
    return str(obj["metadata"]["name"])


def _labels(obj: Object) -> dict[str, str]:
    tags: dict[str, str] = obj["metadata"]["labels"]
    return tags


def _clique(podclique: Object) -> str:
    """The template's name of a PodClique's clique."""
    tags = _labels(podclique)
    group, index = tags.get(labels.SCALING_GROUP), tags.get(labels.SCALING_GROUP_REPLICA_INDEX)
    owner = f"{tags[labels.PART_OF]}-{tags[labels.PODCLIQUESET_REPLICA_INDEX]}" if group is None else f"{group}-{index}"
    return _name(podclique).removeprefix(f"{owner}-")


def _size(podclique: Object) -> int:
    return int(podclique["spec"]["replicas"])
