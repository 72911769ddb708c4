"""Which back ends are enabled, and which one a set uses."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import entry_points
from typing import Any, Final

from grove.api.labels import DEFAULT_SCHEDULER
from grove.plan.binding import TopologyKind
from grove.plan.template import Template
from grove.schedulers import crds
from grove.schedulers.backend import Backend, UnknownBackend, Watch
from grove.schedulers.default import DefaultScheduler
from grove.schedulers.kai import Kai
from grove.schedulers.volcano import Volcano

OWN: Final[Mapping[str, type[Backend]]] = {
    DEFAULT_SCHEDULER: DefaultScheduler,
    "kai-scheduler": Kai,
    "volcano": Volcano,
    "lpx-scheduler": Backend,
}
"""The back ends that come with the operator, by profile name."""

ENTRY_POINTS: Final = "grove.schedulers"
"""The group of entry points of other packages: their names are profile names, their objects `Backend` classes."""

Profile = tuple[str, Mapping[str, Any]]
"""A profile's name and config."""


class SchedulerError(ValueError):
    """A profile cannot be enabled; the message tells the field, below `scheduler`, and what would be right."""


class Schedulers:
    """The enabled back ends."""

    def __init__(self, backends: Iterable[Backend], default: str = DEFAULT_SCHEDULER) -> None:
        self._backends = {backend.name: backend for backend in backends}
        self.default = default
        """name of the profile that pods without schedulerName use"""

    def __iter__(self) -> Iterator[Backend]:
        return iter(self._backends.values())

    def named(self, name: str) -> Backend:
        """The back end of a schedulerName ("" means the default); an `UnknownBackend` when no profile has it."""
        name = name or self.default
        return self._backends.get(name) or UnknownBackend(name)

    def of(self, template: Template) -> Backend:
        """The back end of a set."""
        return self.named(template.scheduler_name)

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The kinds of all back ends, each selection of a kind once."""
        watches: dict[Any, Watch] = {}
        for backend in self._backends.values():
            for watch in backend.watches:
                watches.setdefault((watch.resource, watch.label_selector, watch.field_selector), watch)
        return tuple(watches.values())

    @property
    def topologies(self) -> dict[str, TopologyKind]:
        """How each scheduler is told the levels of the cluster, by name; of those that ask."""
        found = {name: self._backends[name].topologies for name in sorted(self._backends)}
        return {name: kind for name, kind in found.items() if kind is not None}

    @property
    def topology_watches(self) -> tuple[Watch, ...]:
        """The kinds of `topologies`, each once, with their CustomResourceDefinitions, which tell when they come."""
        resources = dict.fromkeys(kind.resource for kind in self.topologies.values())
        return tuple(watch for resource in resources for watch in (crds.watch(resource), Watch(resource)))


def installed() -> list[str]:
    """The profile names that have a back end."""
    return sorted({*OWN, *(entry.name for entry in entry_points(group=ENTRY_POINTS))})


def enable(profiles: Sequence[Profile] = (), default: str = DEFAULT_SCHEDULER) -> Schedulers:
    """Make the back ends of `profiles`; that of Kubernetes' own scheduler is always among them.

    Raises SchedulerError for a profile without a back end, a config it refuses, and a default that is not enabled.
    """
    wanted: dict[str, Mapping[str, Any]] = {}
    for index, (name, config) in enumerate(profiles):
        if name in wanted:
            raise SchedulerError(f'profiles[{index}].name: Duplicate value: "{name}"')
        wanted[name] = config
    wanted.setdefault(DEFAULT_SCHEDULER, {})
    if default not in wanted:
        raise SchedulerError(f'defaultProfileName: Invalid value: "{default}": must be one of {", ".join(wanted)}')
    return Schedulers([_load(index, *profile) for index, profile in enumerate(wanted.items())], default)


def _load(index: int, name: str, config: Mapping[str, Any]) -> Backend:
    try:
        return _backend_class(index, name)(name, config)
    except SchedulerError:
        raise
    except ValueError as error:
        raise SchedulerError(f"profiles[{index}].config: {error}") from error


def _backend_class(index: int, name: str) -> type[Backend]:
    if name in OWN:
        return OWN[name]
    path = f"profiles[{index}].name"
    found = entry_points(group=ENTRY_POINTS, name=name)
    if not found:
        known = ", ".join(installed())
        raise SchedulerError(f'{path}: Unsupported value: "{name}": back ends are installed for: {known}')
    try:
        backend = next(iter(found)).load()
    except Exception as error:
        raise SchedulerError(f'{path}: Invalid value: "{name}": its back end fails to load: {error}') from error
    if not (isinstance(backend, type) and issubclass(backend, Backend)):
        raise SchedulerError(f'{path}: Invalid value: "{name}": its entry point names no class of Backend')
    return backend
