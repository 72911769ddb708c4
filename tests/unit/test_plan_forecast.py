"""What an edit would do to what runs: restarts in their order, scaling, nothing."""

import copy

from grove.cli.plan_live import Running, edit, lines
from grove.plan.forecast import Forecast, Restart, Scaling, forecast
from grove.plan.podcliqueset import SetSnapshot
from tests.unit.rollouts import changed, workload
from tests.unit.support import Object, Paper, clique, pod_set, template


def running(obj: Object, down: int = -1, scaled: dict[str, int] | None = None) -> SetSnapshot:
    """All that a set has, ready, except in the replica `down`, whose pods have no node."""
    snapshot = SetSnapshot({}, {}, pods={})
    for replica in range(obj["spec"]["replicas"]):
        paper = Paper.of(obj, scaled, replica)
        paper.fill(ready=replica != down)
        snapshot.podcliques |= paper.podcliques  # type: ignore[operator]
        snapshot.scaling_groups |= paper.scaling_groups  # type: ignore[operator]
        snapshot.pods |= paper.pods  # type: ignore[operator]
    return snapshot


def told(before: Object, after: Object, snapshot: SetSnapshot) -> Forecast:
    return forecast(template(before), template(after), snapshot)


def test_restarts_by_replica_clique_and_group() -> None:
    obj = workload(2)
    found = told(obj, changed(obj, "a", "b"), running(obj))
    assert found.changed == ("a", "b")
    assert [turn.replica for turn in found.turns] == [0, 1]
    assert found.turns[0].restarts == (Restart("web-0-a", 2, (), 1), Restart("web-0-sg", 8, (0, 1), 1))
    assert (found.restarting, found.pods) == (20, 20)


def test_what_has_no_node_comes_first() -> None:
    obj = workload(3)
    found = told(obj, changed(obj, "a"), running(obj, down=2))
    assert [turn.replica for turn in found.turns] == [2, 0, 1]


def test_nothing_restarts_for_numbers() -> None:
    obj = workload(2)
    after = copy.deepcopy(obj)
    after["spec"]["replicas"] = 3
    after["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 4
    found = told(obj, after, running(obj))
    assert found.turns == ()
    assert found.scalings == (Scaling("PodClique", "web-0-a", 2, 4), Scaling("PodClique", "web-1-a", 2, 4))
    assert found.replicas == (2, 3)


def test_a_number_that_somebody_scaled_stays() -> None:
    obj = workload()
    found = told(obj, changed(obj, "c"), running(obj, scaled={"web-0-sg": 3, "web-0-a": 5}))
    assert found.scalings == ()
    assert found.turns[0].restarts == (Restart("web-0-sg", 12, (0, 1, 2), 1),)


def said(before: Object, after: Object) -> list[str]:
    found, errors, _ = edit(after, Running(before, template(before), running(before)))
    return errors if found is None else list(lines("web", found))


def test_words_of_an_update() -> None:
    obj = workload(2)
    after = changed(obj, "a", "c")
    after["spec"]["template"]["cliques"][0]["rollingUpdate"] = {"maxUnavailable": 2}
    assert said(obj, after) == [
        "web",
        "  changed templates: a, c",
        "  20 of 20 pods restart, one replica of the set after the other:",
        "    1. replica 0: 2 pods of web-0-a, 2 at a time; replicas 0, 1 of web-0-sg (8 pods), 1 at a time",
        "    2. replica 1: 2 pods of web-1-a, 2 at a time; replicas 0, 1 of web-1-sg (8 pods), 1 at a time",
    ]


def test_words_of_on_delete_and_of_scaling() -> None:
    obj = workload(2)
    after = changed(obj, "a")
    after["spec"] |= {"updateStrategy": {"type": "OnDelete"}, "replicas": 1}
    assert said(obj, after) == [
        "web",
        "  changed templates: a",
        "  2 of 20 pods would have an older template until deleted (OnDelete)",
        "  replicas of the set: 2 -> 1; the highest go",
    ]


def test_words_of_one_pod() -> None:
    obj = workload()
    obj["spec"]["template"]["podCliqueScalingGroups"][0] |= {"replicas": 1, "minAvailable": 1}
    after = changed(obj, "b")
    words = said(obj, after)
    assert words[-2:] == [
        "  4 of 6 pods restart:",
        "    1. replica 0: replica 0 of web-0-sg (4 pods), 1 at a time",
    ]
    alone = pod_set(clique("a", 1))
    assert said(alone, changed(alone, "a"))[-2:] == [
        "  1 of 1 pod restart:",
        "    1. replica 0: 1 pod of web-0-a, 1 at a time",
    ]


def test_the_same_again_does_nothing() -> None:
    assert said(workload(), workload()) == ["web", "  no pod restarts"]


def test_many_replicas_are_counted() -> None:
    obj = workload(13)
    words = said(obj, changed(obj, "b"))
    assert len(words) == 3 + 10 + 1
    assert words[-1] == "    … and 3 more"


def test_what_an_update_may_not_change_is_refused() -> None:
    obj = workload()
    after = copy.deepcopy(obj)
    after["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 1
    (error,) = said(obj, after)
    assert error.startswith("spec.template.cliques[0].spec.minAvailable: ")
