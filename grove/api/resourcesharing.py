"""Claims on devices that pods share: templates for them, and who takes part."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from pydantic import Field

from grove.api.base import KubeModel, MemberName
from grove.api.cel import MAX_CLIQUES, MAX_SHARING, NAME


class ResourceSharingScope(StrEnum):
    """One claim for all replicas of the owner, or one for each."""

    ALL_REPLICAS = "AllReplicas"
    PER_REPLICA = "PerReplica"


class ResourceClaimTemplateConfig(KubeModel):
    """A named template for claims on devices (dynamic resource allocation)."""

    name: str = Field(description="The name that resourceSharing entries use.", json_schema_extra=NAME)
    template_spec: dict[str, Any] = Field(
        description="The claim as in resource.k8s.io/v1, see kubectl explain resourceclaimtemplate.spec.",
        json_schema_extra={"x-grove-schema": "resource.v1.ResourceClaimTemplateSpec"},
    )


class ResourceSharingSpec(KubeModel):
    """Lets pods share a claim on devices."""

    name: str = Field(
        description="An entry of the set's resourceClaimTemplates, else a ResourceClaimTemplate in the cluster.",
        json_schema_extra=NAME,
    )
    namespace: str = Field(
        default="",
        description="Where that ResourceClaimTemplate is. Defaults to the set's own namespace.",
        json_schema_extra={"maxLength": 63},
    )
    scope: ResourceSharingScope = Field(
        description="AllReplicas: one claim for all replicas. PerReplica: a claim for each replica."
    )


_NAMES: Final[dict[str, Any]] = {"maxItems": MAX_CLIQUES}


class PCSResourceSharingFilter(KubeModel):
    """Who takes part: a pod does when its clique or its scaling group is named."""

    child_clique_names: tuple[MemberName, ...] = Field(
        default=(), description="Cliques that take part.", json_schema_extra=_NAMES
    )
    child_scaling_group_names: tuple[MemberName, ...] = Field(
        default=(), description="Scaling groups that take part.", json_schema_extra=_NAMES
    )


class PCSGResourceSharingFilter(KubeModel):
    """Who takes part: a pod does when its clique is named."""

    child_clique_names: tuple[MemberName, ...] = Field(
        default=(), description="Cliques that take part.", json_schema_extra=_NAMES
    )


class PCSResourceSharingSpec(ResourceSharingSpec):
    """Lets pods of a whole set share a claim on devices."""

    filter: PCSResourceSharingFilter | None = Field(default=None, description="Who takes part. Absent: every pod.")


class PCSGResourceSharingSpec(ResourceSharingSpec):
    """Lets pods of a scaling group share a claim on devices."""

    filter: PCSGResourceSharingFilter | None = Field(default=None, description="Who takes part. Absent: every pod.")


SHARING: Final[dict[str, Any]] = {"maxItems": MAX_SHARING}
"""Schema of a list of resourceSharing."""
