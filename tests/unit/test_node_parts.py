"""The parts of the tests with real containers that need neither root nor containers."""

import os
import shutil
import sys
from pathlib import Path

import pytest

from grove.cluster import binaries
from tests.cluster.harness import ROOT
from tests.node import images, node


@pytest.fixture
def complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine that has everything."""
    (tmp_path / "bridge").touch()
    (tmp_path / "busybox").write_bytes(b"\x7fELF static")
    monkeypatch.setattr(node, "_CNI", tmp_path)
    monkeypatch.setattr(images, "BUSYBOX", tmp_path / "busybox")
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(sys, "platform", "linux")
    return tmp_path


def test_nothing_is_missing(complete: Path) -> None:
    assert node.missing() == ""


def test_what_is_missing_is_said_in_one_sentence(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert node.missing() == "a node with real containers needs root: run it as root, or leave it to CI"
    (complete / "busybox").write_bytes(b"\x7fELF /lib64/ld-linux-x86-64.so.2")
    (complete / "bridge").unlink()
    monkeypatch.setattr(shutil, "which", lambda name: None if name in ("containerd", "ctr", "runc") else name)
    assert node.missing() == (
        "a node with real containers needs programs that are not here: apt-get install --no-install-recommends "
        "busybox-static containerd containernetworking-plugins runc"
    )
    monkeypatch.setattr(sys, "platform", "darwin")
    assert node.missing() == "a node with real containers needs Linux"


def test_ci_installs_what_is_said_to_be_missing(complete: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (complete / "busybox").unlink()
    (complete / "bridge").unlink()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    packages = node.missing().partition("--no-install-recommends ")[2]
    assert f"packages=({packages})" in (ROOT / ".ci" / "run").read_text()


def test_the_kubelet_is_of_the_clusters_version() -> None:
    module = (binaries.MODULES / "kubelet" / "go.mod").read_text()
    assert f"k8s.io/kubernetes {binaries.kubernetes_version()}" in module
    assert binaries.cache_folder((binaries.KUBELET,)) != binaries.cache_folder()
