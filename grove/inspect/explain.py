"""Why something is pending, not ready or being replaced: the first cause, what shows it, and what to do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from grove.api.base import find_condition
from grove.api.labels import ConditionType
from grove.inspect import held, placed
from grove.inspect.findings import Cause, Finding
from grove.inspect.scope import Scope
from grove.inspect.text import counted, short
from grove.plan.kinds import POD
from grove.plan.podclique import wanted_pods


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer to `why`."""

    kind: str
    namespace: str
    name: str
    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "kind": self.kind,
            "namespace": self.namespace,
            "name": self.name,
            "cause": self.cause.value,
            "message": self.sentence,
            "evidence": list(self.evidence),
            "advice": list(self.advice),
        }

    def lines(self) -> Iterator[str]:
        """For people."""
        yield f"{self.kind} {self.namespace}/{self.name}: {self.sentence}"
        yield from (f"  {line}" for line in self.evidence)
        yield from (f"  to do: {line}" for line in self.advice)


CHECKS: Final[tuple[Callable[[Scope], Finding | None], ...]] = (
    held.deleted,
    held.ended,
    held.unobserved,
    held.refused,
    held.incomplete,
    held.foreign_gates,
    placed.unscheduled,
    placed.surplus,
    placed.unreleased,
    placed.unready,
    placed.updating,
)
"""In the order in which they bite."""

_DEPTH: Final = 5  # a base gang, a chain of cliques that start after one another


def explain(scope: Scope) -> Explanation:
    """Find the first cause, in the order of `CHECKS`, and the cause of what it waits for."""
    finding = _first(scope) or _well(scope)
    evidence, advice, last = [*finding.evidence], finding.advice, finding
    for _ in range(_DEPTH):
        inner = _first(last.because) if last.because is not None else None
        if inner is None or last.because is None:
            break
        evidence += [f"{last.because.name}: {inner.sentence}", *inner.evidence]
        advice, last = inner.advice or advice, inner
    namespace = scope.scene.template.namespace
    return Explanation(
        scope.resource.kind,
        namespace,
        scope.name,
        finding.cause,
        finding.sentence,
        tuple(dict.fromkeys([*evidence, *_recycling(scope)])),
        tuple(line.replace("NAMESPACE", namespace) for line in advice),
    )


def _first(scope: Scope) -> Finding | None:
    return next((found for check in CHECKS if (found := check(scope)) is not None), None)


def _well(scope: Scope) -> Finding:
    """Nothing is wrong."""
    wanted = sum(wanted_pods(one) for one in scope.podcliques)
    if scope.resource == POD and scope.pod is not None:
        return Finding(Cause.NONE, f"is ready on {scope.pod.view.node}")
    if not wanted:
        return Finding(Cause.NONE, "is idle: 0 replicas are asked for")
    return Finding(Cause.NONE, f"is well: {counted(wanted, 'pod')} of {wanted} ready")


def _recycling(scope: Scope) -> Iterator[str]:
    """What is said of a gang that starts anew, or is going to."""
    for gang in scope.gangs:
        live = scope.scene.podgangs.get(gang.gang.name)
        for kind in (ConditionType.UNHEALTHY, ConditionType.DISRUPTION_TARGET):
            found = find_condition(live.status.conditions, kind) if live is not None else None
            if found is not None and found.status == "True":
                since = found.last_transition_time
                yield f"PodGang {gang.gang.name} is {kind.value} since {since}: {short(found.message)}"
