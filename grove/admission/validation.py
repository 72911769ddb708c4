"""What is wrong with an object: every problem at once, each with the field's path and what would be right.

The same functions serve the validating webhooks, the operator when it reads a set, and `grove plan`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from grove.admission.defaults import default_podcliqueset
from grove.admission.facts import UNKNOWN, Facts
from grove.admission.fields import Field, FieldError, Finding, as_one_text
from grove.admission.registry import BINDING_RULES, PODCLIQUESET_RULES, Rule
from grove.admission.rules.shape import shape
from grove.api.base import Resource
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podcliqueset import PodCliqueSet


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a validation."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.errors

    @property
    def message(self) -> str:
        """All errors as one text."""
        return as_one_text([str(error) for error in self.errors])


def validate_podcliqueset(new: Any, old: Any = None, facts: Facts = UNKNOWN) -> Result:
    """Check a PodCliqueSet, with or without its defaults filled in.

    `old` is the object being updated, None for a new one; a stored object that is merely read is its own `old`.
    Never raises, whatever the input looks like.
    """
    before = default_podcliqueset(old) if isinstance(old, dict) else None
    return check_podcliqueset(default_podcliqueset(new, before) if isinstance(new, dict) else new, before, facts)


def check_podcliqueset(new: Any, old: dict[str, Any] | None, facts: Facts = UNKNOWN) -> Result:
    """As `validate_podcliqueset`, for objects that have their defaults."""
    return _check(PodCliqueSet, PODCLIQUESET_RULES, Field(new), None if old is None else Field(old), facts)


def validate_binding(new: Any, facts: Facts = UNKNOWN) -> Result:
    """Check a ClusterTopologyBinding; the same rules hold for new and updated ones. Never raises."""
    return _check(ClusterTopologyBinding, BINDING_RULES, Field(new), None, facts)


def _check(model: type[Resource], rules: Iterable[Rule], new: Field, old: Field | None, facts: Facts) -> Result:
    found: list[Finding] = list(shape(new, model))
    broken = {finding.path for finding in found if isinstance(finding, FieldError)}
    for rule in rules:
        found.extend(finding for finding in rule(new, old, facts) if finding.path not in broken)
    errors = {(error.path, error.kind, error.detail): error for error in found if isinstance(error, FieldError)}
    return Result(tuple(errors.values()), tuple(dict.fromkeys(str(f) for f in found if not isinstance(f, FieldError))))
