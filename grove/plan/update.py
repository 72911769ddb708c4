"""Bringing a live child in line with what it should be, without touching what belongs to others."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import orjson

from grove.api import labels
from grove.api.base import Resource
from grove.plan.diff import covers, map_patch, replacement
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Patch, Write

FIELD_MANAGER = labels.MANAGED_BY_GROVE
"""Name under which the API server records our writes in metadata.managedFields."""

_WHOLE = ("selector",)  # where a key that somebody adds takes away from what is ours
_AUTOSCALER_MANAGERS = ("kube-controller-manager",)  # the HorizontalPodAutoscaler controller writes through /scale


def ensure(resource: ResourceType, live: Mapping[str, Any] | None, desired: dict[str, Any]) -> list[Write]:
    """Create `desired`, or patch what it says and `live` does not. An object on its way out is waited for."""
    if live is None:
        return [Create(resource, desired)]
    if live["metadata"].get("deletionTimestamp"):
        return []
    spec = live.get("spec") or {}
    changes = {
        key: replacement(spec.get(key), value)
        for key, value in desired["spec"].items()
        if not covers(spec.get(key), value) or (key in _WHOLE and spec.get(key) != value)
    }
    return patch_for(resource, live, desired, changes)


def patch_for(
    resource: ResourceType, live: Mapping[str, Any], desired: dict[str, Any], spec_changes: dict[str, Any]
) -> list[Write]:
    """The patch with `spec_changes` and the metadata differences; none when nothing differs."""
    body: dict[str, Any] = {"spec": spec_changes} if spec_changes else {}
    metadata = live["metadata"]
    for key in ("labels", "annotations"):
        changes = map_patch(metadata.get(key) or {}, desired["metadata"].get(key) or {}, owned_keys(metadata, key))
        if changes:
            body.setdefault("metadata", {})[key] = changes
    if not body:
        return []
    return [Patch(resource, metadata.get("namespace", ""), metadata["name"], body, uid=metadata.get("uid", ""))]


def owned_keys(metadata: Mapping[str, Any], key: str) -> set[str]:
    """The labels or annotations (`key`) that we wrote last, from metadata.managedFields."""
    owned: set[str] = set()
    for entry in metadata.get("managedFields") or ():
        if entry.get("manager") == FIELD_MANAGER:
            fields = ((entry.get("fieldsV1") or {}).get("f:metadata") or {}).get(f"f:{key}") or {}
            owned.update(name[2:] for name in fields if name.startswith("f:"))
    return owned


def autoscaled(metadata: Mapping[str, Any]) -> bool:
    """Whether an autoscaler was the last to set spec.replicas (through /scale), from metadata.managedFields."""
    return any(
        entry.get("subresource") == "scale"
        and entry.get("manager") in _AUTOSCALER_MANAGERS
        and "f:replicas" in ((entry.get("fieldsV1") or {}).get("f:spec") or {})
        for entry in metadata.get("managedFields") or ()
    )


def slim(obj: dict[str, Any]) -> dict[str, Any]:
    """Make a fresh wire object small (changes `obj`): a thousand PodCliques share what is the same in all of them.

    Of managedFields only what `owned_keys` and `autoscaled` read is kept.
    """
    metadata, spec = obj["metadata"], obj.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("podSpec"), dict):
        spec["podSpec"] = _shared(orjson.dumps(spec["podSpec"]))
    kept = []
    for entry in metadata.get("managedFields") or ():
        fields = entry.get("fieldsV1") or {}
        if entry.get("subresource") == "scale":
            kept.append({**entry, "fieldsV1": {"f:spec": fields.get("f:spec")}})
        elif entry.get("manager") == FIELD_MANAGER and "f:metadata" in fields:
            kept.append({"manager": FIELD_MANAGER, "fieldsV1": {"f:metadata": fields["f:metadata"]}})
    metadata.pop("managedFields", None)
    if kept:
        metadata["managedFields"] = _shared(orjson.dumps(kept))
    return obj


@lru_cache(maxsize=512)
def _shared(json: bytes) -> Any:
    return orjson.loads(json)


def three_way_replicas(live: Resource, live_replicas: int, template_replicas: int, *, has_autoscaler: bool) -> int:
    """Replicas of a child whose count belongs to whoever scales it.

    A changed template value is applied once, against the value recorded when it was last applied; an autoscaler's
    count is never touched. A child without a record (made by the Go operator) keeps its count.
    """
    recorded = live.annotations.get(labels.TEMPLATE_REPLICAS)
    unchanged = recorded is None or recorded == str(template_replicas)
    if unchanged or has_autoscaler or autoscaled(live.wire["metadata"]):
        return live_replicas
    return template_replicas


def without_finalizer(resource: ResourceType, live: Resource, finalizer: str) -> list[Write]:
    """Release an object on its way out from a finalizer that the Go operator left on it; we set none ourselves."""
    if not live.deleting or finalizer not in live.metadata.finalizers:
        return []
    index = live.metadata.finalizers.index(finalizer)
    path = f"/metadata/finalizers/{index}"
    body = [{"op": "test", "path": path, "value": finalizer}, {"op": "remove", "path": path}]
    return [Patch(resource, live.namespace, live.name, body, uid=live.uid)]


def differs(live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    """Whether a live status lacks something of the desired one. An absent number is 0, an absent list is empty."""
    return any(live.get(key) != value and (value or live.get(key)) for key, value in desired.items())
