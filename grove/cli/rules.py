"""`grove rules`: write the rules of admission as a table, or check that a file of them is up to date."""

import inspect
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path
from typing import Final

import click

from grove.admission.registry import BINDING_RULES, PODCLIQUESET_RULES, Rule
from grove.cli.generated import deliver, file_options

_HEAD: Final = """# Rules of admission

What a PodCliqueSet and a ClusterTopologyBinding must look like. This page is written by `grove rules` from the rules
themselves. The webhooks, the operator when it reads a set, and `grove plan` ask the same ones; those that CEL can
express stand in the CustomResourceDefinitions too, and hold while the operator is away. All errors come at once, each
with the field, its value and what would be right. How the webhooks are run is in [Admission](admission.md).
"""


@click.command()
@file_options
def rules(output: Path | None, check: bool) -> None:
    """Print what admission asks of PodCliqueSets and ClusterTopologyBindings, as Markdown."""
    deliver(document(), output, check=check)


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
