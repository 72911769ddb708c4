"""The interpreter of this process as it goes into an image: program, trimmed standard library, shared libraries.

It is moved from wherever it lives to /usr/local, as it finds its library from where it is itself. Shared libraries go
beside the C library, which is where its loader looks in any case.
"""

import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from grove.image.errors import ImageError

PREFIX = Path("/usr/local")

_LEFT_OUT = re.compile(
    r"(^|/)(__pycache__|test|tests|config-[^/]*)(/|$)"
    r"|^(site-packages|dist-packages|idlelib|tkinter|turtledemo|turtle\.py|ensurepip|venv|lib2to3|distutils|pydoc_data"
    r"|curses|dbm|sqlite3|nis\.py|msilib|__phello__)(/|$)"
    r"|^lib-dynload/(_test|_ctypes_test|_xx|xx|_tkinter|_curses|_dbm|_gdbm|_sqlite3|readline|nis|ossaudiodev)"
    r"|\.a$"
)
"""Of the standard library: tests, tools of developers, and what needs a terminal, a window or a database."""

_OPENED_BY_NAME = ("libnss_files.so.2", "libnss_dns.so.2", "libgcc_s.so.1")
"""What the C library opens when it is needed, so that no program names it."""


def add(root: Path, programs: Iterable[Path]) -> None:
    """Put the interpreter below `root`, and all shared libraries that it and `programs`, further modules, need.

    Raises ImageError when this machine's C library is not the GNU one.
    """
    binary = Path(sys.executable).resolve()
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path(sysconfig.get_path("stdlib"))
    folder = root / PREFIX.relative_to("/") / library.relative_to(sys.base_prefix)
    own = [_copy(binary, root / PREFIX.relative_to("/") / "bin" / version)]
    for name in ("python", "python3"):
        (own[0].parent / name).symlink_to(version)

    def left_out(directory: str, names: list[str]) -> set[str]:
        return {name for name in names if _LEFT_OUT.search(str((Path(directory) / name).relative_to(library)))}

    shutil.copytree(library, folder, ignore=left_out, copy_function=shutil.copy, ignore_dangling_symlinks=True)
    own += sorted(folder.rglob("*.so"))
    needed = _needed([*own, *programs])
    base = next((path.parent for path in needed if path.name == "libc.so.6"), None)
    if base is None:
        raise ImageError(
            "an image needs the GNU C library, which this Python does not use: build grove/image/Dockerfile"
        )
    for path in (*needed, *(base / name for name in _OPENED_BY_NAME)):
        if not path.is_relative_to(root) and path.exists():
            # The loader is the one that a program names with its whole path.
            target = path if path.name.startswith("ld-") else base / path.name
            own.append(_copy(path, root / target.relative_to("/")))
    _strip(own)


def _copy(source: Path, target: Path) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)
    return target


def _needed(files: Iterable[Path]) -> list[Path]:
    """The shared libraries that programs and modules are linked to, the loader included."""
    listing = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    if missing := sorted(set(re.findall(r"(\S+) => not found", listing))):
        raise ImageError(f"this Python needs shared libraries that are not here: {', '.join(missing)}")
    return [Path(path) for path in sorted(set(re.findall(r"(/\S+)(?= \(0x)", listing)))]


def _strip(files: Iterable[Path]) -> None:
    """Take the symbols of debuggers out, where binutils are: a third of the image."""
    if program := shutil.which("strip"):
        for file in files:
            file.chmod(0o755)
        subprocess.run([program, "--strip-unneeded", *map(str, files)], check=False, stderr=subprocess.DEVNULL)
