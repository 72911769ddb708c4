"""`grove diagnose`: everything that is needed to look for a fault, in one archive, without Secrets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import click
import orjson

from grove import __version__
from grove.cli.bundle import Bundle
from grove.cli.diagnose_operator import EVENT, add_operator
from grove.cli.kube import MANAGED, ClusterError, Connection, Where, everywhere, located, with_cluster
from grove.cli.output import say
from grove.inspect.explain import explain
from grove.inspect.scene import KINDS, Object, scenes
from grove.inspect.scope import scope_of
from grove.inspect.status import set_status
from grove.inspect.text import counted
from grove.inspect.tree import tree
from grove.plan.kinds import CHILDREN, CLUSTERTOPOLOGYBINDING, PODCLIQUESET
from grove.runtime.resources import ResourceType
from grove.schedulers import kai, native, volcano

_NODE: Final = ResourceType("", "v1", "nodes", "Node", namespaced=False)

_SELECTIONS: Final[Sequence[tuple[ResourceType, str | None]]] = (
    (PODCLIQUESET, None),
    *((kind, None if kind.group.endswith("grove.io") else MANAGED) for kind in CHILDREN),
    (CLUSTERTOPOLOGYBINDING, None),
    (EVENT, None),
    (native.PODGROUP, None),
    (native.COMPOSITE, None),
    (kai.PODGROUP, None),
    (kai.QUEUE, None),
    (volcano.PODGROUP, None),
    (volcano.QUEUE, None),
)
"""What is read and by which labels. Secrets and ConfigMaps of users are not among it."""


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
    found = await asyncio.gather(*(_list(connection, bundle, *selection, served) for selection in _SELECTIONS))
    lists = {resource: objects for (resource, _), objects in zip(_SELECTIONS, found, strict=True)}
    for resource, objects in lists.items():
        if objects is not None:
            bundle.add_objects(resource.label, objects)
    _explanations(bundle, {resource: lists[resource] or [] for resource in KINDS})
    nodes = await _list(connection, bundle, _NODE, None, served)
    if nodes is not None:
        bundle.add_objects("nodes", [_node(node) for node in nodes])
    await add_operator(connection, bundle)
    return bundle


async def _list(
    connection: Connection, bundle: Bundle, resource: ResourceType, selector: str | None, served: dict[str, list[str]]
) -> list[Object] | None:
    """All objects of a kind; None, and a note, when it cannot be read."""
    if resource.group and resource.version not in served.get(resource.group, ()):
        bundle.unread.append(f"{resource.label}: not served in version {resource.version}")
        return None
    namespace = connection.scope if resource.namespaced else None
    answer = connection.client.list(resource, namespace=namespace, label_selector=selector)
    listing = await bundle.read(resource.label, answer)
    return listing.items if listing is not None else None


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
