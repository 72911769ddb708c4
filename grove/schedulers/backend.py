"""The interface of scheduler back ends; see the package's docstring for how to write one."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from grove.admission.fields import Field, Finding
from grove.api.labels import ConditionType, Reason
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.plan.binding import TopologyKind
from grove.plan.conditions import Want
from grove.plan.gangs import GangState
from grove.plan.placement import Placement
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Write

Object = dict[str, Any]
"""An object in wire form."""


@dataclass(frozen=True, slots=True)
class Watch:
    """A kind that a back end reads or writes. It need not be served: it is watched while it is."""

    resource: ResourceType
    label_selector: str | None = None
    field_selector: str | None = None
    """such as `metadata.name=podgroups.scheduling.run.ai`"""
    view: Callable[[Object], Object] = lambda obj: obj
    """cuts an object down to what is read of it, for kinds that are large; `metadata` has to stay"""


class Cluster(Protocol):
    """What the cluster has for back ends, from the caches: kinds of their `watches` only."""

    def serves(self, resource: ResourceType) -> bool:
        """Whether the API server serves the kind now."""
        ...

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        """One object, with status; `namespace` is "" for cluster-scoped kinds. None when there is none."""
        ...

    def of_gang(self, resource: ResourceType, namespace: str, gang: str) -> Sequence[Object]:
        """The objects whose label grove.io/podgang names the gang, those on their way out too."""
        ...


@dataclass(frozen=True, slots=True)
class Slot:
    """The place of a pod that is about to be made."""

    template: Template
    podclique: PodClique
    index: int
    """pod index in the PodClique"""
    cluster: Cluster
    topology: Topology = NOWHERE
    """how close together the set's pods must be"""


@dataclass(frozen=True, slots=True)
class Unplaced:
    """A gang whose minimum is not placed."""

    state: GangState
    base: GangState | None = None
    """its base gang, for a scaled one"""


@dataclass(frozen=True, slots=True)
class GangView:
    """One gang and everything around it that a back end may need."""

    template: Template
    replica: int
    """index of the PodCliqueSet replica"""
    state: GangState
    """the gang, its members, and the active pods of each"""
    podgang: PodGang | None
    """the live PodGang; None before it is made"""
    cluster: Cluster
    now: float
    """seconds since the epoch"""
    podcliques: Mapping[str, PodClique] = field(default_factory=dict)
    """by name, of this set replica"""
    gangs: Mapping[str, GangState] = field(default_factory=dict)
    """all gangs of this set replica, by name, the base gang first"""
    podgangs: Mapping[str, PodGang] = field(default_factory=dict)
    """the live PodGangs of this set replica, by name"""
    unplaced: Iterable[Unplaced] = ()
    """the gangs of the whole set whose minimum is not placed, looked for as they are asked for"""
    driven_out: float = 0.0
    """when a scheduler was last seen to drive out a pod of it, in seconds since the epoch; 0 when it was not of late"""
    topology: Topology = NOWHERE
    """how close together the set's pods must be; what of it concerns this gang is on its PodGang"""

    def objects_of(self, resource: ResourceType) -> Sequence[Object]:
        """The live objects of a kind that carry this gang's label."""
        return self.cluster.of_gang(resource, self.template.namespace, self.state.gang.name)


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one gang's scheduler objects and gates."""

    writes: tuple[Write, ...] = ()
    """sent side by side after the PodGang is written and before gates come off; one that fails keeps the gates on"""
    hold: frozenset[str] = frozenset()
    """names of pods whose gate stays for now, though their gang may start"""
    again_after: float | None = None
    """seconds until the decision may change by itself; None when only news change it"""


class Backend:
    """One scheduler, as the operator uses it. This base is the plainest one: gates, and no gang guarantee.

    All methods are pure: they read their arguments, return values, and are called often. Back ends have no state
    besides their configuration.
    """

    watches: tuple[Watch, ...] = ()
    """the kinds this back end reads or writes, in the order in which they are served best"""

    mapping_failed: str = ""
    """reason of the Warning event on a PodGang that loses its guarantee, or never gets it; "" for none"""

    topologies: TopologyKind | None = None
    """how the scheduler is told the levels of a ClusterTopologyBinding; None when it does not ask.

    The kind is watched only where topologyAwareScheduling is on, and need not be among `watches`.
    """

    def __init__(self, name: str, config: Mapping[str, Any]) -> None:
        """`name` is the profile's name, which pods carry as schedulerName; `config` is the profile's `config`.

        Raises ValueError for a config that makes no sense; the message names the field below `config`.
        """
        self.name = name
        self.config = config

    def missing(self, cluster: Cluster) -> str:
        """What the cluster lacks for this back end, in one sentence; "" when it can work.

        While something is missing no pods are made for the sets that use it, and these say so. It is asked again
        when a kind of `watches` becomes served, stops being served, or an object without gang label changes.
        """
        return ""

    def to_blame(self, cluster: Cluster) -> tuple[ResourceType, Object, str] | None:
        """The object that lacks what is `missing`, and the reason of the Warning event on it; None for no event."""
        return None

    def ignores_topology(self, template: Template, cluster: Cluster) -> str:
        """Why it does not keep a set's pods within the levels that its constraints require; "" when it does."""
        return f"the scheduler {self.name} does not place by topology"

    def validate(self, root: Field, cluster: Cluster) -> Iterator[Finding]:
        """What is wrong with a PodCliqueSet (defaulted, wire form) for this scheduler."""
        yield from ()

    def prepare_pod(self, pod: Object, slot: Slot) -> Object:
        """Give a new pod what the scheduler wants to find on it. `pod` is freshly made and may be changed.

        It has its gate, labels, annotations and schedulerName already. What is given here is part of no hash: a
        change of it replaces no pod.
        """
        return pod

    def decide(self, gang: GangView) -> Decision:
        """Map a gang whose PodGang exists to the scheduler's objects: what to create, patch and delete.

        Use `grove.plan.update.ensure`, which leaves alone what others own, and give every object the labels of
        `gang_labels`, by which it is found again and wakes its gang. Owner references point to the PodGang or to a
        PodClique, so that the garbage collector cleans up.
        """
        return Decision()

    def placement(self, gang: GangView) -> Placement:
        """Read back what the scheduler says of a gang's placement."""
        return Placement()


class UnknownBackend(Backend):
    """Stands in for a scheduler that no enabled profile names: its pods are made as they are written."""

    def __init__(self, name: str) -> None:
        super().__init__(name, {})

    def placement(self, gang: GangView) -> Placement:
        """Nobody here knows what that scheduler does."""
        text = f"the operator's configuration has no profile for the scheduler {self.name}"
        return Placement(conditions=(Want(ConditionType.GANG_GUARANTEED, None, Reason.NO_PROFILE, text),))
