"""Schemas of Kubernetes' own types that Grove embeds, as JSON files made from an API server's OpenAPI document.

`grove crds --refresh-kubernetes-schemas` makes them anew.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final


@dataclass(frozen=True)
class Source:
    """Where an API server describes a type: the path of an OpenAPI v3 document and the type's name in it."""

    path: str
    schema: str


SOURCES: Final[Mapping[str, Source]] = {
    "core.v1.PodSpec": Source("/openapi/v3/api/v1", "io.k8s.api.core.v1.PodSpec"),
    "autoscaling.v2.MetricSpec": Source("/openapi/v3/apis/autoscaling/v2", "io.k8s.api.autoscaling.v2.MetricSpec"),
    "resource.v1.ResourceClaimTemplateSpec": Source(
        "/openapi/v3/apis/resource.k8s.io/v1", "io.k8s.api.resource.v1.ResourceClaimTemplateSpec"
    ),
}
"""The types, by the name of their file here."""


def load(name: str) -> dict[str, Any]:
    """The structural schema of a type in `SOURCES`."""
    schema: dict[str, Any] = json.loads(files(__name__).joinpath(f"{name}.json").read_bytes())["schema"]
    return schema


def dump(version: str, schema: Mapping[str, Any]) -> str:
    """The text of a type's file: its schema and the Kubernetes version it is from."""
    return json.dumps({"kubernetes": version, "schema": schema}, indent=1, sort_keys=True) + "\n"
