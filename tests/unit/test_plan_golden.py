"""Whole objects: what the operator makes of the samples, and how much of it."""

from collections import Counter
from typing import Any

import pytest
import yaml

from grove.plan.expand import Replica, expand
from grove.plan.pods import BURST
from tests.unit.support import GOLDEN, Object, clique, group, pod_set, sample, template

CONCEPTS = "user-guide/01_core-concepts"
NAMING = "user-guide/02_pod-and-resource-naming-conventions"
ENVIRONMENT = "user-guide/03_environment-variables-for-pod-discovery"

GOLDEN_OF = {
    "simple1.yaml": "simple/simple1.yaml",
    "simple3.yaml": "simple/simple3-explicit-startup-order.yaml",
}


def expected(file: str) -> list[Object]:
    return list(yaml.safe_load_all((GOLDEN / file).read_text(encoding="utf-8")))


def identity(obj: Object) -> tuple[str, str]:
    """Pods are found by hostname, since their names end in a hash."""
    return obj["kind"], obj["spec"]["hostname"] if obj["kind"] == "Pod" else obj["metadata"]["name"]


def comparable(obj: Object, replica: Replica) -> Object:
    """A made object without what golden files leave out, after a look at just that."""
    if obj["kind"] == "Pod":
        owner, name = obj["metadata"]["ownerReferences"][0]["name"], obj["metadata"]["name"]
        suffix = name.removeprefix(f"{owner}-")
        assert len(suffix) == 5
        assert suffix.isalnum()
        return {**obj, "metadata": {key: value for key, value in obj["metadata"].items() if key != "name"}}
    if obj["kind"] == "PodGang":
        groups = []
        for one in obj["spec"]["podgroups"]:
            pods = [
                pod["metadata"]
                for pod in replica.pods
                if pod["metadata"]["labels"]["grove.io/podclique"] == one["name"]
            ]
            assert one["podReferences"] == [
                {"namespace": "default", "name": name} for name in sorted(pod["name"] for pod in pods)
            ]
            groups.append({key: value for key, value in one.items() if key != "podReferences"})
        return {**obj, "spec": {**obj["spec"], "podgroups": groups}}
    return obj


@pytest.mark.parametrize("file", sorted(GOLDEN_OF))
def test_objects_of_the_samples(file: str) -> None:
    (replica,) = expand(sample(GOLDEN_OF[file]))
    made = {identity(obj): obj for obj in replica.objects}
    for want in expected(file):
        assert comparable(made[identity(want)], replica) == want


# file: PodCliques, scaling groups, autoscalers, PodGangs, pods (API doc 6)
COUNTS: dict[str, tuple[int, int, int, int, int]] = {
    "simple/simple1.yaml": (4, 1, 2, 1, 9),
    "simple/simple2-explicit-startup-order.yaml": (4, 0, 1, 1, 9),
    "simple/simple3-explicit-startup-order.yaml": (11, 1, 2, 2, 23),
    f"{CONCEPTS}/single-node-aggregated.yaml": (1, 0, 0, 1, 2),
    f"{CONCEPTS}/single-node-disaggregated.yaml": (2, 0, 0, 1, 5),
    f"{CONCEPTS}/multi-node-aggregated.yaml": (4, 1, 0, 2, 8),
    f"{CONCEPTS}/multi-node-disaggregated.yaml": (6, 2, 0, 2, 13),
    f"{CONCEPTS}/complete-inference-pipeline.yaml": (6, 2, 0, 1, 11),
    f"{NAMING}/multinode-disaggregated-with-frontend.yaml": (7, 2, 0, 2, 13),
    f"{ENVIRONMENT}/standalone-env-vars.yaml": (1, 0, 0, 1, 2),
    f"{ENVIRONMENT}/pcsg-env-vars.yaml": (4, 1, 0, 2, 8),
}


@pytest.mark.parametrize("file", sorted(COUNTS))
def test_numbers_of_the_samples(file: str) -> None:
    (made,) = expand(sample(file))
    assert len(made.services) == 1
    parts: tuple[tuple[Any, ...], ...] = (
        made.podcliques, made.scaling_groups, made.autoscalers, made.podgangs, made.pods
    )  # fmt: skip
    assert tuple(len(part) for part in parts) == COUNTS[file]


def test_names_of_the_samples() -> None:
    def names(objects: tuple[Object, ...]) -> set[str]:
        return {obj["metadata"]["name"] for obj in objects}

    (one,) = expand(sample("simple/simple1.yaml"))
    assert names(one.podcliques) == {"simple1-0-pca", "simple1-0-pcd", "simple1-0-sga-0-pcb", "simple1-0-sga-0-pcc"}
    (three,) = expand(sample("simple/simple3-explicit-startup-order.yaml"))
    members = {f"simple3-0-sga-{index}-{name}" for index in range(3) for name in ("pcb", "pcc", "pcd")}
    assert names(three.podcliques) == members | {"simple3-0-pca", "simple3-0-pce"}
    (aggregated,) = expand(sample(f"{CONCEPTS}/multi-node-aggregated.yaml"))
    assert names(aggregated.podgangs) == {"multinode-aggregated-0", "multinode-aggregated-0-model-instance-0"}
    (disaggregated,) = expand(sample(f"{CONCEPTS}/multi-node-disaggregated.yaml"))
    assert names(disaggregated.podgangs) == {"multinode-disaggregated-0", "multinode-disaggregated-0-prefill-0"}


def test_every_replica_of_a_set_is_worked_out_alike() -> None:
    obj = pod_set(clique("a", 2), clique("b"), groups=[group("g", ["b"], replicas=2)], replicas=3)
    made = expand(template(obj))
    assert [replica.index for replica in made] == [0, 1, 2]
    kinds = [Counter(one["kind"] for one in replica.objects) for replica in made]
    assert kinds[0] == {"Service": 1, "PodClique": 3, "PodCliqueScalingGroup": 1, "PodGang": 2, "Pod": 4}
    assert kinds[1:] == [kinds[0], kinds[0]]
    names = [one["metadata"]["name"] for replica in made for one in replica.objects if one["kind"] != "Service"]
    # A base gang is called like the Service of its replica; all other names differ.
    assert len(names) == len(set(names))


def test_a_set_without_replicas_or_that_is_being_deleted_is_nothing() -> None:
    obj = pod_set(clique("a", 2))
    assert expand(template({**obj, "spec": {**obj["spec"], "replicas": 0}})) == []
    assert expand(template(obj, deletionTimestamp="2026-09-01T00:00:00Z", finalizers=["x"])) == []


def test_idle_cliques_and_groups_have_objects_but_no_pods_and_no_gang() -> None:
    obj = pod_set(clique("a", 0), clique("b", 0), clique("c", 2), groups=[group("g", ["b", "c"], replicas=2)])
    (made,) = expand(template(obj))
    assert [one["metadata"]["name"] for one in made.podcliques] == [
        "web-0-a", "web-0-g-0-b", "web-0-g-0-c", "web-0-g-1-b", "web-0-g-1-c"
    ]  # fmt: skip
    assert {one["metadata"]["labels"]["grove.io/podclique"] for one in made.pods} == {"web-0-g-0-c", "web-0-g-1-c"}
    gangs = {one["metadata"]["name"]: [g["name"] for g in one["spec"]["podgroups"]] for one in made.podgangs}
    assert gangs == {"web-0": ["web-0-g-0-c"], "web-0-g-0": ["web-0-g-1-c"]}


def test_a_set_whose_cliques_are_all_idle_has_no_gang() -> None:
    (made,) = expand(template(pod_set(clique("a", 0), clique("b", 3), groups=[group("g", ["b"], replicas=0)])))
    assert (len(made.podcliques), len(made.scaling_groups), made.podgangs, made.pods) == (1, 1, (), ())


def test_a_large_clique_has_all_its_pods() -> None:
    (replica,) = expand(template(pod_set(clique("a", 2 * BURST + 1))))
    assert len(replica.pods) == 2 * BURST + 1
    assert len(replica.podgangs[0]["spec"]["podgroups"][0]["podReferences"]) == 2 * BURST + 1
