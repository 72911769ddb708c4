"""The models read what the API server sends, keep what they do not know, and default what the API documents."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from grove.api.base import Condition, Resource, find_condition
from grove.api.cel import cel
from grove.api.clustertopologybinding import ClusterTopologyBinding, TopologyDomain
from grove.api.podclique import PodClique, PodCliqueSpec
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import (
    CliqueStartupType,
    HeadlessServiceConfig,
    PodCliqueSet,
    UpdateStrategy,
    UpdateStrategyType,
)
from grove.api.podgang import PodGang, PodGangPhase
from grove.api.resourcesharing import ResourceSharingScope
from grove.api.topologyconstraint import TopologyConstraint

POD_SPEC = {"containers": [{"name": "main", "image": "busybox:stable", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
TIME = "2026-09-01T00:00:00Z"
CONDITION = {
    "type": "MinAvailableBreached",
    "status": "False",
    "reason": "SufficientReadyPods",
    "message": "3 of 3",
    "lastTransitionTime": TIME,
    "observedGeneration": 4,
}
LAST_ERROR = {"code": "ERR_CREATE_POD", "description": "quota", "observedAt": TIME}
METRIC = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}}
AUTO_SCALING = {"minReplicas": 2, "maxReplicas": 5, "metrics": [METRIC]}
TOPOLOGY = {"topologyName": "gpu", "pack": {"required": "block", "preferred": "rack"}}


def metadata(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "namespace": "serve",
        "uid": "u-1",
        "resourceVersion": "1042",
        "generation": 3,
        "creationTimestamp": TIME,
        "labels": {"app": "chat"},
        "annotations": {"note": "größe"},
        "finalizers": ["example.com/hold"],
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "other", "uid": "u-8"},
            {
                "apiVersion": "example.com/v1",
                "kind": "Deployment",
                "name": "chat",
                "uid": "u-9",
                "controller": True,
                "blockOwnerDeletion": True,
            },
        ],
    }


def podcliqueset() -> dict[str, Any]:
    clique = {
        "name": "worker",
        "labels": {"role": "w"},
        "annotations": {"a": "b"},
        "topologyConstraint": TOPOLOGY,
        "resourceSharing": [{"name": "gpus", "namespace": "infra", "scope": "PerReplica"}],
        "spec": {
            "roleName": "worker",
            "podSpec": POD_SPEC,
            "replicas": 3,
            "minAvailable": 2,
            "startsAfter": ["leader"],
            "autoScalingConfig": AUTO_SCALING,
        },
    }
    group = {
        "name": "prefill",
        "cliqueNames": ["worker"],
        "annotations": {"c": "d"},
        "replicas": 2,
        "minAvailable": 1,
        "scaleConfig": AUTO_SCALING,
        "resourceSharing": [{"name": "gpus", "scope": "AllReplicas", "filter": {"childCliqueNames": ["worker"]}}],
        "topologyConstraint": {"pack": {"required": "rack"}},
    }
    sharing = {
        "name": "gpus",
        "scope": "AllReplicas",
        "filter": {"childCliqueNames": ["worker"], "childScalingGroupNames": ["prefill"]},
    }
    template = {
        "cliques": [clique],
        "cliqueStartupType": "CliqueStartupTypeExplicit",
        "priorityClassName": "high",
        "headlessServiceConfig": {"publishNotReadyAddresses": False},
        "topologyConstraint": TOPOLOGY,
        "terminationDelay": "15m",
        "resourceClaimTemplates": [{"name": "gpus", "templateSpec": {"spec": {"devices": {"requests": []}}}}],
        "resourceSharing": [sharing],
        "podCliqueScalingGroups": [group],
    }
    status = {
        "observedGeneration": 3,
        "conditions": [CONDITION | {"type": "TopologyLevelsUnavailable"}],
        "lastErrors": [LAST_ERROR],
        "replicas": 2,
        "availableReplicas": 1,
        "updatedReplicas": 1,
        "hpaPodSelector": "a=b",
        "podGangStatuses": [{"name": "chat-0", "phase": "Running", "conditions": [CONDITION]}],
        "currentGenerationHash": "abc",
        "updateProgress": {
            "updateStartedAt": TIME,
            "updateEndedAt": TIME,
            "updatedPodCliquesCount": 1,
            "totalPodCliquesCount": 2,
            "updatedPodCliqueScalingGroupsCount": 3,
            "totalPodCliqueScalingGroupsCount": 4,
            "currentlyUpdating": [{"replicaIndex": 1, "updateStartedAt": TIME, "updateEndedAt": TIME}],
        },
    }
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": metadata("chat"),
        "spec": {"replicas": 2, "updateStrategy": {"type": "OnDelete"}, "template": template},
        "status": status,
    }


def podclique() -> dict[str, Any]:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": metadata("chat-0-worker"),
        "spec": {
            "roleName": "worker",
            "podSpec": POD_SPEC,
            "replicas": 3,
            "minAvailable": 2,
            "startsAfter": ["chat-0-leader"],
            "autoScalingConfig": AUTO_SCALING,
        },
        "status": {
            "observedGeneration": 3,
            "lastErrors": [LAST_ERROR],
            "replicas": 3,
            "readyReplicas": 2,
            "updatedReplicas": 1,
            "scheduleGatedReplicas": 1,
            "scheduledReplicas": 2,
            "hpaPodSelector": "a=b",
            "conditions": [CONDITION],
            "currentPodCliqueSetGenerationHash": "abc",
            "currentPodTemplateHash": "def",
            "updateProgress": {
                "updateStartedAt": TIME,
                "updateEndedAt": TIME,
                "podCliqueSetGenerationHash": "abc",
                "podTemplateHash": "def",
                "readyPodsSelectedToUpdate": {"current": "p-2", "completed": ["p-0", "p-1"]},
            },
        },
    }


def scaling_group() -> dict[str, Any]:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueScalingGroup",
        "metadata": metadata("chat-0-prefill"),
        "spec": {"replicas": 4, "minAvailable": 2, "cliqueNames": ["leader", "worker"]},
        "status": {
            "replicas": 4,
            "scheduledReplicas": 3,
            "availableReplicas": 2,
            "updatedReplicas": 1,
            "selector": "a=b",
            "observedGeneration": 3,
            "lastErrors": [LAST_ERROR],
            "conditions": [CONDITION],
            "currentPodCliqueSetGenerationHash": "abc",
            "updateProgress": {
                "updateStartedAt": TIME,
                "updateEndedAt": TIME,
                "podCliqueSetGenerationHash": "abc",
                "updatedPodCliquesCount": 1,
                "totalPodCliquesCount": 8,
                "readyReplicaIndicesSelectedToUpdate": {"current": 1, "completed": [0]},
            },
        },
    }


def topology_binding() -> dict[str, Any]:
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "gpu"},
        "spec": {
            "levels": [{"domain": "zone", "key": "topology.kubernetes.io/zone"}, {"domain": "rack", "key": "rack"}],
            "schedulerTopologyBindings": [{"schedulerName": "kai-scheduler", "topologyReference": "gpu"}],
        },
        "status": {
            "observedGeneration": 1,
            "conditions": [CONDITION | {"type": "SchedulerTopologyDrift"}],
            "schedulerTopologyStatuses": [
                {
                    "schedulerName": "kai-scheduler",
                    "topologyReference": "gpu",
                    "inSync": False,
                    "schedulerBackendTopologyObservedGeneration": 7,
                    "message": "rack is missing",
                }
            ],
        },
    }


def podgang() -> dict[str, Any]:
    pack = {"packConstraint": {"required": "rack", "preferred": "kubernetes.io/hostname"}}
    return {
        "apiVersion": "scheduler.grove.io/v1alpha1",
        "kind": "PodGang",
        "metadata": metadata("chat-0"),
        "spec": {
            "podgroups": [
                {
                    "name": "chat-0-worker",
                    "podReferences": [{"namespace": "serve", "name": "p-0"}],
                    "minReplicas": 1,
                    "topologyConstraint": pack,
                }
            ],
            "topologyConstraint": pack,
            "topologyConstraintGroupConfigs": [
                {"name": "chat-0-prefill-0", "podGroupNames": ["chat-0-worker"], "topologyConstraint": pack}
            ],
            "priorityClassName": "high",
            "reuseReservationRef": {"namespace": "serve", "name": "chat-1"},
        },
        "status": {
            "phase": "Running",
            "conditions": [CONDITION | {"type": "Initialized"}],
            "placementScore": 0.75,
        },
    }


FULL: list[tuple[type[Resource], Callable[[], dict[str, Any]]]] = [
    (PodCliqueSet, podcliqueset),
    (PodClique, podclique),
    (PodCliqueScalingGroup, scaling_group),
    (ClusterTopologyBinding, topology_binding),
    (PodGang, podgang),
]
KINDS = pytest.mark.parametrize(("model", "make"), FULL, ids=[model.__name__ for model, _ in FULL])


def unknown_fields(model: Any, path: str = "") -> list[str]:
    """Paths of fields that the models do not know: the wire had them, no attribute has."""
    if isinstance(model, tuple):
        return [name for item in model for name in unknown_fields(item, path)]
    if not hasattr(model, "model_extra"):
        return []
    found = [f"{path}.{name}" for name in model.model_extra or ()]
    for name in type(model).model_fields:
        found += unknown_fields(getattr(model, name), f"{path}.{name}")
    return found


@KINDS
def test_a_full_object_survives_the_round_trip(model: type[Resource], make: Callable[[], dict[str, Any]]) -> None:
    assert model.from_wire(make()).to_wire() == make()


@KINDS
def test_every_field_of_a_full_object_is_an_attribute(
    model: type[Resource], make: Callable[[], dict[str, Any]]
) -> None:
    assert unknown_fields(model.from_wire(make())) == []


@KINDS
def test_reading_leaves_the_object_alone_and_keeps_it(
    model: type[Resource], make: Callable[[], dict[str, Any]]
) -> None:
    obj = make()
    resource = model.from_wire(obj)
    assert resource.wire is obj
    assert obj == make()


@KINDS
def test_models_cannot_be_changed(model: type[Resource], make: Callable[[], dict[str, Any]]) -> None:
    with pytest.raises(ValidationError):
        model.from_wire(make()).metadata = None  # type: ignore[assignment, misc]


@KINDS
def test_unknown_fields_survive_at_every_level(model: type[Resource], make: Callable[[], dict[str, Any]]) -> None:
    def sprinkle(value: Any) -> Any:
        if isinstance(value, list):
            return [sprinkle(item) for item in value]
        if not isinstance(value, dict):
            return value
        sprinkled = {key: sprinkle(item) for key, item in value.items()}
        if all(isinstance(item, str) for item in value.values()):
            return sprinkled  # a map of labels has no place for them
        return sprinkled | {"fromTheFuture": {"x": [1, None]}}

    obj = sprinkle(make())
    assert model.from_wire(copy.deepcopy(obj)).to_wire() == obj


def test_snake_case_on_this_side_camel_case_on_the_wire() -> None:
    pcs = PodCliqueSet.from_wire(podcliqueset())
    assert pcs.spec.template.cliques[0].spec.min_available == 2
    assert pcs.spec.template.pod_clique_scaling_groups[0].scale_config is not None
    assert pcs.spec.template.pod_clique_scaling_groups[0].scale_config.min_replicas == 2
    assert pcs.status.update_progress is not None
    assert pcs.status.update_progress.total_pod_clique_scaling_groups_count == 4
    gang = PodGang.from_wire(podgang())
    assert gang.spec.podgroups[0].min_replicas == 1


def test_what_every_object_tells_about_itself() -> None:
    obj = podclique()
    pclq = PodClique.from_wire(obj)
    assert (pclq.namespace, pclq.name, pclq.uid) == ("serve", "chat-0-worker", "u-1")
    assert pclq.resource_version == 1042
    assert pclq.generation == 3
    assert pclq.labels == {"app": "chat"}
    assert pclq.annotations == {"note": "größe"}
    assert pclq.owner_uid == "u-9", "the controller, not the first owner"
    assert not pclq.deleting
    obj["metadata"]["deletionTimestamp"] = TIME
    assert PodClique.from_wire(obj).deleting


def test_an_object_without_metadata_has_empty_values() -> None:
    pclq = PodClique.from_wire({"spec": {"podSpec": {}}})
    assert (pclq.namespace, pclq.name, pclq.uid, pclq.owner_uid) == ("", "", "", "")
    assert pclq.resource_version == 0
    assert pclq.labels == {}
    assert pclq.status.conditions == ()


def test_the_smallest_set_has_the_documented_defaults() -> None:
    pcs = PodCliqueSet.from_wire(
        {
            "spec": {
                "template": {
                    "cliques": [{"name": "a", "spec": {"podSpec": {}}}],
                    "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["a"]}],
                }
            }
        }
    )
    assert pcs.spec.replicas == 0
    assert pcs.spec.update_strategy is None
    template = pcs.spec.template
    assert template.clique_startup_type.value == "CliqueStartupTypeAnyOrder"
    assert template.termination_delay is None
    assert template.headless_service_config is None
    assert template.cliques[0].spec.role_name == ""
    assert template.pod_clique_scaling_groups[0].replicas == 1
    assert template.pod_clique_scaling_groups[0].min_available == 1
    assert UpdateStrategy().type.value == "RollingRecreate"
    assert HeadlessServiceConfig().publish_not_ready_addresses is True


@pytest.mark.parametrize(("written", "read"), [({}, None), ({"replicas": None}, None), ({"replicas": 0}, 0)])
def test_an_absent_number_of_replicas_is_not_the_number_0(written: dict[str, Any], read: int | None) -> None:
    assert PodClique.from_wire({"spec": {"podSpec": {}, **written}}).spec.replicas == read


def test_nulls_are_read_as_absent() -> None:
    obj = podcliqueset()
    obj["status"] = None
    obj["metadata"] |= {"labels": None, "creationTimestamp": None, "ownerReferences": None}
    obj["spec"]["replicas"] = None
    obj["spec"]["template"] |= {"podCliqueScalingGroups": None, "cliqueStartupType": None}
    obj["spec"]["template"]["cliques"][0] |= {"labels": None, "topologyConstraint": None}
    obj["spec"]["template"]["cliques"][0]["spec"] |= {"startsAfter": None, "roleName": None}
    before = copy.deepcopy(obj)
    pcs = PodCliqueSet.from_wire(obj)
    assert pcs.status.replicas == 0
    assert pcs.labels == {}
    assert pcs.owner_uid == ""
    assert pcs.spec.replicas == 0
    assert pcs.spec.template.pod_clique_scaling_groups == ()
    assert pcs.spec.template.clique_startup_type is CliqueStartupType.ANY_ORDER
    assert pcs.spec.template.cliques[0].labels == {}
    assert pcs.spec.template.cliques[0].spec.starts_after == ()
    assert obj == before
    assert pcs.wire is obj


def test_nulls_in_a_pod_spec_stay_whatever_else_is_null() -> None:
    pod_spec = {"containers": [], "volumes": [{"name": "v", "emptyDir": None}]}
    obj = {"metadata": {"labels": None}, "spec": {"podSpec": pod_spec}}
    assert PodClique.from_wire(obj).spec.pod_spec == pod_spec


def test_an_object_made_in_code_says_what_it_is() -> None:
    pcs = PodCliqueSet.model_validate({"spec": {"template": {"cliques": []}}})
    assert pcs.wire == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "spec": {"template": {"cliques": []}},
    }
    gang = PodGang.model_validate({"spec": {"podgroups": []}})
    assert gang.wire["apiVersion"] == "scheduler.grove.io/v1alpha1"


def test_only_what_was_set_is_written() -> None:
    spec = PodCliqueSpec(pod_spec={"containers": [], "volumes": [{"emptyDir": None}]}, replicas=0, min_available=None)
    assert spec.to_wire() == {"podSpec": {"containers": [], "volumes": [{"emptyDir": None}]}, "replicas": 0}


def test_required_and_preferred_domain() -> None:
    assert TopologyConstraint.model_validate({"pack": {"required": "rack"}}).required == "rack"
    assert TopologyConstraint.model_validate({"packDomain": "rack"}).required == "rack"
    assert TopologyConstraint.model_validate({"pack": {"preferred": "host"}, "packDomain": "rack"}).required == "rack"
    assert TopologyConstraint.model_validate({"pack": {"preferred": "host"}}).preferred == "host"
    assert TopologyConstraint.model_validate({"packDomain": "rack"}).preferred is None
    assert TopologyConstraint.model_validate({}).required is None


def test_find_condition() -> None:
    condition = Condition.model_validate(CONDITION)
    assert find_condition([condition], "MinAvailableBreached") is condition
    assert find_condition([condition], "PodCliqueScheduled") is None


def test_enumerations() -> None:
    assert [*UpdateStrategyType] == ["RollingRecreate", "OnDelete"]
    assert [*ResourceSharingScope] == ["AllReplicas", "PerReplica"]
    assert [*PodGangPhase] == ["Pending", "Starting", "Running", "Failed", "Succeeded"]
    assert [*TopologyDomain] == ["region", "zone", "datacenter", "block", "rack", "host", "numa"]


def test_a_cel_rule_says_only_what_is_set() -> None:
    assert cel("self > 0", "be positive") == {"rule": "self > 0", "message": "be positive"}
    assert cel("r", "m", field=".f", reason="FieldValueRequired", on_create=True) == {
        "rule": "r",
        "message": "m",
        "fieldPath": ".f",
        "reason": "FieldValueRequired",
        "optionalOldSelf": True,
    }
