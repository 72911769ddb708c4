"""The template as a whole, and which cliques form scaling groups."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import timedelta
from typing import Final

from grove.admission.fields import Field, FieldError, Finding, cliques, scaling_groups
from grove.api import durations
from grove.api.cel import MAX_CLIQUES, MAX_GROUPS, MAX_SHARING

_DURATION: Final = re.compile(durations.PATTERN, re.ASCII)
_MAX_DURATION_LENGTH: Final = 64
"""Matching takes the square of the length, so nonsense is not matched."""
_MAX_DURATION: Final = timedelta(hours=2562047)
"""The longest duration Kubernetes can hold: 2^63 nanoseconds, some 292 years."""


def has_cliques(root: Field) -> Iterator[Finding]:
    """There is at least one clique (api rule V17)."""
    field = root["spec"]["template"]["cliques"]
    if field.value == []:
        yield field.required("at least one clique")


def list_sizes(root: Field) -> Iterator[Finding]:
    """A set has at most 256 cliques and 128 scaling groups, and 32 entries in a list of resourceSharing."""
    template = root["spec"]["template"]
    sizes = [(template["cliques"], MAX_CLIQUES), (template["podCliqueScalingGroups"], MAX_GROUPS)]
    sizes += [(o["resourceSharing"], MAX_SHARING) for o in (template, *cliques(root), *scaling_groups(root))]
    for field, most in sizes:
        if isinstance(field.value, list) and len(field.value) > most:
            yield field.too_long(f"{len(field.value)} entries, at most {most}")


def termination_delay(root: Field) -> Iterator[Finding]:
    """terminationDelay is a duration above 0 (api rule V53)."""
    yield from duration(root["spec"]["template"]["terminationDelay"], "4h")


def duration(field: Field, example: str) -> Iterator[FieldError]:
    """What is wrong with a duration that must be above 0; `example` is a good one."""
    if field.text is None:
        return
    delay = None
    if len(field.text) <= _MAX_DURATION_LENGTH and _DURATION.fullmatch(field.text):
        with suppress(OverflowError):
            delay = durations.parse_duration(field.text)
    if delay is None or abs(delay) > _MAX_DURATION:
        yield field.invalid(f"must be a duration such as {example}, 1m30s or 500ms, at most 2562047h")
    elif delay <= timedelta(0):
        yield field.invalid(f"must be more than 0, e.g. {example}")


def group_members(root: Field) -> Iterator[Finding]:
    """A scaling group names existing cliques, at least one, each clique in one group at most (api rules V45, V51)."""
    known = {clique["name"].text for clique in cliques(root)}
    taken: dict[str, Field] = {}
    for group in scaling_groups(root):
        if group["cliqueNames"].value == []:
            yield group["cliqueNames"].required("at least one clique")
        for name in group["cliqueNames"]:
            yield from _group_member(name, group, known, taken)


def _group_member(name: Field, group: Field, known: set[str | None], taken: dict[str, Field]) -> Iterator[FieldError]:
    if name.text is None:
        return
    if name.text not in known:
        yield name.not_found("there is no clique of this name in the template")
    elif name.text in taken:
        first = taken[name.text]
        where = "twice in this group" if first.step == group.step else f"in {first.path} already"
        yield name.duplicate(f"the clique is {where}; it can be in one scaling group, once")
    else:
        taken[name.text] = group


def group_members_scale_as_one(root: Field) -> Iterator[Finding]:
    """A clique in a scaling group has no autoscaler of its own (api rule V52)."""
    grouped = {name.text for group in scaling_groups(root) for name in group["cliqueNames"]}
    for clique in cliques(root):
        config = clique["spec"]["autoScalingConfig"]
        if config.given and clique["name"].text in grouped:
            yield config.invalid("the clique is in a scaling group, which scales as one: use the group's scaleConfig")
