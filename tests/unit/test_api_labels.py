"""Strings that others match on are written out here once more: a change in one place alone is a mistake."""

from __future__ import annotations

import re
from enum import StrEnum

import pytest

from grove.api import labels

CONSTANTS = {
    "GROVE_GROUP": "grove.io",
    "SCHEDULER_GROUP": "scheduler.grove.io",
    "API_VERSION": "grove.io/v1alpha1",
    "SCHEDULER_API_VERSION": "scheduler.grove.io/v1alpha1",
    "MANAGED_BY": "app.kubernetes.io/managed-by",
    "MANAGED_BY_GROVE": "grove-operator",
    "PART_OF": "app.kubernetes.io/part-of",
    "NAME": "app.kubernetes.io/name",
    "COMPONENT": "app.kubernetes.io/component",
    "GROVE_PREFIX": "grove.io/",
    "KUBECTL_PREFIX": "kubectl.kubernetes.io/",
    "PODCLIQUE": "grove.io/podclique",
    "PODGANG": "grove.io/podgang",
    "BASE_PODGANG": "grove.io/base-podgang",
    "PODCLIQUESET_REPLICA_INDEX": "grove.io/podcliqueset-replica-index",
    "SCALING_GROUP": "grove.io/podcliquescalinggroup",
    "SCALING_GROUP_REPLICA_INDEX": "grove.io/podcliquescalinggroup-replica-index",
    "SCALING_GROUP_POD_INDEX": "grove.io/podcliquescalinggroup-pod-index",
    "POD_INDEX": "grove.io/podclique-pod-index",
    "POD_TEMPLATE_HASH": "grove.io/pod-template-hash",
    "SCALING_GROUP_TEMPLATE_HASH": "grove.io/podcliquescalinggroup-template-hash",
    "SCHEDULER_NAME": "grove.io/scheduler-name",
    "TEMPLATE_REPLICAS": "grove.io/template-replicas",
    "TEMPLATE_QUEUE": "grove.io/template-queue",
    "ADOPTED_TEMPLATE_HASH": "grove.io/adopted-template-hash",
    "MNNVL_GROUP": "grove.io/mnnvl-group",
    "MNNVL_GROUP_NONE": "none",
    "DISABLE_PROTECTION": "grove.io/disable-managed-resource-protection",
    "RECONCILE_TRIGGER": "grove.io/reconcile-trigger",
    "TOPOLOGY_NAME": "grove.io/topology-name",
    "TOPOLOGY_LEVELS": "grove.io/topology-levels",
    "STARTUP": "grove.io/startup",
    "STARTUP_RELEASED": "released",
    "STARTUP_WAITING_FOR": "grove.io/startup-waiting-for",
    "KAI_SUBGROUP_NAME": "kai.scheduler/subgroup-name",
    "KAI_QUEUE": "kai.scheduler/queue",
    "KAI_NODE_POOL": "kai.scheduler/node-pool",
    "KAI_PREEMPTIBILITY": "kai.scheduler/preemptibility",
    "KAI_TOPOLOGY": "kai.scheduler/topology",
    "KAI_SKIP_PODGROUPER": "kai.scheduler/skip-podgrouper",
    "KAI_POD_GROUP_NAME": "pod-group-name",
    "VOLCANO_QUEUE": "scheduling.grove.io/volcano-queue",
    "VOLCANO_DEFAULT_QUEUE": "default",
    "VOLCANO_GROUP_NAME": "scheduling.volcano.sh/group-name",
    "KUBERNETES_GROUP_NAME": "scheduling.k8s.io/group-name",
    "PODCLIQUESET_FINALIZER": "grove.io/podcliqueset.grove.io",
    "SCALING_GROUP_FINALIZER": "grove.io/podcliquescalinggroup.grove.io",
    "PODCLIQUE_FINALIZER": "grove.io/podclique.grove.io",
    "COMPUTE_DOMAIN_FINALIZER": "grove.io/computedomain-finalizer",
    "POD_GATE": "grove.io/podgang-pending-creation",
    "INIT_CONTAINER": "grove-initc",
    "POD_INFO_VOLUME": "pod-info-vol",
    "POD_INFO_PATH": "/var/grove/pod-info",
    "GPU_RESOURCE": "nvidia.com/gpu",
    "MNNVL_CLAIM": "mnnvl-claim",
    "DEFAULT_SCHEDULER": "default-scheduler",
    "DEFAULT_TERMINATION_DELAY": "4h",
    "INVALID_SPEC": "ERR_INVALID_SPEC",
    "MAX_NAME_LENGTH": 45,
}

ENUMERATIONS: dict[type[StrEnum], str] = {
    labels.Component: """
        pcs-headless-service pod-role pod-role-binding pod-service-account pod-sa-token-secret
        pcs-podcliquescalinggroup pcs-hpa podgang pcs-podclique pcsg-podclique resource-claim pcs-computedomain
    """,
    labels.Env: """
        GROVE_PCS_NAME GROVE_PCS_INDEX GROVE_PCLQ_NAME GROVE_HEADLESS_SERVICE GROVE_PCLQ_POD_INDEX
        GROVE_PCSG_NAME GROVE_PCSG_TEMPLATE_NUM_PODS GROVE_PCSG_INDEX GROVE_PCSG_POD_INDEX
    """,
    labels.OperatorEnv: "GROVE_INIT_CONTAINER_IMAGE GROVE_OPERATOR_SERVICE_ACCOUNT_NAME",
    labels.ConditionType: """
        UpdateInProgress TopologyLevelsUnavailable PodCliqueScheduled MinAvailableBreached GangTerminationInProgress
        StartupReleased SchedulerTopologyDrift Initialized Scheduled Ready Unhealthy DisruptionTarget GangGuaranteed
    """,
    labels.Reason: """
        TopologyAwareSchedulingDisabled AllClusterTopologyLevelsAvailable TopologyNameMissing ClusterTopologyNotFound
        ClusterTopologyLevelsUnavailable SchedulerIgnoresTopology
        SufficientScheduledPods InsufficientScheduledPods ProgressDeadlineExceeded
        UpdateFinished OnDelete UpdateInProgress
        ScheduledReplicasBelowMinAvailable InsufficientReadyPods SufficientReadyPods
        InsufficientAvailablePodCliqueScalingGroupReplicas SufficientAvailablePodCliqueScalingGroupReplicas
        GangTerminationActive MinAvailableReached GangTerminationEnded WaitingForParents ParentsReady
        PodGangPodsCreationPending PodGangPodsCreated
        MinimumPlaced MinimumReady Waiting WaitingForBaseGang WaitingForOtherPods SchedulingGated Unschedulable
        CompositePodGroup PodGroup NoGangScheduling NoProfile PodsOutsideGroups
        InSync Drift TopologyNotFound
    """,
    labels.EventReason: """
        PodCreateSuccessful PodCreateFailed PodDeleteSuccessful PodDeleteFailed AllScheduledReplicasLost
        PodCliqueCreateSuccessful PodCliqueCreateFailed PodCliqueCreateOrUpdateSuccessful
        PodCliqueCreateOrUpdateFailed PodCliqueDeleteSuccessful PodCliqueDeleteFailed
        PodCliqueScalingGroupCreateSuccessful PodCliqueScalingGroupCreateOrUpdateFailed
        PodCliqueScalingGroupDeleteSuccessful PodCliqueScalingGroupDeleteFailed
        PodCliqueScalingGroupReplicaDeleteSuccessful PodCliqueScalingGroupReplicaDeleteFailed
        PodGangCreateOrUpdateSuccessful PodGangCreateOrUpdateFailed PodGangDeleteSuccessful PodGangDeleteFailed
        UpdateStarted ReplicaUpdateStarted UpdateFinished
        PodCliqueSetReplicaDeleteSuccessful PodCliqueSetReplicaDeleteFailed
        ProgressDeadlineExceeded PodGangPending PodGangUnhealthy NoGangGuarantee InvalidSpec SchedulerUnavailable
        ComputeDomainCreateSuccessful ComputeDomainCreateFailed ComputeDomainDeleteSuccessful
        ComputeDomainDeleteFailed KAIBackendMappingFailed VolcanoCapabilityUnavailable
        TopologyInSync TopologyDriftDetected
    """,
}


def test_constants() -> None:
    actual = {name: value for name, value in vars(labels).items() if name.isupper()}
    assert actual == CONSTANTS


@pytest.mark.parametrize("enumeration", ENUMERATIONS, ids=lambda enumeration: enumeration.__name__)
def test_enumerations(enumeration: type[StrEnum]) -> None:
    assert [*enumeration] == ENUMERATIONS[enumeration].split()


KEYS = [value for value in CONSTANTS.values() if isinstance(value, str) and "/" in value.strip("/") and value[0] != "/"]


@pytest.mark.parametrize("key", sorted(set(KEYS)))
def test_keys_are_valid_in_kubernetes(key: str) -> None:
    """A qualified name: a DNS prefix, and a name of at most 63 characters."""
    assert re.fullmatch(r"[a-z0-9.-]{1,253}/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", key)
