"""The Dockerfile, as far as that can be told without an engine: it makes what `make image` makes."""

import json
import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

from grove.image import lock, operator
from grove.image.package import PACKAGES

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "grove" / "image" / "Dockerfile").read_text()
PYPROJECT = (ROOT / "pyproject.toml").read_text()


def instructions() -> list[tuple[str, str]]:
    """Each instruction and its arguments, lines joined and comments left out."""
    text = re.sub(r"^#.*\n", "", TEXT, flags=re.MULTILINE).replace("\\\n", " ")
    return [(word, rest.strip()) for word, _, rest in (line.partition(" ") for line in text.splitlines() if line)]


def pairs(instruction: str) -> dict[str, str]:
    """The `key=value` pairs of ENV or LABEL."""
    [rest] = [rest for word, rest in instructions() if word == instruction]
    return {key: value for key, _, value in (item.partition("=") for item in shlex.split(rest))}


def test_it_runs_as_the_archive_does() -> None:
    config = operator.config(tomllib.loads(PYPROJECT)["project"])
    last = dict(instructions())
    assert last["USER"] == config["User"]
    assert last["WORKDIR"] == config["WorkingDir"]
    assert json.loads(last["ENTRYPOINT"]) == config["Entrypoint"]
    assert pairs("LABEL") == config["Labels"]
    assert [f"{key}={value}" for key, value in pairs("ENV").items()] == config["Env"]


def test_it_copies_what_is_there() -> None:
    copied = [rest.split() for word, rest in instructions() if word == "COPY" and not rest.startswith("--from")]
    sources = [source for *sources, _ in copied for source in sources]
    assert {"requirements.lock", "pyproject.toml", "grove"} <= set(sources)
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_its_python_is_pinned_and_new_enough() -> None:
    [argument] = [rest for word, rest in instructions() if word == "ARG"]
    pinned = re.fullmatch(r"PYTHON=(\d+)\.(\d+)\.\d+-slim-\w+", argument)
    assert pinned, argument
    floor = re.fullmatch(r">=(\d+)\.(\d+)", tomllib.loads(PYPROJECT)["project"]["requires-python"])
    assert floor
    assert (int(pinned[1]), int(pinned[2])) >= (int(floor[1]), int(floor[2]))
    assert {rest.split()[0] for word, rest in instructions() if word == "FROM"} == {"python:${PYTHON}"}


def test_its_packages_are_checked_by_hash() -> None:
    [install] = re.findall(r"pip install ([^&\\]*)", TEXT)
    assert {"--require-hashes", "--no-deps", "--target", str(PACKAGES), "runtime.lock"} <= set(install.split())


def test_its_own_programs_do_what_it_needs(tmp_path: Path) -> None:
    """Both run with a Python that has no packages, and from the folder of the sources."""
    python = [sys.executable, "-S", "-m"]
    cut = subprocess.run(
        [*python, "grove.image.lock", "requirements.lock", "pyproject.toml"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert cut.stdout == "".join(lock.runtime((ROOT / "requirements.lock").read_text(), PYPROJECT).values())
    subprocess.run([*python, "grove.image.package", str(ROOT), str(tmp_path)], cwd=ROOT, check=True)
    folder = tmp_path / "opt" / "grove"
    assert (folder / "grove" / "initc.py").is_file()
    assert (folder / "bin" / "grove").read_text().startswith("#!/usr/local/bin/python\n")
    assert (folder / "grove_operator-0.1.0.dist-info" / "METADATA").is_file()
    for program in ("grove.image.lock requirements.lock pyproject.toml", "grove.image.package /src /"):
        assert f"python -m {program}" in TEXT
