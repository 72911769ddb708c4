"""What KAI and Volcano have in common: one PodGroup per PodGang, and pods that name it in an annotation."""

from collections.abc import Callable, Iterator, Mapping

from grove.api.labels import ConditionType, Reason
from grove.api.podgang import PodGang
from grove.plan.conditions import Want
from grove.plan.diff import covers, replacement
from grove.plan.kinds import POD
from grove.plan.update import patch_for
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Patch, Write
from grove.schedulers.backend import GangView, Object

Membership = Mapping[str, Mapping[str, str]]
"""What a pod carries to belong to its PodGroup: `annotations` and `labels`."""

_OPTIONAL = ("priorityClassName", "preemptibility")
"""Fields of a PodGroup's spec that go when they are wanted no more."""


def minimum(podgang: PodGang) -> int:
    """How many pods of a gang must be placed together; 0 while its constraints are released."""
    return sum(group.min_replicas for group in podgang.spec.podgroups)


def podgroup_writes(resource: ResourceType, live: Object | None, desired: Object) -> list[Write]:
    """Create the PodGroup, or patch what differs. Fields and metadata that others added stay."""
    if live is None:
        return [Create(resource, desired)]
    if live["metadata"].get("deletionTimestamp"):
        return []
    have, want = live.get("spec") or {}, desired["spec"]
    changes = {
        key: replacement(have.get(key), value) for key, value in want.items() if not covers(have.get(key), value)
    }
    if want:
        changes |= {key: None for key in _OPTIONAL if key in have and key not in want}
    return patch_for(resource, live, desired, changes)


def joined(pod: Object, membership: Membership) -> Object:
    """The pod with its membership in its metadata."""
    for key, values in membership.items():
        pod["metadata"][key] = {**(pod["metadata"].get(key) or {}), **values}
    return pod


def joins(gang: GangView, podgroup: str, membership: Callable[[str, str], Membership]) -> Iterator[Write]:
    """Patches for pods that name another PodGroup or none: they were made before the scheduler took ours.

    `membership` takes the names of PodGroup and PodClique.
    """
    for group in gang.state.groups:
        for pod in group.pods:
            if pod.pod_group != podgroup:
                body = {"metadata": dict(membership(podgroup, group.member.podclique))}
                yield Patch(POD, pod.namespace, pod.name, body, uid=pod.uid)


def guarantee(trouble: str) -> Want:
    """The condition that says whether a gang is placed together or not at all; `trouble` is why it has no PodGroup."""
    if trouble:
        return Want(ConditionType.GANG_GUARANTEED, False, Reason.NO_GANG_SCHEDULING, f"there is no PodGroup: {trouble}")
    text = "the minimum of all groups is placed together or not at all"
    return Want(ConditionType.GANG_GUARANTEED, True, Reason.POD_GROUP, text)


def pod_names(gang: GangView) -> frozenset[str]:
    """Names of a gang's pods."""
    return frozenset(pod.name for group in gang.state.groups for pod in group.pods)
