"""Names: of the set, its cliques, roles and scaling groups, and of everything that is called after them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from grove.admission import formats
from grove.admission.fields import Field, FieldError, Finding, cliques, group_of, scaling_groups
from grove.api import names
from grove.api.labels import MAX_NAME_LENGTH

_MAX_HOSTNAME_LENGTH: Final = formats.MAX_LABEL_LENGTH
_GENERATED_SUFFIX: Final = 5
"""characters the API server adds to metadata.generateName"""
_INDEX: Final = re.compile(r"0|[1-9][0-9]*")


def set_name(root: Field) -> Iterator[Finding]:
    """The set's name is a DNS label, as its Services are called after it (api rule V1)."""
    metadata = root["metadata"]
    name, prefix = metadata["name"], metadata["generateName"]
    if name.text:
        yield from _label(name)
    elif prefix.text:
        if problem := formats.dns_label_problem(f"{prefix.text}x"):
            yield prefix.invalid(problem)
    elif isinstance(metadata.value, dict | None):
        yield name.required("a DNS label such as my-model")
    if metadata["namespace"].text and (problem := formats.dns_label_problem(metadata["namespace"].text)):
        yield metadata["namespace"].invalid(problem)


def own_names(root: Field) -> Iterator[Finding]:
    """Cliques and scaling groups have a name, and it is a DNS label (api rules V18, V19, V44)."""
    for owner in (*cliques(root), *scaling_groups(root)):
        name = owner["name"]
        if name.text:
            yield from _label(name)
        else:
            yield name.required("a DNS label such as worker")


def unique_names(root: Field) -> Iterator[Finding]:
    """Clique names, role names and scaling group names are unique, each among their own (api rules V38, V39, V50).

    A role name that was not given is the clique's own name.
    """
    yield from _unique((clique["name"] for clique in cliques(root)), "clique names must be unique")
    roles = (clique["spec"]["roleName"] for clique in cliques(root))
    yield from _unique(roles, "role names must be unique; one that is left out is the clique's name")
    yield from _unique((group["name"] for group in scaling_groups(root)), "scaling group names must be unique")


def name_lengths(root: Field) -> Iterator[Finding]:
    """The names that make up a host name fit into it (api rules V20, V46).

    The names of set, scaling group and clique have 45 characters together, and the host name of the last pod that
    replicas and maxReplicas allow has 63.
    """
    metadata, name = root["metadata"], set_name_of(root)
    field = metadata["name"] if metadata["name"].text else metadata["generateName"]
    if len(name) >= MAX_NAME_LENGTH:
        yield field.invalid(
            f"{len(name)} characters leave no room for clique names: must be fewer than {MAX_NAME_LENGTH}"
        )
        return
    groups = group_of(root)
    for clique in cliques(root):
        own = clique["name"].text
        if own and len(own) <= formats.MAX_LABEL_LENGTH:
            yield from _host_name_length(root, clique, groups.get(own))


def distinct_children(root: Field) -> Iterator[Finding]:
    """No two PodCliques of the set, and no two autoscalers, get the same name.

    Clique `a-0-b` and clique `b` of scaling group `a` would both become PodClique `<set>-<i>-a-0-b`.
    """
    groups = group_of(root)
    patterns = [(clique, _Pattern.of(clique, groups.get(clique["name"].text or ""))) for clique in cliques(root)]
    holes = {pattern.hole for _, pattern in patterns}
    taken: dict[tuple[str, ...], dict[int | None, str]] = {}
    for clique, pattern in patterns:
        name = clique["name"].text or ""
        for other_hole in holes - {pattern.hole}:
            if not pattern.fills(other_hole):
                continue
            alike = taken.setdefault(pattern.without(other_hole), {})
            if other_hole in alike:
                yield clique["name"].invalid(f"its pods would be called like those of {alike[other_hole]}; rename one")
            alike[pattern.hole] = name
    scaled = {clique["name"].text for clique in cliques(root) if clique["spec"]["autoScalingConfig"].given}
    for group in scaling_groups(root):
        if group["name"].text in scaled - groups.keys() and group["scaleConfig"].given:
            yield group["name"].invalid(
                "its autoscaler would be called like that of the clique of this name; rename one"
            )


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The steps between the dashes of a PodClique's name, after those of the set's replica."""

    steps: tuple[str, ...]
    hole: int | None
    """which step is the index of a scaling group's replica; None outside of scaling groups"""

    @classmethod
    def of(cls, clique: Field, group: Field | None) -> _Pattern:
        own = (clique["name"].text or "").split("-")
        if group is None:
            return cls(tuple(own), None)
        before = (group["name"].text or "").split("-")
        return cls((*before, "", *own), len(before))

    def fills(self, hole: int | None) -> bool:
        """Whether the name of a pattern with that hole could be equal here: there is an index in this one too."""
        return hole is None or (hole < len(self.steps) and _INDEX.fullmatch(self.steps[hole]) is not None)

    def without(self, hole: int | None) -> tuple[str, ...]:
        """What has to be equal for this name to equal one of a pattern with that hole."""
        holes = tuple(str(position) for position in sorted({self.hole, hole} - {None}, key=str))
        rest = (step for position, step in enumerate(self.steps) if position not in (self.hole, hole))
        return ("/".join(holes), *rest)


def _host_name_length(root: Field, clique: Field, group: Field | None) -> Iterator[FieldError]:
    name = clique["name"]
    parts = [set_name_of(root), *([group["name"].text or ""] if group is not None else []), name.text or ""]
    podclique = podclique_name(root, clique, group)
    host = names.pod_hostname(podclique, last_index(clique["spec"], "autoScalingConfig"))
    together = sum(len(part) for part in parts)
    if together > MAX_NAME_LENGTH:
        yield name.invalid(
            f"the names {', '.join(parts)} have {together} characters together, {MAX_NAME_LENGTH} at most fit into a "
            f"host name ({host})"
        )
    elif len(host) > _MAX_HOSTNAME_LENGTH:
        yield name.invalid(
            f"the longest host name would be {host}: {len(host)} characters, {_MAX_HOSTNAME_LENGTH} at most; "
            "shorten the names or lower the replicas"
        )


def set_name_of(root: Field) -> str:
    """The set's name, with x for the characters that the API server will add to generateName; empty for none."""
    metadata = root["metadata"]
    prefix = metadata["generateName"].text
    return metadata["name"].text or (f"{prefix}{'x' * _GENERATED_SUFFIX}" if prefix else "")


def scaling_group_name(root: Field, group: Field) -> str:
    """The longest name that a PodCliqueScalingGroup of a group gets."""
    return names.scaling_group_name(set_name_of(root), last_index(root["spec"]), group["name"].text or "")


def podclique_name(root: Field, clique: Field, group: Field | None) -> str:
    """The longest name that a PodClique of a clique (in `group`, if any) gets."""
    own = clique["name"].text or ""
    if group is None:
        return names.podclique_name(set_name_of(root), last_index(root["spec"]), own)
    j = last_index(group, "scaleConfig")
    return names.scaling_group_podclique_name(scaling_group_name(root, group), j, own)


def last_index(owner: Field, scaling: str = "") -> int:
    """The highest index that replicas and the autoscaler's maxReplicas (under `scaling`) allow."""
    most = [owner["replicas"].number, owner[scaling]["maxReplicas"].number if scaling else None, 1]
    return max(number for number in most if number is not None) - 1


def _label(name: Field) -> Iterator[FieldError]:
    if name.text is not None and (problem := formats.dns_label_problem(name.text)):
        yield name.invalid(problem)


def _unique(fields: Iterable[Field], rule: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for field in fields:
        if field.text and field.text in seen:
            yield field.duplicate(rule)
        elif field.text:
            seen.add(field.text)
