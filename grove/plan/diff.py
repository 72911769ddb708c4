"""Comparing what should be with what is, and the merge patch (RFC 7386) that closes the gap."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

_UNITS = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1), "k": Decimal(10**3),
    "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15), "E": Decimal(10**18),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}  # fmt: skip
# Bounded, so that numbers which are no quantities (an environment variable may hold any) are not worked with.
_QUANTITY = re.compile(
    r"([+-]?(?:\d{1,18}(?:\.\d{0,9})?|\.\d{1,9})(?:[eE][+-]?\d{1,2})?)([numkMGTPE]|[KMGTPE]i)?", re.ASCII
)


def covers(live: Any, desired: Any) -> bool:
    """True when `live` says everything `desired` says.

    Keys that only `live` has are the API server's defaults or somebody else's and do not count; lists must match
    element by element; quantities are compared by value, because the API server rewrites them ("1000m" becomes "1").
    """
    if isinstance(desired, dict):
        return isinstance(live, dict) and all(key in live and covers(live[key], item) for key, item in desired.items())
    if isinstance(desired, list):
        return (
            isinstance(live, list)
            and len(live) == len(desired)
            and all(covers(have, want) for have, want in zip(live, desired, strict=True))
        )
    if live == desired:
        return True
    if isinstance(live, str | int) and isinstance(desired, str | int):
        amount = quantity(live)
        return amount is not None and amount == quantity(desired)
    return False


def replacement(live: Any, desired: Any) -> Any:
    """The merge patch value that turns `live` into exactly `desired`: keys missing from `desired` become null."""
    if not isinstance(live, dict) or not isinstance(desired, dict):
        return desired
    patch: dict[str, Any] = {key: None for key in live if key not in desired}
    for key, value in desired.items():
        if key not in live or live[key] != value:
            patch[key] = replacement(live.get(key), value)
    return patch


def map_patch(live: Mapping[str, str], desired: Mapping[str, str], owned: Iterable[str]) -> dict[str, str | None]:
    """Merge patch for labels or annotations: set what is desired, drop keys we `owned` that are desired no more.

    Keys neither desired nor owned belong to others and stay.
    """
    patch: dict[str, str | None] = {key: value for key, value in desired.items() if live.get(key) != value}
    patch.update({key: None for key in owned if key in live and key not in desired})
    return patch


def quantity(value: str | int) -> Decimal | None:
    """The amount a Kubernetes quantity such as `100m` or `2Gi` stands for; None when it is none."""
    match = _QUANTITY.fullmatch(str(value))
    return Decimal(match[1]) * _UNITS[match[2] or ""] if match else None
