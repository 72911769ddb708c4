"""`grove diagnose`: what is in the archive, and what must not be."""

import json
import tarfile
from pathlib import Path
from typing import Any

from grove.plan.kinds import CLUSTERTOPOLOGYBINDING, POD, PODCLIQUESET
from grove.runtime.resources import ResourceType
from tests.fake_api import FakeApi
from tests.unit.commands import SERVED, grove, serving, store
from tests.unit.support import Object, clique, pod_set

DEPLOYMENT = ResourceType("apps", "v1", "deployments", "Deployment")
CONFIGMAP = ResourceType("", "v1", "configmaps", "ConfigMap")
EVENT = ResourceType("", "v1", "events", "Event")
NODE = ResourceType("", "v1", "nodes", "Node", namespaced=False)
KINDS = (PODCLIQUESET, *SERVED, CLUSTERTOPOLOGYBINDING, DEPLOYMENT, CONFIGMAP, EVENT, NODE)

HOME = "grove-system"
LABELS = {"app.kubernetes.io/name": "grove-operator"}
CONFIG = """apiVersion: operator.config.grove.io/v1alpha1
kind: OperatorConfiguration
logLevel: debug
"""
NAME = "grove-operator-5d9f-x1"
LOG = f"operator/{NAME}/grove-operator"


def content(path: Path) -> dict[str, bytes]:
    """The files of an archive."""
    with tarfile.open(path) as archive:
        return {one.name: (archive.extractfile(one) or path.open("rb")).read() for one in archive}


def installed(api: FakeApi, *, restarts: int = 0) -> None:
    """What the chart makes, with a pod that runs."""
    spec = {
        "initContainers": [{"name": "crd-installer"}],
        "containers": [{"name": "grove-operator", "env": [{"name": "HTTPS_PROXY", "value": "http://verysecret@p"}]}],
        "volumes": [
            {"name": "config", "configMap": {"name": "grove-operator-cm-1"}},
            {"name": "token", "projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}},
            {"name": "certificates", "secret": {"secretName": "grove-webhook-server-cert"}},
        ],
    }

    def create(resource: ResourceType, name: str, **parts: Object) -> None:
        api.create(resource, {"metadata": {"name": name, "namespace": HOME, "labels": LABELS}, **parts})

    create(DEPLOYMENT, "grove-operator", spec={"template": {"spec": spec}})
    create(CONFIGMAP, "grove-operator-cm-1", data={"config.yaml": CONFIG})
    create(POD, NAME, spec=spec)
    status = {"containerStatuses": [{"name": "grove-operator", "restartCount": restarts}]}
    api.update(POD, HOME, NAME, lambda now: {**now, "status": status}, status=True)
    api.logs.now = {
        (NAME, "crd-installer"): "podcliquesets.grove.io: applied\n",
        (NAME, "grove-operator"): "Working on it\nAuthorization: Bearer verysecret\n",
    }
    for event, name in (("e1", NAME), ("e2", "grove-operator-5d9f"), ("e3", "somebody-else")):
        create(EVENT, event, involvedObject={"name": name}, message={})


async def packed(api: FakeApi, kubeconfig: Path, *arguments: str) -> tuple[dict[str, bytes], list[str]]:
    """The files of a bundle without its folder, and what it says that it could not read of those it was to find."""
    path = kubeconfig.parent / f"bundle-{len(api.requests)}.tgz"
    done = await grove(kubeconfig, "diagnose", "-o", str(path), *arguments)
    assert done.exit_code == 0, done.output
    files = {name.partition("/")[2]: text for name, text in content(path).items()}
    assert b"verysecret" not in b"".join(files.values())
    told = [line for line in files["contents.txt"].decode().splitlines() if line.startswith("not read: ")]
    return files, [line for line in told if "not served" not in line]


async def test_a_bundle_for_others(tmp_path: Path) -> None:
    secret = clique("a", 2)
    secret["spec"]["podSpec"]["containers"][0]["env"] = [{"name": "KEY", "value": "verysecret"}]
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig) as api:
        store(api, pod_set(secret))
        path = tmp_path / "bundle.tar.gz"
        done = await grove(kubeconfig, "diagnose", "-o", str(path))
        assert done.exit_code == 0, done.output
        files = content(path)
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


async def test_the_operator_wherever_it_runs(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig, *KINDS) as api:
        store(api)
        installed(api)
        files, unread = await packed(api, kubeconfig)
        assert unread == []
        assert files["operator/grove-operator-cm-1.yaml"].decode() == CONFIG
        assert files[f"{LOG}.log"].decode() == "Working on it\nAuthorization: Bearer <redacted>\n"
        assert files[f"operator/{NAME}/crd-installer.log"] == b"podcliquesets.grove.io: applied\n"
        assert f"{LOG}-previous.log" not in files, "nothing was restarted"
        for kind, names in (("pods", [NAME]), ("deployments", ["grove-operator"]), ("events", ["e1", "e2"])):
            found = json.loads(files[f"operator/{kind}.json"])["items"]
            assert [obj["metadata"]["name"] for obj in found] == names
        asked = {(one.resource, one.name) for one in api.requests if one.resource in ("configmaps", "secrets")}
        assert asked == {("configmaps", "grove-operator-cm-1")}


async def test_the_log_before_a_restart(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig, *KINDS) as api:
        installed(api, restarts=2)
        api.logs.previous[NAME, "grove-operator"] = "The operator cannot go on\n"
        files, unread = await packed(api, kubeconfig)
        assert (files[f"{LOG}-previous.log"], unread) == (b"The operator cannot go on\n", [])
        api.logs.previous.clear()
        files, unread = await packed(api, kubeconfig)
        assert f"{LOG}.log" in files
        why = f'previous terminated container "grove-operator" in pod "{NAME}" not found'
        assert unread == [f"not read: {LOG}-previous.log: 400 BadRequest: {why}"]


async def test_an_operator_that_does_not_start(tmp_path: Path) -> None:
    """Its own container has written nothing yet; the one before it has said why."""
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig, *KINDS) as api:
        installed(api)
        api.logs.now = {(NAME, "crd-installer"): "Error: cannot apply\n"}
        files, unread = await packed(api, kubeconfig)
        assert files[f"operator/{NAME}/crd-installer.log"] == b"Error: cannot apply\n"
        why = f'container "grove-operator" in pod "{NAME}" is waiting to start: PodInitializing'
        assert unread == [f"not read: {LOG}.log: 400 BadRequest: {why}"]
        api.delete(POD, HOME, NAME, {"gracePeriodSeconds": 0})
        files, unread = await packed(api, kubeconfig)
        assert unread == [
            "not read: the operator: there is no pod with the label app.kubernetes.io/name=grove-operator"
        ]
        assert len(json.loads(files["operator/deployments.json"])["items"]) == 1
        assert "operator/grove-operator-cm-1.yaml" in files, "its Deployment names the configuration, too"
        assert [event["metadata"]["name"] for event in json.loads(files["operator/events.json"])["items"]] == [
            "e1", "e2"
        ], "they say why there is none"  # fmt: skip


async def test_no_operator_at_all(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig, *KINDS) as api:
        store(api)
        files, unread = await packed(api, kubeconfig)
        assert unread == [
            "not read: the operator: there is no pod with the label app.kubernetes.io/name=grove-operator"
        ]
        assert b"default/web: Ready" in files["status.txt"]


async def test_each_refusal_costs_only_what_it_refuses(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    everything = {f"{LOG}.log", "operator/grove-operator-cm-1.yaml", "operator/deployments.json", "operator/pods.json"}
    async with serving(kubeconfig, *KINDS) as api:
        installed(api)
        cases: tuple[tuple[dict[str, Any], set[str], str], ...] = (
            ({"resource": "pods", "verb": "list"}, {f"{LOG}.log", "operator/pods.json"}, "the operator's pods"),
            ({"resource": "deployments"}, {"operator/deployments.json"}, "the operator's Deployment"),
            (
                {"resource": "configmaps"},
                {"operator/grove-operator-cm-1.yaml"},
                f"ConfigMap {HOME}/grove-operator-cm-1",
            ),
            ({"subresource": "log"}, {f"{LOG}.log"}, f"{LOG}.log"),
        )
        for refused, missing, told in cases:
            api.faults.refuse(403, "Forbidden", times=None, **refused)
            files, unread = await packed(api, kubeconfig)
            api.faults.clear()
            assert everything - files.keys() == missing
            assert f"not read: {told}: not allowed: injected" in unread


async def test_of_a_huge_log_the_end(tmp_path: Path) -> None:
    kubeconfig = tmp_path / "kubeconfig"
    async with serving(kubeconfig, *KINDS) as api:
        installed(api)
        for count, width, kept in ((25_000, 10, 20_000), (2_500, 10_000, 200)):
            log = [f"{number} {'x' * width}" for number in range(count)]
            api.logs.now[NAME, "grove-operator"] = "\n".join([*log, ""])
            files, unread = await packed(api, kubeconfig)
            assert files[f"{LOG}.log"].decode().splitlines() == log[-kept:]
            assert f"{LOG}.log: the last {kept} lines" in files["contents.txt"].decode().splitlines()
            assert unread == []
