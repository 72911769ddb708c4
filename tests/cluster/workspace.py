"""A namespace of its own to run workloads in, with short words for what tests do and look at there."""

import itertools
import json
from collections.abc import Callable
from typing import Any, TypeVar

from tests.cluster.harness import PATIENCE, ApiStatus, Harness
from tests.cluster.history import Change, History
from tests.cluster.operators import OperatorProcess

Object = dict[str, Any]
T = TypeVar("T")

PATHS = {
    "pcs": ("apis/grove.io/v1alpha1", "podcliquesets"),
    "pcsg": ("apis/grove.io/v1alpha1", "podcliquescalinggroups"),
    "pclq": ("apis/grove.io/v1alpha1", "podcliques"),
    "pg": ("apis/scheduler.grove.io/v1alpha1", "podgangs"),
    "pod": ("api/v1", "pods"),
    "svc": ("api/v1", "services"),
    "hpa": ("apis/autoscaling/v2", "horizontalpodautoscalers"),
    "podgroup": ("apis/scheduling.k8s.io/v1beta1", "podgroups"),
    "cpg": ("apis/scheduling.k8s.io/v1alpha3", "compositepodgroups"),
    "quota": ("api/v1", "resourcequotas"),
    "event": ("api/v1", "events"),
    "cm": ("api/v1", "configmaps"),
    "serviceaccount": ("api/v1", "serviceaccounts"),
    "secret": ("api/v1", "secrets"),
    "role": ("apis/rbac.authorization.k8s.io/v1", "roles"),
    "rolebinding": ("apis/rbac.authorization.k8s.io/v1", "rolebindings"),
}
"""Where the kinds are that tests look at, by kubectl's short names."""

CHILDREN = ("pcsg", "pclq", "pg", "pod", "svc", "hpa")
"""The kinds that the operator makes."""

HOLD = ["example.com/hold"]
"""The finalizers that `Workspace.hold` sets."""

MERGE = "application/merge-patch+json"

_rooms = itertools.count()


class Workspace:
    """One namespace of a cluster on which an operator runs."""

    def __init__(self, cluster: Harness, namespace: str, operator: OperatorProcess) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.operator = operator
        self._histories: dict[str, History] = {}
        self._fences = 0
        self._rooms: list[str] = []
        self._lost: list[str] = []
        self._held: set[tuple[str, str]] = set()

    # -- objects -------------------------------------------------------------------------------------------------

    def path(self, kind: str, name: str = "", subresource: str = "") -> str:
        """URL path of a collection, an object or a subresource."""
        group, plural = PATHS[kind]
        parts = [group, "namespaces", self.namespace, plural, name, subresource]
        return "/" + "/".join(part for part in parts if part)

    def create(self, kind: str, obj: Object) -> Object:
        """Create an object, strictly: an unknown field is an error."""
        created: Object = self.cluster.api("POST", f"{self.path(kind)}?fieldValidation=Strict", obj)
        return created

    def get(self, kind: str, name: str) -> Object:
        """The object; raises ApiStatus when there is none."""
        found: Object = self.cluster.api("GET", self.path(kind, name))
        return found

    def find(self, kind: str, name: str) -> Object | None:
        """The object, or None."""
        try:
            return self.get(kind, name)
        except ApiStatus as error:
            if error.status != 404:
                raise
            return None

    def items(self, kind: str, selector: str = "") -> list[Object]:
        """The objects of a kind, by name."""
        query = f"?labelSelector={selector}" if selector else ""
        items: list[Object] = self.cluster.api("GET", self.path(kind) + query)["items"]
        return sorted(items, key=lambda item: item["metadata"]["name"])

    def names(self, kind: str, selector: str = "") -> list[str]:
        """The names of a kind's objects, sorted."""
        return [item["metadata"]["name"] for item in self.items(kind, selector)]

    def patch(self, kind: str, name: str, body: Object, subresource: str = "") -> Object:
        """Merge `body` into an object."""
        patched: Object = self.cluster.api("PATCH", self.path(kind, name, subresource), body, MERGE)
        return patched

    def update(self, kind: str, name: str, change: Callable[[Object], None]) -> Object:
        """Get an object, let `change` edit it and put it back whole, as often as others come in between."""
        while True:
            obj = self.get(kind, name)
            change(obj)
            try:
                written: Object = self.cluster.api("PUT", self.path(kind, name), obj)
            except ApiStatus as error:
                if error.status != 409:
                    raise
            else:
                return written

    def label(self, kind: str, name: str, **labels: str | None) -> None:
        """Set labels of the simulated kubelet, given without their prefix `sim.test/`; None takes one away."""
        body = {"metadata": {"labels": {f"sim.test/{key}": value for key, value in labels.items()}}}
        self.patch(kind, name, body)

    def scale(self, kind: str, name: str, replicas: int) -> None:
        """Set replicas through /scale."""
        self.patch(kind, name, {"spec": {"replicas": replicas}}, "scale")

    def limit_pods(self, count: int) -> None:
        """Let the namespace hold so many pods and no more, by the quota `pods`, and wait until that is so."""
        self.create("quota", {"metadata": {"name": "pods"}, "spec": {"hard": {"pods": str(count)}}})
        self.wait(lambda: self.get("quota", "pods")["status"]["hard"]["pods"] == str(count), "the quota is in force")

    def hold(self, kind: str, name: str) -> Object:
        """Put somebody's finalizer on an object. What is still held when the test ends is released."""
        self._held.add((kind, name))
        return self.patch(kind, name, {"metadata": {"finalizers": HOLD}})

    def release(self, kind: str, name: str) -> None:
        """Take all finalizers off an object; it may be gone."""
        self._held.discard((kind, name))
        if self.find(kind, name):
            self.patch(kind, name, {"metadata": {"finalizers": None}})

    def close(self) -> None:
        """Leave nothing that would keep the namespace or matter to other tests, such as pods that are slow to end."""
        for history in self._histories.values():
            history.close()
        self.close_rooms()
        for kind, name in list(self._held):
            self.release(kind, name)
        self.cluster.api("DELETE", self.path("pcs"), {"propagationPolicy": "Background"})
        self.cluster.api("DELETE", self.path("pod"), {"gracePeriodSeconds": 0})

    def delete(self, kind: str, name: str, policy: str = "Background", grace_seconds: int | None = None) -> None:
        """Delete an object; `policy` is the propagationPolicy."""
        options: Object = {"propagationPolicy": policy}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        self.cluster.api("DELETE", self.path(kind, name), options)

    def pods(self, selector: str = "app.kubernetes.io/managed-by=grove-operator") -> list[Object]:
        """Pods that are neither being deleted nor ended, by clique and index."""
        found = [pod for pod in self.items("pod", selector) if is_active(pod)]
        return sorted(found, key=lambda pod: (pod["metadata"]["labels"]["grove.io/podclique"], index(pod)))

    def clique_pods(self, podclique: str) -> list[Object]:
        """The active pods of a PodClique, by index."""
        return self.pods(f"grove.io/podclique={podclique}")

    def open_rooms(self, count: int) -> None:
        """Let `count` more nodes take pods that wait for a room (workloads.clique); each node holds one.

        They are not those of the tests before, whose pods may still be ending.
        """
        nodes = len(self.cluster.api("GET", "/api/v1/nodes")["items"])
        for number in itertools.islice(_rooms, count):
            node = f"node-{number % nodes}"
            self._set_room(node, self.namespace)
            self._rooms.append(node)

    def lose(self, pod: Object) -> None:
        """Delete a pod; its node takes no other pod that waits for a room."""
        node = pod["spec"]["nodeName"]
        self._set_room(node, None)
        self._rooms.remove(node)
        self._lost.append(node)
        self.delete("pod", pod["metadata"]["name"])

    def restore_rooms(self) -> None:
        """The nodes of lost pods take pods again."""
        for node in self._lost:
            self._set_room(node, self.namespace)
        self._rooms += self._lost
        self._lost.clear()

    def close_rooms(self) -> None:
        """No node takes such pods any more; those that run go on."""
        while self._rooms:
            self._set_room(self._rooms.pop(), None)

    def _set_room(self, node: str, namespace: str | None) -> None:
        self.cluster.api("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {"test/room": namespace}}}, MERGE)

    # -- waiting -------------------------------------------------------------------------------------------------

    def wait(self, look: Callable[[], T], message: str, timeout: float = PATIENCE) -> T:
        """Wait until `look` returns something true, see harness.wait. A field that is missing counts as not yet."""

        def patiently() -> T:
            try:
                return look()
            except LookupError as error:
                raise AssertionError(f"there is no {error}") from error

        return self.cluster.wait(patiently, timeout, message)

    def until(self, kind: str, name: str, check: Callable[[Object], bool], message: str) -> Object:
        """Wait until an object exists and passes `check`; that object."""

        def look() -> Object | None:
            obj = self.get(kind, name)
            return obj if check(obj) else None

        found = self.wait(look, f"{kind} {name}: {message}")
        assert found
        return found

    def reads(self, kind: str, name: str, *conditions: tuple[str, str, str], **numbers: int) -> None:
        """Wait until a status has these conditions (type, status, reason) and these numbers; absent ones are 0."""

        def look() -> bool:
            found = self.get(kind, name)
            status = found["status"]
            assert {field: status.get(field, 0) for field in numbers} == numbers, f"{status}"
            for kind_of_condition, *wanted in conditions:
                assert [*verdict(found, kind_of_condition)] == wanted, f"{status}"
            return True

        self.wait(look, f"{kind} {name} reads {conditions} {numbers}")

    def settled(self, name: str, pods: int, timeout: float = PATIENCE) -> list[Object]:
        """Wait until a PodCliqueSet says it is done and runs exactly so many pods, all Ready; its active pods."""
        return self.wait(lambda: (self._settled(name, pods),), f"{name} runs {pods} pods", timeout)[0]

    def _settled(self, name: str, pods: int) -> list[Object]:
        pcs = self.get("pcs", name)
        status, want = pcs.get("status", {}), pcs["spec"]["replicas"]
        seen = [status.get(field) for field in ("replicas", "availableReplicas", "updatedReplicas")]
        assert seen == [want] * 3, f"replicas, available and updated are {seen}, not {want}"
        assert status.get("observedGeneration") == pcs["metadata"]["generation"], f"{status}"
        active = self.pods(f"app.kubernetes.io/part-of={name}")
        ready = sum(is_ready(pod) for pod in active)
        assert len(active) == ready == pods, f"{len(active)} pods, {ready} of them ready, not {pods}"
        return active

    def gone(self, name: str, timeout: float = PATIENCE) -> None:
        """Wait until nothing is left of a PodCliqueSet."""

        def left() -> bool:
            rest = {kind: self.names(kind, f"app.kubernetes.io/part-of={name}") for kind in CHILDREN}
            assert not any(rest.values()), f"left over: { {kind: names for kind, names in rest.items() if names} }"
            return self.find("pcs", name) is None

        self.wait(left, f"nothing is left of {name}", timeout)

    # -- what happened -------------------------------------------------------------------------------------------

    def revision(self) -> int:
        """The resourceVersion of now, to ask for the `changes` since."""
        now = int(self.cluster.api("GET", self.path("cm"))["metadata"]["resourceVersion"])
        for kind in _FENCES:
            if kind not in self._histories:
                self._histories[kind] = History(self.cluster.kubeconfig, kind, self.path(kind), now)
        return now

    def changes(self, since: int, *kinds: str) -> list[Change]:
        """Every change of objects of these kinds after a revision, in the order in which they happened."""
        found = [change for kind in kinds for change in self._changes(since, kind)]
        return sorted(found, key=lambda change: change.version)

    def _changes(self, since: int, kind: str) -> list[Change]:
        # An object made now, which nobody cares for, shows how far one has to look.
        self._fences += 1
        fence = f"fence-{self._fences}"
        self.create(kind, {**_FENCES[kind], "metadata": {"name": fence}})
        history = self._histories[kind]
        self.wait(lambda: any(change.name == fence for change in history.changes()), f"the history of {kind} is told")
        self.delete(kind, fence, grace_seconds=0)
        found = [change for change in history.changes() if change.version > since]
        end = next(change.version for change in found if change.name == fence)
        return [change for change in found if change.version < end and not change.name.startswith("fence-")]

    def bind(self, pod: Object, node: str) -> None:
        """Give a pod its node, as a scheduler does."""
        name = pod["metadata"]["name"]
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        self.cluster.api("POST", self.path("pod", name, "binding"), body)

    def events(self, name: str, reason: str = "") -> list[Object]:
        """The Events about objects of this name."""
        found = self.items("event")
        return [e for e in found if e["involvedObject"]["name"] == name and reason in ("", e["reason"])]

    def describe(self) -> str:
        """How things stand: for the report of a failed test."""
        kinds = "pcs,pcsg,pclq,pg,pods,services,hpa"
        table = self.cluster.kubectl("get", kinds, "-n", self.namespace, "-o", "wide", check=False)
        statuses = [
            f"{kind} {item['metadata']['name']}: {json.dumps(item.get('status', {}))}"
            for kind in ("pcs", "pcsg", "pclq", "pg")
            for item in self.items(kind)[:5]
        ]
        warnings = [
            f"{event['involvedObject']['name']}: {event['reason']}: {event.get('message')}"
            for event in self.items("event")
            if event["type"] == "Warning"
        ]
        return "\n".join([table[:6000], *statuses, *warnings[-20:], "", self.operator.tail()])


_NEVER_RUN: Object = {"name": "main", "image": "busybox:stable"}
_FENCES: dict[str, Object] = {
    "pcs": {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "spec": {
            "replicas": 0,
            "template": {"cliques": [{"name": "a", "spec": {"podSpec": {"containers": [_NEVER_RUN]}}}]},
        },
    },
    "pod": {
        "spec": {
            "containers": [{"name": "none", "image": "none"}],
            "schedulingGates": [{"name": "test/fence"}],
            "terminationGracePeriodSeconds": 0,
        }
    },
    "pg": {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "spec": {"podgroups": []}},
    "pclq": {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "spec": {"roleName": "none", "replicas": 0, "podSpec": {"containers": [{"name": "none", "image": "none"}]}},
    },
}


# -- what a pod says -----------------------------------------------------------------------------------------------


def is_active(pod: Object) -> bool:
    """Neither being deleted nor ended."""
    ended = pod.get("status", {}).get("phase") in ("Failed", "Succeeded")
    return "deletionTimestamp" not in pod["metadata"] and not ended


def is_ready(pod: Object) -> bool:
    """Whether the condition Ready is True."""
    return condition(pod, "Ready").get("status") == "True"


def is_gated(pod: Object) -> bool:
    """Whether Grove's scheduling gate holds the pod."""
    return "grove.io/podgang-pending-creation" in gates(pod)


def gates(pod: Object) -> list[str]:
    """Names of the scheduling gates."""
    return [gate["name"] for gate in pod["spec"].get("schedulingGates", [])]


def index(pod: Object) -> int:
    """Index of the pod in its PodClique."""
    return int(pod["metadata"]["labels"]["grove.io/podclique-pod-index"])


def uid(obj: Object) -> str:
    """The uid."""
    return str(obj["metadata"]["uid"])


def uids(objects: list[Object]) -> set[str]:
    """The uids."""
    return {uid(obj) for obj in objects}


def condition(obj: Object, kind: str) -> Object:
    """The condition of that type, {} when there is none."""
    found = obj.get("status", {}).get("conditions", [])
    return next((item for item in found if item["type"] == kind), {})


def verdict(obj: Object, kind: str) -> tuple[str, str]:
    """Status and reason of a condition."""
    found = condition(obj, kind)
    return found.get("status", ""), found.get("reason", "")
