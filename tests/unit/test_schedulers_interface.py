"""Scheduler back ends: how they are found and enabled, and when the operator asks them what."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grove.admission.fields import Field, Finding
from grove.api import labels
from grove.controllers.config import ConfigurationError, OperatorConfiguration, load
from grove.plan.conditions import Want
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING, POD, PODCLIQUE, PODCLIQUESET, PODGANG
from grove.plan.placement import Placement
from grove.plan.update import ensure
from grove.runtime.events import EVENT
from grove.runtime.resources import ResourceType
from grove.schedulers import (
    Backend,
    Decision,
    GangView,
    SchedulerError,
    Slot,
    TopologyKind,
    UnknownBackend,
    Watch,
    enable,
    gang_metadata,
    registry,
)
from grove.schedulers import (
    Cluster as Served,
)
from tests.fake_api.virtual import run
from tests.unit.gangs import Offer, Stage
from tests.unit.harness import Cluster, virtual_clock
from tests.unit.support import Object, Paper, clique, pod_set, template

GROUP = ResourceType("toy.example", "v1", "groups", "Group")
QUEUE = ResourceType("toy.example", "v1", "queues", "Queue", namespaced=False)


class Toy(Backend):
    """Makes a Group per gang, wants a Queue, and lets all pods but the first of each clique wait for it to be open."""

    watches = (Watch(GROUP), Watch(QUEUE, view=lambda obj: {**obj, "spec": {"open": obj["spec"]["open"]}}))

    mapping_failed = "ToyMappingFailed"

    def __init__(self, name: str, config: Any) -> None:
        super().__init__(name, config)
        if config.get("queue") == "":
            raise ValueError('queue: Invalid value: "": must be a name')

    def missing(self, cluster: Served) -> str:
        return "" if cluster.serves(GROUP) else "toy wants groups.toy.example"

    def to_blame(self, cluster: Served) -> tuple[ResourceType, Object, str]:
        return QUEUE, {"metadata": {"name": "q", "uid": "uid-q"}}, "ToyUnavailable"

    def validate(self, root: Field, cluster: Served) -> Iterator[Finding]:
        if root["spec"]["replicas"].number == 3:
            yield root["spec"]["replicas"].invalid("toy cannot count to three")

    def prepare_pod(self, pod: Object, slot: Slot) -> Object:
        pod["metadata"].setdefault("annotations", {})["toy"] = f"{slot.podclique.name}/{slot.index}"
        return pod

    def _open(self, cluster: Served) -> bool:
        queue = cluster.get(QUEUE, "", self.config["queue"])
        return queue is not None and queue["spec"]["open"]

    def decide(self, gang: GangView) -> Decision:
        assert gang.podgang is not None
        metadata = gang_metadata(gang, gang.state.gang.name, gang.podgang)
        desired = {"apiVersion": GROUP.api_version, "kind": GROUP.kind, "metadata": metadata, "spec": {"size": 2}}
        live = {obj["metadata"]["name"]: obj for obj in gang.objects_of(GROUP)}
        pods = [pod for group in gang.state.groups for pod in group.pods if pod.index > 0]
        hold = frozenset() if self._open(gang.cluster) else frozenset(pod.name for pod in pods)
        return Decision(tuple(ensure(GROUP, live.get(gang.state.gang.name), desired)), hold)

    def placement(self, gang: GangView) -> Placement:
        is_open = self._open(gang.cluster)
        guarantee = Want("GangGuaranteed", is_open, "Queue", "the queue is open" if is_open else "the queue is closed")
        return Placement(conditions=(Want("Toy", is_open, "Queue", "the queue is open or not"), guarantee))


@pytest.fixture
def toy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another package is installed that brings the back end `toy`."""
    package = tmp_path / "toy_scheduler-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-scheduler\nVersion: 1.0\n")
    names = {"toy": "Toy", "broken": "NoSuchClass", "foreign": "GROUP"}
    entries = "\n".join(f"{name} = toy_scheduler:{value}" for name, value in names.items())
    (package / "entry_points.txt").write_text(f"[{registry.ENTRY_POINTS}]\n{entries}\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "toy_scheduler", sys.modules[__name__])


def test_without_profiles_there_is_kubernetes_own_scheduler() -> None:
    schedulers = enable()
    assert [backend.name for backend in schedulers] == ["default-scheduler"]
    assert schedulers.of(template(pod_set(clique("a")))).name == "default-scheduler"


def test_a_profile_is_found_in_another_package(toy: None) -> None:
    schedulers = enable([("toy", {"queue": "q"})], "toy")
    assert [backend.name for backend in schedulers] == ["toy", "default-scheduler"]
    assert type(schedulers.named("")).__name__ == "Toy"
    assert schedulers.named("toy").config == {"queue": "q"}
    assert {GROUP, QUEUE} <= {watch.resource for watch in schedulers.watches}


def test_a_scheduler_without_a_profile_gets_its_pods_as_they_are() -> None:
    backend = enable().named("someone-elses")
    assert (type(backend), backend.name) == (UnknownBackend, "someone-elses")


@pytest.mark.parametrize(
    ("profiles", "default", "message"),
    [
        ([("a", {}), ("a", {})], "a", 'profiles[1].name: Duplicate value: "a"'),
        ([("nobodys", {})], "nobodys", 'profiles[0].name: Unsupported value: "nobodys": back ends are installed for: '),
        ([("toy", {})], "kai", 'defaultProfileName: Invalid value: "kai": must be one of toy, default-scheduler'),
        ([("toy", {"queue": ""})], "toy", 'profiles[0].config: queue: Invalid value: "": must be a name'),
        ([("broken", {})], "broken", 'profiles[0].name: Invalid value: "broken": its back end fails to load: '),
        ([("foreign", {})], "foreign", 'profiles[0].name: Invalid value: "foreign": its entry point names no class'),
    ],
)
def test_what_cannot_be_enabled_is_told_with_its_field(
    toy: None, profiles: list[tuple[str, Object]], default: str, message: str
) -> None:
    with pytest.raises(SchedulerError) as caught:
        enable(profiles, default)
    assert str(caught.value).startswith(message)


def test_the_configuration_names_profiles(toy: None, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("scheduler: {defaultProfileName: toy, profiles: [{name: toy, config: {queue: q}}]}")
    assert load(file).scheduler.enable().default == "toy"
    file.write_text("scheduler: {profiles: [{name: nobodys}]}")
    with pytest.raises(ConfigurationError, match=r"config.yaml: scheduler.profiles\[0\].name: Unsupported value"):
        load(file)
    # As in the Go operator, a default without profiles does not count.
    file.write_text("scheduler: {defaultProfileName: toy}")
    assert load(file).scheduler.enable().default == "default-scheduler"


def configured() -> Cluster:
    scheduler = {"defaultProfileName": "toy", "profiles": [{"name": "toy", "config": {"queue": "q"}}]}
    cluster = Cluster(OperatorConfiguration.model_validate({"scheduler": scheduler}))
    cluster.start()
    return cluster


def told(cluster: Cluster, reason: str) -> list[tuple[str, ...]]:
    """Type, object and message of the events of a reason."""
    events = [event for event in cluster.api.objects(EVENT) if event["reason"] == reason]
    return [
        (event["type"], event["involvedObject"]["kind"], event["involvedObject"]["name"], event["message"])
        for event in events
    ]


def test_a_back_end_at_work(toy: None) -> None:
    async def main() -> None:
        cluster = configured()
        cluster.create(pod_set(clique("a", 2)))
        await cluster.quiet()

        # Nothing can be done before the scheduler is installed, and everybody is told.
        assert cluster.names(POD) == set()
        for resource, name in ((PODCLIQUESET, "web"), (PODCLIQUE, "web-0-a")):
            errors = cluster.get(resource, name)["status"]["lastErrors"]
            assert [(error["code"], error["description"]) for error in errors] == [
                ("ERR_SCHEDULER_UNAVAILABLE", "toy wants groups.toy.example")
            ]
        assert told(cluster, "ToyUnavailable") == [("Warning", "Queue", "q", "toy wants groups.toy.example")]

        # It is: the pods come, prepared, and the gang starts as far as the back end lets it.
        cluster.api.install(GROUP)
        cluster.api.install(QUEUE)
        await cluster.quiet()
        assert [pod["metadata"]["annotations"]["toy"] for pod in cluster.pods_of("web-0-a")] == [
            "web-0-a/0",
            "web-0-a/1",
        ]
        assert {pod["spec"]["schedulerName"] for pod in cluster.pods_of("web-0-a")} == {"toy"}
        assert cluster.get(PODGANG, "web-0")["metadata"]["labels"][labels.SCHEDULER_NAME] == "toy"
        group = cluster.get(GROUP, "web-0")
        assert group["metadata"]["ownerReferences"][0]["kind"] == "PodGang"
        assert [bool(pod["spec"].get("schedulingGates")) for pod in cluster.pods_of("web-0-a")] == [False, True]
        assert "lastErrors" not in {k for k, v in cluster.get(PODCLIQUESET, "web")["status"].items() if v}

        assert told(cluster, "ToyMappingFailed") == [("Warning", "PodGang", "web-0", "the queue is closed")]

        # An object that belongs to no gang wakes all, and so does one that does and is deleted.
        cluster.api.create(QUEUE, {"metadata": {"name": "q"}, "spec": {"open": True, "large": "x" * 100}})
        cluster.delete(GROUP, "web-0")
        await cluster.quiet()
        assert not any(pod["spec"].get("schedulingGates") for pod in cluster.pods_of("web-0-a"))
        assert cluster.get(GROUP, "web-0")["metadata"]["uid"] != group["metadata"]["uid"]
        conditions = {one["type"]: one["status"] for one in cluster.get(PODGANG, "web-0")["status"]["conditions"]}
        assert conditions["Toy"] == "True"

        # What the scheduler does not want is told.
        cluster.scale(PODCLIQUESET, "web", 3)
        await cluster.quiet()
        [error] = cluster.get(PODCLIQUESET, "web")["status"]["lastErrors"]
        assert error["description"] == "spec.replicas: Invalid value: 3: toy cannot count to three"
        assert len(cluster.names(GROUP)) == 3

        # What was served is so no more.
        cluster.delete(PODCLIQUESET, "web")
        await cluster.quiet()
        assert cluster.names(GROUP) == set()
        await cluster.close()

    with virtual_clock():
        run(main())


def test_a_back_end_that_keeps_topologies(toy: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its objects are made for bindings, which may name it."""
    shape = ResourceType("toy.example", "v1", "shapes", "Shape", namespaced=False)
    kind = TopologyKind(shape, lambda levels: {"keys": list(levels)}, lambda obj: list(obj["spec"]["keys"]))
    monkeypatch.setattr(Toy, "topologies", kind)
    scheduler = {"profiles": [{"name": "toy", "config": {"queue": "q"}}]}
    config = {"scheduler": scheduler, "topologyAwareScheduling": {"enabled": True}}

    async def main() -> None:
        cluster = Cluster(OperatorConfiguration.model_validate(config))
        cluster.api.install(CLUSTERTOPOLOGYBINDING)
        cluster.api.install(shape)
        controllers = cluster.start().controllers
        assert "toy" in controllers.facts().topology_schedulers
        levels = [{"domain": "rack", "key": "example.com/rack"}, {"domain": "host", "key": "kubernetes.io/hostname"}]
        cluster.create({"kind": "ClusterTopologyBinding", "metadata": {"name": "t"}, "spec": {"levels": levels}})
        await cluster.quiet()
        [made] = cluster.api.objects(shape)
        assert made["spec"] == {"keys": ["example.com/rack", "kubernetes.io/hostname"]}
        await cluster.close()

    with virtual_clock():
        run(main())


def test_the_back_end_in_the_documentation_works() -> None:
    text = (Path(__file__).parents[2] / "docs" / "schedulers.md").read_text()
    [block] = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    scope: Object = {}
    exec(block, scope)
    backend = scope["MyScheduler"]("my-scheduler", {})
    obj = pod_set(clique("a"))
    [error] = backend.validate(Field(obj), Offer())
    assert str(error) == "metadata.labels[example.com/queue]: Required value: my-scheduler needs a queue"
    obj["metadata"]["labels"] = {"example.com/queue": "research"}
    made = Stage(Paper.of(obj), backend, Offer())
    assert not list(backend.validate(Field(obj), Offer()))
    [pod] = made.add("web-0-a", 0)
    assert pod["metadata"]["labels"]["example.com/queue"] == "research"
    assert made.settle("web-0") == ()
