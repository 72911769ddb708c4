"""What admission says to objects, case by case: for the unit tests, and for those through a real API server.

A case is an object (and the one it replaces) with the whole answer: see `Case`. Every rule has at least one.
"""

from __future__ import annotations

from tests.admission_cases import (
    accepted,
    bindings,
    devices,
    names,
    numbers,
    pods,
    rollout,
    schedulers,
    template,
    topology,
    updates,
)
from tests.admission_cases.case import NOTHING_KNOWN, Case, Obj

__all__ = ["CASES", "NOTHING_KNOWN", "Case", "Obj"]

CASES: tuple[Case, ...] = (
    *names.CASES,
    *numbers.CASES,
    *template.CASES,
    *pods.CASES,
    *accepted.CASES,
    *devices.CASES,
    *topology.CASES,
    *schedulers.CASES,
    *updates.CASES,
    *rollout.CASES,
    *bindings.CASES,
)
