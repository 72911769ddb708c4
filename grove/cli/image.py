"""`grove image`: the operator's image as an archive, without an engine or a registry."""

import time
from pathlib import Path

import click

from grove.image import operator
from grove.image.errors import ImageError

ROOT = Path(__file__).parents[2]


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("build/grove-image.tar"),
    show_default=True,
    help="The archive to write.",
)
@click.option("--name", help="The image's full name and tag.  [default: the one that the chart asks for]")
def image(output: Path, name: str | None) -> None:
    """Make the operator's image as an OCI archive.

    It holds this Python, the packages that requirements.lock pins, and Grove, from the checkout that this command is
    run from. It needs Linux, but no container engine and no root. `ctr images import`, `docker load`, `podman load` and
    `kind load image-archive` take it.
    """
    began = time.monotonic()
    try:
        name = name or operator.default_name(ROOT)
        digest = operator.build(ROOT, name, output)
    except (ImageError, OSError) as error:
        raise click.ClickException(str(error)) from error
    size, took = output.stat().st_size / 1e6, time.monotonic() - began
    click.echo(f"{output}: {name}, {size:.1f} MB ({took:.1f} s)\n{digest}")
