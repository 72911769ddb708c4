"""Stands in for KAI and Volcano: places gangs by what their PodGroups and the pods' metadata say, and by nothing else.

Each node takes one pod. A gang is placed when every one of its groups can have its minimum; what is left goes to
further pods of gangs that are placed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tests.cluster.scheduler_crds import kai_podgroups, kai_queues, volcano_podgroups, volcano_queues
from tests.cluster.workspace import PATHS, Object, Workspace, gates

Place = tuple[str, str]
"""Names of a PodGroup and of a group of pods in it."""

PATHS["kai"] = ("apis/scheduling.run.ai/v2alpha2", "podgroups")
PATHS["vc"] = ("apis/scheduling.volcano.sh/v1beta1", "podgroups")


@dataclass(frozen=True)
class Dialect:
    """How one scheduler is spoken to."""

    scheduler: str
    kind: str
    """of its PodGroups, in workspaces"""
    crds: tuple[Object, ...]
    queues: str
    """URL path of its Queues"""
    minimums: Callable[[Object], dict[str, int]]
    """of a PodGroup, by group of pods"""
    place: Callable[[Object, dict[str, Object]], Place | None]
    """where a pod belongs, given the PodGroups by name"""

    def queue(self, name: str) -> Object:
        """A Queue that takes pods."""
        group, version = self.queues.split("/")[2:4]
        queue: Object = {"apiVersion": f"{group}/{version}", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        return queue


def _kai_minimums(podgroup: Object) -> dict[str, int]:
    found = {one["name"]: one["minMember"] for one in podgroup["spec"]["subGroups"] if "minMember" in one}
    assert podgroup["spec"]["minMember"] == sum(found.values())
    return found


def _kai_place(pod: Object, podgroups: dict[str, Object]) -> Place | None:
    notes = pod["metadata"].get("annotations", {})
    if notes.get("kai.scheduler/skip-podgrouper") != "true":
        return None  # the pod grouper would take it
    return notes["pod-group-name"], pod["metadata"]["labels"]["kai.scheduler/subgroup-name"]


def _volcano_minimums(podgroup: Object) -> dict[str, int]:
    policies = podgroup["spec"]["subGroupPolicy"]
    found = {one["name"]: one["subGroupSize"] for one in policies if one["minSubGroups"] == 1}
    assert podgroup["spec"]["minMember"] == sum(found.values())
    return found


def _volcano_place(pod: Object, podgroups: dict[str, Object]) -> Place | None:
    name = pod["metadata"].get("annotations", {}).get("scheduling.k8s.io/group-name", "")
    policies = podgroups[name]["spec"]["subGroupPolicy"] if name in podgroups else ()
    labels = pod["metadata"]["labels"].items()
    mine = [one["name"] for one in policies if one["labelSelector"]["matchLabels"].items() <= labels]
    return (name, mine[0]) if mine else None


KAI = Dialect(
    "kai-scheduler",
    "kai",
    (kai_podgroups(), kai_queues()),
    "/apis/scheduling.run.ai/v2/queues",
    _kai_minimums,
    _kai_place,
)
VOLCANO = Dialect(
    "volcano",
    "vc",
    (volcano_podgroups(), volcano_queues()),
    "/apis/scheduling.volcano.sh/v1beta1/queues",
    _volcano_minimums,
    _volcano_place,
)


@dataclass
class GangScheduler:
    """Places the pods of one namespace whenever `cycle` is called."""

    workspace: Workspace
    dialect: Dialect
    nodes: int = 0
    """how many nodes it may use"""
    bound: dict[Place, int] = field(default_factory=dict)
    """pods placed so far, as of the last cycle"""

    def podgroups(self) -> dict[str, dict[str, int]]:
        """The minimums of all PodGroups."""
        return {one["metadata"]["name"]: self.dialect.minimums(one) for one in self.workspace.items(self.dialect.kind)}

    def cycle(self) -> int:
        """Place what can be placed; how many pods that were."""
        podgroups = {one["metadata"]["name"]: one for one in self.workspace.items(self.dialect.kind)}
        pods = self.workspace.pods()
        taken = {pod["spec"]["nodeName"] for pod in pods if "nodeName" in pod["spec"]}
        free = [node for node in (f"node-{number}" for number in range(self.nodes)) if node not in taken]
        self.bound = {}
        waiting: dict[Place, list[Object]] = {}
        for pod in pods:
            place = self.dialect.place(pod, podgroups)
            if place is None:
                continue
            if "nodeName" in pod["spec"]:
                self.bound[place] = self.bound.get(place, 0) + 1
            elif not gates(pod):
                waiting.setdefault(place, []).append(pod)
        chosen = list(self._choose(podgroups, waiting, len(free)))
        for (place, pod), node in zip(chosen, free, strict=False):
            self.workspace.bind(pod, node)
            self.bound[place] = self.bound.get(place, 0) + 1
        return min(len(chosen), len(free))

    def _choose(
        self, podgroups: dict[str, Object], waiting: dict[Place, list[Object]], room: int
    ) -> Iterator[tuple[Place, Object]]:
        """Whole minimums first, in the order of names; then further pods of the gangs that have theirs."""
        placed: list[str] = []
        for name, podgroup in sorted(podgroups.items()):
            minimums = self.dialect.minimums(podgroup)
            lacking = {(name, sub): need - self.bound.get((name, sub), 0) for sub, need in minimums.items()}
            lacking = {place: number for place, number in lacking.items() if number > 0}
            if any(len(waiting.get(place, ())) < number for place, number in lacking.items()):
                continue
            if sum(lacking.values()) > room:
                continue
            placed.append(name)
            room -= sum(lacking.values())
            for place, number in lacking.items():
                yield from ((place, pod) for pod in waiting[place][:number])
                del waiting[place][:number]
        surplus = [(place, pod) for place, pods in sorted(waiting.items()) if place[0] in placed for pod in pods]
        yield from surplus[:room]
