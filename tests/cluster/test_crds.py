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
from tests.cluster.objects import POD_SPEC, STRICT, clique, collection, create, make, pcs

pytestmark = pytest.mark.usefixtures("crds")

SAMPLES = sorted((ROOT / "samples").rglob("*.yaml"))


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
