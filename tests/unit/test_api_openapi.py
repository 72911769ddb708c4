"""From an API server's OpenAPI document to a structural schema."""

from __future__ import annotations

import re
from typing import Any

import pytest

from grove.api.openapi import structural

QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
RAW = "io.k8s.apimachinery.pkg.runtime.RawExtension"


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def convert(root: dict[str, Any], **schemas: dict[str, Any]) -> dict[str, Any]:
    return structural({"components": {"schemas": {"Root": root, **schemas}}}, "Root")


def field(node: dict[str, Any], **schemas: dict[str, Any]) -> Any:
    """A field `f` of that form, converted."""
    return convert({"type": "object", "properties": {"f": node}}, **schemas)["properties"]["f"]


def test_references_are_filled_in_wherever_they_are() -> None:
    leaf = {"type": "string", "description": "of the leaf"}
    assert field(ref("Leaf"), Leaf=leaf) == {"type": "string"}
    assert field({"allOf": [ref("Leaf")], "default": {}, "description": "x"}, Leaf=leaf) == {"type": "string"}
    assert field({"type": "array", "items": ref("Leaf")}, Leaf=leaf) == {"type": "array", "items": {"type": "string"}}
    assert field({"type": "object", "additionalProperties": ref("Leaf")}, Leaf=leaf) == {
        "type": "object",
        "additionalProperties": {"type": "string"},
    }
    assert field(ref("Mid"), Mid={"type": "object", "properties": {"g": ref("Leaf")}}, Leaf=leaf) == {
        "type": "object",
        "properties": {"g": {"type": "string"}},
    }


def test_what_the_api_server_needs_is_kept_and_the_rest_is_dropped() -> None:
    node = {
        "type": "array",
        "description": "long",
        "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
        "x-kubernetes-patch-strategy": "merge",
        "x-kubernetes-patch-merge-key": "name",
    }
    dropped = {"description", "x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key"}
    assert field(node) == {key: value for key, value in node.items() if key not in dropped}
    assert field({"type": "integer", "format": "int32"}) == {"type": "integer", "format": "int32"}
    assert field({"type": "string", "enum": ["a", "b"]}) == {"type": "string"}
    assert field({"type": "object", "x-kubernetes-map-type": "atomic"})["x-kubernetes-map-type"] == "atomic"


def test_required_fields_are_kept_in_a_fixed_order() -> None:
    node = {"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "string"}}, "required": ["b", "a"]}
    assert field(node)["required"] == ["a", "b"]


@pytest.mark.parametrize("default", ["TCP", 3, True])
def test_defaults_that_mean_something_are_kept(default: Any) -> None:
    assert field({"type": "string", "default": default})["default"] == default


@pytest.mark.parametrize("default", ["", 0, False, {}, []])
def test_defaults_that_mean_absent_are_dropped(default: Any) -> None:
    assert field({"type": "string", "default": default}) == {"type": "string"}


def test_a_list_key_that_may_be_absent_has_a_default() -> None:
    node = {
        "type": "array",
        "items": ref("Item"),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port", "protocol", "name"],
    }
    properties = {
        "port": {"type": "integer"},
        "protocol": {"type": "string", "default": "TCP"},
        "name": {"type": "string", "default": ""},
    }
    item = {"type": "object", "properties": properties, "required": ["port"]}
    assert field(node, Item=item)["items"]["properties"] == properties


def test_a_list_key_gets_its_default_in_that_list_only() -> None:
    node = {
        "type": "array",
        "items": ref("Item"),
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }
    item = {"type": "object", "properties": {"name": {"type": "string"}}}
    root = {"type": "object", "properties": {"list": node, "one": ref("Item")}}
    converted = convert(root, Item=item)["properties"]
    assert converted["list"]["items"]["properties"]["name"] == {"type": "string", "default": ""}
    assert converted["one"]["properties"]["name"] == {"type": "string"}


def test_numbers_that_may_be_text() -> None:
    either = {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True}
    assert field(ref(INT_OR_STRING)) == either
    quantity = field({"type": "object", "additionalProperties": ref(QUANTITY)})["additionalProperties"]
    assert {key: value for key, value in quantity.items() if key != "pattern"} == either


@pytest.mark.parametrize("text", ["1", "0.5", ".5", "5.", "100m", "1Gi", "1.5e3", "1e9", "12E-2", "-1", "+2k", "3P"])
def test_quantities(text: str) -> None:
    assert re.search(field(ref(QUANTITY))["pattern"], text)


@pytest.mark.parametrize("text", ["", "lots", "1 Gi", "1GiB", "1gi", "e3", "1e", "--1", "1Ki5", "K"])
def test_what_is_no_quantity(text: str) -> None:
    assert not re.search(field(ref(QUANTITY))["pattern"], text)


def test_template_metadata_keeps_labels_and_takes_a_null_time() -> None:
    metadata = field({"allOf": [ref(OBJECT_META)], "default": {}})
    assert metadata["properties"]["labels"]["additionalProperties"] == {"type": "string"}
    assert metadata["properties"]["creationTimestamp"]["nullable"] is True
    assert "managedFields" not in metadata["properties"]


def test_free_form_parts_are_kept_whole() -> None:
    assert field(ref(RAW)) == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def test_an_unknown_schema_is_an_error() -> None:
    with pytest.raises(KeyError, match="Missing"):
        structural({"components": {"schemas": {}}}, "Missing")
