"""`grove webhooks`: write the webhook configurations, or check that a file of them is up to date."""

from pathlib import Path

import click
import yaml

from grove.webhooks.configurations import manifests

_HEAD = "# Written by `grove webhooks`; `grove webhooks --help` tells what can be chosen.\n"


@click.command()
@click.option(
    "-n",
    "--namespace",
    default="grove-system",
    show_default=True,
    help="Namespace of the Service grove-operator, through which the API server calls.",
)
@click.option("--url", help="Call there instead, without a Service: https://127.0.0.1:2750 for an operator by hand.")
@click.option(
    "--authorizer",
    is_flag=True,
    help="Also protect managed objects. The operator's configuration needs `authorizer.enabled`.",
)
@click.option(
    "--exempt",
    multiple=True,
    metavar="USER",
    help="User that may change managed objects and is not asked about, such as the operator itself. Repeatable.",
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write to.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when the file says something else.")
def webhooks(
    namespace: str, url: str | None, authorizer: bool, exempt: tuple[str, ...], output: Path | None, check: bool
) -> None:
    """Print the webhook configurations, for `kubectl apply -f -`.

    They have no caBundle: a running operator fills that in.
    """
    made = manifests(namespace=namespace, url=url or "", protect=authorizer, exempt=exempt)
    text = _HEAD + yaml.safe_dump_all(made, sort_keys=False)
    if check and output is None:
        raise click.UsageError("--check needs a file: --output FILE")
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        output.write_text(text, encoding="utf-8")
    elif not output.exists() or output.read_text(encoding="utf-8") != text:
        raise click.ClickException(f"{output} is not what `grove webhooks` writes: run it again without --check")
