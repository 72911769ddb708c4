"""The state of the in-memory API server and what may be done to it, as the real one does it. No HTTP here."""

import asyncio
import datetime
import itertools
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from grove.runtime.resources import ResourceType
from tests.fake_api.objects import ApiStatus, Object, Selector, copy

Key = tuple[str, str]

PODS = ResourceType("", "v1", "pods", "Pod")
CORE = (
    PODS,
    ResourceType("", "v1", "services", "Service"),
    ResourceType("", "v1", "events", "Event"),
    ResourceType("", "v1", "configmaps", "ConfigMap"),
    ResourceType("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ResourceType("coordination.k8s.io", "v1", "leases", "Lease"),
)
FOREGROUND = "foregroundDeletion"
_SERVER_FIELDS = ("namespace", "name", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
_MUTABLE_POD_FIELDS = ("schedulingGates", "tolerations", "activeDeadlineSeconds")
_RETURNED_WHEN_DELETED = ("pods", "services")  # other resources answer a finished delete with a Status


@dataclass(frozen=True, slots=True)
class Change:
    """One committed write: ``old`` None for a new object, ``new`` None for a removed one; ``raw`` is its last state."""

    version: int
    resource: ResourceType
    old: Object | None
    new: Object | None
    last: Object
    raw: bytes


@dataclass(frozen=True, slots=True)
class Scale:
    """Where a resource keeps what its /scale subresource shows: dotted paths."""

    replicas: str = "spec.replicas"
    status_replicas: str = "status.replicas"
    selector: str = ""


class Storage:
    """Objects of every resource served, their history, and garbage collection."""

    def __init__(self, resources: Iterable[ResourceType] = ()) -> None:
        self.version = 100
        self.now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
        self.garbage_collection = True
        self.terminating_namespaces: set[str] = set()
        self.scales: dict[ResourceType, Scale] = {}
        self.history: dict[ResourceType, list[Change]] = defaultdict(list)
        self.compacted: dict[ResourceType, int] = defaultdict(int)
        self.listeners: list[Callable[[Change], None]] = []
        self._served: dict[tuple[str, str], ResourceType] = {}
        self._objects: dict[ResourceType, dict[Key, tuple[Object, bytes]]] = defaultdict(dict)
        self._uids: set[str] = set()
        self._next_uid = itertools.count(1)
        self._dependents: dict[str, set[tuple[ResourceType, Key]]] = defaultdict(set)
        self._orphans: set[tuple[ResourceType, Key]] = set()
        self._foreground: set[tuple[ResourceType, Key]] = set()
        self._collecting = False
        for resource in (*CORE, *resources):
            self.install(resource)

    def install(self, resource: ResourceType, scale: Scale | None = None) -> None:
        """Begin to serve a resource, as when its CRD is established."""
        self._served[(resource.group, resource.plural)] = resource
        if scale is not None:
            self.scales[resource] = scale

    def uninstall(self, resource: ResourceType) -> None:
        """Remove a resource with all its objects, as when its CRD is deleted."""
        for namespace, name in list(self._objects[resource]):
            self._erase(resource, (namespace, name))
        del self._served[(resource.group, resource.plural)]

    def served(self, group: str, plural: str) -> ResourceType | None:
        """Return the resource of this group and plural name, None when it is not served."""
        return self._served.get((group, plural))

    def resources(self) -> list[ResourceType]:
        """Return all resources served."""
        return list(self._served.values())

    def timestamp(self) -> str:
        """Return the server's time."""
        return self.now().strftime("%Y-%m-%dT%H:%M:%SZ")

    # Reading

    def find(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        """Return a copy of an object, or None."""
        entry = self._objects[resource].get((namespace, name))
        return None if entry is None else copy(entry[0])

    def raw(self, resource: ResourceType, namespace: str, name: str) -> bytes:
        """Return an object as JSON; raises ApiStatus 404."""
        entry = self._objects[resource].get((namespace, name))
        if entry is None:
            raise ApiStatus(404, "NotFound", f'{resource.label} "{name}" not found')
        return entry[1]

    def select(
        self, resource: ResourceType, namespace: str | None = None, selector: Selector | None = None
    ) -> list[bytes]:
        """Return objects as JSON, ordered by namespace and name."""
        return [
            raw
            for (where, _), (obj, raw) in sorted(self._objects[resource].items(), key=lambda item: item[0])
            if (not namespace or where == namespace) and (selector is None or selector(obj))
        ]

    def objects(self, resource: ResourceType, namespace: str | None = None, **labels: str) -> list[Object]:
        """Return copies of objects by namespace and labels, for tests to look at."""
        found = (orjson.loads(raw) for raw in self.select(resource, namespace))
        return [obj for obj in found if labels.items() <= (obj["metadata"].get("labels") or {}).items()]

    # Writing

    def create(self, resource: ResourceType, body: Object) -> Object:
        """Store a new object and return it; raises ApiStatus 409 for a name in use, 403 in a dying namespace."""
        obj: Object = copy(body)
        metadata = obj.setdefault("metadata", {})
        namespace = metadata.get("namespace", "") if resource.namespaced else ""
        if namespace in self.terminating_namespaces:
            message = f"unable to create new content in namespace {namespace} because it is being terminated"
            raise ApiStatus(403, "Forbidden", message, cause="NamespaceTerminating")
        if "name" not in metadata and "generateName" in metadata:
            metadata["name"] = f"{metadata['generateName']}{next(self._next_uid):05d}"
        key = (namespace, metadata["name"])
        existing = self._objects[resource].get(key)
        if existing is not None:
            prefix = "object is being deleted: " if "deletionTimestamp" in existing[0]["metadata"] else ""
            raise ApiStatus(409, "AlreadyExists", f'{prefix}{resource.label} "{key[1]}" already exists')
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion", "selfLink"):
            metadata.pop(field, None)
        uid = str(uuid.UUID(int=0xA << 124 | next(self._next_uid)))
        metadata.update(uid=uid, creationTimestamp=self.timestamp(), generation=1)
        obj.update(apiVersion=resource.api_version, kind=resource.kind)
        obj.pop("status", None)
        if resource == PODS:
            obj["status"] = self._new_pod_status(obj)
        self._uids.add(uid)
        return self._commit(resource, key, None, obj)

    def update(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        change: Callable[[Object], Object],
        status: bool = False,
    ) -> Object:
        """Change an object (or its status alone) by a function of a copy of it; return the result.

        Raises ApiStatus: 404, 409 for another resourceVersion, 422 for a change that is not allowed. What changes
        nothing keeps the resourceVersion and tells no watch. The last finalizer's removal from an object that is being
        deleted removes it.
        """
        old: Object = orjson.loads(self.raw(resource, namespace, name))
        wanted = change(copy(old))
        version = wanted["metadata"].get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise ApiStatus(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {resource.label} "{name}": the object has been modified; '
                "please apply your changes to the latest version and try again",
            )
        new = {**old, "status": wanted.get("status")} if status else self._main_update(resource, old, wanted)
        if new.get("status") is None:
            new.pop("status", None)
        if new == old:
            return old
        if "deletionTimestamp" in new["metadata"] and not new["metadata"].get("finalizers") and not _graceful(new):
            self._erase(resource, (namespace, name))
            return new
        return self._commit(resource, (namespace, name), old, new)

    def delete(self, resource: ResourceType, namespace: str, name: str, options: Object | None = None) -> Object | None:
        """Delete an object; return it as it is while it ends, its last state, or None, as the resource answers.

        Raises ApiStatus: 404, 409 for another uid. Objects with finalizers and pods on a node only begin to end.
        """
        options = options or {}
        old: Object = orjson.loads(self.raw(resource, namespace, name))
        uid = (options.get("preconditions") or {}).get("uid")
        if uid is not None and uid != old["metadata"]["uid"]:
            raise ApiStatus(
                409,
                "Conflict",
                f'Operation cannot be fulfilled on {resource.kind} "{name}": the UID in the precondition ({uid}) does '
                f"not match the UID in record ({old['metadata']['uid']}).",
            )
        policy = options.get("propagationPolicy")
        if policy == "Orphan":
            self._release(old)
        new = self._ending(resource, old, options.get("gracePeriodSeconds"), policy == "Foreground")
        if new["metadata"].get("finalizers") or _graceful(new):
            return new if new == old else self._commit(resource, (namespace, name), old, new)
        self._erase(resource, (namespace, name))
        return new if resource.plural in _RETURNED_WHEN_DELETED else None

    def bind(self, namespace: str, name: str, node: str) -> Object:
        """Give a pod its node, as the scheduler does through pods/binding."""
        old: Object = orjson.loads(self.raw(PODS, namespace, name))
        if old["spec"].get("nodeName") or old["spec"].get("schedulingGates"):
            raise ApiStatus(409, "Conflict", f"pod {name} is bound already or gated")
        new: Object = copy(old)
        new["spec"]["nodeName"] = node
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self.timestamp()}
        others = [one for one in new["status"].get("conditions") or () if one["type"] != "PodScheduled"]
        new["status"]["conditions"] = [*others, scheduled]
        return self._commit(PODS, (namespace, name), old, new)

    def compact(self, resource: ResourceType | None = None) -> None:
        """Forget the history: watches from an older version get 410."""
        for one in self.resources() if resource is None else [resource]:
            self.compacted[one] = self.version
            self.history[one].clear()

    def collect_garbage(self) -> None:
        """Delete objects whose owners are all gone and finish foreground deletions."""
        while self._orphans:
            resource, key = self._orphans.pop()
            entry = self._objects[resource].get(key)
            if entry is not None and not any(ref["uid"] in self._uids for ref in owners(entry[0])):
                self.delete(resource, *key)
        for resource, key in list(self._foreground):
            self._collect_foreground(resource, key)

    # Details

    def _commit(self, resource: ResourceType, key: Key, old: Object | None, new: Object) -> Object:
        self.version += 1
        new["metadata"]["resourceVersion"] = str(self.version)
        raw = orjson.dumps(new)
        self._objects[resource][key] = (new, raw)
        if FOREGROUND in (new["metadata"].get("finalizers") or ()):
            self._foreground.add((resource, key))
        for ref in owners(new):
            self._dependents[ref["uid"]].add((resource, key))
            if ref["uid"] not in self._uids:
                self._orphans.add((resource, key))
        self._tell(Change(self.version, resource, old, new, new, raw))
        return orjson.loads(raw)  # type: ignore[no-any-return]

    def _erase(self, resource: ResourceType, key: Key) -> None:
        obj, _ = self._objects[resource].pop(key)
        self._foreground.discard((resource, key))
        self.version += 1
        uid = obj["metadata"]["uid"]
        self._uids.discard(uid)
        self._orphans |= self._dependents.pop(uid, set())
        for ref in owners(obj):
            self._dependents[ref["uid"]].discard((resource, key))
        last = {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(self.version)}}
        self._tell(Change(self.version, resource, obj, None, last, orjson.dumps(last)))

    def _tell(self, change: Change) -> None:
        self.history[change.resource].append(change)
        for listener in self.listeners:
            listener(change)
        if self._orphans or self._foreground:
            self._collect_soon()

    def _collect_soon(self) -> None:
        def collect() -> None:
            self._collecting = False
            self.collect_garbage()

        if self.garbage_collection and not self._collecting:
            try:
                asyncio.get_running_loop().call_soon(collect)
            except RuntimeError:  # no loop: the test collects by hand
                return
            self._collecting = True

    def _collect_foreground(self, resource: ResourceType, key: Key) -> None:
        def finish(current: Object) -> Object:
            current["metadata"]["finalizers"].remove(FOREGROUND)
            return current

        uid = self._objects[resource][key][0]["metadata"]["uid"]
        for where, dependent in list(self._dependents.get(uid, ())):
            entry = self._objects[where].get(dependent)
            if entry is not None and "deletionTimestamp" not in entry[0]["metadata"]:
                self.delete(where, *dependent)
        if not self._dependents.get(uid):
            self._foreground.discard((resource, key))
            self.update(resource, *key, finish)

    def _release(self, owner: Object) -> None:
        for resource, key in self._dependents.pop(owner["metadata"]["uid"], set()):

            def without(current: Object) -> Object:
                refs = [ref for ref in owners(current) if ref["uid"] != owner["metadata"]["uid"]]
                current["metadata"]["ownerReferences"] = refs
                return current

            self.update(resource, *key, without)

    def _ending(self, resource: ResourceType, obj: Object, grace: int | None, foreground: bool) -> Object:
        """Return the object with its deletion begun; a second delete can only shorten the grace period."""
        new: Object = copy(obj)
        metadata = new["metadata"]
        seconds = 0
        if (
            resource == PODS
            and new["spec"].get("nodeName")
            and new["status"].get("phase") not in ("Succeeded", "Failed")
        ):
            seconds = new["spec"].get("terminationGracePeriodSeconds", 30) if grace is None else grace
        if foreground and FOREGROUND not in metadata.setdefault("finalizers", []):
            metadata["finalizers"].append(FOREGROUND)
        if "deletionTimestamp" not in metadata:
            metadata["generation"] = metadata.get("generation", 0) + 1
        elif seconds >= metadata["deletionGracePeriodSeconds"]:
            return new
        end = self.now() + datetime.timedelta(seconds=seconds)
        metadata.update(deletionTimestamp=end.strftime("%Y-%m-%dT%H:%M:%SZ"), deletionGracePeriodSeconds=seconds)
        return new

    def _main_update(self, resource: ResourceType, old: Object, wanted: Object) -> Object:
        before, after = old["metadata"], wanted["metadata"]
        for field in ("uid", "name", "namespace"):
            if after.get(field, before.get(field)) != before.get(field):
                message = f'{resource.kind} "{before["name"]}" is invalid: metadata.{field}: field is immutable'
                raise ApiStatus(422, "Invalid", message)
        if "deletionTimestamp" in before and set(after.get("finalizers") or ()) - set(before.get("finalizers") or ()):
            raise ApiStatus(422, "Invalid", "metadata.finalizers: Forbidden: no new finalizers can be added")
        metadata = {**after, **{field: before[field] for field in _SERVER_FIELDS if field in before}}
        metadata.update(generation=before["generation"], resourceVersion=before["resourceVersion"])
        new = {**wanted, "metadata": metadata, "status": old.get("status")}
        if resource == PODS:
            _check_pod_update(old, new)
        if any(new.get(field) != old.get(field) for field in {*new, *old} - {"metadata", "status"}):
            metadata["generation"] += 1
        return new

    def _new_pod_status(self, pod: Object) -> Object:
        status: Object = {"phase": "Pending"}
        if pod["spec"].get("schedulingGates"):
            status["conditions"] = [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "SchedulingGated",
                    "message": "Scheduling is blocked due to non-empty scheduling gates",
                    "lastTransitionTime": self.timestamp(),
                }
            ]
        return status


def owners(obj: Object) -> list[Object]:
    """Return the owner references of an object."""
    return obj["metadata"].get("ownerReferences") or []


def _graceful(obj: Object) -> bool:
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))


def _check_pod_update(old: Object, new: Object) -> None:
    """Raise ApiStatus 422 for a change of a pod's spec that the API server forbids: gates may only go."""

    def fixed(pod: Object) -> Any:
        spec = {key: value for key, value in pod["spec"].items() if key not in _MUTABLE_POD_FIELDS}
        for field in ("containers", "initContainers"):
            spec[field] = [{**container, "image": ""} for container in spec.get(field) or ()]
        return spec

    gates = [gate["name"] for gate in old["spec"].get("schedulingGates") or ()]
    added = [gate["name"] for gate in new["spec"].get("schedulingGates") or () if gate["name"] not in gates]
    if added or fixed(old) != fixed(new):
        raise ApiStatus(
            422,
            "Invalid",
            f'Pod "{old["metadata"]["name"]}" is invalid: spec: Forbidden: pod updates may not change it',
        )
