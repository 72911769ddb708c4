"""Every sample, on a real cluster, comes to exactly the objects and pods that the documentation promises."""

from dataclasses import dataclass, field

import pytest
import yaml

from tests.cluster.harness import ROOT
from tests.cluster.workspace import Workspace

SAMPLES = ROOT / "samples"


@dataclass(frozen=True)
class Promise:
    """What a sample comes to."""

    name: str
    podcliques: dict[str, int]
    """pods by PodClique"""
    groups: tuple[str, ...] = ()
    gangs: tuple[str, ...] = ()
    """scaled PodGangs; the base gang is always there"""
    autoscalers: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """kind of the target, minReplicas and maxReplicas by name"""


PROMISES = {
    "simple/simple1.yaml": Promise(
        "simple1",
        {"simple1-0-pca": 3, "simple1-0-pcd": 2, "simple1-0-sga-0-pcb": 2, "simple1-0-sga-0-pcc": 2},
        groups=("simple1-0-sga",),
        autoscalers={"simple1-0-pca": ("PodClique", 3, 5), "simple1-0-sga": ("PodCliqueScalingGroup", 1, 6)},
    ),
    "simple/simple2-explicit-startup-order.yaml": Promise(
        "simple2",
        {"simple2-0-pca": 3, "simple2-0-pcb": 2, "simple2-0-pcc": 2, "simple2-0-pcd": 2},
        autoscalers={"simple2-0-pca": ("PodClique", 3, 5)},
    ),
    "simple/simple3-explicit-startup-order.yaml": Promise(
        "simple3",
        {
            "simple3-0-pca": 3,
            "simple3-0-pce": 2,
            "simple3-0-sga-0-pcb": 2,
            "simple3-0-sga-0-pcc": 2,
            "simple3-0-sga-0-pcd": 2,
            "simple3-0-sga-1-pcb": 2,
            "simple3-0-sga-1-pcc": 2,
            "simple3-0-sga-1-pcd": 2,
            "simple3-0-sga-2-pcb": 2,
            "simple3-0-sga-2-pcc": 2,
            "simple3-0-sga-2-pcd": 2,
        },
        groups=("simple3-0-sga",),
        gangs=("simple3-0-sga-0",),
        autoscalers={"simple3-0-pca": ("PodClique", 3, 5), "simple3-0-sga": ("PodCliqueScalingGroup", 3, 6)},
    ),
    "user-guide/01_core-concepts/single-node-aggregated.yaml": Promise(
        "single-node-aggregated", {"single-node-aggregated-0-model-worker": 2}
    ),
    "user-guide/01_core-concepts/single-node-disaggregated.yaml": Promise(
        "single-node-disaggregated", {"single-node-disaggregated-0-prefill": 3, "single-node-disaggregated-0-decode": 2}
    ),
    "user-guide/01_core-concepts/multi-node-aggregated.yaml": Promise(
        "multinode-aggregated",
        {
            "multinode-aggregated-0-model-instance-0-leader": 1,
            "multinode-aggregated-0-model-instance-0-worker": 3,
            "multinode-aggregated-0-model-instance-1-leader": 1,
            "multinode-aggregated-0-model-instance-1-worker": 3,
        },
        groups=("multinode-aggregated-0-model-instance",),
        gangs=("multinode-aggregated-0-model-instance-0",),
    ),
    "user-guide/01_core-concepts/multi-node-disaggregated.yaml": Promise(
        "multinode-disaggregated",
        {
            "multinode-disaggregated-0-prefill-0-pleader": 1,
            "multinode-disaggregated-0-prefill-0-pworker": 4,
            "multinode-disaggregated-0-prefill-1-pleader": 1,
            "multinode-disaggregated-0-prefill-1-pworker": 4,
            "multinode-disaggregated-0-decode-0-dleader": 1,
            "multinode-disaggregated-0-decode-0-dworker": 2,
        },
        groups=("multinode-disaggregated-0-decode", "multinode-disaggregated-0-prefill"),
        gangs=("multinode-disaggregated-0-prefill-0",),
    ),
    "user-guide/01_core-concepts/complete-inference-pipeline.yaml": Promise(
        "comp-inf-ppln",
        {
            "comp-inf-ppln-0-frontend": 2,
            "comp-inf-ppln-0-vision-encoder": 1,
            "comp-inf-ppln-0-prefill-0-pleader": 1,
            "comp-inf-ppln-0-prefill-0-pworker": 4,
            "comp-inf-ppln-0-decode-cluster-0-dleader": 1,
            "comp-inf-ppln-0-decode-cluster-0-dworker": 2,
        },
        groups=("comp-inf-ppln-0-decode-cluster", "comp-inf-ppln-0-prefill"),
    ),
    "user-guide/02_pod-and-resource-naming-conventions/multinode-disaggregated-with-frontend.yaml": Promise(
        "mn-disagg",
        {
            "mn-disagg-0-frontend": 2,
            "mn-disagg-0-prefill-0-pleader": 1,
            "mn-disagg-0-prefill-0-pworker": 3,
            "mn-disagg-0-prefill-1-pleader": 1,
            "mn-disagg-0-prefill-1-pworker": 3,
            "mn-disagg-0-decode-0-dleader": 1,
            "mn-disagg-0-decode-0-dworker": 2,
        },
        groups=("mn-disagg-0-decode", "mn-disagg-0-prefill"),
        gangs=("mn-disagg-0-prefill-0",),
    ),
    "user-guide/03_environment-variables-for-pod-discovery/standalone-env-vars.yaml": Promise(
        "env-demo-standalone", {"env-demo-standalone-0-frontend": 2}
    ),
    "user-guide/03_environment-variables-for-pod-discovery/pcsg-env-vars.yaml": Promise(
        "env-demo-pcsg",
        {
            "env-demo-pcsg-0-model-instance-0-leader": 1,
            "env-demo-pcsg-0-model-instance-0-worker": 3,
            "env-demo-pcsg-0-model-instance-1-leader": 1,
            "env-demo-pcsg-0-model-instance-1-worker": 3,
        },
        groups=("env-demo-pcsg-0-model-instance",),
        gangs=("env-demo-pcsg-0-model-instance-0",),
    ),
}


@pytest.mark.parametrize("file", PROMISES)
def test_sample(workspace: Workspace, file: str) -> None:
    promise = PROMISES[file]
    workspace.create("pcs", yaml.safe_load((SAMPLES / file).read_text()))
    workspace.settled(promise.name, sum(promise.podcliques.values()))

    def told() -> bool:
        """Statuses of PodCliques and PodGangs follow their pods, each in its time."""
        ready = {pclq["metadata"]["name"]: pclq["status"].get("readyReplicas") for pclq in workspace.items("pclq")}
        assert ready == promise.podcliques
        phases = {gang["metadata"]["name"]: gang.get("status", {}).get("phase") for gang in workspace.items("pg")}
        return phases == dict.fromkeys((f"{promise.name}-0", *promise.gangs), "Running")

    workspace.wait(told, "all statuses tell of ready pods")
    assert workspace.names("pcsg") == sorted(promise.groups)
    assert {pod["status"]["phase"] for pod in workspace.items("pod")} == {"Running"}
    autoscalers = {hpa["metadata"]["name"]: hpa["spec"] for hpa in workspace.items("hpa")}
    assert {
        name: (spec["scaleTargetRef"]["kind"], spec["minReplicas"], spec["maxReplicas"])
        for name, spec in autoscalers.items()
    } == promise.autoscalers
    assert all(spec["scaleTargetRef"]["name"] == name for name, spec in autoscalers.items())
    services = {service["metadata"]["name"]: service["spec"]["clusterIP"] for service in workspace.items("svc")}
    assert services == {f"{promise.name}-0": "None"}
    # No credentials are made for a workload: what orders the start of pods is the operator.
    assert workspace.names("serviceaccount") == ["default"]
    assert workspace.names("secret") == workspace.names("role") == workspace.names("rolebinding") == []
