"""`grove rules`: write the rules of admission as a table, or check that a file of them is up to date."""

import inspect
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

import click

from grove.admission.registry import BINDING_RULES, PODCLIQUESET_RULES, Rule

_HEAD: Final = """# Rules of admission

What a PodCliqueSet and a ClusterTopologyBinding must look like. This page is written by `grove rules` from the rules
themselves. The webhooks, the operator when it reads a set, and `grove plan` ask the same ones; those that CEL can
express stand in the CustomResourceDefinitions too, and hold while the operator is away. All errors come at once, each
with the field, its value and what would be right. How the webhooks are run is in [Admission](admission.md).
"""


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="File to write to.")
@click.option("--check", is_flag=True, help="Write nothing; exit with 1 when the file says something else.")
def rules(output: Path | None, check: bool) -> None:
    """Print what admission asks of PodCliqueSets and ClusterTopologyBindings, as Markdown."""
    text = document()
    if check and output is None:
        raise click.UsageError("--check needs a file: --output FILE")
    if output is None:
        click.echo(text, nl=False)
    elif not check:
        output.write_text(text, encoding="utf-8")
    elif not output.exists() or output.read_text(encoding="utf-8") != text:
        raise click.ClickException(f"{output} is not what `grove rules` writes: run `grove rules -o {output}`")
    else:
        click.echo(f"{output}: {len(PODCLIQUESET_RULES) + len(BINDING_RULES)} rules are up to date")


def document() -> str:
    """All rules as a Markdown document, a table for each module of rules."""
    parts = [_HEAD, "\n## PodCliqueSet\n"]
    for about, some in groupby(sorted(PODCLIQUESET_RULES, key=_subject), key=_subject):
        parts += [f"\n### {about}\n\n", *_table(some)]
    return "".join([*parts, "\n## ClusterTopologyBinding\n\n", *_table(BINDING_RULES)])


def _subject(rule: Rule) -> str:
    """What the module of a rule is about: the first sentence of its docstring."""
    text = " ".join((inspect.getdoc(inspect.getmodule(rule.about)) or "").split())
    return text.partition(". ")[0].rstrip(".")


def _table(some: Iterable[Rule]) -> Iterable[str]:
    yield "| fields | what holds | asked |\n|---|---|---|\n"
    for rule in some:
        fields = "<br>".join(f"`{field}`" for field in rule.fields) or "all"
        yield f"| {fields} | {rule.text.replace('|', chr(92) + '|')} | {rule.when} |\n"
