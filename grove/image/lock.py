"""The part of requirements.lock that the operator runs with: all but what only developers need.

Standard library only: `python -m grove.image.lock requirements.lock pyproject.toml` prints it, for `pip install`.
"""

import re
import sys
import tomllib
from pathlib import Path

_ENTRY = re.compile(r"^[A-Za-z0-9].*\n(?: .*\n)*", re.MULTILINE)
"""A package with its hashes, and below them, as comments, the packages that want it."""

_NAME = re.compile(r"[A-Za-z0-9][\w.-]*")


def runtime(lock: str, pyproject: str) -> dict[str, str]:
    """The entries of the lock that the project's own dependencies lead to, by normalized name."""
    entries = {normalized(entry): entry for entry in _ENTRY.findall(lock)}
    wanted_by = {name: _wanted_by(entry) for name, entry in entries.items()}
    found = {normalized(text) for text in tomllib.loads(pyproject)["project"]["dependencies"]}
    while more := {name for name, parents in wanted_by.items() if parents & found} - found:
        found |= more
    return {name: entry for name, entry in entries.items() if name in found}


def _wanted_by(entry: str) -> set[str]:
    _, _, comments = entry.partition("# via")
    return {normalized(line) for line in comments.replace("#", "").splitlines() if line.strip()}


def normalized(text: str) -> str:
    """The name at the beginning of a requirement, as the packaging specification compares names."""
    found = _NAME.match(text.strip())
    assert found, f"{text!r} begins with no name"
    return re.sub(r"[-_.]+", "-", found[0]).lower()


if __name__ == "__main__":
    print("".join(runtime(*(Path(argument).read_text() for argument in sys.argv[1:])).values()), end="")
