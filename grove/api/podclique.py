"""PodClique: a group of like pods (one role of the system), scaled as one."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, Field

from grove.api.base import (
    CONDITION_LIST,
    MAX_REPLICAS,
    Condition,
    Int32,
    Int64,
    KubeModel,
    LastError,
    Resource,
    Time,
)
from grove.api.cel import AUTOSCALER, REPLICAS, cel_rules
from grove.api.labels import GROVE_GROUP


class AutoScalingConfig(KubeModel):
    """How a HorizontalPodAutoscaler scales a clique or a scaling group."""

    model_config = ConfigDict(json_schema_extra=cel_rules(AUTOSCALER))

    min_replicas: Int32 | None = Field(
        default=None,
        description="Lower bound for the autoscaler, at least minAvailable. Defaults to the replicas beside it.",
        json_schema_extra={"minimum": 1},
    )
    max_replicas: Int32 = Field(
        description="Upper bound for the autoscaler, at least minReplicas.", json_schema_extra={"minimum": 1}
    )
    metrics: list[dict[str, Any]] = Field(
        default_factory=list,
        description=(
            "What the autoscaler looks at, see kubectl explain hpa.spec.metrics. "
            "None given: it aims at 80% of the requested CPU."
        ),
        json_schema_extra={"x-kubernetes-list-type": "atomic", "x-grove-items": "autoscaling.v2.MetricSpec"},
    )


class PodCliqueSpec(KubeModel):
    """What the pods of a clique look like and how many there are. An absent number is not the number 0."""

    role_name: str = Field(
        default="", description="The role these pods play, e.g. prefill or worker. Unique within a set when given."
    )
    pod_spec: dict[str, Any] = Field(
        description=(
            "The pod as in core/v1, see kubectl explain pod.spec. "
            "Grove adds hostname, subdomain, GROVE_* variables and a scheduling gate."
        ),
        json_schema_extra={"x-grove-schema": "core.v1.PodSpec"},
    )
    replicas: Int32 | None = Field(
        default=None,
        description=(
            "How many pods. Absent means 1; 0 means idle: no pods, and no part in the gang. "
            "In a set this is the starting value; scale the PodClique itself afterwards."
        ),
        json_schema_extra={"minimum": 0, "maximum": MAX_REPLICAS},
    )
    min_available: Int32 | None = Field(
        default=None,
        description=(
            "How many pods must run for the clique to be of use: they are placed together or not at all, and falling "
            "below it for terminationDelay restarts the gang. Defaults to replicas."
        ),
        json_schema_extra={"minimum": 1},
    )
    starts_after: tuple[str, ...] = Field(
        default=(),
        description=(
            "Cliques whose minAvailable pods must be ready before these containers start. "
            "Read when cliqueStartupType is CliqueStartupTypeExplicit. In a PodClique: names of PodCliques. "
            "In a set it cannot change, unless nobody could start by it."
        ),
    )
    auto_scaling_config: AutoScalingConfig | None = Field(
        default=None, description="Scales this clique. Not for cliques in a scaling group: the group scales as one."
    )


class PodsSelectedToUpdate(KubeModel):
    """Which ready pods a rolling update has taken so far, by name."""

    current: str = Field(description="The pod being replaced now.")
    completed: tuple[str, ...] = Field(default=(), description="Pods already replaced.")


class PodCliqueUpdateProgress(KubeModel):
    """How far the update of a clique to a new template is. Stays after the end, as a record."""

    update_started_at: Time | None = Field(default=None, description="When the update began.")
    update_ended_at: Time | None = Field(default=None, description="When it ended; absent while it runs.")
    pod_clique_set_generation_hash: str = Field(description="The set's template the update goes to.")
    pod_template_hash: str = Field(description="The clique's pod template the update goes to.")
    ready_pods_selected_to_update: PodsSelectedToUpdate | None = Field(
        default=None, description="Ready pods taken by the update, one at a time."
    )


class PodCliqueStatus(KubeModel):
    """What was last seen of a clique's pods."""

    observed_generation: Int64 | None = Field(default=None, description="The generation this status speaks of.")
    last_errors: tuple[LastError, ...] = Field(default=(), description="Errors of the latest pass; empty when clean.")
    replicas: Int32 = Field(
        default=0, description="Pods that exist and are not terminating.", json_schema_extra={"default": None}
    )
    ready_replicas: Int32 = Field(default=0, description="Pods that are ready.")
    updated_replicas: Int32 = Field(default=0, description="Pods made from the current template.")
    schedule_gated_replicas: Int32 = Field(default=0, description="Pods held back until their gang is complete.")
    scheduled_replicas: Int32 = Field(default=0, description="Pods that have a node.")
    hpa_pod_selector: str | None = Field(
        default=None, description="Label selector of the pods, for autoscalers. Absent in a scaling group."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description=(
            "PodCliqueScheduled, MinAvailableBreached, GangTerminationInProgress, and StartupReleased where it starts "
            "after others."
        ),
        json_schema_extra=CONDITION_LIST,
    )
    pods_terminated_until: Time | None = Field(
        default=None, description="Pods created up to then are replaced: their gang was terminated."
    )
    current_pod_clique_set_generation_hash: str | None = Field(
        default=None, description="The set's template that all pods run."
    )
    current_pod_template_hash: str | None = Field(
        default=None, description="The clique's pod template that all pods run."
    )
    update_progress: PodCliqueUpdateProgress | None = Field(default=None, description="The latest update.")


class PodClique(Resource):
    """A group of like pods: one role of an inference system."""

    GROUP: ClassVar[str] = GROVE_GROUP
    KIND: ClassVar[str] = "PodClique"
    PLURAL: ClassVar[str] = "podcliques"

    spec: PodCliqueSpec = Field(
        description="What the pods look like and how many there are.",
        json_schema_extra=cel_rules(REPLICAS),
    )
    status: PodCliqueStatus = Field(default=PodCliqueStatus(), description="What was last seen of the pods.")
