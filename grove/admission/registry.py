"""All rules: which fields each is about, and when it is asked. The one list that everything reads.

The validation runs it, and `docs/admission.md` is written from it: what a rule's docstring says is what users read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding
from grove.admission.rules import (
    binding,
    counts,
    metadata,
    mnnvl,
    names,
    pods,
    rollout,
    schedulers,
    sharing,
    startup,
    template,
    topology,
    updates,
)
from grove.admission.rules.shape import unknown_fields
from grove.api.labels import KAI_QUEUE, MNNVL_GROUP, VOLCANO_QUEUE
from grove.api.podcliqueset import PodCliqueSet


class When(StrEnum):
    """When a rule is asked."""

    ALWAYS = "always"
    CREATE = "on creation"
    UPDATE = "on update"


_SOURCE: Final = re.compile(r" \((?:api rules? |API doc )[^)]*\)")
"""Where a rule comes from: for those who maintain it."""

Check = Callable[[Field, Field | None, Facts], Iterable[Finding]]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule about an object."""

    check: Check
    fields: tuple[str, ...]
    """the fields it is about, as they stand in its errors; `[*]` for any entry"""
    about: Callable[..., Any]
    """the function whose docstring says what must hold"""
    when: When = When.ALWAYS

    def __call__(self, new: Field, old: Field | None, facts: Facts) -> Iterable[Finding]:
        """What the rule finds in `new`; `old` is what it was before an update, None for a new object."""
        if self.when is not When.ALWAYS and (self.when is When.CREATE) != (old is None):
            return ()
        return self.check(new, old, facts)

    @property
    def text(self) -> str:
        """What must hold, in one paragraph."""
        return _SOURCE.sub("", " ".join((self.about.__doc__ or "").split()))


def _rule(check: Callable[[Field], Iterator[Finding]], *fields: str, when: When = When.ALWAYS) -> Rule:
    return Rule(lambda new, old, facts: check(new), fields, check, when)


def _with_facts(check: Callable[[Field, Facts], Iterator[Finding]], *fields: str, when: When = When.ALWAYS) -> Rule:
    return Rule(lambda new, old, facts: check(new, facts), fields, check, when)


def _on_update(check: Callable[[Field, Field], Iterator[Finding]], *fields: str) -> Rule:
    return Rule(lambda new, old, facts: check(new, old or new), fields, check, When.UPDATE)


def _on_update_with_facts(check: Callable[[Field, Field, Facts], Iterator[Finding]], *fields: str) -> Rule:
    return Rule(lambda new, old, facts: check(new, old or new, facts), fields, check, When.UPDATE)


def _for(names: tuple[str, ...], check: Callable[[Field, Facts], Iterator[Finding]], *fields: str) -> Rule:
    """A rule for sets of some schedulers only."""
    return Rule(
        lambda new, old, facts: check(new, facts) if schedulers.scheduler_of(new, facts) in names else (), fields, check
    )


_SET: Final = "spec.template"
_CLIQUE: Final = f"{_SET}.cliques[*]"
_GROUP: Final = f"{_SET}.podCliqueScalingGroups[*]"
_POD: Final = f"{_CLIQUE}.spec.podSpec"
_METADATA: Final = ("labels", "annotations")
_LABELLED: Final = (
    *(f"{owner}.{kind}" for owner in ("metadata", _CLIQUE) for kind in _METADATA),
    f"{_GROUP}.annotations",
)
_CONSTRAINTS: Final = tuple(f"{owner}.topologyConstraint" for owner in (_SET, _CLIQUE, _GROUP))
_SHARING_LISTS: Final = tuple(f"{owner}.resourceSharing" for owner in (_SET, _CLIQUE, _GROUP))
_SHARING: Final = tuple(f"{path}[*]" for path in _SHARING_LISTS)
_MNNVL: Final = tuple(f"{owner}.annotations[{MNNVL_GROUP}]" for owner in ("metadata", _CLIQUE, _GROUP))
_KAI: Final = tuple(
    f"{owner}.{kind}[{KAI_QUEUE}]" for owner in ("metadata", _CLIQUE) for kind in ("labels", "annotations")
)
_VOLCANO: Final = tuple(f"{owner}.annotations[{VOLCANO_QUEUE}]" for owner in ("metadata", _CLIQUE))
_KEPT_OF_CLIQUES: Final = (
    f"{_CLIQUE}.spec.roleName",
    f"{_CLIQUE}.spec.minAvailable",
    f"{_CLIQUE}.spec.startsAfter",
    f"{_CLIQUE}.resourceSharing",
    f"{_POD}.schedulerName",
)

PODCLIQUESET_RULES: Final[tuple[Rule, ...]] = (
    Rule(lambda new, old, facts: unknown_fields(new, PodCliqueSet), (), unknown_fields),
    _rule(names.set_name, "metadata.name", "metadata.generateName", "metadata.namespace"),
    _rule(metadata.labels_and_annotations, *_LABELLED),
    _rule(counts.set_replicas, "spec.replicas"),
    _rule(template.has_cliques, f"{_SET}.cliques"),
    _rule(template.list_sizes, f"{_SET}.cliques", f"{_SET}.podCliqueScalingGroups", *_SHARING_LISTS),
    _rule(template.termination_delay, f"{_SET}.terminationDelay"),
    _rule(names.own_names, f"{_CLIQUE}.name", f"{_GROUP}.name"),
    _rule(names.unique_names, f"{_CLIQUE}.name", f"{_CLIQUE}.spec.roleName", f"{_GROUP}.name"),
    _rule(names.name_lengths, "metadata.name", f"{_CLIQUE}.name"),
    _rule(names.distinct_children, f"{_CLIQUE}.name", f"{_GROUP}.name"),
    _rule(counts.clique_counts, f"{_CLIQUE}.spec"),
    _rule(counts.scaling_group_counts, _GROUP),
    _rule(template.group_members, f"{_GROUP}.cliqueNames"),
    _rule(template.group_members_scale_as_one, f"{_CLIQUE}.spec.autoScalingConfig"),
    _rule(rollout.rolling_updates, f"{_CLIQUE}.rollingUpdate", f"{_GROUP}.rollingUpdate"),
    _rule(startup.starts_after, f"{_CLIQUE}.spec.startsAfter"),
    _rule(startup.reserved_name, f"{_POD}.containers[*].name", f"{_POD}.initContainers[*].name"),
    _rule(pods.pod_shape, f"{_POD}.containers", f"{_POD}.initContainers", f"{_POD}.schedulingGates"),
    _rule(pods.environment, f"{_POD}.containers[*].env", f"{_POD}.initContainers[*].env"),
    _rule(pods.restart_policy, f"{_POD}.restartPolicy"),
    _rule(pods.names_are_given, f"{_POD}.hostname", f"{_POD}.subdomain"),
    _rule(pods.placed_by_scheduler, f"{_POD}.nodeName", f"{_POD}.topologySpreadConstraints", when=When.CREATE),
    _with_facts(pods.one_scheduler, f"{_POD}.schedulerName"),
    _with_facts(schedulers.enabled, f"{_POD}.schedulerName"),
    _for((schedulers.KAI,), schedulers.kai_queue, *_KAI),
    _for((schedulers.VOLCANO,), schedulers.volcano_queue, *_VOLCANO),
    _for((schedulers.VOLCANO, schedulers.LPX), schedulers.no_constraints, *_CONSTRAINTS),
    _rule(topology.constraint_shape, *_CONSTRAINTS),
    _rule(topology.no_pack_domain, *(f"{path}.packDomain" for path in _CONSTRAINTS), when=When.CREATE),
    _on_update(topology.pack_domain_is_old, *(f"{path}.packDomain" for path in _CONSTRAINTS)),
    _with_facts(topology.new_constraints, *_CONSTRAINTS, when=When.CREATE),
    _on_update_with_facts(topology.constraints_are_kept, *_CONSTRAINTS),
    _with_facts(mnnvl.group_name, *_MNNVL, when=When.CREATE),
    _on_update(mnnvl.group_is_kept, *_MNNVL),
    _rule(sharing.claim_templates, f"{_SET}.resourceClaimTemplates[*]"),
    _rule(sharing.sharing, *_SHARING),
    _rule(sharing.sharing_filters, f"{_SET}.resourceSharing[*].filter", f"{_GROUP}.resourceSharing[*].filter"),
    _rule(sharing.claim_names, *(f"{path}.name" for path in _SHARING)),
    _on_update(updates.same_cliques, f"{_SET}.cliques"),
    _on_update(updates.same_groups, f"{_SET}.podCliqueScalingGroups"),
    _on_update(updates.clique_order, f"{_SET}.cliques"),
    _on_update(updates.startup_type, f"{_SET}.cliqueStartupType"),
    _on_update_with_facts(updates.clique_fields, *_KEPT_OF_CLIQUES),
    _on_update(updates.group_fields, f"{_GROUP}.cliqueNames", f"{_GROUP}.minAvailable", f"{_GROUP}.resourceSharing"),
    _on_update(updates.claims, f"{_SET}.resourceClaimTemplates", f"{_SET}.resourceSharing"),
)

BINDING_RULES: Final[tuple[Rule, ...]] = (
    _rule(binding.levels, "spec.levels[*].domain", "spec.levels[*].key"),
    _with_facts(binding.kai_levels, "spec.levels"),
    _with_facts(binding.schedulers, "spec.schedulerTopologyBindings[*].schedulerName"),
)
