"""What the API server refused, and why."""

import random
from dataclasses import dataclass
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Cause:
    """One of a Status's details.causes; empty is what the server did not say."""

    reason: str
    message: str
    field: str


class ApiError(Exception):
    """A request that failed.

    ``status`` is the HTTP status; 0 means that no answer came, so nobody knows whether a write happened, unless
    ``not_sent`` is set. ``reason`` is the Status reason (``NotFound``, ``AlreadyExists``, …), ``retry_after`` the
    server's wish in seconds, ``causes`` what the Status's details tell.
    """

    def __init__(
        self,
        status: int,
        reason: str,
        message: str,
        *,
        verb: str,
        path: str,
        retry_after: float | None = None,
        not_sent: bool = False,
        causes: tuple[Cause, ...] = (),
    ) -> None:
        super().__init__(f"{verb} {path}: {status or 'no answer'} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.verb = verb
        self.path = path
        self.retry_after = retry_after
        self.not_sent = not_sent
        self.causes = causes

    @classmethod
    def from_response(cls, status: int, body: bytes, retry_after: str | None, *, verb: str, path: str) -> "ApiError":
        """Make the error of a refused request from the Status object the API server sends, or from whatever came."""
        try:
            details: Any = orjson.loads(body)
        except orjson.JSONDecodeError:
            details = None
        seconds = float(retry_after) if retry_after is not None and retry_after.isdecimal() else None
        if not isinstance(details, dict):
            details = {}
        details.setdefault("message", body[:200].decode(errors="replace").strip())
        return cls.from_status(status, details, verb=verb, path=path, retry_after=seconds)

    @classmethod
    def from_status(
        cls, status: int, details: dict[str, Any], *, verb: str, path: str, retry_after: float | None = None
    ) -> "ApiError":
        """Make the error that a Status object tells of."""
        reason, message = str(details.get("reason") or ""), str(details.get("message") or "")
        return cls(status, reason, message, verb=verb, path=path, retry_after=retry_after, causes=_causes(details))

    @property
    def is_not_found(self) -> bool:
        """The object, its namespace or the resource itself does not exist."""
        return self.status == 404

    @property
    def is_already_exists(self) -> bool:
        """A create met an object of the same name."""
        return self.status == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """The object is not in the state the write relied on: another resourceVersion or uid."""
        return self.status == 409 and self.reason != "AlreadyExists"

    @property
    def is_gone(self) -> bool:
        """The resourceVersion or continue token is too old: list again."""
        return self.status == 410

    @property
    def is_forbidden(self) -> bool:
        """Not allowed, by RBAC, a quota, admission, or since the namespace is being deleted."""
        return self.status == 403

    @property
    def is_namespace_terminating(self) -> bool:
        """A create came while its namespace is being deleted: all it would need is about to go anyway."""
        return self.status == 403 and any(cause.reason == "NamespaceTerminating" for cause in self.causes)

    @property
    def is_invalid(self) -> bool:
        """The object, or the ``test`` of a JSON patch, does not hold."""
        return self.status == 422

    @property
    def retriable(self) -> bool:
        """The same request may well succeed later: an expected event in a cluster's life, not a fault of the caller."""
        return self.status in (0, 408, 409, 429) or self.status >= 500


def _causes(status: dict[str, Any]) -> tuple[Cause, ...]:
    """A Status object's details.causes."""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    found = (cause for cause in causes or () if isinstance(cause, dict))
    return tuple(Cause(*(str(cause.get(key) or "") for key in ("reason", "message", "field"))) for cause in found)


def jittered(seconds: float) -> float:
    """Return ``seconds`` or up to a quarter more, so that many clients do not come back at once."""
    return seconds * random.uniform(1.0, 1.25)  # noqa: S311
