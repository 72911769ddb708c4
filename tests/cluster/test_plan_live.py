"""`grove plan --live` against what really runs, and what applying the file then does."""

import os
import subprocess
import sys
from pathlib import Path

import yaml

from tests.cluster.harness import ROOT
from tests.cluster.updates import Update, edited
from tests.cluster.workloads import whole
from tests.cluster.workspace import Object, Workspace


def plan(workspace: Workspace, folder: Path, obj: Object, kubeconfig: Path | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of the command."""
    file = folder / "set.yaml"
    file.write_text(yaml.safe_dump(obj))
    command = [sys.executable, "-m", "grove", "plan", "-f", str(file), "-n", workspace.namespace, "--live"]
    command += ["--kubeconfig", str(kubeconfig or workspace.cluster.kubeconfig)]
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout, done.stderr


def test_what_an_edit_does_is_told_before(workspace: Workspace, tmp_path: Path) -> None:
    new = whole("w")
    code, output, _ = plan(workspace, tmp_path, new)
    assert code == 0
    assert "PodCliqueSet w is not in the cluster yet" in output
    assert "w-0-pc-a" in output, "it is shown as a whole"
    update = Update(workspace, new, 10)
    before = workspace.revision()
    code, output, errors = plan(workspace, tmp_path, edited(update.obj, "pc-b"))
    assert (code, errors) == (0, "")
    assert "  8 of 10 pods restart" in output
    assert "    1. replica 0: replicas 0, 1 of w-0-sg-x (8 pods), 1 at a time" in output
    more = edited(update.obj, "pc-a")
    more["spec"]["replicas"] = 2
    code, output, errors = plan(workspace, tmp_path, more)
    assert (code, errors) == (0, "")
    assert "  changed templates: pc-a\n  2 of 10 pods restart:\n" in output
    assert "    1. replica 0: 2 pods of w-0-pc-a, 1 at a time" in output
    assert "  replicas of the set: 1 -> 2; new ones are born with the new template" in output
    assert workspace.changes(before, "pcs", "pclq", "pod") == [], "it only looks"
    update.edit("pc-b")
    update.done(10)
    assert update.made().total() == 8
    code, output, _ = plan(workspace, tmp_path, update.obj)
    assert "  no pod restarts" in output


def test_what_is_refused_and_what_cannot_be_read(workspace: Workspace, tmp_path: Path) -> None:
    update = Update(workspace, whole("w"), 10)
    wrong = edited(update.obj)
    wrong["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 1
    code, output, errors = plan(workspace, tmp_path, wrong)
    assert (code, output) == (1, "")
    assert "spec.template.cliques[0].spec.minAvailable" in errors
    config = yaml.safe_load(workspace.cluster.kubeconfig.read_text())
    file = tmp_path / "kubeconfig"
    path = workspace.path("serviceaccount", "default", "token")
    token = workspace.cluster.api("POST", path, {"spec": {"expirationSeconds": 3600}})["status"]["token"]
    file.write_text(
        yaml.safe_dump({**config, "users": [{"name": config["users"][0]["name"], "user": {"token": token}}]})
    )
    code, output, errors = plan(workspace, tmp_path, update.obj, file)
    assert (code, output) == (1, "")
    assert "podcliquesets" in errors
    assert "forbidden" in errors
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    file.write_text(yaml.safe_dump(config))
    code, output, errors = plan(workspace, tmp_path, update.obj, file)
    assert (code, output) == (1, "")
    assert "127.0.0.1:1" in errors
