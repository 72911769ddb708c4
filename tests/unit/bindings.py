"""ClusterTopologyBindings on a cluster in memory, and what becomes of them there."""

from collections.abc import Awaitable, Callable, Sequence

from grove.controllers.config import OperatorConfiguration
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING
from grove.runtime.events import EVENT
from grove.schedulers.kai import TOPOLOGY
from tests.fake_api.virtual import run
from tests.unit.harness import Cluster, virtual_clock
from tests.unit.support import Object

KEYS = ("topology.kubernetes.io/zone", "example.com/rack")
MORE = (*KEYS, "kubernetes.io/hostname")
Test = Callable[[Cluster], Awaitable[None]]


def levels(keys: Sequence[str]) -> Object:
    """The field `levels` of a binding."""
    return {"levels": [{"domain": f"level-{index}", "key": key} for index, key in enumerate(keys)]}


def bind(cluster: Cluster, keys: Sequence[str] = KEYS, name: str = "gpus", **references: str) -> None:
    """Create a binding; `references` are by scheduler, with _ for -."""
    named = [
        {"schedulerName": scheduler.replace("_", "-"), "topologyReference": reference}
        for scheduler, reference in references.items()
    ]
    spec = {**levels(keys), "schedulerTopologyBindings": named}
    cluster.create({"kind": "ClusterTopologyBinding", "metadata": {"name": name}, "spec": spec})


def change(cluster: Cluster, spec: Object, name: str = "gpus") -> None:
    """Set fields of a binding's spec."""
    cluster.api.update(CLUSTERTOPOLOGYBINDING, "", name, lambda obj: {**obj, "spec": {**obj["spec"], **spec}})


def put(cluster: Cluster, keys: Sequence[str] = KEYS, name: str = "gpus") -> Object:
    """Somebody's Topology."""
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    return cluster.create({"kind": "Topology", "metadata": {"name": name}, "spec": spec})


def topology(cluster: Cluster, name: str = "gpus") -> Object | None:
    """KAI's Topology of that name."""
    return cluster.api.find(TOPOLOGY, "", name)


def keys(cluster: Cluster, name: str = "gpus") -> tuple[str, ...]:
    """The levels that KAI knows, () without the object."""
    found = topology(cluster, name) or {"spec": {"levels": []}}
    return tuple(level["nodeLabel"] for level in found["spec"]["levels"])


def status(cluster: Cluster, name: str = "gpus") -> Object:
    """The status of a binding, which must have one."""
    found = cluster.api.find(CLUSTERTOPOLOGYBINDING, "", name)
    assert found is not None
    shown: Object = found["status"]
    return shown


def entries(cluster: Cluster) -> list[tuple[str, str, bool, str]]:
    """Scheduler, reference, inSync and message of the status."""
    return [
        (one["schedulerName"], one["topologyReference"], one["inSync"], one.get("message", ""))
        for one in status(cluster)["schedulerTopologyStatuses"]
    ]


def drift(cluster: Cluster) -> tuple[str, str]:
    """Status and reason of the only condition."""
    [condition] = status(cluster)["conditions"]
    assert condition["type"] == "SchedulerTopologyDrift"
    return condition["status"], condition["reason"]


def events(cluster: Cluster) -> list[tuple[str, str]]:
    """Type and reason of the events on bindings, in order."""
    found = [one for one in cluster.api.objects(EVENT) if one["involvedObject"]["kind"] == "ClusterTopologyBinding"]
    found.sort(key=lambda one: int(one["metadata"]["resourceVersion"]))
    return [(one["type"], one["reason"]) for one in found]


IN_SYNC = ("False", "InSync")
DRIFTED = ("True", "Drift")
WARNED, RELIEVED = ("Warning", "TopologyDriftDetected"), ("Normal", "TopologyInSync")


def aware(*profiles: str) -> OperatorConfiguration:
    """A configuration for which topology counts."""
    scheduler = {"profiles": [{"name": name} for name in ("default-scheduler", *profiles)]}
    return OperatorConfiguration.model_validate({"scheduler": scheduler, "topologyAwareScheduling": {"enabled": True}})


def play(test: Test, config: OperatorConfiguration | None = None, *, kai: bool = True) -> None:
    """Run a test on a cluster with one operator that has KAI's profile; `kai` is whether KAI is installed there."""

    async def main() -> None:
        cluster = Cluster(config or aware("kai-scheduler"))
        cluster.api.install(CLUSTERTOPOLOGYBINDING)
        if kai:
            cluster.api.install(TOPOLOGY)
        cluster.start()
        await cluster.quiet()
        try:
            await test(cluster)
        finally:
            await cluster.close()

    with virtual_clock():
        run(main())
