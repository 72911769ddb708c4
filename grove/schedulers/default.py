"""Kubernetes' own scheduler, `default-scheduler`: gangs of Kubernetes 1.37 where they are served, else none.

| served | a gang is | promise |
|---|---|---|
| PodGroups, CompositePodGroups | a CompositePodGroup over a PodGroup per clique | every clique's minimum, or none |
| PodGroups | one PodGroup | as many pods as the minimums are together, of just those pods, or none |
| neither | nothing | none: pods are placed one by one |

Levels of the topology that are required are kept to in the first of them, and are a wish in the others.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from grove.admission.fields import Field, Finding, cliques, constraints, group_of
from grove.api.labels import ConditionType, Reason
from grove.plan.conditions import Want
from grove.plan.placement import Placement
from grove.plan.podclique import clique_of
from grove.plan.template import Template
from grove.runtime.writes import Delete
from grove.schedulers.affinity import Required, drawn_together
from grove.schedulers.backend import Backend, Cluster, Decision, GangView, Object, Slot, Watch
from grove.schedulers.native import (
    COMPOSITE,
    PODGROUP,
    Naming,
    Tier,
    minimum,
    plan_objects,
    tier_of,
)
from grove.schedulers.podgroups import pod_names
from grove.schedulers.waiting import Hold, hold

OTHERS_SECONDS: Final = 120.0
"""How long surplus pods and scaled gangs wait for other gangs of their set that cannot be placed."""

HUGE: Final = 1000
"""Pods in groups of one gang beyond which admission warns: the scheduler needs 13 s of CPU for so many, three times as
much for twice as many, and places no other pod meanwhile (measured, see docs/schedulers.md)."""

_WISH: Final = "what is required is only a wish here"
_NO_COMPOSITES: Final = "as gangs have no CompositePodGroups"
_NO_GROUPS: Final = "the cluster serves no PodGroups of scheduling.k8s.io/v1beta1"


class DefaultScheduler(Backend):
    """Kubernetes' own scheduler. `config` has `gangScheduling` (true): whether to use its gangs where there are any."""

    watches = (Watch(PODGROUP), Watch(COMPOSITE))

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        super().__init__(name, config)
        self._enabled = config.get("gangScheduling", True)
        if not isinstance(self._enabled, bool):
            raise ValueError(f"gangScheduling: Invalid value: {self._enabled!r}: must be true or false")

    def ignores_topology(self, template: Template, cluster: Cluster) -> str:
        naming, problem = self._naming(template, cluster)
        if naming is None:
            return f"{_WISH}, as {problem}"
        return "" if naming.tier is Tier.COMPOSITE else f"{_WISH}, {_NO_COMPOSITES}"

    def validate(self, root: Field, cluster: Cluster) -> Iterator[Finding]:
        """Warn of what is not kept to, and of a gang so large that other pods wait long for it."""
        if self._offered(cluster) is not Tier.COMPOSITE:
            required = (constraint["pack"]["required"] for constraint in constraints(root))
            yield from (field.warning(f"{_WISH}, {_NO_COMPOSITES}") for field in required if field.given)
        if self._offered(cluster) is Tier.NONE:
            return
        for clique in cliques(root):
            pod = clique["spec"]["podSpec"]
            for field in (pod["schedulingGroup"], pod["evictionResponders"]):
                if field.given:
                    yield field.warning("with this field the pods of the set are placed one by one, not as a gang")
        if (size := _base_gang(root)) > HUGE:
            yield root["spec"]["template"]["cliques"].warning(
                f"{size} pods are placed together, and meanwhile Kubernetes' scheduler places no other pod, which "
                f"takes long with more than {HUGE}: lower minAvailable of cliques or scaling groups"
            )

    def prepare_pod(self, pod: Object, slot: Slot) -> Object:
        """Put the first pods of a clique into their group, and give all the group's priority."""
        naming, _ = self._naming(slot.template, slot.cluster)
        clique = clique_of(slot.podclique, slot.template)
        if clique is None:
            return pod
        kept = naming is not None and naming.tier is Tier.COMPOSITE
        beyond = slot.index >= minimum(slot.podclique)
        required = Required.BY_GROUP if kept and not beyond else Required.BY_POD if kept else Required.NOT
        pod = drawn_together(pod, slot.template.group_of.get(clique, ""), clique, slot.topology, required)
        if naming is None:
            return pod
        spec = pod["spec"]
        spec.pop("priorityClassName", None)
        if naming.priority:
            spec["priorityClassName"] = naming.priority
        if slot.index < minimum(slot.podclique):
            spec["schedulingGroup"] = {"podGroupName": naming.group_of(slot.podclique, clique)}
        return pod

    def decide(self, gang: GangView) -> Decision:
        """The gang's groups, and its surplus, which waits.

        While a CompositePodGroup is made anew all gates stay: of a pod that loses its gate just then the scheduler may
        never hear again.
        """
        naming, _ = self._naming(gang.template, gang.cluster)
        if naming is None or not all(group.member.podclique in gang.podcliques for group in gang.state.groups):
            return Decision()
        held, writes = _hold(gang), plan_objects(gang, naming)
        if any(isinstance(write, Delete) and write.resource == COMPOSITE for write in writes):
            return Decision(writes, pod_names(gang), held.again_after)
        return Decision(writes, held.names, held.again_after)

    def placement(self, gang: GangView) -> Placement:
        """Whether there is a guarantee, and what the scheduler says of groups that it cannot place."""
        naming, problem = self._naming(gang.template, gang.cluster)
        if naming is None:
            text = f"pods are placed one by one: {problem}"
            return Placement(conditions=(Want(ConditionType.GANG_GUARANTEED, False, Reason.NO_GANG_SCHEDULING, text),))
        held = _hold(gang).reason if gang.state.complete and not gang.state.released else ""
        return Placement(reason=_refusal(gang), held=held, conditions=(_guarantee(gang, naming),))

    def _offered(self, cluster: Cluster) -> Tier:
        return tier_of(cluster) if self._enabled else Tier.NONE

    def _naming(self, template: Template, cluster: Cluster) -> tuple[Naming | None, str]:
        """How the groups of a set are called; None and why where it can have none."""
        tier = self._offered(cluster)
        if tier is Tier.NONE:
            return None, _NO_GROUPS if self._enabled else "gangScheduling is off in the operator's configuration"
        specs = [clique.spec.pod_spec for clique in template.cliques.values()]
        if any(spec.get(key) is not None for spec in specs for key in ("schedulingGroup", "evictionResponders")):
            return None, "the pods have a schedulingGroup or evictionResponders of their own"
        if len({spec.get("preemptionPolicy") for spec in specs}) > 1:
            return None, "the cliques differ in preemptionPolicy"
        classes = {template.priority_class_name or spec.get("priorityClassName") or "" for spec in specs}
        if len(classes) > 1:
            return None, f"the cliques differ in priority ({', '.join(sorted(classes))}), a gang has one"
        return Naming(template, tier, next(iter(classes), "")), ""


def _base_gang(root: Field) -> int:
    """How many pods a base gang has in groups. A scaled gang has no more: it is like a part of the base gang."""
    groups = group_of(root)
    counts = ((clique["spec"]["minAvailable"], groups.get(clique["name"].text or "")) for clique in cliques(root))
    return sum((own.number or 1) * ((group["minAvailable"].number or 1) if group else 1) for own, group in counts)


def _hold(gang: GangView) -> Hold:
    namespace = gang.template.namespace
    return hold(gang, lambda name: gang.cluster.of_gang(PODGROUP, namespace, name), OTHERS_SECONDS)


def _guarantee(gang: GangView, naming: Naming) -> Want:
    """The condition that says whether the minimum of a gang is placed together or not at all."""
    outside = sum(
        pod.index < group.member.min_replicas
        and pod.scheduling_group != naming.group_of(gang.podcliques[group.member.podclique], group.member.clique)
        for group in gang.state.groups
        if group.exists
        for pod in group.pods
    )
    if outside:
        text = f"{outside} pods were made before the gang's present groups; their successors will be in them"
        return Want(ConditionType.GANG_GUARANTEED, False, Reason.PODS_OUTSIDE_GROUPS, text)
    text = "the minimum of all groups is placed together or not at all"
    return Want(ConditionType.GANG_GUARANTEED, True, naming.tier.value, text)


def _refusal(gang: GangView) -> str:
    """The scheduler's words about the first group that it could not place; "" when there is none."""
    if gang.state.scheduled:
        return ""
    for podgroup in sorted(gang.objects_of(PODGROUP), key=lambda obj: str(obj["metadata"]["name"])):
        for condition in (podgroup.get("status") or {}).get("conditions") or ():
            if condition.get("type") == "PodGroupInitiallyScheduled" and condition.get("status") == "False":
                return str(condition.get("message") or condition.get("reason") or "").rstrip(". ")
    return ""
