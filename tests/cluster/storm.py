"""A random life of many PodCliqueSets: what was asked for, what should be left, and whether no pod was made twice."""

import copy
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from grove.admission.defaults import default_podcliqueset
from grove.api.podcliqueset import PodCliqueSet
from grove.plan.expand import expand
from grove.plan.template import Template
from tests.cluster.gates import references
from tests.cluster.harness import PATIENCE, ApiStatus
from tests.cluster.history import WatchingClient
from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import CHILDREN, Object, Workspace, index, is_active, uid, uids

Shape = dict[str, Any]
"""What there is of each kind: names, of PodGangs also minReplicas and references per group, of pods their number."""


def expected(namespace: str, sets: Iterable[Object]) -> Shape:
    """The shape of everything these sets should have, worked out without the cluster."""
    found: dict[str, list[Object]] = {kind: [] for kind in CHILDREN}
    for body in sets:
        wire = copy.deepcopy(body)
        wire["metadata"]["namespace"] = namespace
        for replica in expand(Template(PodCliqueSet.from_wire(default_podcliqueset(wire)))):
            found["svc"] += replica.services
            found["pcsg"] += replica.scaling_groups
            found["pclq"] += replica.podcliques
            found["hpa"] += replica.autoscalers
            found["pg"] += replica.podgangs
            found["pod"] += replica.pods
    return _shape(found)


def observed(workspace: Workspace) -> Shape:
    """The shape of everything in the namespace."""
    return _shape({kind: workspace.items(kind) for kind in CHILDREN})


def assert_shape(workspace: Workspace, sets: Iterable[Object], timeout: float = PATIENCE) -> None:
    """Wait until exactly the objects of these sets are in the namespace, and check that the pods fit together."""
    want = expected(workspace.namespace, sets)

    def fits() -> bool:
        have = observed(workspace)
        for kind in CHILDREN:
            assert have[kind] == want[kind], f"{kind}: there is {have[kind]}, not {want[kind]}"
        return True

    workspace.wait(fits, "exactly the wanted objects exist", timeout)
    pods = workspace.items("pod")
    named = [name for gang in workspace.items("pg") for name in references(gang)]
    assert sorted(named) == sorted(pod["metadata"]["name"] for pod in pods), "PodGangs name all pods and no others"
    hosts = Counter(pod["spec"]["hostname"] for pod in pods)
    assert max(hosts.values(), default=1) == 1, f"host names used twice: {hosts - Counter(set(hosts))}"


def _shape(objects: dict[str, list[Object]]) -> Shape:
    shape: Shape = {kind: sorted(obj["metadata"]["name"] for obj in objects[kind]) for kind in CHILDREN}
    shape["pg"] = {
        gang["metadata"]["name"]: {
            entry["name"]: (entry["minReplicas"], len(entry["podReferences"])) for entry in gang["spec"]["podgroups"]
        }
        for gang in objects["pg"]
    }
    shape["pod"] = dict(
        sorted(Counter(pod["metadata"]["labels"]["grove.io/podclique"] for pod in objects["pod"]).items())
    )
    return shape


class Ledger:
    """Keeps the books on the pods of a namespace, by watches of its own.

    A PodClique may get as many pods as it asked for when it was made, one more for each step that its replicas rose,
    and one for each pod that was taken from it (`blame`). And an index never has two pods at once.
    """

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._client = WatchingClient(workspace.cluster.kubeconfig)
        self._causes: Counter[str] = Counter()
        self._births: Counter[str] = Counter()
        self._doubles: list[str] = []
        self._replicas: dict[str, int] = {}
        self._names: dict[str, str] = {}
        self._known: dict[str, dict[str, Object]] = {"pod": {}, "pclq": {}}
        self._seats: defaultdict[tuple[str, int], set[str]] = defaultdict(set)
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._threads = [threading.Thread(target=self._follow, args=(kind,), daemon=True) for kind in self._known]
        for thread in self._threads:
            thread.start()

    def blame(self, pod: Object) -> None:
        """The test itself took this pod away or made it fail."""
        self._causes[_owner(pod)] += 1

    def check(self) -> None:
        """Fail when a pod was made without a cause."""
        self._workspace.wait(self._is_up_to_date, "the books are up to date")
        assert not self._doubles, "two pods at one index:\n" + "\n".join(self._doubles[:10])
        excess = [
            f"{self._names.get(owner, owner)}: {births} pods, {self._causes[owner]} causes"
            for owner, births in self._births.items()
            if births > self._causes[owner]
        ]
        assert not excess, "pods without a cause:\n" + "\n".join(excess)
        assert self._births, "no pod was ever made"

    def count(self) -> int:
        """How many pods there are now, as far as the watch has told."""
        return len(self._known["pod"])

    def close(self) -> None:
        """Stop watching."""
        self._ended.set()
        for thread in self._threads:
            thread.join()

    def _is_up_to_date(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return all(known.keys() == uids(self._workspace.items(kind)) for kind, known in self._known.items())

    def _follow(self, kind: str) -> None:
        version = ""
        while not self._ended.is_set():
            try:
                version = self._watch(kind, version or self._list(kind))
            except (OSError, ApiStatus):
                version = ""
                time.sleep(0.1)  # the API server is away
            except Exception as error:
                self._failure = error
                raise

    def _list(self, kind: str) -> str:
        listing = self._client.api("GET", self._workspace.path(kind))
        present = {uid(obj): obj for obj in listing["items"]}
        for obj in present.values():
            self._take(kind, "MODIFIED", obj)
        for gone in set(self._known[kind]) - set(present):
            self._take(kind, "DELETED", self._known[kind][gone])
        return str(listing["metadata"]["resourceVersion"])

    def _watch(self, kind: str, version: str) -> str:
        path = f"{self._workspace.path(kind)}?watch=true&timeoutSeconds=5&resourceVersion={version}"
        for event in self._client.watch(path):
            obj = event["object"]
            if event["type"] == "ERROR":
                return ""  # too old: list again
            self._take(kind, event["type"], obj)
            version = obj["metadata"]["resourceVersion"]
        return version

    def _take(self, kind: str, event: str, obj: Object) -> None:
        known = self._known[kind]
        (self._take_pod if kind == "pod" else self._take_podclique)(event, obj)
        if event == "DELETED":
            known.pop(uid(obj), None)
        else:
            known[uid(obj)] = obj

    def _take_podclique(self, event: str, obj: Object) -> None:
        replicas = 0 if event == "DELETED" else obj["spec"]["replicas"]
        before = self._replicas.pop(uid(obj), 0)
        self._causes[uid(obj)] += max(replicas - before, 0)
        self._names[uid(obj)] = obj["metadata"]["name"]
        if event != "DELETED":
            self._replicas[uid(obj)] = replicas

    def _take_pod(self, event: str, pod: Object) -> None:
        owner, name = _owner(pod), pod["metadata"]["name"]
        if uid(pod) not in self._known["pod"]:
            self._births[owner] += 1
        seat = self._seats[owner, index(pod)]
        if event != "DELETED" and is_active(pod):
            seat.add(name)
        else:
            seat.discard(name)
        if len(seat) > 1:
            self._doubles.append(f"{' and '.join(sorted(seat))} at {pod['metadata']['creationTimestamp']}")


class Storm:
    """Creates, scales, breaks and deletes PodCliqueSets at random, and knows what should be left in the end."""

    def __init__(self, workspace: Workspace, source: random.Random, sets: int) -> None:
        self.ledger = Ledger(workspace)
        self._workspace = workspace
        self._random = source
        self._unborn = [_pcs(f"s{number}", number) for number in range(sets)]
        self._alive: dict[str, Object] = {}
        self._deletions = sets // 4
        self._failures = 2

    def steps(self, count: int) -> None:
        """Do so many random things, without a look at what becomes of them."""
        actions = (self._scale_set, self._scale_group, self._scale_clique, self._delete_pod, self._fail, self._delete)
        for _ in range(count):
            if self._unborn and (not self._alive or self._random.random() < 0.35):
                self._create()
            else:
                act = self._random.choices(actions, (4, 4, 4, 2, 1, 1))[0]
                act(self._random.choice(sorted(self._alive)))

    def calm_down(self) -> None:
        """Create what is not there yet, give every set a last size, and wait until exactly what they ask for exists."""
        while self._unborn:
            self._create()
        for name in self._alive:
            self._scale("pcs", name, self._random.choice((1, 1, 2)))
        for name, body in self._alive.items():
            self._workspace.wait(partial(self._has_children, name), f"{name} has its children", 180)
            self._resize(name, body)
        for name, body in self._alive.items():
            self._workspace.settled(name, sum(expected(self._workspace.namespace, [body])["pod"].values()), 180)
        assert_shape(self._workspace, self._alive.values())
        self.ledger.check()

    def _resize(self, name: str, body: Object) -> None:
        template, replicas = body["spec"]["template"], body["spec"]["replicas"]
        groups, cliques = self._random.randint(0, 2), self._random.randint(0, 3)
        for replica in range(replicas):
            self._workspace.scale("pclq", f"{name}-{replica}-a", cliques)
            self._workspace.scale("pcsg", f"{name}-{replica}-g", groups)
        template["cliques"][0]["spec"]["replicas"] = cliques
        template["podCliqueScalingGroups"][0]["replicas"] = groups

    def _has_children(self, name: str) -> bool:
        """The operator has seen the set's last change and made what that asks for."""
        pcs = self._workspace.get("pcs", name)
        seen, made = pcs["status"].get("observedGeneration"), pcs["metadata"]["generation"]
        assert seen == made, f"generation {seen} is observed, not {made}"
        for replica in range(pcs["spec"]["replicas"]):
            for kind, child in (("pclq", "a"), ("pcsg", "g")):
                found = self._workspace.get(kind, f"{name}-{replica}-{child}")
                assert _owner(found) == uid(pcs), (
                    f"{kind} {name}-{replica}-{child} belongs to the set of this name before"
                )
        return True

    def _create(self) -> None:
        body = self._unborn.pop(0)
        self._workspace.create("pcs", body)
        self._alive[body["metadata"]["name"]] = body

    def _delete(self, name: str) -> None:
        """Delete a set for good, or to make it again: then nobody waits until the first one's pods are gone."""
        if self._deletions and len(self._alive) > 1:
            self._deletions -= 1
            body = self._alive.pop(name)
            self._workspace.delete("pcs", name)
            if self._random.random() < 0.5:
                self._unborn.insert(0, body)

    def _scale(self, kind: str, name: str, replicas: int) -> None:
        self._workspace.scale(kind, name, replicas)
        if kind == "pcs":
            self._alive[name]["spec"]["replicas"] = replicas

    def _scale_set(self, name: str) -> None:
        self._scale("pcs", name, self._random.randint(0, 2))

    def _scale_group(self, name: str) -> None:
        self._try_scale("pcsg", f"{name}-{self._random.randint(0, 1)}-g", self._random.randint(0, 3))

    def _scale_clique(self, name: str) -> None:
        self._try_scale("pclq", f"{name}-{self._random.randint(0, 1)}-a", self._random.randint(0, 4))

    def _try_scale(self, kind: str, name: str, replicas: int) -> None:
        try:
            self._scale(kind, name, replicas)
        except ApiStatus as error:
            if error.status not in (404, 409):  # it is not there now, or it goes while we write
                raise

    def _delete_pod(self, name: str) -> None:
        self._spoil(name, lambda pod: self._workspace.delete("pod", pod))

    def _fail(self, name: str) -> None:
        if self._failures:
            self._failures -= 1
            self._spoil(name, lambda pod: self._workspace.label("pod", pod, fail="true"))

    def _spoil(self, name: str, how: Callable[[str], None]) -> None:
        """Do something to a pod of a set, if it has one that stays long enough."""
        pods = self._workspace.pods(f"app.kubernetes.io/part-of={name}")
        if pods:
            pod = self._random.choice(pods)
            self.ledger.blame(pod)
            with suppress(ApiStatus):
                how(pod["metadata"]["name"])


def _pcs(name: str, number: int) -> Object:
    """Two a, and two replicas of the group g of one b and one c; every fourth set has an autoscaler too."""
    scaled = [clique("h", 1, 1, autoScalingConfig={"minReplicas": 1, "maxReplicas": 3})] if number % 4 == 3 else []
    return podcliqueset(name, clique("a", 2, 1), clique("b", 1, 1), clique("c", 1, 1), *scaled, group("g", "b c", 2, 1))


def _owner(obj: Object) -> str:
    return str(obj["metadata"]["ownerReferences"][0]["uid"])
