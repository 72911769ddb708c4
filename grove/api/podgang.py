"""PodGang: pods that a scheduler must place together or not at all."""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from pydantic import Field

from grove.api.base import CONDITION_LIST, Condition, Int32, KubeModel, Resource
from grove.api.labels import SCHEDULER_GROUP


class PodGangPhase(StrEnum):
    """Where a gang is in its life. The last two are for readers: Grove's gangs serve until they are deleted."""

    PENDING = "Pending"
    STARTING = "Starting"
    RUNNING = "Running"
    FAILED = "Failed"
    SUCCEEDED = "Succeeded"


class NamespacedName(KubeModel):
    """Points to an object."""

    namespace: str = Field(description="Its namespace.")
    name: str = Field(description="Its name.")


class PodGangPackConstraint(KubeModel):
    """Which nodes pods may be spread over. The values are keys of node labels."""

    required: str | None = Field(
        default=None, description="All pods on nodes with one value of this label, or they stay pending."
    )
    preferred: str | None = Field(
        default=None, description="The same when it can be had; otherwise as close together as possible."
    )


class PodGangTopologyConstraint(KubeModel):
    """How close together pods must be."""

    pack_constraint: PodGangPackConstraint | None = Field(default=None, description="Keep the pods close together.")


class PodGroup(KubeModel):
    """The pods of one PodClique in a gang."""

    name: str = Field(description="Name of the PodClique.")
    pod_references: tuple[NamespacedName, ...] = Field(description="The pods, sorted by name; empty until they exist.")
    min_replicas: Int32 = Field(description="How many of them must be placed for the gang to count as placed.")
    topology_constraint: PodGangTopologyConstraint | None = Field(
        default=None, description="How close together these pods must be."
    )


class TopologyConstraintGroupConfig(KubeModel):
    """A constraint for several pod groups together, e.g. one replica of a scaling group."""

    name: str = Field(description="Name of the group, `<scaling group>-<replica>`.")
    pod_group_names: tuple[str, ...] = Field(description="The pod groups, by name.")
    topology_constraint: PodGangTopologyConstraint | None = Field(
        default=None, description="How close together their pods must be."
    )


class PodGangSpec(KubeModel):
    """The pods to be placed together, and how close together."""

    # The wire says podgroups in lower case, unlike every other key.
    podgroups: tuple[PodGroup, ...] = Field(alias="podgroups", description="The pods, one group per PodClique.")
    topology_constraint: PodGangTopologyConstraint | None = Field(
        default=None, description="How close together all pods of the gang must be."
    )
    topology_constraint_group_configs: tuple[TopologyConstraintGroupConfig, ...] = Field(
        default=(), description="Constraints for several pod groups together."
    )
    priority_class_name: str = Field(
        default="", description="PriorityClass that says which gang is placed first, and which gives way."
    )
    reuse_reservation_ref: NamespacedName | None = Field(
        default=None, description="A gang whose nodes this one takes over."
    )


class PodGangStatus(KubeModel):
    """How far the placement of a gang is."""

    phase: str = Field(default="", description="Pending, Starting or Running.")
    conditions: tuple[Condition, ...] = Field(
        default=(),
        description="Initialized, Scheduled, Ready, Unhealthy and DisruptionTarget.",
        json_schema_extra=CONDITION_LIST,
    )
    placement_score: float | None = Field(
        default=None, description="How well the placement meets the preferences, 0 to 1, as the scheduler reports it."
    )


class PodGang(Resource):
    """Pods that a scheduler places together or not at all."""

    GROUP: ClassVar[str] = SCHEDULER_GROUP
    KIND: ClassVar[str] = "PodGang"
    PLURAL: ClassVar[str] = "podgangs"

    spec: PodGangSpec = Field(description="The pods to be placed together, and how close together.")
    status: PodGangStatus = Field(default=PodGangStatus(), description="How far the placement is.")
