"""`kubectl grove` as a process sees it: the commands against an API server in memory, their exit codes and errors."""

import asyncio
import json
import tomllib
from collections.abc import Callable
from contextlib import aclosing
from pathlib import Path

import pytest
import yaml

from grove.cli import kubectl
from grove.cli.kube import Connection, follow
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESET
from tests.fake_api import FakeApi
from tests.unit.commands import READY, SERVED, grove, serving, set_status, store
from tests.unit.support import clique, pod_set

ROOT = Path(__file__).parents[2]


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig without a server; `serving` fills it in. $KUBECONFIG is as before at the end."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    return tmp_path / "kubeconfig"


async def until(check: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(300):
        while not check():  # noqa: ASYNC110, what is waited for is no event of ours
            await asyncio.sleep(0.01)


async def test_what_there_is_and_what_scripts_learn(kubeconfig: Path) -> None:
    async with serving(kubeconfig) as api:
        store(api)
        done = await grove(kubeconfig, "status", "web")
        assert (done.exit_code, done.output.splitlines()[0]) == (
            0, "default/web: Ready, 1 of 1 replica available, 2 pods ready"
        )  # fmt: skip
        assert "\x1b" not in done.output, "no colours where there is no terminal"
        data = json.loads((await grove(kubeconfig, "status", "web", "-o", "json")).output)
        assert [(one["namespace"], one["name"], one["state"]) for one in data["sets"]] == [("default", "web", "Ready")]
        assert yaml.safe_load((await grove(kubeconfig, "status", "-o", "yaml")).output) == data
        requests = len(api.requests)
        tree = json.loads((await grove(kubeconfig, "tree", "-A", "-o", "json")).output)
        assert tree["sets"][0]["children"][0]["children"][0]["name"] == "web-0-a"
        assert len(api.requests) - requests == 5, "one list for each kind"
        store(api, pod_set(clique("a", 1), name="new"), ready=False)
        assert (await grove(kubeconfig, "status", "web")).exit_code == 0
        late = await grove(kubeconfig, "status", "--wait", "--timeout", "100ms")
        assert (late.exit_code, "default/new: Unavailable" in late.output) == (3, True)
        assert (
            await grove(kubeconfig, "status", "-n", "empty")
        ).output == "there are no PodCliqueSets in namespace empty\n"
        wait = asyncio.create_task(grove(kubeconfig, "status", "new", "--wait"))
        await until(lambda: bool(api.watches))
        set_status(api, PODCLIQUESET, "new", READY)
        one = {"replicas": 1, "readyReplicas": 1, "updatedReplicas": 1, "scheduledReplicas": 1}
        set_status(api, PODCLIQUE, "new-0-a", one)
        assert (await wait).exit_code == 0


async def test_a_rollout_is_followed_and_a_restart_asked_for(kubeconfig: Path) -> None:
    async with serving(kubeconfig) as api:
        store(api)
        done = await grove(kubeconfig, "rollout", "status", "pcs/web")
        assert (done.exit_code, done.output) == (
            0, "PodCliqueSet default/web: the replica runs the template and is available\n"
        )  # fmt: skip
        restarted = await grove(kubeconfig, "rollout", "restart", "web", "--clique", "a")
        assert (restarted.exit_code, "restarted: pods are replaced" in restarted.output) == (0, True)
        (patch,) = api.writes("patch", "podcliquesets")
        assert patch.status == 200
        pcs = api.find(PODCLIQUESET, "default", "web")
        assert pcs is not None
        assert "kubectl.kubernetes.io/restartedAt" in pcs["spec"]["template"]["cliques"][0]["annotations"]
        waiting = await grove(kubeconfig, "rollout", "status", "web", "--no-watch", "-o", "json")
        assert (waiting.exit_code, json.loads(waiting.output)["state"]) == (3, "Waiting")
        wrong = await grove(kubeconfig, "rollout", "restart", "web", "--clique", "b")
        assert (wrong.exit_code, wrong.output) == (1, "Error: there is no clique b in the template; there are a\n")


async def test_a_tree_that_is_followed(kubeconfig: Path) -> None:
    async with serving(kubeconfig) as api:
        store(api)
        watch = asyncio.create_task(grove(kubeconfig, "tree", "web", "-w", "-o", "json"))
        await until(lambda: len({one.resource for one in api.watches}) == 5)
        api.delete(PODCLIQUESET, "default", "web")
        done = await watch
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        assert len(lines[0]["sets"][0]["children"][0]["children"][0]["children"]) == 2
        assert (done.exit_code, done.stderr) == (0, "PodCliqueSet web is gone\n")


async def test_each_change_is_seen() -> None:
    api = FakeApi((PODCLIQUESET, *SERVED))
    store(api)
    async with asyncio.timeout(300), aclosing(follow(Connection(api.client(), "default"), "web")) as changes:
        assert len([pod for (scene,) in [await anext(changes)] for pods in scene.pods.values() for pod in pods]) == 2
        api.delete(POD, "default", api.objects(POD)[0]["metadata"]["name"], {"gracePeriodSeconds": 0})
        async for (scene,) in changes:
            if sum(len(pods) for pods in scene.pods.values()) == 1:
                break
        api.delete(PODCLIQUESET, "default", "web")
        assert [found async for found in changes if not found] == [], "it ends when the set is gone"


async def test_an_explanation_by_any_name(kubeconfig: Path) -> None:
    async with serving(kubeconfig) as api:
        store(api)
        for words in (["web"], ["pcs/web"], ["podcliqueset", "web"]):
            done = await grove(kubeconfig, "explain", *words)
            assert (done.exit_code, done.output) == (0, "PodCliqueSet default/web: is well: 2 pods of 2 ready\n")
        pod = api.objects(POD)[0]["metadata"]["name"]
        data = json.loads((await grove(kubeconfig, "explain", pod, "-o", "json")).output)
        assert data == {
            "kind": "Pod", "namespace": "default", "name": pod, "cause": "None", "message": "is ready on node-1",
            "evidence": [], "advice": [],
        }  # fmt: skip
        api.create(POD, {"metadata": {"name": "mine", "namespace": "default"}, "spec": {"containers": []}})
        for words, said in (
            (["pod/mine"], "Pod mine belongs to no PodCliqueSet"),
            (["wep"], "there is no object wep in namespace default; is web meant?"),
            (["pclq/web-0-b"], "there is no PodClique web-0-b in namespace default; is web-0-a meant?"),
        ):
            done = await grove(kubeconfig, "explain", *words)
            assert (done.exit_code, done.output) == (1, f"Error: {said}\n")
        assert (await grove(kubeconfig, "explain", "node/x")).exit_code == 2


async def test_clusters_that_cannot_be_read(kubeconfig: Path, tmp_path: Path) -> None:
    async with serving(kubeconfig) as api:
        store(api)
        for words, said in (
            (["tree", "wep"], "there is no PodCliqueSet wep in namespace default; is web meant?"),
            (
                ["tree", "--context", "where"],
                "the cluster cannot be read: the kubeconfig has no context where; it has here, there",
            ),
            (["tree", "--context", "there"], "the cluster cannot be read: http://127.0.0.1:1 does not answer: "),
        ):
            done = await grove(kubeconfig, *words)
            assert (done.exit_code, done.output.startswith(f"Error: {said}")) == (1, True), done.output
        api.faults.refuse(403, "Forbidden", verb="list", resource="pods", times=None)
        done = await grove(kubeconfig, "tree")
        assert (done.exit_code, done.output.startswith("Error: the cluster cannot be read: not allowed: ")) == (1, True)
        assert (await grove(kubeconfig, "status")).exit_code == 0, "it needs no pods"
    async with serving(kubeconfig, POD):
        done = await grove(kubeconfig, "tree")
        assert (done.exit_code, "CustomResourceDefinitions are not installed" in done.output) == (1, True)
    empty = tmp_path / "empty"
    empty.write_text("")
    done = await grove(empty, "tree")
    assert (done.exit_code, len(done.output.splitlines())) == (1, 1)


def test_the_plugin_is_the_same_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"grove": "grove.cli:main", "kubectl-grove": "grove.cli:kubectl"}
    monkeypatch.setattr("sys.argv", ["kubectl-grove", "tree", "--help"])
    with pytest.raises(SystemExit):
        kubectl()
    assert capsys.readouterr().out.startswith("Usage: kubectl grove tree [OPTIONS] [NAME]")
