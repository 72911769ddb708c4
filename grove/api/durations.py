"""Durations as Kubernetes writes them (`1h30m`, `90s`, `1.5h`): the text form of Go's time.Duration."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_SECONDS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_PART: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)")
PATTERN: Final = r"^[-+]?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$"
"""What a duration looks like, for the CRD schema."""


def parse_duration(text: str) -> timedelta:
    """Read a duration such as `4h`, `1m30s` or `-1.5h`; precision is the microsecond.

    Raises ValueError, naming the text and what would be right.
    """
    sign, digits = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if digits == "0":
        return timedelta(0)
    parts = _PART.findall(digits)
    if not digits or "".join(number + unit for number, unit in parts) != digits:
        raise ValueError(f"{text!r} is not a duration: write e.g. 4h, 1m30s or 500ms")
    return sign * sum((timedelta(seconds=float(number) * _SECONDS[unit]) for number, unit in parts), timedelta(0))


def format_duration(seconds: float) -> str:
    """Write a duration in whole seconds, the way people write it: `4h`, `1m30s`, `10s`, `0s`."""
    left = max(round(seconds), 0)
    parts = ((left // 3600, "h"), (left % 3600 // 60, "m"), (left % 60, "s"))
    return "".join(f"{number}{unit}" for number, unit in parts if number) or "0s"
