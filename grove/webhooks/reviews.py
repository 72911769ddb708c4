"""Reading an AdmissionReview and answering it (admission.k8s.io/v1). Pure."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from grove.runtime.errors import Cause

_API_VERSION: Final = "admission.k8s.io/v1"
_KIND: Final = "AdmissionReview"
_WARNING_LENGTH: Final = 250
"""The API server cuts warnings when they are longer in sum than 4096 characters; kubectl shows each on a line."""


class BadReviewError(Exception):
    """What was sent is no AdmissionReview; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody asks of the API server. `object` and `old` are None where there is none."""

    uid: str
    api_version: str
    kind: str
    subresource: str
    operation: str
    namespace: str
    object: Any
    old: Any
    raw: dict[str, Any]
    """the AdmissionRequest itself"""
    size: int
    """bytes of the whole review"""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer: allowed, or refused with a message. `patch` is a JSON patch (RFC 6902) of the object."""

    allowed: bool = True
    message: str = ""
    code: int = 403
    reason: str = "Forbidden"
    causes: Sequence[Cause] = ()
    warnings: Sequence[str] = ()
    patch: Sequence[dict[str, Any]] = ()


def decode(body: bytes) -> Request:
    """Read an AdmissionReview; raises BadReviewError."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadReviewError(f"the body must be JSON: {error}") from error
    if not isinstance(review, dict) or review.get("kind") != _KIND or review.get("apiVersion") != _API_VERSION:
        raise BadReviewError(f"the body must be an {_KIND} of {_API_VERSION}")
    request = review.get("request")
    if not isinstance(request, dict) or not _text(request, "uid"):
        raise BadReviewError("request.uid: Required value")
    kind = request.get("kind")
    group, version = _text(kind, "group"), _text(kind, "version")
    return Request(
        uid=_text(request, "uid"),
        api_version=f"{group}/{version}" if group else version,
        kind=_text(kind, "kind"),
        subresource=_text(request, "subResource"),
        operation=_text(request, "operation"),
        namespace=_text(request, "namespace"),
        object=request.get("object"),
        old=request.get("oldObject"),
        raw=request,
        size=len(body),
    )


def encode(uid: str, answer: Answer) -> bytes:
    """The AdmissionReview that tells the API server the answer."""
    response: dict[str, Any] = {"uid": uid, "allowed": answer.allowed}
    if answer.warnings:
        response["warnings"] = [_one_line(warning) for warning in answer.warnings]
    if answer.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = b64encode(orjson.dumps(answer.patch)).decode()
    if not answer.allowed:
        response["status"] = {
            "status": "Failure",
            "message": answer.message,
            "reason": answer.reason,
            "code": answer.code,
            "details": {"causes": [_cause(cause) for cause in answer.causes]},
        }
    return orjson.dumps({"apiVersion": _API_VERSION, "kind": _KIND, "response": response})


def json_patch(before: Any, after: Any, path: str = "") -> Iterator[dict[str, Any]]:
    """The JSON patch that makes `after` of `before`, where nothing was taken away and what stayed is shared.

    So it is with defaults, and it costs what was added; to compare the two anew would take longer than all the rest.
    """
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key, value in after.items():
            where = f"{path}/{key.replace('~', '~0').replace('/', '~1')}"
            if key in before:
                yield from json_patch(before[key], value, where)
            else:
                yield {"op": "add", "path": where, "value": value}
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, values in enumerate(zip(before, after, strict=True)):
            yield from json_patch(*values, f"{path}/{index}")
    else:
        yield {"op": "replace", "path": path, "value": after}


def _cause(cause: Cause) -> dict[str, str]:
    wire = {"reason": cause.reason, "message": cause.message}
    return {**wire, "field": cause.field} if cause.field else wire


def _one_line(text: str) -> str:
    """A warning as it may stand in an HTTP header."""
    line = "".join(character if character.isprintable() else " " for character in text)
    return line if len(line) <= _WARNING_LENGTH else f"{line[: _WARNING_LENGTH - 1]}…"


def _text(value: Any, key: str) -> str:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""
