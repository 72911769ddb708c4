"""Every string that others match on: API groups, labels, annotations, finalizers, gates, environment variables,
condition types and reasons, event reasons. Part of the API: never change one.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

# API groups
GROVE_GROUP: Final[str] = "grove.io"
SCHEDULER_GROUP: Final[str] = "scheduler.grove.io"
API_VERSION: Final[str] = "grove.io/v1alpha1"
SCHEDULER_API_VERSION: Final[str] = "scheduler.grove.io/v1alpha1"

# Labels of every managed object
MANAGED_BY: Final[str] = "app.kubernetes.io/managed-by"
MANAGED_BY_GROVE: Final[str] = "grove-operator"
PART_OF: Final[str] = "app.kubernetes.io/part-of"
NAME: Final[str] = "app.kubernetes.io/name"
COMPONENT: Final[str] = "app.kubernetes.io/component"

# Labels that say where an object belongs
GROVE_PREFIX: Final[str] = "grove.io/"
PODCLIQUE: Final[str] = "grove.io/podclique"
PODGANG: Final[str] = "grove.io/podgang"
BASE_PODGANG: Final[str] = "grove.io/base-podgang"
PODCLIQUESET_REPLICA_INDEX: Final[str] = "grove.io/podcliqueset-replica-index"
SCALING_GROUP: Final[str] = "grove.io/podcliquescalinggroup"
SCALING_GROUP_REPLICA_INDEX: Final[str] = "grove.io/podcliquescalinggroup-replica-index"
SCALING_GROUP_POD_INDEX: Final[str] = "grove.io/podcliquescalinggroup-pod-index"
POD_INDEX: Final[str] = "grove.io/podclique-pod-index"
POD_TEMPLATE_HASH: Final[str] = "grove.io/pod-template-hash"
SCALING_GROUP_TEMPLATE_HASH: Final[str] = "grove.io/podcliquescalinggroup-template-hash"
"""On pods of a scaling group: names the templates of all its cliques, since a replica of it is updated as a whole."""
SCHEDULER_NAME: Final[str] = "grove.io/scheduler-name"

# Annotations
MNNVL_GROUP: Final[str] = "grove.io/mnnvl-group"
"""Annotation on sets, scaling groups and cliques, label on ComputeDomains; the value `none` opts out."""
MNNVL_GROUP_NONE: Final[str] = "none"
DISABLE_PROTECTION: Final[str] = "grove.io/disable-managed-resource-protection"
RECONCILE_TRIGGER: Final[str] = "grove.io/reconcile-trigger"
TOPOLOGY_NAME: Final[str] = "grove.io/topology-name"
TOPOLOGY_LEVELS: Final[str] = "grove.io/topology-levels"
TEMPLATE_REPLICAS: Final[str] = "grove.io/template-replicas"
"""On PodCliques and PodCliqueScalingGroups: the template's replicas when they were last applied (three-way merge)."""
TEMPLATE_QUEUE: Final[str] = "grove.io/template-queue"
"""On PodGroups of KAI: the queue the set named when it was last applied (three-way merge)."""
ADOPTED_TEMPLATE_HASH: Final[str] = "grove.io/adopted-template-hash"
"""On PodCliques of the Go operator, `<its hash>=<ours>`: pods that carry the former run what the latter names."""
STARTUP: Final[str] = "grove.io/startup"
"""On a pod that waits for others to start first; the operator sets it to `STARTUP_RELEASED`."""
STARTUP_RELEASED: Final[str] = "released"
STARTUP_WAITING_FOR: Final[str] = "grove.io/startup-waiting-for"
"""On a pod that waits: for which cliques, in words; the init container logs them."""
KUBECTL_PREFIX: Final[str] = "kubectl.kubernetes.io/"

# Labels and annotations of other projects
KAI_SUBGROUP_NAME: Final[str] = "kai.scheduler/subgroup-name"
KAI_QUEUE: Final[str] = "kai.scheduler/queue"
KAI_NODE_POOL: Final[str] = "kai.scheduler/node-pool"
KAI_PREEMPTIBILITY: Final[str] = "kai.scheduler/preemptibility"
KAI_TOPOLOGY: Final[str] = "kai.scheduler/topology"
KAI_SKIP_PODGROUPER: Final[str] = "kai.scheduler/skip-podgrouper"
KAI_POD_GROUP_NAME: Final[str] = "pod-group-name"
VOLCANO_QUEUE: Final[str] = "scheduling.grove.io/volcano-queue"
VOLCANO_DEFAULT_QUEUE: Final[str] = "default"
VOLCANO_GROUP_NAME: Final[str] = "scheduling.volcano.sh/group-name"
KUBERNETES_GROUP_NAME: Final[str] = "scheduling.k8s.io/group-name"

# Finalizers
PODCLIQUESET_FINALIZER: Final[str] = "grove.io/podcliqueset.grove.io"
SCALING_GROUP_FINALIZER: Final[str] = "grove.io/podcliquescalinggroup.grove.io"
PODCLIQUE_FINALIZER: Final[str] = "grove.io/podclique.grove.io"
COMPUTE_DOMAIN_FINALIZER: Final[str] = "grove.io/computedomain-finalizer"

POD_GATE: Final[str] = "grove.io/podgang-pending-creation"
"""Scheduling gate that holds a pod until its gang is complete."""

INIT_CONTAINER: Final[str] = "grove-initc"
POD_INFO_VOLUME: Final[str] = "pod-info-vol"
POD_INFO_PATH: Final[str] = "/var/grove/pod-info"

GPU_RESOURCE: Final[str] = "nvidia.com/gpu"
MNNVL_CLAIM: Final[str] = "mnnvl-claim"
DEFAULT_SCHEDULER: Final[str] = "default-scheduler"
DEFAULT_TERMINATION_DELAY: Final[str] = "4h"
INVALID_SPEC: Final[str] = "ERR_INVALID_SPEC"
"""Code in lastErrors of a set that admission would have refused."""
MAX_NAME_LENGTH: Final[int] = 45
"""Characters that the user-chosen parts of a pod's name may have together; the rest of 63 is for indices."""


class Component(StrEnum):
    """Values of the component label."""

    HEADLESS_SERVICE = "pcs-headless-service"
    POD_ROLE = "pod-role"
    POD_ROLE_BINDING = "pod-role-binding"
    POD_SERVICE_ACCOUNT = "pod-service-account"
    POD_TOKEN_SECRET = "pod-sa-token-secret"  # noqa: S105 - a label value
    SCALING_GROUP = "pcs-podcliquescalinggroup"
    HPA = "pcs-hpa"
    PODGANG = "podgang"
    PODCLIQUE = "pcs-podclique"
    SCALING_GROUP_PODCLIQUE = "pcsg-podclique"
    RESOURCE_CLAIM = "resource-claim"
    COMPUTE_DOMAIN = "pcs-computedomain"


class Env(StrEnum):
    """Environment variables of every container, in the order in which they are put before the user's own."""

    PCS_NAME = "GROVE_PCS_NAME"
    PCS_INDEX = "GROVE_PCS_INDEX"
    PCLQ_NAME = "GROVE_PCLQ_NAME"
    HEADLESS_SERVICE = "GROVE_HEADLESS_SERVICE"
    PCLQ_POD_INDEX = "GROVE_PCLQ_POD_INDEX"
    PCSG_NAME = "GROVE_PCSG_NAME"
    PCSG_TEMPLATE_NUM_PODS = "GROVE_PCSG_TEMPLATE_NUM_PODS"
    PCSG_INDEX = "GROVE_PCSG_INDEX"
    PCSG_POD_INDEX = "GROVE_PCSG_POD_INDEX"


class OperatorEnv(StrEnum):
    """Environment variables that the operator itself reads."""

    INIT_CONTAINER_IMAGE = "GROVE_INIT_CONTAINER_IMAGE"
    SERVICE_ACCOUNT_NAME = "GROVE_OPERATOR_SERVICE_ACCOUNT_NAME"


class ConditionType(StrEnum):
    """Types of conditions."""

    # PodCliqueSet
    UPDATE_IN_PROGRESS = "UpdateInProgress"
    TOPOLOGY_LEVELS_UNAVAILABLE = "TopologyLevelsUnavailable"
    # PodClique, PodCliqueScalingGroup
    POD_CLIQUE_SCHEDULED = "PodCliqueScheduled"
    MIN_AVAILABLE_BREACHED = "MinAvailableBreached"
    GANG_TERMINATION_IN_PROGRESS = "GangTerminationInProgress"
    STARTUP_RELEASED = "StartupReleased"
    # ClusterTopologyBinding
    SCHEDULER_TOPOLOGY_DRIFT = "SchedulerTopologyDrift"
    # PodGang
    INITIALIZED = "Initialized"
    SCHEDULED = "Scheduled"
    READY = "Ready"
    UNHEALTHY = "Unhealthy"
    DISRUPTION_TARGET = "DisruptionTarget"
    GANG_GUARANTEED = "GangGuaranteed"
    """Of our own: whether the scheduler places the gang's minimum together or not at all."""


class Reason(StrEnum):
    """Reasons of conditions."""

    # TopologyLevelsUnavailable
    TOPOLOGY_AWARE_SCHEDULING_DISABLED = "TopologyAwareSchedulingDisabled"
    ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE = "AllClusterTopologyLevelsAvailable"
    TOPOLOGY_NAME_MISSING = "TopologyNameMissing"
    CLUSTER_TOPOLOGY_NOT_FOUND = "ClusterTopologyNotFound"
    CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE = "ClusterTopologyLevelsUnavailable"
    SCHEDULER_IGNORES_TOPOLOGY = "SchedulerIgnoresTopology"
    # PodCliqueScheduled
    SUFFICIENT_SCHEDULED_PODS = "SufficientScheduledPods"
    INSUFFICIENT_SCHEDULED_PODS = "InsufficientScheduledPods"
    # UpdateInProgress
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    UPDATE_FINISHED = "UpdateFinished"
    UPDATE_ON_DELETE = "OnDelete"
    # MinAvailableBreached of cliques and scaling groups, and of a set's condition UpdateInProgress
    UPDATE_IN_PROGRESS = "UpdateInProgress"
    SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE = "ScheduledReplicasBelowMinAvailable"
    INSUFFICIENT_READY_PODS = "InsufficientReadyPods"
    SUFFICIENT_READY_PODS = "SufficientReadyPods"
    INSUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS = "InsufficientAvailablePodCliqueScalingGroupReplicas"
    SUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS = "SufficientAvailablePodCliqueScalingGroupReplicas"
    # GangTerminationInProgress
    GANG_TERMINATION_ACTIVE = "GangTerminationActive"
    MIN_AVAILABLE_REACHED = "MinAvailableReached"
    GANG_TERMINATION_ENDED = "GangTerminationEnded"
    # StartupReleased
    WAITING_FOR_PARENTS = "WaitingForParents"
    PARENTS_READY = "ParentsReady"
    # Initialized
    POD_GANG_PODS_CREATION_PENDING = "PodGangPodsCreationPending"
    POD_GANG_PODS_CREATED = "PodGangPodsCreated"
    # Scheduled, Ready
    MINIMUM_PLACED = "MinimumPlaced"
    MINIMUM_READY = "MinimumReady"
    WAITING = "Waiting"
    WAITING_FOR_BASE_GANG = "WaitingForBaseGang"
    WAITING_FOR_OTHER_PODS = "WaitingForOtherPods"
    SCHEDULING_GATED = "SchedulingGated"
    UNSCHEDULABLE = "Unschedulable"
    # GangGuaranteed
    COMPOSITE_POD_GROUP = "CompositePodGroup"
    POD_GROUP = "PodGroup"
    NO_GANG_SCHEDULING = "NoGangScheduling"
    NO_PROFILE = "NoProfile"
    PODS_OUTSIDE_GROUPS = "PodsOutsideGroups"
    # SchedulerTopologyDrift
    IN_SYNC = "InSync"
    DRIFT = "Drift"
    TOPOLOGY_NOT_FOUND = "TopologyNotFound"


class EventReason(StrEnum):
    """Reasons of events."""

    # on PodCliques
    POD_CREATE_SUCCESSFUL = "PodCreateSuccessful"
    POD_CREATE_FAILED = "PodCreateFailed"
    POD_DELETE_SUCCESSFUL = "PodDeleteSuccessful"
    POD_DELETE_FAILED = "PodDeleteFailed"
    # on PodCliques and PodCliqueScalingGroups
    ALL_SCHEDULED_REPLICAS_LOST = "AllScheduledReplicasLost"
    # on PodCliqueSets and PodCliqueScalingGroups
    POD_CLIQUE_CREATE_SUCCESSFUL = "PodCliqueCreateSuccessful"
    POD_CLIQUE_CREATE_FAILED = "PodCliqueCreateFailed"
    POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL = "PodCliqueCreateOrUpdateSuccessful"
    POD_CLIQUE_CREATE_OR_UPDATE_FAILED = "PodCliqueCreateOrUpdateFailed"
    POD_CLIQUE_DELETE_SUCCESSFUL = "PodCliqueDeleteSuccessful"
    POD_CLIQUE_DELETE_FAILED = "PodCliqueDeleteFailed"
    SCALING_GROUP_CREATE_SUCCESSFUL = "PodCliqueScalingGroupCreateSuccessful"
    SCALING_GROUP_CREATE_OR_UPDATE_FAILED = "PodCliqueScalingGroupCreateOrUpdateFailed"
    SCALING_GROUP_DELETE_SUCCESSFUL = "PodCliqueScalingGroupDeleteSuccessful"
    SCALING_GROUP_DELETE_FAILED = "PodCliqueScalingGroupDeleteFailed"
    SCALING_GROUP_REPLICA_DELETE_SUCCESSFUL = "PodCliqueScalingGroupReplicaDeleteSuccessful"
    SCALING_GROUP_REPLICA_DELETE_FAILED = "PodCliqueScalingGroupReplicaDeleteFailed"
    # on PodCliqueSets
    POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL = "PodGangCreateOrUpdateSuccessful"
    POD_GANG_CREATE_OR_UPDATE_FAILED = "PodGangCreateOrUpdateFailed"
    POD_GANG_DELETE_SUCCESSFUL = "PodGangDeleteSuccessful"
    POD_GANG_DELETE_FAILED = "PodGangDeleteFailed"
    UPDATE_STARTED = "UpdateStarted"
    REPLICA_UPDATE_STARTED = "ReplicaUpdateStarted"
    UPDATE_FINISHED = "UpdateFinished"
    REPLICA_DELETE_SUCCESSFUL = "PodCliqueSetReplicaDeleteSuccessful"
    REPLICA_DELETE_FAILED = "PodCliqueSetReplicaDeleteFailed"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    POD_GANG_PENDING = "PodGangPending"
    POD_GANG_UNHEALTHY = "PodGangUnhealthy"
    NO_GANG_GUARANTEE = "NoGangGuarantee"
    INVALID_SPEC = "InvalidSpec"
    SCHEDULER_UNAVAILABLE = "SchedulerUnavailable"
    COMPUTE_DOMAIN_CREATE_SUCCESSFUL = "ComputeDomainCreateSuccessful"
    COMPUTE_DOMAIN_CREATE_FAILED = "ComputeDomainCreateFailed"
    COMPUTE_DOMAIN_DELETE_SUCCESSFUL = "ComputeDomainDeleteSuccessful"
    COMPUTE_DOMAIN_DELETE_FAILED = "ComputeDomainDeleteFailed"
    # on PodGangs, CustomResourceDefinitions and ClusterTopologyBindings
    KAI_BACKEND_MAPPING_FAILED = "KAIBackendMappingFailed"
    VOLCANO_CAPABILITY_UNAVAILABLE = "VolcanoCapabilityUnavailable"
    TOPOLOGY_IN_SYNC = "TopologyInSync"
    TOPOLOGY_DRIFT_DETECTED = "TopologyDriftDetected"
