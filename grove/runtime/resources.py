"""What the API server serves: resource types and their URL paths."""

from dataclasses import dataclass
from typing import Any
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class ResourceType:
    """One served resource, such as ``ResourceType("apps", "v1", "deployments", "Deployment")``; the core group is
    ``""``.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """The value of ``apiVersion`` in an object: ``v1``, ``apps/v1``."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def label(self) -> str:
        """The name used in logs: ``deployments.apps``, ``pods``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """Return the URL path, quoted, of one object, of a namespace's collection or (no namespace) of all namespaces.

        Raises ValueError for a namespaced object without a namespace and for a subresource without a name.
        """
        if name is not None and self.namespaced and not namespace:
            raise ValueError(f"{self.label} {name!r}: a namespaced object needs a namespace")
        if name is None and subresource is not None:
            raise ValueError(f"{self.label}: subresource {subresource!r} needs the name of an object")
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{quote(namespace, safe='')}" if self.namespaced and namespace else ""
        tail = "".join(f"/{quote(part, safe='')}" for part in (name, subresource) if part is not None)
        return f"{root}{scope}/{self.plural}{tail}"


def reference_to(resource: ResourceType, obj: dict[str, Any]) -> dict[str, str]:
    """Return the ObjectReference fields (apiVersion, kind, namespace, name, uid) that name ``obj`` in an Event."""
    metadata = obj["metadata"]
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"]}
    if metadata.get("namespace"):
        reference["namespace"] = metadata["namespace"]
    if metadata.get("uid"):
        reference["uid"] = metadata["uid"]
    return reference
