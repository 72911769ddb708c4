"""What the replicas of a set know of each other: which gangs have no place yet, and who waits for that to change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from grove.controllers.routing import ReplicaKey
from grove.controllers.world import World
from grove.plan.gangs import GangState, expected_gangs, observe
from grove.plan.replica import view_of
from grove.plan.template import Template
from grove.schedulers import Unplaced


@dataclass(slots=True)
class _Family:
    """One set."""

    uid: str
    unplaced: dict[int, tuple[Unplaced, ...]] = field(default_factory=dict)
    """by replica; what a pass over it saw last"""
    waiting: set[int] = field(default_factory=set)
    """replicas that hold gates"""

    def rank(self, replica: int) -> int:
        """2 while a base gang of a replica is not placed, 1 while a scaled gang is not, else 0."""
        return max((2 if one.base is None else 1 for one in self.unplaced.get(replica, ())), default=0)


class Siblings:
    """The gangs of each set that are not placed. Only saves looking again: all of it follows from the caches."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._families: dict[tuple[str, str], _Family] = {}

    def note(self, template: Template, replica: int, gangs: Mapping[str, GangState]) -> list[ReplicaKey]:
        """Take note of what a pass sees of its replica's gangs; the replicas for which that makes a difference.

        These are the ones that hold gates when the last base gang of the set was placed, and when the last of all was.
        For what is between they have a deadline: to wake all each time would cost the square of the replicas.
        """
        family = self._family(template)
        was = family.rank(replica)
        family.unplaced[replica] = _unplaced(gangs)
        others = family.waiting - {replica}
        if not others or any(family.rank(index) >= was for index in range(template.replicas)):
            return []
        return [(template.namespace, template.name, other) for other in sorted(others) if other < template.replicas]

    def note_waiting(self, template: Template, replica: int, waits: bool) -> None:
        """Take note of whether a replica holds gates."""
        waiting = self._family(template).waiting
        (waiting.add if waits else waiting.discard)(replica)

    def unplaced(self, template: Template, replica: int) -> "Lookup":
        """The unplaced gangs of a set, those of `replica` first."""
        return Lookup(self, template, replica)

    def forget(self, key: ReplicaKey) -> None:
        """Drop what is known of a replica that is gone, or of a set."""
        family = self._families.get(key[:2])
        if family is None:
            return
        family.unplaced.pop(key[2], None)
        family.waiting.discard(key[2])
        if not family.unplaced:
            del self._families[key[:2]]

    def of(self, template: Template, replica: int) -> tuple[Unplaced, ...]:
        """The unplaced gangs of one replica."""
        known = self._family(template).unplaced
        if replica not in known:
            view = view_of(template, replica, self._world.replica_snapshot(template, replica))
            gangs = expected_gangs(template, replica, view)
            known[replica] = _unplaced({gang.name: observe(gang, view) for gang in gangs})
        return known[replica]

    def _family(self, template: Template) -> _Family:
        name = (template.namespace, template.name)
        if name not in self._families or self._families[name].uid != template.uid:
            self._families[name] = _Family(template.uid)
        return self._families[name]


@dataclass(frozen=True, slots=True)
class Lookup:
    """Unplaced gangs of a set, looked for when somebody asks: few do, and few need all."""

    siblings: Siblings
    template: Template
    replica: int

    def __iter__(self) -> Iterator[Unplaced]:
        yield from self.siblings.of(self.template, self.replica)
        for other in range(self.template.replicas):
            if other != self.replica:
                yield from self.siblings.of(self.template, other)


def _unplaced(gangs: Mapping[str, GangState]) -> tuple[Unplaced, ...]:
    return tuple(Unplaced(state, gangs.get(state.gang.base)) for state in gangs.values() if not state.scheduled)
