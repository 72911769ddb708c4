"""A real API server takes the CustomResourceDefinitions, and keeps, defaults and refuses what the API documents."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.api import kubernetes
from grove.api.openapi import structural
from tests.cluster.harness import ROOT, ApiStatus, Harness

pytestmark = pytest.mark.usefixtures("crds")

SAMPLES = sorted((ROOT / "samples").rglob("*.yaml"))
STRICT = "?fieldValidation=Strict"
PLURALS = {
    "PodCliqueSet": "podcliquesets",
    "PodClique": "podcliques",
    "PodCliqueScalingGroup": "podcliquescalinggroups",
    "ClusterTopologyBinding": "clustertopologybindings",
    "PodGang": "podgangs",
}
POD_SPEC = {"containers": [{"name": "main", "image": "busybox:stable"}]}


def collection(kind: str, namespace: str) -> str:
    group = "scheduler.grove.io" if kind == "PodGang" else "grove.io"
    scope = "" if kind == "ClusterTopologyBinding" else f"/namespaces/{namespace}"
    return f"/apis/{group}/v1alpha1{scope}/{PLURALS[kind]}"


def make(kind: str, spec: dict[str, Any], name: str = "x") -> dict[str, Any]:
    group = "scheduler.grove.io" if kind == "PodGang" else "grove.io"
    return {"apiVersion": f"{group}/v1alpha1", "kind": kind, "metadata": {"name": name}, "spec": spec}


def clique(name: str = "a", **fields: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"podSpec": POD_SPEC}} | fields


def pcs(template: dict[str, Any], name: str = "x") -> dict[str, Any]:
    return make("PodCliqueSet", {"replicas": 1, "template": {"cliques": [clique()]} | template}, name)


def create(cluster: Harness, namespace: str, obj: dict[str, Any], query: str = STRICT) -> Any:
    return cluster.api("POST", collection(obj["kind"], namespace) + query, obj)


def refused(cluster: Harness, namespace: str, obj: dict[str, Any]) -> str:
    """Try to create `obj`; why it is refused as invalid."""
    with pytest.raises(ApiStatus) as caught:
        create(cluster, namespace, obj)
    assert caught.value.status == 422
    return caught.value.message


def with_documented_defaults(spec: dict[str, Any]) -> dict[str, Any]:
    """What becomes of a set's spec in the API server: these defaults and nothing else."""
    spec = copy.deepcopy(spec)
    spec.setdefault("replicas", 0)
    spec.get("updateStrategy", {"type": ""}).setdefault("type", "RollingRecreate")
    template = spec["template"]
    template.setdefault("cliqueStartupType", "CliqueStartupTypeAnyOrder")
    template.get("headlessServiceConfig", {}).setdefault("publishNotReadyAddresses", True)
    for group in template.get("podCliqueScalingGroups", []):
        group.setdefault("replicas", 1)
        group.setdefault("minAvailable", 1)
    for item in template["cliques"]:
        for container in item["spec"]["podSpec"]["containers"]:
            for port in container.get("ports", []):
                port.setdefault("protocol", "TCP")
    return spec


def test_established_and_structural(cluster: Harness, crds: list[str]) -> None:
    assert sorted(crds) == [
        "clustertopologybindings.grove.io",
        "podcliques.grove.io",
        "podcliquescalinggroups.grove.io",
        "podcliquesets.grove.io",
        "podgangs.scheduler.grove.io",
    ]
    for name in crds:
        crd = cluster.api("GET", f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}")
        conditions = {item["type"]: item["status"] for item in crd["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}, "a NonStructuralSchema would be here"


def test_plain_apply_works_and_finds_nothing_to_change(cluster: Harness) -> None:
    lines = cluster.kubectl("apply", "-f", ROOT / "crds").splitlines()
    assert len(lines) == 5
    assert all(line.endswith(" unchanged") for line in lines), lines


def test_the_embedded_schemas_are_the_api_servers_own(cluster: Harness) -> None:
    version = cluster.api("GET", "/version")["gitVersion"]
    for name, source in kubernetes.SOURCES.items():
        text = kubernetes.dump(version, structural(cluster.api("GET", source.path), source.schema))
        committed = Path(kubernetes.__path__[0], f"{name}.json").read_text(encoding="utf-8")
        assert text == committed, f"{name}: run grove crds --refresh-kubernetes-schemas"


@pytest.mark.parametrize(
    ("path", "kind", "words"),
    [
        ("pcs", "KIND: PodCliqueSet", ["whole inference system"]),
        ("pcs.spec.template", "<Object>", ["podCliqueScalingGroups", "enum: CliqueStartupTypeAnyOrder"]),
        ("pcs.spec.template.cliques", "<[]Object>", ["each a group of like pods", "-required-"]),
        ("pcs.spec.replicas", "<integer>", ["default of 0"]),
        ("pcs.spec.template.cliques.spec.podSpec.containers.livenessProbe", "<Object>", ["periodSeconds"]),
        ("pclq.spec.minAvailable", "<integer>", ["placed together"]),
        ("pcsg.spec.minAvailable", "<integer>", ["gang of its own"]),
        ("ct.spec.levels", "<[]Object>", ["broadest first"]),
        ("pg.spec.podgroups", "<[]Object>", ["minReplicas"]),
    ],
)
def test_explain_teaches(cluster: Harness, path: str, kind: str, words: list[str]) -> None:
    def explained() -> str:
        text = " ".join(cluster.kubectl("explain", path).split())
        assert "DESCRIPTION: " in text
        return text

    text = cluster.wait(explained, message=f"{path} is published")
    for word in (kind, *words):
        assert word in text


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"cliqueStartUpType": "x"}, "spec.template.cliqueStartUpType"),
        ({"cliques": [clique(lables={"a": "b"})]}, "spec.template.cliques[0].lables"),
        (
            {"cliques": [clique(spec={"podSpec": {"containers": [{"name": "m", "imgae": "i"}]}})]},
            "spec.template.cliques[0].spec.podSpec.containers[0].imgae",
        ),
        (
            {"podCliqueScalingGroupConfigs": []},
            "spec.template.podCliqueScalingGroupConfigs",
        ),
        (
            {"podCliqueScalingGroups": [{"name": "g", "cliques": ["a"], "cliqueNames": ["a"]}]},
            "spec.template.podCliqueScalingGroups[0].cliques",
        ),
    ],
)
def test_a_misspelled_field_is_refused(cluster: Harness, namespace: str, wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiStatus) as caught:
        create(cluster, namespace, pcs(wrong))
    assert caught.value.status == 400
    assert f'unknown field "{field}"' in caught.value.message
    with pytest.raises(AssertionError, match="unknown field"):
        cluster.kubectl("create", "-n", namespace, "-f", "-", input=json.dumps(pcs(wrong)))


@pytest.mark.parametrize("file", SAMPLES, ids=lambda file: file.stem)
def test_samples_are_stored_unchanged_but_for_the_defaults(cluster: Harness, namespace: str, file: Path) -> None:
    sample = yaml.safe_load(file.read_text(encoding="utf-8"))
    cluster.kubectl("create", "-n", namespace, "--validate=strict", "-f", file)
    stored = cluster.api("GET", f"{collection('PodCliqueSet', namespace)}/{sample['metadata']['name']}")
    assert stored["spec"] == with_documented_defaults(sample["spec"])
    assert stored["metadata"]["labels"] == sample["metadata"]["labels"]


def dynamo_clique(name: str, replicas: int, labels: dict[str, str], script: str = "", **extra: Any) -> dict[str, Any]:
    """A role as Dynamo's operator writes it for a disaggregated deployment over several nodes."""
    container: dict[str, Any] = {
        "name": "main",
        "image": "registry.example.com/engine:1",
        "ports": [{"name": "http", "containerPort": 8000, "protocol": "TCP"}],
        "resources": {"limits": {"nvidia.com/gpu": "8"}},
        "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}, "periodSeconds": 5},
    }
    if script:
        container["command"] = ["sh", "-c", script]
    spec = {
        "roleName": name,
        "replicas": replicas,
        "minAvailable": replicas,
        "podSpec": {
            "schedulerName": "kai-scheduler",
            "securityContext": {"fsGroup": 1000},
            "containers": [container],
            "terminationGracePeriodSeconds": 60,
            "volumes": [{"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}}],
        },
    }
    return {"name": name, "labels": {"kai.scheduler/queue": "dynamo"} | labels, "spec": spec} | extra


def dynamo_object() -> dict[str, Any]:
    def labels(component: str) -> dict[str, str]:
        return {
            "nvidia.com/dynamo-graph-deployment-name": "chat70b",
            "nvidia.com/dynamo-component": component,
            "nvidia.com/dynamo-component-type": component.lower(),
            "nvidia.com/dynamo-namespace": "serve-chat70b",
            "nvidia.com/dynamo-worker-hash": "1a2b3c4d",
        }

    leader = (
        "exec engine --host $(GROVE_PCSG_NAME)-$(GROVE_PCSG_INDEX)-prefill-ldr-0.$(GROVE_HEADLESS_SERVICE) --rank 0"
    )
    worker = "exec engine --rank $((GROVE_PCLQ_POD_INDEX + 1))"
    rack = {"pack": {"required": "rack"}}
    template = {
        "cliqueStartupType": "CliqueStartupTypeAnyOrder",
        "headlessServiceConfig": {"publishNotReadyAddresses": True},
        "terminationDelay": "15m0s",
        "topologyConstraint": {"topologyName": "gpu-topo", "pack": {"required": "block"}},
        "cliques": [
            dynamo_clique("frontend", 1, labels("Frontend") | {"nvidia.com/metrics-enabled": "true"}),
            dynamo_clique(
                "prefill-ldr",
                1,
                labels("prefill"),
                leader,
                annotations={"nvidia.com/restartAt": "2026-09-01T00:00:00Z"},
            ),
            dynamo_clique("prefill-wkr", 1, labels("prefill"), worker),
            dynamo_clique("decode-ldr", 1, labels("decode"), leader),
            dynamo_clique("decode-wkr", 3, labels("decode"), worker),
        ],
        "podCliqueScalingGroups": [
            {
                "name": name,
                "cliqueNames": [f"{name}-ldr", f"{name}-wkr"],
                "replicas": replicas,
                "minAvailable": 1,
                "topologyConstraint": rack,
            }
            for name, replicas in (("prefill", 2), ("decode", 1))
        ],
    }
    owner = {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "DynamoGraphDeployment",
        "name": "chat70b",
        "uid": "0b5b8a4e-6f0d-4a7c-9a51-3c6f4f3d2a10",
        "controller": True,
        "blockOwnerDeletion": True,
    }
    obj = make("PodCliqueSet", {"replicas": 1, "template": template}, "chat70b")
    obj["metadata"] |= {
        "labels": {"nvidia.com/dynamo-graph-deployment-name": "chat70b"},
        "annotations": {"nvidia.com/last-applied-generation": "1", "nvidia.com/last-applied-hash": "5f3c"},
        "ownerReferences": [owner],
    }
    return obj


def test_what_dynamo_writes_is_stored_unchanged(cluster: Harness, namespace: str) -> None:
    obj = dynamo_object()
    stored = create(cluster, namespace, obj)
    assert stored["spec"] == obj["spec"], "it writes every default itself"
    for key in ("labels", "annotations", "ownerReferences"):
        assert stored["metadata"][key] == obj["metadata"][key]
    assert stored["metadata"]["generation"] == 1, "the generation Dynamo expects after a create"
    again = cluster.api("PUT", f"{collection('PodCliqueSet', namespace)}/chat70b", stored)
    assert again["metadata"]["generation"] == 1, "writing the same again is no change"
    stored["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 0
    changed = cluster.api("PUT", f"{collection('PodCliqueSet', namespace)}/chat70b", stored)
    assert changed["spec"] == stored["spec"], "a closed start-up gate is written as 0 replicas"
    assert changed["metadata"]["generation"] == 2


def test_the_smallest_objects_get_the_documented_defaults(cluster: Harness, namespace: str) -> None:
    template = {
        "cliques": [clique()],
        "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"]}],
        "headlessServiceConfig": {},
    }
    stored = create(cluster, namespace, make("PodCliqueSet", {"template": template, "updateStrategy": {}}))
    assert stored["spec"] == {
        "replicas": 0,
        "updateStrategy": {"type": "RollingRecreate"},
        "template": {
            "cliques": [clique()],
            "cliqueStartupType": "CliqueStartupTypeAnyOrder",
            "headlessServiceConfig": {"publishNotReadyAddresses": True},
            "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"], "replicas": 1, "minAvailable": 1}],
        },
    }
    assert "status" not in stored
    stored = create(cluster, namespace, make("PodCliqueScalingGroup", {"cliqueNames": ["a"]}))
    assert stored["spec"] == {"cliqueNames": ["a"], "replicas": 1, "minAvailable": 1}
    stored = create(cluster, namespace, make("PodClique", {"podSpec": POD_SPEC}))
    assert stored["spec"] == {"podSpec": POD_SPEC}, "absent replicas stay absent"
    stored = create(cluster, namespace, make("PodGang", {"podgroups": []}))
    assert stored["spec"] == {"podgroups": []}


def test_status_counters_default_to_0(cluster: Harness, namespace: str) -> None:
    create(cluster, namespace, make("PodClique", {"podSpec": POD_SPEC}))
    path = f"{collection('PodClique', namespace)}/x/status"
    stored = cluster.api("PATCH", path, {"status": {"observedGeneration": 1}}, "application/merge-patch+json")
    counters = ("readyReplicas", "updatedReplicas", "scheduleGatedReplicas", "scheduledReplicas")
    assert stored["status"] == {"observedGeneration": 1, **dict.fromkeys(counters, 0)}


def full_pod_spec() -> dict[str, Any]:
    """A pod that uses a bit of everything, written with every default of its own that a CRD could set."""
    term = {
        "labelSelector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]},
        "topologyKey": "kubernetes.io/hostname",
    }
    container = {
        "name": "main",
        "image": "busybox:stable",
        "args": ["$(RANK)"],
        "env": [
            {"name": "RANK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['x']"}}},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
        ],
        "envFrom": [{"configMapRef": {"name": "c"}, "prefix": "C_"}],
        "ports": [{"containerPort": 53, "protocol": "UDP"}, {"containerPort": 53, "protocol": "TCP", "name": "dns"}],
        "resources": {
            "limits": {"nvidia.com/gpu": 8, "memory": "1.5Gi", "cpu": "2"},
            "requests": {"cpu": "100m", "memory": "1e9", "nvidia.com/gpu": 8},
            "claims": [{"name": "device"}],
        },
        "readinessProbe": {"tcpSocket": {"port": 53}, "failureThreshold": 2},
        "livenessProbe": {"httpGet": {"port": "dns", "httpHeaders": [{"name": "h", "value": "v"}]}},
        "startupProbe": {"grpc": {"port": 53, "service": "s"}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 5}}},
        "securityContext": {"capabilities": {"add": ["IPC_LOCK"]}, "runAsUser": 0, "readOnlyRootFilesystem": True},
        "volumeMounts": [{"name": "scratch", "mountPath": "/scratch", "subPathExpr": "$(RANK)"}],
        "restartPolicy": "Always",
    }
    claim = {
        "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Ti"}}},
    }
    return {
        "initContainers": [container | {"name": "sidecar", "resources": {}}],
        "containers": [{key: value for key, value in container.items() if key != "restartPolicy"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "gpu", "operator": "Gt", "values": ["7"]}]}]
                }
            },
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": term}]
            },
        },
        "tolerations": [{"operator": "Exists"}, {"key": "k", "effect": "NoExecute", "tolerationSeconds": 0}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
        ],
        "volumes": [
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": claim}},
            {"name": "memory", "emptyDir": {"medium": "Memory", "sizeLimit": "64Gi"}},
            {"name": "info", "downwardAPI": {"items": [{"path": "p", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            {"name": "host", "hostPath": {"path": "/dev", "type": ""}},
            {
                "name": "all",
                "projected": {
                    "sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}}],
                    "defaultMode": 0o400,
                },
            },
        ],
        "resourceClaims": [{"name": "device", "resourceClaimTemplateName": "t"}],
        "schedulingGates": [{"name": "example.com/hold"}],
        "imagePullSecrets": [{"name": "pull"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
        "nodeSelector": {"type": "kwok"},
        "terminationGracePeriodSeconds": 30,
        "automountServiceAccountToken": False,
        "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1024"}], "fsGroup": 0},
    }


def test_a_pod_spec_is_kept_to_the_letter(cluster: Harness, namespace: str) -> None:
    spec = full_pod_spec()
    pod = {"metadata": {"name": "x"}, "spec": spec}
    cluster.api("POST", f"/api/v1/namespaces/{namespace}/pods{STRICT}&dryRun=All", pod)  # it is a pod indeed
    stored = create(cluster, namespace, make("PodClique", {"podSpec": spec}))
    assert stored["spec"]["podSpec"] == spec
    stored = create(cluster, namespace, pcs({"cliques": [clique(spec={"podSpec": spec})]}))
    assert stored["spec"]["template"]["cliques"][0]["spec"]["podSpec"] == spec


def test_list_keys_merge_what_two_appliers_own(cluster: Harness, namespace: str) -> None:
    def apply(manager: str, container: dict[str, Any]) -> Any:
        obj = make("PodClique", {"podSpec": {"containers": [{"name": "main"} | container]}})
        path = f"{collection('PodClique', namespace)}/x?fieldManager={manager}"
        return cluster.api("PATCH", path, obj, "application/apply-patch+yaml")

    apply("one", {"env": [{"name": "A", "value": "1"}], "ports": [{"containerPort": 80}]})
    stored = apply("two", {"env": [{"name": "B", "value": "2"}], "ports": [{"containerPort": 80, "protocol": "UDP"}]})
    (container,) = stored["spec"]["podSpec"]["containers"]
    assert container["env"] == [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]
    assert container["ports"] == [{"containerPort": 80, "protocol": "TCP"}, {"containerPort": 80, "protocol": "UDP"}]


def test_each_writer_owns_its_own_conditions(cluster: Harness, namespace: str) -> None:
    create(cluster, namespace, make("PodGang", {"podgroups": []}))

    def apply(manager: str, condition_type: str) -> Any:
        condition = {
            "type": condition_type,
            "status": "True",
            "reason": "R",
            "message": "",
            "lastTransitionTime": "2026-09-01T00:00:00Z",
        }
        obj = {
            "apiVersion": "scheduler.grove.io/v1alpha1",
            "kind": "PodGang",
            "metadata": {"name": "x"},
            "status": {"conditions": [condition]},
        }
        path = f"{collection('PodGang', namespace)}/x/status?fieldManager={manager}"
        return cluster.api("PATCH", path, obj, "application/apply-patch+yaml")

    apply("operator", "Initialized")
    stored = apply("scheduler", "Scheduled")
    assert [item["type"] for item in stored["status"]["conditions"]] == ["Initialized", "Scheduled"]


def test_claim_templates_as_go_clients_write_them(cluster: Harness, namespace: str) -> None:
    template = {
        "metadata": {"creationTimestamp": None, "labels": {"a": "b"}},
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com", "count": 2}}],
                "config": [
                    {"opaque": {"driver": "gpu.example.com", "parameters": {"kind": "Config", "sharing": {"max": 4}}}}
                ],
            }
        },
    }
    stored = create(cluster, namespace, pcs({"resourceClaimTemplates": [{"name": "t", "templateSpec": template}]}))
    assert stored["spec"]["template"]["resourceClaimTemplates"][0]["templateSpec"] == template


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
    obj = pcs({"topologyConstraint": {"pack": {"required": "rack"}}, "cliques": [clique(), clique("b")]})
    stored = create(cluster, namespace, obj)
    stored["spec"]["template"]["topologyConstraint"] = {"packDomain": "rack"}
    stored["spec"]["template"]["cliques"][1]["topologyConstraint"] = {"packDomain": "host"}
    path = f"{collection('PodCliqueSet', namespace)}/x"
    old = cluster.api("PUT", path, stored)
    old["spec"]["replicas"] = 2
    assert cluster.api("PUT", path, old)["spec"]["replicas"] == 2


def scalable(kind: str, replicas: int | None, min_available: int | None) -> dict[str, Any]:
    spec: dict[str, Any] = {"cliqueNames": ["a"]} if kind == "PodCliqueScalingGroup" else {"podSpec": POD_SPEC}
    numbers = {"replicas": replicas, "minAvailable": min_available}
    return make(kind, spec | {key: number for key, number in numbers.items() if number is not None})


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


def headings_and_values(cluster: Harness, namespace: str, resource: str, wide: bool) -> dict[str, str]:
    """The line of `kubectl get` for the object x, by heading."""
    output = cluster.kubectl("get", "-n", namespace, resource, "x", *(["-o", "wide"] if wide else []))
    headings, values = output.splitlines()
    starts = [headings.index(word) for word in headings.split()]
    ends = [*starts[1:], None]
    return {headings[start:end].strip(): values[start:end].strip() for start, end in zip(starts, ends, strict=True)}


CONDITION = {
    "type": "MinAvailableBreached",
    "status": "False",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-09-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("short_name", "obj", "status", "expected", "wide"),
    [
        (
            "pcs",
            pcs({}),
            {
                "availableReplicas": 2,
                "updatedReplicas": 3,
                "updateProgress": {
                    "updatedPodCliquesCount": 4,
                    "totalPodCliquesCount": 5,
                    "updatedPodCliqueScalingGroupsCount": 6,
                    "totalPodCliqueScalingGroupsCount": 7,
                },
            },
            {
                "REPLICAS": "1",
                "AVAILABLE": "2",
                "UPDATED": "3",
                "PCLQS-UPDATED": "4",
                "PCLQS-TOTAL": "5",
                "PCSGS-UPDATED": "6",
                "PCSGS-TOTAL": "7",
            },
            {},
        ),
        (
            "pclq",
            scalable("PodClique", 2, 1),
            {
                "readyReplicas": 3,
                "scheduledReplicas": 4,
                "updatedReplicas": 5,
                "scheduleGatedReplicas": 6,
                "conditions": [CONDITION],
            },
            {"MINAVAIL": "1", "REPLICAS": "2", "READY": "3", "SCHEDULED": "4", "UPDATED": "5"},
            {"GATED": "6", "MINBREACHED": "False"},
        ),
        (
            "pcsg",
            scalable("PodCliqueScalingGroup", 2, 1),
            {
                "availableReplicas": 3,
                "scheduledReplicas": 4,
                "updatedReplicas": 5,
                "conditions": [CONDITION],
                "updateProgress": {
                    "updateStartedAt": "2026-09-01T00:00:00Z",
                    "podCliqueSetGenerationHash": "h",
                    "updatedPodCliquesCount": 6,
                    "totalPodCliquesCount": 7,
                },
            },
            {
                "MINAVAIL": "1",
                "REPLICAS": "2",
                "AVAILABLE": "3",
                "SCHEDULED": "4",
                "UPDATED": "5",
                "PCLQS-UPDATED": "6",
                "PCLQS-TOTAL": "7",
            },
            {"MINBREACHED": "False"},
        ),
        ("pg", make("PodGang", {"podgroups": []}), {"phase": "Running"}, {"PHASE": "Running"}, {}),
    ],
    ids=["pcs", "pclq", "pcsg", "pg"],
)
def test_columns(
    cluster: Harness,
    namespace: str,
    short_name: str,
    obj: dict[str, Any],
    status: dict[str, Any],
    expected: dict[str, str],
    wide: dict[str, str],
) -> None:
    create(cluster, namespace, obj)
    path = f"{collection(obj['kind'], namespace)}/x/status"
    cluster.api("PATCH", path, {"status": status}, "application/merge-patch+json")
    line = headings_and_values(cluster, namespace, short_name, wide=False)
    assert line.pop("AGE")
    assert line == {"NAME": "x"} | expected
    line = headings_and_values(cluster, namespace, short_name, wide=True)
    assert line.pop("AGE")
    assert line == {"NAME": "x"} | expected | wide


def test_columns_of_a_topology(cluster: Harness, namespace: str) -> None:
    """Cluster-scoped; named after the namespace, so that it meets no other test's."""
    levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}, {"domain": "rack", "key": "rack"}]
    create(cluster, namespace, make("ClusterTopologyBinding", {"levels": levels}, namespace))
    headings, values = cluster.kubectl("get", "ct", namespace).splitlines()
    assert headings.split() == ["NAME", "DOMAINS", "AGE"]
    assert values.split()[:2] == [namespace, "zone"]
    cluster.api("DELETE", f"{collection('ClusterTopologyBinding', namespace)}/{namespace}")


def test_get_grove_lists_every_kind(cluster: Harness, namespace: str) -> None:
    create(cluster, namespace, pcs({}, "a-set"))
    create(cluster, namespace, make("PodGang", {"podgroups": []}, "a-gang"))
    names = cluster.kubectl("get", "grove", "-n", namespace, "-o", "name").split()
    assert "podcliqueset.grove.io/a-set" in names
    assert "podgang.scheduler.grove.io/a-gang" in names
