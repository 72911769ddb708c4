"""Volcano, `volcano`: for every PodGang a PodGroup of Volcano's, with a sub-group policy per PodClique."""

from collections.abc import Iterator
from typing import Final

from grove.admission.facts import UNKNOWN, Facts
from grove.admission.fields import Field, Finding, cliques
from grove.admission.rules import schedulers as rules
from grove.api import labels
from grove.api.labels import EventReason
from grove.api.podgang import PodGang
from grove.plan.placement import Placement
from grove.plan.template import mirrored
from grove.runtime.resources import ResourceType
from grove.schedulers import crds
from grove.schedulers.backend import Backend, Cluster, Decision, GangView, Object, Slot, Watch
from grove.schedulers.objects import gang_metadata
from grove.schedulers.podgroups import Membership, guarantee, joined, joins, minimum, pod_names, podgroup_writes

PODGROUP: Final = ResourceType("scheduling.volcano.sh", "v1beta1", "podgroups", "PodGroup")
QUEUE: Final = ResourceType("scheduling.volcano.sh", "v1beta1", "queues", "Queue", namespaced=False)

_PLACED: Final = "Scheduled"


def _state(queue: Object) -> Object:
    return {"metadata": queue["metadata"], "state": (queue.get("status") or {}).get("state") or ""}


class Volcano(Backend):
    """One PodGroup per PodGang, of its name; pods join it by annotation and their policy by their PodClique's label."""

    watches = (
        crds.watch(PODGROUP),
        Watch(PODGROUP, label_selector=labels.PODGANG),
        Watch(QUEUE, view=_state),
    )

    def missing(self, cluster: Cluster) -> str:
        lacking = crds.lacking(cluster, PODGROUP)
        if not lacking and not crds.declares(cluster, PODGROUP, "spec.subGroupPolicy"):
            lacking = "its PodGroups have no spec.subGroupPolicy, which came with version 1.14"
        return f"Volcano cannot be used: {lacking}" if lacking else ""

    def to_blame(self, cluster: Cluster) -> tuple[ResourceType, Object, str] | None:
        """The CustomResourceDefinition, where there is one."""
        crd = cluster.get(crds.CRD, "", PODGROUP.label)
        return (crds.CRD, crd, EventReason.VOLCANO_CAPABILITY_UNAVAILABLE) if crd is not None else None

    def validate(self, root: Field, cluster: Cluster) -> Iterator[Finding]:
        """A set has one queue, which exists and is open."""
        yield from rules.volcano_queue(root, _facts(root, cluster))

    def prepare_pod(self, pod: Object, slot: Slot) -> Object:
        return joined(pod, membership(pod["metadata"]["labels"][labels.PODGANG]))

    def decide(self, gang: GangView) -> Decision:
        podgang = gang.podgang
        if podgang is None:
            return Decision()
        live = gang.cluster.get(PODGROUP, podgang.namespace, podgang.name)
        if _trouble(gang):
            return Decision(hold=pod_names(gang) if live is None else frozenset())
        writes = podgroup_writes(PODGROUP, live, podgroup(gang, podgang, live))
        return Decision((*writes, *joins(gang, podgang.name, lambda name, _: membership(name))))

    def placement(self, gang: GangView) -> Placement:
        if gang.podgang is None:
            return Placement(conditions=(guarantee(""),))
        live = gang.cluster.get(PODGROUP, gang.podgang.namespace, gang.podgang.name)
        reason = "" if gang.state.scheduled else _trouble(gang, gang.cluster) or _unschedulable(live or {})
        return Placement(reason=reason, conditions=(guarantee(_trouble(gang) if live is None else ""),))


def membership(podgroup: str) -> Membership:
    """What a pod carries so that Volcano counts it to a PodGroup, and makes none for it."""
    return {"annotations": {labels.VOLCANO_GROUP_NAME: podgroup, labels.KUBERNETES_GROUP_NAME: podgroup}}


def podgroup(gang: GangView, podgang: PodGang, live: Object | None) -> Object:
    """The PodGroup of a PodGang. A live one keeps its minimums while those of the PodGang are released."""
    metadata = gang_metadata(gang, podgang.name, podgang)
    own = {labels.SCHEDULER_NAME: gang.template.scheduler_name}
    metadata["labels"] = mirrored(gang.template.pcs.labels) | own | metadata["labels"]
    spec: Object = {"queue": _queue(Field(gang.template.pcs.wire))}
    if podgang.spec.priority_class_name:
        spec["priorityClassName"] = podgang.spec.priority_class_name
    if live is None or minimum(podgang):
        spec |= {
            "minMember": max(minimum(podgang), 1),
            "subGroupPolicy": [_policy(group.name, group.min_replicas) for group in podgang.spec.podgroups],
        }
    return {"apiVersion": PODGROUP.api_version, "kind": PODGROUP.kind, "metadata": metadata, "spec": spec}


def _policy(podclique: str, needed: int) -> Object:
    """All pods of the PodClique are one sub-group, of which `needed` are placed with the gang."""
    return {
        "name": podclique,
        "labelSelector": {"matchLabels": {labels.PODCLIQUE: podclique}},
        "matchLabelKeys": [labels.PODCLIQUE],
        "subGroupSize": max(needed, 1),
        "minSubGroups": min(needed, 1),
    }


def _queue(root: Field) -> str:
    """The queue of a set (wire form): an annotation of its own or of all its cliques, of which the first is read."""
    places = [owner["annotations"][labels.VOLCANO_QUEUE].text or "" for owner in (root["metadata"], *cliques(root)[:1])]
    return next((text.strip() for text in places if text.strip()), labels.VOLCANO_DEFAULT_QUEUE)


def _facts(root: Field, cluster: Cluster) -> Facts:
    """The state of a set's queue; nothing where nothing is known of queues."""
    if not cluster.serves(QUEUE):
        return UNKNOWN
    found = cluster.get(QUEUE, "", _queue(root))
    return Facts(volcano_queues={_queue(root): found["state"]} if found is not None else {})


def _trouble(gang: GangView, cluster: Cluster | None = None) -> str:
    """What is wrong with a set's queue, as far as the set tells or (with `cluster`) the Queue; "" when nothing is."""
    root = Field(gang.template.pcs.wire)
    facts = UNKNOWN if cluster is None else _facts(root, cluster)
    return next((str(finding) for finding in rules.volcano_queue(root, facts)), "")


def _unschedulable(podgroup: Object) -> str:
    """What Volcano says why a PodGroup is not placed."""
    conditions: list[Object] = (podgroup.get("status") or {}).get("conditions") or []
    said = [
        condition.get("message") or condition.get("reason") or ""
        for condition in conditions
        if condition.get("type") != _PLACED and condition.get("status") == "True"
    ]
    return "; ".join(dict.fromkeys(text.rstrip(". ") for text in said if text))
