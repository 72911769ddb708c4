"""`grove reference`: write the page of all fields, labels, variables, conditions and events, or check that it is up to
date.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

import click

from grove.api import crd, durations
from grove.api.cel import NAME
from grove.api.crd import DEFINITIONS, Definition
from grove.api.openapi import Schema
from grove.api.podcliqueset import PodCliqueSet
from grove.api.vocabulary import ANNOTATIONS, CONDITIONS, ENVIRONMENT, EVENTS, LABELS, MADE, ConditionWord, Word
from grove.cli.generated import deliver, file_options

_HEAD: Final = """# API reference

Every field and every string that others may rely on. This page is written by `grove reference` from the models that
the CustomResourceDefinitions are made of; `kubectl explain pcs.spec.template` says the same of a cluster.

A default in these tables is filled in by the API server. Others, which depend on other fields, come from
[admission](admission.md#rules), as do rules that no schema can express. *Cannot change* means after creation.
"""

_KUBERNETES: Final = {
    "podSpec": "core/v1 PodSpec",
    "templateSpec": "resource.k8s.io/v1 ResourceClaimTemplateSpec",
    "metrics": "list of autoscaling/v2 MetricSpec",
}
"""Fields whose type is Kubernetes' own; what is in them is told there."""

_SHARED: Final = {"conditions": "list of [Condition](#condition)", "lastErrors": "list of [LastError](#lasterror)"}
"""Fields whose type is told once for all kinds."""

_PATTERNS: Final = {NAME["pattern"]: "a DNS label", durations.PATTERN: "a duration such as `1h30m`"}
"""Patterns that are better said in words."""

_COLUMNS: Final = ("field", "type", "default", "rules", "")


@click.command()
@file_options
def reference(output: Path | None, check: bool) -> None:
    """Print all fields, labels, annotations, variables, conditions and events, as Markdown."""
    deliver(document(), output, check=check)


def document() -> str:
    """The page as Markdown: a section per kind, then what the kinds share, then the strings."""
    return "".join(
        [
            _HEAD,
            *(part for definition in DEFINITIONS for part in _kind(definition)),
            *_shared("Condition", "conditions"),
            *_shared("LastError", "lastErrors"),
            *_words("Labels", "Of objects that Grove makes, and those that it reads.", "label", LABELS),
            *_words("Annotations", "", "annotation", ANNOTATIONS),
            *_words("Environment variables", "They stand before your own.", "variable", ENVIRONMENT),
            *_conditions(),
            *_words("Events", "`kubectl describe` shows them with the object.", "reason", EVENTS),
        ]
    )


def _kind(definition: Definition) -> Iterator[str]:
    model, schema = definition.model, crd.schema(definition.model)
    yield f"\n## {model.KIND}\n\n{' '.join((inspect.getdoc(model) or '').split())}\n\n"
    yield f"`{model.GROUP}/{model.VERSION}`, {'namespaced' if definition.namespaced else 'cluster-wide'}"
    yield f", short name `{definition.short_name}`"
    yield ", scaled through `/scale`.\n" if definition.selector_path else ".\n"
    for part in ("spec", "status"):
        rows = [row for row in _fields("", schema) if row[0].strip("`").split(".")[0] == part]
        yield f"\n### {model.KIND} {part}\n\n"
        yield from _table(_COLUMNS, rows)
    columns = [f"{c.name}{' (`-o wide`)' if c.priority else ''}" for c in definition.columns]
    yield f"\n`kubectl get {definition.short_name}` shows {', '.join(columns)}.\n"


def _shared(title: str, field: str) -> Iterator[str]:
    """A type that the statuses of several kinds have lists of."""
    items = crd.schema(PodCliqueSet)["properties"]["status"]["properties"][field]["items"]
    yield f"\n## {title}\n\n{items['description']}\n\n"
    yield from _table(_COLUMNS, _fields("", items))


def _fields(path: str, node: Schema) -> Iterator[tuple[str, ...]]:
    """Rows for the fields below `node`, which stands at `path`, each before those below itself."""
    messages = dict[str, list[str]]()
    for where, message in _messages(path, node):
        messages.setdefault(where, []).append(message)
    for here, name, field, required in _walk(path, node):
        rules = [*(["required"] if required else []), *_limits(field)]
        rules += messages.get(here, []) + messages.get(f"{here}[]", [])
        default = f"`{str(field['default']).replace('True', 'true')}`" if "default" in field else ""
        yield f"`{here}`", _type(name, field), default, "; ".join(dict.fromkeys(rules)), field.get("description", "")


def _walk(path: str, node: Schema) -> Iterator[tuple[str, str, Schema, bool]]:
    """Path, name and schema of each field, and whether it is required; types that are told elsewhere stay closed."""
    for name, field in node.get("properties", {}).items():
        if not path and name in ("apiVersion", "kind", "metadata"):
            continue
        here = f"{path}.{name}" if path else name
        yield here, name, field, name in node.get("required", ())
        if name not in _KUBERNETES and name not in _SHARED:
            yield from _walk(f"{here}[]", field["items"]) if "items" in field else _walk(here, field)


def _messages(path: str, root: Schema) -> Iterator[tuple[str, str]]:
    """What the rules in CEL say, each with the path of the field that it is about."""
    nodes = [(path, root)]
    for here, _, field, _ in _walk(path, root):
        nodes += [(here, field)] + ([(f"{here}[]", field["items"])] if "items" in field else [])
    for here, node in nodes:
        for rule in node.get("x-kubernetes-validations", ()):
            yield f"{here}{rule.get('fieldPath', '')}".removeprefix("."), rule["message"]


def _type(name: str, field: Schema) -> str:
    if name in _SHARED or name in _KUBERNETES:
        return _SHARED.get(name) or _KUBERNETES[name]
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "items" in field:
        return f"list of {_type('', field['items'])}s"
    if "additionalProperties" in field:
        return f"map of {_type('', field['additionalProperties'])}s"
    return {"date-time": "time"}.get(field.get("format", ""), str(field["type"]))


def _limits(field: Schema) -> Iterator[str]:
    if "enum" in field:
        yield "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    yield from _bounds(field, "minimum", "maximum", "{}")
    yield from _bounds(field, "minItems", "maxItems", "{} entries")
    yield from _bounds(field, "minLength", "maxLength", "{} characters")
    if "pattern" in field:
        yield _PATTERNS.get(field["pattern"], f"`{field['pattern']}`")
    if field.get("x-kubernetes-list-type") == "map":
        yield f"`{field['x-kubernetes-list-map-keys'][0]}` is unique"
    if field.get("x-kubernetes-list-type") == "set":
        yield "each once"


def _bounds(field: Schema, least: str, most: str, unit: str) -> Iterator[str]:
    low, high = field.get(least), field.get(most)
    if low is not None and high is not None:
        yield unit.format(f"{low} to {high}")
    elif high is not None:
        yield f"at most {unit.format(high)}"
    elif low is not None:
        yield f"at least {unit.format(low)}"


def _words(title: str, text: str, what: str, words: Iterable[Word]) -> Iterator[str]:
    yield f"\n## {title}\n\n" + (f"{text}\n\n" if text else "")
    yield from _table((what, "on", ""), ((f"`{word.text}`", _on(word), word.meaning) for word in words))


def _conditions() -> Iterator[str]:
    yield "\n## Conditions\n\nA condition is True with the reasons below unless the table says otherwise.\n\n"
    rows = ((f"`{word.type}`", _on(word), word.meaning, *_reasons(word)) for word in CONDITIONS)
    yield from _table(("condition", "on", "True", "reasons"), rows)


def _reasons(word: ConditionWord) -> Iterator[str]:
    yield "<br>".join(f"`{reason}`: {text}" for reason, text in word.reasons.items())


def _on(word: Word | ConditionWord) -> str:
    return "all that is made" if word.on == MADE else ", ".join(word.on)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |\n{'|---' * len(head)}|\n".replace("|  |", "| |")
    for row in rows:
        cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row]
        yield "| " + " | ".join(cells) + " |\n"
