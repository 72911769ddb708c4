"""Metrics of Grove itself. What is there is counted in the caches when it is asked for; only what passes by, such as
the moment at which a gang was complete, is noted as it happens.

Every replica of the operator has these numbers, since each holds the caches: take `max`, not `sum`, over replicas.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from prometheus_client import Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from grove.api.base import Condition
from grove.api.labels import ConditionType
from grove.api.podgang import PodGang
from grove.api.times import epoch
from grove.controllers.world import World
from grove.plan.observed import POD_STATES
from grove.runtime.informer import Informer
from grove.runtime.metrics import REGISTRY

_STAGES = {
    ConditionType.INITIALIZED: "complete",
    ConditionType.SCHEDULED: "scheduled",
    ConditionType.READY: "ready",
}
PHASES = ("Pending", "Starting", "Running")

_BUCKETS = (1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200)

GANG_SECONDS = Histogram(
    "grove_podgang_duration_seconds",
    "Seconds from the creation of a PodGang until all its pods were there (complete), placed (scheduled), and ready.",
    ("stage",),
    buckets=_BUCKETS,
    registry=REGISTRY,
)


class Monitor(Collector):
    """Counts what a World holds. `leads` tells whether this process is the one that works."""

    def __init__(self, world: World, informers: Iterable[Informer[Any]], leads: Callable[[], bool]) -> None:
        self._world = world
        self._informers = list(informers)
        self._leads = leads
        self._stages: dict[str, frozenset[str]] = {}
        """By uid of a PodGang: the stages it has been seen to reach."""
        world.podgangs.on_change(self._podgang_changed)

    def collect(self) -> Iterable[Metric]:
        """The metrics as they are now."""
        pods = Counter(pod.state for pod in self._world.pods)
        yield _gauge("grove_pods", "Pods by state.", "state", {state: pods[state] for state in POD_STATES})
        phases = Counter(gang.status.phase or "Pending" for gang in self._world.podgangs)
        yield _gauge("grove_podgangs", "PodGangs by phase.", "phase", {phase: phases[phase] for phase in PHASES})
        yield _gauge(
            "grove_gated_pods", "Pods held by our gate, by what their gang waits for.", "reason", self._gated()
        )
        cliques = sum(_is_breached(obj.status.conditions) for obj in self._world.podcliques)
        groups = sum(_is_breached(obj.status.conditions) for obj in self._world.scaling_groups)
        yield _gauge(
            "grove_min_available_breached",
            "Objects with fewer pods or replicas than their minAvailable that were up before, by kind.",
            "kind",
            {"PodClique": cliques, "PodCliqueScalingGroup": groups},
        )
        updating = sum(_is_updating(template.pcs.status.update_progress) for template in self._world.sets)
        sets = {"updating": updating, "settled": len(self._world.sets) - updating}
        yield _gauge("grove_podcliquesets", "PodCliqueSets by whether an update is under way.", "state", sets)
        held = {informer.resource.label: len(informer.store) for informer in self._informers}
        yield _gauge("informer_objects", "Objects in the cache by resource.", "resource", held)
        silence = {informer.resource.label: informer.silence() for informer in self._informers if informer.served}
        yield _gauge(
            "informer_silence_seconds",
            "Seconds since the API server was last heard of, by resource: how old the cache may be.",
            "resource",
            silence,
        )

    def _gated(self) -> dict[str, int]:
        found: Counter[str] = Counter()
        for pod in self._world.pods:
            if pod.gated and pod.active:
                found[_waits_for(self._world.podgangs.get(pod.namespace, pod.gang))] += 1
        return found

    def _podgang_changed(self, old: PodGang | None, new: PodGang | None) -> None:
        if new is None:
            if old is not None:
                self._stages.pop(old.uid, None)
            return
        reached = {_STAGES[type_]: at for type_ in _STAGES if (at := _true_since(new.status.conditions, type_))}
        before = self._stages.get(new.uid, frozenset())
        self._stages[new.uid] = before | reached.keys()
        if old is None or old.uid != new.uid or not self._leads():
            return  # it was like this before we looked
        for stage in reached.keys() - before:
            GANG_SECONDS.labels(stage).observe(max(0.0, reached[stage] - epoch(new.metadata.creation_timestamp)))


def _gauge(name: str, text: str, label: str, values: dict[str, Any]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([key], value)
    return family


def _waits_for(gang: PodGang | None) -> str:
    """The reason of the first condition on the way of a gang that is not true."""
    if gang is None:
        return "NoPodGang"
    by_type = {condition.type: condition for condition in gang.status.conditions}
    for type_ in (ConditionType.INITIALIZED, ConditionType.SCHEDULED):
        condition = by_type.get(type_)
        if condition is None or condition.status != "True":
            return condition.reason if condition is not None else f"Not{type_}"
    return "Ungating"


def _is_breached(conditions: Iterable[Condition]) -> bool:
    return any(item.type == ConditionType.MIN_AVAILABLE_BREACHED and item.status == "True" for item in conditions)


def _is_updating(progress: Any) -> bool:
    return progress is not None and not progress.update_ended_at


def _true_since(conditions: Iterable[Condition], type_: str) -> float:
    """When a condition became true, in seconds since the epoch; 0 while it is not."""
    at = (item.last_transition_time for item in conditions if item.type == type_ and item.status == "True")
    return epoch(next(at, None))
