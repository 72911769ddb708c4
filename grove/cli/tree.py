"""`grove tree`: sets, their replicas, scaling groups, PodCliques and pods, and how each stands."""

from __future__ import annotations

import shutil
import sys
from contextlib import aclosing

import click

from grove.cli.kube import Connection, Where, everywhere, follow, located, look, with_cluster
from grove.cli.output import data_output, dump, paint, say, shown
from grove.inspect.scene import Scene
from grove.inspect.tree import tree as tree_of

_HOME, _REST_OF_LINE, _REST_OF_SCREEN, _CLEAR = "\x1b[H", "\x1b[K", "\x1b[J", "\x1b[2J"
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"


@click.command()
@click.argument("name", default="")
@click.option("-w", "--watch", is_flag=True, help="Show it again whenever something changes.")
@click.option(
    "--pods",
    type=click.IntRange(min=0),
    default=16,
    show_default=True,
    help="Show at most so many pods of each PodClique, those in trouble first; the rest is counted.",
)
@data_output
@everywhere
@located
def tree(where: Where, name: str, watch: bool, pods: int, output: str) -> None:
    """Show PodCliqueSets with all they have: replicas, scaling groups, PodCliques, pods, and how each stands.

    NAME is a set; without it all sets of the namespace are shown. With --watch, -o json prints a line for each change.

    Exit code 0, or 1 when the cluster cannot be read or there is no such set.
    """

    async def once(connection: Connection) -> None:
        _show(await look(connection, name), connection, pods, output)

    async def live(connection: Connection) -> None:
        screen = output == "text" and sys.stdout.isatty()
        if screen:
            click.echo(_CLEAR + _NO_WRAP, nl=False, color=True)
        try:
            async with aclosing(follow(connection, name)) as changes:
                async for found in changes:
                    if screen:
                        _draw(_text(found, pods))
                    else:
                        _show(found, connection, pods, output, line=True)
        finally:
            if screen:
                click.echo(_WRAP, nl=False, color=True)
        say(f"PodCliqueSet {name} is gone", err=True)

    with_cluster(where, live if watch else once)


def _show(found: list[Scene], connection: Connection, pods: int, output: str, *, line: bool = False) -> None:
    if output != "text":
        dump({"sets": [tree_of(scene).to_json() for scene in found]}, output, line=line)
    elif found:
        say("\n".join(_text(found, pods)) + ("\n" if line else ""))
    else:
        say(f"there are no PodCliqueSets in {connection.place}", err=True)


def _text(found: list[Scene], pods: int) -> list[str]:
    return [text for scene in found for text in tree_of(scene).node(paint, pods).lines()]


def _draw(lines: list[str]) -> None:
    """Fill the terminal from its first line on; what does not fit is counted."""
    room = shutil.get_terminal_size().lines - 1
    if len(lines) > room:
        lines = [*lines[: room - 1], f"… {len(lines) - room + 1} more lines"]
    text = "".join(f"{line}{_REST_OF_LINE}\n" for line in lines)
    click.echo(_HOME + shown(text) + _REST_OF_SCREEN, nl=False, color=True)
