"""A set as a tree: its replicas, their scaling groups, PodCliques and pods, each with how it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from grove.api import labels
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang, PodGangPhase
from grove.inspect.containers import Trouble, complaints
from grove.inspect.scene import Pod, Scene
from grove.inspect.status import phase_tone, set_status
from grove.inspect.text import Node, Tone, counted
from grove.plan.podclique import clique_of, is_available, wanted_pods
from grove.plan.release import place_of
from grove.plan.scalinggroup import set_replica

Paint = Callable[[str, Tone], str]

_POD_TONES = {"ready": Tone.GOOD, "ended": Tone.BAD, "terminating": Tone.QUIET}


@dataclass(frozen=True)
class Branch:
    """Something in the tree and what hangs below it."""

    kind: str
    """kind of the object; Replica for a replica of a set or of a scaling group"""
    name: str
    """of the object; of a replica its index"""
    state: str
    """one word"""
    tone: Tone
    detail: str = ""
    """what there is to say beside the state"""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """what `-o json` has beside kind, name, state and children"""
    children: Sequence[Branch] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        head = {"kind": self.kind, "name": self.name, "state": self.state, **self.facts}
        return head | ({"children": [child.to_json() for child in self.children]} if self.children else {})

    def node(self, paint: Paint, pods: int) -> Node:
        """For people: at most so many `pods` of each PodClique, those in trouble first, and the rest counted."""
        title = self.name if self.kind == "Pod" else f"replica {self.name}" if self.kind == "Replica" else ""
        title = title or f"{self.kind} {self.name}"
        said = (" " if self.kind == "Pod" else ", ").join(
            part for part in (paint(self.state, self.tone), self.detail) if part
        )
        below = list(self.children)
        node = Node(f"{title}: {said}")
        if self.kind == "PodClique" and len(below) > pods:
            below = sorted(below, key=lambda pod: (pod.tone == Tone.GOOD, pod.tone == Tone.QUIET))
            rest = Counter(pod.state for pod in below[pods:])
            more = ", ".join(f"{number} {state}" for state, number in rest.items())
            node.children = [pod.node(paint, pods) for pod in below[:pods]]
            node.children.append(Node(f"… {len(below) - pods} more: {more}" if pods else more))
        else:
            node.children = [child.node(paint, pods) for child in below]
        return node


def tree(scene: Scene) -> Branch:
    """The set and all below it."""
    template, status = scene.template, set_status(scene)
    by_replica: dict[int, list[PodClique]] = {}
    for podclique in scene.podcliques.values():
        by_replica.setdefault(set_replica(podclique), []).append(podclique)
    groups: dict[int, list[PodCliqueScalingGroup]] = {}
    for group in scene.scaling_groups.values():
        groups.setdefault(set_replica(group), []).append(group)
    shown = sorted({*by_replica, *groups, *range(template.replicas)})
    children = [_replica(scene, index, by_replica.get(index, []), groups.get(index, [])) for index in shown]
    return Branch(
        "PodCliqueSet",
        f"{template.namespace}/{template.name}",
        status.state,
        status.tone,
        status.sentence,
        {"namespace": template.namespace, "wanted": template.replicas, "available": status.available},
        children,
    )


def _replica(
    scene: Scene, index: int, podcliques: Sequence[PodClique], groups: Sequence[PodCliqueScalingGroup]
) -> Branch:
    places = {name: position for position, name in enumerate(scene.template.cliques)}
    ordered = sorted(podcliques, key=lambda one: (places.get(clique_of(one, scene.template) or "", 0), one.name))
    alone = [one for one in ordered if labels.SCALING_GROUP not in one.labels]
    children = [_podclique(scene, one) for one in alone]
    for group in groups:
        members = [one for one in ordered if one.labels.get(labels.SCALING_GROUP) == group.name]
        children.append(_scaling_group(scene, group, members))
    return _of_gangs("Replica", str(index), _gangs(scene, [*alone]) or _base(scene, index), children)


def _scaling_group(scene: Scene, group: PodCliqueScalingGroup, members: Sequence[PodClique]) -> Branch:
    replicas: dict[int, list[PodClique]] = {}
    for podclique in members:
        place = place_of(podclique, scene.template)
        replicas.setdefault(place.index if place is not None else 0, []).append(podclique)
    wanted, available = group.spec.replicas, group.status.available_replicas
    minimum = min(group.spec.min_available, wanted)
    children = [
        _of_gangs("Replica", str(index), _gangs(scene, some), [_podclique(scene, one) for one in some])
        for index, some in sorted(replicas.items())
    ]
    facts = {"wanted": wanted, "minimum": minimum, "available": available}
    if not wanted:
        return Branch(group.KIND, group.name, "idle", Tone.QUIET, "", facts, children)
    tone = Tone.GOOD if available >= wanted else Tone.BUSY if available >= minimum else Tone.BAD
    text = f"{available} of {counted(wanted, 'replica')} available"
    return Branch(group.KIND, group.name, text, tone, f"at least {minimum}", facts, children)


def _podclique(scene: Scene, podclique: PodClique) -> Branch:
    wanted, pods = wanted_pods(podclique), scene.pods_of(podclique)
    ready = sum(pod.view.active and pod.view.ready for pod in pods)
    minimum = min(podclique.spec.min_available or 1, wanted)
    facts = {"wanted": wanted, "minimum": minimum, "ready": ready}
    children = [_pod(pod) for pod in pods]
    if not wanted:
        return Branch(podclique.KIND, podclique.name, "idle", Tone.QUIET, "", facts, children)
    tone = Tone.GOOD if ready >= wanted else Tone.BUSY if is_available(podclique) else Tone.BAD
    detail = f"at least {minimum}" if minimum < wanted else ""
    if podclique.status.last_errors:
        detail = "; ".join(part for part in (detail, "pods are refused") if part)
    return Branch(podclique.KIND, podclique.name, f"{ready} of {wanted} ready", tone, detail, facts, children)


def _pod(pod: Pod) -> Branch:
    view = pod.view
    found = complaints(pod.wire) if view.state in ("starting", "waiting") else []
    worst = found[0] if found else None
    bad = worst is not None and worst.trouble <= Trouble.CRASHED
    tone = Tone.BAD if bad else _POD_TONES.get(view.state, Tone.BUSY)
    status = pod.wire.get("status") or {}
    parts = [f"on {view.node}"] if view.node else []
    if worst is not None and worst.trouble != Trouble.CREATING:
        parts.append(f"{worst.container} {worst.text}")
    if view.state == "ended":
        parts.append(status.get("reason") or view.phase)
    if view.state == "gated":
        others = [gate for gate in view.gates if gate != labels.POD_GATE]
        parts += [f"by {', '.join(others)}"] if others else []
    if view.state == "waiting":
        parts.append(f"for {view.waits_for}" if view.waits_for else "for other cliques")
    facts: dict[str, Any] = {"index": view.index, "node": view.node, "restarts": _restarts(status)}
    if worst is not None:
        facts["container"], facts["problem"] = worst.container, worst.text
    return Branch("Pod", view.name, view.state, tone, ", ".join(parts), facts)


def _restarts(status: Mapping[str, Any]) -> int:
    return sum(int(one.get("restartCount") or 0) for one in status.get("containerStatuses") or ())


def _gangs(scene: Scene, podcliques: Iterable[PodClique]) -> list[PodGang]:
    """The gangs that PodCliques are in."""
    wanted = dict.fromkeys(one.labels.get(labels.PODGANG, "") for one in podcliques)
    return [scene.podgangs[name] for name in wanted if name in scene.podgangs]


def _base(scene: Scene, index: int) -> list[PodGang]:
    gang = scene.podgangs.get(f"{scene.template.name}-{index}")
    return [gang] if gang is not None else []


def _of_gangs(kind: str, name: str, gangs: Sequence[PodGang], children: Sequence[Branch]) -> Branch:
    """A replica, which stands as its gang does."""
    if not gangs:
        idle = all(child.state == "idle" for child in children)
        return Branch(kind, name, "idle" if idle and children else "no gang", Tone.QUIET, "", {}, children)
    gang = gangs[0]
    phase = gang.status.phase or PodGangPhase.PENDING.value
    facts = {"gang": gang.name}
    return Branch(kind, name, phase, phase_tone(gang), ", ".join(_of_gang(gang)), facts, children)


def _of_gang(gang: PodGang) -> Iterator[str]:
    yield f"gang {gang.name}"
    score = gang.status.placement_score
    if score is not None:
        yield f"placement {score:g}"
    if gang.status.phase != PodGangPhase.RUNNING:
        reasons = (one.reason for one in gang.status.conditions if one.status == "False" and one.type == "Scheduled")
        yield from (reason for reason in reasons if reason)
    if any(one.type == labels.ConditionType.UNHEALTHY and one.status == "True" for one in gang.status.conditions):
        yield "unhealthy"
