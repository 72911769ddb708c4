"""What a cluster must look like in the end, and what must hold at every write; worked out apart from the core."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from grove.plan.kinds import AUTOSCALER, POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG, SERVICE
from grove.runtime.resources import ResourceType
from tests.fake_api import FakeApi
from tests.fake_api.store import Change
from tests.unit.support import Object

GATE = "grove.io/podgang-pending-creation"
GANG = "grove.io/podgang"
INDEX = "grove.io/podclique-pod-index"


class Wanted:
    """Names and numbers of all that one set asks for, by the rules of the API doc (4)."""

    def __init__(self, obj: Object, scaled: Mapping[str, int]) -> None:
        self.name = obj["metadata"]["name"]
        self.podcliques: dict[str, int] = {}
        self.groups: dict[str, int] = {}
        self.services: set[str] = set()
        self.autoscalers: set[str] = set()
        self.gangs: dict[str, dict[str, int]] = defaultdict(dict)
        """gang: PodClique: minimum; idle ones are left out"""
        template = obj["spec"]["template"]
        cliques = {one["name"]: one for one in template["cliques"]}
        groups = template.get("podCliqueScalingGroups") or []
        grouped = {name for group in groups for name in group["cliqueNames"]}
        for i in range(obj["spec"]["replicas"]):
            base = f"{self.name}-{i}"
            self.services.add(base)
            for name in (name for name in cliques if name not in grouped):
                self._podclique(f"{base}-{name}", cliques[name]["spec"], base, scaled)
                if "autoScalingConfig" in cliques[name]["spec"]:
                    self.autoscalers.add(f"{base}-{name}")
            for group in groups:
                full, minimum = f"{base}-{group['name']}", group["minAvailable"]
                self.groups[full] = scaled.get(full, group["replicas"])
                if "scaleConfig" in group:
                    self.autoscalers.add(full)
                for j in range(self.groups[full]):
                    gang = base if j < minimum else f"{full}-{j - minimum}"
                    for name in group["cliqueNames"]:
                        self._podclique(f"{full}-{j}-{name}", cliques[name]["spec"], gang, scaled)

    def _podclique(self, name: str, spec: Object, gang: str, scaled: Mapping[str, int]) -> None:
        self.podcliques[name] = scaled.get(name, spec["replicas"])
        if self.podcliques[name]:
            self.gangs[gang][name] = spec.get("minAvailable", max(spec["replicas"], 1))


def differences(api: FakeApi, sets: Mapping[str, Object], scaled: Mapping[str, int]) -> list[str]:
    """What is not as the sets ask for, in words."""
    wanted = [Wanted(obj, scaled) for obj in sets.values()]
    return [*_objects(api, wanted), *_gangs(api, wanted), *_pods(api, wanted), *_statuses(api, wanted)]


def _objects(api: FakeApi, wanted: list[Wanted]) -> Iterator[str]:
    expected: dict[ResourceType, set[str]] = {
        PODCLIQUESET: {one.name for one in wanted},
        PODCLIQUE: {name for one in wanted for name in one.podcliques},
        PODCLIQUESCALINGGROUP: {name for one in wanted for name in one.groups},
        SERVICE: {name for one in wanted for name in one.services},
        AUTOSCALER: {name for one in wanted for name in one.autoscalers},
        PODGANG: {name for one in wanted for name in one.gangs},
    }
    for resource, names in expected.items():
        found = {obj["metadata"]["name"] for obj in api.objects(resource)}
        if found != names:
            yield f"{resource.kind}: too many {sorted(found - names)}, missing {sorted(names - found)}"


def _gangs(api: FakeApi, wanted: list[Wanted]) -> Iterator[str]:
    gangs = {obj["metadata"]["name"]: obj for obj in api.objects(PODGANG)}
    for one in wanted:
        for name, members in one.gangs.items():
            groups = (gangs.get(name) or {}).get("spec", {}).get("podgroups") or ()
            have = [(group["name"], group["minReplicas"]) for group in groups]
            if have != list(members.items()):
                yield f"PodGang {name}: {have} instead of {list(members.items())}"
            for group in groups:
                names = [ref["name"] for ref in group["podReferences"]]
                live = sorted(
                    pod["metadata"]["name"]
                    for pod in api.objects(POD, "default", **{"grove.io/podclique": group["name"]})
                    if active(pod)
                )
                if names != live:
                    yield f"PodGang {name}: {group['name']} refers to {names} instead of {live}"


def _pods(api: FakeApi, wanted: list[Wanted]) -> Iterator[str]:
    owners = {obj["metadata"]["uid"]: obj["metadata"]["name"] for obj in api.objects(PODCLIQUE)}
    found: dict[str, list[int]] = defaultdict(list)
    for pod in api.objects(POD):
        name, tags = pod["metadata"]["name"], pod["metadata"]["labels"]
        owner = owners.get(pod["metadata"]["ownerReferences"][0]["uid"])
        if owner is None or not active(pod):
            yield f"Pod {name} is left over"
            continue
        found[owner].append(int(tags[INDEX]))
        if pod["spec"]["hostname"] != f"{owner}-{tags[INDEX]}":
            yield f"Pod {name} has hostname {pod['spec']['hostname']}"
        if pod["spec"].get("schedulingGates") or pod["status"]["phase"] != "Running":
            yield f"Pod {name} does not run"
    for one in wanted:
        for owner, count in one.podcliques.items():
            indices = found.pop(owner, [])
            if len(indices) != count or len(set(indices)) != count:
                yield f"PodClique {owner}: indices {sorted(indices)} instead of {count} pods"
    for owner in found:
        yield f"PodClique {owner} has pods and should not exist"


def _statuses(api: FakeApi, wanted: list[Wanted]) -> Iterator[str]:
    for one in wanted:
        pcs = api.find(PODCLIQUESET, "default", one.name)
        if pcs is None:
            continue
        count = pcs["spec"]["replicas"]
        status = pcs.get("status") or {}
        expected: Object = {
            "replicas": count,
            "availableReplicas": count,
            "updatedReplicas": count,
            "observedGeneration": pcs["metadata"]["generation"],
        }
        yield from _wrong(f"PodCliqueSet {one.name}", status, expected)
        phases = {entry["name"]: entry["phase"] for entry in status.get("podGangStatuses") or ()}
        if phases != dict.fromkeys(one.gangs, "Running"):
            yield f"PodCliqueSet {one.name}: phases {phases}"
        for name, replicas in one.groups.items():
            group = api.find(PODCLIQUESCALINGGROUP, "default", name) or {"metadata": {"generation": 0}}
            numbers = ("replicas", "scheduledReplicas", "availableReplicas", "updatedReplicas")
            expected = dict.fromkeys(numbers, replicas) | {"observedGeneration": group["metadata"]["generation"]}
            yield from _wrong(f"PodCliqueScalingGroup {name}", group.get("status") or {}, expected)
        for name, replicas in one.podcliques.items():
            pclq = api.find(PODCLIQUE, "default", name) or {"metadata": {"generation": 0}}
            numbers = ("replicas", "scheduledReplicas", "readyReplicas", "updatedReplicas")
            expected = dict.fromkeys(numbers, replicas) | {"observedGeneration": pclq["metadata"]["generation"]}
            yield from _wrong(f"PodClique {name}", pclq.get("status") or {}, expected)


def _wrong(what: str, status: Object, expected: Object) -> Iterator[str]:
    for key, value in expected.items():
        if (status.get(key) or 0) != value:
            yield f"{what}: status.{key} is {status.get(key)} instead of {value}"
    if status.get("lastErrors"):
        yield f"{what}: {status['lastErrors']}"


def active(pod: Object) -> bool:
    """Whether a pod holds its index."""
    ended = (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded")
    return not ended and "deletionTimestamp" not in pod["metadata"]


def gated(pod: Object | None) -> bool:
    """Whether a pod is there and our gate on it."""
    gates = (pod["spec"].get("schedulingGates") or ()) if pod is not None else ()
    return any(gate["name"] == GATE for gate in gates)


class Watchdog:
    """Looks at every write that is committed, whoever sent it, and notes what must never happen.

    A pod's gate comes off only when its PodGang refers to it and its gang has been whole with this very pod, or runs
    already. A scaled gang starts only when its base gang has been scheduled. `Initialized` becomes true only when no
    reference is missing. An index is given to one pod at a time (counted in `doubles`: only operators that know
    nothing of each other may do that).

    `staleness` is how many seconds late an operator may hear of a pod that went, and count it as there.
    """

    def __init__(self, api: FakeApi) -> None:
        self.staleness = 0.0
        self.broken: list[str] = []
        self.doubles: list[str] = []
        self.created = 0
        """pods created"""
        self.lost = 0
        """pods that were active and are no more"""
        self._pods: dict[str, dict[str, Object]] = defaultdict(dict)
        """active pods by gang and uid"""
        self._gone: dict[str, list[tuple[float, Object]]] = defaultdict(list)
        """pods that were active, by gang, and when they went"""
        self._podcliques: dict[str, dict[str, Object]] = defaultdict(dict)
        """by gang and uid; those on their way out are left out"""
        self._gangs: set[str] = set()
        """PodGangs that exist"""
        self._whole: dict[str, set[str]] = defaultdict(set)
        self._referenced: dict[str, set[str]] = defaultdict(set)
        self._scheduled: set[str] = set()
        self._replicas: dict[str, set[int]] = defaultdict(set)
        api.listeners.append(self._look)

    def _look(self, change: Change) -> None:
        gang = change.last["metadata"].get("labels", {}).get(GANG, "")
        if change.resource == POD:
            self._pod(change, gang)
        elif change.resource == PODCLIQUE:
            self._podclique(change, gang)
        elif change.resource == PODGANG:
            self._podgang(change)

    def _pod(self, change: Change, gang: str) -> None:
        pod, uid = change.last, change.last["metadata"]["uid"]
        if change.old is None:
            self.created += 1
            self._created(pod, gang)
        if gated(change.old) and change.new is not None and not gated(pod):
            self._lifted(pod, gang)
        if change.new is not None and active(pod):
            self._pods[gang][uid] = pod
        elif self._pods[gang].pop(uid, None) is not None:
            self.lost += 1
            self._gone[gang].append((asyncio.get_running_loop().time(), pod))
        self._gang_changed(gang)

    def _created(self, pod: Object, gang: str) -> None:
        for other in self._pods[gang].values():
            if _slot(other) == _slot(pod):
                self.doubles.append(f"{pod['metadata']['name']} beside {other['metadata']['name']}")

    def _lifted(self, pod: Object, gang: str) -> None:
        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
        if name not in self._referenced[gang]:
            self.broken.append(f"the gate of {name} came off, but {gang} never referred to it")
        if any(not gated(other) for other in self._pods[gang].values() if other["metadata"]["uid"] != uid):
            return
        if uid not in self._whole[gang]:
            self.broken.append(f"the gate of {name} came off, but {gang} has not been whole with it")
        base = pod["metadata"]["labels"].get("grove.io/base-podgang")
        if base in self._gangs and base not in self._scheduled:
            self.broken.append(f"the gate of {name} came off, but {base} has not been scheduled")

    def _podclique(self, change: Change, gang: str) -> None:
        podclique, uid = change.last, change.last["metadata"]["uid"]
        self._replicas[podclique["metadata"]["name"]].add(podclique["spec"]["replicas"])
        if change.new is not None and "deletionTimestamp" not in podclique["metadata"]:
            self._podcliques[gang][uid] = podclique
        else:
            self._podcliques[gang].pop(uid, None)
        self._gang_changed(gang)

    def _podgang(self, change: Change) -> None:
        name, gang = change.last["metadata"]["name"], change.last
        if change.new is None:
            self._gangs.discard(name)
            return
        self._gangs.add(name)
        for group in gang["spec"]["podgroups"]:
            self._referenced[name].update(ref["name"] for ref in group["podReferences"])
            full = len(group["podReferences"]) >= min(self._replicas[group["name"]], default=1)
            if _initialized(gang) and not _initialized(change.old) and not full:
                self.broken.append(f"{name} is Initialized without all pods of {group['name']}")

    def _gang_changed(self, gang: str) -> None:
        """Note when a gang is whole, with whom, and when its minimums are scheduled."""
        members = [one for one in self._podcliques[gang].values() if one["spec"]["replicas"]]
        by_owner: dict[str, list[Object]] = defaultdict(list)
        since = asyncio.get_running_loop().time() - self.staleness
        late = [pod for when, pod in self._gone[gang] if when >= since]
        for pod in (*self._pods[gang].values(), *late):
            by_owner[_slot(pod)[0]].append(pod)
        have = [(member["spec"], by_owner[member["metadata"]["uid"]]) for member in members]
        if members and all(len(mine) >= spec["replicas"] for spec, mine in have):
            self._whole[gang].update(self._pods[gang])
        if members and all(sum(map(_has_node, mine)) >= spec["minAvailable"] for spec, mine in have):
            self._scheduled.add(gang)


def _slot(pod: Object) -> tuple[str, str]:
    """uid of the PodClique and index."""
    return pod["metadata"]["ownerReferences"][0]["uid"], pod["metadata"]["labels"][INDEX]


def _initialized(obj: Object | None) -> bool:
    conditions: list[Any] = ((obj or {}).get("status") or {}).get("conditions") or []
    return any(one["type"] == "Initialized" and one["status"] == "True" for one in conditions)


def _has_node(pod: Object) -> bool:
    return bool(pod["spec"].get("nodeName"))
