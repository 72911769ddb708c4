"""Which passes a change wakes."""

import pytest

from grove.api import labels
from grove.controllers.routing import Router, Wake
from grove.controllers.world import World
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from grove.runtime.resources import ResourceType
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored

SOURCE = pod_set(clique("a"), clique("b"), groups=[group("g", ["b"])], replicas=2)
PAPER = Paper.of(SOURCE)
GROUP = PAPER.scaling_groups["web-0-g"].wire
STANDALONE = PAPER.podcliques["web-0-a"].wire
MEMBER = PAPER.podcliques["web-0-g-0-b"].wire


class Woken:
    """A router at work, and the keys it wakes."""

    def __init__(self) -> None:
        self.world = World()
        self.keys: set[tuple[str | int, ...]] = set()
        self.router = Router(
            self.world,
            Wake(
                podcliqueset=lambda key, _: self.keys.add(("set", *key)),
                replica=lambda key, _: self.keys.add(("replica", *key)),
                scaling_group=lambda key, _: self.keys.add(("group", *key)),
                podclique=lambda key, _: self.keys.add(("podclique", *key)),
            ),
        )
        self.router.connect()

    def by(self, resource: ResourceType, obj: Object, version: int, **tags: str | None) -> set[tuple[str | int, ...]]:
        """What the news of an object wakes, whose labels are changed (None: removed)."""
        self.keys.clear()
        metadata = {**obj["metadata"], "resourceVersion": str(version)}
        merged = {**metadata["labels"], **tags}
        metadata["labels"] = {key: value for key, value in merged.items() if value is not None}
        self.world.take(resource, {**obj, "metadata": metadata})
        return self.keys.copy()


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
    assert {REPLICA, SET} <= woken.by(resource, obj, 3, **{label: value})


@pytest.mark.parametrize("value", [None, "another"])
def test_a_member_that_loses_its_group_wakes_the_group(value: str | None) -> None:
    woken = Woken()
    woken.by(PODCLIQUE, MEMBER, 2)
    assert ("group", "default", "web-0-g") in woken.by(PODCLIQUE, MEMBER, 3, **{labels.SCALING_GROUP: value})


def test_a_pod_taken_from_its_podclique_wakes_it() -> None:
    woken = Woken()
    woken.by(PODCLIQUE, STANDALONE, 2)
    pod = pod_wire(PAPER.podcliques["web-0-a"], 0)
    woken.by(POD, pod, 3)
    free = {**pod, "metadata": {**pod["metadata"], "ownerReferences": []}}
    assert woken.by(POD, free, 4) == {("podclique", "default", "web-0-a"), REPLICA}
    assert woken.by(POD, free, 5, some="label") == set()


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
