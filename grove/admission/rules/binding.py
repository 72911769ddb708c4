"""The levels and schedulers of a ClusterTopologyBinding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding

_KAI: Final = "kai-scheduler"
_KAI_LEVELS: Final = 16


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


def kai_levels(root: Field, facts: Facts) -> Iterator[Finding]:
    """A warning where KAI, which gets a Topology of these levels, refuses them: over 16, or below the hostname."""
    references = [entry["schedulerName"].text for entry in root["spec"]["schedulerTopologyBindings"]]
    if _KAI not in (facts.schedulers or ()) or _KAI in references:
        return
    found = list(root["spec"]["levels"])
    if len(found) > _KAI_LEVELS:
        yield root["spec"]["levels"].warning(f"KAI takes at most {_KAI_LEVELS} levels, these are {len(found)}")
    for level in found[:-1]:
        if level["key"].text == "kubernetes.io/hostname":
            yield level["key"].warning("KAI takes kubernetes.io/hostname as the last level only")


def schedulers(root: Field, facts: Facts) -> Iterator[Finding]:
    """A scheduler is named once, is enabled in the operator, and has topology objects (API doc 2.5)."""
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
            yield field.invalid(f"has no topology objects; those that have: {able}")
        seen.setdefault(field.text, field.path)
