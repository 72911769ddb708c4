"""`grove kind` with the real kind and the real helm, up to where a container engine is needed."""

import os
import subprocess
import sys
from pathlib import Path

from grove.cluster import binaries, kind
from tests.cluster import chart

# An engine that has no cluster and every image, and fails when it is told to make something.
ENGINE = """\
#!/bin/sh
echo "$*" >>"$0.calls"
case "$1" in
  -v) echo "Docker version 28.0.0" ;;
  info) echo "{}" ;;
  ps | inspect) ;;
  *) exit 1 ;;
esac
"""


def up(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `grove kind up` with that engine."""
    (folder / "docker").write_text(ENGINE)
    (folder / "docker").chmod(0o755)
    environment = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    command = [sys.executable, "-m", "grove", "kind", "up", "--no-kai", *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_kind_accepts_the_configuration(tmp_path: Path) -> None:
    # kind reads its configuration strictly, and checks it, before it asks the engine for images.
    done = up(tmp_path)
    assert done.returncode == 1
    assert "Error: kind create cluster failed, see above" in done.stderr
    inspected = [line for line in (tmp_path / "docker.calls").read_text().splitlines() if line.startswith("inspect")]
    version = ".".join(binaries.kubernetes_version().split(".")[:2])
    assert any(f"kindest/node:{version}." in line for line in inspected), done.stderr


def test_kind_would_refuse_a_wrong_one(tmp_path: Path) -> None:
    program = binaries.find_or_build(tools=(binaries.KIND,))["kind"]
    (tmp_path / "docker").write_text(ENGINE)
    (tmp_path / "docker").chmod(0o755)
    wrong = kind.config(1).replace("featureGates", "featureGate")
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "KIND_EXPERIMENTAL_PROVIDER": "docker"}
    command = [str(program), "create", "cluster", "--config", "-"]
    done = subprocess.run(command, input=wrong, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "field featureGate not found" in done.stderr


def test_the_chart_takes_the_values(tmp_path: Path) -> None:
    archive = tmp_path / "image.tar"
    archive.write_text("one")
    objects = chart.render(*kind.values(archive))
    pod = chart.one(objects, "Deployment")["spec"]["template"]
    assert pod["metadata"]["annotations"]["archive"].startswith("sha256-")
    assert [container["name"] for container in pod["spec"]["initContainers"]] == ["crd-installer"]
    text = chart.one(objects, "ConfigMap")["data"]["config.yaml"]
    assert "name: default-scheduler" in text
    assert "name: kai-scheduler" in text
    archive.write_text("another")
    again = chart.one(chart.render(*kind.values(archive)), "Deployment")["spec"]["template"]
    assert again["metadata"]["annotations"] != pod["metadata"]["annotations"]
