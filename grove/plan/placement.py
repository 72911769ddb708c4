"""What a scheduler says of a gang's placement, as far as plans and statuses use it."""

from dataclasses import dataclass

from grove.plan.conditions import Want


@dataclass(frozen=True, slots=True)
class Placement:
    """A scheduler's word on one gang, read back by its back end. The default says nothing: pods alone are judged."""

    scheduled: bool | None = None
    """whether the scheduler has placed the gang's minimum; None where only the pods tell"""
    reason: str = ""
    """why the gang is not placed, in one sentence for people, without a full stop at its end; "" is nothing to say"""
    held: str = ""
    """why the gates of a complete gang stay on for now, likewise"""
    score: float | None = None
    """PodGang status.placementScore, from 0.0 to 1.0 (best); None is not known"""
    conditions: tuple[Want, ...] = ()
    """further conditions of the PodGang that the back end answers for, of types of its own"""
