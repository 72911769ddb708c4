"""ClusterTopologyBinding: what the levels of a cluster (zone, block, rack, host) are called on its nodes."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, ClassVar, Final

from pydantic import Field

from grove.api.base import CONDITION_LIST, Bool, Condition, Int64, KubeModel, Resource
from grove.api.cel import MAX_LEVELS, OBJECT_NAME, cel_rules, unique
from grove.api.labels import GROVE_GROUP

DOMAIN_SCHEMA: Final[dict[str, Any]] = {"minLength": 1, "maxLength": 63, "pattern": "^[a-z][a-z0-9-]*$"}
"""What the name of a topology domain looks like, for the CRD schema."""

_KEY_SCHEMA: Final[dict[str, Any]] = {
    "minLength": 1,
    "maxLength": 63,
    "pattern": ("^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"),
}


class TopologyDomain(StrEnum):
    """Names of domains that are in common use, broadest first. Any other name is as good."""

    REGION = "region"
    ZONE = "zone"
    DATACENTER = "datacenter"
    BLOCK = "block"
    RACK = "rack"
    HOST = "host"
    NUMA = "numa"


class TopologyLevel(KubeModel):
    """One level of the cluster."""

    domain: str = Field(
        description="Name of the level, as pack constraints use it, e.g. rack.", json_schema_extra=DOMAIN_SCHEMA
    )
    key: str = Field(
        description="Key of the node label that tells nodes of this level apart.", json_schema_extra=_KEY_SCHEMA
    )


class SchedulerTopologyBinding(KubeModel):
    """Names a topology object that somebody else keeps for a scheduler."""

    scheduler_name: str = Field(
        description="The scheduler, by its profile name, e.g. kai-scheduler.", json_schema_extra=OBJECT_NAME
    )
    topology_reference: str = Field(description="Name of that scheduler's topology object.")


class ClusterTopologyBindingSpec(KubeModel):
    """The levels of the cluster and the topology objects of its schedulers."""

    levels: tuple[TopologyLevel, ...] = Field(
        description="The levels, broadest first.",
        json_schema_extra={"minItems": 1, "maxItems": MAX_LEVELS} | cel_rules(unique("domain"), unique("key")),
    )
    scheduler_topology_bindings: tuple[SchedulerTopologyBinding, ...] = Field(
        default=(),
        description="Topology objects kept by others. A scheduler not named here gets one made from the levels.",
        json_schema_extra={"maxItems": MAX_LEVELS} | cel_rules(unique("schedulerName")),
    )


class SchedulerTopologyStatus(KubeModel):
    """Whether one scheduler's topology object says the same as the levels."""

    scheduler_name: str = Field(description="The scheduler, by its profile name.")
    topology_reference: str = Field(description="Name of that scheduler's topology object.")
    in_sync: Bool = Field(description="True when it has the same levels in the same order.")
    scheduler_backend_topology_observed_generation: Int64 | None = Field(
        default=None, description="Generation of the topology object that was compared, when others keep it."
    )
    message: str = Field(default="", description="What differs.")


class ClusterTopologyBindingStatus(KubeModel):
    """How the levels compare with what the schedulers know."""

    observed_generation: Int64 | None = Field(default=None, description="The generation this status speaks of.")
    conditions: tuple[Condition, ...] = Field(
        default=(), description="SchedulerTopologyDrift.", json_schema_extra=CONDITION_LIST
    )
    scheduler_topology_statuses: tuple[SchedulerTopologyStatus, ...] = Field(
        default=(), description="One entry per scheduler that has topology objects."
    )


class ClusterTopologyBinding(Resource):
    """Says what the levels of a cluster are called on its nodes, so that sets can ask to be packed into one of them."""

    GROUP: ClassVar[str] = GROVE_GROUP
    KIND: ClassVar[str] = "ClusterTopologyBinding"
    PLURAL: ClassVar[str] = "clustertopologybindings"

    spec: ClusterTopologyBindingSpec = Field(description="The levels, and the topology objects of schedulers.")
    status: ClusterTopologyBindingStatus = Field(
        default=ClusterTopologyBindingStatus(), description="Whether the schedulers know the same levels."
    )
