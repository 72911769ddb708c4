"""Who is held, who is released, and what is said about it."""

from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.api.podcliqueset import PodCliqueSet
from grove.plan.conditions import merged
from grove.plan.observed import PodView
from grove.plan.release import (
    TEXT_SPACING,
    Readiness,
    StartupPlan,
    lacking_parents,
    plan_startup,
    startup_condition,
    waiting_for,
)
from grove.plan.template import Template
from grove.runtime.writes import Patch
from tests.unit.support import NOW, Object, Paper, clique, group, pod, pod_set, pod_wire

HELD = {"initContainers": [{"name": "grove-initc", "image": "i", "command": ["/bin/sh"]}]}
CREATED = 1788220800.0  # NOW in seconds since the epoch


def in_order(*cliques: Object, **fields: Any) -> Paper:
    return Paper.of(pod_set(*cliques, cliqueStartupType="CliqueStartupTypeInOrder", **fields))


def explicit(*cliques: Object, **fields: Any) -> Paper:
    return Paper.of(pod_set(*cliques, cliqueStartupType="CliqueStartupTypeExplicit", **fields))


def held(
    paper: Paper, name: str, *indices: int, waits_for: str = "", startup: str | None = None, **fields: Any
) -> list[PodView]:
    """Put pods in place that have the init container."""
    owner, made = paper.podcliques[name], []
    for index in indices:
        wire = pod_wire(owner, index, tpl=paper.template, **fields)
        wire["spec"]["initContainers"] = HELD["initContainers"]
        notes = {"grove.io/startup": startup, "grove.io/startup-waiting-for": waits_for or None}
        wire["metadata"]["annotations"] = {key: value for key, value in notes.items() if value is not None}
        made.append(PodView.from_wire(wire))
    paper.pods.setdefault(owner.uid, []).extend(made)
    return made


def plan(paper: Paper, now: float = CREATED) -> StartupPlan:
    return plan_startup(paper.template, paper.replica, paper.view, now)


def released(paper: Paper) -> set[str]:
    """Names of the pods that the plan releases, after a look at how."""
    names = set()
    for write in plan(paper).writes:
        assert isinstance(write, Patch)
        assert write.body == {
            "metadata": {"annotations": {"grove.io/startup": "released", "grove.io/startup-waiting-for": None}}
        }
        assert write.uid
        names.add(write.name)
    return names


def lacking(paper: Paper, name: str) -> dict[str, tuple[int, int]] | None:
    readiness = Readiness(paper.template, paper.replica, paper.view)
    found = lacking_parents(paper.podcliques[name], paper.template, readiness)
    return None if found is None else {parent.podclique: (parent.ready, parent.needed) for parent in found}


# Who is held


@pytest.mark.parametrize(
    ("spec", "annotations", "phase", "expected"),
    [
        ({}, {}, "Pending", False),
        (HELD, {}, "Pending", True),
        (HELD, {"grove.io/startup": "waiting"}, "Pending", True),
        (HELD, {"grove.io/startup": "released"}, "Pending", False),
        (HELD, {}, "Running", False),  # it has started, whoever removed the annotation
        ({"initContainers": [{"name": "mine"}]}, {}, "Pending", False),
        # the Go operator's own waits for itself
        ({"initContainers": [{"name": "grove-initc", "args": ["--podcliques=w-0-a:1"]}]}, {}, "Pending", False),
    ],
)
def test_held_pods(spec: Object, annotations: dict[str, str], phase: str, expected: bool) -> None:
    wire: Object = {"metadata": {"name": "p", "annotations": annotations}, "spec": spec, "status": {"phase": phase}}
    assert PodView.from_wire(wire).held is expected


# Who is ready


def test_minimum_of_ready_pods_is_enough() -> None:
    paper = in_order(clique("a", 3, 2), clique("b", 2, 1))
    held(paper, "web-0-b", 0, 1)
    paper.add("web-0-a", 0, ready=True)
    paper.add("web-0-a", 1, node="node-1")
    assert lacking(paper, "web-0-b") == {"web-0-a": (1, 2)}
    assert released(paper) == set()
    paper.add("web-0-a", 2, ready=True)
    assert lacking(paper, "web-0-b") == {}
    assert released(paper) == {pod.name for pod in paper.pods[paper.podcliques["web-0-b"].uid]}
    assert plan(paper).released == (("web-0-b", 2),)


def test_only_active_pods_of_the_gang_count() -> None:
    paper = in_order(clique("a", 5, 2), clique("b", 1))
    held(paper, "web-0-b", 0)
    paper.add("web-0-a", 0, ready=True)
    paper.add("web-0-a", 1, ready=True, deleting=True)
    paper.add("web-0-a", 2, ready=True, phase="Failed")
    paper.add("web-0-a", 3, ready=True, labels_={"grove.io/podgang": "another"})
    assert lacking(paper, "web-0-b") == {"web-0-a": (1, 2)}
    paper.add("web-0-a", 4, ready=True)
    assert lacking(paper, "web-0-b") == {}


def test_a_parent_that_does_not_exist_yet_is_waited_for() -> None:
    paper = in_order(clique("a", 2), clique("b", 1))
    held(paper, "web-0-b", 0)
    del paper.podcliques["web-0-a"]
    assert lacking(paper, "web-0-b") == {"web-0-a": (0, 2)}


def test_an_idle_clique_is_looked_through() -> None:
    """a → b → c with b idle: c waits for a, and for nobody if a is idle, too."""
    cliques = (clique("a", 1), clique("b", 1), clique("c", 1))
    obj = pod_set(*cliques, cliqueStartupType="CliqueStartupTypeInOrder")
    paper = Paper.of(obj, {"web-0-b": 0})
    held(paper, "web-0-c", 0)
    assert lacking(paper, "web-0-c") == {"web-0-a": (0, 1)}
    assert lacking(Paper.of(obj, {"web-0-b": 0, "web-0-a": 0}), "web-0-c") == {}


def test_an_idle_scaling_group_is_looked_through() -> None:
    obj = pod_set(
        clique("a", 1),
        clique("b", 1),
        clique("c", 1),
        groups=[group("g", ["b"], 2, 2)],
        cliqueStartupType="CliqueStartupTypeInOrder",
    )
    assert lacking(Paper.of(obj), "web-0-c") == {"web-0-g-0-b": (0, 1), "web-0-g-1-b": (0, 1)}
    assert lacking(Paper.of(obj, {"web-0-g": 0}), "web-0-c") == {"web-0-a": (0, 1)}


def test_a_template_that_starts_idle() -> None:
    paper = in_order(clique("a", 0, 1), clique("b", 1))
    del paper.podcliques["web-0-a"]
    assert lacking(paper, "web-0-b") == {}


def test_a_cycle_that_no_webhook_refused_ends() -> None:
    paper = explicit(
        clique("a", 0, 1, startsAfter=["b"]), clique("b", 0, 1, startsAfter=["a"]), clique("c", 1, startsAfter=["a"])
    )
    assert lacking(paper, "web-0-c") == {}
    paper = explicit(clique("a", 1, startsAfter=["b"]), clique("b", 1, startsAfter=["a"]))
    assert lacking(paper, "web-0-a") == {"web-0-b": (0, 1)}
    assert lacking(paper, "web-0-b") == {"web-0-a": (0, 1)}


def test_scaled_gangs_wait_for_their_own_replica() -> None:
    paper = in_order(clique("a", 1), clique("b", 1), clique("c", 2), groups=[group("g", ["b", "c"], 3, 1)])
    held(paper, "web-0-g-1-c", 0)
    held(paper, "web-0-g-2-c", 0, 1)
    paper.add("web-0-g-2-b", 0, ready=True)
    assert lacking(paper, "web-0-g-1-b") is None
    assert lacking(paper, "web-0-g-1-c") == {"web-0-g-1-b": (0, 1)}
    assert {name.rpartition("-")[0] for name in released(paper)} == {"web-0-g-2-c"}


def test_who_waits_for_nobody_costs_nothing() -> None:
    paper = Paper.of(pod_set(clique("a", 2), clique("b", 2)))
    held(paper, "web-0-b", 0)  # left from another startup type
    assert plan(paper) == StartupPlan()
    assert lacking(paper, "web-0-b") is None


# Released stays released


def test_a_parent_lost_later_stops_nobody() -> None:
    paper = in_order(clique("a", 1), clique("b", 2))
    held(paper, "web-0-b", 0, 1, startup="released")
    assert plan(paper).writes == ()
    assert startup_condition(paper.pods[paper.podcliques["web-0-b"].uid], _lacking(paper, "web-0-b")).status is True


def test_a_replacement_waits_by_the_same_rule() -> None:
    paper = in_order(clique("a", 1), clique("b", 2))
    held(paper, "web-0-b", 0, startup="released")
    [new] = held(paper, "web-0-b", 1)
    assert released(paper) == set()
    paper.add("web-0-a", 0, ready=True)
    assert released(paper) == {new.name}


def test_a_pod_on_its_way_out_is_left_alone() -> None:
    paper = in_order(clique("a", 1), clique("b", 1))
    paper.add("web-0-a", 0, ready=True)
    held(paper, "web-0-b", 0, deleting=True)
    assert plan(paper).writes == ()


# What is said


def _lacking(paper: Paper, name: str) -> Any:
    return lacking_parents(paper.podcliques[name], paper.template, Readiness(paper.template, 0, paper.view))


def test_the_condition_names_parents_and_counts() -> None:
    paper = explicit(clique("a", 3, 2), clique("b", 1), clique("c", 1, startsAfter=["b", "a"]))
    pods = held(paper, "web-0-c", 0)
    paper.add("web-0-a", 0, ready=True)
    want = startup_condition(pods, _lacking(paper, "web-0-c"))
    assert (want.type, want.status, want.reason) == ("StartupReleased", False, "WaitingForParents")
    assert want.message == "waiting for ready pods: web-0-b has 0 of 1, web-0-a has 1 of 2"
    want = startup_condition(pods, [])
    assert (want.type, want.status, want.reason) == ("StartupReleased", True, "ParentsReady")


def test_long_lists_are_cut() -> None:
    paper = in_order(clique("a", 1), clique("b", 1), groups=[group("g", ["a"], 9, 9)])
    message = startup_condition((), _lacking(paper, "web-0-b")).message
    assert message.endswith("web-0-g-4-a has 0 of 1 and 4 more")


def test_a_condition_that_no_longer_holds_is_stale() -> None:
    paper = in_order(clique("a", 2), clique("b", 1))
    held(paper, "web-0-b", 0)
    assert plan(paper).stale == ("web-0-b",)
    want = startup_condition(paper.pods[paper.podcliques["web-0-b"].uid], _lacking(paper, "web-0-b"))
    live = paper.podcliques["web-0-b"].wire
    told = {**live, "status": {"conditions": merged((), [want], NOW)}}
    paper.podcliques["web-0-b"] = PodClique.from_wire(told)
    assert (plan(paper).stale, plan(paper).reworded) == ((), ())
    paper.add("web-0-a", 0, ready=True)
    assert (plan(paper).stale, plan(paper).reworded) == ((), ("web-0-b",))
    paper.add("web-0-a", 1, ready=True)
    assert (plan(paper).stale, plan(paper).reworded) == (("web-0-b",), ())


TEXT_AB = "a (at least 1 ready), b (at least 2 ready)"
TEXT_B = "b (at least 2 ready)"


def two_parents(waits_for: str) -> Paper:
    """c waits for a, which is ready, and for b, which is not."""
    paper = explicit(clique("a", 1), clique("b", 2), clique("c", 1, startsAfter=["a", "b"]))
    paper.add("web-0-a", 0, ready=True)
    held(paper, "web-0-c", 0, waits_for=waits_for)
    return paper


def test_the_text_names_the_cliques() -> None:
    paper = explicit(clique("a", 1), clique("b", 2), clique("c", 1, startsAfter=["a", "b"]))
    assert waiting_for(_lacking(paper, "web-0-c")) == TEXT_AB
    group_of_two = in_order(clique("a", 1), clique("b", 1), groups=[group("g", ["a"], 2, 2)])
    assert waiting_for(_lacking(group_of_two, "web-0-b")) == "a (at least 1 ready)"


@pytest.mark.parametrize("waits_for", [TEXT_AB, "", "other"])
def test_a_text_that_says_too_much_is_mended_after_half_a_minute(waits_for: str) -> None:
    paper = two_parents(waits_for)
    early = plan(paper, CREATED + TEXT_SPACING - 1)
    assert (early.writes, early.again_after) == ((), 1.0)
    [write] = plan(paper, CREATED + TEXT_SPACING).writes
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"annotations": {"grove.io/startup-waiting-for": TEXT_B}}}


def test_a_text_that_holds_is_left_alone() -> None:
    assert plan(two_parents(TEXT_B), CREATED + 999).writes == ()
    # b was ready for a moment when the text was written, so it names too few: that can wait.
    paper = explicit(clique("a", 1), clique("b", 2), clique("c", 1, startsAfter=["a", "b"]))
    held(paper, "web-0-c", 0, waits_for=TEXT_B)
    assert plan(paper, CREATED + 999).writes == ()


def test_a_clock_that_is_wrong_delays_nothing() -> None:
    assert len(plan(two_parents(TEXT_AB), CREATED - 3600).writes) == 1


def test_views_of_pods_without_order_are_as_before() -> None:
    owner = in_order(clique("a", 1), clique("b", 1)).podcliques["web-0-a"]
    view = pod(owner, 0)
    assert (view.held, view.waits_for) == (False, "")


def test_pods_of_a_terminated_gang_are_of_no_use() -> None:
    """They go; who takes their place makes parents ready, so that a gang that starts anew does so in order."""
    paper = in_order(clique("a", 1), clique("b", 1))
    paper.add("web-0-a", 0, ready=True)
    held(paper, "web-0-b", 0)
    assert len(released(paper)) == 1
    live = paper.podcliques["web-0-a"].wire
    paper.podcliques["web-0-a"] = PodClique.from_wire({**live, "status": {"podsTerminatedUntil": NOW}})
    assert released(paper) == set()
    assert lacking(paper, "web-0-b") == {"web-0-a": (0, 1)}


def rolling(paper: Paper) -> None:
    """Let the set's status say that an update to its template runs."""
    status = {
        "currentGenerationHash": paper.template.generation_hash,
        "updateProgress": {"updateStartedAt": NOW, "currentlyUpdating": [{"replicaIndex": 0}]},
    }
    paper.template = Template(PodCliqueSet.from_wire({**paper.template.pcs.wire, "status": status}))


def test_in_an_update_old_pods_of_the_same_replica_of_a_group_do_not_count() -> None:
    """The replica's pods go together, so they are about to go; those of other replicas stay until their turn."""
    paper = in_order(clique("a", 1), clique("b", 1), groups=[group("g", ["a", "b"], 2, 2)])
    for index in (0, 1):
        paper.add(f"web-0-g-{index}-a", 0, ready=True, labels_={"grove.io/pod-template-hash": "v1-old"})
    assert lacking(paper, "web-0-g-0-b") == {}
    rolling(paper)
    assert lacking(paper, "web-0-g-0-b") == {"web-0-g-0-a": (0, 1)}
    assert lacking(paper, "web-0-g-1-b") == {"web-0-g-1-a": (0, 1)}
    paper.pods[paper.podcliques["web-0-g-0-a"].uid].clear()
    paper.add("web-0-g-0-a", 0, ready=True)
    assert lacking(paper, "web-0-g-0-b") == {}
    assert lacking(paper, "web-0-g-1-b") == {"web-0-g-1-a": (0, 1)}


def test_in_an_update_old_pods_of_standalone_cliques_count() -> None:
    """They are replaced one by one, each clique for itself."""
    paper = in_order(clique("a", 2, 1), clique("b", 1))
    paper.add("web-0-a", 0, ready=True, labels_={"grove.io/pod-template-hash": "v1-old"})
    rolling(paper)
    assert lacking(paper, "web-0-b") == {}
