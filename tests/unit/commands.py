"""Commands against an API server in memory, as a process sees them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from grove.cli import main
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG
from grove.runtime.resources import ResourceType
from tests.fake_api import FakeApi
from tests.unit.support import Object, Paper, clique, pod_set, pod_wire

SERVED = (PODCLIQUESCALINGGROUP, PODCLIQUE, PODGANG)
SET = pod_set(clique("a", 2))
READY = {"replicas": 1, "availableReplicas": 1, "updatedReplicas": 1, "observedGeneration": 1}


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
