"""The start order: edges, their expansion to PodCliques, levels and cycles."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.plan.children import member_podclique, standalone_podclique
from grove.plan.startup import Place, find_cycles, levels, starts_after, waiting_places
from tests.unit.support import Object, Paper, clique, group, pod_set, sample, template

IN_ORDER, EXPLICIT, ANY = "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit", "CliqueStartupTypeAnyOrder"


def a_set(startup_type: str, **after: list[str]) -> Object:
    """Standalone a and e around a group g of b, c, d: three replicas, two of them in the base gang."""
    cliques = [clique(name, 2, 1, startsAfter=after.get(name)) for name in "abcde"]
    return pod_set(*cliques, groups=[group("g", ["b", "c", "d"], 3, 2)], cliqueStartupType=startup_type)


def after(obj: Object, place: Place) -> list[str]:
    return starts_after(template(obj), 0, place)


# Edges


@pytest.mark.parametrize(
    ("startup_type", "expected"),
    [
        (ANY, {}),
        (IN_ORDER, {"b": ("a",), "c": ("b",), "d": ("c",), "e": ("d",)}),
        (EXPLICIT, {"c": ("a", "b"), "a": ("e",)}),
    ],
)
def test_edges(startup_type: str, expected: dict[str, tuple[str, ...]]) -> None:
    """In order each clique has one parent, that before it; startsAfter counts with Explicit only."""
    assert template(a_set(startup_type, c=["a", "b"], a=["e"])).starts_after == expected


def test_names_of_nobody_do_not_count() -> None:
    """Admission refuses them, but may be away: twice the same, itself, and a clique that is not there."""
    assert template(a_set(EXPLICIT, b=["a", "x", "b", "a"], c=["x"])).starts_after == {"b": ("a",)}


# Expansion (reference 4)


def test_the_base_gang_waits_for_every_base_replica_of_a_group() -> None:
    obj = a_set(EXPLICIT, e=["b"], c=["b", "a"])
    assert after(obj, Place("e")) == ["web-0-g-0-b", "web-0-g-1-b"]
    for index in (0, 1):
        assert after(obj, Place("c", "g", index)) == ["web-0-g-0-b", "web-0-g-1-b", "web-0-a"]


def test_a_scaled_gang_waits_within_its_replica_only() -> None:
    obj = a_set(EXPLICIT, c=["b", "a", "e"], d=["a"])
    assert after(obj, Place("c", "g", 2)) == ["web-0-g-2-b"]
    assert after(obj, Place("d", "g", 2)) == []


def test_in_order_across_the_groups_border() -> None:
    obj = a_set(IN_ORDER)
    assert after(obj, Place("a")) == []
    assert after(obj, Place("b", "g", 0)) == ["web-0-a"]
    assert after(obj, Place("b", "g", 2)) == []  # the clique before it is in another gang
    assert after(obj, Place("d", "g", 2)) == ["web-0-g-2-c"]
    assert after(obj, Place("e")) == ["web-0-g-0-d", "web-0-g-1-d"]


def test_cliques_of_two_groups() -> None:
    obj = pod_set(
        clique("a"),
        clique("b", startsAfter=["a"]),
        groups=[group("g", ["a"], 3, 1), group("h", ["b"], 3, 2)],
        cliqueStartupType=EXPLICIT,
    )
    assert after(obj, Place("b", "h", 1)) == ["web-0-g-0-a"]
    assert after(obj, Place("b", "h", 2)) == []


def test_of_a_sample_as_the_go_operator_has_it() -> None:
    """The arguments of its init container in simple3 name these PodCliques in this order."""
    tpl = sample("simple/simple3-explicit-startup-order.yaml")
    both = ["simple3-0-sga-0-pcb", "simple3-0-sga-1-pcb", "simple3-0-sga-0-pcc", "simple3-0-sga-1-pcc"]
    assert starts_after(tpl, 0, Place("pcd", "sga", 1)) == both


def test_podcliques_carry_the_names() -> None:
    paper = Paper.of(a_set(IN_ORDER))
    specs = {name: obj.wire["spec"].get("startsAfter") for name, obj in paper.podcliques.items()}
    assert specs["web-0-a"] is None
    assert specs["web-0-e"] == ["web-0-g-0-d", "web-0-g-1-d"]
    assert specs["web-0-g-2-b"] is None
    assert specs["web-0-g-2-c"] == ["web-0-g-2-b"]
    assert all("startsAfter" not in obj.wire["spec"] for obj in Paper.of(a_set(ANY, b=["a"])).podcliques.values())


def test_the_order_is_in_no_hash() -> None:
    """It is about when pods start, not about what they are: nothing is rolled for it."""
    plain, ordered = template(a_set(ANY)), template(a_set(IN_ORDER))
    assert plain.pod_template_hashes == ordered.pod_template_hashes
    assert plain.generation_hash == ordered.generation_hash


def test_waiting_places_follow_the_live_replicas() -> None:
    tpl = template(a_set(EXPLICIT, c=["b"], e=["a"], d=["a"]))
    assert list(waiting_places(tpl, {"g": 4})) == [
        *(Place("c", "g", index) for index in range(4)),
        *(Place("d", "g", index) for index in range(2)),  # those in scaled gangs wait for nobody
        Place("e"),
    ]
    assert list(waiting_places(tpl, {"g": 0})) == [Place("e")]


CLIQUES = "abcdefg"


@st.composite
def templates(draw: st.DrawFn) -> Object:
    """Sets with any edges and with groups of any cliques."""
    names = list(CLIQUES[: draw(st.integers(1, len(CLIQUES)))])
    parents = draw(st.fixed_dictionaries({name: st.lists(st.sampled_from(names), max_size=4) for name in names}))
    owners = draw(st.fixed_dictionaries({name: st.sampled_from(["", "g", "h"]) for name in names}))
    groups = []
    for name in ("g", "h"):
        members = [clique for clique, owner in owners.items() if owner == name]
        minimum = draw(st.integers(1, 3))
        if members:
            groups.append(group(name, members, minimum + draw(st.integers(0, 2)), minimum))
    startup_type = draw(st.sampled_from([IN_ORDER, EXPLICIT]))
    cliques = [clique(name, 1, startsAfter=parents[name]) for name in names]
    return pod_set(*cliques, groups=groups, cliqueStartupType=startup_type)


@given(templates())
def test_parents_exist_and_are_of_the_same_gang(obj: Object) -> None:
    """Whatever the template: each parent is another PodClique of the very same PodGang, named once."""
    podcliques = Paper.of(obj).podcliques
    for name, podclique in podcliques.items():
        named = podclique.spec.starts_after
        assert len(set(named)) == len(named)
        for parent in named:
            assert parent != name
            assert podcliques[parent].labels["grove.io/podgang"] == podclique.labels["grove.io/podgang"]


@given(templates())
def test_order_of_podcliques_is_that_of_their_cliques(obj: Object) -> None:
    """PodCliques in the base gang can start if their cliques can, and never sooner in the order."""
    tpl, paper = template(obj), Paper.of(obj)
    step = {name: i for i, level in enumerate(levels(_full(tpl.starts_after, tpl.cliques))) for name in level}
    base = {name: one for name, one in paper.podcliques.items() if "grove.io/base-podgang" not in one.labels}
    graph = {name: list(podclique.spec.starts_after) for name, podclique in base.items()}
    for i, level in enumerate(levels(graph)):
        for name in level:
            assert step[name.rpartition("-")[2]] == i
    assert sum(map(len, levels(graph))) == sum(name.rpartition("-")[2] in step for name in base)


def _full(edges: dict[str, tuple[str, ...]], names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    return {name: edges.get(name, ()) for name in names}


# Levels and cycles

graphs = (
    st.integers(1, 9)
    .flatmap(
        lambda n: st.fixed_dictionaries({i: st.lists(st.integers(0, n - 1), max_size=4, unique=True) for i in range(n)})
    )
    .map(lambda graph: {str(node): [str(one) for one in after] for node, after in graph.items()})
)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({}, []),
        ({"a": []}, [["a"]]),
        ({"c": ["b"], "b": ["a"], "a": []}, [["a"], ["b"], ["c"]]),
        ({"a": [], "b": ["a"], "c": ["a"], "d": ["b", "a"], "e": []}, [["a", "e"], ["b", "c"], ["d"]]),
        ({"a": ["b"], "b": ["a"], "c": ["b"], "d": []}, [["d"]]),
    ],
)
def test_levels(graph: dict[str, list[str]], expected: list[list[str]]) -> None:
    assert levels(graph) == expected


@given(graphs)
def test_each_node_starts_right_after_the_last_it_waits_for(graph: dict[str, list[str]]) -> None:
    step = {node: i for i, level in enumerate(levels(graph)) for node in level}
    for node, i in step.items():
        assert i == max((step[parent] + 1 for parent in graph[node]), default=0)


@given(graphs)
def test_whoever_never_starts_waits_for_a_cycle(graph: dict[str, list[str]]) -> None:
    started = {node for level in levels(graph) for node in level}
    cycles = find_cycles(graph)
    for cycle in cycles:
        assert all(after in graph[node] for node, after in zip(cycle, cycle[1:] + cycle[:1], strict=True))
        assert started.isdisjoint(cycle)
    on_cycles = {node for cycle in cycles for node in cycle}
    for node in graph.keys() - started:
        seen, pending = set(), [node]
        while pending:
            seen.add(one := pending.pop())
            pending += [parent for parent in graph[one] if parent not in seen]
        assert seen & on_cycles


def test_podclique_objects_have_the_field_at_its_place() -> None:
    paper = Paper.of(a_set(EXPLICIT, e=["a"], c=["b"]))
    tpl = paper.template
    made = standalone_podclique(tpl, 3, tpl.cliques["e"])
    assert made["spec"]["startsAfter"] == ["web-3-a"]
    made = member_podclique(tpl, "g", paper.scaling_groups["web-0-g"], 0, 2, tpl.cliques["c"])
    assert made["spec"]["startsAfter"] == ["web-0-g-2-b"]
