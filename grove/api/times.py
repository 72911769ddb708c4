"""Times as Kubernetes writes them: RFC 3339 in UTC with whole seconds, e.g. `2026-09-01T00:00:00Z`."""

from __future__ import annotations

from datetime import UTC, datetime


def epoch(timestamp: str | None) -> float:
    """Seconds since the epoch; 0 when there is no time, or none that can be read."""
    try:
        return datetime.fromisoformat(timestamp).timestamp() if timestamp else 0.0
    except ValueError:
        return 0.0


def rfc3339(seconds: float) -> str:
    """The time so many seconds after the epoch; fractions are cut off."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
