"""What commands print: text for people, with colours where they can be shown, and data for programs."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

import click
import orjson

from grove.cli.manifests import write_yaml
from grove.inspect.text import Tone

_PLAIN: Final = str.maketrans(
    {"├": "|", "└": "`", "─": "-", "│": "|", "…": "...", "→": "->", "█": "#", "▒": "+", "░": "."}
)
_COLOURS: Final = {Tone.GOOD: "green", Tone.BUSY: "yellow", Tone.BAD: "red", Tone.QUIET: "bright_black"}

data_output = click.option(
    "-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True, help="The format."
)


def say(text: str, *, err: bool = False) -> None:
    """Print in what the terminal can show: where it knows no box-drawing characters, with plain ones."""
    click.echo(shown(text, err=err), err=err, color=True)


def shown(text: str, *, err: bool = False) -> str:
    """The text in characters that the stream has."""
    stream = sys.stderr if err else sys.stdout
    try:
        text.encode(stream.encoding or "ascii", "strict")
    except (UnicodeEncodeError, LookupError):
        return text.translate(_PLAIN).encode("ascii", "backslashreplace").decode()
    return text


def paint(text: str, tone: Tone) -> str:
    """The text in its colour, where standard output is a terminal that has some and NO_COLOR is not set."""
    return click.style(text, fg=_COLOURS[tone]) if coloured() else text


def coloured() -> bool:
    """Whether colours are wanted (no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def dump(data: dict[str, Any], output: str, *, line: bool = False) -> None:
    """Write data as JSON or YAML; with `line` as one line of JSON, or one YAML document."""
    if output == "yaml":
        write_yaml([data], sys.stdout.buffer)
    else:
        layout = 0 if line else orjson.OPT_INDENT_2
        sys.stdout.buffer.write(orjson.dumps(data, option=layout | orjson.OPT_APPEND_NEWLINE))
    sys.stdout.buffer.flush()
