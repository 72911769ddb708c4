"""KAI, `kai-scheduler`: for every PodGang a PodGroup of KAI's, which says what to place together.

KAI takes PodGroups that others make from version 0.15 on. Older versions make them from the PodGangs by themselves (the
pod grouper), and nothing is to do here; the fields in KAI's CustomResourceDefinition tell which version it is.
"""

from collections.abc import Iterator
from typing import Final

from grove.admission.facts import UNKNOWN
from grove.admission.fields import Field, Finding, cliques
from grove.admission.rules import schedulers as rules
from grove.api import labels
from grove.api.labels import EventReason
from grove.api.podgang import PodGang, PodGangTopologyConstraint
from grove.plan.binding import TopologyKind
from grove.plan.placement import Placement
from grove.plan.template import Template, mirrored
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Delete, Write
from grove.schedulers import crds
from grove.schedulers.backend import Backend, Cluster, Decision, GangView, Object, Slot, Watch
from grove.schedulers.objects import gang_metadata
from grove.schedulers.podgroups import Membership, guarantee, joined, joins, minimum, pod_names, podgroup_writes

PODGROUP: Final = ResourceType("scheduling.run.ai", "v2alpha2", "podgroups", "PodGroup")
QUEUE: Final = ResourceType("scheduling.run.ai", "v2", "queues", "Queue", namespaced=False)
TOPOLOGY: Final = ResourceType("kai.scheduler", "v1alpha1", "topologies", "Topology", namespaced=False)

_NEVER: Final = "-1s"
_PREEMPTIBILITY: Final = ("preemptible", "non-preemptible")


class Kai(Backend):
    """One PodGroup per PodGang, of its name; pods join it by annotation and their sub-group by label."""

    watches = (
        crds.watch(PODGROUP),
        Watch(PODGROUP, label_selector=labels.PODGANG),
        Watch(QUEUE, view=lambda queue: {"metadata": queue["metadata"]}),
    )

    mapping_failed = EventReason.KAI_BACKEND_MAPPING_FAILED

    topologies = TopologyKind(
        TOPOLOGY,
        spec=lambda levels: {"levels": [{"nodeLabel": level} for level in levels]},
        levels=lambda topology: [
            level.get("nodeLabel", "") for level in (topology.get("spec") or {}).get("levels") or ()
        ],
    )

    def ignores_topology(self, template: Template, cluster: Cluster) -> str:
        return ""

    def missing(self, cluster: Cluster) -> str:
        lacking = crds.lacking(cluster, PODGROUP)
        return f"KAI cannot be used: {lacking}" if lacking else ""

    def validate(self, root: Field, cluster: Cluster) -> Iterator[Finding]:
        """A warning while the queue that the set names does not exist: it may come later."""
        queue = _named(root, labels.KAI_QUEUE)
        if queue.text and not grouped_by_kai(cluster) and not _exists(cluster, queue.text):
            yield queue.warning(f'KAI has no Queue "{queue.text}": pods wait until it has')

    def prepare_pod(self, pod: Object, slot: Slot) -> Object:
        if grouped_by_kai(slot.cluster):
            return pod
        return joined(pod, membership(pod["metadata"]["labels"][labels.PODGANG], slot.podclique.name))

    def decide(self, gang: GangView) -> Decision:
        podgang = gang.podgang
        if podgang is None:
            return Decision()
        live = gang.cluster.get(PODGROUP, podgang.namespace, podgang.name)
        if grouped_by_kai(gang.cluster):
            return Decision(tuple(_removal(live, podgang)))
        if _trouble(gang, podgang):
            return Decision(hold=pod_names(gang) if live is None else frozenset())
        desired = podgroup(gang, podgang, live)
        writes = podgroup_writes(PODGROUP, live, desired) if desired is not None else []
        return Decision((*writes, *joins(gang, podgang.name, membership)))

    def placement(self, gang: GangView) -> Placement:
        if gang.podgang is None or grouped_by_kai(gang.cluster):
            return Placement(conditions=(guarantee(""),))
        live = gang.cluster.get(PODGROUP, gang.podgang.namespace, gang.podgang.name)
        trouble = _trouble(gang, gang.podgang)
        reason = "" if gang.state.scheduled else trouble or _no_queue(gang, live or {}) or _unschedulable(live or {})
        return Placement(reason=reason, conditions=(guarantee(trouble if live is None else ""),))


def grouped_by_kai(cluster: Cluster) -> bool:
    """Whether this KAI is older than 0.15: known by its PodGroups, whose sub-groups cannot count sub-groups."""
    known = cluster.get(crds.CRD, "", PODGROUP.label) is not None
    return known and not crds.declares(cluster, PODGROUP, "spec.subGroups.minSubGroup")


def membership(podgroup: str, podclique: str) -> Membership:
    """What a pod of a PodClique carries so that KAI counts it to a PodGroup and its pod grouper keeps off."""
    annotations = {labels.KAI_SKIP_PODGROUPER: "true", labels.KAI_POD_GROUP_NAME: podgroup}
    return {"annotations": annotations, "labels": {labels.KAI_SUBGROUP_NAME: podclique}}


def podgroup(gang: GangView, podgang: PodGang, live: Object | None) -> Object | None:
    """The PodGroup of a PodGang; None when there cannot be one yet: KAI refuses a minimum of no pods.

    A live PodGroup keeps its spec while the minimums are released, and what KAI's controllers may change: the queue,
    unless the set names another than before, and the labels for node pool and queue.
    """
    needed = minimum(podgang)
    if not needed and live is None:
        return None
    queue = _named(Field(gang.template.pcs.wire), labels.KAI_QUEUE).text or ""
    metadata = gang_metadata(gang, podgang.name, podgang)
    metadata["labels"] = _labels(gang, live) | metadata["labels"]
    metadata["annotations"] = mirrored(gang.template.pcs.annotations) | {labels.TEMPLATE_QUEUE: queue}
    spec: Object = _spec(gang, podgang, _kept_queue(live, queue) or queue) if needed else {}
    return {"apiVersion": PODGROUP.api_version, "kind": PODGROUP.kind, "metadata": metadata, "spec": spec}


def _labels(gang: GangView, live: Object | None) -> dict[str, str]:
    pool = _named(Field(gang.template.pcs.wire), labels.KAI_NODE_POOL).text
    tags = mirrored(gang.template.pcs.labels) | {labels.SCHEDULER_NAME: gang.template.scheduler_name}
    kept = (live["metadata"].get("labels") or {}) if live is not None else {}
    kept = {key: kept[key] for key in (labels.KAI_NODE_POOL, labels.KAI_QUEUE) if key in kept}
    return tags | ({labels.KAI_NODE_POOL: pool} if pool else {}) | kept


def _named(root: Field, key: str) -> Field:
    """What a set (wire form) names under a key, by label or else annotation, itself or the first clique that does."""
    places = [owner[kind][key] for owner in (root["metadata"], *cliques(root)) for kind in ("labels", "annotations")]
    return next((place for place in places if place.text), places[0])


def _spec(gang: GangView, podgang: PodGang, queue: str) -> Object:
    topology = _topology(gang, podgang)
    configs = [config for config in podgang.spec.topology_constraint_group_configs if config.pod_group_names]
    leaves = {group.name for group in podgang.spec.podgroups}
    # A clique may be called like the replica of a scaling group beside it, `engine-0`; sub-groups may not.
    titles = {config.name: f"{config.name}-group" if config.name in leaves else config.name for config in configs}
    parents = {name: titles[config.name] for config in configs for name in config.pod_group_names}
    subgroups: list[Object] = [
        {"name": titles[config.name], "minSubGroup": len(config.pod_group_names)}
        | _constraint(config.topology_constraint, topology)
        for config in configs
    ]
    for group in podgang.spec.podgroups:
        leaf: Object = {"name": group.name, "minMember": group.min_replicas}
        if group.name in parents:
            leaf["parent"] = parents[group.name]
        subgroups.append(leaf | _constraint(group.topology_constraint, topology))
    spec: Object = {"minMember": minimum(podgang), "queue": queue, "subGroups": subgroups, "topologyConstraint": {}}
    spec |= _constraint(podgang.spec.topology_constraint, topology)
    if podgang.spec.priority_class_name:
        spec["priorityClassName"] = podgang.spec.priority_class_name
    if (preemptibility := gang.template.pcs.labels.get(labels.KAI_PREEMPTIBILITY)) in _PREEMPTIBILITY:
        spec["preemptibility"] = preemptibility
    if crds.declares(gang.cluster, PODGROUP, "spec.stalenessGracePeriod"):
        spec["stalenessGracePeriod"] = _NEVER
    return spec


def _constraint(constraint: PodGangTopologyConstraint | None, topology: str) -> Object:
    """`{"topologyConstraint": …}` of a PodGroup or sub-group, {} when there is none."""
    pack = constraint.pack_constraint if constraint is not None else None
    if pack is None or not (pack.required or pack.preferred):
        return {}
    levels = {"requiredTopologyLevel": pack.required, "preferredTopologyLevel": pack.preferred}
    return {"topologyConstraint": {"topology": topology} | {key: value for key, value in levels.items() if value}}


def _topology(gang: GangView, podgang: PodGang) -> str:
    """The Topology of KAI's that has the gang's levels: the one that the binding names, else that of its name."""
    known = podgang.annotations.get(labels.TOPOLOGY_NAME) or podgang.annotations.get(labels.KAI_TOPOLOGY) or ""
    return gang.topology.references.get(gang.template.scheduler_name, known)


def _kept_queue(live: Object | None, queue: str) -> str:
    """The live queue while the set names the queue it was made with; "" when the set's counts."""
    if live is None:
        return ""
    made_with = (live["metadata"].get("annotations") or {}).get(labels.TEMPLATE_QUEUE, queue)
    return str((live.get("spec") or {}).get("queue") or "") if made_with == queue else ""


def _trouble(gang: GangView, podgang: PodGang) -> str:
    """Why there can be no PodGroup, in one sentence; "" when there can."""
    for finding in rules.kai_queue(Field(gang.template.pcs.wire), UNKNOWN):
        return str(finding)
    constraints = [
        podgang.spec.topology_constraint,
        *(config.topology_constraint for config in podgang.spec.topology_constraint_group_configs),
        *(group.topology_constraint for group in podgang.spec.podgroups),
    ]
    if not _topology(gang, podgang) and any(_constraint(constraint, "") for constraint in constraints):
        return f"the gang has topology constraints, but no topology is named in its annotation {labels.TOPOLOGY_NAME}"
    return ""


def _no_queue(gang: GangView, podgroup: Object) -> str:
    """Says that the queue does not exist; "" when it does."""
    named = _named(Field(gang.template.pcs.wire), labels.KAI_QUEUE).text
    queue = (podgroup.get("spec") or {}).get("queue") or named or ""
    return "" if _exists(gang.cluster, queue) else f'KAI has no Queue "{queue}"'


def _exists(cluster: Cluster, queue: str) -> bool:
    """Whether there is such a queue, as far as is known."""
    return not cluster.serves(QUEUE) or cluster.get(QUEUE, "", queue) is not None


def _unschedulable(podgroup: Object) -> str:
    """What KAI says why a PodGroup is not placed."""
    conditions: list[Object] = (podgroup.get("status") or {}).get("schedulingConditions") or []
    said: dict[str, None] = {}
    for condition in conditions:
        if condition.get("status") == "True":
            reasons = [reason.get("message") for reason in condition.get("reasons") or ()]
            said.update(dict.fromkeys(text.rstrip(". ") for text in reasons or [condition.get("message")] if text))
    return "; ".join(said)


def _removal(live: Object | None, podgang: PodGang) -> Iterator[Write]:
    """Remove the PodGroup that we made for a newer KAI: the pod grouper makes its own."""
    metadata: Object = live["metadata"] if live is not None else {}
    owned = any(owner.get("uid") == podgang.uid for owner in metadata.get("ownerReferences") or ())
    if owned and not metadata.get("deletionTimestamp"):
        reason = "this version of KAI makes PodGroups by itself"
        yield Delete(PODGROUP, metadata["namespace"], metadata["name"], metadata["uid"], reason)
