"""What a plan asks the API server to change: pure data, sent by ``apply``."""

from dataclasses import dataclass
from typing import Any, TypeAlias

from grove.runtime.resources import ResourceType


@dataclass(frozen=True, slots=True)
class Create:
    """Create ``body``; namespace and name come from its metadata."""

    resource: ResourceType
    body: dict[str, Any]

    @property
    def namespace(self) -> str:
        """The namespace in the body, "" for a cluster-scoped object."""
        return str(self.body["metadata"].get("namespace") or "")

    @property
    def name(self) -> str:
        """The name in the body."""
        return str(self.body["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Patch:
    """Patch one object: a dict is a JSON merge patch (RFC 7386), a list a JSON patch (RFC 6902).

    With ``uid`` the patch is refused (422) when the name belongs to another object by now. The API server heeds this
    in every JSON patch, but not in a merge patch of a custom resource's ``status``, where it ignores all metadata but
    resourceVersion.
    """

    resource: ResourceType
    namespace: str
    name: str
    body: dict[str, Any] | list[dict[str, Any]]
    subresource: str | None = None
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete one object, only while it has this ``uid`` ("" = whatever has the name). ``reason`` is for the log."""

    resource: ResourceType
    namespace: str
    name: str
    uid: str
    reason: str = ""
    grace_period_seconds: int | None = None
    propagation_policy: str | None = None


Write: TypeAlias = Create | Patch | Delete
