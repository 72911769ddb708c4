"""What is wrong with a PodCliqueSet: every problem at once, each with the field's path and what would be right.

The same function serves the validating webhook, the operator when it reads a set, and `grove plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from grove.admission.defaults import default_podcliqueset
from grove.admission.fields import Field, FieldError, Finding
from grove.admission.rules import counts, metadata, names, pods, startup, template
from grove.admission.rules.shape import shape, unknown_fields
from grove.api.labels import DEFAULT_SCHEDULER

Rule = Callable[[Field], Iterator[Finding]]

RULES: Final[tuple[Rule, ...]] = (
    unknown_fields,
    names.set_name,
    metadata.labels_and_annotations,
    counts.set_replicas,
    template.has_cliques,
    template.termination_delay,
    names.own_names,
    names.unique_names,
    names.name_lengths,
    names.distinct_children,
    counts.clique_counts,
    counts.scaling_group_counts,
    template.group_members,
    template.group_members_scale_as_one,
    startup.starts_after,
    pods.pod_shape,
    pods.environment,
    pods.restart_policy,
    pods.names_are_given,
)
"""Rules that hold at all times and need nothing but the object."""

CREATE_RULES: Final[tuple[Rule, ...]] = (pods.placed_by_scheduler,)
"""Rules for new objects only."""


@dataclass(frozen=True, slots=True)
class Result:
    """The findings of a validation."""

    errors: tuple[FieldError, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not self.errors


def validate_podcliqueset(
    new: dict[str, Any], old: dict[str, Any] | None = None, *, default_scheduler: str = DEFAULT_SCHEDULER
) -> Result:
    """Check a PodCliqueSet, with or without its defaults filled in.

    `old` is the object being updated, None for a new one; a stored object that is merely read is its own `old`.
    `default_scheduler` is what a pod without schedulerName gets. Never raises, whatever the input looks like.
    """
    root = Field(default_podcliqueset(new) if isinstance(new, dict) else new)
    found = list(shape(root))
    broken = {finding.path for finding in found if isinstance(finding, FieldError)}
    for rule in RULES if old is not None else RULES + CREATE_RULES:
        found.extend(finding for finding in rule(root) if finding.path not in broken)
    found.extend(pods.one_scheduler(root, default_scheduler))
    errors = tuple(finding for finding in found if isinstance(finding, FieldError))
    return Result(errors, tuple(str(finding) for finding in found if not isinstance(finding, FieldError)))
