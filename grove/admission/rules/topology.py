"""Topology constraints: how close together pods must be, by the levels of a ClusterTopologyBinding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from grove.admission import formats
from grove.admission.facts import Facts
from grove.admission.fields import (
    ErrorKind,
    Field,
    FieldError,
    Finding,
    cliques,
    constraints,
    group_of,
    same_named,
    scaling_groups,
)


def constraint_shape(root: Field) -> Iterator[Finding]:
    """A constraint has `pack`, with `required` or `preferred` or both, which name levels of the cluster."""
    for constraint in constraints(root):
        if not isinstance(constraint.value, dict):
            continue
        pack, old = constraint["pack"], constraint["packDomain"]
        if not pack.given and not old.given:
            yield pack.required("e.g. required: rack")
        elif pack.value == {}:
            yield pack.required("set required or preferred, or both")
        if pack["required"].given and old.given:
            yield pack["required"].invalid("means the same as the deprecated packDomain: remove packDomain")
        for field in _domains(constraint):
            if field.text is not None and (problem := formats.domain_problem(field.text)):
                yield field.invalid(problem)


def no_pack_domain(root: Field) -> Iterator[Finding]:
    """The deprecated packDomain is refused in new sets: write pack.required."""
    for constraint in constraints(root):
        if constraint["packDomain"].given:
            yield constraint["packDomain"].forbidden(
                f"deprecated, write pack: {{required: {constraint['packDomain'].value}}}"
            )


def pack_domain_is_old(new: Field, _: Field) -> Iterator[Finding]:
    """A warning where a set still has the deprecated packDomain (api rule W3)."""
    for constraint in constraints(new):
        if constraint["packDomain"].given:
            value = constraint["packDomain"].value
            yield constraint["packDomain"].warning(f"deprecated, replace it by pack: {{required: {value}}}")


def new_constraints(root: Field, facts: Facts) -> Iterator[Finding]:
    """Constraints need topologyAwareScheduling, and a ClusterTopologyBinding that has their levels (api rules C1-C9).

    topologyName stands on the set or on those that have constraints, and is inherited from the set by its scaling
    groups and from both by cliques. No constraint is narrower than one inside of it; a preferred level that is broader
    than the required one has no effect, which is a warning (api rule W2).
    """
    given = constraints(root)
    if facts.topology_aware is False:
        for constraint in given:
            domains = ", ".join(str(field.value) for field in _domains(constraint))
            yield constraint.invalid(
                f"levels ({domains}) are not known here: topologyAwareScheduling is off in the operator's configuration"
            )
        return
    names, problems = _resolve(root)
    yield from problems
    if problems or not names or facts.topologies is None:
        return
    name = next(iter(names.values()))
    levels = facts.topologies.get(name)
    if levels is None:
        named = next(c["topologyName"] for c in given if c["topologyName"].value == name)
        yield named.not_found("there is no ClusterTopologyBinding of this name")
        return
    unknown = [
        field.invalid(f"no level of ClusterTopologyBinding {name}, which has {', '.join(levels)}")
        for constraint in given
        for field in _domains(constraint)
        if field.value not in levels
    ]
    yield from unknown
    if not unknown:
        yield from _hierarchy(root, levels)
        yield from _broader_preference(given, levels)


def constraints_are_kept(new: Field, old: Field, facts: Facts) -> Iterator[Finding]:
    """Constraints are neither added, removed nor changed (api rules U10, U11), with two exceptions.

    packDomain may become pack.required of the same level. Where an old set lacks a topologyName, one may be added; then
    all that holds for new constraints is checked.
    """
    changed = list(_changed(new, old))
    if not changed:
        return
    problems = list(_refused(changed, repair=_lacks_name(old)))
    yield from problems
    if not problems and any(_gains_name(after, before) for after, before in changed):
        yield from new_constraints(new, facts)


@dataclass(frozen=True, slots=True)
class _Owner:
    """A set, scaling group or clique, and the ones whose topologyName it inherits, nearest first."""

    constraint: Field
    above: tuple[Field, ...]


def _owners(root: Field) -> Iterator[_Owner]:
    """All that may have a constraint: the set, then scaling groups, then cliques."""
    top, groups = root["spec"]["template"]["topologyConstraint"], group_of(root)
    yield _Owner(top, ())
    for group in scaling_groups(root):
        yield _Owner(group["topologyConstraint"], (top,))
    for clique in cliques(root):
        group_above = groups.get(clique["name"].text or "")
        above = (top,) if group_above is None else (group_above["topologyConstraint"], top)
        yield _Owner(clique["topologyConstraint"], above)


def _resolve(root: Field) -> tuple[dict[str, str], list[FieldError]]:
    """The binding of each constraint by its path, and what is wrong with their names (C2-C4)."""
    names: dict[str, str] = {}
    problems: list[FieldError] = []
    explicit: list[Field] = []
    for owner in _owners(root):
        if not isinstance(owner.constraint.value, dict):
            continue
        field = owner.constraint["topologyName"]
        inherited = next(((names[above.path], above) for above in owner.above if above.path in names), None)
        if field.text:
            explicit.append(field)
        if not field.value and inherited is None:
            problems.append(field.required("the ClusterTopologyBinding that has the levels; or name it on the set"))
        elif field.text and inherited is not None and field.text != inherited[0]:
            where = inherited[1]["topologyName"].path
            problems.append(field.invalid(f"must be {inherited[0]} as in {where}, or be left out"))
        elif name := field.text or (inherited[0] if inherited else None):
            names[owner.constraint.path] = name
    if not problems and len({field.value for field in explicit}) > 1:
        first = explicit[0]
        problems += [
            field.invalid(f"a set uses one ClusterTopologyBinding, and {first.path} says {first.value}")
            for field in explicit
            if field.value != first.value
        ]
    return names, problems


def _hierarchy(root: Field, levels: Sequence[str]) -> Iterator[FieldError]:
    """What is inside must not be broader than what it is in (C7-C9)."""
    for owner in _owners(root):
        for above in owner.above:
            for needed in (True, False):
                inner, outer = _level(owner.constraint, needed), _level(above, needed)
                if _narrower(outer, inner, levels):
                    yield outer.invalid(
                        f"narrower than {inner.value} of {inner.path}, which is inside of it: must be {inner.value} "
                        "or broader"
                    )


def _broader_preference(given: Sequence[Field], levels: Sequence[str]) -> Iterator[Finding]:
    for constraint in given:
        needed, preferred = _level(constraint, True), _level(constraint, False)
        if _narrower(needed, preferred, levels):
            yield preferred.warning(
                f"has no effect: {preferred.value} is broader than {needed.value}, which is required"
            )


def _narrower(one: Field, other: Field, levels: Sequence[str]) -> bool:
    """Whether one level is inside the other; False where either is no known level."""
    known = one.value in levels and other.value in levels
    return known and levels.index(one.value) > levels.index(other.value)


def _level(constraint: Field, needed: bool) -> Field:
    """The field that names the required (or preferred) level."""
    if not needed:
        return constraint["pack"]["preferred"]
    return constraint["pack"]["required"] if constraint["pack"]["required"].given else constraint["packDomain"]


def _domains(constraint: Field) -> list[Field]:
    return [field for field in _fields_of_levels(constraint) if field.given]


def _fields_of_levels(constraint: Field) -> tuple[Field, Field, Field]:
    return constraint["packDomain"], constraint["pack"]["required"], constraint["pack"]["preferred"]


def _changed(new: Field, old: Field) -> Iterator[tuple[Field, Field]]:
    """The constraints that an update changes, adds or removes, as they are and as they were."""
    members = (*same_named(cliques, new, old), *same_named(scaling_groups, new, old))
    for after, earlier in ((new["spec"]["template"], old["spec"]["template"]), *members):
        constraint, had = after["topologyConstraint"], earlier["topologyConstraint"]
        if constraint.given != had.given or (constraint.given and _parts(constraint) != _parts(had)):
            yield constraint, had


def _refused(changed: Sequence[tuple[Field, Field]], *, repair: bool) -> Iterator[FieldError]:
    for after, before in changed:
        if not after.given or not before.given:
            yield after.forbidden("cannot be removed later" if before.given else "cannot be added later")
        elif not (_migrated(after, before) or (repair and _gains_name(after, before))):
            yield _first_difference(after, before).forbidden(
                "cannot change; only packDomain may become pack.required of the same level"
            )


def _first_difference(after: Field, before: Field) -> Field:
    return after if _parts(after)[0] == _parts(before)[0] else after["topologyName"]


def _parts(constraint: Field) -> tuple[Any, Any, Any, Any]:
    """The name of the binding, packDomain, the required and the preferred level; an empty one is none."""
    fields = (constraint["topologyName"], *_fields_of_levels(constraint))
    name, old, required, preferred = (field.value or None for field in fields)
    return name, old, required, preferred


def _migrated(after: Field, before: Field) -> bool:
    """Whether all that changed is that packDomain is called pack.required now."""
    name, old, _, preferred = _parts(before)
    return old is not None and _parts(after) == (name, None, old, preferred)


def _gains_name(after: Field, before: Field) -> bool:
    """Whether all that changed is that an old constraint has a topologyName now."""
    name, *levels = _parts(before)
    return name is None and levels[0] is not None and _parts(after)[0] is not None and [*_parts(after)[1:]] == levels


def _lacks_name(old: Field) -> bool:
    """Whether a set was stored before a name was asked for: there is a packDomain whose binding nobody names."""
    _, problems = _resolve(old)
    return any(problem.kind is ErrorKind.REQUIRED for problem in problems)
