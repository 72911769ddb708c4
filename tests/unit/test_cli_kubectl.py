"""`kubectl grove` as a process sees it: the commands against an API server in memory, their exit codes and errors."""

import asyncio
import json
import tarfile
import tomllib
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from grove.cli import kubectl, main
from grove.cli.kube import Connection, follow
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.runtime.resources import ResourceType
from tests.fake_api import FakeApi
from tests.unit.support import Object, Paper, clique, pod_set, pod_wire

ROOT = Path(__file__).parents[2]
SERVED = (PODCLIQUESCALINGGROUP, PODCLIQUE, PODGANG)
SET = pod_set(clique("a", 2))
READY = {"replicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}


@pytest.fixture
def kubeconfig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kubeconfig without a server; `serving` fills it in. $KUBECONFIG is as before at the end."""
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nothing"))
    return tmp_path / "kubeconfig"


def write(kubeconfig: Path, server: str) -> None:
    contexts = [{"name": name, "context": {"cluster": name, "user": "me"}} for name in ("here", "there")]
    clusters = [{"name": "here", "cluster": {"server": server}}]
    clusters.append({"name": "there", "cluster": {"server": "http://127.0.0.1:1"}})
    content = {
        "contexts": contexts,
        "clusters": clusters,
        "users": [{"name": "me", "user": {}}],
        "current-context": "here",
    }
    kubeconfig.write_text(yaml.safe_dump(content))


@asynccontextmanager
async def serving(kubeconfig: Path, *served: Any) -> AsyncIterator[FakeApi]:
    api = FakeApi(served or (PODCLIQUESET, *SERVED))
    async with api.listen() as server:
        write(kubeconfig, server)
        yield api


async def grove(kubeconfig: Path, *arguments: str) -> Result:
    """Run the command in a thread, beside the API server."""
    words = [*arguments, "--kubeconfig", str(kubeconfig)]
    return await asyncio.to_thread(CliRunner().invoke, main, words, catch_exceptions=False)


def store(api: FakeApi, obj: Object = SET, *, ready: bool = True) -> None:
    """A set as its operator leaves it, with all pods ready, or not begun."""
    made = api.create(PODCLIQUESET, obj)
    paper = Paper.of(obj)
    for podclique in paper.podcliques.values():
        wire = {**podclique.wire, "metadata": {**podclique.wire["metadata"]}}
        owner = {**wire["metadata"]["ownerReferences"][0], "uid": made["metadata"]["uid"]}
        wire["metadata"] |= {"ownerReferences": [owner], "namespace": "default"}
        child = api.create(PODCLIQUE, wire)
        replicas = podclique.spec.replicas or 0
        counts = {"replicas": replicas, "readyReplicas": replicas, "scheduledReplicas": replicas}
        status = {**counts, "updatedReplicas": replicas} if ready else {}
        set_status(api, PODCLIQUE, podclique.name, status)
        for index in range(replicas):
            pod = pod_wire(podclique, index, tpl=paper.template, ready=ready)
            pod["metadata"]["ownerReferences"][0]["uid"] = child["metadata"]["uid"]
            pod["metadata"]["namespace"] = "default"
            api.create(POD, pod)
            set_status(api, POD, pod["metadata"]["name"], pod["status"])
    if ready:
        set_status(api, PODCLIQUESET, obj["metadata"]["name"], READY)


def set_status(api: FakeApi, resource: ResourceType, name: str, status: Object) -> None:
    """Write a status, as controllers and kubelets do."""
    api.update(resource, "default", name, lambda now: {**now, "status": status}, status=True)


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


async def test_a_bundle_for_others(kubeconfig: Path, tmp_path: Path) -> None:
    secret = clique("a", 2)
    secret["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "KEY", "value": "verysecret"}]
    async with serving(kubeconfig) as api:
        store(api, pod_set(secret))
        path = tmp_path / "bundle.tar.gz"
        done = await grove(kubeconfig, "diagnose", "-o", str(path))
        assert done.exit_code == 0, done.output
        with tarfile.open(path) as archive:
            files = {one.name: (archive.extractfile(one) or path.open("rb")).read() for one in archive}
        assert b"verysecret" not in b"".join(files.values())
        assert not [request for request in api.requests if request.resource in ("secrets", "configmaps")]
        assert b"v1.37.2" in files["bundle/versions.json"]
        pods = json.loads(files["bundle/pods.json"])["items"]
        assert {pod["spec"]["containers"][0]["env"][-1]["value"] for pod in pods} == {"<redacted>"}
        assert b"default/web: Ready" in files["bundle/status.txt"]
        assert b"is well: 2 pods of 2 ready" in files["bundle/explain.txt"]
        told = files["bundle/contents.txt"].decode()
        assert "podcliquesets.grove.io.json: 1 object" in told
        assert "not read: podgroups.scheduling.run.ai: not served in version v2alpha2" in told
        assert "No Secrets" in done.stdout
        again = await grove(kubeconfig, "diagnose", "-o", str(path))
        assert again.exit_code == 1, "nothing is overwritten"


def test_the_plugin_is_the_same_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"grove": "grove.cli:main", "kubectl-grove": "grove.cli:kubectl"}
    monkeypatch.setattr("sys.argv", ["kubectl-grove", "tree", "--help"])
    with pytest.raises(SystemExit):
        kubectl()
    assert capsys.readouterr().out.startswith("Usage: kubectl grove tree [OPTIONS] [NAME]")
