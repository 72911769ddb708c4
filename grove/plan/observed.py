"""What a pass sees of a pod: the few facts decisions need, small enough to hold many thousands of them."""

from dataclasses import dataclass, field
from sys import intern
from typing import Any, Self

from grove.api import labels, names
from grove.api.times import epoch

POD_STATES = ("gated", "unscheduled", "waiting", "starting", "ready", "ended", "terminating")
"""What people are told of a pod, in metrics and on the command line; `waiting` is for other cliques to start."""


@dataclass(frozen=True, slots=True)
class PodView:
    """One core/v1 Pod, reduced to the fields that plans read."""

    namespace: str
    name: str
    uid: str
    resource_version: int = field(compare=False)
    owner_uid: str
    """uid of the controlling owner, "" when there is none"""
    owners: int
    """how many owner references there are"""
    podclique: str
    """label grove.io/podclique"""
    set_name: str
    """label app.kubernetes.io/part-of"""
    replica_index: str
    """label grove.io/podcliqueset-replica-index"""
    gang: str
    """label grove.io/podgang"""
    template_hash: str
    """label grove.io/pod-template-hash"""
    pod_group: str
    """annotation by which KAI or Volcano knows the pod's PodGroup"""
    group_template_hash: str
    """label grove.io/podcliquescalinggroup-template-hash, "" outside scaling groups"""
    index: int
    """pod index in its PodClique, -1 when neither label nor hostname tells"""
    created: float
    """seconds since the epoch"""
    gates: tuple[str, ...]
    """names of spec.schedulingGates, in order"""
    scheduling_group: str
    """spec.schedulingGroup.podGroupName: the PodGroup of Kubernetes' own gang scheduling"""
    node: str
    phase: str
    deleting: bool
    leaves_at: float
    """seconds since the epoch when its grace period ends (metadata.deletionTimestamp), 0 unless it is being deleted"""
    driven_out: bool
    """condition DisruptionTarget says that a scheduler deletes it to make room for a higher priority"""
    scheduled: bool
    """condition PodScheduled is True"""
    scheduled_since: float
    """seconds since the epoch when it was given its node, 0 while it has none"""
    schedule_gated: bool
    """condition PodScheduled is False with reason SchedulingGated"""
    refusal: str
    """why a scheduler found no node: message of condition PodScheduled; "" while gated, scheduled or not looked at"""
    ready: bool
    """condition Ready is True"""
    ready_since: float
    """seconds since the epoch when it became Ready, 0 while it is not"""
    errored: bool
    """not Ready, and some container or init container last terminated with a non-zero code"""
    started_not_ready: bool
    """not Ready, not errored, and some main container is started but not ready"""
    held: bool
    """Pending, with our init container, and not released: its main containers wait for other cliques"""
    waits_for: str
    """annotation grove.io/startup-waiting-for of a held pod"""

    @property
    def finished(self) -> bool:
        """The pod ran to an end (Failed or Succeeded) and will never run again."""
        return self.phase in ("Failed", "Succeeded")

    @property
    def active(self) -> bool:
        """The pod holds its index: it neither ended nor is it being deleted."""
        return not self.deleting and not self.finished

    @property
    def gated(self) -> bool:
        """Our own scheduling gate is still on the pod."""
        return labels.POD_GATE in self.gates

    @property
    def state(self) -> str:
        """Where the pod is on its way, as one of `POD_STATES`."""
        if self.deleting:
            return "terminating"
        if self.finished:
            return "ended"
        if self.ready:
            return "ready"
        if self.gates:
            return "gated"
        if not self.scheduled:
            return "unscheduled"
        return "waiting" if self.held else "starting"

    @classmethod
    def from_wire(cls, obj: dict[str, Any]) -> Self:
        """Build the view of a Pod as the API server sent it."""
        metadata: dict[str, Any] = obj["metadata"]
        spec: dict[str, Any] = obj.get("spec") or {}
        status: dict[str, Any] = obj.get("status") or {}
        tags: dict[str, str] = metadata.get("labels") or {}
        notes: dict[str, str] = metadata.get("annotations") or {}
        scheduled = schedule_gated = ready = driven_out = False
        ready_since = scheduled_since = 0.0
        refusal = ""
        for condition in status.get("conditions") or ():
            kind, value = condition.get("type"), condition.get("status")
            if kind == "PodScheduled":
                scheduled = value == "True"
                scheduled_since = epoch(condition.get("lastTransitionTime")) if scheduled else 0.0
                schedule_gated = value == "False" and condition.get("reason") == "SchedulingGated"
                refusal = "" if scheduled or schedule_gated else condition.get("message") or ""
            elif kind == "Ready":
                ready = value == "True"
                ready_since = epoch(condition.get("lastTransitionTime")) if ready else 0.0
            elif kind == "DisruptionTarget":
                driven_out = value == "True" and condition.get("reason") == "PreemptionByScheduler"
        errored = not ready and _errored(status)
        held = status.get("phase", "Pending") == "Pending" and _waits(spec, notes)
        return cls(
            namespace=intern(metadata.get("namespace") or ""),
            name=metadata["name"],
            uid=metadata.get("uid") or "",
            resource_version=int(metadata.get("resourceVersion") or 0),
            owner_uid=intern(_controller_uid(metadata)),
            owners=len(metadata.get("ownerReferences") or ()),
            podclique=intern(tags.get(labels.PODCLIQUE) or ""),
            set_name=intern(tags.get(labels.PART_OF) or ""),
            replica_index=intern(tags.get(labels.PODCLIQUESET_REPLICA_INDEX) or ""),
            gang=intern(tags.get(labels.PODGANG) or ""),
            template_hash=intern(tags.get(labels.POD_TEMPLATE_HASH) or ""),
            pod_group=intern(notes.get(labels.KAI_POD_GROUP_NAME) or notes.get(labels.KUBERNETES_GROUP_NAME) or ""),
            group_template_hash=intern(tags.get(labels.SCALING_GROUP_TEMPLATE_HASH) or ""),
            index=_index(tags.get(labels.POD_INDEX), spec.get("hostname")),
            created=epoch(metadata.get("creationTimestamp")),
            gates=tuple(intern(gate["name"]) for gate in spec.get("schedulingGates") or ()),
            scheduling_group=intern((spec.get("schedulingGroup") or {}).get("podGroupName") or ""),
            node=intern(spec.get("nodeName") or ""),
            phase=intern(status.get("phase") or "Pending"),
            deleting=bool(metadata.get("deletionTimestamp")),
            leaves_at=epoch(metadata.get("deletionTimestamp")),
            driven_out=driven_out,
            scheduled=scheduled,
            scheduled_since=scheduled_since,
            schedule_gated=schedule_gated,
            refusal=refusal,
            ready=ready,
            ready_since=ready_since,
            errored=errored,
            started_not_ready=not ready and not errored and _started_not_ready(status),
            held=held,
            waits_for=intern(notes.get(labels.STARTUP_WAITING_FOR) or "") if held else "",
        )


def _controller_uid(metadata: dict[str, Any]) -> str:
    for owner in metadata.get("ownerReferences") or ():
        if owner.get("controller"):
            return owner.get("uid") or ""
    return ""


def _errored(status: dict[str, Any]) -> bool:
    for key in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(key) or ():
            ended = (container.get("lastState") or {}).get("terminated")
            if ended and ended.get("exitCode"):
                return True
    return False


def _waits(spec: dict[str, Any], annotations: dict[str, str]) -> bool:
    """Whether our init container holds the pod. That of the Go operator, known by its arguments, needs no release."""
    if annotations.get(labels.STARTUP) == labels.STARTUP_RELEASED:
        return False
    ours = (c for c in spec.get("initContainers") or () if c.get("name") == labels.INIT_CONTAINER)
    return any(not arguments or not arguments[0].startswith("-") for arguments in (c.get("args") for c in ours))


def _started_not_ready(status: dict[str, Any]) -> bool:
    return any(c.get("started") and not c.get("ready") for c in status.get("containerStatuses") or ())


def _index(label: str | None, hostname: str | None) -> int:
    indices = (names.index_of(text) for text in (label or "", (hostname or "").rpartition("-")[2]))
    return next((index for index in indices if index is not None), -1)
