"""What the documents tell their readers to type, the files they have them make, and what they say comes out."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
DOCUMENTS = {str(path.relative_to(ROOT)): path for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))}
LANGUAGES = {"sh", "console", "yaml", "text", "python", "toml"}

NOT_RUN = {
    r"make test": "that is what runs this",
    r"make test-node": "needs root and containerd, and is a test by itself",
    r"docker build .*": "needs a container engine",
    r"make (kind-up deploy|undeploy|kind-down)": "needs a container engine",
    r"make image": "the tests of the image make it",
    r"apt-get .*": "changes the machine",
}
"""Commands that the tests do not run, as patterns of the whole command, and why. Of targets of make they ask `make -n`.
"""

RUN = r"kubectl |grove |\.venv/bin/grove |helm |eval |sed |make( demo| cluster-up| cluster-down)?$"
"""How the commands begin that the tests run."""

RUNS_ON = (r"grove operator .*",)
"""Commands that end with ctrl-C only: they run until their page ends."""

ASKS = r"kubectl (get|describe|logs|events)|grove (plan|cluster status)"
"""Commands that only look: they are asked again until they show what the page shows."""

_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and text, and the line of the document where it begins."""

    document: str
    line: int
    language: str
    text: str


@dataclass(frozen=True)
class Command:
    """Something to type into a shell. `shown` is what the document says comes out, "" when it says nothing."""

    block: Block
    text: str
    shown: str = ""

    def __str__(self) -> str:
        return f"{self.block.document}:{self.block.line}: {self.text}"


@dataclass(frozen=True)
class File:
    """A file that the reader saves: a block of YAML whose first line is a comment with its name."""

    name: str
    text: str


def blocks(path: Path) -> Iterator[Block]:
    """The fenced blocks of a document, in order."""
    text = path.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        indent, language, body = found.groups()
        line = text.count("\n", 0, found.start()) + 1
        yield Block(str(path.relative_to(ROOT)), line, language, re.sub(f"^{indent}", "", body, flags=re.MULTILINE))


def steps(path: Path) -> Iterator[Command | File]:
    """What the reader of a document does, in order."""
    for block in blocks(path):
        if block.language == "sh":
            yield from (Command(block, text) for text in _lines(block.text))
        elif block.language == "console":
            yield from _session(block)
        elif block.language == "yaml" and (name := re.match(r"# ([\w.-]+\.yaml)\n", block.text)):
            yield File(name[1], block.text)


def commands() -> list[Command]:
    """The commands of all documents."""
    return [step for path in DOCUMENTS.values() for step in steps(path) if isinstance(step, Command)]


def _lines(text: str) -> list[str]:
    """The lines of a script without comments, those that end with a backslash joined with the next."""
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [line for line in (re.sub(r"(^|\s)#\s.*", "", line).strip() for line in lines) if line]


def _session(block: Block) -> Iterator[Command]:
    """The commands of a session, whose lines begin with `$ `, each with the output below it."""
    for part in re.split(r"^\$ ", re.sub(r"\\\n\s*", "", block.text), flags=re.MULTILINE)[1:]:
        text, _, shown = part.partition("\n")
        yield Command(block, text.strip(), shown.strip())


_VOLATILE = (
    (r"\S*\d\d:\d\d:\d\d\S*", r"\S+"),  # a time
    (r"\d+(?:\.\d+)? s\b", r"[\d.]+ s"),  # how long something took
    (r"(?:\d+[smhd])+\b", r"(?:\d+[smhd])+"),  # an age
    (r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b", r"-[a-z0-9]{5}"),  # the end of a pod's name
    (r"127\.0\.0\.1:\d+", r"127\.0\.0\.1:\d+"),
    (r"…", r".*"),
)
_ANY = re.compile("|".join(f"({pattern})" for pattern, _ in _VOLATILE) + r"|(\s+)")


def pattern(line: str) -> re.Pattern[str]:
    """What a line of output must look like for a line of a document to be true: the same, but for what differs from
    one run to the next. `…` stands for anything.
    """
    parts, end = list[str](), 0
    for found in _ANY.finditer(line):
        parts.append(re.escape(line[end : found.start()]))
        assert found.lastindex
        parts.append(_VOLATILE[found.lastindex - 1][1] if found.lastindex <= len(_VOLATILE) else r"\s+")
        end = found.end()
    return re.compile("".join([*parts, re.escape(line[end:])]))


def lacking(shown: str, printed: str) -> str:
    """The first line of `shown` that `printed` does not have after the ones before it; "" when it has them all."""
    rest = iter(line.strip() for line in printed.splitlines())
    for line in filter(None, map(str.strip, shown.splitlines())):
        wanted = pattern(line)
        if not any(wanted.fullmatch(one) for one in rest):
            return line
    return ""
