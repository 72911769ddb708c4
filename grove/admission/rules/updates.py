"""What an update of a set may not change: the parts that running pods, gangs and claims are built on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from grove.admission.facts import Facts
from grove.admission.fields import ErrorKind, Field, FieldError, Finding, cliques, same_named, scaling_groups, shown
from grove.admission.rules.startup import starts_after
from grove.api.podcliqueset import CliqueStartupType

_IN_LIST_ORDER: Final = (CliqueStartupType.IN_ORDER.value, CliqueStartupType.EXPLICIT.value)


def same_cliques(new: Field, old: Field) -> Iterator[Finding]:
    """Cliques are neither added nor removed (api rules U1, U2); one with 0 replicas is idle."""
    yield from _same_members(new["spec"]["template"]["cliques"], cliques(new), cliques(old), "cliques")


def same_groups(new: Field, old: Field) -> Iterator[Finding]:
    """Scaling groups are neither added nor removed (api rules U7, U8); one with 0 replicas is idle."""
    where = new["spec"]["template"]["podCliqueScalingGroups"]
    yield from _same_members(where, scaling_groups(new), scaling_groups(old), "scaling groups")


def clique_order(new: Field, old: Field) -> Iterator[Finding]:
    """The order of cliques stays, unless they start in any order: CliqueStartupTypeAnyOrder (api rule U3)."""
    template = new["spec"]["template"]
    before, after = _names(cliques(old)), _names(cliques(new))
    moved = before != after and sorted(before) == sorted(after)
    if moved and template["cliqueStartupType"].value in _IN_LIST_ORDER:
        detail = f"with {template['cliqueStartupType'].value} the order must stay {', '.join(before)}"
        yield FieldError(template["cliques"].path, ErrorKind.INVALID, after, detail)


def startup_type(new: Field, old: Field) -> Iterator[Finding]:
    """The order in which containers start cannot change (api rule U6)."""
    yield from _kept(new["spec"]["template"]["cliqueStartupType"], old["spec"]["template"]["cliqueStartupType"])


def clique_fields(new: Field, old: Field, facts: Facts) -> Iterator[Finding]:
    """roleName, minAvailable, startsAfter, sharing and scheduler of a clique cannot change (api rules U4, U5).

    A role that is left out is the clique's name, and a scheduler that is left out is the default one. A startsAfter
    that could never be followed, as of a set stored without webhooks, may be put right.
    """
    for after, before in same_named(cliques, new, old):
        for key in ("roleName", "minAvailable"):
            yield from _kept(after["spec"][key], before["spec"][key])
        for finding in _kept(after["spec"]["startsAfter"], before["spec"]["startsAfter"]):
            if not _starts_never(old):
                yield finding
        scheduler = after["spec"]["podSpec"]["schedulerName"]
        had = before["spec"]["podSpec"]["schedulerName"].value or facts.default_scheduler
        if (scheduler.value or facts.default_scheduler) != had:
            yield scheduler.invalid(_cannot_change(had))
        yield from _kept(after["resourceSharing"], before["resourceSharing"])


def group_fields(new: Field, old: Field) -> Iterator[Finding]:
    """cliqueNames (in their order), minAvailable and resourceSharing of a scaling group cannot change (api rule U9)."""
    for after, before in same_named(scaling_groups, new, old):
        for key in ("cliqueNames", "minAvailable", "resourceSharing"):
            yield from _kept(after[key], before[key])


def claims(new: Field, old: Field) -> Iterator[Finding]:
    """The set's resourceClaimTemplates and resourceSharing cannot change: claims are made once (api rule U12)."""
    for key in ("resourceClaimTemplates", "resourceSharing"):
        yield from _kept(new["spec"]["template"][key], old["spec"]["template"][key])


def _same_members(where: Field, new: Sequence[Field], old: Sequence[Field], what: str) -> Iterator[FieldError]:
    before, after = dict.fromkeys(_names(old)), set(_names(new))
    for member in new:
        name = member["name"].text
        if name and name not in before:
            yield member["name"].forbidden(f"{what} cannot be added to a set, and {name} is new")
    for name in before:
        if name not in after:
            yield where.forbidden(f"{what} cannot be removed from a set, and {name} is missing: give it 0 replicas")


def _starts_never(old: Field) -> bool:
    """Whether the cliques of a stored set name others that are not there, or wait for each other."""
    return any(isinstance(finding, FieldError) for finding in starts_after(old))


def _kept(new: Field, old: Field) -> Iterator[FieldError]:
    if not same(new.value, old.value):
        yield new.invalid(_cannot_change(old.value))


def _cannot_change(old: Any) -> str:
    return f"cannot change: must stay {shown(old)}" if old not in (None, "", [], {}) else "cannot be set later"


def same(one: Any, other: Any) -> bool:
    """Whether two values mean the same: an absent one is as good as a null, an empty text or an empty list."""
    if one in (None, "", []) and other in (None, "", []):
        return True
    pending: list[tuple[Any, Any]] = [(one, other)]
    while pending:
        left, right = pending.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            pending += [(left.get(key), right.get(key)) for key in left.keys() | right.keys()]
        elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
            pending += zip(left, right, strict=True)
        elif left is not right and (left != right or type(left) is not type(right)):
            return False
    return True


def _names(members: Sequence[Field]) -> list[str]:
    return [name for member in members if (name := member["name"].text)]
