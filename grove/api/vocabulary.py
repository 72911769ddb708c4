"""What the strings of `grove.api.labels` mean, for those who meet them: where each stands and what it says.

The reference page is written from this. What is not here is not in use: constants of features that do not exist yet.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from grove.api import labels
from grove.api.labels import ConditionType, Env, EventReason, Reason

SET: Final = "PodCliqueSet"
CLIQUE: Final = "PodClique"
GROUP: Final = "PodCliqueScalingGroup"
GANG: Final = "PodGang"
BINDING: Final = "ClusterTopologyBinding"


@dataclass(frozen=True, slots=True)
class Word:
    """A label, an annotation, an environment variable or the reason of an event."""

    text: str
    on: tuple[str, ...]
    """the kinds of object that carry it"""
    meaning: str
    """a sentence, in Markdown"""


@dataclass(frozen=True, slots=True)
class ConditionWord:
    """A type of condition."""

    type: str
    on: tuple[str, ...]
    meaning: str
    """what True says"""
    reasons: Mapping[str, str]
    """what each reason says"""


MADE: Final = (CLIQUE, GROUP, GANG, "Pod", "Service", "HorizontalPodAutoscaler")
"""The kinds of objects that every set may have."""
_NAMED: Final = tuple(kind for kind in MADE if kind != GANG)

LABELS: Final = (
    Word(labels.MANAGED_BY, MADE, f"`{labels.MANAGED_BY_GROVE}`."),
    Word(labels.PART_OF, MADE, "Name of the set."),
    Word(labels.COMPONENT, MADE, "What the object is for, such as `pcs-podclique` or `pcs-headless-service`."),
    Word(labels.NAME, _NAMED, "The object's own name; on a pod that of its PodClique."),
    Word(labels.PODCLIQUESET_REPLICA_INDEX, (CLIQUE, GROUP, "Pod", "Service"), "Replica of the set, from 0."),
    Word(labels.SCALING_GROUP, (CLIQUE, "Pod"), "Name of the PodCliqueScalingGroup it is in."),
    Word(labels.SCALING_GROUP_REPLICA_INDEX, (CLIQUE, "Pod"), "Replica of the scaling group, from 0."),
    Word(labels.SCALING_GROUP_POD_INDEX, ("Pod",), "Rank of the pod among those of its scaling group's replica."),
    Word(labels.PODCLIQUE, ("Pod",), "Name of the PodClique."),
    Word(labels.POD_INDEX, ("Pod",), "Index of the pod in its PodClique, from 0; the number in its host name."),
    Word(labels.PODGANG, (CLIQUE, "Pod", "objects of schedulers"), "Name of the PodGang."),
    Word(labels.BASE_PODGANG, (CLIQUE, "Pod"), "In a scaled gang: name of the base gang that comes first."),
    Word(labels.POD_TEMPLATE_HASH, (CLIQUE, "Pod"), "Names the template of the pod. A pod whose hash differs from that "
         "of its PodClique is stale."),
    Word(labels.SCALING_GROUP_TEMPLATE_HASH, ("Pod",), "Names the templates of all cliques of its scaling group."),
    Word(labels.SCHEDULER_NAME, (GANG,), "Scheduler of the gang's pods."),
    Word(labels.KAI_QUEUE, (SET, "clique of the template"), "With KAI: the queue. An annotation will do, too."),
    Word(labels.KAI_NODE_POOL, (SET, "clique of the template"), "With KAI: the node pool."),
    Word(labels.KAI_PREEMPTIBILITY, (SET,), "With KAI: whether the gang may be preempted."),
    Word(labels.KAI_SUBGROUP_NAME, ("Pod",), "With KAI: the sub-group of the PodGroup, which is the PodClique."),
)  # fmt: skip

ANNOTATIONS: Final = (
    Word(labels.DISABLE_PROTECTION, (SET,), "`true` lifts the [protection](admission.md#protection) of its objects."),
    Word(labels.RECONCILE_TRIGGER, (SET,), "Any new value has the set looked at once more, which is never needed."),
    Word(labels.MNNVL_GROUP, (SET, "clique or group of the template"), "NVLink group of the pods, or `none`."),
    Word(labels.TOPOLOGY_NAME, (GANG,), "The ClusterTopologyBinding that its constraints speak of."),
    Word(labels.TOPOLOGY_LEVELS, ("PodGroup",), "Node labels of which its pods share a value, the whole gang's first; "
         "- is none."),
    Word(labels.TEMPLATE_REPLICAS, (CLIQUE, GROUP), "`replicas` of the template when they were applied last, to tell "
         "a change of the template from scaling."),
    Word(labels.TEMPLATE_QUEUE, ("PodGroup of KAI",), "Queue of the set when it was applied last."),
    Word(labels.ADOPTED_TEMPLATE_HASH, (CLIQUE,), "On one that the Go operator made: its hash there, and ours."),
    Word(labels.STARTUP, ("Pod",), "`released` lets a pod start that [waits for others](startup.md)."),
    Word(labels.STARTUP_WAITING_FOR, ("Pod",), "For which cliques it waits, in words."),
    Word(labels.VOLCANO_QUEUE, (SET, "clique of the template"), "With Volcano: the queue."),
    Word(labels.KAI_SKIP_PODGROUPER, ("Pod",), "With KAI: keeps its pod grouper from making a PodGroup, too."),
    Word(labels.KAI_POD_GROUP_NAME, ("Pod",), "With KAI: the PodGroup."),
    Word(labels.KUBERNETES_GROUP_NAME, ("Pod",), "With Volcano: the PodGroup."),
    Word(labels.VOLCANO_GROUP_NAME, ("Pod",), "With Volcano: the same."),
)  # fmt: skip

_EVERY: Final = ("every container",)
_GROUPED: Final = ("every container of a scaling group",)
ENVIRONMENT: Final = (
    Word(Env.PCS_NAME, _EVERY, "Name of the set."),
    Word(Env.PCS_INDEX, _EVERY, "Replica of the set, from 0."),
    Word(Env.PCLQ_NAME, _EVERY, "Name of the PodClique."),
    Word(Env.HEADLESS_SERVICE, _EVERY, "Domain of all pods of this replica of the set."),
    Word(Env.PCLQ_POD_INDEX, _EVERY, "Index of the pod in its PodClique, from 0."),
    Word(Env.PCSG_NAME, _GROUPED, "Name of the PodCliqueScalingGroup."),
    Word(Env.PCSG_TEMPLATE_NUM_PODS, _GROUPED, "Pods of one replica of the group, by the template."),
    Word(Env.PCSG_INDEX, _GROUPED, "Replica of the group, from 0."),
    Word(Env.PCSG_POD_INDEX, _GROUPED, "Rank of the pod among those of its replica, from 0."),
)

CONDITIONS: Final = (
    ConditionWord(ConditionType.UPDATE_IN_PROGRESS, (SET,), "A changed template is on its way to the pods.", {
        Reason.UPDATE_IN_PROGRESS: "It goes on; the message says what it waits for.",
        Reason.PROGRESS_DEADLINE_EXCEEDED: "Nothing more got ready within `progressDeadline`; it goes on all the same.",
        Reason.UPDATE_FINISHED: "False: every pod carries the template and is ready.",
        Reason.UPDATE_ON_DELETE: "False: pods stay until somebody deletes them.",
    }),
    ConditionWord(ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE, (SET,), "The cluster lacks levels that topology "
                  "constraints ask for. [What then](topology.md#when-a-level-is-not-there)", {
        Reason.CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE: "The binding does not have them; the message names them.",
        Reason.SCHEDULER_IGNORES_TOPOLOGY: "The set's scheduler does not keep to levels; the message says why.",
        Reason.CLUSTER_TOPOLOGY_NOT_FOUND: "Unknown: there is no such ClusterTopologyBinding.",
        Reason.TOPOLOGY_NAME_MISSING: "Unknown: no constraint names a ClusterTopologyBinding.",
        Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED: "Unknown: topology is off in the operator's configuration.",
        Reason.ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE: "False: it has all of them.",
    }),
    ConditionWord(ConditionType.POD_CLIQUE_SCHEDULED, (CLIQUE,), "At least `minAvailable` pods have a node.", {
        Reason.SUFFICIENT_SCHEDULED_PODS: "They have.",
        Reason.INSUFFICIENT_SCHEDULED_PODS: "False: they have not.",
    }),
    ConditionWord(ConditionType.MIN_AVAILABLE_BREACHED, (CLIQUE, GROUP), "The minimum is not there. "
                  "[What follows](gangs.md#gang-termination)", {
        Reason.SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE: "Too few pods have a node.",
        Reason.INSUFFICIENT_READY_PODS: "Too few pods are ready or on their way there.",
        Reason.SUFFICIENT_READY_PODS: "False: enough are.",
        Reason.INSUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS: "Of a group: too few replicas are whole.",
        Reason.SUFFICIENT_AVAILABLE_SCALING_GROUP_REPLICAS: "False: enough are.",
        Reason.UPDATE_IN_PROGRESS: "Unknown: pods are being replaced by an update.",
    }),
    ConditionWord(ConditionType.GANG_TERMINATION_IN_PROGRESS, (CLIQUE, GROUP), "The gang's pods are being replaced, "
                  "since it was below its minimum for too long.", {
        Reason.GANG_TERMINATION_ACTIVE: "They are; the message says of which gang.",
        Reason.MIN_AVAILABLE_REACHED: "False: the minimum has had nodes, so that a breach counts from now on.",
    }),
    ConditionWord(ConditionType.STARTUP_RELEASED, (CLIQUE,), "The cliques it starts after are ready.", {
        Reason.WAITING_FOR_PARENTS: "False: the message names those that are not.",
        Reason.PARENTS_READY: "They are.",
    }),
    ConditionWord(ConditionType.INITIALIZED, (GANG,), "Every pod of the gang exists and is listed.", {
        Reason.POD_GANG_PODS_CREATED: "They do.",
        Reason.POD_GANG_PODS_CREATION_PENDING: "False: the message says what is missing, and what refused it.",
    }),
    ConditionWord(ConditionType.SCHEDULED, (GANG,), "Every clique has its minimum of pods on nodes. "
                  "[Why not](gangs.md#why-is-it-pending)", {
        Reason.MINIMUM_PLACED: "It has.",
        Reason.POD_GANG_PODS_CREATION_PENDING: "False: pods do not exist yet.",
        Reason.WAITING_FOR_BASE_GANG: "False: the base gang has to be scheduled before.",
        Reason.WAITING_FOR_OTHER_PODS: "False: other gangs come first, or its old pods have to be gone.",
        Reason.SCHEDULING_GATED: "False: somebody else's scheduling gate holds pods.",
        Reason.UNSCHEDULABLE: "False: there is no room; the scheduler's words follow.",
        Reason.WAITING: "False: the scheduler has not answered yet.",
    }),
    ConditionWord(ConditionType.READY, (GANG,), "Every clique has its minimum of ready pods.", {
        Reason.MINIMUM_READY: "It has.",
        Reason.WAITING: "False: the message says who lacks how many.",
    }),
    ConditionWord(ConditionType.UNHEALTHY, (GANG,), "A clique that had its minimum has it no more.", {
        Reason.SCHEDULED_REPLICAS_BELOW_MIN_AVAILABLE: "Too few of its pods have a node.",
        Reason.INSUFFICIENT_READY_PODS: "Too few of its pods are ready or on their way there.",
        Reason.SUFFICIENT_READY_PODS: "False: none has.",
    }),
    ConditionWord(ConditionType.DISRUPTION_TARGET, (GANG,), "The gang loses its pods.", {
        Reason.GANG_TERMINATION_ACTIVE: "It starts anew. Other reasons are those of a scheduler.",
        Reason.GANG_TERMINATION_ENDED: "False: it has its minimum again.",
    }),
    ConditionWord(ConditionType.GANG_GUARANTEED, (GANG,), "The scheduler places the minimum together or not at all.", {
        Reason.COMPOSITE_POD_GROUP: "A CompositePodGroup of Kubernetes asks for it.",
        Reason.POD_GROUP: "A PodGroup does.",
        Reason.NO_GANG_SCHEDULING: "False: pods are placed one by one; the message says why.",
        Reason.PODS_OUTSIDE_GROUPS: "False: some pods were made before the group; their successors join it.",
        Reason.NO_PROFILE: "Unknown: the scheduler has no profile in the operator's configuration.",
    }),
    ConditionWord(ConditionType.SCHEDULER_TOPOLOGY_DRIFT, (BINDING,), "A scheduler knows other levels than these.", {
        Reason.DRIFT: "The message says which one, and why.",
        Reason.IN_SYNC: "False: every scheduler with topology objects has them.",
        Reason.TOPOLOGY_NOT_FOUND: "Unknown: a scheduler is named that has no profile, or no topology objects.",
    }),
)  # fmt: skip

EVENTS: Final = (
    Word(EventReason.POD_CREATE_SUCCESSFUL, (CLIQUE,), "Pods were created."),
    Word(EventReason.POD_CREATE_FAILED, (CLIQUE,), "Warning: they were not, for example for a quota."),
    Word(EventReason.POD_DELETE_SUCCESSFUL, (CLIQUE, GROUP), "Pods were deleted."),
    Word(EventReason.POD_DELETE_FAILED, (CLIQUE, GROUP), "Warning: they were not."),
    Word(EventReason.ALL_SCHEDULED_REPLICAS_LOST, (CLIQUE, GROUP), "Warning: no pod has a node any more."),
    Word(EventReason.POD_CLIQUE_CREATE_SUCCESSFUL, (GROUP,), "A PodClique was created."),
    Word(EventReason.POD_CLIQUE_CREATE_FAILED, (GROUP,), "Warning: it was not."),
    Word(EventReason.POD_CLIQUE_CREATE_OR_UPDATE_SUCCESSFUL, (SET, GROUP), "A PodClique was created or changed."),
    Word(EventReason.POD_CLIQUE_CREATE_OR_UPDATE_FAILED, (SET, GROUP), "Warning: it was not."),
    Word(EventReason.POD_CLIQUE_DELETE_SUCCESSFUL, (SET,), "A PodClique was deleted."),
    Word(EventReason.POD_CLIQUE_DELETE_FAILED, (SET,), "Warning: it was not."),
    Word(EventReason.SCALING_GROUP_CREATE_SUCCESSFUL, (SET,), "A PodCliqueScalingGroup was created or changed."),
    Word(EventReason.SCALING_GROUP_CREATE_OR_UPDATE_FAILED, (SET,), "Warning: it was not."),
    Word(EventReason.SCALING_GROUP_DELETE_SUCCESSFUL, (SET,), "A PodCliqueScalingGroup was deleted."),
    Word(EventReason.SCALING_GROUP_DELETE_FAILED, (SET,), "Warning: it was not."),
    Word(EventReason.SCALING_GROUP_REPLICA_DELETE_SUCCESSFUL, (SET, GROUP), "A replica of the group went, when it was "
         "scaled in, or got new pods, when its gang was terminated."),
    Word(EventReason.SCALING_GROUP_REPLICA_DELETE_FAILED, (SET, GROUP), "Warning: it did not."),
    Word(EventReason.POD_GANG_CREATE_OR_UPDATE_SUCCESSFUL, (SET,), "A PodGang was created or changed."),
    Word(EventReason.POD_GANG_CREATE_OR_UPDATE_FAILED, (SET,), "Warning: it was not."),
    Word(EventReason.POD_GANG_DELETE_SUCCESSFUL, (SET,), "A PodGang was deleted."),
    Word(EventReason.POD_GANG_DELETE_FAILED, (SET,), "Warning: it was not."),
    Word(EventReason.POD_GANG_PENDING, (SET,), "Warning: why a gang waits, once for each new reason."),
    Word(EventReason.POD_GANG_UNHEALTHY, (SET,), "Warning: a gang is below its minimum, and when it gets new pods."),
    Word(EventReason.REPLICA_DELETE_SUCCESSFUL, (SET,), "A replica of the set got new pods: its gang was terminated."),
    Word(EventReason.REPLICA_DELETE_FAILED, (SET,), "Warning: it did not."),
    Word(EventReason.UPDATE_STARTED, (SET,), "The template has changed."),
    Word(EventReason.REPLICA_UPDATE_STARTED, (SET,), "A replica of the set has its turn."),
    Word(EventReason.UPDATE_FINISHED, (SET,), "Every pod carries the template and is ready."),
    Word(EventReason.PROGRESS_DEADLINE_EXCEEDED, (SET,), "Warning: the update is stuck; it goes on all the same."),
    Word(EventReason.NO_GANG_GUARANTEE, (SET,), "Warning: pods are placed one by one, and why."),
    Word(EventReason.INVALID_SPEC, (SET,), "Warning: the set breaks a rule; nothing is done for it until it is right."),
    Word(EventReason.SCHEDULER_UNAVAILABLE, (SET,), "Warning: its scheduler is not installed, so it gets no pods yet."),
    Word(EventReason.KAI_BACKEND_MAPPING_FAILED, (GANG,), "Warning: there can be no PodGroup of KAI for it, and why."),
    Word(EventReason.VOLCANO_CAPABILITY_UNAVAILABLE, ("CustomResourceDefinition",), "Warning: Volcano's PodGroups are "
         "too old."),
    Word(EventReason.TOPOLOGY_DRIFT_DETECTED, (BINDING,), "Warning: a scheduler knows other levels, and why."),
    Word(EventReason.TOPOLOGY_IN_SYNC, (BINDING,), "Every scheduler has the levels again."),
)  # fmt: skip
