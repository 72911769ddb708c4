"""Pure helpers of the in-memory API server: patches, label selectors."""

import re
from collections.abc import Callable
from typing import Any

import orjson

Object = dict[str, Any]


class ApiStatus(Exception):  # noqa: N818  # it is the API's name for a failure
    """A refusal, as the API server's Status object says it."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, cause: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.cause = cause

    def body(self) -> bytes:
        """Return the Status object."""
        return orjson.dumps(
            {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": self.message,
                "reason": self.reason,
                "details": {"causes": [{"reason": self.cause}]} if self.cause else {},
                "code": self.status,
            }
        )


def copy(obj: Any) -> Any:
    """Return a deep copy of JSON data."""
    return orjson.loads(orjson.dumps(obj))


def merge_patch(target: Any, patch: Any) -> Any:
    """Return ``target`` changed by a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result


def json_patch(target: Any, operations: list[Object]) -> Any:
    """Return ``target`` changed by a JSON patch (RFC 6902: add, remove, replace, test).

    Raises ApiStatus 422, as the API server does for a failed ``test`` and for a path that is not there.
    """
    document = copy(target)
    for operation in operations:
        try:
            document = _operate(document, operation)
        except (KeyError, IndexError, ValueError, TypeError, AssertionError):
            message = "the server rejected our request due to an error in our request"
            raise ApiStatus(422, "Invalid", message) from None
    return document


def _operate(document: Any, operation: Object) -> Any:
    kind, pointer = operation["op"], operation["path"]
    parts = [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]
    if not parts:
        assert kind in ("add", "replace", "test")
        assert kind != "test" or document == operation["value"]
        return operation["value"]
    parent = document
    for part in parts[:-1]:
        parent = parent[int(part) if isinstance(parent, list) else part]
    last: Any = parts[-1]
    if isinstance(parent, list):
        last = len(parent) if last == "-" else int(last)
    match kind:
        case "add" if isinstance(parent, list):
            assert 0 <= last <= len(parent)
            parent.insert(last, operation["value"])
        case "add":
            parent[last] = operation["value"]
        case "replace":
            _ = parent[last]
            parent[last] = operation["value"]
        case "remove":
            del parent[last]
        case "test":
            assert parent[last] == operation["value"]
        case _:
            raise ValueError(kind)
    return document


Selector = Callable[[Object], bool]

_TERM = re.compile(
    r"^\s*(?:(?P<absent>!)\s*(?P<no>[\w./-]+)"
    r"|(?P<key>[\w./-]+)\s*(?:(?P<op>==|=|!=)\s*(?P<value>[\w./-]*)|(?P<set>in|notin)\s*\((?P<values>[^)]*)\))?)\s*$"
)


def field_selector(text: str) -> Selector:
    """Return the test of an object's fields that a fieldSelector such as `metadata.name=a,type=b` asks for."""

    def value(obj: Object, path: str) -> Any:
        for part in path.split("."):
            obj = obj.get(part) or {}
        return obj

    wanted = [item.partition("=") for item in text.split(",")]
    return lambda obj: all(value(obj, path) == want for path, _, want in wanted)


def label_selector(text: str) -> Selector:
    """Return the test of an object's labels that a labelSelector parameter asks for; raises ApiStatus 400."""
    terms = [_term(term) for term in re.split(r",(?![^(]*\))", text) if term.strip()]

    def matches(obj: Object) -> bool:
        labels = obj["metadata"].get("labels") or {}
        return all(term(labels) for term in terms)

    return matches


def _term(text: str) -> Callable[[dict[str, str]], bool]:
    match = _TERM.match(text)
    if match is None:
        raise ApiStatus(400, "BadRequest", f"unable to parse requirement: {text}")
    absent, key, operator, value = match["no"], match["key"], match["op"] or match["set"], match["value"]
    if absent:
        return lambda labels: absent not in labels
    values = {item.strip() for item in match["values"].split(",")} if match["values"] is not None else {value}
    if operator is None:
        return lambda labels: key in labels
    if operator in ("=", "==", "in"):
        return lambda labels: labels.get(key) in values
    return lambda labels: labels.get(key) not in values
