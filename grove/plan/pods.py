"""Pods of one PodClique: which should exist, under which names, and what they look like."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, islice
from typing import Any

from grove.api import labels, names
from grove.api.labels import Env
from grove.api.podclique import PodClique
from grove.plan.adoption import translated
from grove.plan.breach import remaining, terminated_until
from grove.plan.children import with_env
from grove.plan.hashes import suffix
from grove.plan.init_container import Hold
from grove.plan.kinds import POD
from grove.plan.observed import PodView
from grove.plan.podclique import wanted_pods
from grove.plan.ranks import RankOffset
from grove.plan.rollout import delete, stale_pods_to_go
from grove.plan.template import owner_reference
from grove.runtime.writes import Create, Delete, Patch, Write

REFILL_SPACING = 10.0
"""Seconds between two pods of one slot when the first ended by itself (Failed, evicted, Succeeded), against storms."""

BURST = 500
"""Pods that one pass makes at most, as a ReplicaSet does: a number mistyped and put right again stops there."""

Prepare = Callable[[dict[str, Any], int], dict[str, Any]]
"""Gives a new pod (wire form) at an index what its scheduler wants to find on it, and returns it."""


@dataclass(frozen=True, slots=True)
class PodPlan:
    """What to do about the pods of one PodClique."""

    writes: tuple[Write, ...] = ()
    again_after: float | None = None
    """seconds until a slot may be refilled, when one waits"""


def plan_pods(
    podclique: PodClique,
    pods: Iterable[PodView],
    *,
    last_occupants: Mapping[int, str],
    rank_offset: RankOffset | None,
    now: float,
    burst: int = BURST,
    prepare: Prepare = lambda pod, _: pod,
    hold: Hold | None = None,
    roll: int | None = None,
) -> PodPlan:
    """Bring the number of active pods to spec.replicas: fill the lowest free indices, or delete the surplus.

    Of many missing pods only the first `burst` are made; the news of them bring the next pass.
    `last_occupants` maps an index to the uid of the pod that was last seen there; `now` is in seconds since the epoch;
    `hold` is for a PodClique that starts after others; `roll` is how many pods may be down while stale ones are
    replaced, None to replace none.
    """
    if podclique.deleting:
        return PodPlan()
    wanted = wanted_pods(podclique)
    seen = list(pods)
    slots, surplus = _slots(remaining(podclique, seen))
    until = terminated_until(podclique)
    terminated = [pod for pod in seen if pod.active and pod.created <= until]
    held = {pod.index for pod in terminated}
    victims = (
        surplus
        + scale_in_order(slots.values(), podclique.labels.get(labels.POD_TEMPLATE_HASH, ""))[
            : max(len(slots) - wanted, 0)
        ]
    )
    gone = [pod for pod in seen if not pod.active]
    creates: list[Write] = []
    waits: list[float] = []
    taken = {pod.name: pod.index for pod in seen}
    left: dict[int, list[PodView]] = {}
    for pod in gone:
        left.setdefault(pod.index, []).append(pod)
    for index in _lowest_free(slots, wanted - len(slots)):
        if index in held:
            continue  # the successor comes when the delete is done
        before = left.get(index, [])
        wait = max((_refill_wait(pod, now) for pod in before), default=0.0)
        if wait > 0:
            waits.append(wait)
            continue
        if len(creates) == burst:
            break
        predecessor = _latest(podclique.uid, index, before) or last_occupants.get(index, "")
        name = pod_name(podclique.name, podclique.uid, index, predecessor, taken)
        taken[name] = index
        creates.append(Create(POD, prepare(build_pod(podclique, index, name, rank_offset, hold), index)))
    full = len(slots) >= wanted
    leftovers = [
        pod for pod in gone if pod.finished and not pod.deleting and (full or pod.index in slots or pod.index < 0)
    ]
    deletes = [_delete(pod, "surplus") for pod in victims] + [_delete(pod, "ended") for pod in leftovers]
    if roll is not None:
        kept = {index: pod for index, pod in slots.items() if pod not in victims}
        draining = len({pod.index for pod in gone if pod.deleting} - set(kept)) + len(victims)
        down = max(draining, wanted - len(kept))
        deletes += [delete(pod) for pod in stale_pods_to_go(podclique, kept.values(), down, roll)]
    deletes += [_delete(pod, "its gang was terminated") for pod in terminated]
    relabels = [patch for pod in slots.values() if (patch := _relabel(pod, podclique)) is not None]
    return PodPlan((*creates, *deletes, *relabels), min(waits, default=None))


def pod_name(podclique: str, uid: str, index: int, predecessor: str, taken: Mapping[str, int]) -> str:
    """The name of the pod that follows `predecessor` (a uid, "" for the first) at `index`.

    The suffix is a hash, so creating the same pod twice is refused by the API server instead of making a second one.
    `taken` maps names in use to their index: where two indices hash to the same suffix, the later one hashes again.
    """
    attempt = 0
    while True:
        name = f"{podclique}-{suffix(uid, str(index), predecessor, str(attempt))}"
        if name not in taken:
            return name
        attempt += 1


def scale_in_order(pods: Iterable[PodView], template_hash: str) -> list[PodView]:
    """Pods in the order in which scale-in takes them (reference 5.3).

    Unassigned before assigned, Pending before Unknown before Running, not ready before ready, stale before current,
    younger before older; the index decides between equals, highest first.
    """
    phases = {"Unknown": 1, "Running": 2}

    def key(pod: PodView) -> tuple[bool, int, bool, bool, float, int]:
        current = pod.template_hash == template_hash
        return (bool(pod.node), phases.get(pod.phase, 0), pod.ready, current, -pod.created, -pod.index)

    return sorted(pods, key=key)


def build_pod(
    podclique: PodClique, index: int, name: str, rank_offset: RankOffset | None, hold: Hold | None = None
) -> dict[str, Any]:
    """The Pod at `index` of a PodClique: its podSpec with Grove's gate, environment, hostname and labels."""
    own = podclique.labels
    set_name = own.get(labels.PART_OF, "")
    set_replica = own.get(labels.PODCLIQUESET_REPLICA_INDEX, "0")
    tags = {**own, labels.PODCLIQUE: podclique.name, labels.POD_INDEX: str(index)}
    if rank_offset is not None:
        tags[labels.SCALING_GROUP_POD_INDEX] = str(rank_offset.rank(index))
        tags[labels.SCALING_GROUP_TEMPLATE_HASH] = rank_offset.template_hash
    service = names.headless_service_name(set_name, int(set_replica))
    spec = with_env(podclique.spec.pod_spec, _pod_env(podclique, set_name, set_replica, service))
    gates = [gate for gate in spec.get("schedulingGates") or () if gate.get("name") != labels.POD_GATE]
    spec["schedulingGates"] = [{"name": labels.POD_GATE}, *gates]
    spec["hostname"] = names.pod_hostname(podclique.name, index)
    spec["subdomain"] = service
    spec["schedulerName"] = spec.get("schedulerName") or labels.DEFAULT_SCHEDULER
    metadata: dict[str, Any] = {
        "name": name,
        "namespace": podclique.namespace,
        "labels": tags,
        "ownerReferences": owner_reference(labels.API_VERSION, "PodClique", podclique.name, podclique.uid),
    }
    annotations = {k: v for k, v in podclique.annotations.items() if k not in _NOT_FOR_PODS}
    if annotations:
        metadata["annotations"] = annotations
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    if hold is not None:
        hold.apply(pod)
    return pod


_NOT_FOR_PODS = frozenset(
    {labels.TEMPLATE_REPLICAS, labels.ADOPTED_TEMPLATE_HASH, "kubectl.kubernetes.io/last-applied-configuration"}
)


def _pod_env(podclique: PodClique, set_name: str, set_replica: str, service: str) -> list[dict[str, Any]]:
    index = {"fieldRef": {"fieldPath": f"metadata.labels['{labels.POD_INDEX}']"}}
    return [
        {"name": Env.PCS_NAME.value, "value": set_name},
        {"name": Env.PCS_INDEX.value, "value": set_replica},
        {"name": Env.PCLQ_NAME.value, "value": podclique.name},
        {"name": Env.HEADLESS_SERVICE.value, "value": f"{service}.{podclique.namespace}.svc.cluster.local"},
        {"name": Env.PCLQ_POD_INDEX.value, "valueFrom": index},
    ]


def _slots(active: Sequence[PodView]) -> tuple[dict[int, PodView], list[PodView]]:
    """Active pods by index; the younger of two at the same index, and pods without one, are surplus."""
    slots: dict[int, PodView] = {}
    surplus: list[PodView] = []
    for pod in sorted(active, key=lambda pod: (pod.created, pod.name)):
        if pod.index < 0 or pod.index in slots:
            surplus.append(pod)
        else:
            slots[pod.index] = pod
    return slots, surplus


def _lowest_free(slots: Mapping[int, PodView], number: int) -> Iterator[int]:
    return islice((index for index in count() if index not in slots), max(number, 0))


def _latest(uid: str, index: int, before: Sequence[PodView]) -> str:
    """uid of the last pod of a slot's chain: the one whose successor's name nobody bears."""
    suffixes = {pod.name.rpartition("-")[2] for pod in before}
    ends = [pod for pod in before if pod_name("", uid, index, pod.uid, {}).removeprefix("-") not in suffixes]
    last = max(ends or before, key=lambda pod: (pod.created, pod.name), default=None)
    return last.uid if last else ""


def _refill_wait(pod: PodView, now: float) -> float:
    """Seconds until the slot of a pod that ended may be filled again."""
    if not pod.finished or pod.deleting:
        return 0.0
    wait = pod.created + REFILL_SPACING - now
    return wait if wait <= 2 * REFILL_SPACING else 0.0  # created long after now: one of the clocks is wrong


def _relabel(pod: PodView, podclique: PodClique) -> Patch | None:
    """Give a pod the labels it lacks: its gang, which could not be complete without, and our hash for a foreign one."""
    wanted = {
        labels.PODGANG: (pod.gang, podclique.labels.get(labels.PODGANG, "")),
        labels.POD_TEMPLATE_HASH: (pod.template_hash, translated(podclique, pod.template_hash)),
    }
    changes = {label: want for label, (have, want) in wanted.items() if have != want}
    body = {"metadata": {"labels": changes}}
    return Patch(POD, pod.namespace, pod.name, body, uid=pod.uid) if changes else None


def _delete(pod: PodView, reason: str) -> Delete:
    return Delete(POD, pod.namespace, pod.name, pod.uid, reason)
