"""`grove diagnose`: everything that is needed to look for a fault, in one archive, without Secrets."""

from __future__ import annotations

import asyncio
import io
import tarfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import click
import orjson

from grove import __version__
from grove.cli.kube import MANAGED, ClusterError, Connection, Where, everywhere, explained, located, with_cluster
from grove.cli.output import say
from grove.inspect.explain import explain
from grove.inspect.redact import masked, redacted
from grove.inspect.scene import KINDS, Object, scenes
from grove.inspect.scope import scope_of
from grove.inspect.status import set_status
from grove.inspect.text import counted
from grove.inspect.tree import tree
from grove.plan.kinds import (
    AUTOSCALER,
    CLUSTERTOPOLOGYBINDING,
    POD,
    PODCLIQUE,
    PODCLIQUESCALINGGROUP,
    PODCLIQUESET,
    PODGANG,
    SERVICE,
)
from grove.runtime.errors import ApiError
from grove.runtime.resources import ResourceType
from grove.schedulers import kai, native, volcano

_EVENT: Final = ResourceType("", "v1", "events", "Event")
_NODE: Final = ResourceType("", "v1", "nodes", "Node", namespaced=False)
_DEPLOYMENT: Final = ResourceType("apps", "v1", "deployments", "Deployment")
_CONFIGMAP: Final = ResourceType("", "v1", "configmaps", "ConfigMap")

_SELECTIONS: Final[Sequence[tuple[ResourceType, str | None]]] = (
    (PODCLIQUESET, None),
    (PODCLIQUESCALINGGROUP, None),
    (PODCLIQUE, None),
    (PODGANG, None),
    (CLUSTERTOPOLOGYBINDING, None),
    (POD, MANAGED),
    (SERVICE, MANAGED),
    (AUTOSCALER, MANAGED),
    (_EVENT, None),
    (native.PODGROUP, None),
    (native.COMPOSITE, None),
    (kai.PODGROUP, None),
    (kai.QUEUE, None),
    (volcano.PODGROUP, None),
    (volcano.QUEUE, None),
)
"""What is read and by which labels. Secrets and ConfigMaps of users are not among it."""

_OPERATOR: Final = "app.kubernetes.io/name=grove-operator"
_LOG_LINES: Final = "20000"
_ARCHIVES: Final = (".tar.gz", ".tgz")


@dataclass
class Bundle:
    """Files by name, and what could not be read."""

    files: dict[str, bytes] = field(default_factory=dict)
    contents: list[str] = field(default_factory=list)
    """what is in each file, for people"""
    unread: list[str] = field(default_factory=list)

    def add(self, name: str, text: str | bytes, what: str) -> None:
        """Put in a file."""
        self.files[name] = text.encode() if isinstance(text, str) else text
        self.contents.append(f"{name}: {what}")

    def add_objects(self, name: str, objects: Sequence[Object]) -> None:
        """Put in objects, as they may be given away."""
        items = {"apiVersion": "v1", "kind": "List", "items": [redacted(obj) for obj in objects]}
        self.add(f"{name}.json", orjson.dumps(items, option=orjson.OPT_INDENT_2), counted(len(objects), "object"))

    def write(self, path: Path) -> None:
        """Write an archive or, by any other name, a folder; raises OSError."""
        index = "\n".join([*self.contents, *(f"not read: {line}" for line in self.unread), ""])
        files = {**self.files, "contents.txt": index.encode()}
        if not path.name.endswith(_ARCHIVES):
            for name, content in files.items():
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                (path / name).write_bytes(content)
            return
        folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz")
        with tarfile.open(path, "x:gz") as archive:
            for name, content in files.items():
                entry = tarfile.TarInfo(f"{folder}/{name}")
                entry.size, entry.mtime, entry.mode = len(content), int(time.time()), 0o600
                archive.addfile(entry, io.BytesIO(content))


@click.command()
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="Where to write: FILE.tar.gz, or a folder.  [default: grove-diagnose-<time>.tar.gz]",
)
@everywhere
@located
def diagnose(where: Where, output: Path | None) -> None:
    """Pack what is needed to look for a fault: objects of Grove and of schedulers, pods, events, nodes, the operator.

    Looks at one namespace, or with -A at all. Secrets are never read; values of environment variables, whole objects in
    annotations, and what is named like a token or a password are redacted. Look through it before you give it away.

    Exit code 0, also when something could not be read (it says what), or 1 when the cluster cannot be read at all.
    """
    path = output or Path(time.strftime("grove-diagnose-%Y%m%d-%H%M%S.tar.gz"))
    bundle = with_cluster(where, collect)
    try:
        bundle.write(path)
    except OSError as error:
        raise ClusterError(f"{path} cannot be written: {error.strerror or error}") from error
    say("\n".join(f"  {line}" for line in bundle.contents))
    say("\n".join(f"  not read: {line}" for line in bundle.unread), err=True) if bundle.unread else None
    say(f"{path}: {counted(len(bundle.files), 'file')}. No Secrets, and values that may be secret are redacted.")


async def collect(connection: Connection) -> Bundle:
    """Read everything; what cannot be read is noted. Raises ApiError when the cluster does not answer."""
    bundle = Bundle()
    version = await connection.client.request("GET", "/version", verb="get")
    groups = await connection.client.request("GET", "/apis", verb="get")
    served = {group["name"]: [one["version"] for one in group["versions"]] for group in groups["groups"]}
    about: dict[str, Any] = {"grove": __version__, "kubernetes": version, "apis": served}
    bundle.add("versions.json", orjson.dumps(about, option=orjson.OPT_INDENT_2), version.get("gitVersion", ""))
    found = await asyncio.gather(*(_read(connection, bundle, *selection, served) for selection in _SELECTIONS))
    lists = {resource: objects for (resource, _), objects in zip(_SELECTIONS, found, strict=True)}
    for resource, objects in lists.items():
        if objects is not None:
            bundle.add_objects(resource.label, objects)
    _explanations(bundle, {resource: lists[resource] or [] for resource in KINDS})
    nodes = await _read(connection, bundle, _NODE, None, served)
    if nodes is not None:
        bundle.add_objects("nodes", [_node(node) for node in nodes])
    await _operator(connection, bundle)
    return bundle


async def _read(
    connection: Connection, bundle: Bundle, resource: ResourceType, selector: str | None, served: dict[str, list[str]]
) -> list[Object] | None:
    """All objects of a kind; None, and a note, when it cannot be read."""
    if resource.group and resource.version not in served.get(resource.group, ()):
        bundle.unread.append(f"{resource.label}: not served in version {resource.version}")
        return None
    namespace = connection.scope if resource.namespaced else None
    try:
        return (await connection.client.list(resource, namespace=namespace, label_selector=selector)).items
    except ApiError as error:
        bundle.unread.append(f"{resource.label}: {explained(error, 'the API server')}")
        return None


def _explanations(bundle: Bundle, lists: dict[ResourceType, list[Object]]) -> None:
    """The sets as `tree`, `status` and `explain` show them."""
    texts: dict[str, list[str]] = {"tree.txt": [], "status.txt": [], "explain.txt": []}
    for scene in scenes(lists):
        name, status = scene.template.name, set_status(scene)
        texts["tree.txt"] += tree(scene).node(lambda text, _: text, 50).lines()
        texts["status.txt"] += [f"{status.namespace}/{name}: {status.state}, {status.sentence}", *status.lines()]
        scope = scope_of(scene, PODCLIQUESET, name)
        texts["explain.txt"] += explain(scope).lines() if scope is not None else ()
    for file, lines in texts.items():
        bundle.add(file, "\n".join([*lines, ""]), counted(len(lines), "line"))


def _node(node: Object) -> Object:
    """What schedulers look at."""
    status, metadata = node.get("status") or {}, node["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {key: metadata[key] for key in ("name", "labels", "creationTimestamp") if key in metadata},
        "spec": {key: value for key, value in (node.get("spec") or {}).items() if key in ("taints", "unschedulable")},
        "status": {key: status[key] for key in ("allocatable", "conditions", "nodeInfo") if key in status},
    }


async def _operator(connection: Connection, bundle: Bundle) -> None:
    """The operator's Deployment, pods, logs and configuration, wherever it runs."""
    try:
        pods = (await connection.client.list(POD, label_selector=_OPERATOR)).items
        deployments = (await connection.client.list(_DEPLOYMENT, label_selector=_OPERATOR)).items
    except ApiError as error:
        bundle.unread.append(f"the operator: {explained(error, 'the API server')}")
        return
    if not pods:
        bundle.unread.append(f"the operator: there is no pod with the label {_OPERATOR}")
    bundle.add_objects("operator/pods", pods)
    bundle.add_objects("operator/deployments", deployments)
    configs: dict[tuple[str, str], None] = {}
    for pod in pods:
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        volumes = pod["spec"].get("volumes") or ()
        configs |= dict.fromkeys((namespace, one["configMap"]["name"]) for one in volumes if "configMap" in one)
        for previous in ("false", "true"):
            await _log(connection, bundle, namespace, name, previous)
    for namespace, name in configs:
        try:
            config = await connection.client.get(_CONFIGMAP, namespace, name)
        except ApiError as error:
            bundle.unread.append(f"ConfigMap {name}: {explained(error, 'the API server')}")
        else:
            text = "\n".join(str(value) for value in (config.get("data") or {}).values())
            bundle.add(f"operator/{name}.yaml", masked(text), "configuration")


async def _log(connection: Connection, bundle: Bundle, namespace: str, name: str, previous: str) -> None:
    path = POD.path(namespace, name, "log")
    try:
        text = await connection.client.text(path, {"tailLines": _LOG_LINES, "previous": previous}, resource="pods/log")
    except ApiError as error:
        if previous == "false":
            bundle.unread.append(f"log of {name}: {explained(error, 'the API server')}")
        return  # one that never restarted has no previous log
    lines = [masked(line) for line in text.splitlines()]
    file = f"operator/{name}{'-previous' if previous == 'true' else ''}.log"
    bundle.add(file, "\n".join([*lines, ""]), counted(len(lines), "line"))
