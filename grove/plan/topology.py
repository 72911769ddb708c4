"""What a set's topology constraints mean on its cluster: levels such as rack become keys of node labels.

The levels are those of a ClusterTopologyBinding. A level that it does not have, any more or yet, packs nothing: pods
run without it rather than not at all, and the set's condition TopologyLevelsUnavailable tells (reference 9.1).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.labels import ConditionType, Reason
from grove.api.topologyconstraint import TopologyConstraint
from grove.plan.conditions import Want
from grove.plan.template import Template

Packed = Mapping[str, Any]
"""A constraint as PodGangs carry it: `{"packConstraint": {"required": <label key>, "preferred": <label key>}}`."""


@dataclass(frozen=True, slots=True)
class Topology:
    """A set's constraints as PodGangs carry them; what means nothing on this cluster is not there."""

    name: str = ""
    """the ClusterTopologyBinding whose levels they are, "" where there are none"""
    whole: Packed | None = None
    """the constraint of the set"""
    groups: Mapping[str, Packed] = field(default_factory=dict)
    """those of scaling groups, by their name in the template"""
    cliques: Mapping[str, Packed] = field(default_factory=dict)
    """those of cliques, by their name in the template"""
    references: Mapping[str, str] = field(default_factory=dict)
    """the topology objects that others keep, by scheduler; those of other schedulers are called like the binding"""

    def of_gang(self, group: str, *, scaled: bool) -> Packed | None:
        """The constraint of a whole gang: the set's; of a scaled gang that of its scaling group where it has one."""
        return self.groups.get(group, self.whole) if scaled else self.whole


NOWHERE = Topology()
"""Pods may be anywhere."""


def binding_name(template: Template) -> str:
    """The ClusterTopologyBinding that a set's constraints speak of: the first that is named; "" where none is."""
    return next((one.topology_name for one in _constraints(template) if one.topology_name), "")


def topology_of(template: Template, binding: ClusterTopologyBinding | None) -> Topology:
    """Translate a set's constraints. `binding` is the object of `binding_name`, None where there is none."""
    if binding is None:
        return NOWHERE
    keys = {level.domain: level.key for level in binding.spec.levels}

    def packed(constraint: TopologyConstraint | None) -> Packed | None:
        asked = {"required": constraint.required, "preferred": constraint.preferred} if constraint else {}
        found = {strength: keys[domain] for strength, domain in asked.items() if domain in keys}
        return {"packConstraint": found} if found else None

    groups = {name: found for name, group in template.groups.items() if (found := packed(group.topology_constraint))}
    cliques = {name: found for name, one in template.cliques.items() if (found := packed(one.topology_constraint))}
    whole = packed(template.pcs.spec.template.topology_constraint)
    if not (whole or groups or cliques):
        return NOWHERE
    references = {one.scheduler_name: one.topology_reference for one in binding.spec.scheduler_topology_bindings}
    return Topology(binding.name, whole, groups, cliques, references)


def levels_condition(
    template: Template, binding: ClusterTopologyBinding | None, *, topology_aware: bool, ignored: str
) -> Want | None:
    """The condition TopologyLevelsUnavailable of a set (API doc 1.7); None where it should have none.

    `topology_aware` is the switch in the operator's configuration; `ignored` tells why the set's scheduler does not
    place by topology, "" where it does.
    """
    domains = _domains(template)
    if not topology_aware:
        text = "topologyAwareScheduling is off in the operator's configuration: pods may be anywhere"
        return _want(template, None, Reason.TOPOLOGY_AWARE_SCHEDULING_DISABLED, text) if domains else None
    if not domains:
        return _want(template, False, Reason.ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE, "the set has no constraints")
    name = binding_name(template)
    if not name:
        text = "no constraint names a ClusterTopologyBinding (topologyName): pods may be anywhere"
        return _want(template, None, Reason.TOPOLOGY_NAME_MISSING, text)
    if binding is None:
        text = f"there is no ClusterTopologyBinding {name}: pods may be anywhere"
        return _want(template, None, Reason.CLUSTER_TOPOLOGY_NOT_FOUND, text)
    levels = {level.domain for level in binding.spec.levels}
    if lacking := [domain for domain in domains if domain not in levels]:
        text = f"ClusterTopologyBinding {name} has no level {', '.join(lacking)}: it is not asked for"
        return _want(template, True, Reason.CLUSTER_TOPOLOGY_LEVELS_UNAVAILABLE, text)
    if ignored:
        return _want(template, True, Reason.SCHEDULER_IGNORES_TOPOLOGY, f"pods may be anywhere: {ignored}")
    text = f"ClusterTopologyBinding {name} has the levels {', '.join(domains)}"
    return _want(template, False, Reason.ALL_CLUSTER_TOPOLOGY_LEVELS_AVAILABLE, text)


def constrained(template: Template) -> bool:
    """Whether a set, or anything in it, has a topology constraint."""
    return next(_constraints(template), None) is not None


def _want(template: Template, status: bool | None, reason: str, message: str) -> Want:
    return Want(ConditionType.TOPOLOGY_LEVELS_UNAVAILABLE, status, reason, message, template.pcs.generation)


def _constraints(template: Template) -> Iterator[TopologyConstraint]:
    """All constraints of a set: its own, then those of its scaling groups, then those of its cliques."""
    groups = (group.topology_constraint for group in template.groups.values())
    cliques = (clique.topology_constraint for clique in template.cliques.values())
    own = template.pcs.spec.template.topology_constraint
    yield from (constraint for constraint in (own, *groups, *cliques) if constraint is not None)


def _domains(template: Template) -> list[str]:
    """The levels that a set asks for, each once, in the order of the template."""
    asked = (level for one in _constraints(template) for level in (one.required, one.preferred) if level)
    return list(dict.fromkeys(asked))
