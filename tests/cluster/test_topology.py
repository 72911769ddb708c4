"""Topology on Kubernetes' own scheduler: where pods are placed, and what changes of the levels do (TAS2 to TAS23)."""

import copy
import json
from collections import defaultdict
from collections.abc import Iterator

import pytest

from tests.cluster.conftest import apply_crds, fresh_namespace
from tests.cluster.harness import Harness, running_cluster
from tests.cluster.operators import QUIET, OperatorProcess
from tests.cluster.workloads import podcliqueset
from tests.cluster.workspace import MERGE, Object, Workspace, condition, is_ready, uids, verdict
from tests.topology_cases import BINDING, CASES, KEYS, pack, told, worker

BINDINGS = "/apis/grove.io/v1alpha1/clustertopologybindings"
SHARED = {
    "clique": ("grove.io/podclique",),
    "unit": ("grove.io/podcliquescalinggroup", "grove.io/podcliquescalinggroup-replica-index"),
    "gang": ("grove.io/podgang",),
}


@pytest.fixture(scope="module")
def racks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Harness, OperatorProcess]]:
    """A cluster of 28 nodes in four racks, with an operator for which topology counts."""
    folder = tmp_path_factory.mktemp("racks")
    with running_cluster(folder / "cluster", 28, "racks") as harness:
        apply_crds(harness)
        config = {**QUIET, "topologyAwareScheduling": {"enabled": True}}
        operator = OperatorProcess(harness.kubeconfig, folder, config)
        operator.start()
        yield harness, operator
        operator.stop()


@pytest.fixture
def workspace(racks: tuple[Harness, OperatorProcess]) -> Iterator[Workspace]:
    harness, operator = racks
    with fresh_namespace(harness) as name:
        workspace = Workspace(harness, name, operator)
        yield workspace
        workspace.close()


@pytest.fixture
def binding(racks: tuple[Harness, OperatorProcess]) -> Iterator[Object]:
    harness, _ = racks
    yield harness.api("POST", BINDINGS, BINDING)
    harness.api("DELETE", f"{BINDINGS}/{BINDING['metadata']['name']}")


def places(workspace: Workspace, level: str) -> dict[str, str]:
    """The domain of each pod, by the pod's name."""
    nodes = workspace.cluster.api("GET", "/api/v1/nodes")["items"]
    domains = {node["metadata"]["name"]: node["metadata"]["labels"][KEYS[level]] for node in nodes}
    return {pod["metadata"]["name"]: domains[pod["spec"]["nodeName"]] for pod in workspace.pods()}


@pytest.mark.usefixtures("binding")
@pytest.mark.parametrize("case", CASES)
def test_pods_are_as_close_together_as_they_must_be(workspace: Workspace, case: str) -> None:
    wanted = CASES[case]
    name = wanted.pcs["metadata"]["name"]
    workspace.create("pcs", wanted.pcs)
    pods = workspace.settled(name, sum(gang_size(gang) for gang in wanted.gangs.values()))
    assert {gang["metadata"]["name"]: told(gang, name) for gang in workspace.items("pg")} == {
        f"{name}-{gang}": text for gang, text in wanted.gangs.items()
    }
    for shared, level in wanted.placed.items():
        found = defaultdict(set)
        where = places(workspace, level)
        for pod in pods:
            tags = pod["metadata"]["labels"]
            if all(label in tags for label in SHARED[shared]):
                found[tuple(tags[label] for label in SHARED[shared])].add(where[pod["metadata"]["name"]])
        assert {key: len(domains) for key, domains in found.items()} == dict.fromkeys(found, 1)
        assert found
    workspace.reads("pcs", name, ("TopologyLevelsUnavailable", "False", "AllClusterTopologyLevelsAvailable"))


def gang_size(text: str) -> int:
    """Pods of a gang, as all of them are needed."""
    return sum(int(leaf.split(":")[1]) for leaf in text.rpartition("; ")[2].split())


@pytest.mark.usefixtures("binding")
def test_what_does_not_fit_into_a_rack_waits_whole(workspace: Workspace) -> None:
    """TAS13: ten nodes are free, a rack has seven."""
    workspace.create("pcs", podcliqueset("tas13", worker("worker", 10, large=True), **pack("rack")))

    def waits() -> bool:
        pods = workspace.pods()
        assert len(pods) == 10
        return all(verdict(pod, "PodScheduled") == ("False", "Unschedulable") for pod in pods)

    workspace.wait(waits, "all pods are refused")
    assert not any("nodeName" in pod["spec"] for pod in workspace.pods())
    assert "rack" in told(workspace.get("pg", "tas13-0"), "tas13")
    workspace.reads("pg", "tas13-0", ("Scheduled", "False", "Unschedulable"))
    text = "waiting for scheduled pods within one kubernetes.io/rack: tas13-0-worker has 0 of 10; the scheduler says: "
    assert condition(workspace.get("pg", "tas13-0"), "Scheduled")["message"].startswith(text)


@pytest.mark.usefixtures("binding")
def test_pods_beyond_the_minimum_are_kept_to_it_too(workspace: Workspace) -> None:
    """Nine pods of which two are needed; a rack has seven nodes."""
    pcs = podcliqueset("beyond", worker("worker", 9, "rack", large=True))
    pcs["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
    workspace.create("pcs", pcs)

    def full() -> bool:
        pods = workspace.pods()
        assert len(pods) == 9
        assert sum(map(is_ready, pods)) == 7
        waiting = [pod for pod in pods if "nodeName" not in pod["spec"]]
        return [verdict(pod, "PodScheduled") for pod in waiting] == [("False", "Unschedulable")] * 2

    workspace.wait(full, "seven run and two wait")
    nodes = {int(pod["spec"]["nodeName"].split("-")[1]) // 7 for pod in workspace.pods() if "nodeName" in pod["spec"]}
    assert len(nodes) == 1


@pytest.mark.usefixtures("binding")
def test_a_clique_that_wakes_from_idle_is_kept_to_its_level(workspace: Workspace) -> None:
    """Six nodes of one rack for the worker, which has none to spare: the front runs all the while."""
    pcs = podcliqueset("wakes", worker("front", 1), worker("worker", 6, "rack", large=True))
    pcs["spec"]["template"]["cliques"][1]["spec"]["replicas"] = 0
    workspace.create("pcs", pcs)
    workspace.settled("wakes", 1)
    workspace.scale("pclq", "wakes-0-worker", 6)
    workspace.settled("wakes", 7)
    assert len({rack for pod, rack in places(workspace, "rack").items() if "worker" in pod}) == 1
    composites = workspace.cluster.api(
        "GET", f"/apis/scheduling.k8s.io/v1alpha3/namespaces/{workspace.namespace}/compositepodgroups"
    )["items"]
    keys = [item["spec"].get("schedulingConstraints", {}).get("topology", []) for item in composites]
    assert sorted(map(str, keys)) == ["[]", "[{'key': 'kubernetes.io/rack'}]"]


def test_without_its_binding_a_set_runs_anywhere(workspace: Workspace, racks: tuple[Harness, OperatorProcess]) -> None:
    """TAS20: the binding is deleted, the set scaled meanwhile, the binding made again."""
    harness, _ = racks
    path = f"{BINDINGS}/{BINDING['metadata']['name']}"
    harness.api("POST", BINDINGS, BINDING)
    workspace.create("pcs", podcliqueset("tas20", worker("worker", 2, large=True), replicas=0, **pack("rack")))
    available = ("TopologyLevelsUnavailable", "False", "AllClusterTopologyLevelsAvailable")
    workspace.reads("pcs", "tas20", available)
    harness.api("DELETE", path)
    workspace.reads("pcs", "tas20", ("TopologyLevelsUnavailable", "Unknown", "ClusterTopologyNotFound"))
    workspace.scale("pcs", "tas20", 1)
    workspace.settled("tas20", 2)
    gang = workspace.get("pg", "tas20-0")
    assert told(gang, "tas20") == "; ; worker:2"
    assert "grove.io/topology-name" not in gang["metadata"].get("annotations", {})
    before = uids(workspace.pods())
    harness.api("POST", BINDINGS, BINDING)
    try:
        workspace.reads("pcs", "tas20", available)
        workspace.wait(lambda: told(workspace.get("pg", "tas20-0"), "tas20") == "rack; ; worker:2", "the gang says it")
        # They may be in two racks by now: a successor that had to be in the rack of both would never be placed.
        workspace.delete("pod", workspace.pods()[0]["metadata"]["name"])
        workspace.settled("tas20", 2)
        assert len(uids(workspace.pods()) & before) == 1
        assert workspace.get("pg", "tas20-0")["metadata"]["annotations"]["grove.io/topology-name"] == "grove-topology"
    finally:
        harness.api("DELETE", path)
    workspace.wait(lambda: told(workspace.get("pg", "tas20-0"), "tas20") == "; ; worker:2", "nothing is asked for")
    assert "grove.io/topology-name" not in workspace.get("pg", "tas20-0")["metadata"].get("annotations", {})


def test_gangs_that_wait_follow_a_level_that_is_put_right(
    workspace: Workspace, racks: tuple[Harness, OperatorProcess]
) -> None:
    """No node has the label that a level was given by mistake; the level of a clique and that of the set."""
    harness, _ = racks
    wrong = copy.deepcopy(BINDING)
    wrong["metadata"]["name"] = "wrong"
    for level in wrong["spec"]["levels"][2:]:
        level["key"] = f"example.com/no-{level['domain']}"
    harness.api("POST", BINDINGS, wrong)
    pcs = podcliqueset("late", worker("leader", 1), worker("worker", 2, "host"), **pack("rack"))
    text = json.dumps(pcs).replace("grove-topology", "wrong")
    workspace.create("pcs", json.loads(text))
    workspace.reads("pg", "late-0", ("Scheduled", "False", "Unschedulable"))
    before = uids(workspace.pods())
    try:
        harness.api("PATCH", f"{BINDINGS}/wrong", {"spec": BINDING["spec"]}, MERGE)
        workspace.settled("late", 3)
        assert uids(workspace.pods()) == before
        assert len(set(places(workspace, "rack").values())) == 1
        workers = {node for pod, node in places(workspace, "host").items() if "worker" in pod}
        assert len(workers) == 1
    finally:
        harness.api("DELETE", f"{BINDINGS}/wrong")


def test_two_topologies_in_one_cluster(workspace: Workspace, racks: tuple[Harness, OperatorProcess]) -> None:
    """TAS17: each set lands among the nodes that have the labels of its binding."""
    harness, _ = racks
    names = [f"node-{index}" for index in range(28)]
    old, new = names[:14], names[14:]
    for index, name in enumerate(new):
        labels = {"kubernetes.io/block": None, "example.com/nvl-block": f"nvl-{index // 7}"}
        harness.api("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, MERGE)
    levels = {"h100": ("kubernetes.io/block", old), "gb200": ("example.com/nvl-block", new)}
    try:
        for name, (key, _) in levels.items():
            spec = {"levels": [{"domain": "block", "key": key}, {"domain": "host", "key": KEYS["host"]}]}
            harness.api("POST", BINDINGS, {**BINDING, "metadata": {"name": name}, "spec": spec})
            pcs = podcliqueset(name, worker("worker", 2, large=True), **pack("block"))
            workspace.create("pcs", json.loads(json.dumps(pcs).replace("grove-topology", name)))
        for name, (_, nodes) in levels.items():
            workspace.settled(name, 2)
            pods = workspace.pods(f"app.kubernetes.io/part-of={name}")
            used = {pod["spec"]["nodeName"] for pod in pods}
            assert used <= set(nodes)
            assert len({(nodes.index(node)) // 7 for node in used}) == 1 or name == "h100"
    finally:
        for name in levels:
            harness.api("DELETE", f"{BINDINGS}/{name}")
        for index, name in enumerate(names):
            labels = {"kubernetes.io/block": f"block-{index // 20}", "example.com/nvl-block": None}
            harness.api("PATCH", f"/api/v1/nodes/{name}", {"metadata": {"labels": labels}}, MERGE)


@pytest.mark.usefixtures("binding")
def test_what_is_preferred_draws_pods_together(workspace: Workspace) -> None:
    """Kubernetes' scheduler spreads pods that ask for little; those that prefer one host are all on one."""
    spread = worker("spread", 6)
    workspace.create("pcs", podcliqueset("near", worker("packed", 6, preferred="host"), spread))
    workspace.settled("near", 12)
    hosts = places(workspace, "host")
    assert len({host for pod, host in hosts.items() if "packed" in pod}) == 1
    assert len({host for pod, host in hosts.items() if "spread" in pod}) > 1
    (again,) = [term for pod in workspace.clique_pods("near-0-packed")[:1] for term in preferences(pod)]
    assert again["podAffinityTerm"]["topologyKey"] == KEYS["host"]


def preferences(pod: Object) -> list[Object]:
    """The pod's preferred pod affinity."""
    terms: list[Object] = pod["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    return terms
