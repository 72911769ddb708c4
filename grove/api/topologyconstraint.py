"""How close together pods must be: the levels of a cluster that a set, a scaling group or a clique has to fit into."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from grove.api.base import KubeModel
from grove.api.cel import CONSTRAINT_KEPT, OBJECT_NAME, cel, cel_rules
from grove.api.clustertopologybinding import DOMAIN_SCHEMA


class TopologyPackConstraint(KubeModel):
    """Which level of the cluster the pods must fit into."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            cel(
                "has(self.required) || has(self.preferred)",
                "set required or preferred, or both",
                reason="FieldValueRequired",
            )
        )
    )

    required: str | None = Field(
        default=None,
        description="All pods within one such domain, e.g. rack, or they stay pending.",
        json_schema_extra=DOMAIN_SCHEMA,
    )
    preferred: str | None = Field(
        default=None,
        description="The same when it can be had; otherwise as close together as possible.",
        json_schema_extra=DOMAIN_SCHEMA,
    )


class TopologyConstraint(KubeModel):
    """How close together pods must be."""

    model_config = ConfigDict(
        json_schema_extra=cel_rules(
            cel(
                "has(self.pack) || has(self.packDomain)",
                "set pack",
                field=".pack",
                reason="FieldValueRequired",
            ),
            cel(
                "!(has(self.packDomain) && has(self.pack) && has(self.pack.required))",
                "pack.required and the deprecated packDomain mean the same: remove packDomain",
                field=".pack.required",
            ),
            *CONSTRAINT_KEPT,
        )
    )

    topology_name: str | None = Field(
        default=None,
        description="The ClusterTopologyBinding that defines the domains. Inherited from the level above when absent.",
        json_schema_extra=OBJECT_NAME,
    )
    pack: TopologyPackConstraint | None = Field(default=None, description="Keep the pods close together.")
    pack_domain: str | None = Field(
        default=None,
        description="Deprecated: write pack.required. Refused on new objects.",
        json_schema_extra=DOMAIN_SCHEMA,
    )

    @property
    def required(self) -> str | None:
        """The domain the pods must share, whichever way it is written."""
        return (self.pack.required if self.pack else None) or self.pack_domain

    @property
    def preferred(self) -> str | None:
        """The domain the pods share when it can be had."""
        return self.pack.preferred if self.pack else None
