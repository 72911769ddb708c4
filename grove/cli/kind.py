"""`grove kind`: the operator in a kind cluster, from this checkout."""

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from grove.cluster.errors import ClusterError
from grove.cluster.kind import KUBECONFIG, NAME, Kind
from grove.image import operator
from grove.image.errors import ImageError

ROOT = Path(__file__).parents[2]
ARCHIVE = Path("build/grove-image.tar")


@click.group()
def kind() -> None:
    """Run the operator as people run it: its image and its chart, in a Kubernetes whose nodes are containers.

    kind (Kubernetes in Docker) needs a container engine: Docker, Podman or nerdctl. kind itself and helm are built from
    source the first time. `grove demo` and `grove cluster` need no engine.
    """


_name = click.option("--name", default=NAME, show_default=True, help="Name of the cluster.")


@kind.command()
@_name
@click.option(
    "--workers", type=click.IntRange(1, 100), default=4, show_default=True, help="Nodes with 8 fake GPUs each."
)
@click.option("--kai/--no-kai", default=True, show_default=True, help="Install the KAI scheduler.")
def up(name: str, workers: int, kai: bool) -> None:
    """Make the cluster, or complete the one that is there: GPUs, labels of a topology, KAI."""
    with _errors():
        Kind(name, click.echo).up(workers, kai)
    click.echo(f"export KUBECONFIG={shlex.quote(str(KUBECONFIG.resolve()))}")


@kind.command()
@_name
def deploy(name: str) -> None:
    """Make the operator's image, load it, and install the chart; or bring what is installed up to date.

    On Linux the image is made as `grove image` does; elsewhere the engine builds the Dockerfile.
    """
    with _errors():
        cluster = Kind(name, click.echo)
        cluster.require()
        image = operator.default_name(ROOT)
        if sys.platform == "linux":
            click.echo(f"making {image}")
            operator.build(ROOT, image, ARCHIVE)
        else:
            cluster.build(ROOT, image, ARCHIVE)
        cluster.deploy(ROOT / "charts" / "grove", ARCHIVE)


@kind.command()
@_name
def undeploy(name: str) -> None:
    """Uninstall the chart; CustomResourceDefinitions, sets and their pods stay."""
    with _errors():
        Kind(name, click.echo).undeploy()


@kind.command()
@_name
def down(name: str) -> None:
    """Delete the cluster with everything in it."""
    with _errors():
        Kind(name, click.echo).down()


@contextmanager
def _errors() -> Iterator[None]:
    """Turns a failure into a message and exit code 1."""
    try:
        yield
    except (ClusterError, ImageError, OSError) as error:
        raise click.ClickException(str(error)) from error
