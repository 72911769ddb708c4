"""`grove status`: how sets stand, in numbers, and for scripts in an exit code."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import Final

import click

from grove.cli.kube import Connection, Where, everywhere, follow, located, look, timeout_option, with_cluster
from grove.cli.output import data_output, dump, paint, say
from grove.inspect.scene import KINDS
from grove.inspect.status import SetStatus, set_status
from grove.plan.kinds import POD

NOT_YET: Final = 3
"""Exit code for what is not ready, or not any more."""

_COUNTED: Final = tuple(kind for kind in KINDS if kind != POD)
"""Pods are counted by the statuses of their PodCliques."""


@click.command()
@click.argument("name", default="")
@click.option("--wait", is_flag=True, help="Wait until all are ready.")
@timeout_option
@data_output
@everywhere
@located
def status(where: Where, name: str, wait: bool, timeout: float, output: str) -> None:
    """Show how PodCliqueSets stand: pods by role against what is asked for, and gangs with what they wait for.

    NAME is a set; without it all sets of the namespace are shown. In the bars, full is ready and half is on a node.

    A set is Ready (all pods are ready and carry the present template), Degraded (its minimum is ready), Updating,
    Unavailable (a replica lacks its minimum), Idle (0 replicas) or Terminating.

    Exit code 0 when every set is Ready or Idle, 3 when one is not (with --wait: not in time), 1 when the cluster cannot
    be read or there is no such set.
    """

    async def work(connection: Connection) -> list[SetStatus]:
        statuses = [set_status(scene) for scene in await look(connection, name, _COUNTED)]
        if wait and not _all_done(statuses):
            statuses = await _until_done(connection, name, timeout, statuses)
        if not statuses and output == "text":
            say(f"there are no PodCliqueSets in {connection.place}", err=True)
        return statuses

    statuses = with_cluster(where, work)
    if output != "text":
        dump({"sets": [one.to_json() for one in statuses]}, output)
    elif statuses:
        say("\n\n".join(_text(one) for one in statuses))
    sys.exit(0 if _all_done(statuses) else NOT_YET)


async def _until_done(connection: Connection, name: str, seconds: float, last: list[SetStatus]) -> list[SetStatus]:
    """The statuses once all are done, or the last ones when time is up."""
    try:
        async with asyncio.timeout(seconds or None), aclosing(follow(connection, name, _COUNTED)) as changes:
            async for found in changes:
                last = [set_status(scene) for scene in found]
                if _all_done(last):
                    break
    except TimeoutError:
        pass
    return last


def _all_done(statuses: list[SetStatus]) -> bool:
    return all(one.done for one in statuses)


def _text(one: SetStatus) -> str:
    head = f"{one.namespace}/{one.name}: {paint(one.state, one.tone)}, {one.sentence}"
    return "\n".join([head, *(f"  {line}" for line in one.lines())])
