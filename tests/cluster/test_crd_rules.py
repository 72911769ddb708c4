"""What a real API server refuses on Grove's kinds, and what it lets through: limits, rules across fields, scaling."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.objects import clique, collection, create, make, pcs, refused, scalable

pytestmark = pytest.mark.usefixtures("crds")

TOPOLOGY = "spec.template.topologyConstraint"


@pytest.mark.parametrize(
    ("constraint", "error"),
    [
        ({}, f"{TOPOLOGY}.pack: Required value"),
        ({"topologyName": "t"}, f"{TOPOLOGY}.pack: Required value"),
        ({"pack": {}}, f"{TOPOLOGY}.pack: Required value: set required or preferred"),
        ({"packDomain": "rack"}, f"{TOPOLOGY}.packDomain: Forbidden: packDomain is deprecated"),
        ({"packDomain": "rack", "pack": {"required": "rack"}}, f"{TOPOLOGY}.pack.required: Invalid value"),
        ({"pack": {"required": "Rack"}}, f"{TOPOLOGY}.pack.required: Invalid value"),
        ({"pack": {"preferred": ""}}, f"{TOPOLOGY}.pack.preferred: Invalid value"),
        ({"pack": {"required": "r" * 64}}, f"{TOPOLOGY}.pack.required: Too long"),
    ],
)
def test_topology_constraints(cluster: Harness, namespace: str, constraint: dict[str, Any], error: str) -> None:
    assert error in refused(cluster, namespace, pcs({"topologyConstraint": constraint}))
    lower = pcs({"cliques": [clique(topologyConstraint=constraint)]})
    assert refused(cluster, namespace, lower)
    group = {"name": "g", "cliqueNames": ["a"], "topologyConstraint": constraint}
    assert refused(cluster, namespace, pcs({"podCliqueScalingGroups": [group]}))


def test_the_deprecated_domain_is_refused_in_new_sets_at_every_level(cluster: Harness, namespace: str) -> None:
    old = {"packDomain": "rack"}
    message = refused(cluster, namespace, pcs({"cliques": [clique(), clique("b", topologyConstraint=old)]}))
    assert "spec.template.cliques: Forbidden: packDomain is deprecated: write pack.required" in message
    group = {"name": "g", "cliqueNames": ["a"], "topologyConstraint": old}
    message = refused(cluster, namespace, pcs({"podCliqueScalingGroups": [group]}))
    assert "spec.template.podCliqueScalingGroups: Forbidden: packDomain is deprecated: write pack.required" in message


def test_sets_with_the_deprecated_domain_can_be_updated(cluster: Harness, namespace: str) -> None:
    new = {"pack": {"required": "host"}}
    obj = pcs(
        {
            "topologyConstraint": {"pack": {"required": "rack"}},
            "cliques": [clique(), clique("b") | {"topologyConstraint": new}],
        }
    )
    stored = create(cluster, namespace, obj)
    stored["spec"]["template"]["topologyConstraint"] = {"packDomain": "rack"}
    stored["spec"]["template"]["cliques"][1]["topologyConstraint"] = {"packDomain": "host"}
    path = f"{collection('PodCliqueSet', namespace)}/x"
    old = cluster.api("PUT", path, stored)
    old["spec"]["replicas"] = 2
    assert cluster.api("PUT", path, old)["spec"]["replicas"] == 2


SCALED_KINDS = pytest.mark.parametrize("kind", ["PodClique", "PodCliqueScalingGroup"])
BELOW = "spec.replicas: Invalid value"
RULE = "replicas must be 0 (idle) or at least minAvailable"


@SCALED_KINDS
@pytest.mark.parametrize(("replicas", "min_available"), [(0, 3), (3, 3), (4, 3), (None, None), (0, None), (None, 1)])
def test_replicas_of_0_or_at_least_min_available(
    cluster: Harness, namespace: str, kind: str, replicas: int | None, min_available: int | None
) -> None:
    stored = create(cluster, namespace, scalable(kind, replicas, min_available))
    assert stored["spec"].get("replicas", 1) == (1 if replicas is None else replicas)


@SCALED_KINDS
@pytest.mark.parametrize(("replicas", "min_available"), [(1, 3), (2, 3), (None, 2)])
def test_replicas_in_between_are_refused(
    cluster: Harness, namespace: str, kind: str, replicas: int | None, min_available: int
) -> None:
    message = refused(cluster, namespace, scalable(kind, replicas, min_available))
    assert BELOW in message
    assert RULE in message


@SCALED_KINDS
def test_the_rule_holds_for_scaling_and_updates(cluster: Harness, namespace: str, kind: str) -> None:
    create(cluster, namespace, scalable(kind, 5, 3))
    path = f"{collection(kind, namespace)}/x"

    def scale(replicas: int) -> int:
        request = {"spec": {"replicas": replicas}}
        answer = cluster.api("PATCH", f"{path}/scale", request, "application/merge-patch+json")
        return int(answer["spec"].get("replicas", 0))  # a Scale leaves out 0

    assert scale(3) == 3
    assert scale(0) == 0
    assert scale(7) == 7
    for attempt in (
        lambda: scale(2),
        lambda: cluster.api("PATCH", path, {"spec": {"replicas": 1}}, "application/merge-patch+json"),
        lambda: cluster.api("PATCH", path, {"spec": {"minAvailable": 8}}, "application/merge-patch+json"),
    ):
        with pytest.raises(ApiStatus) as caught:
            attempt()
        assert caught.value.status == 422
        assert BELOW in caught.value.message
        assert RULE in caught.value.message
    assert cluster.api("GET", path)["spec"]["replicas"] == 7


@pytest.mark.parametrize(
    ("kind", "selector_field"),
    [("PodCliqueSet", "hpaPodSelector"), ("PodClique", "hpaPodSelector"), ("PodCliqueScalingGroup", "selector")],
)
def test_scale_shows_what_autoscalers_read(cluster: Harness, namespace: str, kind: str, selector_field: str) -> None:
    obj = pcs({}) if kind == "PodCliqueSet" else scalable(kind, 2, 1)
    create(cluster, namespace, obj)
    path = f"{collection(kind, namespace)}/x"
    status = {"status": {"replicas": 4, selector_field: "a=b,c=d"}}
    cluster.api("PATCH", f"{path}/status", status, "application/merge-patch+json")
    cluster.kubectl("scale", "-n", namespace, f"{kind.lower()}/x", "--replicas=3")
    scale = cluster.api("GET", f"{path}/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 3}
    assert scale["status"] == {"replicas": 4, "selector": "a=b,c=d"}


def test_status_is_written_on_its_own(cluster: Harness, namespace: str) -> None:
    obj = pcs({}) | {"status": {"availableReplicas": 9}}
    stored = create(cluster, namespace, obj)
    assert "status" not in stored
    path = f"{collection('PodCliqueSet', namespace)}/x"
    stored["status"] = {"availableReplicas": 1}
    stored["spec"]["replicas"] = 5
    stored = cluster.api("PUT", f"{path}/status", stored)
    assert stored["status"]["availableReplicas"] == 1
    assert stored["spec"]["replicas"] == 1
    assert stored["metadata"]["generation"] == 1


@pytest.mark.parametrize(
    ("obj", "error"),
    [
        (make("PodCliqueSet", {"replicas": -1, "template": {"cliques": []}}), "spec.replicas: Invalid value: -1"),
        (make("PodCliqueSet", {}), "spec.template: Required value"),
        (make("PodCliqueSet", {"template": {}}), "spec.template.cliques: Required value"),
        (pcs({"cliqueStartupType": "InOrder"}), 'cliqueStartupType: Unsupported value: "InOrder"'),
        (pcs({"cliques": [clique(), clique()]}), 'spec.template.cliques[1]: Duplicate value: {"name":"a"}'),
        (pcs({"cliques": [{"name": "a", "spec": {}}]}), "spec.template.cliques[0].spec.podSpec: Required value"),
        (pcs({"cliques": [clique(spec={"podSpec": {}})]}), "spec.podSpec.containers: Required value"),
        (pcs({"terminationDelay": "soon"}), "spec.template.terminationDelay: Invalid value"),
        (
            pcs({"podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"], "scaleConfig": {}}]}),
            "scaleConfig.maxReplicas: Required value",
        ),
        (
            pcs({"resourceSharing": [{"name": "n", "scope": "All"}]}),
            'spec.template.resourceSharing[0].scope: Unsupported value: "All"',
        ),
        (make("PodGang", {}), "spec.podgroups: Required value"),
        (make("PodGang", {"podgroups": [{"name": "g", "minReplicas": 1}]}), "podReferences: Required value"),
        (make("ClusterTopologyBinding", {"levels": []}), "spec.levels: Invalid value: 0"),
        (
            make("ClusterTopologyBinding", {"levels": [{"domain": "1st", "key": "a"}]}),
            "spec.levels[0].domain: Invalid value",
        ),
        (
            make("ClusterTopologyBinding", {"levels": [{"domain": "a", "key": "a/b/c"}]}),
            "spec.levels[0].key: Invalid value",
        ),
        (
            make("ClusterTopologyBinding", {"levels": [{"domain": "a", "key": "k" * 64}]}),
            "spec.levels[0].key: Too long",
        ),
    ],
)
def test_limits(cluster: Harness, namespace: str, obj: dict[str, Any], error: str) -> None:
    assert error in refused(cluster, namespace, obj)
