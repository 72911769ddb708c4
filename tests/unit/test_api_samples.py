"""The samples have the documented shapes, and run on small machines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.api.podcliqueset import PodCliqueSet

SAMPLES = Path(__file__).parents[2] / "samples"
CONCEPTS = "user-guide/01_core-concepts"
NAMING = "user-guide/02_pod-and-resource-naming-conventions"
ENVIRONMENT = "user-guide/03_environment-variables-for-pod-discovery"

# file: name of the set, its cliques with their replicas, its groups with their cliques, replicas and minAvailable
SHAPES: dict[str, tuple[str, dict[str, int], dict[str, tuple[str, int, int]]]] = {
    "simple/simple1.yaml": ("simple1", {"pca": 3, "pcb": 2, "pcc": 2, "pcd": 2}, {"sga": ("pcb pcc", 1, 1)}),
    "simple/simple2-explicit-startup-order.yaml": ("simple2", {"pca": 3, "pcb": 2, "pcc": 2, "pcd": 2}, {}),
    "simple/simple3-explicit-startup-order.yaml": (
        "simple3",
        {"pca": 3, "pcb": 2, "pcc": 2, "pcd": 2, "pce": 2},
        {"sga": ("pcb pcc pcd", 3, 2)},
    ),
    f"{CONCEPTS}/single-node-aggregated.yaml": ("single-node-aggregated", {"model-worker": 2}, {}),
    f"{CONCEPTS}/single-node-disaggregated.yaml": ("single-node-disaggregated", {"prefill": 3, "decode": 2}, {}),
    f"{CONCEPTS}/multi-node-aggregated.yaml": (
        "multinode-aggregated",
        {"leader": 1, "worker": 3},
        {"model-instance": ("leader worker", 2, 1)},
    ),
    f"{CONCEPTS}/multi-node-disaggregated.yaml": (
        "multinode-disaggregated",
        {"pleader": 1, "pworker": 4, "dleader": 1, "dworker": 2},
        {"prefill": ("pleader pworker", 2, 1), "decode": ("dleader dworker", 1, 1)},
    ),
    f"{CONCEPTS}/complete-inference-pipeline.yaml": (
        "comp-inf-ppln",
        {"frontend": 2, "vision-encoder": 1, "pleader": 1, "pworker": 4, "dleader": 1, "dworker": 2},
        {"prefill": ("pleader pworker", 1, 1), "decode-cluster": ("dleader dworker", 1, 1)},
    ),
    f"{NAMING}/multinode-disaggregated-with-frontend.yaml": (
        "mn-disagg",
        {"frontend": 2, "pleader": 1, "pworker": 3, "dleader": 1, "dworker": 2},
        {"prefill": ("pleader pworker", 2, 1), "decode": ("dleader dworker", 1, 1)},
    ),
    f"{ENVIRONMENT}/standalone-env-vars.yaml": ("env-demo-standalone", {"frontend": 2}, {}),
    f"{ENVIRONMENT}/pcsg-env-vars.yaml": (
        "env-demo-pcsg",
        {"leader": 1, "worker": 3},
        {"model-instance": ("leader worker", 2, 1)},
    ),
}

# file: pods in all
PODS = {
    "simple/simple1.yaml": 9,
    "simple/simple2-explicit-startup-order.yaml": 9,
    "simple/simple3-explicit-startup-order.yaml": 23,
    f"{CONCEPTS}/single-node-aggregated.yaml": 2,
    f"{CONCEPTS}/single-node-disaggregated.yaml": 5,
    f"{CONCEPTS}/multi-node-aggregated.yaml": 8,
    f"{CONCEPTS}/multi-node-disaggregated.yaml": 13,
    f"{CONCEPTS}/complete-inference-pipeline.yaml": 11,
    f"{NAMING}/multinode-disaggregated-with-frontend.yaml": 13,
    f"{ENVIRONMENT}/standalone-env-vars.yaml": 2,
    f"{ENVIRONMENT}/pcsg-env-vars.yaml": 8,
}

EACH = pytest.mark.parametrize("file", sorted(SHAPES))


def read(file: str) -> PodCliqueSet:
    return PodCliqueSet.from_wire(yaml.safe_load((SAMPLES / file).read_text(encoding="utf-8")))


def containers(pcs: PodCliqueSet) -> list[dict[str, Any]]:
    return [container for clique in pcs.spec.template.cliques for container in clique.spec.pod_spec["containers"]]


def test_no_sample_is_missing_or_unknown() -> None:
    assert {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.yaml")} == SHAPES.keys() == PODS.keys()


@EACH
def test_shape(file: str) -> None:
    name, cliques, groups = SHAPES[file]
    pcs = read(file)
    template = pcs.spec.template
    assert (pcs.wire["apiVersion"], pcs.wire["kind"], pcs.name) == ("grove.io/v1alpha1", "PodCliqueSet", name)
    assert pcs.spec.replicas == 1
    assert {clique.name: clique.spec.replicas for clique in template.cliques} == cliques
    assert {clique.name: clique.spec.min_available for clique in template.cliques} == cliques
    assert {
        group.name: (" ".join(group.clique_names), group.replicas, group.min_available)
        for group in template.pod_clique_scaling_groups
    } == groups


@EACH
def test_number_of_pods(file: str) -> None:
    template = read(file).spec.template
    times = {name: group.replicas for group in template.pod_clique_scaling_groups for name in group.clique_names}
    assert sum((clique.spec.replicas or 0) * times.get(clique.name, 1) for clique in template.cliques) == PODS[file]


@EACH
def test_it_runs_on_a_small_machine(file: str) -> None:
    for container in containers(read(file)):
        assert container["image"] in {"nginx:alpine", "busybox:stable"}
        assert container["resources"] == {"requests": {"cpu": "10m"}}


@EACH
def test_simple_samples_need_plain_nodes_the_others_take_fake_ones(file: str) -> None:
    fake = {"key": "fake-node", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
    for clique in read(file).spec.template.cliques:
        assert clique.spec.pod_spec.get("tolerations", []) == ([] if file.startswith("simple/") else [fake])


@pytest.mark.parametrize("number", [2, 3])
def test_start_order(number: int) -> None:
    pcs = read(f"simple/simple{number}-explicit-startup-order.yaml")
    order = {"pca": (), "pcb": ("pca",), "pcc": ("pca",), "pcd": ("pcb", "pcc"), "pce": ("pcb", "pcc")}
    assert pcs.spec.template.clique_startup_type.value == "CliqueStartupTypeExplicit"
    assert pcs.spec.template.termination_delay == "1m"
    for clique in pcs.spec.template.cliques:
        assert clique.spec.starts_after == order[clique.name]


def test_autoscaling_of_the_simple_samples() -> None:
    for file in (file for file in SHAPES if file.startswith("simple/")):
        template = read(file).spec.template
        limits = {
            clique.name: clique.spec.auto_scaling_config.max_replicas
            for clique in template.cliques
            if clique.spec.auto_scaling_config
        }
        limits |= {
            group.name: group.scale_config.max_replicas
            for group in template.pod_clique_scaling_groups
            if group.scale_config
        }
        assert limits == ({"pca": 5} if "simple2" in file else {"pca": 5, "sga": 6})


def test_two_samples_leave_out_a_role_name() -> None:
    nameless = {
        (file, clique.name)
        for file in SHAPES
        for clique in read(file).spec.template.cliques
        if not clique.spec.role_name
    }
    assert nameless == {
        (f"{NAMING}/multinode-disaggregated-with-frontend.yaml", "frontend"),
        (f"{ENVIRONMENT}/standalone-env-vars.yaml", "frontend"),
    }


def test_the_standalone_sample_adds_a_variable_of_its_own() -> None:
    (container,) = containers(read(f"{ENVIRONMENT}/standalone-env-vars.yaml"))
    assert container["env"] == [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
