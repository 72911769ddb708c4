"""`kubectl grove` on a real cluster: what people are told of sets that run, and of sets that do not."""

import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from grove.cli import main
from grove.cluster import binaries
from tests.cluster.harness import ROOT
from tests.cluster.workloads import clique, podcliqueset
from tests.cluster.workspace import Object, Workspace, uids

HOLD = "example.com/hold"
NEVER_READY = {"sim.test/ready-delay": "1h"}
CRASHES = {"sim.test/crash": "loop"}
FOR_LONG = {"sim.test/backoff": "1h"}


def grove(workspace: Workspace, *arguments: str) -> Result:
    """Run the command in the namespace, in this process, which has it loaded."""
    kubeconfig = str(workspace.cluster.kubeconfig)
    words = [*arguments, "-n", workspace.namespace, "--kubeconfig", kubeconfig]
    return CliRunner().invoke(main, words, env={"KUBECONFIG": kubeconfig}, catch_exceptions=False)


def data(workspace: Workspace, *arguments: str) -> Any:
    """What it prints with -o json; whatever else it says fails the test."""
    done = grove(workspace, *arguments, "-o", "json")
    assert not done.stderr, done.stderr
    return json.loads(done.stdout)


def waits(workspace: Workspace, what: str, cause: str, sentence: str) -> Object:
    """Wait until the explanation is this one."""

    def look() -> Object:
        found: Object = data(workspace, "explain", what)
        assert (found["cause"], sentence in found["message"]) == (cause, True), f"{found}"
        return found

    return workspace.wait(look, f"{what} is explained by {cause}: {sentence}")


def test_why_sets_do_not_run(workspace: Workspace) -> None:
    """One set for each cause, in the order in which they bite."""
    held = clique("a", 2, podSpec={"schedulingGates": [{"name": HOLD}]})
    for obj in (
        podcliqueset("full", clique("a", 2, room=workspace.namespace)),
        podcliqueset("held", held),
        podcliqueset(
            "chain",
            clique("a", 1, annotations=NEVER_READY),
            clique("b", 2),
            cliqueStartupType="CliqueStartupTypeInOrder",
        ),
        podcliqueset("crash", clique("a", 1, labels=CRASHES, annotations=FOR_LONG)),
    ):
        workspace.create("pcs", obj)
    found = waits(workspace, "pcs/full", "Unschedulable", "no place for 2 of full-0-a; the scheduler says: ")
    assert "full-0-a has 0 of 2 pods on nodes" in found["evidence"]
    pod = workspace.clique_pods("full-0-a")[0]["metadata"]["name"]
    waits(workspace, pod, "Unschedulable", "no place for this pod")
    waits(workspace, "pg/held-0", "ForeignGate", f"scheduling gate {HOLD} holds 2 pods of held-0-a")
    found = waits(workspace, "chain-0-b", "StartupOrder", "it starts after chain-0-a, which has 0 of 1 pods ready")
    assert any(line.startswith("chain-0-a: 1 pod of chain-0-a is not ready") for line in found["evidence"])
    waits(workspace, "pcs/crash", "Containers", "container main ended with exit code 137 (CrashLoopBackOff)")

    def told() -> bool:
        return any("event BackOff" in line for line in data(workspace, "explain", "pcs/crash")["evidence"])

    workspace.wait(told, "the event about it is there")
    (tree,) = data(workspace, "tree", "chain")["sets"]
    cliques = {one["name"]: one for one in tree["children"][0]["children"]}
    assert [pod["state"] for pod in cliques["chain-0-b"]["children"]] == ["waiting", "waiting"]

    def late() -> bool:
        done = grove(workspace, "status", "--wait", "--timeout", "1s")
        assert (done.exit_code, "crash: Unavailable, 0 of 1 replica available" in done.stdout) == (3, True), done.stdout
        return True

    workspace.wait(late, "the status of a set whose container crashes, which for a moment had looked ready")


def test_a_set_from_its_beginning_to_a_rollout_that_is_stuck(workspace: Workspace, tmp_path: Path) -> None:
    a = clique("a", 2)
    a["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "KEY", "value": "verysecret"}]
    a["rollingUpdate"] = {"progressDeadline": "3s"}
    workspace.create("pcs", podcliqueset("w", a))
    done = grove(workspace, "status", "w", "--wait", "--timeout", "120s")
    assert (done.exit_code, done.stderr) == (0, "")
    assert "w: Ready, 1 of 1 replica available, 2 pods ready" in done.stdout
    before = workspace.settled("w", 2)
    plugin = tmp_path / "kubectl-grove"
    plugin.write_text(f'#!/bin/sh\ncd {ROOT} && exec {sys.executable} -m grove "$@"\n')
    plugin.chmod(0o755)
    said = kubectl(workspace, tmp_path, "grove", "rollout", "restart", "w", "-n", workspace.namespace)
    assert "PodCliqueSet w restarted: pods are replaced" in said
    followed = grove(workspace, "rollout", "status", "w", "--timeout", "120s")
    assert (followed.exit_code, followed.stdout.splitlines()[-1]) == (
        0, f"PodCliqueSet {workspace.namespace}/w: the replica runs the template and is available"
    )  # fmt: skip
    assert uids(workspace.settled("w", 2)).isdisjoint(uids(before))
    spec = workspace.get("pcs", "w")["spec"]
    spec["template"]["cliques"][0]["annotations"] = NEVER_READY
    workspace.patch("pcs", "w", {"spec": spec})
    stuck = grove(workspace, "rollout", "status", "w", "--timeout", "120s")
    assert (stuck.exit_code, "nothing more got ready within 3s" in stuck.stdout) == (3, True), stuck.stdout
    old = next(pod for pod in workspace.clique_pods("w-0-a") if pod["status"]["phase"] == "Running")
    waits(workspace, f"pod/{old['metadata']['name']}", "Update", "it has an older template, and an update is under way")
    bundle = tmp_path / "bundle.tgz"
    packed = grove(workspace, "diagnose", "-o", str(bundle))
    assert packed.exit_code == 0, packed.stderr
    with tarfile.open(bundle) as archive:
        files = {file.name: archive.extractfile(file) for file in archive}
        contents = {name.partition("/")[2]: file.read() for name, file in files.items() if file is not None}
    assert b"verysecret" not in b"".join(contents.values())
    assert len(json.loads(contents["pods.json"])["items"]) == 2
    assert json.loads(contents["nodes.json"])["items"][0]["status"]["allocatable"]["cpu"]
    assert b"/w: " in contents["explain.txt"]


def kubectl(workspace: Workspace, path: Path, *arguments: str) -> str:
    """What kubectl says, with plugins from a folder."""
    environment = {
        **os.environ,
        "PATH": f"{path}:{os.environ['PATH']}",
        "KUBECONFIG": str(workspace.cluster.kubeconfig),
    }
    program = binaries.find_or_build()["kubectl"]
    done = subprocess.run([program, *arguments], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
