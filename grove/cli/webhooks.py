"""`grove webhooks`: write the webhook configurations, or check that a file of them is up to date."""

from pathlib import Path

import click
import yaml

from grove.cli.generated import deliver, file_options
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
@file_options
def webhooks(
    namespace: str, url: str | None, authorizer: bool, exempt: tuple[str, ...], output: Path | None, check: bool
) -> None:
    """Print the webhook configurations, for `kubectl apply -f -`.

    They have no caBundle: a running operator fills that in.
    """
    made = manifests(namespace=namespace, url=url or "", protect=authorizer, exempt=exempt)
    deliver(_HEAD + yaml.safe_dump_all(made, sort_keys=False), output, check=check)
