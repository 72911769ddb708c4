"""The status of a PodClique, and what others conclude from it."""

from collections.abc import Sequence
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.plan.observed import PodView
from grove.plan.podclique import idle, is_available, is_updated, podclique_status, runs
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod, pod_set, template

CRASHED = {"containerStatuses": [{"lastState": {"terminated": {"exitCode": 1}}}]}
STARTED = {"containerStatuses": [{"started": True, "ready": False}]}
OBJ = pod_set(clique("a", 4, min_available=3), clique("b", 1), groups=[group("g", ["b"])])
TPL = template(OBJ)


def podclique(replicas: int = 4, name: str = "web-0-a", **status: Any) -> PodClique:
    live = Paper.of(OBJ, {name: replicas}).podcliques[name]
    return PodClique.from_wire(merge_patch(live.wire, {"metadata": {"generation": 3}, "status": status}))


def status_of(owner: PodClique, pods: Sequence[PodView], errors: Sequence[Object] = ()) -> Object:
    return podclique_status(owner, pods, TPL, errors, NOW)


def condition(status: Object, kind: str) -> tuple[str, str]:
    return next((one["status"], one["reason"]) for one in status["conditions"] if one["type"] == kind)


# Numbers


def test_each_pod_counts_where_it_belongs() -> None:
    owner = podclique(8)
    pods = [
        pod(owner, 0),
        pod(owner, 1, gated=False),
        pod(owner, 2, node="node-1"),
        pod(owner, 3, ready=True),
        pod(owner, 4, ready=True, labels_={"grove.io/pod-template-hash": "stale"}),
        pod(owner, 5, ready=True, deleting=True),
        pod(owner, 6, phase="Failed", node="node-1"),
        pod(owner, 7, phase="Succeeded", node="node-1"),
    ]
    status = status_of(owner, pods)
    numbers = ("replicas", "scheduleGatedReplicas", "scheduledReplicas", "readyReplicas", "updatedReplicas")
    assert [status[key] for key in numbers] == [5, 1, 3, 2, 4]
    assert status["observedGeneration"] == 3


def test_errors_are_shown() -> None:
    error = {"code": "ERR_CREATE_POD", "description": "quota", "observedAt": NOW}
    assert status_of(podclique(), [], [error])["lastErrors"] == [error]


def test_only_standalone_podcliques_publish_a_selector() -> None:
    selector = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,grove.io/podclique=web-0-a"
    assert status_of(podclique(), [])["hpaPodSelector"] == selector
    assert "hpaPodSelector" not in status_of(podclique(1, "web-0-g-0-b"), [])


# Hashes


def test_hashes_are_shown_once_all_pods_run_the_template() -> None:
    owner = podclique(2)
    wanted = {
        "currentPodTemplateHash": TPL.pod_template_hashes["a"],
        "currentPodCliqueSetGenerationHash": TPL.generation_hash,
    }
    good, stale = pod(owner, 0, ready=True), pod(owner, 1, labels_={"grove.io/pod-template-hash": "stale"})
    assert wanted.items() <= status_of(owner, [good]).items()
    assert wanted.items() <= status_of(owner, []).items()
    assert not wanted.keys() & status_of(owner, [good, stale]).keys()


def test_hashes_wait_for_the_podclique_to_get_the_set_s_template() -> None:
    owner = podclique(1)
    newer = template(pod_set(clique("a", 4, image="example.com/image:2"), clique("b"), groups=[group("g", ["b"])]))
    keys = {"currentPodTemplateHash", "currentPodCliqueSetGenerationHash"}
    assert not keys & podclique_status(owner, [pod(owner, 0)], newer, [], NOW).keys()
    assert not keys & podclique_status(owner, [pod(owner, 0)], None, [], NOW).keys()
    assert (runs(owner, TPL), runs(owner, newer)) == (True, False)


def test_another_clique_s_change_shows_in_the_generation_alone() -> None:
    owner = podclique(1)
    newer = template(pod_set(clique("a", 4), clique("b", image="example.com/image:2"), groups=[group("g", ["b"])]))
    status = podclique_status(owner, [pod(owner, 0)], newer, [], NOW)
    assert status["currentPodTemplateHash"] == TPL.pod_template_hashes["a"]
    assert status["currentPodCliqueSetGenerationHash"] == newer.generation_hash != TPL.generation_hash


# Conditions (acceptance list 13, rows "breach PodClique"; minAvailable is 3)

BELOW = ("True", "ScheduledReplicasBelowMinAvailable")
INSUFFICIENT = ("True", "InsufficientReadyPods")
SUFFICIENT = ("False", "SufficientReadyPods")
ENOUGH = ("True", "SufficientScheduledPods")
NOT_ENOUGH = ("False", "InsufficientScheduledPods")

CASES: dict[str, tuple[list[Object], tuple[str, str], tuple[str, str]]] = {
    "never scheduled": ([{}, {}, {}, {}], BELOW, NOT_ENOUGH),
    "no pods": ([], BELOW, NOT_ENOUGH),
    "some scheduled": ([{"ready": True}, {"ready": True}, {}, {}], BELOW, NOT_ENOUGH),
    "minimum scheduled": ([{"node": "n"}] * 3, SUFFICIENT, ENOUGH),
    "all ready": ([{"ready": True}] * 4, SUFFICIENT, ENOUGH),
    "one may crash": ([{"ready": True}] * 3 + [{"node": "n", "status": CRASHED}], SUFFICIENT, ENOUGH),
    "two crash": ([{"ready": True}] * 2 + [{"node": "n", "status": CRASHED}] * 2, INSUFFICIENT, ENOUGH),
    "two started, not ready": ([{"ready": True}] * 2 + [{"node": "n", "status": STARTED}] * 2, INSUFFICIENT, ENOUGH),
    "one of each": (
        [{"ready": True}] * 2 + [{"node": "n", "status": CRASHED}, {"node": "n", "status": STARTED}],
        INSUFFICIENT,
        ENOUGH,
    ),
    "still starting": ([{"node": "n"}] * 4, SUFFICIENT, ENOUGH),
    "terminating ones are gone": ([{"ready": True}] * 2 + [{"ready": True, "deleting": True}] * 2, BELOW, NOT_ENOUGH),
    "ended ones are gone": ([{"ready": True}] * 2 + [{"phase": "Failed", "node": "n"}] * 2, BELOW, NOT_ENOUGH),
}


@pytest.mark.parametrize("case", CASES)
def test_breach(case: str) -> None:
    pods, breach, scheduled = CASES[case]
    owner = podclique()
    status = status_of(owner, [pod(owner, index, **fields) for index, fields in enumerate(pods)])
    assert condition(status, "MinAvailableBreached") == breach
    assert condition(status, "PodCliqueScheduled") == scheduled


def test_a_crash_of_a_pod_without_a_node_counts_once() -> None:
    # An unscheduled pod is missing already; its container states must not be taken off a second time.
    owner = podclique()
    pods = [pod(owner, index, ready=True) for index in range(3)]
    pods.append(pod(owner, 3, gated=False, status=CRASHED))
    assert condition(status_of(owner, pods), "MinAvailableBreached") == SUFFICIENT


def test_idle_is_no_breach() -> None:
    status = status_of(podclique(0), [])
    assert condition(status, "MinAvailableBreached") == SUFFICIENT
    assert condition(status, "PodCliqueScheduled") == ENOUGH
    assert status["replicas"] == 0


def test_conditions_of_others_stay() -> None:
    foreign = {"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
    status = status_of(podclique(conditions=[foreign]), [])
    assert status["conditions"][0] == foreign
    assert len(status["conditions"]) == 3


# What others conclude (API doc 1.7)


@pytest.mark.parametrize(
    ("replicas", "ready", "deleting", "available"),
    [(4, 3, False, True), (4, 4, False, True), (4, 2, False, False), (4, 4, True, False), (0, 0, False, True)],
)
def test_available(replicas: int, ready: int, deleting: bool, available: bool) -> None:
    live = podclique(replicas, readyReplicas=ready)
    if deleting:
        live = PodClique.from_wire(merge_patch(live.wire, {"metadata": {"deletionTimestamp": NOW}}))
    assert is_available(live) is available
    assert idle(live) is (replicas == 0)


def test_what_does_not_exist_is_not_available() -> None:
    assert not is_available(None)


def updated_status(**changes: Any) -> Object:
    return {
        "readyReplicas": 3,
        "updatedReplicas": 3,
        "currentPodTemplateHash": TPL.pod_template_hashes["a"],
        "currentPodCliqueSetGenerationHash": TPL.generation_hash,
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "updated"),
    [
        ({}, True),
        ({"readyReplicas": 2}, False),
        ({"updatedReplicas": 2}, False),
        ({"currentPodTemplateHash": "stale"}, False),
        ({"currentPodTemplateHash": None}, False),
        ({"currentPodCliqueSetGenerationHash": "stale"}, False),
    ],
)
def test_updated(changes: Object, updated: bool) -> None:
    assert is_updated(podclique(**updated_status(**changes)), TPL) is updated


def test_an_idle_clique_is_updated_without_pods() -> None:
    assert is_updated(podclique(0, **updated_status(readyReplicas=0, updatedReplicas=0)), TPL)


def test_a_clique_with_the_template_before_is_not_updated() -> None:
    newer = template(pod_set(clique("a", 4, image="example.com/image:2"), clique("b"), groups=[group("g", ["b"])]))
    assert not is_updated(podclique(**updated_status(currentPodCliqueSetGenerationHash=newer.generation_hash)), newer)
