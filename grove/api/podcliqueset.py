"""PodCliqueSet: a whole inference system from one object."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import ConfigDict, Field

from grove.api import durations
from grove.api.base import (
    CONDITION_LIST,
    MAX_REPLICAS,
    Bool,
    Condition,
    Int32,
    Int64,
    IntOrPercent,
    KubeModel,
    LastError,
    MemberName,
    Resource,
    Time,
)
from grove.api.cel import (
    CLIQUE,
    CLIQUE_LIMITS,
    CLIQUE_TEMPLATE,
    MAX_CLIQUES,
    MAX_GROUPS,
    NAME,
    NAME_LENGTHS,
    POSITIVE_DURATION,
    SCALING_GROUP,
    STARTS_AFTER_KEPT,
    TEMPLATE,
    UNIQUE_ROLES,
    cel,
    cel_rules,
)
from grove.api.labels import GROVE_GROUP
from grove.api.podclique import AutoScalingConfig, PodCliqueSpec
from grove.api.podgang import PodGangPhase
from grove.api.resourcesharing import (
    SHARING,
    PCSGResourceSharingSpec,
    PCSResourceSharingSpec,
    ResourceClaimTemplateConfig,
    ResourceSharingSpec,
)
from grove.api.topologyconstraint import TopologyConstraint


class CliqueStartupType(StrEnum):
    """In which order the cliques of a replica start."""

    ANY_ORDER = "CliqueStartupTypeAnyOrder"
    IN_ORDER = "CliqueStartupTypeInOrder"
    EXPLICIT = "CliqueStartupTypeExplicit"


class UpdateStrategyType(StrEnum):
    """Who replaces pods when the template changes: the operator, or whoever deletes them."""

    ROLLING_RECREATE = "RollingRecreate"
    ON_DELETE = "OnDelete"


class UpdateStrategy(KubeModel):
    """How a changed template reaches the pods."""

    type: UpdateStrategyType = Field(
        default=UpdateStrategyType.ROLLING_RECREATE,
        description=(
            "RollingRecreate replaces pods, one replica of the set at a time. "
            "OnDelete leaves them alone until somebody deletes them."
        ),
    )


class RollingUpdate(KubeModel):
    """How fast RollingRecreate goes on, and when it counts as stuck."""

    max_unavailable: IntOrPercent | None = Field(
        default=None,
        description=(
            "How many may be down at a time, of the pods of a clique or of the replicas of a scaling group: a number "
            "of at least 1, or a share such as 25%, rounded down to at least 1. Defaults to 1."
        ),
    )
    progress_deadline: str | None = Field(
        default=None,
        description=(
            "How long the update may go on without one more of them getting ready, e.g. 10m. Afterwards the set's "
            "condition UpdateInProgress has the reason ProgressDeadlineExceeded; the update goes on all the same."
        ),
        json_schema_extra={"pattern": durations.PATTERN},
    )


class HeadlessServiceConfig(KubeModel):
    """The headless Service that gives every pod of a replica a DNS name."""

    publish_not_ready_addresses: Bool = Field(
        default=True, description="Resolve the names of pods that are not ready yet, so that they can find each other."
    )


class PodCliqueTemplateSpec(KubeModel):
    """One clique of the set, from which a PodClique is made per replica."""

    model_config = ConfigDict(json_schema_extra=cel_rules(*CLIQUE_TEMPLATE))

    name: str = Field(
        description="Name of the clique, unique in the set; part of the names of its pods.", json_schema_extra=NAME
    )
    labels: dict[str, str] = Field(default_factory=dict, description="Labels for the PodClique and its pods.")
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations for the PodClique and its pods.")
    topology_constraint: TopologyConstraint | None = Field(
        default=None, description="How close together the pods of this clique must be."
    )
    resource_sharing: tuple[ResourceSharingSpec, ...] = Field(
        default=(), description="Claims on devices that the pods of this clique share.", json_schema_extra=SHARING
    )
    spec: PodCliqueSpec = Field(
        description="What the pods look like and how many there are.",
        json_schema_extra=cel_rules(*CLIQUE) | CLIQUE_LIMITS,
    )
    rolling_update: RollingUpdate | None = Field(
        default=None,
        description="How RollingRecreate replaces the pods of this clique. Not for a clique in a scaling group.",
    )


class PodCliqueScalingGroupConfig(KubeModel):
    """Cliques that are scaled as one, from which a PodCliqueScalingGroup is made per replica."""

    model_config = ConfigDict(json_schema_extra=cel_rules(*SCALING_GROUP))

    name: str = Field(
        description="Name of the group, unique in the set; part of the names of its pods.", json_schema_extra=NAME
    )
    clique_names: tuple[MemberName, ...] = Field(
        description="The cliques, by name. A clique is in one group at most.",
        json_schema_extra={"minItems": 1, "maxItems": MAX_CLIQUES, "x-kubernetes-list-type": "set"},
    )
    annotations: dict[str, str] = Field(default_factory=dict, description="Annotations for the PodCliqueScalingGroup.")
    replicas: Int32 = Field(
        default=1,
        description=(
            "How many copies of the cliques. 0 means idle. "
            "This is the starting value; scale the PodCliqueScalingGroup itself afterwards."
        ),
        json_schema_extra={"minimum": 0, "maximum": MAX_REPLICAS},
    )
    min_available: Int32 = Field(
        default=1,
        description=(
            "How many copies must run for the system to be of use. "
            "They are part of the set's gang; each further copy is a gang of its own."
        ),
        json_schema_extra={"minimum": 1},
    )
    scale_config: AutoScalingConfig | None = Field(default=None, description="Scales the group.")
    resource_sharing: tuple[PCSGResourceSharingSpec, ...] = Field(
        default=(), description="Claims on devices that the pods of this group share.", json_schema_extra=SHARING
    )
    topology_constraint: TopologyConstraint | None = Field(
        default=None, description="How close together the pods of one copy must be."
    )
    rolling_update: RollingUpdate | None = Field(
        default=None, description="How RollingRecreate replaces the copies; each copy is replaced as a whole."
    )


_BY_NAME: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}


class PodCliqueSetTemplateSpec(KubeModel):
    """One replica of the system: its cliques, which of them scale together, and how they start."""

    model_config = ConfigDict(json_schema_extra=cel_rules(*TEMPLATE))

    cliques: tuple[PodCliqueTemplateSpec, ...] = Field(
        description="The roles of the system, each a group of like pods.",
        json_schema_extra=_BY_NAME | {"minItems": 1, "maxItems": MAX_CLIQUES} | cel_rules(UNIQUE_ROLES),
    )
    clique_startup_type: CliqueStartupType = Field(
        default=CliqueStartupType.ANY_ORDER,
        description=(
            "The order in which containers start: all at once, each clique after the one before it in the list, "
            "or as startsAfter says."
        ),
    )
    priority_class_name: str = Field(
        default="", description="PriorityClass of the gangs: which is placed first, and which gives way."
    )
    headless_service_config: HeadlessServiceConfig | None = Field(
        default=None, description="The headless Service of a replica, which gives every pod a DNS name."
    )
    topology_constraint: TopologyConstraint | None = Field(
        default=None,
        description="How close together the pods of a gang must be. It holds for the base gang of a replica and for "
        "each scaled gang by itself, not across them.",
    )
    termination_delay: str | None = Field(
        default=None,
        description=(
            "How long a clique or scaling group may stay below minAvailable before the gang is restarted, e.g. 15m. "
            "Defaults to 4h."
        ),
        json_schema_extra={"pattern": durations.PATTERN, "maxLength": 64, **cel_rules(POSITIVE_DURATION)},
    )
    resource_claim_templates: tuple[ResourceClaimTemplateConfig, ...] = Field(
        default=(),
        description="Templates for claims on devices, for use in resourceSharing.",
        json_schema_extra=_BY_NAME,
    )
    resource_sharing: tuple[PCSResourceSharingSpec, ...] = Field(
        default=(), description="Claims on devices that pods of the whole set share.", json_schema_extra=SHARING
    )
    pod_clique_scaling_groups: tuple[PodCliqueScalingGroupConfig, ...] = Field(
        default=(),
        description="Cliques that are scaled as one, e.g. the leader and the workers of a model instance.",
        json_schema_extra=_BY_NAME | {"maxItems": MAX_GROUPS},
    )


class PodCliqueSetSpec(KubeModel):
    """The system and how many copies of it run."""

    replicas: Int32 = Field(
        default=0,
        description="How many copies of the whole system. Note the default of 0: nothing runs until it is set.",
        json_schema_extra={"minimum": 0, "maximum": MAX_REPLICAS},
    )
    update_strategy: UpdateStrategy | None = Field(
        default=None, description="How a changed template reaches the pods. Absent: RollingRecreate."
    )
    template: PodCliqueSetTemplateSpec = Field(description="One copy of the system.")


class PodGangStatusSummary(KubeModel):
    """One gang of the set, in short."""

    name: str = Field(description="Name of the PodGang.")
    phase: PodGangPhase = Field(description="Its phase.")
    conditions: tuple[Condition, ...] = Field(
        default=(), description="Its conditions.", json_schema_extra=CONDITION_LIST
    )


class ReplicaUpdateProgress(KubeModel):
    """The replica of the set that is being updated."""

    replica_index: Int32 = Field(description="Its index.")
    update_started_at: Time | None = Field(default=None, description="When its update began.")
    update_ended_at: Time | None = Field(default=None, description="When it ended.")


class PodCliqueSetUpdateProgress(KubeModel):
    """How far the update of the set to a new template is. Stays after the end, as a record."""

    update_started_at: Time | None = Field(default=None, description="When the update began.")
    update_ended_at: Time | None = Field(default=None, description="When it ended; absent while it runs.")
    updated_pod_cliques_count: Int32 = Field(
        default=0, description="Cliques outside scaling groups that run the new template."
    )
    total_pod_cliques_count: Int32 = Field(default=0, description="Cliques outside scaling groups.")
    updated_pod_clique_scaling_groups_count: Int32 = Field(
        default=0, description="Scaling groups that run the new template."
    )
    total_pod_clique_scaling_groups_count: Int32 = Field(default=0, description="Scaling groups.")
    currently_updating: tuple[ReplicaUpdateProgress, ...] = Field(
        default=(), description="The replica being updated now."
    )


class PodCliqueSetStatus(KubeModel):
    """What was last seen of the set."""

    observed_generation: Int64 | None = Field(default=None, description="The generation this status speaks of.")
    conditions: tuple[Condition, ...] = Field(
        default=(), description="UpdateInProgress and TopologyLevelsUnavailable.", json_schema_extra=CONDITION_LIST
    )
    last_errors: tuple[LastError, ...] = Field(default=(), description="Errors of the latest pass; empty when clean.")
    replicas: Int32 = Field(default=0, description="Replicas asked for.", json_schema_extra={"default": None})
    available_replicas: Int32 = Field(
        default=0, description="Replicas whose cliques and scaling groups all have their minimum ready."
    )
    updated_replicas: Int32 = Field(default=0, description="Available replicas that run the current template.")
    hpa_pod_selector: str | None = Field(default=None, description="Label selector of the pods, for autoscalers.")
    pod_gang_statuses: tuple[PodGangStatusSummary, ...] = Field(default=(), description="The gangs of the set.")
    current_generation_hash: str | None = Field(default=None, description="Names the current template.")
    update_progress: PodCliqueSetUpdateProgress | None = Field(default=None, description="The latest update.")


def _no_pack_domain(rule: str, field: str) -> dict[str, Any]:
    """Refuse the deprecated packDomain in new sets; sets that have it already can still be updated."""
    return cel(
        f"oldSelf.hasValue() || {rule}",
        "packDomain is deprecated: write pack.required",
        field=field,
        reason="FieldValueForbidden",
        on_create=True,
    )


def _no_pack_domain_in(items: str) -> str:
    return f"{items}.all(x, !has(x.topologyConstraint) || !has(x.topologyConstraint.packDomain))"


class PodCliqueSet(Resource):
    """A whole inference system: its roles, which of them scale together, how they start and where they are placed."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            _no_pack_domain(
                "!has(self.spec.template.topologyConstraint) || !has(self.spec.template.topologyConstraint.packDomain)",
                ".spec.template.topologyConstraint.packDomain",
            ),
            _no_pack_domain(_no_pack_domain_in("self.spec.template.cliques"), ".spec.template.cliques"),
            _no_pack_domain(
                "!has(self.spec.template.podCliqueScalingGroups) || "
                + _no_pack_domain_in("self.spec.template.podCliqueScalingGroups"),
                ".spec.template.podCliqueScalingGroups",
            ),
            *NAME_LENGTHS,
            STARTS_AFTER_KEPT,
        )
        | {"x-grove-metadata": {"name": {"type": "string", "pattern": NAME["pattern"]}}}
    )

    GROUP: ClassVar[str] = GROVE_GROUP
    KIND: ClassVar[str] = "PodCliqueSet"
    PLURAL: ClassVar[str] = "podcliquesets"

    spec: PodCliqueSetSpec = Field(description="The system and how many copies of it run.")
    status: PodCliqueSetStatus = Field(default=PodCliqueSetStatus(), description="What was last seen of it.")
