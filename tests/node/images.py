"""Container images without a registry or a builder: OCI archives of files of this machine, for `ctr images import`."""

import hashlib
import io
import json
import platform
import re
import subprocess
import sys
import sysconfig
import tarfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tests.cluster.harness import ROOT

BUSYBOX = Path("/bin/busybox")
"""Debian's busybox-static."""

_APPLETS = ["sh", "sleep", "cat", "echo", "id", "env", "ls", "touch", "rm", "test", "true", "false"]
_LEFT_OUT = re.compile(r"/(__pycache__|site-packages|test|idlelib|tkinter|ensurepip|lib2to3|config-[^/]*)(/|$)")


class Layer:
    """A root file system in the making; all in memory."""

    def __init__(self) -> None:
        self._data = io.BytesIO()
        self._tar = tarfile.TarFile(fileobj=self._data, mode="w")
        for folder in ("bin", "etc", "tmp", "proc", "sys", "dev", "run", "var"):
            self._add(tarfile.TarInfo(folder), type=tarfile.DIRTYPE, mode=0o1777 if folder == "tmp" else 0o755)
        self.text("etc/passwd", "root:x:0:0:root:/:/bin/sh\n")

    def text(self, path: str, content: str) -> None:
        """Add a file with this content."""
        self._add(tarfile.TarInfo(path), content.encode(), mode=0o644)

    def file(self, source: Path, path: str | None = None) -> None:
        """Add a file of this machine, links followed, by default at the same path."""
        self._add(tarfile.TarInfo((path or str(source)).lstrip("/")), source.read_bytes(), mode=0o755)

    def link(self, path: str, target: str) -> None:
        """Add a symbolic link."""
        self._add(tarfile.TarInfo(path), type=tarfile.SYMTYPE, linkname=target)

    def content(self) -> bytes:
        """The layer as a tar file; nothing can be added any more."""
        self._tar.close()
        return self._data.getvalue()

    def _add(self, info: tarfile.TarInfo, content: bytes = b"", **fields: Any) -> None:
        info.size = len(content)
        for key, value in fields.items():
            setattr(info, key, value)
        self._tar.addfile(info, io.BytesIO(content))


def busybox() -> Layer:
    """A shell and a few programs."""
    layer = Layer()
    layer.file(BUSYBOX, "bin/busybox")
    for applet in _APPLETS:
        layer.link(f"bin/{applet}", "busybox")
    return layer


def python() -> Layer:
    """The interpreter of this test run and what `python -m grove.initc` needs, at their own paths."""
    layer = busybox()
    binary = Path(sys.executable).resolve()
    library = Path(sysconfig.get_paths()["stdlib"])
    files = [binary, *_library(library)]
    for file in (*files, *_shared_objects(files)):
        layer.file(file)
    layer.link("bin/python", str(binary))
    for name in ("__init__.py", "initc.py"):
        layer.file(ROOT / "grove" / name, f"app/grove/{name}")
    return layer


def save(layer: Layer, names: Sequence[str], file: Path, command: Sequence[str], **config: Any) -> None:
    """Write an image of one layer under several full names, such as `docker.io/library/busybox:1`."""
    data = layer.content()
    blobs: dict[str, bytes] = {}

    def put(content: bytes) -> dict[str, Any]:
        digest = hashlib.sha256(content).hexdigest()
        blobs[digest] = content
        return {"digest": f"sha256:{digest}", "size": len(content)}

    layer_entry = {"mediaType": "application/vnd.oci.image.layer.v1.tar", **put(data)}
    arch = {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]
    image = {
        "architecture": arch,
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], "Entrypoint": list(command), **config},
        "rootfs": {"type": "layers", "diff_ids": [layer_entry["digest"]]},
    }
    manifest_type = "application/vnd.oci.image.manifest.v1+json"
    config_entry = {"mediaType": "application/vnd.oci.image.config.v1+json", **put(_json(image))}
    manifest = put(
        _json({"schemaVersion": 2, "mediaType": manifest_type, "config": config_entry, "layers": [layer_entry]})
    )
    entries = [
        {"mediaType": manifest_type, **manifest, "annotations": {"io.containerd.image.name": name}} for name in names
    ]
    with tarfile.open(file, "w") as archive:
        parts = {"oci-layout": _json({"imageLayoutVersion": "1.0.0"})}
        parts["index.json"] = _json({"schemaVersion": 2, "manifests": entries})
        parts |= {f"blobs/sha256/{digest}": content for digest, content in blobs.items()}
        for name, content in parts.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


def _library(folder: Path) -> list[Path]:
    files = (file for file in folder.rglob("*") if file.is_file() and file.suffix != ".a")
    return [file for file in files if not _LEFT_OUT.search(str(file.relative_to(folder.parent)))]


def _shared_objects(files: Iterable[Path]) -> list[Path]:
    """The shared libraries that programs and modules are linked to, the loader included."""
    programs = [str(file) for file in files if file.suffix == ".so" or file.name.startswith("python")]
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return [Path(path) for path in sorted(set(re.findall(r"(/\S*lib\S+\.so\S*)(?= \(0x)", listing)))]


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
