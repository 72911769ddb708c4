"""What the project says of itself: documents, Makefile, lock and CI agree with what is there."""

import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from grove.cli import COMMANDS, main

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MAKEFILE = (ROOT / "Makefile").read_text()
README = (ROOT / "README.md").read_text()

documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def anchors(document: Path) -> set[str]:
    """What a link can follow a `#` with: the headings, in lower case with dashes for spaces."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}


def code_blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


@documents
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", re.sub("`[^`\n]+`", "", document.read_text())):
        path, _, anchor = target.partition("#")
        linked = (document.parent / path).resolve() if path else document
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


@documents
def test_paths_exist(document: Path) -> None:
    named = re.findall(r"(?<![\w./-])(?:grove|tests|samples|docs|crds|charts)/[\w./*-]*[\w*]", document.read_text())
    missing = [path for path in named if not any(ROOT.glob(path))]
    assert not missing


@documents
def test_make_targets_exist(document: Path) -> None:
    named = set(re.findall(r"(?:`|^)make(?: \w+=\S+)* ([a-z-]+)", document.read_text(), re.MULTILINE))
    assert named <= set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))


@documents
def test_commands_and_their_options_exist(document: Path) -> None:
    for name, rest in re.findall(r"(?:`|\$ |^|bin/)grove ([a-z]+)([^`\n|]*)", document.read_text(), re.MULTILINE):
        assert name in COMMANDS, name
        shown = CliRunner().invoke(main, [name, "--help"])
        assert shown.exit_code == 0
        for option in re.findall(r"(?<= )--?[a-z][\w-]*", rest):
            assert re.search(rf"(?<![\w-]){option}\b", shown.output), f"grove {name} {option}"


def test_the_plan_in_the_readme_is_what_the_command_prints() -> None:
    (manifest,) = code_blocks(README, "yaml")
    shown = next(block for block in code_blocks(README, "console") if block.startswith("$ grove plan"))
    printed = CliRunner().invoke(main, ["plan", "-f", "-"], input=manifest)
    assert printed.exit_code == 0
    assert printed.output == shown.partition("\n")[2]


def test_the_mistakes_in_the_readme_are_what_the_command_finds() -> None:
    (manifest,) = code_blocks(README, "yaml")
    broken = manifest.replace("minAvailable: 1, pod", "minAvailable: 3, pod").replace(
        "[leader, worker]", "[leder, worker]"
    )
    shown = next(block for block in code_blocks(README, "text") if block.startswith("error:"))
    found = CliRunner().invoke(main, ["plan", "-f", "-"], input=broken)
    assert found.exit_code == 1
    assert [line.strip() for line in found.output.splitlines() if "error:" in line] == shown.splitlines()


FOR_OTHER_TARGETS = {"generated"}


def test_help_lists_every_target() -> None:
    phony = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)
    assert phony
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^  make ([a-z-]+)", listed, re.MULTILINE)) == set(phony[1].split()) - FOR_OTHER_TARGETS


def test_an_old_python_is_named_with_what_to_do(tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        (tmp_path / name).symlink_to(ROOT / name)
    refused = subprocess.run(
        ["make", f"PYTHON={old}", "lint"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert refused.returncode != 0
    assert f"no Python 3.11 or newer among: {old}. Install one, or name one: make PYTHON=" in refused.stderr
    assert not (tmp_path / ".venv").exists()


def test_ci_runs_the_test_command_of_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    run = re.findall(r"^make .*$", script.read_text(), re.MULTILINE)
    assert any(block.strip() in run for block in code_blocks(README, "sh"))


def locked() -> dict[str, tuple[str, int]]:
    """Version and number of hashes of each package in the lock, by its normalized name."""
    entries = re.findall(
        r"^([\w.-]+)==(\S+)[^\n]*\\\n((?:    --hash=sha256:[0-9a-f]{64}[ \\]*\n)+)",
        (ROOT / "requirements.lock").read_text(),
        re.MULTILINE,
    )
    return {canonicalize_name(name): (version, hashes.count("--hash=")) for name, version, hashes in entries}


def test_the_lock_has_what_pyproject_asks_for() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pins = locked()
    for text in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        wanted = Requirement(text)
        assert canonicalize_name(wanted.name) in pins, f"{text} is not locked: make lock"
        version, _ = pins[canonicalize_name(wanted.name)]
        assert wanted.specifier.contains(version), f"{text}, but {version} is locked: make lock"


def test_the_lock_names_hashes_and_no_place() -> None:
    text = (ROOT / "requirements.lock").read_text()
    assert len(locked()) == len(re.findall(r"^\w", text, re.MULTILINE)), "every package is pinned by hash"
    assert all(hashes >= 1 for _, hashes in locked().values())
    assert "://" not in text
    assert not re.search(r"^--", text, re.MULTILINE), "options such as an index belong to the user"
