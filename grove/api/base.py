"""The ground all API models stand on: object metadata, conditions, and reading objects as the API server sends them.

Attributes are snake_case, the wire is camelCase. Unknown fields survive a round trip, so that objects written by newer
clients lose nothing. Limits that the API server enforces (lengths, patterns) live in the CRD schema only: an object
that is already stored must always be readable.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, Final, Self

from pydantic import BaseModel, ConfigDict, Field, Strict, ValidationError, WithJsonSchema
from pydantic.alias_generators import to_camel

Int32 = Annotated[int, Strict(), WithJsonSchema({"type": "integer", "format": "int32"})]
Int64 = Annotated[int, Strict(), WithJsonSchema({"type": "integer", "format": "int64"})]
Bool = Annotated[bool, Strict()]

MAX_REPLICAS: Final = 10_000
"""Most replicas of a set, a group or a clique. A PodGang names each of its pods, and with twice as many in one clique
it would outgrow what the API server stores; a number beyond is a slip of the finger that would keep the operator busy
for everybody.
"""
IntOrPercent = Annotated[
    Any,
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "x-kubernetes-int-or-string": True,
            "minimum": 1,
            "pattern": "^([1-9][0-9]?|100)%$",
        }
    ),
]
"""A number of at least 1, or a share of the whole such as `25%`."""
MemberName = Annotated[str, WithJsonSchema({"type": "string", "maxLength": 63})]
"""A clique or scaling group of a set, by its name there."""

Time = Annotated[str, WithJsonSchema({"type": "string", "format": "date-time"})]
"""RFC 3339 in UTC with whole seconds, e.g. `2026-09-01T00:00:00Z`."""


class KubeModel(BaseModel):
    """A piece of a Kubernetes object: frozen, camelCase on the wire, keeps fields it does not know."""

    model_config = ConfigDict(
        frozen=True,
        extra="allow",
        alias_generator=to_camel,
        validate_by_name=True,
        validate_by_alias=True,
    )

    def to_wire(self) -> dict[str, Any]:
        """This piece as plain JSON types with camelCase keys; what was never set is absent."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, exclude_none=True)


class OwnerReference(KubeModel):
    """Names the object that owns this one (meta/v1 OwnerReference)."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(KubeModel):
    """The metadata that every object carries (meta/v1 ObjectMeta), as far as Grove reads it."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def controller(self) -> OwnerReference | None:
        """The owner reference that is marked as the controller, of which an object has at most one."""
        return next((ref for ref in self.owner_references if ref.controller), None)


_CONDITION_REASON: Final = r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
_CONDITION_TYPE: Final = (
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
)


class Condition(KubeModel):
    """One observation about an object's state (meta/v1 Condition); an object has one per type."""

    type: str = Field(
        description="What is observed; one condition per type.",
        json_schema_extra={"maxLength": 316, "pattern": _CONDITION_TYPE},
    )
    status: str = Field(description="True, False or Unknown.", json_schema_extra={"enum": ["True", "False", "Unknown"]})
    observed_generation: Int64 | None = Field(
        default=None,
        description="The metadata.generation the observation was made for.",
        json_schema_extra={"minimum": 0},
    )
    last_transition_time: Time = Field(description="When status last changed; other changes leave it alone.")
    reason: str = Field(
        description="Why, as one CamelCase word for programs.",
        json_schema_extra={"minLength": 1, "maxLength": 1024, "pattern": _CONDITION_REASON},
    )
    message: str = Field(description="Why, as a sentence for people.", json_schema_extra={"maxLength": 32768})


CONDITION_LIST: Final[dict[str, Any]] = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
"""Schema of a list of conditions: one entry per type, so that several writers can each own theirs."""


def find_condition(conditions: Iterable[Condition], condition_type: str) -> Condition | None:
    """The condition of that type, or None."""
    return next((condition for condition in conditions if condition.type == condition_type), None)


class LastError(KubeModel):
    """An error of the latest pass over an object."""

    code: str = Field(description="A stable word for programs, e.g. ERR_CREATE_POD.")
    description: str = Field(description="What went wrong, for people.")
    observed_at: Time = Field(description="When it was seen.")


class Resource(KubeModel):
    """A top-level object. Subclasses add `spec` and `status` and say under which path the API serves them."""

    GROUP: ClassVar[str]
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str]
    PLURAL: ClassVar[str]

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @classmethod
    def from_wire(cls, obj: dict[str, Any]) -> Self:
        """Read an object as the API server sends it. A null is read as absent, as the API server does.

        The dict is kept, not copied: see `wire`.

        Raises pydantic.ValidationError when a required field is absent or a value has the wrong type; `field_errors`
        turns that into lines for people.
        """
        try:
            resource = cls.model_validate(obj)
        except ValidationError as exc:
            resource = cls.model_validate(_without_nulls(obj, exc))
        resource.__dict__["wire"] = obj  # what the cached property below would hold
        return resource

    @cached_property
    def wire(self) -> dict[str, Any]:
        """The dict this object was read from, never to be changed; for an object made in code, `to_wire()`."""
        return self.to_wire()

    def to_wire(self) -> dict[str, Any]:
        """The whole object as plain JSON types, apiVersion and kind included."""
        head = {"apiVersion": f"{self.GROUP}/{self.VERSION}", "kind": self.KIND}
        return head | super().to_wire()

    @property
    def name(self) -> str:
        return self.metadata.name

    @property
    def namespace(self) -> str:
        return self.metadata.namespace

    @property
    def uid(self) -> str:
        return self.metadata.uid

    @property
    def generation(self) -> int:
        return self.metadata.generation

    @property
    def labels(self) -> Mapping[str, str]:
        return self.metadata.labels

    @property
    def annotations(self) -> Mapping[str, str]:
        return self.metadata.annotations

    @cached_property
    def resource_version(self) -> int:
        """The resourceVersion as a number, which orders the versions of one object; 0 when absent."""
        return int(self.metadata.resource_version or 0)

    @property
    def deleting(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @cached_property
    def owner_uid(self) -> str:
        """The uid of the controller that owns this object, or an empty string."""
        owner = self.metadata.controller
        return owner.uid if owner else ""


def _without_nulls(obj: dict[str, Any], exc: ValidationError) -> dict[str, Any]:
    """A copy of `obj` without the nulls that `exc` complains about; what is not on the way to them is shared."""
    for error in exc.errors(include_url=False):
        if error["input"] is None and error["loc"]:
            obj = _without(obj, error["loc"])
    return obj


def _without(value: Any, loc: tuple[int | str, ...]) -> Any:
    step, *rest = loc
    copy = value.copy()
    if rest:
        copy[step] = _without(value[step], tuple(rest))
    elif isinstance(copy, dict):
        copy.pop(step, None)
    return copy


_RIGHT_TYPE: Final = {
    "int_type": "must be a whole number",
    "string_type": "must be a string",
    "bool_type": "must be true or false",
    "float_type": "must be a number",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
}


def field_errors(exc: ValidationError) -> list[str]:
    """What is wrong with an object, one line per field: its path, the value found and what would be right.

    The lines are worded as the API server words them: `spec.replicas: Invalid value: "two": must be a whole number`.
    """
    return [
        _field_error(error["type"], error["loc"], error["input"], error.get("ctx", {}), error["msg"])
        for error in exc.errors(include_url=False)
    ]


def _field_error(kind: str, loc: tuple[int | str, ...], value: Any, context: dict[str, Any], message: str) -> str:
    path = field_path(loc)
    if kind == "missing":
        return f"{path}: Required value"
    if kind == "enum":
        allowed = str(context["expected"]).replace("'", '"').replace(" or ", ", ")
        return f"{path}: Unsupported value: {_shown(value)}: supported values: {allowed}"
    return f"{path}: Invalid value: {_shown(value)}: {_RIGHT_TYPE.get(kind, message)}"


def field_path(loc: Iterable[int | str]) -> str:
    """Join the steps to a field: `("cliques", 1, "labels", "a/b")` becomes `cliques[1].labels[a/b]`."""
    path = ""
    for step in loc:
        if isinstance(step, str) and step.isidentifier():
            path += f".{step}" if path else step
        else:
            path += f"[{step}]"
    return path


def _shown(value: Any, limit: int = 80) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else f"{text[:limit]}…"
