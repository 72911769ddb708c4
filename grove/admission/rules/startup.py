"""The order in which cliques start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from grove.admission.fields import Field, FieldError, FieldWarning, Finding, cliques
from grove.api.labels import INIT_CONTAINER
from grove.api.podcliqueset import CliqueStartupType
from grove.plan.startup import find_cycles

_SHOWN: Final = 5
"""Cliques at the beginning of a cycle that an error names; and the last one."""


def starts_after(root: Field) -> Iterator[Finding]:
    """startsAfter names other cliques, each once, and never in a circle (api rules V27-V29, V42, V43).

    With a startup type that does not read startsAfter, problems are warnings, and so is that it is not read.
    """
    startup_type = root["spec"]["template"]["cliqueStartupType"].text
    explicit = startup_type == CliqueStartupType.EXPLICIT
    if not explicit:
        for clique in cliques(root):
            field = clique["spec"]["startsAfter"]
            if field.value:
                yield field.warning(f"has no effect with {startup_type}, only with {CliqueStartupType.EXPLICIT}")
    for error in (*_entries(root), *_cycles(root)):
        yield error if explicit else FieldWarning(error.path, f"{error.kind}: {error.detail}")


def reserved_name(root: Field) -> Iterator[Finding]:
    """Where cliques start in an order, no container is called like the init container that holds pods back."""
    if root["spec"]["template"]["cliqueStartupType"].text in (None, CliqueStartupType.ANY_ORDER):
        return
    for clique in cliques(root):
        for key in ("initContainers", "containers"):
            for container in clique["spec"]["podSpec"][key]:
                if container["name"].text == INIT_CONTAINER:
                    yield container["name"].invalid("is the name of Grove's own init container; choose another")


def _entries(root: Field) -> Iterator[FieldError]:
    known = {clique["name"].text for clique in cliques(root)}
    for clique in cliques(root):
        seen: set[str] = set()
        for entry in clique["spec"]["startsAfter"]:
            if entry.text is None:
                continue
            if not entry.text.strip():
                yield entry.required("the name of a clique")
            elif entry.text == clique["name"].text:
                yield entry.invalid("a clique cannot start after itself")
            elif entry.text in seen:
                yield entry.duplicate("is named already")
            elif entry.text not in known:
                yield entry.not_found("there is no clique of this name in the template")
            seen.add(entry.text)


def _cycles(root: Field) -> Iterator[FieldError]:
    fields: dict[str, Field] = {}
    parents: dict[str, list[str]] = {}
    for clique in cliques(root):
        name = clique["name"].text
        if name:
            fields.setdefault(name, clique["spec"]["startsAfter"])
            entries = (entry.text for entry in clique["spec"]["startsAfter"])
            parents.setdefault(name, []).extend(entry for entry in entries if entry and entry != name)
    for cycle in find_cycles(parents):
        yield fields[cycle[0]].invalid(f"the cliques wait for each other: {_as_path(cycle)}; remove one of these")


def _as_path(cycle: Sequence[str]) -> str:
    """A cycle as `a → b → a`; of a long one the first cliques, how many are left out, and the last."""
    steps, left_out = [*cycle, cycle[0]], len(cycle) - _SHOWN - 1
    if left_out > 1:
        steps[_SHOWN : _SHOWN + left_out] = [f"… ({left_out} more) …"]
    return " → ".join(steps)
