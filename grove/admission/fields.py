"""Where a value stands in an object, and what is wrong with it.

Rules read objects through `Field`, which never fails on a value of the wrong type and always knows its own path. So
one mistyped field does not hide the other problems, and every error names the real field.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from grove.api.base import field_path


class ErrorKind(StrEnum):
    """What is wrong, in the words of the API server."""

    REQUIRED = "Required value"
    INVALID = "Invalid value"
    DUPLICATE = "Duplicate value"
    NOT_FOUND = "Not found"
    NOT_SUPPORTED = "Unsupported value"
    TOO_LONG = "Too long"
    FORBIDDEN = "Forbidden"


_WITHOUT_VALUE: Final = frozenset({ErrorKind.REQUIRED, ErrorKind.TOO_LONG, ErrorKind.FORBIDDEN})


@dataclass(frozen=True, slots=True)
class FieldError:
    """A reason to refuse an object."""

    path: str
    kind: ErrorKind
    value: Any
    detail: str
    """what would be right"""

    def __str__(self) -> str:
        parts = [self.path, self.kind.value] if self.path else [self.kind.value]
        if self.kind not in _WITHOUT_VALUE:
            parts.append(shown(self.value))
        return ": ".join([*parts, self.detail] if self.detail else parts)


@dataclass(frozen=True, slots=True)
class FieldWarning:
    """Something the author should know, and no reason to refuse."""

    path: str
    detail: str

    def __str__(self) -> str:
        return f"{self.path}: {self.detail}"


Finding = FieldError | FieldWarning


@dataclass(slots=True)  # frozen ones take three times as long to make, and a review makes a thousand
class Field:
    """A value of a JSON-like object together with its place. Reading below a value of the wrong type finds nothing."""

    value: Any
    parent: Field | None = None
    step: str | int = ""

    def __getitem__(self, key: str) -> Field:
        """The field `key` of an object; its value is None when there is no such field."""
        return Field(self.value.get(key) if isinstance(self.value, dict) else None, self, key)

    def __iter__(self) -> Iterator[Field]:
        """The elements of a list."""
        if isinstance(self.value, list):
            for index, value in enumerate(self.value):
                yield Field(value, self, index)

    def items(self) -> Iterator[Field]:
        """The fields of an object, for maps such as labels; `step` is the key."""
        if isinstance(self.value, dict):
            for key, value in self.value.items():
                yield Field(value, self, key)

    @property
    def given(self) -> bool:
        """Whether there is a value; null counts as none."""
        return self.value is not None

    @property
    def text(self) -> str | None:
        """The value if it is a string."""
        return self.value if isinstance(self.value, str) else None

    @property
    def number(self) -> int | None:
        """The value if it is a whole number."""
        return self.value if isinstance(self.value, int) and not isinstance(self.value, bool) else None

    @property
    def path(self) -> str:
        """For instance `spec.template.cliques[1].spec.replicas`."""
        steps: list[str | int] = []
        field = self
        while field.parent is not None:
            steps.append(field.step)
            field = field.parent
        return field_path(reversed(steps))

    def required(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.REQUIRED, None, detail)

    def invalid(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.INVALID, self.value, detail)

    def duplicate(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.DUPLICATE, self.value, detail)

    def not_found(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.NOT_FOUND, self.value, detail)

    def not_supported(self, supported: Iterable[str]) -> FieldError:
        detail = "supported values: " + ", ".join(shown(value) for value in supported)
        return FieldError(self.path, ErrorKind.NOT_SUPPORTED, self.value, detail)

    def too_long(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.TOO_LONG, self.value, detail)

    def forbidden(self, detail: str) -> FieldError:
        return FieldError(self.path, ErrorKind.FORBIDDEN, self.value, detail)

    def warning(self, detail: str) -> FieldWarning:
        return FieldWarning(self.path, detail)


def cliques(root: Field) -> list[Field]:
    """The cliques of a PodCliqueSet's template, without those that are no objects."""
    return _objects(root["spec"]["template"]["cliques"])


def scaling_groups(root: Field) -> list[Field]:
    """The scaling groups of a PodCliqueSet's template, without those that are no objects."""
    return _objects(root["spec"]["template"]["podCliqueScalingGroups"])


def same_named(members: Callable[[Field], Sequence[Field]], new: Field, old: Field) -> Iterator[tuple[Field, Field]]:
    """The members of a set (its `cliques` or `scaling_groups`) that an update keeps, as they are and as they were.

    Of a name that is there twice the first counts.
    """
    before: dict[str, Field] = {}
    for member in members(old):
        before.setdefault(member["name"].text or "", member)
    for member in members(new):
        name = member["name"].text
        if name and name in before:
            yield member, before[name]


def constraints(root: Field) -> list[Field]:
    """The topology constraints of a PodCliqueSet: its own, those of its cliques, those of its scaling groups."""
    owners = (root["spec"]["template"], *cliques(root), *scaling_groups(root))
    return [owner["topologyConstraint"] for owner in owners if owner["topologyConstraint"].given]


def group_of(root: Field) -> dict[str, Field]:
    """The scaling group of each clique that is in one, by the clique's name; the first when it is in several."""
    groups: dict[str, Field] = {}
    for group in scaling_groups(root):
        for name in group["cliqueNames"]:
            if name.text is not None:
                groups.setdefault(name.text, group)
    return groups


def _objects(field: Field) -> list[Field]:
    return [item for item in field if isinstance(item.value, dict)]


def as_one_text(problems: Sequence[str]) -> str:
    """All problems as one text, as the API server words it: in brackets when there are several."""
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


def shown(value: Any, limit: int = 80) -> str:
    """A value for people: as JSON, cut after `limit` characters. Keys are sorted, as the API server sends them so."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str, sort_keys=True)
    except (RecursionError, TypeError, ValueError):
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else f"{text[:limit]}…"
