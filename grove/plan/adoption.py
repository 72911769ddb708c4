"""Taking over what the Go operator made, and pods that lost their PodClique.

The Go operator's hash values give way to ours, and no pod restarts for it. Its hashes cannot be recomputed, so the
templates themselves are compared: where a PodClique runs what its set asks for, its pods get our hash as their label
(design: an operator upgrade rolls nothing).
"""

from collections.abc import Iterable, Mapping
from typing import Any

from grove.api import labels
from grove.api.podclique import PodClique
from grove.plan import hashes
from grove.plan.diff import covers
from grove.plan.kinds import POD
from grove.plan.observed import PodView
from grove.plan.template import owner_reference
from grove.runtime.writes import Patch, Write

_OWN_PREFIXES = ("grove.io/", "app.kubernetes.io/")
_GROUP_ENV = "GROVE_PCSG_"


def adopted_hash(live: PodClique, desired: Mapping[str, Any]) -> str | None:
    """The value of the adoption annotation a PodClique should carry; None when there is nothing to adopt."""
    known = live.annotations.get(labels.ADOPTED_TEMPLATE_HASH)
    theirs = live.labels.get(labels.POD_TEMPLATE_HASH, "")
    # Only where the status agrees do all its pods run the template that the hash stands for.
    foreign = theirs and not hashes.is_ours(theirs) and live.status.current_pod_template_hash == theirs
    if not foreign or not _same_template(live.wire, desired):
        return known
    return f"{theirs}={desired['metadata']['labels'][labels.POD_TEMPLATE_HASH]}"


def translated(podclique: PodClique, template_hash: str) -> str:
    """The hash a pod of this PodClique should carry that now carries `template_hash`."""
    theirs, _, ours = podclique.annotations.get(labels.ADOPTED_TEMPLATE_HASH, "").partition("=")
    return ours if ours and template_hash == theirs else template_hash


def adopt(podclique: PodClique, orphans: Iterable[PodView]) -> list[Write]:
    """Make a PodClique the controller of pods that carry its name and have no controller.

    They are left behind when a PodClique is deleted with --cascade=orphan, or when somebody takes the reference away;
    without this, its slots would be filled a second time. Other owners that a pod has stay.
    """
    (ours,) = owner_reference(labels.API_VERSION, "PodClique", podclique.name, podclique.uid)
    return [
        Patch(
            POD,
            pod.namespace,
            pod.name,
            [
                {"op": "test", "path": "/metadata/resourceVersion", "value": str(pod.resource_version)},
                {"op": "add", "path": "/metadata/ownerReferences/-", "value": ours}
                if pod.owners
                else {"op": "add", "path": "/metadata/ownerReferences", "value": [ours]},
            ],
            uid=pod.uid,
        )
        for pod in orphans
        if not pod.deleting
    ]


def _same_template(live: Mapping[str, Any], desired: Mapping[str, Any]) -> bool:
    have, want = _template(live), _template(desired)
    return covers(have, want) and covers(want, have)


def _template(podclique: Mapping[str, Any]) -> dict[str, Any]:
    """What of a PodClique its user wrote: without Grove's labels, annotations and variables."""
    metadata = podclique["metadata"]
    spec = dict((podclique.get("spec") or {}).get("podSpec") or {})
    for key in ("initContainers", "containers"):
        spec[key] = [_without_group_env(container) for container in spec.get(key) or ()]
    return {
        "labels": _users(metadata.get("labels")),
        "annotations": _users(metadata.get("annotations")),
        "podSpec": spec,
    }


def _users(tags: Mapping[str, str] | None) -> dict[str, str]:
    return {key: value for key, value in (tags or {}).items() if not key.startswith(_OWN_PREFIXES)}


def _without_group_env(container: Mapping[str, Any]) -> dict[str, Any]:
    env = [variable for variable in container.get("env") or () if not variable["name"].startswith(_GROUP_ENV)]
    return {**container, "env": env}
