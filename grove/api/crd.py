"""CustomResourceDefinitions, made from the models.

The models say what fields there are, what they mean and what they default to; this module adds what belongs to a kind
as a whole: its names, printer columns, subresources and rules across fields.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import yaml

from grove.api import kubernetes
from grove.api.base import Resource
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.openapi import Schema
from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podcliqueset import PodCliqueSet
from grove.api.podgang import PodGang


@dataclass(frozen=True)
class Column:
    """A column of `kubectl get`; a priority above 0 shows it with `-o wide` only."""

    name: str
    path: str
    type: str = "integer"
    priority: int = 0

    def to_wire(self) -> Schema:
        column: Schema = {"name": self.name, "type": self.type, "jsonPath": self.path}
        return column | ({"priority": self.priority} if self.priority else {})


@dataclass(frozen=True)
class Definition:
    """What a kind's CustomResourceDefinition says beside the schema of its fields."""

    model: type[Resource]
    short_name: str
    columns: tuple[Column, ...]
    namespaced: bool = True
    selector_path: str = ""
    """Where the scale subresource finds the label selector; empty for kinds that do not scale."""

    @property
    def file_name(self) -> str:
        return f"{self.model.GROUP}_{self.model.PLURAL}.yaml"


def _breached(priority: int = 1) -> Column:
    path = '.status.conditions[?(@.type=="MinAvailableBreached")].status'
    return Column("MinBreached", path, "string", priority)


_UPDATING: Final = Column("Updating", '.status.conditions[?(@.type=="UpdateInProgress")].reason', "string", priority=1)
_AGE: Final = Column("Age", ".metadata.creationTimestamp", "date")
_UPDATED_CLIQUES: Final = Column("PCLQs-Updated", ".status.updateProgress.updatedPodCliquesCount")
_TOTAL_CLIQUES: Final = Column("PCLQs-Total", ".status.updateProgress.totalPodCliquesCount")

DEFINITIONS: Final = (
    Definition(
        PodCliqueSet,
        "pcs",
        (
            Column("Replicas", ".spec.replicas"),
            Column("Available", ".status.availableReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            _UPDATED_CLIQUES,
            _TOTAL_CLIQUES,
            Column("PCSGs-Updated", ".status.updateProgress.updatedPodCliqueScalingGroupsCount"),
            Column("PCSGs-Total", ".status.updateProgress.totalPodCliqueScalingGroupsCount"),
            _UPDATING,
            _AGE,
        ),
        selector_path=".status.hpaPodSelector",
    ),
    Definition(
        PodClique,
        "pclq",
        (
            Column("MinAvail", ".spec.minAvailable"),
            Column("Replicas", ".spec.replicas"),
            Column("Ready", ".status.readyReplicas"),
            Column("Scheduled", ".status.scheduledReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            Column("Gated", ".status.scheduleGatedReplicas", priority=1),
            _breached(),
            _AGE,
        ),
        selector_path=".status.hpaPodSelector",
    ),
    Definition(
        PodCliqueScalingGroup,
        "pcsg",
        (
            Column("MinAvail", ".spec.minAvailable"),
            Column("Replicas", ".spec.replicas"),
            Column("Available", ".status.availableReplicas"),
            Column("Scheduled", ".status.scheduledReplicas"),
            Column("Updated", ".status.updatedReplicas"),
            _UPDATED_CLIQUES,
            _TOTAL_CLIQUES,
            _breached(),
            _AGE,
        ),
        selector_path=".status.selector",
    ),
    Definition(
        ClusterTopologyBinding,
        "ct",
        (Column("Domains", ".spec.levels[*].domain", "string"), _AGE),
        namespaced=False,
    ),
    Definition(PodGang, "pg", (Column("Phase", ".status.phase", "string"), _AGE)),
)


def manifests() -> dict[str, str]:
    """The text of every CustomResourceDefinition, by file name. The same models give the same bytes."""
    return {definition.file_name: _to_yaml(custom_resource_definition(definition)) for definition in DEFINITIONS}


def custom_resource_definition(definition: Definition) -> Schema:
    """The CustomResourceDefinition of one kind."""
    model = definition.model
    singular = model.KIND.lower()
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{model.PLURAL}.{model.GROUP}"},
        "spec": {
            "group": model.GROUP,
            "names": {
                "kind": model.KIND,
                "listKind": f"{model.KIND}List",
                "plural": model.PLURAL,
                "singular": singular,
                "shortNames": [definition.short_name],
                "categories": ["grove"],
            },
            "scope": "Namespaced" if definition.namespaced else "Cluster",
            "versions": [
                {
                    "name": model.VERSION,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema(model)},
                    "additionalPrinterColumns": [column.to_wire() for column in definition.columns],
                    "subresources": _subresources(definition),
                }
            ],
        },
    }


def _subresources(definition: Definition) -> Schema:
    subresources: Schema = {"status": {}}
    if definition.selector_path:
        subresources["scale"] = {
            "specReplicasPath": ".spec.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": definition.selector_path,
        }
    return subresources


def schema(model: type[Resource]) -> Schema:
    """The structural schema of a kind."""
    document = model.model_json_schema(by_alias=True)
    names = document.pop("x-grove-metadata", None)
    root = _structural(document, document.pop("$defs"))
    root["properties"] |= {
        "apiVersion": {"type": "string", "description": "The group and version of this object's schema."},
        "kind": {"type": "string", "description": "The kind of this object."},
        "metadata": {"type": "object"} | ({"properties": names} if names else {}),
    }
    return root


_KEPT: Final = (
    "anyOf",
    "type",
    "format",
    "description",
    "enum",
    "required",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "pattern",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-validations",
)


def _structural(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """A node of pydantic's JSON schema in the form that the API server takes: no references, no alternatives."""
    node = _resolved(node, definitions)
    if name := node.get("x-grove-schema"):
        return kubernetes.load(name) | {"description": node["description"]}
    result: Schema = {key: node[key] for key in _KEPT if key in node}
    if isinstance(node.get("default"), bool | int | str) and node["default"] != "":
        result["default"] = node["default"]
    if "properties" in node:
        result["properties"] = {key: _structural(child, definitions) for key, child in node["properties"].items()}
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], definitions)
    if name := node.get("x-grove-items"):
        result["items"] = kubernetes.load(name)
    elif "items" in node:
        result["items"] = _structural(node["items"], definitions)
    for path, limits in node.get("x-grove-limits", {}).items():
        _limit(result, path.split("."), limits)
    return result


def _limit(node: Schema, path: Sequence[str], limits: Schema) -> None:
    """Add limits to the field at `path` below a node, `[]` being the items of a list."""
    owner, key = (node, "items") if path[0] == "[]" else (node["properties"], path[0])
    owner[key] = dict(owner[key])  # the schemas of Kubernetes' types are shared
    if len(path) == 1:
        owner[key] |= limits
        return
    if "properties" in owner[key]:
        owner[key]["properties"] = dict(owner[key]["properties"])
    _limit(owner[key], path[1:], limits)


def _resolved(node: Schema, definitions: Mapping[str, Schema]) -> Schema:
    """`node` with what it refers to merged in; what it says itself wins. `X | None` is X: absent is not null."""
    for alternative in node.get("anyOf", ()):
        if alternative != {"type": "null"}:
            node = alternative | {key: value for key, value in node.items() if key != "anyOf"}
    if "$ref" in node:
        target = _resolved(definitions[node["$ref"].rpartition("/")[2]], definitions)
        return target | {key: value for key, value in node.items() if key != "$ref"}
    return node


class _Inline(dict[str, Any]):
    """A mapping that is written on one line."""


class _Dumper(yaml.SafeDumper):
    """Writes repeated parts out instead of referring to them."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_Dumper.add_representer(
    _Inline, lambda dumper, data: dumper.represent_mapping("tag:yaml.org,2002:map", data, flow_style=True)
)


def _to_yaml(obj: Schema) -> str:
    return yaml.dump(_compact(obj), Dumper=_Dumper, sort_keys=True, width=120, allow_unicode=True)


def _compact(node: Any, limit: int = 100) -> Any:
    """Put small parts on one line each. A level of nesting costs two spaces on every line below it: written in full,
    the PodSpec alone is larger than the 256 KiB that a file may have for `kubectl apply`.
    """
    if isinstance(node, list):
        return [_compact(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node and "description" not in node and len(json.dumps(node)) <= limit:
        return _Inline(node)
    return {key: _compact(child) for key, child in node.items()}
