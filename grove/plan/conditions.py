"""Conditions (metav1.Condition semantics): merged by type, lastTransitionTime moves only when the status flips."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Want:
    """A condition as it should read now; `status` is True, False, or None for Unknown."""

    type: str
    status: bool | None
    reason: str
    message: str
    observed_generation: int | None = None
    """the generation of the object that it speaks of; None where that is not told"""

    @property
    def wire_status(self) -> str:
        return "Unknown" if self.status is None else str(self.status)


def merged(
    live: Iterable[dict[str, Any]], wanted: Sequence[Want], now: str, dropping: Collection[str] = ()
) -> list[dict[str, Any]]:
    """The conditions list with `wanted` put in; types of others stay as they are, in their place. `now` is RFC 3339.

    Types in `dropping` that are not wanted go.
    """
    pending = {want.type: want for want in wanted}
    result = []
    for condition in live:
        want = pending.pop(condition.get("type", ""), None)
        if want is not None:
            result.append(_updated(condition, want, now))
        elif condition.get("type") not in dropping:
            result.append(condition)
    return result + [_updated({}, want, now) for want in pending.values()]


def find(conditions: Iterable[Mapping[str, Any]], kind: str) -> Mapping[str, Any]:
    """The condition of that type, {} when there is none."""
    return next((condition for condition in conditions if condition.get("type") == kind), {})


def is_true(conditions: Iterable[Mapping[str, Any]], kind: str) -> bool:
    """True when the condition of that type is there with status True."""
    return any(condition.get("type") == kind and condition.get("status") == "True" for condition in conditions)


def _updated(live: dict[str, Any], want: Want, now: str) -> dict[str, Any]:
    same = live.get("status") == want.wire_status
    told = {} if want.observed_generation is None else {"observedGeneration": want.observed_generation}
    fresh = all(live.get(key) == value for key, value in told.items())
    if same and fresh and live.get("reason") == want.reason and live.get("message") == want.message:
        return live
    return {
        **live,
        **told,
        "type": want.type,
        "status": want.wire_status,
        "reason": want.reason,
        "message": want.message,
        "lastTransitionTime": live["lastTransitionTime"] if same and live.get("lastTransitionTime") else now,
    }
