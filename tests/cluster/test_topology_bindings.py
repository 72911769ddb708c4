"""ClusterTopologyBindings where KAI is installed: Topologies are made, compared and replaced (TAS1, TAS17 to TAS19).

The operator has the rights of the chart with KAI's profile and topologyAwareScheduling, and no others.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pytest

from tests.cluster import chart
from tests.cluster.conftest import apply_crds
from tests.cluster.harness import ApiStatus, Harness, running_cluster
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.scheduler_crds import kai_topologies
from tests.cluster.schedulers import apply_crd, remove_crd
from tests.cluster.workspace import MERGE, Object, condition, uid, verdict

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
TOPOLOGIES = "/apis/kai.scheduler/v1alpha1/topologies"
LEVELS = {
    "zone": "kubernetes.io/zone",
    "block": "kubernetes.io/block",
    "rack": "kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
DRIFT = "SchedulerTopologyDrift"
IN_SYNC, DRIFTED = ("False", "InSync"), ("True", "Drift")


@dataclass
class Place:
    """A cluster with KAI's Topologies, and an operator for which topology counts."""

    cluster: Harness
    operator: OperatorProcess

    def bind(self, name: str, levels: dict[str, str], reference: str = "") -> None:
        """Create a binding; `levels` are keys by domain, broadest first."""
        spec: Object = {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]}
        if reference:
            spec["schedulerTopologyBindings"] = [{"schedulerName": "kai-scheduler", "topologyReference": reference}]
        obj = {"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": name}}
        self.cluster.api("POST", f"{BINDINGS}?fieldValidation=Strict", {**obj, "spec": spec})

    def put(self, name: str, *keys: str) -> Object:
        """Create a Topology as somebody else."""
        spec = {"levels": [{"nodeLabel": key} for key in keys]}
        obj = {"apiVersion": "kai.scheduler/v1alpha1", "kind": "Topology", "metadata": {"name": name}, "spec": spec}
        made: Object = self.cluster.api("POST", f"{TOPOLOGIES}?fieldValidation=Strict", obj)
        return made

    def change(self, name: str, levels: dict[str, str]) -> None:
        """Give a binding other levels."""
        spec = {"levels": [{"domain": domain, "key": key} for domain, key in levels.items()]}
        self.cluster.api("PATCH", f"{BINDINGS}/{name}", {"spec": spec}, MERGE)

    def topology(self, name: str) -> Object:
        """KAI's Topology; raises ApiStatus when there is none."""
        found: Object = self.cluster.api("GET", f"{TOPOLOGIES}/{name}")
        return found

    def knows(self, name: str, keys: Sequence[str]) -> Object:
        """Wait until KAI is told just these levels; the Topology."""

        def look() -> Object:
            found = self.topology(name)
            assert [level["nodeLabel"] for level in found["spec"]["levels"]] == list(keys)
            return found

        return self.cluster.wait(look, message=f"Topology {name} has the levels {keys}")

    def reads(self, name: str, wanted: tuple[str, str], check: Callable[[Object], bool] = lambda _: True) -> Object:
        """Wait until the condition has this status and reason and `check` holds for the one entry; the binding."""

        def look() -> Object | None:
            found: Object = self.cluster.api("GET", f"{BINDINGS}/{name}")
            status = found.get("status", {})
            assert status.get("observedGeneration") == found["metadata"]["generation"], f"{status}"
            assert verdict(found, DRIFT) == wanted, f"{status}"
            [entry] = status["schedulerTopologyStatuses"]
            assert entry["schedulerName"] == "kai-scheduler"
            return found if check(entry) else None

        found = self.cluster.wait(look, message=f"{name} reads {wanted}")
        assert found
        return found

    def events(self, name: str) -> set[str]:
        """Reasons of the events on a binding."""
        events = self.cluster.api("GET", "/api/v1/namespaces/default/events")["items"]
        return {event["reason"] for event in events if event["involvedObject"]["name"] == name}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("topologies")
    with running_cluster(folder / "cluster", 4, "topologies", apiserver_flags=chart.audited(folder)) as harness:
        apply_crds(harness)
        chart.grant(harness, folder)
        profiles = {"profiles": [{"name": "kai-scheduler"}]}
        config = {**QUIET, "scheduler": profiles, "topologyAwareScheduling": {"enabled": True}}
        operator = OperatorProcess(chart.account_kubeconfig(harness, folder), folder, config)
        operator.start()
        yield Place(harness, operator)
        operator.stop()
        assert chart.lacking(folder) == []


@pytest.fixture
def place(running: Place) -> Iterator[Place]:
    """KAI is installed, and nothing is left of other tests."""
    apply_crd(running.cluster, kai_topologies())
    yield running
    for path in (BINDINGS, TOPOLOGIES):
        running.cluster.api("DELETE", path)
    running.cluster.wait(lambda: not running.cluster.api("GET", TOPOLOGIES)["items"], message="no Topology is left")


def test_tas1_kai_is_told_the_levels_that_all_nodes_have(place: Place) -> None:
    place.bind("grove-topology", LEVELS)
    made = place.knows("grove-topology", [*LEVELS.values()])
    [owner] = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("ClusterTopologyBinding", "grove-topology", True)
    place.reads("grove-topology", IN_SYNC, lambda entry: entry["topologyReference"] == "grove-topology")
    for node in place.cluster.api("GET", "/api/v1/nodes")["items"]:
        assert set(LEVELS.values()) <= node["metadata"]["labels"].keys()

    place.cluster.api("DELETE", f"{BINDINGS}/grove-topology")
    place.cluster.wait(lambda: not place.cluster.api("GET", TOPOLOGIES)["items"], message="it goes with the binding")


def test_tas17_two_halves_of_a_cluster_have_a_topology_each(place: Place) -> None:
    h100 = {"block": "kubernetes.io/rack", "host": "kubernetes.io/hostname"}
    gb200 = {
        "block": "example.com/nvl-block",
        "rack": "example.com/nvlink-domain",
        "host": "kubernetes.io/hostname",
    }
    place.bind("h100-topology", h100)
    place.bind("gb200-topology", gb200)
    place.knows("h100-topology", [*h100.values()])
    place.knows("gb200-topology", [*gb200.values()])
    place.reads("h100-topology", IN_SYNC)
    place.reads("gb200-topology", IN_SYNC)


def test_tas18_a_reference_to_a_topology_that_is_missing_drifts(place: Place) -> None:
    place.bind("b", LEVELS, "theirs")
    entry = {"schedulerName": "kai-scheduler", "topologyReference": "theirs", "inSync": False}
    place.reads("b", DRIFTED, lambda found: entry.items() <= found.items())
    assert place.cluster.api("GET", TOPOLOGIES)["items"] == []

    # It comes, and has the generation of the object; then it is another with other levels.
    theirs = place.put("theirs", *LEVELS.values())
    generation = "schedulerBackendTopologyObservedGeneration"
    place.reads("b", IN_SYNC, lambda found: found[generation] == theirs["metadata"]["generation"])
    place.cluster.api("DELETE", f"{TOPOLOGIES}/theirs")
    other = place.put("theirs", "kubernetes.io/zone")
    place.reads("b", DRIFTED, lambda found: "has the levels kubernetes.io/zone" in found["message"])
    assert place.topology("theirs") == other
    told = {"TopologyDriftDetected", "TopologyInSync"}
    place.cluster.wait(lambda: place.events("b") == told, message="events tell of it")


def test_tas19_other_levels_make_another_topology(place: Place) -> None:
    two = {key: LEVELS[key] for key in ("zone", "host")}
    three = {key: LEVELS[key] for key in ("zone", "rack", "host")}
    place.bind("b19", two)
    first = place.knows("b19", [*two.values()])
    levels = {"levels": [{"nodeLabel": key} for key in three.values()]}
    with pytest.raises(ApiStatus, match="levels are immutable"):
        place.cluster.api("PATCH", f"{TOPOLOGIES}/b19", {"spec": levels}, MERGE)
    before = condition(place.reads("b19", IN_SYNC), DRIFT)

    place.change("b19", three)
    assert uid(place.knows("b19", [*three.values()])) != uid(first)
    after = condition(place.reads("b19", IN_SYNC), DRIFT)
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert (before["observedGeneration"], after["observedGeneration"]) == (1, 2)
    assert place.events("b19") == set()


def test_one_that_a_finalizer_holds_is_made_again_when_it_is_gone(place: Place) -> None:
    place.bind("held", LEVELS)
    place.knows("held", [*LEVELS.values()])
    place.cluster.api("PATCH", f"{TOPOLOGIES}/held", {"metadata": {"finalizers": ["example.com/hold"]}}, MERGE)
    place.change("held", {"zone": LEVELS["zone"]})
    place.reads("held", DRIFTED, lambda found: "is being replaced" in found["message"])
    place.cluster.api("PATCH", f"{TOPOLOGIES}/held", {"metadata": {"finalizers": None}}, MERGE)
    place.knows("held", [LEVELS["zone"]])
    place.reads("held", IN_SYNC)


def test_a_topology_of_somebody_else_is_left_alone(place: Place) -> None:
    theirs = place.put("taken", "kubernetes.io/zone")
    place.bind("taken", LEVELS)
    place.reads("taken", DRIFTED, lambda found: "does not belong to this binding" in found["message"])
    assert place.topology("taken") == theirs
    place.cluster.api("DELETE", f"{TOPOLOGIES}/taken")
    place.knows("taken", [*LEVELS.values()])
    place.reads("taken", IN_SYNC)


def test_what_kai_refuses_is_told_in_its_words(place: Place) -> None:
    """Its status is not that of the generation then: the operator tries on."""
    place.bind("odd", {"host": LEVELS["host"], "rack": LEVELS["rack"]})

    def told() -> bool:
        found = place.cluster.api("GET", f"{BINDINGS}/odd")
        assert verdict(found, DRIFT) == DRIFTED
        [entry] = found["status"]["schedulerTopologyStatuses"]
        assert "kubernetes.io/hostname is not the last level" in entry["message"]
        return "observedGeneration" not in found["status"]

    place.cluster.wait(told, message="the status repeats it")
    place.change("odd", {"rack": LEVELS["rack"], "host": LEVELS["host"]})
    place.knows("odd", [LEVELS["rack"], LEVELS["host"]])
    place.reads("odd", IN_SYNC)


def test_kai_may_come_later_and_go_again(place: Place) -> None:
    remove_crd(place.cluster, kai_topologies())
    place.bind("early", LEVELS)
    place.reads("early", DRIFTED, lambda found: "does not serve topologies.kai.scheduler" in found["message"])
    apply_crd(place.cluster, kai_topologies())
    place.knows("early", [*LEVELS.values()])
    place.reads("early", IN_SYNC)
    remove_crd(place.cluster, kai_topologies())
    place.reads("early", DRIFTED, lambda found: "does not serve topologies.kai.scheduler" in found["message"])
    apply_crd(place.cluster, kai_topologies())
    place.reads("early", IN_SYNC)


def test_killed_in_between_it_goes_on_where_it_was(place: Place) -> None:
    place.bind("cut", LEVELS)
    place.reads("cut", IN_SYNC)
    place.operator.kill()
    place.change("cut", {"zone": LEVELS["zone"]})
    place.cluster.api("DELETE", f"{TOPOLOGIES}/cut")  # as far as it came
    place.operator.start()
    place.knows("cut", [LEVELS["zone"]])
    place.reads("cut", IN_SYNC)
