"""`grove rollout`: follow the update of a set, or restart its pods."""

from __future__ import annotations

import asyncio
import sys
import time
from contextlib import aclosing

import click

from grove.api.podcliqueset import PodCliqueSet
from grove.api.times import rfc3339
from grove.cli.kube import ClusterError, Connection, Where, follow, located, look, timeout_option, with_cluster
from grove.cli.output import dump, say
from grove.cli.status import NOT_YET
from grove.inspect.rollout import Rollout, Verdict, restart_note, restart_patch
from grove.inspect.rollout import rollout as rollout_of
from grove.plan.kinds import PODCLIQUESET

_ATTEMPTS = 3


@click.group()
def rollout() -> None:
    """Follow an update, or restart the pods of a set."""


@rollout.command()
@click.argument("name")
@click.option("-w/ ", "--watch/--no-watch", default=True, show_default=True, help="Wait until the rollout is over.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@timeout_option
@located
def status(where: Where, name: str, watch: bool, timeout: float, output: str) -> None:
    """Follow the rollout of a set's template until every replica runs it and is available.

    Ends early when nothing more is going to happen: progressDeadline has passed, or the strategy is OnDelete and pods
    of the older template are left. With -o json each line is one JSON object.

    Exit code 0 when the rollout is done, 3 when it is not (not in time, or stuck), 1 when the cluster cannot be read or
    there is no such set.
    """
    name = _bare(name)
    told: list[Rollout] = []

    def tell(pcs: PodCliqueSet) -> bool:
        """Say how far it is, if that is new; whether it is over."""
        state = rollout_of(pcs)
        if not told or told[-1] != state:
            told.append(state)
            if output == "json":
                data = {"namespace": pcs.namespace, "name": name, "state": state.verdict, "message": state.sentence}
                dump(data, output, line=True)
            else:
                say(f"PodCliqueSet {pcs.namespace}/{name}: {state.sentence}")
        return state.verdict != Verdict.WAITING

    async def work(connection: Connection) -> None:
        if not watch:
            tell((await look(connection, name, (PODCLIQUESET,)))[0].template.pcs)
            return
        try:
            async with asyncio.timeout(timeout or None), aclosing(follow(connection, name, (PODCLIQUESET,))) as changes:
                async for found in changes:
                    if tell(found[0].template.pcs):
                        return
        except TimeoutError:
            say("not done in time", err=True)
            return
        raise ClusterError(f"PodCliqueSet {name} has been deleted")

    with_cluster(where, work)
    sys.exit(0 if told[-1].verdict == Verdict.DONE else NOT_YET)


@rollout.command()
@click.argument("name")
@click.option("--clique", "cliques", multiple=True, metavar="CLIQUE", help="Only pods of this clique; may be repeated.")
@located
def restart(where: Where, name: str, cliques: tuple[str, ...]) -> None:
    """Replace the pods of a set by new ones of the same template, as an update would.

    Sets the annotation kubectl.kubernetes.io/restartedAt in the template of the cliques, as `kubectl rollout restart`
    does for Deployments. `grove rollout status` follows what comes of it.

    Exit code 0, or 1 when the set cannot be changed.
    """
    name = _bare(name)
    note = with_cluster(where, lambda connection: _restart(connection, name, cliques))
    say(f"PodCliqueSet {name} restarted: {note}")


async def _restart(connection: Connection, name: str, cliques: tuple[str, ...]) -> str:
    from grove.runtime.errors import ApiError

    for attempt in range(1, _ATTEMPTS + 1):
        pcs = (await look(connection, name, (PODCLIQUESET,)))[0].template.pcs
        chosen = cliques or tuple(clique.name for clique in pcs.spec.template.cliques)
        try:
            patch = restart_patch(pcs, chosen, rfc3339(time.time()))
            await connection.client.patch(PODCLIQUESET, connection.namespace, name, patch)
        except ValueError as error:
            raise ClusterError(str(error)) from error
        except ApiError as error:
            changed = error.is_invalid and "test" in error.message  # somebody changed the set in between
            if not (changed or error.is_conflict) or attempt == _ATTEMPTS:
                raise
        else:
            return restart_note(pcs, chosen)
    raise AssertionError("the last attempt returns or raises")


def _bare(name: str) -> str:
    """The name without the kind that kubectl's users put before it."""
    return name.rpartition("/")[2]
