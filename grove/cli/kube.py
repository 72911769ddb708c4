"""The cluster of a command: which one, who we are there, and in one sentence why it cannot be read."""

from __future__ import annotations

import asyncio
import difflib
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from grove.api.durations import parse_duration
from grove.inspect.scene import KINDS, Object, Scene, scenes
from grove.plan.kinds import PODCLIQUESET
from grove.runtime.resources import ResourceType

if TYPE_CHECKING:
    from grove.runtime.client import Client
    from grove.runtime.errors import ApiError

T = TypeVar("T")

_BREATH = 0.2
"""Seconds in which changes are gathered before they are shown."""

INTERRUPTED = 130
"""Exit code after ctrl-C, as shells have it."""

MANAGED = "app.kubernetes.io/managed-by=grove-operator"


class ClusterError(click.ClickException):
    """The cluster cannot be read, or lacks what is asked for; one sentence. Exit code 1."""


@dataclass(frozen=True, slots=True)
class Where:
    """Which cluster and namespace are meant, as kubectl's options say it."""

    kubeconfig: Path | None = None
    context: str = ""
    namespace: str = ""
    """"" is that of the context"""
    everywhere: bool = False
    """all namespaces"""


@dataclass(frozen=True, slots=True)
class Connection:
    """A cluster that answers."""

    client: Client
    namespace: str
    """the one that is meant"""
    everywhere: bool = False

    @property
    def scope(self) -> str | None:
        """The namespace to list, None for all."""
        return None if self.everywhere else self.namespace

    @property
    def place(self) -> str:
        """Where is looked, for messages."""
        return "the cluster" if self.everywhere else f"namespace {self.namespace}"


def located(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster and namespace are meant, as kubectl has them; the command takes `where`."""

    def run(kubeconfig: Path | None, context: str, namespace: str, everywhere: bool = False, **arguments: Any) -> Any:
        return command(where=Where(kubeconfig, context, namespace, everywhere), **arguments)

    run.__doc__ = command.__doc__
    run.__name__ = command.__name__
    run = click.option("-n", "--namespace", default="", help="The namespace.  [default: that of the context]")(run)
    run = click.option("--context", default="", help="The context of the kubeconfig.  [default: the current one]")(run)
    return click.option(
        "--kubeconfig",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="kubeconfig of the cluster.  [default: $KUBECONFIG, the pod's service account, ~/.kube/config]",
    )(run)


def everywhere(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `-A`, for commands that are `located`."""
    option = click.option("-A", "--all-namespaces", "everywhere", is_flag=True, help="Look in all namespaces.")
    return option(command)


def timeout_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """The option `--timeout`, a duration as kubectl takes it; the command takes `timeout` in seconds, 0 is for ever."""

    def parsed(_context: click.Context, _parameter: click.Parameter, text: str) -> float:
        try:
            seconds = float(text) if text.isdecimal() else parse_duration(text).total_seconds()
        except (ValueError, OverflowError) as error:
            raise click.BadParameter(str(error)) from error
        if seconds < 0:
            raise click.BadParameter(f"{text} is below 0")
        return seconds

    option = click.option(
        "--timeout", default="0s", show_default=True, callback=parsed, help="Wait at most so long; 0s is without end."
    )
    return option(command)


def with_cluster(where: Where, work: Callable[[Connection], Awaitable[T]]) -> T:
    """Connect, and do the work. Raises ClusterError, which click shows with exit code 1."""

    async def run() -> T:
        async with connected(where) as connection:
            return await work(connection)

    try:
        return asyncio.run(run())
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


@asynccontextmanager
async def connected(where: Where) -> AsyncIterator[Connection]:
    """A connection; what goes wrong within is turned into ClusterError."""
    import aiohttp

    from grove import __version__
    from grove.controllers.login import Login
    from grove.runtime.client import Client
    from grove.runtime.credentials import LoginError
    from grove.runtime.errors import ApiError

    login = Login(f"kubectl-grove/{__version__}", where.kubeconfig, where.context)
    try:
        await login.renew()
        client = Client(login.session, login.server, reauth=login.renew)
        yield Connection(client, where.namespace or login.namespace, where.everywhere)
    except ApiError as error:
        raise ClusterError(f"the cluster cannot be read: {explained(error, login.server)}") from error
    except (LoginError, aiohttp.ClientError, OSError) as error:
        raise ClusterError(f"the cluster cannot be read: {error}") from error
    finally:
        await login.close()


def explained(error: ApiError, server: str) -> str:
    """What an error of the API server means, in one sentence for people."""
    if error.status == 0:
        return f"{server} does not answer: {error.message or error.reason}"
    if error.status == 401:
        return f"{server} does not accept the credentials of the kubeconfig"
    if error.is_forbidden:
        return f"not allowed: {error.message}"
    if error.is_not_found and ("/apis/grove.io/" in error.path or "/apis/scheduler.grove.io/" in error.path):
        return f"{server} does not serve the kinds of Grove: its CustomResourceDefinitions are not installed"
    return f"{error.status} {error.reason}: {error.message}"


async def look(connection: Connection, name: str = "", kinds: Sequence[ResourceType] = KINDS) -> list[Scene]:
    """The sets that are meant, or the one of that name, each with all it has, from one list per kind.

    Raises ClusterError when there is none of that name.
    """
    selector = _selector(name)
    sets = [resource for resource in kinds if resource == PODCLIQUESET]
    rest = [resource for resource in kinds if resource != PODCLIQUESET]
    listings = await asyncio.gather(
        *(
            connection.client.list(
                resource,
                namespace=connection.scope,
                field_selector=f"metadata.name={name}" if name else None,
            )
            for resource in sets
        ),
        *(connection.client.list(resource, namespace=connection.scope, label_selector=selector) for resource in rest),
    )
    found = {resource: listing.items for resource, listing in zip((*sets, *rest), listings, strict=True)}
    if name and not found[PODCLIQUESET]:
        others = (await connection.client.list(PODCLIQUESET, namespace=connection.scope, view=name_of)).items
        raise ClusterError(unknown(f"PodCliqueSet {name}", connection, name, others))
    return scenes(found)


async def follow(
    connection: Connection, name: str = "", kinds: Sequence[ResourceType] = KINDS
) -> AsyncGenerator[list[Scene], None]:
    """The sets as `look` gives them, and again after each change, by watches. Ends when the named set is gone."""
    from grove.controllers.others import Child
    from grove.runtime.cache import Store
    from grove.runtime.informer import Informer

    yield await look(connection, name, kinds)  # tells plainly what cannot be read
    stores: dict[ResourceType, Store[Child]] = {resource: Store() for resource in kinds}
    changed = asyncio.Event()
    for store in stores.values():
        store.on_change(lambda _old, _new: changed.set())
    informers = [
        Informer(
            connection.client,
            resource,
            store,
            lambda obj: Child.of_scheduler(lambda whole: whole, obj),
            namespace=connection.scope,
            label_selector=_selector(name) if resource != PODCLIQUESET else None,
            field_selector=f"metadata.name={name}" if name and resource == PODCLIQUESET else None,
            page=500,
        )
        for resource, store in stores.items()
    ]
    tasks = [asyncio.create_task(informer.run()) for informer in informers]
    try:
        await asyncio.gather(*(store.wait_synced() for store in stores.values()))
        while True:
            changed.clear()
            found = scenes({resource: [child.wire for child in store] for resource, store in stores.items()})
            if name and not found:
                return
            yield found
            await changed.wait()
            await asyncio.sleep(_BREATH)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _selector(name: str) -> str:
    return f"{MANAGED},app.kubernetes.io/part-of={name}" if name else MANAGED


def unknown(what: str, connection: Connection, name: str, others: Iterable[str]) -> str:
    """That there is no such object, with those whose names are near."""
    near = difflib.get_close_matches(name, list(dict.fromkeys(others)), 3)
    return f"there is no {what} in {connection.place}" + (f"; is {' or '.join(near)} meant?" if near else "")


def name_of(obj: Object) -> str:
    """Name of an object."""
    return str(obj["metadata"]["name"])
