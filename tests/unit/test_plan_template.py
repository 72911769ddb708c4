"""What a template means: cliques by name, ranks, mirrored metadata, schedulers."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grove.plan.podclique import clique_of
from grove.plan.ranks import RankOffset, rank_offset
from grove.plan.template import min_available, mirrored, template_pods
from tests.unit.support import Paper, clique, group, pod_set, template

# Names that end in each other's, begin with each other's, and look like indices (T9 of the API doc).
TRICKY = pod_set(
    clique("leader", 1),
    clique("pleader", 2),
    clique("0-leader", 3),
    clique("worker", 5),
    clique("leader-worker", 6),
    groups=[group("g", ["leader", "pleader", "0-leader"], replicas=2), group("g-0", ["worker"], replicas=1)],
)


def test_cliques_are_told_apart_by_the_whole_name() -> None:
    paper = Paper.of(TRICKY)
    found = {name: clique_of(live, paper.template) for name, live in paper.podcliques.items()}
    assert found == {
        "web-0-leader-worker": "leader-worker",
        "web-0-g-0-leader": "leader",
        "web-0-g-0-pleader": "pleader",
        "web-0-g-0-0-leader": "0-leader",
        "web-0-g-1-leader": "leader",
        "web-0-g-1-pleader": "pleader",
        "web-0-g-1-0-leader": "0-leader",
        "web-0-g-0-0-worker": "worker",
    }


def test_a_standalone_clique_whose_name_looks_like_that_of_a_member() -> None:
    paper = Paper.of(pod_set(clique("g-0-leader"), clique("leader"), groups=[group("other", ["leader"])]))
    assert clique_of(paper.podcliques["web-0-g-0-leader"], paper.template) == "g-0-leader"
    assert clique_of(paper.podcliques["web-0-other-0-leader"], paper.template) == "leader"


def test_podcliques_of_elsewhere_have_no_clique() -> None:
    paper = Paper.of(pod_set(clique("a"), clique("b"), groups=[group("g", ["b"])]))
    other = template(pod_set(clique("a"), clique("b"), groups=[group("g", ["b"])], name="other"))
    fewer = template(pod_set(clique("a")))
    assert clique_of(paper.podcliques["web-0-a"], other) is None
    assert clique_of(paper.podcliques["web-0-g-0-b"], fewer) is None


def test_members_are_in_the_order_of_clique_names() -> None:
    tpl = template(pod_set(clique("a", 1), clique("b", 2), clique("c", 3), groups=[group("g", ["c", "a"])]))
    assert [member.name for member in tpl.members("g")] == ["c", "a"]
    assert [one.name for one in tpl.standalone] == ["b"]
    assert template_pods(tpl, "g") == 4


def test_min_available_is_the_template_s_or_else_all() -> None:
    tpl = template(pod_set(clique("a", 3), clique("b", 3, min_available=2), clique("c", 0), clique("d")))
    assert [min_available(one) for one in tpl.cliques.values()] == [3, 2, 1, 1]


def test_a_set_that_is_being_deleted_wants_no_replicas() -> None:
    obj = pod_set(clique("a"), replicas=3)
    assert template(obj).replicas == 3
    assert template(obj, deletionTimestamp="2026-09-01T00:00:00Z").replicas == 0


@pytest.mark.parametrize(
    ("names", "scheduler"),
    [
        ([None, None], "default-scheduler"),
        ([None, "kai-scheduler"], "kai-scheduler"),
        (["volcano", "kai-scheduler"], "volcano"),
    ],
)
def test_scheduler_of_the_gangs(names: list[str | None], scheduler: str) -> None:
    cliques = [clique(f"c{i}") for i in range(len(names))]
    for one, name in zip(cliques, names, strict=True):
        if name is not None:
            one["spec"]["podSpec"]["schedulerName"] = name
    assert template(pod_set(*cliques)).scheduler_name == scheduler


def test_mirrored_metadata() -> None:
    assert mirrored(
        {
            "app": "web",
            "example.com/grove.io": "x",
            "kai.scheduler/queue": "q",
            "grove.io/topology-name": "t",
            "grove.io/x": "y",
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
        }
    ) == {"app": "web", "example.com/grove.io": "x", "kai.scheduler/queue": "q"}


# Ranks


def ranks(counts: dict[str, int], live: dict[str, int]) -> dict[str, list[int]]:
    """Ranks by clique of the pods of a replica whose template has `counts` and which is scaled to `live`."""
    paper = Paper.of(pod_set(*(clique(n, c) for n, c in counts.items()), groups=[group("g", list(counts))]))
    result = {}
    for name in counts:
        offset = rank_offset(paper.podcliques[f"web-0-g-0-{name}"], paper.template)
        assert offset is not None
        result[name] = [offset.rank(index) for index in range(live[name])]
    return result


def test_ranks_lay_the_cliques_end_to_end() -> None:
    counts = {"leader": 1, "worker": 3, "helper": 2}
    assert ranks(counts, counts) == {"leader": [0], "worker": [1, 2, 3], "helper": [4, 5]}


def test_a_resize_moves_nobody() -> None:
    counts = {"leader": 1, "worker": 3}
    grown = ranks(counts, {"leader": 2, "worker": 5})
    assert (grown["leader"][:1], grown["worker"][:3]) == ([0], [1, 2, 3])
    assert grown == {"leader": [0, 4], "worker": [1, 2, 3, 5, 7]}


SIZES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), min_size=1, max_size=5)


@given(SIZES)
def test_ranks_are_unique_and_dense_at_the_template_s_size(sizes: list[tuple[int, int]]) -> None:
    total = sum(count for count, _ in sizes)
    starts = [sum(count for count, _ in sizes[:i]) for i in range(len(sizes))]
    offsets = [RankOffset(starts[i], count, total, i, len(sizes)) for i, (count, _) in enumerate(sizes)]
    given_out = [offset.rank(k) for offset, (_, live) in zip(offsets, sizes, strict=True) for k in range(live)]
    assert len(given_out) == len(set(given_out))
    exact = [offset.rank(k) for offset in offsets for k in range(offset.count)]
    assert sorted(exact) == list(range(total))


def test_standalone_pods_have_no_rank() -> None:
    paper = Paper.of(pod_set(clique("a")))
    assert rank_offset(paper.podcliques["web-0-a"], paper.template) is None


def test_no_rank_without_a_template() -> None:
    paper = Paper.of(pod_set(clique("a"), groups=[group("g", ["a"])]))
    without: Any = template(pod_set(clique("b")))
    assert rank_offset(paper.podcliques["web-0-g-0-a"], None) is None
    assert rank_offset(paper.podcliques["web-0-g-0-a"], without) is None
