"""What a CustomResourceDefinition declares: its fields tell which version of a scheduler is installed."""

from collections.abc import Iterator
from typing import Any, Final

from grove.runtime.resources import ResourceType
from grove.schedulers.backend import Cluster, Object, Watch

CRD: Final = ResourceType(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)

_DEPTH: Final = 3  # spec.subGroups.minSubGroup


def watch(resource: ResourceType) -> Watch:
    """Watch the CustomResourceDefinition of one resource, reduced to the names of its fields."""
    return Watch(CRD, field_selector=f"metadata.name={resource.label}", view=_fields)


def declares(cluster: Cluster, resource: ResourceType, field: str) -> bool:
    """Whether the resource, in this version, has a field such as `spec.subGroups.minSubGroup` (list items by name)."""
    return field in _declared(cluster, resource)


def lacking(cluster: Cluster, resource: ResourceType) -> str:
    """Why the resource cannot be used, in one sentence; "" when it can."""
    if not cluster.serves(CRD):
        return "the operator may not read CustomResourceDefinitions, which tell what the scheduler can do"
    crd = cluster.get(CRD, "", resource.label)
    if crd is None or "deletionTimestamp" in crd["metadata"]:
        return f"the cluster has no CustomResourceDefinition {resource.label}"
    if not cluster.serves(resource):
        return f"the API server does not serve {resource.label} in version {resource.version}"
    return ""


def _declared(cluster: Cluster, resource: ResourceType) -> list[str]:
    crd = cluster.get(CRD, "", resource.label) or {}
    fields: dict[str, list[str]] = crd.get("fields") or {}
    return fields.get(resource.version, [])


def _fields(crd: Object) -> Object:
    """Metadata, and per served version the fields down to the third level as dotted names."""
    kept = ("name", "uid", "resourceVersion", "deletionTimestamp")
    metadata = {key: value for key, value in crd["metadata"].items() if key in kept}
    fields = {
        version["name"]: list(_names((version.get("schema") or {}).get("openAPIV3Schema") or {}, "", _DEPTH))
        for version in crd["spec"]["versions"]
        if version.get("served")
    }
    return {"apiVersion": CRD.api_version, "kind": CRD.kind, "metadata": metadata, "fields": fields}


def _names(schema: dict[str, Any], prefix: str, depth: int) -> Iterator[str]:
    schema = schema.get("items") or schema
    for name, field in (schema.get("properties") or {}).items():
        yield prefix + name
        if depth > 1:
            yield from _names(field, f"{prefix}{name}.", depth - 1)
