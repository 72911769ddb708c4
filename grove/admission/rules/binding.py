"""The levels and schedulers of a ClusterTopologyBinding."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding


def levels(root: Field) -> Iterator[Finding]:
    """No two levels have the same domain, and no two the same node label (API doc 2.5)."""
    for key in ("domain", "key"):
        seen: dict[str, str] = {}
        for level in root["spec"]["levels"]:
            field = level[key]
            if field.text is None:
                continue
            if field.text in seen:
                yield field.duplicate(f"{seen[field.text]} has it already")
            seen.setdefault(field.text, field.path)


def schedulers(root: Field, facts: Facts) -> Iterator[Finding]:
    """A scheduler is named once, is enabled in the operator, and places by topology (API doc 2.5)."""
    seen: dict[str, str] = {}
    for entry in root["spec"]["schedulerTopologyBindings"]:
        field = entry["schedulerName"]
        if field.text is None:
            continue
        if field.text in seen:
            yield field.duplicate(f"{seen[field.text]} names it already")
        elif facts.schedulers is not None and field.text not in facts.schedulers:
            enabled = ", ".join(sorted(facts.schedulers))
            yield field.invalid(f"not enabled in the operator, which has the scheduler profiles {enabled}")
        elif facts.schedulers is not None and field.text not in facts.topology_schedulers:
            able = ", ".join(sorted(facts.topology_schedulers))
            yield field.invalid(f"does not place by topology; those that do: {able}")
        seen.setdefault(field.text, field.path)
