"""`grove plan --live`: what applying an edited set to a cluster would do to what runs there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from grove.admission.defaults import default_podcliqueset
from grove.admission.validation import validate_podcliqueset
from grove.api import labels
from grove.api.podcliqueset import PodCliqueSet
from grove.cli.kube import Where, connected
from grove.inspect.text import counted
from grove.plan import kinds
from grove.plan.forecast import Forecast, Restart, Turn, forecast
from grove.plan.podcliqueset import SetSnapshot
from grove.plan.template import Template

_SHOWN: Final = 10
"""Turns and scalings that are listed; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Running:
    """A set as it is in the cluster."""

    wire: dict[str, Any]
    template: Template
    snapshot: SetSnapshot


async def look(sets: Sequence[tuple[str, str]], kubeconfig: Path | None) -> dict[tuple[str, str], Running]:
    """Read sets (namespace, name) and all they have from a cluster; those that do not exist are left out.

    Raises ClusterError when there are no credentials or the API server does not answer or refuses.
    """
    async with connected(Where(kubeconfig)) as connection:
        found = {(namespace, name): await _read(connection.client, namespace, name) for namespace, name in sets}
    return {key: running for key, running in found.items() if running is not None}


async def _read(client: Any, namespace: str, name: str) -> Running | None:
    from grove.controllers.world import World
    from grove.runtime.errors import ApiError

    try:
        wire = await client.get(kinds.PODCLIQUESET, namespace, name)
    except ApiError as error:
        if error.is_not_found:
            return None
        raise
    world = World()
    world.take(kinds.PODCLIQUESET, {**wire, "metadata": dict(wire["metadata"])})
    selector = f"{labels.MANAGED_BY}={labels.MANAGED_BY_GROVE},{labels.PART_OF}={name}"
    for resource in (kinds.PODCLIQUESCALINGGROUP, kinds.PODCLIQUE, kinds.POD):
        for item in (await client.list(resource, namespace=namespace, label_selector=selector)).items:
            world.take(resource, item)
    template = world.sets.get(namespace, name)
    assert template is not None, "it has just been taken in"
    return Running(wire, template, world.set_snapshot(template))


def edit(written: dict[str, Any], running: Running) -> tuple[Forecast | None, list[str], list[str]]:
    """What the set as written would do to the running one, what refuses it, and warnings."""
    result = validate_podcliqueset(written, running.wire)
    errors = [str(error) for error in result.errors]
    if errors:
        return None, errors, list(result.warnings)
    new = default_podcliqueset(written, default_podcliqueset(running.wire))
    metadata = {**new["metadata"], "uid": running.template.uid}
    template = Template(PodCliqueSet.from_wire({**new, "metadata": metadata, "status": running.wire.get("status", {})}))
    return forecast(running.template, template, running.snapshot), [], list(result.warnings)


def lines(title: str, told: Forecast) -> Iterator[str]:
    """A forecast for people."""
    yield title
    if told.changed:
        yield f"  changed templates: {', '.join(told.changed)}"
    if told.turns and told.rolling:
        turns = ", one replica of the set after the other" if len(told.turns) > 1 else ""
        yield f"  {told.restarting} of {counted(told.pods, 'pod')} restart{turns}:"
        yield from _few([f"    {number}. {_turn(turn)}" for number, turn in enumerate(told.turns, 1)])
    elif told.turns:
        pods = counted(told.pods, "pod")
        yield f"  {told.restarting} of {pods} would have an older template until deleted (OnDelete)"
    else:
        yield "  no pod restarts"
    yield from _few([f"  {one.kind} {one.name}: {one.before} -> {one.after} replicas" for one in told.scalings])
    before, after = told.replicas
    if after > before:
        yield f"  replicas of the set: {before} -> {after}; new ones are born with the new template"
    elif after < before:
        yield f"  replicas of the set: {before} -> {after}; the highest go"


def _turn(turn: Turn) -> str:
    return f"replica {turn.replica}: " + "; ".join(_restart(restart) for restart in turn.restarts)


def _restart(restart: Restart) -> str:
    if not restart.units:
        return f"{counted(restart.pods, 'pod')} of {restart.name}, {restart.at_once} at a time"
    units = ", ".join(map(str, restart.units[:_SHOWN])) + (", …" if len(restart.units) > _SHOWN else "")
    which = f"replicas {units}" if len(restart.units) > 1 else f"replica {units}"
    return f"{which} of {restart.name} ({counted(restart.pods, 'pod')}), {restart.at_once} at a time"


def _few(items: list[str]) -> Iterator[str]:
    yield from items[:_SHOWN]
    if len(items) > _SHOWN:
        yield f"    … and {len(items) - _SHOWN} more"
