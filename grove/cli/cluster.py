"""`grove cluster`: the embedded Kubernetes cluster for demos and tests."""

import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from grove.cli.background import BackgroundOperator
from grove.cluster import binaries
from grove.cluster.client import ApiStatus
from grove.cluster.cluster import DEFAULT_NODES, Cluster
from grove.cluster.errors import ClusterError

STOPPED = 3
"""Exit code of `status` for a cluster that does not run, as init scripts have it."""


@click.group()
def cluster() -> None:
    """Run a real Kubernetes 1.37 on this machine, without containers.

    etcd, the API server, the controller manager and the scheduler run as plain processes on 127.0.0.1. KWOK plays the
    nodes and the kubelets: pods become Running, though no container is started. The native gang APIs are on.

    The programs are built from source the first time (about 10 minutes on two cores) and kept in the user's cache
    folder. A folder named by KUBEBUILDER_ASSETS is used instead when it has them.
    """


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which cluster is meant."""
    directory = click.option(
        "--dir",
        "directory",
        type=click.Path(file_okay=False, path_type=Path),
        default=Path(".cluster"),
        show_default=True,
        help="Folder that holds everything of the cluster, its kubeconfig too. One cluster per folder.",
    )
    name = click.option("--name", help="Name of the cluster.  [default: the one in the folder, or grove]")
    return name(directory(command))


@cluster.command()
@_where
@click.option(
    "--nodes",
    "node_count",
    type=click.IntRange(0, 5000),
    help=f"Have at least this many fake nodes, each with 8 GPUs.  [default: {DEFAULT_NODES} for a new cluster]",
)
def up(name: str | None, directory: Path, node_count: int | None) -> None:
    """Start the cluster, or make sure that it runs.

    A stopped or half-dead cluster is restarted and keeps its objects. Exit code 0 when it is healthy and every node is
    Ready, 1 when it cannot be started.
    """
    began = time.monotonic()
    with _errors():
        status = Cluster(name, directory, click.echo).up(node_count)
    took = time.monotonic() - began
    click.echo(f"cluster {status.name}: {status.server}, {status.nodes[0]} nodes Ready ({took:.1f} s)")
    click.echo(exports(status.kubeconfig))


@cluster.command()
@_where
def env(name: str | None, directory: Path) -> None:
    """Print what a shell needs to know: eval "$(grove cluster env)".

    The kubeconfig, and a PATH with kubectl and grove. Exit code 0, also when the cluster does not run, and 1 when the
    programs can neither be found nor built.
    """
    with _errors():
        click.echo(exports(Cluster(name, directory).kubeconfig))


@cluster.command()
@_where
def down(name: str | None, directory: Path) -> None:
    """Stop every process of the cluster, `grove demo`'s operator too, and delete all its data.

    Exit code 0 when nothing is left, also when nothing was there; 1 when something could not be removed.
    """
    with _errors():
        if BackgroundOperator(directory.resolve()).stop():
            click.echo("the operator has stopped")
        stopped = Cluster(name, directory, click.echo)
        click.echo(f"cluster {stopped.name} is {'gone' if stopped.down() else 'not there: nothing to do'}")


@cluster.command()
@_where
def status(name: str | None, directory: Path) -> None:
    """Show the health of each component, the API server's URL, the nodes and the kubeconfig.

    Exit code 0 when all is healthy, 3 when the cluster is stopped or does not exist, 1 when a part of it is not well.
    """
    with _errors():
        found = Cluster(name, directory).status()
    click.echo(f"cluster     {found.name}: {found.state}")
    for component, health in found.components.items():
        click.echo(f"  {component:<25} {health}")
    if found.state != "stopped":
        click.echo(f"API server  {found.server}")
        click.echo(f"nodes       {found.nodes[0]} Ready of {found.nodes[1]}")
        click.echo(f"kubeconfig  {found.kubeconfig}")
    sys.exit({"running": 0, "stopped": STOPPED}.get(found.state, 1))


def exports(kubeconfig: Path) -> str:
    """The line that has a shell use this cluster, and find kubectl and grove."""
    folders = (binaries.find_or_build()["kubectl"].parent, Path(sys.executable).parent)
    path = ":".join(shlex.quote(str(folder)) for folder in folders)
    return f"export KUBECONFIG={shlex.quote(str(kubeconfig))} PATH={path}:$PATH"


@contextmanager
def _errors() -> Iterator[None]:
    """Turns a failure into a message and exit code 1."""
    try:
        yield
    except (ClusterError, ApiStatus, OSError) as error:
        raise click.ClickException(str(error)) from error
