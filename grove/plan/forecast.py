"""What an edited PodCliqueSet would do to what runs: which pods restart in which order, and what is scaled.

Worked out by the operator's own plans, on what exists and on PodCliques that have been told of the new template.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from grove.api import labels
from grove.api.podclique import PodClique
from grove.plan.kinds import PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.plan.observed import PodView
from grove.plan.podclique import clique_of, wanted_pods
from grove.plan.podcliqueset import SetSnapshot
from grove.plan.progress import rolling
from grove.plan.replica import ReplicaSnapshot, plan_children
from grove.plan.rollout import Part, max_unavailable, order, parts, replica_standing
from grove.plan.template import Template
from grove.runtime.writes import Patch


@dataclass(frozen=True, slots=True)
class Restart:
    """Pods of one clique or scaling group that would be replaced."""

    name: str
    """of the PodClique or PodCliqueScalingGroup"""
    pods: int
    units: tuple[int, ...]
    """replicas of the scaling group that restart, each as a whole; empty for a standalone clique"""
    at_once: int
    """how many pods, or replicas of the group, may be down at a time"""


@dataclass(frozen=True, slots=True)
class Turn:
    """What restarts in one replica of the set."""

    replica: int
    restarts: tuple[Restart, ...]


@dataclass(frozen=True, slots=True)
class Scaling:
    """A number that the edit changes on a live child."""

    kind: str
    name: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class Forecast:
    """What would happen."""

    changed: tuple[str, ...]
    """cliques whose pod template differs from that of the live set"""
    rolling: bool
    """the operator restarts pods itself; otherwise they change when somebody deletes them"""
    turns: tuple[Turn, ...]
    """in the order in which replicas of the set have their turn"""
    pods: int
    """pods that run now"""
    scalings: tuple[Scaling, ...]
    replicas: tuple[int, int]
    """replicas of the set, before and after"""

    @property
    def restarting(self) -> int:
        """Pods that would be replaced."""
        return sum(restart.pods for turn in self.turns for restart in turn.restarts)


def forecast(live: Template, new: Template, snapshot: SetSnapshot) -> Forecast:
    """Work out what happens when the set `live` becomes `new`; `snapshot` is what exists of it."""
    told = SetSnapshot(
        podcliques={name: _told(podclique, new) for name, podclique in snapshot.podcliques.items()},
        scaling_groups=snapshot.scaling_groups,
        pods=snapshot.pods,
    )
    kept = range(min(live.replicas, new.replicas))
    turns = [
        Turn(replica, tuple(restart for part in parts(new, replica, told) if (restart := _restart(part)).pods))
        for replica in order([replica_standing(new, replica, told) for replica in range(new.replicas)])
        if replica in kept
    ]
    before, after = live.pod_template_hashes, new.pod_template_hashes
    return Forecast(
        changed=tuple(name for name in after if before.get(name) != after[name]),
        rolling=rolling(new),
        turns=tuple(turn for turn in turns if turn.restarts),
        pods=sum(pod.active for pods in _pods(snapshot) for pod in pods),
        scalings=tuple(scaling for replica in kept for scaling in _scalings(new, replica, snapshot)),
        replicas=(live.replicas, new.replicas),
    )


def _told(podclique: PodClique, new: Template) -> PodClique:
    clique = clique_of(podclique, new)
    if clique is None:
        return podclique
    metadata = podclique.wire["metadata"]
    tags = {**podclique.labels, labels.POD_TEMPLATE_HASH: new.pod_template_hashes[clique]}
    return PodClique.from_wire({**podclique.wire, "metadata": {**metadata, "labels": tags}})


def _restart(part: Part) -> Restart:
    stale = [index for index, unit in enumerate(part.units) if any(standing.stale for standing in unit)]
    if part.group:
        pods = sum(len(standing.pods) for index in stale for standing in part.units[index])
        return Restart(part.name, pods, tuple(stale), max_unavailable(part.config, len(part.units)))
    (standing,) = part.units[0]
    return Restart(part.name, len(standing.stale), (), max_unavailable(part.config, standing.wanted))


def _scalings(new: Template, replica: int, snapshot: SetSnapshot) -> Iterable[Scaling]:
    seen = ReplicaSnapshot(
        podcliques=snapshot.podcliques, scaling_groups=snapshot.scaling_groups, services=snapshot.services
    )
    now: Mapping[Any, Mapping[str, int]] = {
        PODCLIQUE: {name: wanted_pods(one) for name, one in snapshot.podcliques.items()},
        PODCLIQUESCALINGGROUP: {name: one.spec.replicas for name, one in snapshot.scaling_groups.items()},
    }
    for write in plan_children(new, replica, seen):
        if isinstance(write, Patch) and write.resource in now and isinstance(write.body, dict):
            after = (write.body.get("spec") or {}).get("replicas")
            if after is not None:
                yield Scaling(write.resource.kind, write.name, now[write.resource][write.name], after)


def _pods(snapshot: SetSnapshot) -> Iterable[Iterable[PodView]]:
    return (snapshot.pods.get(podclique.uid, ()) for podclique in snapshot.podcliques.values())
