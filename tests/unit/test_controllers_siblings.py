"""What replicas of a set know of each other: who is looked at, and who is woken when it makes a difference."""

from grove.controllers.siblings import Siblings
from grove.controllers.world import World
from grove.plan.kinds import PODCLIQUESET
from grove.plan.template import Template
from tests.unit.gangs import SET, Stage, stage
from tests.unit.support import stored


def family() -> tuple[Siblings, Template]:
    """A set of three replicas that the operator has just seen."""
    world = World()
    world.take(PODCLIQUESET, stored({**SET, "spec": {**SET["spec"], "replicas": 3}}))
    template = world.sets.get("default", "web")
    assert template is not None
    return Siblings(world), template


def place(made: Stage, *podcliques: str) -> None:
    for name in podcliques:
        uid = made.paper.podcliques[name].uid
        made.paper.pods[uid] = []
        made.add(name, *range(made.paper.podcliques[name].spec.replicas or 0), node="n")


def test_those_that_wait_are_woken_when_the_last_base_gang_and_when_the_last_gang_is_placed() -> None:
    siblings, template = family()
    waiting, base, last = stage(), stage(), stage()
    for replica, made in enumerate((waiting, base, last)):
        assert siblings.note(template, replica, made.view("web-0").gangs) == []
    siblings.note_waiting(template, 0, True)
    seen = [one.state.gang.name for one in siblings.unplaced(template, 0)]
    assert seen == ["web-0", "web-0-g-0"] * 3
    for made in (base, last):
        place(made, "web-0-a", "web-0-g-0-b", "web-0-g-0-c")
    place(waiting, "web-0-a", "web-0-g-0-b", "web-0-g-0-c", "web-0-g-1-b", "web-0-g-1-c")
    assert siblings.note(template, 0, waiting.view("web-0").gangs) == []
    assert siblings.note(template, 1, base.view("web-0").gangs) == []  # another base gang has no place yet
    assert siblings.note(template, 2, last.view("web-0").gangs) == [("default", "web", 0)]
    assert siblings.note(template, 2, last.view("web-0").gangs) == []  # no news
    for made in (base, last):
        place(made, "web-0-g-1-b", "web-0-g-1-c")
    assert siblings.note(template, 1, base.view("web-0").gangs) == []
    assert siblings.note(template, 2, last.view("web-0").gangs) == [("default", "web", 0)]
    assert list(siblings.unplaced(template, 0)) == []


def test_a_replica_that_no_pass_has_seen_is_looked_at() -> None:
    """After a restart of the operator the first replica must not think that it is alone."""
    siblings, template = family()
    placed = stage()
    place(placed, *placed.paper.podcliques)
    siblings.note(template, 0, placed.view("web-0").gangs)
    names = {one.state.gang.name for one in siblings.unplaced(template, 0)}
    assert names == {"web-1", "web-1-g-0", "web-2", "web-2-g-0"}


def test_what_is_gone_is_forgotten() -> None:
    siblings, template = family()
    for replica in range(3):
        siblings.note(template, replica, stage().view("web-0").gangs)
        siblings.note_waiting(template, replica, True)
    for replica in range(3):
        siblings.forget(("default", "web", replica))
    siblings.forget(("default", "web", 0))
    assert siblings.note(template, 0, {}) == []
