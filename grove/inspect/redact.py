"""Objects and logs as they may be given away: without what people put into them in confidence."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

HIDDEN: Final = "<redacted>"

_WORD: Final = r"(?:token|secret|passwd|password|api[_-]?key|access[_-]?key|credential)[\w.-]{0,32}"
_NAME: Final = re.compile(rf"[\w.-]*{_WORD}", re.IGNORECASE)
_FLAG: Final = re.compile(rf"--?{_NAME.pattern}", re.IGNORECASE)
_IS: Final = rf"{_WORD}\\{{0,8}}[\"']?\s{{0,8}}[=:]\s{{0,8}}"
"""A name and what stands between it and its value; in JSON within JSON quotes are escaped."""
_RULES: Final = (
    (re.compile(rf"({_IS}(\\{{0,8}}[\"']))(?:(?!\2).)+", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
    (re.compile(rf"({_IS})(?!\\)[^\s\"',;&]+", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
    (re.compile(r"(\b(?:bearer|basic)\s)[^\s\"',;\\]{8,}", re.IGNORECASE), rf"\g<1>{HIDDEN}"),
    (re.compile(r"(?<![\w.-])eyJ[\w-]+\.eyJ[\w-]+\.[\w-]*"), HIDDEN),
    (re.compile(r"(://)[^/\s@\"']+@"), rf"\g<1>{HIDDEN}@"),
)
"""Named values with quotes and without, HTTP's Authorization, JSON Web Tokens, users in URLs. From no place of a line
does a rule look far: lines may be very long.
"""
_LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"
_OURS: Final = "GROVE_"


def redacted(obj: dict[str, Any]) -> dict[str, Any]:
    """A copy of an object that may be given away; of a Secret only its name.

    Gone are `managedFields`; hidden are values of environment variables but Grove's own, of HTTP headers, of
    annotations that hold whole objects (such as last-applied) or are named like a secret, and what follows such a name
    in commands and arguments.
    """
    if obj.get("kind") == "Secret":
        kept = ("name", "namespace")
        metadata = {key: value for key, value in (obj.get("metadata") or {}).items() if key in kept}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}
    result: dict[str, Any] = _walk(obj)
    return result


def masked(text: str) -> str:
    """A line of a log or a command with everything hidden that is named like a secret."""
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def _walk(value: Any) -> Any:
    if isinstance(value, list):
        return [_walk(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _entry(key, item) for key, item in value.items() if key != "managedFields"}


def _entry(key: str, value: Any) -> Any:
    if key == "env" and isinstance(value, list):
        return [_hide_value(item, keep=_OURS) for item in value]
    if key == "httpHeaders" and isinstance(value, list):
        return [_hide_value(item) for item in value]
    if key == "annotations" and isinstance(value, dict):
        return {name: _annotation(name, text) for name, text in value.items()}
    if key in ("command", "args") and isinstance(value, list):
        return _arguments(value)
    return masked(value) if key in ("message", "note") and isinstance(value, str) else _walk(value)


def _hide_value(item: Any, keep: str = "") -> Any:
    if not isinstance(item, dict) or "value" not in item or (keep and str(item.get("name", "")).startswith(keep)):
        return _walk(item)
    return {**item, "value": HIDDEN}


def _annotation(name: str, text: Any) -> Any:
    whole = isinstance(text, str) and text.lstrip().startswith(("{", "["))
    return HIDDEN if whole or name == _LAST_APPLIED or _NAME.fullmatch(name.rpartition("/")[2]) else text


def _arguments(arguments: Sequence[Any]) -> list[Any]:
    result: list[Any] = []
    hide = False
    for argument in arguments:
        if not isinstance(argument, str):
            result.append(argument)
            continue
        result.append(HIDDEN if hide else masked(argument))
        hide = _FLAG.fullmatch(argument) is not None
    return result
