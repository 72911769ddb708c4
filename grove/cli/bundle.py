"""What is packed for others to look for a fault: files as they may be given away, and what could not be read."""

from __future__ import annotations

import io
import tarfile
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeVar

import orjson

from grove.cli.kube import explained
from grove.inspect.redact import redacted
from grove.inspect.scene import Object
from grove.inspect.text import counted
from grove.runtime.errors import ApiError

T = TypeVar("T")

_ARCHIVES: Final = (".tar.gz", ".tgz")


@dataclass
class Bundle:
    """Files by name, and what could not be read."""

    files: dict[str, bytes] = field(default_factory=dict)
    contents: list[str] = field(default_factory=list)
    """what is in each file, for people"""
    unread: list[str] = field(default_factory=list)

    def add(self, name: str, text: str | bytes, what: str) -> None:
        """Put in a file."""
        self.files[name] = text.encode() if isinstance(text, str) else text
        self.contents.append(f"{name}: {what}")

    def add_objects(self, name: str, objects: Sequence[Object]) -> None:
        """Put in objects, as they may be given away."""
        items = {"apiVersion": "v1", "kind": "List", "items": [redacted(obj) for obj in objects]}
        self.add(f"{name}.json", orjson.dumps(items, option=orjson.OPT_INDENT_2), counted(len(objects), "object"))

    async def read(self, what: str, answer: Awaitable[T]) -> T | None:
        """The answer to a request; None, and a note, when it is refused or lost."""
        try:
            return await answer
        except ApiError as error:
            self.unread.append(f"{what}: {explained(error, 'the API server')}")
            return None

    def write(self, path: Path) -> None:
        """Write an archive or, by any other name, a folder; raises OSError."""
        index = "\n".join([*self.contents, *(f"not read: {line}" for line in self.unread), ""])
        files = {**self.files, "contents.txt": index.encode()}
        if not path.name.endswith(_ARCHIVES):
            for name, content in files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)
            return
        folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        with tarfile.open(path, "x:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(content))
