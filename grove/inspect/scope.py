"""What somebody asks about: a pod, a PodClique, a scaling group, a gang or a whole set, with all that it hangs on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from grove.api import labels
from grove.api.podclique import PodClique
from grove.inspect.scene import Object, Pod, Scene
from grove.plan.breach import remaining
from grove.plan.gangs import GangState
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.plan.podclique import clique_of, wanted_pods
from grove.plan.release import place_of
from grove.runtime.resources import ResourceType

ALIASES: Final[Mapping[str, ResourceType]] = {
    alias: resource
    for resource, short_names in (
        (PODCLIQUESET, ("pcs",)),
        (PODCLIQUE, ("pclq",)),
        (PODCLIQUESCALINGGROUP, ("pcsg",)),
        (PODGANG, ("pg",)),
        (POD, ("po",)),
    )
    for alias in (*short_names, resource.kind.lower(), resource.plural)
}
"""The kinds that can be asked about by the names kubectl knows, in the order in which a bare name is looked for."""


@dataclass(frozen=True)
class Scope:
    """What is asked about."""

    scene: Scene
    resource: ResourceType
    name: str
    podcliques: tuple[PodClique, ...]
    """those that are meant, in the order of the template"""
    pod: Pod | None = None
    """the one pod that is meant; None where PodCliques are meant as wholes"""
    events: Mapping[str, Sequence[Object]] = field(default_factory=dict)
    """Warning events by the name of the pod they are about"""

    @property
    def title(self) -> str:
        """Kind and name."""
        return f"{self.resource.kind} {self.name}"

    @cached_property
    def pods(self) -> tuple[Pod, ...]:
        """The pods that are meant: those that count for their PodCliques, or just the one."""
        if self.pod is not None:
            return (self.pod,)
        return tuple(pod for podclique in self.podcliques for pod in self.present(podclique))

    @cached_property
    def missing(self) -> tuple[PodClique, ...]:
        """PodCliques, of those meant as wholes, that have fewer pods than they ask for."""
        if self.pod is not None:
            return ()
        return tuple(one for one in self.podcliques if len(self.present(one)) < wanted_pods(one))

    @cached_property
    def gangs(self) -> tuple[GangState, ...]:
        """The gangs that the PodCliques are in, base gangs first."""
        wanted = {one.labels.get(labels.PODGANG, "") for one in self.podcliques}
        return tuple(state for name, state in self.scene.gangs.items() if name in wanted)

    def present(self, podclique: PodClique) -> list[Pod]:
        """The pods that count for a PodClique: neither ended nor on their way out."""
        pods = self.scene.pods_of(podclique)
        counting = {view.uid for view in remaining(podclique, (pod.view for pod in pods))}
        return [pod for pod in pods if pod.view.uid in counting]

    def members(self, gang: GangState) -> tuple[PodClique, ...]:
        """The PodCliques of a gang that exist."""
        return tuple(group.live for group in gang.groups if group.live is not None)

    def narrowed(self, resource: ResourceType, name: str, podcliques: Sequence[PodClique]) -> Scope:
        """The scope of something else in the same set."""
        return Scope(self.scene, resource, name, tuple(podcliques), events=self.events)


def scope_of(
    scene: Scene, resource: ResourceType, name: str, events: Mapping[str, Sequence[Object]] | None = None
) -> Scope | None:
    """The scope of an object of the set; None when the set has none of that kind and name."""
    order = {clique: position for position, clique in enumerate(scene.template.cliques)}
    podcliques = sorted(
        scene.podcliques.values(),
        key=lambda one: (
            one.labels.get(labels.PODCLIQUESET_REPLICA_INDEX, ""),
            order.get(clique_of(one, scene.template) or "", 0),
            place.index if (place := place_of(one, scene.template)) else 0,
        ),
    )
    pod: Pod | None = None
    if resource == PODCLIQUESET:
        chosen = podcliques if scene.template.name == name else None
    elif resource == PODCLIQUESCALINGGROUP:
        mine = [one for one in podcliques if one.labels.get(labels.SCALING_GROUP) == name]
        chosen = mine if name in scene.scaling_groups else None
    elif resource == PODGANG:
        mine = [one for one in podcliques if one.labels.get(labels.PODGANG) == name]
        chosen = mine if name in scene.podgangs or name in scene.gangs else None
    elif resource == PODCLIQUE:
        chosen = [one for one in podcliques if one.name == name] or None
    else:
        owners = {one.uid: one for one in podcliques}
        found = [(uid, pod) for uid, pods in scene.pods.items() if uid in owners for pod in pods]
        uid, pod = next(((uid, pod) for uid, pod in found if pod.view.name == name), ("", None))
        chosen = [owners[uid]] if uid else None
    return None if chosen is None else Scope(scene, resource, name, tuple(chosen), pod, events or {})
