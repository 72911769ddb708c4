"""Fields that are missing, of the wrong type, or unknown."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from functools import cache
from typing import Any, Final, get_args

from pydantic import ValidationError

from grove.admission.fields import ErrorKind, Field, FieldError, FieldWarning, Finding
from grove.api.base import KubeModel, Resource, field_path

_RIGHT_TYPE: Final = {
    "int_type": "must be a whole number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
}


def shape(root: Field, model: type[Resource]) -> Iterator[Finding]:
    """Required fields are there and values have the right type.

    Covers api rules V3, V4 and V11 among others. The status is not looked at: it is the operator's.
    """
    obj = root.value
    if isinstance(obj, dict):
        obj = {key: value for key, value in obj.items() if key != "status"}
    try:
        model.from_wire(obj)
    except ValidationError as exc:
        for error in exc.errors(include_url=False):
            yield _finding(error["type"], error["loc"], error["input"], error.get("ctx", {}), error["msg"])


def unknown_fields(root: Field, model: type[Resource]) -> Iterator[Finding]:
    """A warning for each field that Grove does not know, as it is probably misspelled.

    Not an error, since a newer CRD may know it. Metadata and what belongs to Kubernetes (podSpec, metrics) are left
    to the API server.
    """
    for field in root.items():
        if field.step not in ("metadata", "status"):
            yield from _unknown(Field({field.step: field.value}), model)


def _finding(kind: str, loc: tuple[int | str, ...], value: Any, context: dict[str, Any], message: str) -> FieldError:
    path = field_path(loc)
    if kind == "missing":
        return FieldError(path, ErrorKind.REQUIRED, None, "")
    if kind == "enum":
        supported = str(context["expected"]).replace("'", '"').replace(" or ", ", ")
        return FieldError(path, ErrorKind.NOT_SUPPORTED, value, f"supported values: {supported}")
    return FieldError(path, ErrorKind.INVALID, value, _RIGHT_TYPE.get(kind, message))


def _unknown(field: Field, model: type[KubeModel]) -> Iterator[FieldWarning]:
    known = _known_fields(model)
    for item in field.items():
        if item.step not in known:
            close = get_close_matches(str(item.step), known, n=1)
            yield item.warning("unknown field, has no effect" + (f"; did you mean {close[0]}?" if close else ""))
        elif (nested := known[str(item.step)]) is not None:
            for part in item if isinstance(item.value, list) else (item,):
                yield from _unknown(part, nested)


@cache
def _known_fields(model: type[KubeModel]) -> dict[str, type[KubeModel] | None]:
    """The fields of a model by their name on the wire, with the model of their value if it has one."""
    return {info.alias or name: _model_in(info.annotation) for name, info in model.model_fields.items()}


def _model_in(annotation: Any) -> type[KubeModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, KubeModel):
        return annotation
    return next((model for model in map(_model_in, get_args(annotation)) if model is not None), None)
