"""Kubernetes' own gangs: which objects a gang becomes in each tier, and which pods are in which group."""

import copy
from dataclasses import replace
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.writes import Create, Delete, Patch
from grove.schedulers.native import COMPOSITE, LARGE, PODGROUP
from tests.unit.gangs import BOTH, SET, Stage, counts, scaled, stage
from tests.unit.support import Object, clique, group, pod_set


def group_of(made: Stage, podclique: str) -> dict[int, str]:
    """The group of each pod of a PodClique, by index; "" for none."""
    pods = made.paper.pods[made.paper.podcliques[podclique].uid]
    return {pod.index: pod.scheduling_group for pod in pods}


def kinds(writes: Any) -> list[tuple[str, str]]:
    return [(type(write).__name__, write.resource.kind) for write in writes]


# Which pods are in a group


def test_the_first_pods_of_a_clique_are_in_its_group_and_the_surplus_in_none() -> None:
    made = stage()
    first, second, third = group_of(made, "web-0-a").values()
    assert first == second
    assert first.startswith("web-0-a-")
    assert third == ""
    assert [bool(name) for name in group_of(made, "web-0-g-1-c").values()] == [True, False]
    assert group_of(made, "web-0-g-0-c")[0] != group_of(made, "web-0-g-1-c")[0]


def test_with_podgroups_alone_the_minimums_of_a_gang_share_one_group() -> None:
    made = stage(served={PODGROUP})
    base = {name for podclique in ("a", "g-0-b", "g-0-c") for name in group_of(made, f"web-0-{podclique}").values()}
    scaled = {name for podclique in ("g-1-b", "g-1-c") for name in group_of(made, f"web-0-{podclique}").values()}
    assert len(base - {""}) == len(scaled - {""}) == 1
    assert base & scaled == {""}


@pytest.mark.parametrize("served", [set(), {COMPOSITE}])
def test_without_podgroups_pods_are_as_they_are_written(served: Any) -> None:
    obj = pod_set(clique("a", 2), priorityClassName="high")
    made = stage(obj, served)
    [pod] = made.add("web-0-a", 5)
    assert "schedulingGroup" not in pod["spec"]
    assert "priorityClassName" not in pod["spec"]
    assert made.settle("web-0") == ()


def test_a_successor_joins_the_group_of_its_index() -> None:
    made = stage()
    before = group_of(made, "web-0-a")
    made.remove("web-0-a", 1, 2)
    made.add("web-0-a", 1, 2, predecessor="x")
    assert group_of(made, "web-0-a") == before


def test_a_set_of_the_same_name_has_other_groups() -> None:
    """The old ones stay as long as the old pods do, held by a finalizer."""
    made = stage()
    again = stage()
    owner = again.paper.podcliques["web-0-a"]
    again.paper.podcliques["web-0-a"] = PodClique.from_wire(
        {**owner.wire, "metadata": {**owner.wire["metadata"], "uid": "another"}}
    )
    [pod] = again.add("web-0-a", 0)
    assert pod["spec"]["schedulingGroup"]["podGroupName"] not in group_of(made, "web-0-a").values()


# The objects of a gang


def test_a_gang_becomes_a_tree() -> None:
    made = stage()
    assert kinds(made.settle("web-0")) == [("Create", "PodGroup")] * 3 + [("Create", "CompositePodGroup")]
    assert counts(made) == {"web-0-a": 2, "web-0-g-0-b": 1, "web-0-g-0-c": 1}
    [(root, spec)] = made.offer.specs(COMPOSITE).items()
    assert spec == {
        "schedulingPolicy": {"gang": {"minGroupCount": 3}},
        "disruptionMode": {"all": {}},
        "workloadRef": {"workloadName": "web-0", "templateName": "gang"},
    }
    for name, leaf in made.offer.specs(PODGROUP).items():
        assert leaf["parentCompositePodGroupName"] == root
        assert "disruptionMode" not in leaf
        assert name in {one for podclique in made.paper.podcliques for one in group_of(made, podclique).values()}
    assert {obj["metadata"]["ownerReferences"][0]["kind"] for obj in made.offer.objects.values()} == {
        "PodClique",
        "PodGang",
    }


def test_a_scaled_gang_is_a_tree_of_its_own() -> None:
    made = stage()
    made.settle("web-0")
    made.settle("web-0-g-0")
    assert counts(made) == {"web-0-a": 2, "web-0-g-0-b": 1, "web-0-g-0-c": 1, "web-0-g-1-b": 1, "web-0-g-1-c": 1}
    roots = made.offer.specs(COMPOSITE)
    assert [spec["schedulingPolicy"]["gang"]["minGroupCount"] for spec in roots.values()] == [3, 2]


def roots(made: Stage) -> list[Object]:
    """The specs of the objects at the top of the gang, once all is written."""
    made.settle("web-0")
    return [obj["spec"] for obj in made.offer.objects.values() if "disruptionMode" in obj["spec"]]


BIG = pod_set(clique("a", LARGE), clique("b", 1))


@pytest.mark.parametrize("served", [BOTH, {PODGROUP}])
@pytest.mark.parametrize("obj", [BIG, pod_set(clique("a", LARGE + 1))], ids=["tree", "alone"])
def test_the_root_of_a_large_gang_comes_when_the_gates_are_off(obj: Object, served: Any) -> None:
    """The scheduler sets pods without a root aside, and looks at all below one whenever another comes."""
    made = stage(obj, served)
    assert roots(made) == []
    made.fill(gated=False)
    assert len(roots(made)) == 1


@pytest.mark.parametrize("obj", [SET, pod_set(clique("a", LARGE))], ids=["tree", "alone"])
def test_the_root_of_a_small_gang_comes_first(obj: Object) -> None:
    assert len(roots(stage(obj))) == 1


def test_a_large_gang_that_starts_anew_gets_a_new_root() -> None:
    made = stage(BIG)
    made.fill(gated=False)
    made.settle("web-0")
    made.fill(predecessor="x")
    assert kinds(made.settle("web-0")) == [("Delete", "CompositePodGroup")]
    made.fill(predecessor="x", gated=False)
    assert kinds(made.settle("web-0")) == [("Create", "CompositePodGroup")]
    # While it runs it keeps its root, whatever else comes.
    made.remove("web-0-a", 0, 1)
    made.add("web-0-a", 0, node="n")
    made.add("web-0-a", 1, predecessor="y")
    assert made.settle("web-0") == ()


def test_one_clique_alone_needs_but_one_object() -> None:
    made = stage(pod_set(clique("a", 2)))
    assert kinds(made.settle("web-0")) == [("Create", "PodGroup")]
    [spec] = made.offer.specs(PODGROUP).values()
    assert spec["schedulingPolicy"] == {"gang": {"minCount": 2}}
    assert spec["disruptionMode"] == {"all": {}}
    assert "parentCompositePodGroupName" not in spec


def test_one_clique_that_may_get_company_has_a_tree() -> None:
    """Its group could not get a parent later."""
    made = stage(pod_set(clique("a", 2), clique("b", 0)))
    assert kinds(made.settle("web-0")) == [("Create", "PodGroup"), ("Create", "CompositePodGroup")]


def test_with_podgroups_alone_a_gang_is_one_group_of_all_minimums() -> None:
    made = stage(served={PODGROUP})
    made.settle("web-0")
    assert counts(made) == {"web-0": 4}
    assert made.offer.specs(COMPOSITE) == {}
    [spec] = made.offer.specs(PODGROUP).values()
    assert set(spec) == {"schedulingPolicy", "disruptionMode"}


def constrained() -> Stage:
    """The set of the other tests, with a constraint of its own, one of its group, one of a clique in and out of it."""
    obj = copy.deepcopy(SET)
    template = obj["spec"]["template"]
    a, b, _ = template["cliques"]
    for owner, level in ((template, "block"), (template["podCliqueScalingGroups"][0], "rack"), (a, "host")):
        owner["topologyConstraint"] = {"topologyName": "t", "pack": {"required": level}}
    b["topologyConstraint"] = {"topologyName": "t", "pack": {"preferred": "host"}}
    return stage(obj)


def pack(**levels: str) -> Object:
    return {"packConstraint": levels}


LEVELS = Topology(
    "t", pack(required="block", preferred="rack"), {"g": pack(required="rack")},
    {"a": pack(required="host"), "b": pack(preferred="host")},
)  # fmt: skip
"""What the constraints of that set mean."""


def tree(made: Stage) -> dict[str, tuple[str, str, int]]:
    """Parent, level and number of children of the CompositePodGroups, and of PodGroups; by name without the hash."""
    parents: dict[str, tuple[str, str, int]] = {}
    for name, spec in (made.offer.specs(COMPOSITE) | made.offer.specs(PODGROUP)).items():
        (count,) = spec["schedulingPolicy"]["gang"].values()
        levels = spec.get("schedulingConstraints", {}).get("topology", [])
        kind = "" if "minCount" in spec["schedulingPolicy"]["gang"] else "/composite"
        parent = spec.get("parentCompositePodGroupName", "").rpartition("-")[0]
        parents[name.rpartition("-")[0] + kind] = parent, "".join(level["key"] for level in levels), count
    return parents


TREE = {
    "web-0/composite": ("", "block", 2),
    "web-0-a/composite": ("web-0", "host", 1),
    "web-0-g-0/composite": ("web-0", "rack", 2),
    "web-0-g-0-b/composite": ("web-0-g-0", "", 1),
    "web-0-a": ("web-0-a", "", 2),
    "web-0-g-0-b": ("web-0-g-0-b", "", 1),
    "web-0-g-0-c": ("web-0-g-0", "", 1),
}


def bare(shown: dict[str, tuple[str, str, int]]) -> dict[str, tuple[str, str, int]]:
    """The same without levels."""
    return {name: (parent, "", count) for name, (parent, _, count) in shown.items()}


def settled(made: Stage, topology: Topology = LEVELS, gang: str = "web-0") -> dict[str, tuple[str, str, int]]:
    """The tree of a gang once the levels are so."""
    made.topology = topology
    made.settle(gang)
    return tree(made)


def test_topology_that_is_required_is_on_its_level() -> None:
    assert settled(constrained()) == TREE


def test_a_scaled_gang_has_the_level_of_its_group() -> None:
    """Replica 0 of the group is in the base gang; the first scaled gang, of replica 1, is counted from 0, too."""
    made = constrained()
    settled(made)
    settled(made, gang="web-0-g-0")
    found = [spec for name, spec in made.offer.specs(COMPOSITE).items() if name.rpartition("-")[0] == "web-0-g-0"]
    assert [spec["schedulingConstraints"]["topology"] for spec in found] == [[{"key": "rack"}]] * 2
    assert settled(made) == tree(made)


def test_a_clique_may_be_called_like_the_replica_of_a_group() -> None:
    one = clique("g-0", 2) | {"topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}}}
    of_group = {"topologyConstraint": {"topologyName": "t", "pack": {"required": "block"}}}
    made = stage(pod_set(one, clique("b"), groups=[group("g", ["b"]) | of_group]))
    settled(made, Topology("t", None, {"g": pack(required="block")}, {"g-0": pack(required="rack")}))
    specs = made.offer.specs(COMPOSITE)
    keys = [
        (spec.get("schedulingConstraints") or {"topology": [{"key": ""}]})["topology"][0]["key"]
        for spec in specs.values()
    ]
    assert sorted(keys) == ["", "block", "rack"]


def test_one_clique_alone_has_a_root_where_there_is_topology() -> None:
    one = clique("a", 2) | {"topologyConstraint": {"topologyName": "t", "pack": {"required": "host"}}}
    assert settled(stage(pod_set(one)), Topology("t", None, {}, {"a": pack(required="h")})) == {
        "web-0/composite": ("", "", 1), "web-0-a/composite": ("web-0", "h", 1), "web-0-a": ("web-0-a", "", 2)
    }  # fmt: skip


def test_levels_that_change_make_new_roots_while_the_gang_waits() -> None:
    made = constrained()
    settled(made)
    made.topology = replace(LEVELS, whole=pack(required="row"))
    assert kinds(made.settle("web-0"))[-2:] == [("Delete", "CompositePodGroup"), ("Create", "CompositePodGroup")]
    assert tree(made) == TREE | {"web-0/composite": ("", "row", 2)}
    assert settled(made, NOWHERE) == bare(TREE)
    assert settled(made) == TREE


def test_a_gang_that_is_placed_may_lose_its_levels_but_gets_no_new_ones() -> None:
    """Its pods may be in two racks by now: no successor could be in the rack of both."""
    made = constrained()
    settled(made)
    made.fill(node="n")
    assert settled(made, replace(LEVELS, whole=pack(required="row"))) == TREE
    assert settled(made, NOWHERE) == bare(TREE)
    assert settled(made) == bare(TREE)
    made.fill()  # all pods are new
    assert settled(made) == TREE


def test_what_is_made_anew_above_pods_that_are_placed_is_as_it_was() -> None:
    """A clique goes idle and comes back, somebody deletes an object, the operator dies between delete and create."""
    made = constrained()
    settled(made, replace(LEVELS, whole=pack(required="row")))
    made.fill(node="n")
    before = settled(made)
    assert before["web-0/composite"] == ("", "row", 2)
    a = made.paper.podcliques["web-0-a"]
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 0)
    pods = made.paper.pods.pop(a.uid)
    assert settled(made)["web-0/composite"] == ("", "row", 1)
    made.paper.podcliques["web-0-a"], made.paper.pods[a.uid] = a, pods
    assert settled(made)["web-0/composite"] == ("", "row", 2)
    for key in [key for key in made.offer.objects if key[0] == COMPOSITE]:
        del made.offer.objects[key]
    assert settled(made) == before


def test_a_clique_that_comes_up_beside_placed_ones_has_its_own_level() -> None:
    made = constrained()
    a = made.paper.podcliques["web-0-a"]
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 0)
    del made.paper.pods[a.uid]
    settled(made)
    for podclique in ("web-0-g-0-b", "web-0-g-0-c"):
        made.remove(podclique, 0, 1)
        made.add(podclique, 0, 1, node="n")
    settled(made)
    made.paper.podcliques["web-0-a"] = a
    made.add("web-0-a", 0, 1, 2)
    assert settled(made) == TREE


# Changes


@pytest.mark.parametrize(("minimum", "count"), [(1, 1), (3, 2)])
def test_minreplicas_changes_as_far_as_pods_are_in_the_group(minimum: int, count: int) -> None:
    """Raised, the third pod is in no group: as yet the group can ask for no more than its two."""
    made = stage()
    made.settle("web-0")
    after = stage(pod_set(*[{**SET["spec"]["template"]["cliques"][0], "spec": {
        **SET["spec"]["template"]["cliques"][0]["spec"], "minAvailable": minimum}}],
        *SET["spec"]["template"]["cliques"][1:], groups=SET["spec"]["template"]["podCliqueScalingGroups"]))  # fmt: skip
    after.paper.pods, after.offer = made.paper.pods, made.offer
    writes = after.settle("web-0")
    assert kinds(writes) == ([("Patch", "PodGroup")] if count != 2 else [])
    assert counts(after)["web-0-a"] == count
    # A successor of the third joins the group, which may then ask for three.
    after.remove("web-0-a", 2)
    after.add("web-0-a", 2, predecessor="x")
    after.settle("web-0")
    assert counts(after)["web-0-a"] == minimum


def test_a_scale_in_that_takes_a_member_lowers_what_the_group_asks_for() -> None:
    """Else the group waited for a pod that does not come, and with it every other pod of the gang."""
    made = stage(pod_set(clique("a", 3, min_available=2), clique("b", 1)))
    made.settle("web-0")
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 2)
    made.remove("web-0-a", 0)
    assert kinds(made.settle("web-0")) == [("Patch", "PodGroup")]
    assert counts(made) == {"web-0-a": 1, "web-0-b": 1}


def test_a_member_that_is_to_come_again_is_counted_on() -> None:
    made = stage()
    made.settle("web-0")
    made.remove("web-0-a", 0, 1)
    assert made.settle("web-0") == ()


def test_a_clique_that_goes_idle_leaves_the_tree_and_comes_back() -> None:
    made = stage(pod_set(clique("a", 2), clique("b", 1)))
    made.settle("web-0")
    [root] = made.offer.specs(COMPOSITE)
    made.paper.podcliques["web-0-b"] = scaled(made, "web-0-b", 0)
    made.remove("web-0-b", 0)
    # The count of a CompositePodGroup cannot change: it is made anew, under the name its groups know.
    assert kinds(made.settle("web-0")) == [
        ("Delete", "PodGroup"),
        ("Delete", "CompositePodGroup"),
        ("Create", "CompositePodGroup"),
    ]
    assert made.offer.specs(COMPOSITE)[root]["schedulingPolicy"]["gang"]["minGroupCount"] == 1
    made.paper.podcliques["web-0-b"] = scaled(made, "web-0-b", 1)
    made.add("web-0-b", 0)
    made.settle("web-0")
    assert made.offer.specs(COMPOSITE)[root]["schedulingPolicy"]["gang"]["minGroupCount"] == 2
    assert counts(made) == {"web-0-a": 2, "web-0-b": 1}


def test_what_is_on_its_way_out_is_waited_for() -> None:
    made = stage()
    made.settle("web-0")
    for obj in made.offer.objects.values():
        obj["metadata"]["deletionTimestamp"] = "2026-09-01T00:00:00Z"
    made.paper.podcliques["web-0-a"] = scaled(made, "web-0-a", 1)
    made.remove("web-0-a", 1, 2)
    assert made.settle("web-0") == ()


def test_pods_move_to_groups_of_another_priority_one_by_one() -> None:
    """A pod's group, its priority and the priority of a group cannot change, so a rolling update changes groups."""
    low, high = (pod_set(clique("a", 2), clique("b", 1), priorityClassName=name) for name in ("low", "high"))
    made = stage(low)
    assert {pod["spec"]["priorityClassName"] for pod in made.add("web-0-a", 7)} == {"low"}
    made.remove("web-0-a", 7)
    made.settle("web-0")
    after = stage(high)
    after.paper.pods, after.offer = made.paper.pods, made.offer
    assert after.settle("web-0") == ()  # no pod is in the new groups yet
    for step, podclique, index in ((1, "web-0-a", 0), (2, "web-0-a", 1), (3, "web-0-b", 0)):
        after.remove(podclique, index)
        after.add(podclique, index, predecessor="x")
        after.settle("web-0")
        high_ones = [s for s in after.offer.specs(PODGROUP).values() if s["priorityClassName"] == "high"]
        asked = sum(spec["schedulingPolicy"]["gang"]["minCount"] for spec in high_ones)
        assert asked == step
        [root] = [s for s in after.offer.specs(COMPOSITE).values() if s["priorityClassName"] == "high"]
        assert root["schedulingPolicy"]["gang"]["minGroupCount"] == len(high_ones)
    # The old groups and their root went with their last pod.
    assert {s["priorityClassName"] for s in after.offer.specs(PODGROUP).values()} == {"high"}
    assert {s["priorityClassName"] for s in after.offer.specs(COMPOSITE).values()} == {"high"}


def test_pods_of_a_cluster_without_gangs_move_to_groups_once_there_are_some() -> None:
    made = stage(pod_set(clique("a", 2), clique("b", 1)), set())
    made.offer.served |= BOTH
    assert made.settle("web-0") == ()
    [want] = made.backend.placement(made.view("web-0")).conditions
    assert (want.status, want.reason) == (False, "PodsOutsideGroups")
    assert want.message.startswith("3 pods ")
    made.remove("web-0-a", 1)
    made.add("web-0-a", 1)
    made.settle("web-0")
    assert counts(made) == {"web-0-a": 1}
    assert made.held("web-0") == set()  # they are no surplus: the minimum is not met without them


def test_a_patch_says_no_more_than_the_count() -> None:
    made = stage()
    made.settle("web-0")
    name = next(name for name in made.offer.specs(PODGROUP) if name.startswith("web-0-a-"))
    made.offer.specs(PODGROUP)[name]["schedulingPolicy"]["gang"]["minCount"] = 7
    made.offer.specs(PODGROUP)[name]["priority"] = 0  # which the API server filled in
    [write] = made.settle("web-0")
    assert isinstance(write, Patch)
    assert write.body == {"spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}}
    assert not any(isinstance(one, Create | Delete) for one in (write,))
