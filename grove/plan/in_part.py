"""Gangs of which a part was placed, though their scheduler had promised all or none.

A scheduler decides for all pods of a gang, and then binds one after the other. When that fails half way, as it does
when the API server dies in between, the half that is bound holds its nodes, and the other half may find none any more.
No condition of a PodClique tells of that, since one that never had its minimum is only waiting; the pods' times do.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from grove.api.base import find_condition
from grove.api.labels import ConditionType
from grove.plan.breach import never_had_minimum
from grove.plan.gangs import Gang, GangState, GroupState, expected_gangs, observe
from grove.plan.replica import ReplicaSnapshot, view_of
from grove.plan.template import Template


@dataclass(frozen=True, slots=True)
class Part:
    """A gang that is placed in part."""

    gang: Gang
    since: float
    """when the last of its pods got a node, in seconds since the epoch"""
    lacking: tuple[str, ...]
    """the PodCliques that never had their minimum on nodes"""


def gangs_in_part(template: Template, replica: int, snapshot: ReplicaSnapshot) -> Iterator[Part]:
    """The gangs of a set's replica that are placed in part; those without a promise (GangGuaranteed) are not looked at.

    Cheap where every PodClique has had its minimum.
    """
    if not any(map(never_had_minimum, snapshot.podcliques.values())):
        return
    view = view_of(template, replica, snapshot)
    for gang in expected_gangs(template, replica, view):
        live = snapshot.podgangs.get(gang.name)
        promise = find_condition(live.status.conditions, ConditionType.GANG_GUARANTEED) if live is not None else None
        if promise is not None and promise.status == "True" and (part := in_part(observe(gang, view))) is not None:
            yield part


def in_part(state: GangState) -> Part | None:
    """What is placed of a gang and what is not; None when that is all of it, or nothing, or it was whole before."""
    placed = [pod.scheduled_since for group in state.groups for pod in group.pods if pod.scheduled]
    lacking = tuple(group.member.podclique for group in state.groups if placed and _left_out(group, min(placed)))
    return Part(state.gang, max(placed), lacking) if lacking else None


def _left_out(group: GroupState, first: float) -> bool:
    """Whether pods of a minimum wait for nodes that were there when the gang's first pod got its own, at `first`.

    Those of a clique that woke from idle are younger: the gang did without them, and does.
    """
    if group.live is None or not never_had_minimum(group.live):
        return False
    waiting = sum(not pod.scheduled and pod.created <= first for pod in group.pods)
    return group.scheduled < group.member.min_replicas <= group.scheduled + waiting
