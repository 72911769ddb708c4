"""What `grove diagnose` packs about the operator, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from grove.cli.bundle import Bundle
from grove.cli.kube import Connection
from grove.inspect.redact import masked
from grove.inspect.scene import Object
from grove.inspect.text import counted
from grove.plan.kinds import POD
from grove.runtime.resources import ResourceType

EVENT: Final = ResourceType("", "v1", "events", "Event")
_DEPLOYMENT: Final = ResourceType("apps", "v1", "deployments", "Deployment")
_CONFIGMAP: Final = ResourceType("", "v1", "configmaps", "ConfigMap")

_OPERATOR: Final = "app.kubernetes.io/name=grove-operator"

_LINES: Final = (20_000, 2_000, 200)
_BYTES: Final = 10_000_000
"""Of a log the last lines are read, the fewer the longer they are: a kubelet that meets the limit of bytes leaves out
the newest.
"""


async def add_operator(connection: Connection, bundle: Bundle) -> None:
    """Put in the operator's Deployment, pods, events, configuration and logs; what cannot be read is noted."""
    client = connection.client
    pods = await bundle.read("the operator's pods", client.list(POD, label_selector=_OPERATOR))
    deployments = await bundle.read("the operator's Deployment", client.list(_DEPLOYMENT, label_selector=_OPERATOR))
    if pods is not None and not pods.items:
        bundle.unread.append(f"the operator: there is no pod with the label {_OPERATOR}")
    found: list[Object] = []
    for name, listing in (("pods", pods), ("deployments", deployments)):
        if listing is not None:
            bundle.add_objects(f"operator/{name}", listing.items)
            found += listing.items
    await _events(connection, bundle, found)
    await _configuration(connection, bundle, found)
    for pod in pods.items if pods is not None else ():
        await _logs(connection, bundle, pod)


async def _events(connection: Connection, bundle: Bundle, about: list[Object]) -> None:
    """Those about the objects and about what is made of them, whose names begin with theirs."""
    events: list[Object] = []
    names = tuple(obj["metadata"]["name"] for obj in about)
    namespaces = sorted({obj["metadata"]["namespace"] for obj in about})
    for namespace in namespaces:
        listing = await bundle.read(f"events in {namespace}", connection.client.list(EVENT, namespace=namespace))
        events += listing.items if listing is not None else ()
    if namespaces:
        told = [event for event in events if str(event["involvedObject"].get("name")).startswith(names)]
        bundle.add_objects("operator/events", told)


async def _configuration(connection: Connection, bundle: Bundle, mounting: list[Object]) -> None:
    """The ConfigMaps that pods and Deployments mount."""
    wanted = dict.fromkeys((obj["metadata"]["namespace"], name) for obj in mounting for name in _configmaps(obj))
    for namespace, name in wanted:
        answer = connection.client.get(_CONFIGMAP, namespace, name)
        config = await bundle.read(f"ConfigMap {namespace}/{name}", answer)
        if config is not None:
            text = "\n".join(str(value) for value in (config.get("data") or {}).values())
            bundle.add(f"operator/{name}.yaml", _safe(text.splitlines()), "configuration")


def _configmaps(obj: Object) -> Iterator[str]:
    spec = obj["spec"].get("template", obj)["spec"]
    for volume in spec.get("volumes") or ():
        if "configMap" in volume:
            yield volume["configMap"]["name"]


async def _logs(connection: Connection, bundle: Bundle, pod: Object) -> None:
    """Of each container, and of the one before when it was restarted."""
    spec, status = pod["spec"], pod.get("status") or {}
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    restarted = {one["name"] for one in statuses if one.get("restartCount")}
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        await _log(connection, bundle, pod, container["name"])
        if container["name"] in restarted:
            await _log(connection, bundle, pod, container["name"], previous=True)


async def _log(connection: Connection, bundle: Bundle, pod: Object, container: str, *, previous: bool = False) -> None:
    namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
    file = f"operator/{name}/{container}{'-previous' if previous else ''}.log"
    which = {"container": container, **({"previous": "true"} if previous else {})}
    lines = await bundle.read(file, _tail(connection, POD.path(namespace, name, "log"), which))
    if lines is not None:
        bundle.add(file, _safe(lines), f"{'the last ' if len(lines) in _LINES else ''}{counted(len(lines), 'line')}")


async def _tail(connection: Connection, path: str, which: dict[str, str]) -> list[str]:
    """The last lines of a log; raises ApiError."""
    text = ""
    for lines in _LINES:
        query = {**which, "tailLines": str(lines), "limitBytes": str(_BYTES)}
        text = await connection.client.text(path, query, resource="pods/log")
        if len(text.encode()) < _BYTES * 0.9:  # the limit is not exact
            break
    return text.splitlines()


def _safe(lines: Iterable[str]) -> str:
    return "\n".join([*map(masked, lines), ""])
