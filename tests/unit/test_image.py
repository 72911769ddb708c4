"""The operator's image: made once as `make image` does, then unpacked, looked at and run."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from grove.image import lock, operator
from grove.image.errors import ImageError

ROOT = Path(__file__).parents[2]
LOCK = (ROOT / "requirements.lock").read_text()
PYPROJECT = (ROOT / "pyproject.toml").read_text()
PROJECT = tomllib.loads(PYPROJECT)["project"]
PACKAGES = "opt/grove"


class Image:
    """An archive, and the root file system in it."""

    def __init__(self, file: Path, digest: str, root: Path) -> None:
        self.file, self.digest, self.root = file, digest, root
        with tarfile.open(file) as archive:

            def read(name: str) -> bytes:
                content = archive.extractfile(name)
                assert content
                return content.read()

            [self.manifest] = json.loads(read("manifest.json"))
            self.config: dict[str, Any] = json.loads(read(self.manifest["Config"]))["config"]
            for path in self.manifest["Layers"]:
                with tarfile.open(fileobj=io.BytesIO(gzip.decompress(read(path)))) as layer:
                    layer.extractall(root, filter="tar")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the image's Python, from where it lies here and with no other libraries than the image's."""
        [libraries] = {path.parent for path in self.root.glob("lib/**/libc.so.6")}
        environment = {"LD_LIBRARY_PATH": str(libraries), "PYTHONPATH": str(self.root / PACKAGES)}
        command = [str(self.root / "usr/local/bin/python"), *arguments]
        return subprocess.run(command, env=environment, cwd=self.root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    folder = tmp_path_factory.mktemp("image")
    file = folder / "deep" / "image.tar"
    command = [sys.executable, "-m", "grove", "image", "-o", str(file)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told, digest = done.stdout.splitlines()
    assert told.startswith(f"{file}: docker.io/library/grove-operator:{PROJECT['version']}, ")
    return Image(file, digest, folder / "root")


def test_it_has_the_name_that_the_chart_asks_for(image: Image) -> None:
    chart = (ROOT / "charts" / "grove" / "Chart.yaml").read_text()
    assert f"appVersion: {PROJECT['version']}\n" in chart
    assert image.manifest["RepoTags"] == [f"docker.io/library/grove-operator:{PROJECT['version']}"]


def test_it_is_fit_for_the_restricted_level(image: Image) -> None:
    # runAsNonRoot needs a number: the kubelet cannot tell who a name is.
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"] == ["grove"]
    labels = {key.rpartition(".")[2]: value for key, value in image.config["Labels"].items()}
    assert (labels["title"], labels["version"], labels["licenses"]) == ("grove-operator", "0.1.0", "Apache-2.0")
    assert not [path for path in image.root.rglob("*") if path.is_file() and path.stat().st_mode & 0o7022]


def test_the_operator_and_the_waiting_program_run_in_it(image: Image, tmp_path: Path) -> None:
    program = image.root / PACKAGES / "bin" / "grove"
    assert os.access(program, os.X_OK)
    assert program.read_text().startswith("#!/usr/local/bin/python\n")
    assert image.run(str(program), "--version").stdout == f"grove {PROJECT['version']}\n"
    (tmp_path / "startup").write_text("released")
    assert image.run("-m", "grove.initc", str(tmp_path / "startup")).stdout == "released\n"


def test_every_module_is_there_and_compiled(image: Image) -> None:
    script = """
import importlib, pkgutil, ssl, sys, grove
for module in pkgutil.walk_packages(grove.__path__, "grove."):
    if module.name != "grove.__main__":
        importlib.import_module(module.name)
print(sys.prefix)
for name, module in sorted(sys.modules.items()):
    print(getattr(module, "__file__", None) or "")
"""
    done = image.run("-c", script)
    assert done.returncode == 0, done.stderr
    prefix, *files = done.stdout.split()
    assert Path(prefix) == image.root / "usr/local"
    assert not [file for file in files if not Path(file).is_relative_to(image.root)]
    sources = [path for path in image.root.rglob("*.py") if "/bin/" not in str(path)]
    suffix = f"{sys.implementation.cache_tag}.pyc"
    assert not [path for path in sources if not (path.parent / "__pycache__" / f"{path.stem}.{suffix}").exists()]
    # Not dependent on a time: 0b01 says that the source's hash is in the file, and that nobody compares it (PEP 552).
    compiled = next((image.root / PACKAGES / "grove").glob("__pycache__/initc.*.pyc"))
    assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00"


def test_it_has_what_the_lock_pins_for_run_time_and_nothing_else(image: Image) -> None:
    found = {
        lock.normalized(one.name): one.version for one in metadata.distributions(path=[str(image.root / PACKAGES)])
    }
    pinned = {name: entry.split("==")[1].split()[0] for name, entry in lock.runtime(LOCK, PYPROJECT).items()}
    assert found == {**pinned, "grove-operator": PROJECT["version"]}
    names = {path.name for path in image.root.rglob("*")}
    assert not names & {"pip", "setuptools", "pytest", "tests", "test", "ensurepip", "tkinter", "sh", "bash", ".git"}
    assert (image.root / "etc/ssl/certs/ca-certificates.crt").read_text().count("BEGIN CERTIFICATE") > 50


def test_it_is_small_and_made_again_is_the_same(image: Image, tmp_path: Path) -> None:
    assert image.file.stat().st_size < 60e6
    assert operator.build(ROOT, operator.default_name(ROOT), tmp_path / "again.tar") == image.digest


def test_the_lock_is_cut_to_what_the_dependencies_lead_to() -> None:
    text = """\
# This file was autogenerated by uv via the following command:
#    make lock
a-direct==1.0 ; python_version < '4' \\
    --hash=sha256:aa \\
    --hash=sha256:ab
    # via operator (pyproject.toml)
both==2.0 \\
    --hash=sha256:bb
    # via
    #   indirect
    #   tool
indirect==3.0 \\
    --hash=sha256:cc
    # via a-direct
tool==4.0 \\
    --hash=sha256:dd
    # via operator (pyproject.toml)
"""
    project = '[project]\ndependencies = ["A_direct[x]>=1"]\n[project.optional-dependencies]\ndev = ["tool"]'
    cut = lock.runtime(text, project)
    assert list(cut) == ["a-direct", "both", "indirect"]
    assert "".join(cut.values()) in text.replace(text[text.index("tool==") :], "")


def test_dependencies_of_developers_stay_out() -> None:
    names = set(lock.runtime(LOCK, PYPROJECT))
    assert {"aiohttp", "kopf", "pydantic-core", "yarl"} <= names
    assert not names & {"pytest", "mypy", "ruff", "hypothesis", "setuptools", "packaging", "rich"}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("click==", "click==0", "click .* is installed, but the lock has 0"),
        ("click==", "clack==", "the lock has clack==.*, which is not installed: run `make image`"),
    ],
)
def test_an_environment_that_is_not_the_locks_is_refused(tmp_path: Path, old: str, new: str, says: str) -> None:
    (tmp_path / "pyproject.toml").write_text(PYPROJECT.replace('"click>', f'"{new.partition("=")[0]}>'))
    (tmp_path / "requirements.lock").write_text(LOCK.replace(f"\n{old}", f"\n{new}"))
    with pytest.raises(ImageError, match=says):
        operator.build(tmp_path, "a:1", tmp_path / "a.tar")


def test_a_changed_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata.PackagePath, "read_binary", lambda _: b"changed")
    with pytest.raises(ImageError, match=r"is not what was installed: remove \.venv"):
        operator.build(ROOT, "a:1", tmp_path / "a.tar")


def test_only_a_checkout_can_be_built(tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"is no checkout of Grove: .*pyproject\.toml is missing"):
        operator.default_name(tmp_path)
