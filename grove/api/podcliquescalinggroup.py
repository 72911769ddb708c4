"""PodCliqueScalingGroup: several cliques that only make sense together (leader and workers), scaled as one."""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

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
from grove.api.cel import REPLICAS, cel_rules
from grove.api.labels import GROVE_GROUP


class PodCliqueScalingGroupSpec(KubeModel):
    """Which cliques make one replica of the group, and how many replicas there are."""

    replicas: Int32 = Field(
        default=1,
        description="How many copies of the cliques. 0 means idle. Belongs to whoever scales: kubectl, an autoscaler.",
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
    clique_names: tuple[str, ...] = Field(description="The cliques, by their names in the set.")


class ReplicaIndicesSelectedToUpdate(KubeModel):
    """Which ready replicas a rolling update has taken so far, by index."""

    current: Int32 = Field(description="The replica being replaced now.")
    completed: tuple[Int32, ...] = Field(default=(), description="Replicas already replaced.")


class PodCliqueScalingGroupUpdateProgress(KubeModel):
    """How far the update of a scaling group to a new template is. Stays after the end, as a record."""

    update_started_at: Time = Field(description="When the update began.")
    update_ended_at: Time | None = Field(default=None, description="When it ended; absent while it runs.")
    pod_clique_set_generation_hash: str = Field(description="The set's template the update goes to.")
    updated_pod_cliques_count: Int32 = Field(default=0, description="Cliques that run the new template.")
    total_pod_cliques_count: Int32 = Field(default=0, description="Cliques in all replicas.")
    ready_replica_indices_selected_to_update: ReplicaIndicesSelectedToUpdate | None = Field(
        default=None, description="Ready replicas taken by the update, one at a time."
    )


class PodCliqueScalingGroupStatus(KubeModel):
    """What was last seen of a scaling group's replicas."""

    replicas: Int32 = Field(default=0, description="Replicas asked for.", json_schema_extra={"default": None})
    scheduled_replicas: Int32 = Field(default=0, description="Replicas whose cliques all have their minimum on nodes.")
    available_replicas: Int32 = Field(default=0, description="Replicas whose cliques all have their minimum ready.")
    updated_replicas: Int32 = Field(default=0, description="Available replicas that run the current template.")
    selector: str | None = Field(default=None, description="Label selector of the pods, for autoscalers.")
    observed_generation: Int64 | None = Field(default=None, description="The generation this status speaks of.")
    last_errors: tuple[LastError, ...] = Field(default=(), description="Errors of the latest pass; empty when clean.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="MinAvailableBreached and GangTerminationInProgress.",
        json_schema_extra=CONDITION_LIST,
    )
    current_pod_clique_set_generation_hash: str | None = Field(
        default=None, description="The set's template that all replicas run."
    )
    update_progress: PodCliqueScalingGroupUpdateProgress | None = Field(default=None, description="The latest update.")


class PodCliqueScalingGroup(Resource):
    """Cliques that are scaled as one, e.g. the leader and the workers of one model instance."""

    GROUP: ClassVar[str] = GROVE_GROUP
    KIND: ClassVar[str] = "PodCliqueScalingGroup"
    PLURAL: ClassVar[str] = "podcliquescalinggroups"

    spec: PodCliqueScalingGroupSpec = Field(
        description="Which cliques make one replica, and how many replicas.",
        json_schema_extra=cel_rules(REPLICAS),
    )
    status: PodCliqueScalingGroupStatus = Field(
        default=PodCliqueScalingGroupStatus(), description="What was last seen of the replicas."
    )
