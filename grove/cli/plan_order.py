"""The start order of a gang, as part of the overview."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from grove.plan.startup import levels


def order_lines(gang: Sequence[str], starts_after: Mapping[str, Sequence[str]]) -> list[str]:
    """What starts in which step, `2: b, c after a` and so on; nothing when nobody waits.

    `gang` names the cliques of one gang; `starts_after` has the edges that count in it. An idle clique is in no gang;
    whoever starts after it starts after its parents. Those with the same parents share a line.
    """
    graph = {name: _effective(name, gang, starts_after) for name in gang}
    lines = []
    for number, step in enumerate(levels(graph), 1):
        alike: dict[tuple[str, ...], list[str]] = {}
        for name in step:
            alike.setdefault(graph[name], []).append(name)
        for parents, names in alike.items():
            lines.append(f"{number}: {', '.join(names)}" + (f" after {', '.join(parents)}" if parents else ""))
    return lines if any(graph.values()) else []


def _effective(name: str, gang: Sequence[str], starts_after: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    found: dict[str, None] = {}
    pending, seen = list(starts_after.get(name, ()))[::-1], {name}
    while pending:
        parent = pending.pop()
        if parent in gang:
            found[parent] = None
        elif parent not in seen:
            seen.add(parent)
            pending += list(starts_after.get(parent, ()))[::-1]
    return tuple(found)
