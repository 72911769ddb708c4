"""Numbers: replicas, minimums and the bounds of autoscalers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grove.admission.fields import Field, FieldError, Finding, cliques, scaling_groups
from grove.api.base import MAX_REPLICAS

MAX_INT32: Final = 2**31 - 1


def set_replicas(root: Field) -> Iterator[Finding]:
    """The set's replicas are 0 or more (api rule V2)."""
    yield from _in_range(root["spec"]["replicas"], 0, "must be 0 or more", MAX_REPLICAS)


def clique_counts(root: Field) -> Iterator[Finding]:
    """replicas is 0 (idle) or at least minAvailable, which is at least 1 (api rules V23, V25, V26).

    An autoscaler's bounds leave room: minAvailable <= minReplicas <= maxReplicas >= replicas (api rules V31-V33).
    """
    for clique in cliques(root):
        spec = clique["spec"]
        yield from _replicas(spec)
        yield from _autoscaler(spec, spec["autoScalingConfig"], spec["replicas"])


def scaling_group_counts(root: Field) -> Iterator[Finding]:
    """The same for scaling groups: replicas, minAvailable and minReplicas (api rules V47-V49).

    maxReplicas is at least minReplicas here too.
    """
    for group in scaling_groups(root):
        yield from _replicas(group)
        yield from _autoscaler(group, group["scaleConfig"], Field(None))


def _replicas(owner: Field) -> Iterator[FieldError]:
    replicas, minimum = owner["replicas"], owner["minAvailable"]
    yield from _in_range(replicas, 0, "must be 0 (idle) or more", MAX_REPLICAS)
    yield from _in_range(minimum, 1, "must be 1 or more")
    if replicas.number and minimum.number and 0 < replicas.number < minimum.number:
        yield minimum.invalid(f"must be at most replicas ({replicas.number}), unless replicas is 0 (idle)")


def _autoscaler(owner: Field, config: Field, replicas: Field) -> Iterator[FieldError]:
    least, most, minimum = config["minReplicas"], config["maxReplicas"], owner["minAvailable"].number
    in_range = [*_in_range(least, 1, "must be 1 or more"), *_in_range(most, 1, "must be 1 or more")]
    yield from in_range
    if in_range:
        return
    if least.number and minimum and least.number < minimum:
        yield least.invalid(f"must be at least minAvailable ({minimum})")
    if most.number is None:
        return
    if least.number and most.number < least.number:
        yield most.invalid(f"must be at least minReplicas ({least.number})")
    elif replicas.number and most.number < replicas.number:
        yield most.invalid(f"must be at least replicas ({replicas.number})")


def _in_range(field: Field, least: int, rule: str, most: int = MAX_INT32) -> Iterator[FieldError]:
    number = field.number
    if number is not None and number < least:
        yield field.invalid(rule)
    elif number is not None and number > most:
        yield field.invalid(f"must be at most {most}")
