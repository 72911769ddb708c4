"""Grove itself as it goes into an image: the package from its sources, its metadata, and the command.

Standard library only: `python -m grove.image.package SOURCE ROOT` does it, for the Dockerfile.
"""

import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

from grove.image.errors import ImageError

PACKAGES = Path("/opt/grove")
"""Where packages are in an image, and below it, in bin, the command."""

_PROGRAM = """\
#!/usr/local/bin/python
import sys

from grove.cli import main

sys.exit(main())
"""


def read_project(source: Path) -> dict[str, Any]:
    """The table `project` of pyproject.toml. Raises ImageError when `source` is no checkout."""
    try:
        project: dict[str, Any] = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    except FileNotFoundError as error:
        raise ImageError(f"{source} is no checkout of Grove: {error.filename} is missing") from error
    return project


def add(root: Path, source: Path) -> None:
    """Put the package of the checkout `source` below `root`."""
    project = read_project(source)
    packages = root / PACKAGES.relative_to("/")
    shutil.copytree(source / "grove", packages / "grove", ignore=shutil.ignore_patterns("__pycache__"))
    about = packages / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()
    lines = [f"Name: {project['name']}", f"Version: {project['version']}", f"Summary: {project['description']}"]
    lines += [f"Requires-Dist: {dependency}" for dependency in project["dependencies"]]
    (about / "METADATA").write_text("\n".join(["Metadata-Version: 2.1", *lines, ""]))
    shutil.copy(source / "LICENSE", about)
    program = packages / "bin" / "grove"
    program.parent.mkdir()
    program.write_text(_PROGRAM)
    program.chmod(0o755)


if __name__ == "__main__":
    add(Path(sys.argv[2]), Path(sys.argv[1]))
