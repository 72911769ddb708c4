"""Container images as OCI archives: layers, and the file that `ctr images import`, `docker load` and kind take.

The same content makes the same bytes: no times, no owners, everything in order.
"""

import gzip
import hashlib
import io
import json
import os
import platform
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from grove.image.errors import ImageError

_OCI = "application/vnd.oci.image"
_FOLDERS = ("bin", "etc", "tmp", "proc", "sys", "dev", "run", "var")


class Layer:
    """A part of a root file system in the making; all in memory, all owned by root."""

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._data, mode="w", format=tarfile.PAX_FORMAT)

    def skeleton(self, *users: str) -> None:
        """Add the folders that a container expects, and /etc/passwd with root and these further lines."""
        for folder in _FOLDERS:
            self._add(tarfile.TarInfo(folder), type=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        self.text("etc/passwd", "".join(f"{line}\n" for line in ("root:x:0:0:root:/:/bin/sh", *users)))

    def text(self, path: str, content: str) -> None:
        """Add a file with this content."""
        self._add(tarfile.TarInfo(path), content.encode(), mode=0o644)

    def file(self, source: Path, path: str | None = None, mode: int = 0o755) -> None:
        """Add a file of this machine, links followed, by default at the same path."""
        self._add(tarfile.TarInfo((path or str(source)).lstrip("/")), source.read_bytes(), mode=mode)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(tarfile.TarInfo(path), type=tarfile.SYMTYPE, linkname=target)

    def tree(self, folder: Path) -> None:
        """Add everything in a folder, which stands for the root. Files are readable by all, and keep being programs."""
        for source in sorted(folder.rglob("*")):
            path = str(source.relative_to(folder))
            if source.is_symlink():
                self.link(path, os.readlink(source))
            elif source.is_dir():
                self._add(tarfile.TarInfo(path), type=tarfile.DIRTYPE, mode=0o755)
            else:
                self.file(source, path, 0o755 if os.access(source, os.X_OK) else 0o644)

    def content(self) -> bytes:
        """The layer as a tar file; nothing can be added any more."""
        self._tar.close()
        return self._data.getvalue()

    def _add(self, info: tarfile.TarInfo, content: bytes = b"", **fields: Any) -> None:
        info.size = len(content)
        for key, value in fields.items():
            setattr(info, key, value)
        self._tar.addfile(info, io.BytesIO(content))


def architecture() -> str:
    """This machine's architecture as images have it. Raises ImageError where no image can be made."""
    machine = platform.machine().lower()
    found = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine)
    if platform.system() != "Linux" or found is None:
        raise ImageError(
            f"an image is made of programs of this machine, which needs Linux with amd64 or arm64, and this is "
            f"{platform.system()} {machine}: build grove/image/Dockerfile instead"
        )
    return found


def save(layers: Sequence[Layer], names: Sequence[str], file: Path, config: Mapping[str, Any]) -> str:
    """Write an image under several full names, such as `docker.io/library/busybox:1`, and return its digest.

    `config` is the runtime configuration of the OCI image specification: Entrypoint, Env, User, Labels and so on.
    """
    blobs: dict[str, bytes] = {}

    def put(kind: str, content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"mediaType": f"{_OCI}.{kind}", "digest": f"sha256:{digest}", "size": len(content)}

    contents = [layer.content() for layer in layers]
    entries = [put("layer.v1.tar+gzip", gzip.compress(content, 6, mtime=0)) for content in contents]
    diffs = [f"sha256:{hashlib.sha256(content).hexdigest()}" for content in contents]
    image = {
        "architecture": architecture(),
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], **config},
        "rootfs": {"type": "layers", "diff_ids": diffs},
    }
    about = put("config.v1+json", _json(image))
    manifest = put(
        "manifest.v1+json",
        _json({"schemaVersion": 2, "mediaType": f"{_OCI}.manifest.v1+json", "config": about, "layers": entries}),
    )
    index = [{**manifest, "annotations": {"io.containerd.image.name": name}} for name in names]
    # What docker before version 25 reads in place of the index.
    docker = {"Config": _path(about), "RepoTags": list(names), "Layers": [_path(entry) for entry in entries]}
    parts = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json({"schemaVersion": 2, "mediaType": f"{_OCI}.index.v1+json", "manifests": index}),
        "manifest.json": _json([docker]),
    }
    parts |= {_path({"digest": digest}): content for digest, content in sorted(blobs.items())}
    _write(file, parts)
    return str(manifest["digest"])


def _write(file: Path, parts: Mapping[str, bytes]) -> None:
    """The archive, which appears at once, when it is complete."""
    unfinished = file.with_name(f".{file.name}.unfinished")
    try:
        with tarfile.open(unfinished, "w") as archive:
            for name, content in parts.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        os.replace(unfinished, file)
    finally:
        unfinished.unlink(missing_ok=True)


def _path(entry: Mapping[str, Any]) -> str:
    return f"blobs/sha256/{entry['digest'].removeprefix('sha256:')}"


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
