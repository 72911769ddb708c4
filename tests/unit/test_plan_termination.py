"""Which gangs are terminated, by the tables of the behaviour reference (6.4, 6.5) and the acceptance list (13)."""

from collections.abc import Mapping
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.api.times import rfc3339
from grove.plan.replica import ReplicaSnapshot
from grove.plan.termination import TerminationPlan, plan_terminations, termination_delay, termination_writes
from grove.runtime.writes import Patch
from tests.fake_api.objects import merge_patch
from tests.unit.support import Paper, clique, group, pod_set, template

DELAY = 100
NOW = 1788220800.0  # 2026-09-01T00:00:00Z
WHOLE = "replica 0 of PodCliqueSet web"


def replica(index: int) -> str:
    return f"replica {index} of PodCliqueScalingGroup web-0-g"


def paper(states: Mapping[str, str | int], replicas: int = 2, minimum: int = 1, **scaled: int) -> Paper:
    """A standalone clique a, and a group of b and c. `states` by PodClique, all others are healthy.

    A number is a breach that began so many seconds ago; `terminated N` is one that was acted upon; others are
    `never` scheduled, `updating`, `missing` and `deleting`.
    """
    obj = pod_set(
        clique("a", 2), clique("b", 1), clique("c", 3),
        groups=[group("g", ["b", "c"], replicas, minimum)], terminationDelay=f"{DELAY}s",
    )  # fmt: skip
    made = Paper.of(obj, scaled)
    for name, live in list(made.podcliques.items()):
        state = states.get(name, "healthy")
        if state == "missing":
            del made.podcliques[name]
        else:
            made.podcliques[name] = in_state(live, state)
    assert states.keys() <= made.podcliques.keys() | {name for name, state in states.items() if state == "missing"}
    return made


def in_state(live: PodClique, state: str | int) -> PodClique:
    word, _, age = str(state).rpartition(" ")
    breached = {"healthy": "False", "updating": "Unknown"}.get(str(state), "True")
    since = rfc3339(NOW - int(age)) if age.isdigit() else rfc3339(NOW - 1000)
    conditions = [one("MinAvailableBreached", breached, since)]
    if state != "never":
        conditions.append(one("GangTerminationInProgress", str(word == "terminated"), since))
    change: dict[str, Any] = {"status": {"conditions": conditions}}
    if state == "deleting":
        change["metadata"] = {"deletionTimestamp": since}
    return PodClique.from_wire(merge_patch(live.wire, change))


def one(kind: str, status: str, since: str) -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "R", "message": "m", "lastTransitionTime": since}


def plan(made: Paper, replica: int = 0) -> TerminationPlan:
    return plan_terminations(made.template, replica, ReplicaSnapshot(made.podcliques, made.scaling_groups), NOW)


def targets(made: Paper) -> list[str]:
    return [termination.target.text for termination in plan(made).now]


A, B0, C0, B1, C1, B2 = "web-0-a", "web-0-g-0-b", "web-0-g-0-c", "web-0-g-1-b", "web-0-g-1-c", "web-0-g-2-b"

# states, replicas and minimum of the group: what is terminated
CASES: dict[str, tuple[dict[str, str | int], int, int, list[str]]] = {
    "all healthy": ({}, 2, 1, []),
    "standalone, in time": ({A: 99}, 2, 1, []),
    "standalone, too long": ({A: 100}, 2, 1, [WHOLE]),
    "standalone, never scheduled": ({A: "never"}, 2, 1, []),
    "standalone, acted upon": ({A: "terminated 500"}, 2, 1, []),
    "standalone, updating": ({A: "updating"}, 2, 1, []),
    "standalone, deleting": ({A: "deleting"}, 2, 1, []),
    "standalone missing: skip the replica": ({A: "missing", B0: 500}, 2, 1, []),
    "a replica of a group that can spare it": ({C0: 100}, 2, 1, [replica(0)]),
    "the scaled one": ({B1: 100}, 2, 1, [replica(1)]),
    "in time": ({C0: 99}, 2, 1, []),
    "the earlier of two cliques counts": ({B0: 10, C0: 100}, 2, 1, [replica(0)]),
    "two of three, one is needed": ({B0: 100, B1: 100}, 3, 1, [replica(0), replica(1)]),
    "two of three, two are needed": ({B0: 100, B1: 100}, 3, 2, [WHOLE]),
    "all of a group": ({B0: 100, C1: 100}, 2, 1, [WHOLE]),
    "one is lost that is needed": ({C0: 100}, 2, 2, [WHOLE]),
    "one is lost that is needed, in time": ({C0: 99}, 2, 2, []),
    "the second loss decides": ({B0: 500, B1: 99}, 2, 1, []),
    "the second loss decides, too long": ({B0: 500, B1: 100}, 2, 1, [WHOLE]),
    "a lost one that was acted upon is lost": ({B0: "terminated 500", B1: 100}, 2, 1, [WHOLE]),
    "it gives the next one its full time": ({B0: "terminated 500", B1: 99}, 2, 1, []),
    "both needed, one acted upon long ago": ({B0: "terminated 500", B1: 99}, 2, 2, []),
    "acted upon": ({C0: "terminated 500"}, 2, 1, []),
    "all acted upon": ({B0: "terminated 500", B1: "terminated 400"}, 2, 1, []),
    "never scheduled": ({B1: "never", C1: "never"}, 2, 1, []),
    "never scheduled is no loss": ({B1: "never", B0: 100}, 3, 1, [replica(0)]),
    "never had enough": ({B1: "never", B0: 100}, 2, 2, []),
    "updating is no loss": ({B1: "updating", B0: 100}, 2, 1, [replica(0)]),
    "a missing PodClique is no loss": ({B1: "missing", B0: 100}, 2, 1, [replica(0)]),
    "the whole includes its parts": ({A: 100, B0: 100}, 2, 1, [WHOLE]),
    "a part goes before the whole is due": ({A: 50, B0: 100}, 2, 1, [replica(0)]),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_terminated(case: str) -> None:
    states, replicas, minimum, wanted = CASES[case]
    assert targets(paper(states, replicas, minimum)) == wanted


def test_a_scaled_group_counts_its_live_replicas() -> None:
    made = paper({B0: 100, C1: 100}, 2, 1, **{"web-0-g": 3})
    assert targets(made) == [replica(0), replica(1)]


def test_nothing_is_terminated_that_the_set_has_no_more() -> None:
    made = paper({A: 500})
    assert plan(made, 1) == TerminationPlan()


def test_an_update_of_the_group_suspends() -> None:
    made = paper({C0: 500, C1: 500})
    tpl = made.template
    for ended, wanted in ({}, []), ({"updateEndedAt": rfc3339(NOW)}, [WHOLE]):
        progress = {"updateStartedAt": rfc3339(NOW), "currentlyUpdating": [{"replicaIndex": 0}], **ended}
        status = {"currentGenerationHash": tpl.generation_hash, "updateProgress": progress}
        made.template = template({**tpl.pcs.wire, "status": status})
        assert targets(made) == wanted


# What is to come


def test_the_time_that_is_left() -> None:
    todo = plan(paper({A: 30, C0: 70}, 2, 1))
    assert todo.now == ()
    assert todo.again_after == 30
    assert {name: (due.at - NOW, due.target) for name, due in todo.due.items()} == {
        A: (70, WHOLE),
        C0: (30, replica(0)),
    }


def test_without_a_breach_there_is_nothing_to_wait_for() -> None:
    assert plan(paper({})) == TerminationPlan()


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("1h30m", 5400), ("500ms", 0.5), (None, 14400), ("soon", 14400), ("-1s", 14400)]
)
def test_the_delay(text: str | None, seconds: float) -> None:
    obj = pod_set(clique("a")) if text is None else pod_set(clique("a"), terminationDelay=text)
    assert termination_delay(template(obj)) == seconds


def test_a_new_delay_counts_from_the_beginning_of_the_breach() -> None:
    made = paper({A: 30})
    made.template.pcs.wire["spec"]["template"]["terminationDelay"] = "20s"
    obj = {**made.template.pcs.wire}
    made.template = template(obj)
    assert targets(made) == [WHOLE]


# Marking


def writes(made: Paper) -> tuple[set[str], set[str]]:
    """Names of the PodCliques marked in the first and in the second step."""
    (termination,) = plan(made).now
    others, causes = termination_writes(termination, made.podcliques, made.pods, DELAY, rfc3339(NOW))
    return {patch.name for patch in others}, {patch.name for patch in causes}


def test_the_cause_is_marked_last() -> None:
    assert writes(paper({A: 100})) == ({B0, C0, B1, C1}, {A})
    assert writes(paper({C1: 100})) == ({B1}, {C1})
    assert writes(paper({A: 100, C0: 200, C1: 150})) == ({B0, B1}, {A, C0, C1})


def test_who_was_marked_since_is_left_alone() -> None:
    """A crash between the two steps: those marked, and those that are whole again, are not marked anew."""
    made = paper({A: 150, B0: "terminated 20"})
    made.podcliques[C0] = in_state(made.podcliques[C0], "terminated 60")
    made.podcliques[B1] = in_state(made.podcliques[B1], "healthy")
    recovered = one("GangTerminationInProgress", "False", rfc3339(NOW - 10))
    wire = merge_patch(made.podcliques[C1].wire, {"status": {"conditions": [recovered]}})
    made.podcliques[C1] = PodClique.from_wire(wire)
    assert writes(made) == ({C0, B1}, {A})  # due 50 seconds ago


def test_idle_and_leaving_ones_are_left_alone() -> None:
    made = paper({A: 100, B1: "deleting"}, **{C0: 0})
    assert writes(made) == ({B0, C1}, {A})


def test_a_mark_is_guarded_by_the_version_it_was_made_from() -> None:
    made = paper({A: 100})
    made.fill(ready=True)
    (termination,) = plan(made).now
    _, (patch,) = termination_writes(termination, made.podcliques, made.pods, DELAY, rfc3339(NOW))
    assert isinstance(patch, Patch)
    assert isinstance(patch.body, dict)
    assert (patch.subresource, patch.uid) == ("status", "uid-web-0-a")
    assert patch.body["metadata"] == {"resourceVersion": "1"}
    assert "100s" in termination.message(DELAY) or "1m40s" in termination.message(DELAY)
    assert A in termination.message(DELAY)
