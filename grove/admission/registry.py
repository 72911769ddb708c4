"""All rules: which fields each is about, and when it is asked. The one list that everything reads.

The validation runs it, and `docs/admission.md` is written from it: what a rule's docstring says is what users read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding
from grove.admission.rules import binding, counts, metadata, names, pods, startup, template
from grove.admission.rules.shape import unknown_fields
from grove.api.podcliqueset import PodCliqueSet


class When(StrEnum):
    """When a rule is asked."""

    ALWAYS = "always"
    CREATE = "on creation"
    UPDATE = "on update"


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
        return " ".join((self.about.__doc__ or "").split())


def _rule(check: Callable[[Field], Iterator[Finding]], *fields: str, when: When = When.ALWAYS) -> Rule:
    return Rule(lambda new, old, facts: check(new), fields, check, when)


def _with_facts(check: Callable[[Field, Facts], Iterator[Finding]], *fields: str, when: When = When.ALWAYS) -> Rule:
    return Rule(lambda new, old, facts: check(new, facts), fields, check, when)


def _on_update(check: Callable[[Field, Field], Iterator[Finding]], *fields: str) -> Rule:
    return Rule(lambda new, old, facts: check(new, old or new), fields, check, When.UPDATE)


_SET: Final = "spec.template"
_CLIQUE: Final = f"{_SET}.cliques[*]"
_GROUP: Final = f"{_SET}.podCliqueScalingGroups[*]"
_POD: Final = f"{_CLIQUE}.spec.podSpec"

PODCLIQUESET_RULES: Final[tuple[Rule, ...]] = (
    Rule(lambda new, old, facts: unknown_fields(new, PodCliqueSet), (), unknown_fields),
    _rule(names.set_name, "metadata.name", "metadata.generateName", "metadata.namespace"),
    _rule(metadata.labels_and_annotations, "metadata.labels", "metadata.annotations"),
    _rule(counts.set_replicas, "spec.replicas"),
    _rule(template.has_cliques, f"{_SET}.cliques"),
    _rule(template.termination_delay, f"{_SET}.terminationDelay"),
    _rule(names.own_names, f"{_CLIQUE}.name", f"{_GROUP}.name"),
    _rule(names.unique_names, f"{_CLIQUE}.name", f"{_CLIQUE}.spec.roleName", f"{_GROUP}.name"),
    _rule(names.name_lengths, "metadata.name", f"{_CLIQUE}.name"),
    _rule(names.distinct_children, f"{_CLIQUE}.name", f"{_GROUP}.name"),
    _rule(counts.clique_counts, f"{_CLIQUE}.spec"),
    _rule(counts.scaling_group_counts, _GROUP),
    _rule(template.group_members, f"{_GROUP}.cliqueNames"),
    _rule(template.group_members_scale_as_one, f"{_CLIQUE}.spec.autoScalingConfig"),
    _rule(startup.starts_after, f"{_CLIQUE}.spec.startsAfter"),
    _rule(pods.pod_shape, f"{_POD}.containers", f"{_POD}.initContainers", f"{_POD}.schedulingGates"),
    _rule(pods.environment, f"{_POD}.containers[*].env", f"{_POD}.initContainers[*].env"),
    _rule(pods.restart_policy, f"{_POD}.restartPolicy"),
    _rule(pods.names_are_given, f"{_POD}.hostname", f"{_POD}.subdomain"),
    _rule(pods.placed_by_scheduler, f"{_POD}.nodeName", f"{_POD}.topologySpreadConstraints", when=When.CREATE),
    _with_facts(pods.one_scheduler, f"{_POD}.schedulerName"),
)

BINDING_RULES: Final[tuple[Rule, ...]] = (
    _rule(binding.levels, "spec.levels[*].domain", "spec.levels[*].key"),
    _with_facts(binding.schedulers, "spec.schedulerTopologyBindings[*].schedulerName"),
)
