"""A Kubernetes that has no gangs of its own, as all were before 1.37: the operator does all but what only those can."""

from collections.abc import Iterator

import pytest

from tests.cluster.chaos import assert_rest
from tests.cluster.conftest import apply_crds
from tests.cluster.harness import ApiStatus, Harness, running_cluster
from tests.cluster.operators import OperatorProcess
from tests.cluster.workloads import partial, whole
from tests.cluster.workspace import Object, Workspace, condition, is_gated, uids, verdict

WHY = "pods are placed one by one: the cluster serves no PodGroups of scheduling.k8s.io/v1beta1"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster without those APIs."""
    with running_cluster(tmp_path_factory.mktemp("older"), 10, gangs=False) as harness:
        for path in ("/apis/scheduling.k8s.io/v1beta1", "/apis/scheduling.k8s.io/v1alpha3"):
            with pytest.raises(ApiStatus, match="404"):
                harness.api("GET", path)
        apply_crds(harness)
        yield harness


@pytest.fixture(scope="module")
def operator(cluster: Harness, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorProcess]:
    process = OperatorProcess(cluster.kubeconfig, tmp_path_factory.mktemp("operator"))
    process.start()
    yield process
    process.stop()


def new_image(pcs: Object) -> None:
    """Change the template of the first clique."""
    pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "new:2"


def test_a_whole_life(workspace: Workspace) -> None:
    workspace.create("pcs", partial("w"))
    workspace.settled("w", 10)
    assert workspace.names("pg") == ["w-0", "w-0-sg-x-0"]
    for gang in workspace.names("pg"):
        workspace.reads("pg", gang, ("GangGuaranteed", "False", "NoGangScheduling"), ("Ready", "True", "MinimumReady"))
        found = workspace.get("pg", gang)
        assert found["status"]["phase"] == "Running"
        assert condition(found, "GangGuaranteed")["message"] == WHY
    [event] = workspace.events("w", "NoGangGuarantee")
    assert (event["type"], event["message"]) == ("Warning", WHY)

    before = uids(workspace.pods())
    workspace.scale("pcsg", "w-0-sg-x", 3)
    assert before < uids(workspace.settled("w", 14))
    assert len(workspace.events("w", "NoGangGuarantee")) == 1

    before = uids(workspace.pods())
    workspace.update("pcs", "w", new_image)
    after = uids(workspace.settled("w", 14))
    assert len(before - after) == len(workspace.clique_pods("w-0-pc-a")) == 2

    assert_rest(workspace.cluster, 15.0)
    workspace.delete("pcs", "w")
    workspace.gone("w")


def test_gates_come_off_for_whole_gangs_here_too(workspace: Workspace) -> None:
    """A pod fewer than the gang has, and none is handed to the scheduler."""
    workspace.limit_pods(9)
    workspace.create("pcs", whole("w"))
    workspace.wait(lambda: len(workspace.pods()) == 9, "nine pods are made")
    workspace.until(
        "pg", "w-0", lambda gang: verdict(gang, "Initialized") == ("False", "PodGangPodsCreationPending"), "it waits"
    )
    assert all(map(is_gated, workspace.pods()))
    workspace.patch("quota", "pods", {"spec": {"hard": {"pods": "10"}}})
    workspace.settled("w", 10)
    workspace.delete("pcs", "w")
    workspace.gone("w")


def test_nothing_is_said_of_what_is_missing_but_once(operator: OperatorProcess) -> None:
    lines = operator.log.splitlines()
    for kind in ("podgroups.scheduling.k8s.io", "compositepodgroups.scheduling.k8s.io"):
        assert len([line for line in lines if f" {kind}: not served" in line]) == 1, operator.log
    assert not [line for line in lines if "ERROR" in line or "Traceback" in line], operator.log
