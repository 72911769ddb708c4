"""What the checks of `held` and `placed` find, and the words they share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from grove.api.podclique import PodClique
from grove.inspect.scope import Scope
from grove.inspect.text import counted
from grove.plan.podclique import wanted_pods

SHOWN: Final = 5
"""Lines of one sort; the rest is counted."""


class Cause(StrEnum):
    """What keeps something from being ready."""

    NONE = "None"
    DELETION = "Deletion"
    ENDED = "Ended"
    NOT_OBSERVED = "NotObserved"
    REFUSED = "Refused"
    GANG_INCOMPLETE = "GangIncomplete"
    BASE_GANG = "BaseGang"
    GATE_STAYS = "GateStays"
    FOREIGN_GATE = "ForeignGate"
    UNSCHEDULABLE = "Unschedulable"
    SCHEDULER_SILENT = "SchedulerSilent"
    SURPLUS = "Surplus"
    STARTUP_ORDER = "StartupOrder"
    CONTAINERS = "Containers"
    UPDATE = "Update"


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found."""

    cause: Cause
    sentence: str
    evidence: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    """`NAMESPACE` in it stands for the namespace"""
    because: Scope | None = None
    """what it waits for, whose own cause matters then"""


def has_pods(scope: Scope, podclique: PodClique) -> str:
    """How many of its pods a PodClique has: `web-0-a has 1 of 2 pods`."""
    return f"{podclique.name} has {len(scope.present(podclique))} of {counted(wanted_pods(podclique), 'pod')}"


def few(lines: Iterable[str]) -> tuple[str, ...]:
    """The first lines, and how many more there are."""
    found = tuple(lines)
    return found if len(found) <= SHOWN else (*found[:SHOWN], f"… and {len(found) - SHOWN} more")
