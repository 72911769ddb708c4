"""Whose turn it is in a rolling update."""

from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.plan.progress import current_replica, rolling, under_way, updating
from grove.plan.template import Template
from tests.unit.support import NOW, Object, clique, pod_set, template

SET = pod_set(clique("a", 2), replicas=2)
HASH = template(SET).generation_hash


def updated_set(replica: int | None = 0, *, target: str = HASH, ended: bool = False, strategy: str = "") -> Template:
    progress: Object = {"updateStartedAt": NOW}
    if ended:
        progress["updateEndedAt"] = NOW
    if replica is not None:
        progress["currentlyUpdating"] = [{"replicaIndex": replica}]
    spec: Object = {**SET["spec"], **({"updateStrategy": {"type": strategy}} if strategy else {})}
    return template({**SET, "spec": spec, "status": {"currentGenerationHash": target, "updateProgress": progress}})


def child(replica: int, runs: str | None) -> PodClique:
    tags = {"grove.io/podcliqueset-replica-index": str(replica)}
    status = {} if runs is None else {"currentPodCliqueSetGenerationHash": runs}
    metadata: dict[str, Any] = {"name": f"web-{replica}-a", "labels": tags}
    return PodClique.from_wire(
        {"kind": "PodClique", "metadata": metadata, "spec": {"podSpec": {"containers": []}}, "status": status}
    )


@pytest.mark.parametrize(
    ("strategy", "expected"), [("", True), ("RollingRecreate", True), ("OnDelete", False)]
)  # fmt: skip
def test_strategies(strategy: str, expected: bool) -> None:
    assert rolling(updated_set(strategy=strategy)) is expected


def test_the_set_says_whose_turn_it_is() -> None:
    assert current_replica(updated_set(1)) == 1


@pytest.mark.parametrize(
    "no_turn",
    [
        updated_set(None),
        updated_set(0, target="v1-another"),
        updated_set(0, ended=True),
        updated_set(0, strategy="OnDelete"),
        updated_set(2),  # scaled in meanwhile
        template(SET),
    ],
)
def test_it_is_nobodys_turn(no_turn: Template) -> None:
    assert current_replica(no_turn) is None
    assert not updating(child(0, "v1-another"), no_turn)


def test_an_update_without_a_replica_is_under_way() -> None:
    assert under_way(updated_set(None))
    assert not under_way(template(SET))


@pytest.mark.parametrize(
    ("replica", "runs", "expected"),
    [(0, "v1-another", True), (0, None, True), (0, HASH, False), (1, "v1-another", False)],
)
def test_breach_is_suspended_for_what_is_being_updated(replica: int, runs: str | None, expected: bool) -> None:
    assert updating(child(replica, runs), updated_set(0)) is expected
