"""Files that commands write from the code: print them, write them, or check that they are up to date."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

check_option = click.option(
    "--check", is_flag=True, help="Write nothing; exit with 1 when a file differs from what would be written."
)


def file_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of a command that makes one document: `--output FILE` and `--check`."""
    output = click.option(
        "-o",
        "--output",
        type=click.Path(path_type=Path, dir_okay=False),
        help="File to write to. Without it the text is printed.",
    )
    return output(check_option(command))


def deliver(text: str, output: Path | None, *, check: bool) -> None:
    """Print a document, write it to `output`, or check that it stands there.

    Raises click.UsageError for a check of no file, and click.ClickException as `deliver_files` does.
    """
    if output is not None:
        deliver_files({output: text}, check=check)
    elif check:
        raise click.UsageError("--check needs a file: --output FILE")
    else:
        click.echo(text, nl=False)


def deliver_files(files: Mapping[Path, str], *, check: bool, strangers: Iterable[Path] = ()) -> None:
    """Write files, or check that they stand there with just this text and `strangers` do not.

    Raises click.ClickException, which names the file that cannot be written, or every file that is not right.
    """
    if not check:
        for path, text in files.items():
            _write(path, text)
        return
    problems = [problem for path, text in files.items() if (problem := _problem(path, text))]
    problems += [f"{path} is not one of Grove's" for path in strangers]
    if problems:
        raise click.ClickException("\n".join([*problems, "Run the same without --check, and commit the result."]))
    for path in files:
        click.echo(f"{path}: up to date")


def _problem(path: Path, text: str) -> str:
    if not path.exists():
        return f"{path} is missing"
    return "" if path.read_text(encoding="utf-8") == text else f"{path} differs from what the code says"


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as exc:
        raise click.ClickException(f"cannot write {path}: {exc.strerror}") from exc
    click.echo(f"{path}: {len(text.encode()) / 1024:.0f} KiB")
