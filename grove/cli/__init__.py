"""The `grove` command. Subcommands are imported when they are used, so that none pays for the others."""

from __future__ import annotations

import errno
from importlib import import_module
from typing import Any, Final

import click

COMMANDS: Final = {
    "operator": ("grove.cli.operator:operator", "Run the operator."),
    "tree": ("grove.cli.tree:tree", "Show sets with all they have, and how each part stands."),
    "status": ("grove.cli.status:status", "Show how sets stand, in numbers; wait until they are ready."),
    "explain": ("grove.cli.explain:explain", "Say why something is not ready, and what to do."),
    "rollout": ("grove.cli.rollout:rollout", "Follow an update, or restart the pods of a set."),
    "diagnose": ("grove.cli.diagnose:diagnose", "Pack what is needed to look for a fault, without Secrets."),
    "plan": ("grove.cli.plan:plan", "Show everything that PodCliqueSets would become, without a cluster."),
    "rules": ("grove.cli.rules:rules", "Print the rules of admission."),
    "reference": ("grove.cli.reference:reference", "Print the reference of all fields, labels, conditions and events."),
    "crds": ("grove.cli.crds:crds", "Write the CustomResourceDefinitions."),
    "webhooks": ("grove.cli.webhooks:webhooks", "Write the webhook configurations."),
    "image": ("grove.cli.image:image", "Make the operator's image as an archive."),
    "cluster": ("grove.cli.cluster:cluster", "Run a Kubernetes cluster on this machine."),
    "kind": ("grove.cli.kind:kind", "Run the operator in a kind cluster, which needs a container engine."),
    "demo": ("grove.cli.demo:demo", "Take a PodCliqueSet to running pods on this machine."),
}
"""Where each subcommand is, as `module:attribute`, and what it does."""


_FULL: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
"""What writing fails with when the disk, the quota or the device is the cause, and no mistake of ours."""


class LazyGroup(click.Group):
    """A group that imports a subcommand only to run it or to show its own help."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute = COMMANDS[cmd_name][0].split(":")
        command = getattr(import_module(module), attribute)
        assert isinstance(command, click.Command), f"{cmd_name} is no command"
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise click.ClickException(f"the output could not be written: {error.strerror}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in COMMANDS.items()])


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if not wanted:
        return
    from importlib import metadata  # only here: it costs 10 ms

    try:
        click.echo(f"grove {metadata.version('grove-operator')}")
    except metadata.PackageNotFoundError:
        click.echo("grove, run from its sources")
    ctx.exit()


@click.group(cls=LazyGroup)
@click.option("--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version.")
def main() -> None:
    """Run whole AI inference systems on Kubernetes, each from one PodCliqueSet."""


def kubectl() -> None:
    """The same command as a plugin of kubectl, which finds it by its name `kubectl-grove`."""
    main(prog_name="kubectl grove")
