"""From an API server's OpenAPI v3 document to a structural schema, as a CustomResourceDefinition needs it.

A structural schema has no references and no alternatives, and says for every list with keys that the keys are there.
Descriptions are left out: they are most of the size, and `kubectl explain pod.spec` has them. Enumerations are left out
too, since a newer API server may know more values; it checks them when the pod is made.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

Schema = dict[str, Any]

_KEPT: Final = (
    "type",
    "format",
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)

_STRING: Final[Schema] = {"type": "string"}
_INT_OR_STRING: Final[Schema] = {
    "anyOf": [{"type": "integer"}, {"type": "string"}],
    "x-kubernetes-int-or-string": True,
}
_SPECIAL: Final[Mapping[str, Schema]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _INT_OR_STRING,
    # sign, decimal number, then a binary suffix, a decimal suffix or an exponent
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _INT_OR_STRING
    | {"pattern": r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$"},
    # The metadata of a template: what the object made from it takes over. Clients send the time as null.
    "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta": {
        "type": "object",
        "properties": {
            "name": _STRING,
            "generateName": _STRING,
            "namespace": _STRING,
            "labels": {"type": "object", "additionalProperties": _STRING},
            "annotations": {"type": "object", "additionalProperties": _STRING},
            "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
            "creationTimestamp": {"type": "string", "format": "date-time", "nullable": True},
        },
    },
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}


def structural(document: Mapping[str, Any], name: str) -> Schema:
    """The schema called `name` in an OpenAPI v3 document, in structural form.

    Raises KeyError when the document has no such schema.
    """
    return _expand(document["components"]["schemas"], _reference(name))


def _reference(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def _expand(schemas: Mapping[str, Schema], node: Schema) -> Schema:
    """`node` without references, recursively."""
    reference = node.get("$ref") or next((part["$ref"] for part in node.get("allOf", ()) if "$ref" in part), None)
    if reference:
        name = reference.rpartition("/")[2]
        target = _SPECIAL.get(name)
        return dict(target) if target else _expand(schemas, schemas[name]) | _default(node)
    schema = {key: node[key] for key in _KEPT if key in node} | _default(node)
    if "required" in schema:
        schema["required"] = sorted(schema["required"])
    if "properties" in node:
        schema["properties"] = {key: _expand(schemas, child) for key, child in node["properties"].items()}
    if "items" in node:
        schema["items"] = _expand(schemas, node["items"])
        _ensure_keys(schema)
    if "additionalProperties" in node:
        schema["additionalProperties"] = _expand(schemas, node["additionalProperties"])
    return schema


def _default(node: Schema) -> Schema:
    """The node's default, unless it is the zero of its type: that is Go's way of saying absent."""
    return {"default": node["default"]} if node.get("default") else {}


def _ensure_keys(schema: Schema) -> None:
    """Give the keys of a keyed list an empty default where they may be absent, as the API server demands."""
    items = schema["items"]
    for key in schema.get("x-kubernetes-list-map-keys", ()):
        if key not in items.get("required", ()):
            items["properties"][key].setdefault("default", "")
