"""Kubernetes objects in files, as kubectl reads them: YAML or JSON, several documents, Lists."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, ClassVar

import orjson
import yaml

if TYPE_CHECKING:
    from yaml import SafeDumper, SafeLoader
else:  # libyaml does the same, many times faster
    SafeDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    SafeLoader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class ManifestError(Exception):
    """A file that cannot be read; says which, where and why."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """One object of a file."""

    source: str
    """the file's name and the line on which the document starts"""
    obj: dict[str, Any]


def read_manifests(path: str) -> list[Manifest]:
    """The objects in a file, `-` for standard input, in their order; the items of a List count as objects.

    Raises ManifestError when the file cannot be read or parsed, or holds something that is no object.
    """
    name = "standard input" if path == "-" else path
    try:
        data = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except (OSError, ValueError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else exc
        raise ManifestError(f"{name}: cannot be read: {reason}") from exc
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        line = data.count(b"\n", 0, exc.start) + 1
        raise ManifestError(f"{name}:{line}: is not UTF-8 text") from exc
    try:
        return [
            Manifest(f"{name}:{line}", obj)
            for line, value in _documents(text)
            for obj in _objects(value, f"{name}:{line}")
        ]
    except yaml.YAMLError as exc:
        raise ManifestError(_yaml_problem(name, exc)) from exc
    except RecursionError as exc:
        raise ManifestError(f"{name}: is nested too deeply") from exc


def write_yaml(objects: Iterable[dict[str, Any]], stream: IO[bytes]) -> None:
    """Write objects as the documents of a YAML stream, their keys in the order they have."""
    yaml.dump_all(
        objects, stream, _Dumper, encoding="utf-8", sort_keys=False, explicit_start=True, allow_unicode=True, width=4096
    )


def _documents(text: str) -> Iterator[tuple[int, Any]]:
    """The documents of a text, each with the line on which it starts."""
    if text.lstrip().startswith("{"):
        try:
            yield 1, orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # may still be YAML, whose errors say as much
        else:
            return
    loader = _Loader(text)
    while loader.check_node() and (node := loader.get_node()) is not None:
        yield node.start_mark.line + 1, loader.construct_document(node)


def _objects(value: Any, source: str) -> Iterator[dict[str, Any]]:
    """The objects in a document: itself, or the items of a List."""
    if value is None:
        return
    if not isinstance(value, dict):
        raise ManifestError(f"{source}: must be an object with apiVersion and kind")
    if str(value.get("kind")).endswith("List") and isinstance(value.get("items"), list):
        for item in value["items"]:
            yield from _objects(item, source)
    else:
        yield value


class _Loader(SafeLoader):
    """Reads YAML as Kubernetes does, which PyYAML by itself does not: `2026-09-01` and `12:30` are strings, `1e3` is a
    number, `y` is true, keys are strings. A key given twice, or a value JSON does not know, is an error.
    """

    yaml_implicit_resolvers = {  # noqa: RUF012 - an instance variable to the type checker
        first: [(tag, pattern) for tag, pattern in resolvers if tag.rpartition(":")[2] in ("null", "bool", "merge")]
        for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
    }
    bool_values: ClassVar[dict[str, bool]] = {**SafeLoader.bool_values, "y": True, "n": False}
    yaml_constructors: ClassVar[Any] = {
        tag: constructor
        for tag, constructor in SafeLoader.yaml_constructors.items()
        if tag is None or tag.rpartition(":")[2] in ("null", "bool", "str")
    }

    def json_map(self, node: yaml.MappingNode) -> dict[str, Any]:
        own = sum(key.tag != "tag:yaml.org,2002:merge" for key, _ in node.value)
        self.flatten_mapping(node)  # puts what `<<` brings in before the map's own keys
        inherited = len(node.value) - own
        result: dict[str, Any] = {}
        given: set[str] = set()
        for position, (key_node, value_node) in enumerate(node.value):
            key = self.construct_object(key_node, deep=True)
            key = key if isinstance(key, str) else orjson.dumps(key).decode()
            if position >= inherited and key in given:
                raise _error(key_node, f"key {key!r} is given twice")
            if position >= inherited:
                given.add(key)
            result[key] = self.construct_object(value_node, deep=True)
        return result

    def json_list(self, node: yaml.SequenceNode) -> list[Any]:
        return self.construct_sequence(node, deep=True)

    def json_number(self, node: yaml.ScalarNode) -> int | float:
        try:
            integer = node.tag.endswith(":int")
            number: int | float = self.construct_yaml_int(node) if integer else float(node.value)
        except ValueError as exc:
            raise _error(node, f"{node.value[:40]} is no number") from exc
        if not math.isfinite(number) or (integer and abs(number) >= 2**63):
            raise _error(node, f"{node.value[:40]} is too large a number")
        return int(number) if number == int(number) else number


def _error(node: yaml.Node, problem: str) -> yaml.constructor.ConstructorError:
    return yaml.constructor.ConstructorError(None, None, problem, node.start_mark)


class _Dumper(SafeDumper):
    """Writes what `_Loader` reads back: no aliases, and text of several lines as a block."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def text(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_BOOL = re.compile(r"[yYnN]\Z")
_INT = re.compile(r"[-+]?(0b[01_]+|0x[0-9a-fA-F_]+|0o?[0-7_]+|0|[1-9][0-9_]*)\Z")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?\Z")
for kind in (_Loader, _Dumper):
    kind.add_implicit_resolver("tag:yaml.org,2002:bool", _BOOL, list("yYnN"))
    kind.add_implicit_resolver("tag:yaml.org,2002:int", _INT, list("-+0123456789"))
    kind.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+.0123456789"))
_Dumper.add_representer(str, _Dumper.text)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.json_map)
_Loader.add_constructor("tag:yaml.org,2002:seq", _Loader.json_list)
_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.json_number)
_Loader.add_constructor("tag:yaml.org,2002:float", _Loader.json_number)


def _yaml_problem(name: str, exc: yaml.YAMLError) -> str:
    if not isinstance(exc, yaml.MarkedYAMLError):
        return f"{name}: is not valid YAML: {str(exc).splitlines()[0]}"
    mark = exc.problem_mark or exc.context_mark
    where = f"{name}:{mark.line + 1}" if mark else name
    return f"{where}: is not valid YAML: {': '.join(part for part in (exc.context, exc.problem) if part)}"
