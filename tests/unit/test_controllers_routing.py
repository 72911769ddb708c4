"""Which passes a change wakes."""

from collections.abc import Mapping
from typing import Any

import pytest

from grove.api import labels
from grove.controllers.routing import AT_ONCE, IN_CASE, LATER, SOON, Router, Wake
from grove.controllers.world import World
from grove.plan.kinds import (
    CLUSTERTOPOLOGYBINDING,
    POD,
    PODCLIQUE,
    PODCLIQUESCALINGGROUP,
    PODCLIQUESET,
    PODGANG,
    SERVICE,
)
from grove.plan.replica import ReplicaSnapshot, plan_children, plan_gangs
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored

SOURCE = pod_set(clique("a"), clique("b"), groups=[group("g", ["b"])], replicas=2)
PAPER = Paper.of(SOURCE)
GROUP = PAPER.scaling_groups["web-0-g"].wire
STANDALONE = PAPER.podcliques["web-0-a"].wire
MEMBER = PAPER.podcliques["web-0-g-0-b"].wire
RESOURCES = {resource.kind: resource for resource in (PODCLIQUE, PODCLIQUESCALINGGROUP, PODGANG, SERVICE)}


Key = tuple[str | int, ...]


class Woken:
    """A router at work in a world that has the set `source`, and the keys it wakes."""

    def __init__(self, source: Object = SOURCE) -> None:
        self.world = World()
        self.within: dict[Key, float] = {}
        """by what the last news woke: within how many seconds at the latest"""
        self.router = Router(
            self.world,
            Wake(
                podcliqueset=lambda key, within: self._wake(("set", *key), within),
                replica=lambda key, within: self._wake(("replica", *key), within),
                scaling_group=lambda key, within: self._wake(("group", *key), within),
                podclique=lambda key, within: self._wake(("podclique", *key), within),
            ),
        )
        self.router.connect()
        self.by(PODCLIQUESET, stored(source, labels={}), 1)

    def _wake(self, key: Key, within: float) -> None:
        self.within[key] = min(within, self.within.get(key, within))

    def by(
        self,
        resource: ResourceType,
        obj: Object,
        version: int,
        *,
        ours: bool = True,
        tags: Mapping[str, str | None] | None = None,
    ) -> set[Key]:
        """What the news of an object wakes, whose labels are changed (None: removed).

        `ours` is the answer to a write, else a watch tells.
        """
        self.within.clear()
        metadata = {**obj["metadata"], "resourceVersion": str(version)}
        merged = {**metadata["labels"], **(tags or {})}
        metadata["labels"] = {key: value for key, value in merged.items() if value is not None}
        news = {**obj, "metadata": metadata}
        if ours:
            self.world.take(resource, news)
        else:
            feed = self.world._feed(resource)
            assert feed is not None
            store, view = feed
            store.put(view(news))
        return set(self.within)


REPLICA = ("replica", "default", "web", 0)
SET = ("set", "default", "web")


@pytest.mark.parametrize("label", [labels.PART_OF, labels.PODCLIQUESET_REPLICA_INDEX])
@pytest.mark.parametrize("value", [None, "7"])
@pytest.mark.parametrize(("resource", "obj"), [(PODCLIQUE, STANDALONE), (PODCLIQUESCALINGGROUP, GROUP)])
def test_who_takes_a_label_away_wakes_the_pass_that_puts_it_back(
    resource: ResourceType, obj: Object, label: str, value: str | None
) -> None:
    woken = Woken()
    woken.by(resource, obj, 2)
    assert {REPLICA, SET} <= woken.by(resource, obj, 3, tags={label: value})


@pytest.mark.parametrize("value", [None, "another"])
def test_a_member_that_loses_its_group_wakes_the_group(value: str | None) -> None:
    woken = Woken()
    woken.by(PODCLIQUE, MEMBER, 2)
    assert ("group", "default", "web-0-g") in woken.by(PODCLIQUE, MEMBER, 3, tags={labels.SCALING_GROUP: value})


def test_a_pod_taken_from_its_podclique_wakes_it() -> None:
    woken = Woken()
    woken.by(PODCLIQUE, STANDALONE, 2)
    pod = pod_wire(PAPER.podcliques["web-0-a"], 0)
    woken.by(POD, pod, 3)
    free = {**pod, "metadata": {**pod["metadata"], "ownerReferences": []}}
    assert woken.by(POD, free, 4) == {("podclique", "default", "web-0-a"), REPLICA}
    assert woken.by(POD, free, 5, tags={"some": "label"}) == set()


def test_news_without_a_change_of_labels_wake_nobody_else() -> None:
    woken = Woken()
    assert woken.by(PODCLIQUE, STANDALONE, 2) == {("podclique", "default", "web-0-a"), REPLICA, SET}
    assert woken.by(PODCLIQUE, MEMBER, 3) == {
        ("podclique", "default", "web-0-g-0-b"),
        ("group", "default", "web-0-g"),
        REPLICA,
        SET,
    }


@pytest.mark.parametrize("current", [None, 0, 1])
def test_a_pod_wakes_the_set_that_judges_the_update_of_its_replica(current: int | None) -> None:
    """It looks at pods, and the status of a PodClique need not move when pods are back within a moment."""
    woken = Woken()
    progress: Object = {"updateStartedAt": NOW}
    if current is not None:
        progress["currentlyUpdating"] = [{"replicaIndex": current}]
    status = {"currentGenerationHash": PAPER.template.generation_hash, "updateProgress": progress}
    pcs = stored(SOURCE, labels={})
    woken.by(PODCLIQUESET, {**pcs, "status": status}, 2)
    woken.by(PODCLIQUE, STANDALONE, 3)
    pod = pod_wire(PAPER.podcliques["web-0-a"], 0, tpl=PAPER.template, ready=True)
    assert (SET in woken.by(POD, pod, 4)) == (current == 0)


# How soon


def paper(*, grouped: bool = False, ordered: bool = False, replicas: int = 1) -> tuple[Object, Paper]:
    """A set of two cliques, and its replica; one pod of clique a is enough."""
    second = clique("b", startsAfter=["a"]) if ordered else clique("b")
    startup = "CliqueStartupTypeExplicit" if ordered else "CliqueStartupTypeAnyOrder"
    source = pod_set(
        clique("a", replicas, 1), second, groups=[group("g", ["b"])] if grouped else [], cliqueStartupType=startup
    )
    return source, Paper.of(source)


@pytest.mark.parametrize("grouped", [False, True])
def test_what_a_pass_has_made_itself_is_looked_at_with_the_next_news(grouped: bool) -> None:
    source, made = paper(grouped=grouped)
    snapshot = ReplicaSnapshot(podcliques=made.podcliques, scaling_groups=made.scaling_groups)
    children = [write.body for write in plan_children(made.template, 0, ReplicaSnapshot()) if isinstance(write, Create)]
    plans = plan_gangs(made.template, 0, snapshot, hurry=lambda _: True, now=NOW)
    gangs = [write.body for plan in plans.values() for write in plan.spec if isinstance(write, Create)]
    for ours in (True, False):
        woken = Woken(source)
        found = {}
        for obj in children + gangs:
            woken.by(RESOURCES[obj["kind"]], stored(obj), 2, ours=ours)
            found[obj["kind"]] = woken.within[REPLICA]
        assert found.pop("PodCliqueScalingGroup", AT_ONCE) == AT_ONCE  # another pass gives it its PodCliques
        assert set(found) == {"Service", "PodClique", "PodGang"}
        assert all(within == IN_CASE if ours else within <= SOON for within in found.values())


def test_a_podclique_that_the_pass_of_its_group_made_is_looked_at_at_once() -> None:
    woken = Woken()
    woken.by(PODCLIQUE, MEMBER, 2)
    assert woken.within[REPLICA] == AT_ONCE


def pod_of_a(made: Paper, **fields: Any) -> Object:
    return pod_wire(made.podcliques["web-0-a"], 0, tpl=made.template, **fields)


def urgency(source: Object, made: Paper, pod: Object, *, ours: bool = False) -> float:
    """Within how many seconds the replica's pass looks at a pod of clique a that was gated before."""
    woken = Woken(source)
    woken.by(PODCLIQUE, made.podcliques["web-0-a"].wire, 2)
    woken.by(POD, pod_of_a(made), 3)
    woken.by(POD, pod, 4, ours=ours)
    return woken.within[REPLICA]


@pytest.mark.parametrize(("ours", "within"), [(True, IN_CASE), (False, LATER)])
def test_the_gates_that_a_pass_has_lifted_are_no_news_to_it(ours: bool, within: float) -> None:
    source, made = paper()
    lifted = pod_of_a(made)
    lifted["spec"]["schedulingGates"] = []
    assert urgency(source, made, lifted, ours=ours) == within


def test_an_answer_that_tells_more_than_what_was_written_is_news() -> None:
    source, made = paper(grouped=True)
    assert urgency(source, made, pod_of_a(made, node="n"), ours=True) == SOON


@pytest.mark.parametrize(("grouped", "replicas", "within"), [(True, 1, SOON), (False, 2, SOON), (False, 1, LATER)])
def test_a_pod_on_a_node_is_urgent_where_others_may_wait_for_it(grouped: bool, replicas: int, within: float) -> None:
    source, made = paper(grouped=grouped, replicas=replicas)
    assert urgency(source, made, pod_of_a(made, node="n")) == within


@pytest.mark.parametrize(("ordered", "within"), [(True, SOON), (False, LATER)])
def test_a_pod_that_got_ready_is_urgent_where_cliques_start_after_it(ordered: bool, within: float) -> None:
    source, made = paper(ordered=ordered)
    assert urgency(source, made, pod_of_a(made, ready=True)) == within


def test_a_pod_found_ready_that_was_gated_counts_for_all_that_has_happened() -> None:
    """A watch that was away tells of both at once."""
    source, made = paper(grouped=True)
    assert urgency(source, made, pod_of_a(made, ready=True)) == SOON


def test_a_podclique_that_says_it_never_had_its_minimum_is_looked_at_with_its_gang() -> None:
    """Its status may come after the last news of a gang that was placed in part."""
    woken = Woken()
    woken.by(PODCLIQUE, STANDALONE, 2)
    breached = {
        "type": "MinAvailableBreached",
        "status": "True",
        "reason": "R",
        "message": "m",
        "lastTransitionTime": NOW,
    }
    short = {**STANDALONE, "status": {"conditions": [breached]}}
    woken.by(PODCLIQUE, short, 3)
    assert woken.within[REPLICA] == SOON
    assert REPLICA not in woken.by(PODCLIQUE, {**short, "status": {**short["status"], "replicas": 1}}, 4)


def test_levels_that_change_wake_the_sets_that_speak_of_them() -> None:
    levels = {"levels": [{"domain": "rack", "key": "example.com/rack"}]}
    named = {"topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}
    woken = Woken(pod_set(clique("a") | named, replicas=2))
    woken.world = world = World(topology_aware=True)
    woken.router = Router(world, woken.router._wake)
    woken.router.connect()
    woken.by(PODCLIQUESET, stored(pod_set(clique("a") | named, replicas=2), labels={}), 1)
    woken.by(PODCLIQUESET, stored(pod_set(clique("a"), name="other"), labels={}), 2)
    for number, name in enumerate(("t", "u")):
        binding: Object = {"metadata": {"name": name, "uid": name, "labels": {}}, "spec": levels}
        wanted = {SET, REPLICA, ("replica", "default", "web", 1)} if name == "t" else set()
        assert woken.by(CLUSTERTOPOLOGYBINDING, binding, 10 + number) == wanted
        binding["status"] = {"observedGeneration": 1}
        assert woken.by(CLUSTERTOPOLOGYBINDING, binding, 20 + number) == set()
        binding["spec"] = {"levels": [{"domain": "rack", "key": "example.com/row"}]}
        assert woken.by(CLUSTERTOPOLOGYBINDING, binding, 30 + number) == wanted


def test_what_is_left_of_a_set_wakes_none_of_its_replicas() -> None:
    woken = Woken()
    woken.by(PODCLIQUE, STANDALONE, 2)
    woken.within.clear()
    template = woken.world.sets.get("default", "web")
    assert template is not None
    woken.world.sets.remove("default", "web", template.uid, 9)
    assert set(woken.within) == {SET, REPLICA, (*REPLICA[:3], 1)}  # for them to be forgotten
    woken.within.clear()
    woken.world.podcliques.remove("default", "web-0-a", STANDALONE["metadata"]["uid"], 10)
    assert set(woken.within) == {SET, ("podclique", "default", "web-0-a")}
