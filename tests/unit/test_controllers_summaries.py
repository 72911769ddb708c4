"""What passes over a set and a scaling group look at: only what changed, and never a picture of before."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pytest

from grove.api.podclique import PodClique
from grove.controllers import summaries
from grove.controllers.summaries import Known
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.plan.observed import PodView
from grove.plan.replica import ReplicaSnapshot
from grove.plan.rollout import may_roll
from grove.plan.summary import summarise
from tests.fake_api.store import Change
from tests.unit.harness import Cluster, in_cluster
from tests.unit.rollouts import GROUP_REPLICA, Rollout, changed, updating, workload
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, template

UNITS = 12


def grouped(units: int) -> Object:
    """A set with one scaling group of two cliques, three pods per unit."""
    return pod_set(clique("b", 1), clique("c", 2), groups=[group("g", ["b", "c"], units, 1)])


@contextmanager
def looks() -> Iterator[dict[str, Counter[int]]]:
    """Count how often each unit of a scaling group, and each replica of a set, is looked at."""
    seen: dict[str, Counter[int]] = {"look_at": Counter(), "summarise": Counter()}
    where = {"look_at": 2, "summarise": 1}  # the argument that is the index

    def counted(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def count(*args: Any) -> Any:
            seen[name][args[where[name]]] += 1
            return work(*args)

        return count

    with ExitStack() as stack:
        for name in seen:
            stack.enter_context(patch.object(summaries, name, counted(name, getattr(summaries, name))))
        yield seen


async def flip(cluster: Cluster, podclique: str) -> None:
    """Let a pod become not ready, and ready again."""
    name = cluster.pods_of(podclique)[0]["metadata"]["name"]
    for ready in (False, True):
        cluster.pods.set_ready("default", name, ready)
        await cluster.quiet()


@in_cluster
async def test_of_a_group_the_unit_whose_pod_changed_is_looked_at(cluster: Cluster) -> None:
    await cluster.up(grouped(UNITS))
    with looks() as seen:
        await flip(cluster, "web-0-g-7-c")
        assert set(seen["look_at"]) == {7}
        cluster.patch(PODCLIQUE, "web-0-g-3-b", {"metadata": {"labels": {"team": "x"}}})
        await cluster.quiet()
        assert set(seen["look_at"]) == {3, 7}
        cluster.delete(POD, cluster.pods_of("web-0-g-5-b")[0]["metadata"]["name"])
        await cluster.quiet()
        assert set(seen["look_at"]) == {3, 5, 7}


@in_cluster
async def test_of_a_set_the_replica_whose_pod_changed_is_looked_at(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 2), replicas=UNITS))
    with looks() as seen:
        await flip(cluster, "web-4-a")
    assert set(seen["summarise"]) == {4}


def test_of_a_set_with_many_replicas_the_others_are_not_even_listed() -> None:
    """What a replica has is looked up by name: a list would hold what all replicas have."""
    paper = Paper.of(workload(UNITS), replica=1)
    paper.fill(ready=True)

    class ByName(dict[str, PodClique]):
        def __iter__(self) -> Iterator[str]:
            raise AssertionError

        values = items = keys = __iter__  # type: ignore[assignment]

    found = ReplicaSnapshot(ByName(paper.podcliques), paper.scaling_groups, pods=paper.pods)
    assert summarise(paper.template, 1, found).standing.arrived


@pytest.mark.parametrize("node", ["", "n"])
def test_of_a_replica_that_waits_for_its_turn_the_first_pod_on_a_node_is_looked_for(node: str) -> None:
    obj = grouped(UNITS)
    obj["status"] = {
        "currentGenerationHash": template(obj).generation_hash,
        "updateProgress": {"updateStartedAt": NOW, "currentlyUpdating": [{"replicaIndex": 1}]},
    }
    paper = Paper.of({**obj, "spec": {**obj["spec"], "replicas": 2}})
    paper.fill(node=node)
    seen: list[str] = []

    class Pods(dict[str, Iterable[PodView]]):
        def get(self, uid: str, default: Any = None) -> Any:
            seen.append(uid)
            return super().get(uid, default)

    found = ReplicaSnapshot(paper.podcliques, paper.scaling_groups, pods=Pods(paper.pods))
    assert may_roll(paper.template, 0, lambda *_: found) is not bool(node), "what never ran is mended at once"
    assert len(seen) == (1 if node else 2 * UNITS)


@in_cluster
async def test_in_an_update_a_unit_is_looked_at_no_more_often_than_it_changes(cluster: Cluster) -> None:
    rollout, changes = Rollout(cluster, grouped(UNITS)), Counter[int]()
    await rollout.up()

    def note(change: Change) -> None:
        index = change.last["metadata"].get("labels", {}).get(GROUP_REPLICA)
        if index is not None:
            changes[int(index)] += 1

    cluster.api.listeners.append(note)
    with looks() as seen:
        rollout.edit(changed(rollout.obj, "b"))
        await rollout.done(3 * UNITS)
    often = seen["look_at"]
    assert {unit: count for unit, count in often.items() if count > 1 + changes[unit]} == {}, "1 for the new template"
    assert often.total() >= 3 * UNITS, "each had old pods, none, and new ones"


@updating(workload(2))
async def test_what_is_known_is_what_is_there(rollout: Rollout) -> None:
    """Whatever happens, every pass reads what it would find if it looked anew."""
    of, asked = Known.of, Counter[str]()

    def compared(self: Any, key: Any, basis: Any, replicas: int, look: Callable[[int], Any]) -> list[Any]:
        known = of(self, key, basis, replicas, look)
        assert known == [look(index) for index in range(replicas)]
        asked[type(known[0]).__name__ if known else ""] += 1
        return known

    with patch.object(Known, "of", compared):
        rollout.edit(changed(rollout.obj, "a", "b"))
        await rollout.cluster.rest(0.3)
        rollout.scale("web-0-sg", 4)
        await rollout.cluster.rest(1)
        cluster = rollout.cluster
        for label in ("grove.io/podcliquescalinggroup-replica-index", "app.kubernetes.io/part-of"):
            cluster.patch(PODCLIQUE, "web-1-sg-0-b", {"metadata": {"labels": {label: None}}})
            await cluster.rest(0.1)
        cluster.delete(PODCLIQUE, "web-1-sg-1-c")
        cluster.delete(PODCLIQUESCALINGGROUP, "web-0-sg")
        rollout.scaled.pop("web-0-sg")
        rollout.edit(changed(rollout.obj, "c", to="3"))
        await rollout.done(20)
    assert asked["Unit"] > 10
    assert asked["ReplicaSummary"] > 10
