"""`grove explain`: why something is pending, not ready or being replaced."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Final

import click

from grove.api import labels
from grove.cli.kube import ClusterError, Connection, Where, located, look, name_of, unknown, with_cluster
from grove.cli.output import data_output, dump, paint, say
from grove.inspect.explain import Explanation
from grove.inspect.explain import explain as explanation_of
from grove.inspect.findings import Cause
from grove.inspect.scene import Object
from grove.inspect.scope import ALIASES, scope_of
from grove.inspect.text import Tone
from grove.plan.kinds import POD, PODCLIQUESET
from grove.runtime.resources import ResourceType

_ALL: Final = tuple(dict.fromkeys(ALIASES.values()))
_EVENT: Final = ResourceType("", "v1", "events", "Event")


@click.command()
@click.argument("what", nargs=-1, required=True, metavar="KIND/NAME | KIND NAME | NAME")
@data_output
@located
def explain(where: Where, what: tuple[str, ...], output: str) -> None:
    """Say why a pod, PodClique, scaling group, gang or set is pending, not ready or being replaced, and what to do.

    KIND is pcs, pclq, pcsg, pg or pod. A bare NAME is looked for in this order.

    The first cause is named, in the order in which causes bite: what is refused, gates, gates of others, the scheduler,
    the start order, containers and probes, an update.

    Exit code 0, or 1 when the cluster cannot be read or there is nothing of that name.
    """
    resource, name = _asked(what)

    async def work(connection: Connection) -> Explanation:
        found, obj = await _find(connection, resource, name)
        tags: dict[str, str] = obj["metadata"].get("labels") or {}
        set_name = name if found == PODCLIQUESET else tags.get(labels.PART_OF, "")
        if not set_name:
            raise ClusterError(f"{found.kind} {name} belongs to no PodCliqueSet")
        scenes, events = await asyncio.gather(look(connection, set_name), _warnings(connection))
        scope = scope_of(scenes[0], found, name, events)
        if scope is None:
            raise ClusterError(
                f"{found.kind} {name} says that it is part of PodCliqueSet {set_name}, which owns it not"
            )
        return explanation_of(scope)

    result = with_cluster(where, work)
    if output != "text":
        dump(result.to_json(), output)
        return
    head, *rest = result.lines()
    tone = Tone.GOOD if result.cause == Cause.NONE else Tone.BAD
    say("\n".join([paint(head, tone), *rest]))


def _asked(what: tuple[str, ...]) -> tuple[ResourceType | None, str]:
    """The kind, None for any, and the name."""
    kind, _, name = what[0].rpartition("/") if len(what) == 1 else (what[0], "", what[1])
    if len(what) > 2 or not name:
        raise click.UsageError("write KIND/NAME, KIND NAME or NAME")
    if not kind:
        return None, name
    resource = ALIASES.get(kind.lower().partition(".")[0])
    if resource is None:
        raise click.UsageError(f"{kind} is none of pcs, pclq, pcsg, pg, pod")
    return resource, name


async def _find(connection: Connection, resource: ResourceType | None, name: str) -> tuple[ResourceType, Object]:
    """The object of that name and its kind."""
    kinds = _ALL if resource is None else (resource,)
    for kind, found in zip(kinds, await asyncio.gather(*(_get(connection, kind, name) for kind in kinds)), strict=True):
        if found is not None:
            return kind, found
    listings = [await connection.client.list(kind, namespace=connection.namespace, view=name_of) for kind in kinds]
    known = [one for listing in listings for one in listing.items]
    raise ClusterError(unknown(f"{resource.kind if resource else 'object'} {name}", connection, name, known))


async def _get(connection: Connection, resource: ResourceType, name: str) -> Object | None:
    from grove.runtime.errors import ApiError

    try:
        return await connection.client.get(resource, connection.namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise


async def _warnings(connection: Connection) -> dict[str, list[Object]]:
    """Warning events by the pod they are about, the latest last; none where they may not be read."""
    from grove.runtime.errors import ApiError

    try:
        selector = f"involvedObject.kind={POD.kind},type=Warning"
        listing = await connection.client.list(_EVENT, namespace=connection.namespace, field_selector=selector)
    except ApiError as error:
        if error.is_forbidden:
            return {}
        raise
    found: dict[str, list[Object]] = defaultdict(list)
    for event in listing.items:
        found[event["involvedObject"]["name"]].append(event)
    return found
