"""How things are said: trees, bars, counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

_BAR: Final = 20
_QUOTE: Final = 400


class Tone(StrEnum):
    """What a piece of text means; a terminal shows it as a colour."""

    GOOD = "good"
    BUSY = "busy"
    BAD = "bad"
    QUIET = "quiet"


@dataclass(slots=True)
class Node:
    """A line of a tree and what hangs below it."""

    text: str
    children: list[Node] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The tree, line by line."""
        yield self.text
        for position, child in enumerate(self.children):
            last = position == len(self.children) - 1
            head, *rest = child.lines()
            yield ("└─ " if last else "├─ ") + head
            yield from (("   " if last else "│  ") + line for line in rest)


def counted(number: int, what: str) -> str:
    """`1 pod`, `2 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def bar(wanted: int, ready: int, begun: int) -> str:
    """A bar of what is ready, of what has at least begun (both count from 0 to `wanted`), and of what is missing.

    Only what is whole looks whole.
    """
    if wanted <= 0:
        return "░" * _BAR
    full, part = (min(max(number, 0), wanted) * _BAR // wanted for number in (ready, max(begun, ready)))
    return "█" * full + "▒" * (part - full) + "░" * (_BAR - part)


def short(text: str, limit: int = _QUOTE) -> str:
    """What others say, on one line and not without end."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
