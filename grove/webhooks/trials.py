"""What of a set is tried on the API server: a pod of each clique, and the autoscalers that have metrics. Pure.

The CustomResourceDefinition cannot hold the rules of a podSpec or of metrics: a request above its limit, a volume that
is mounted but not there, a target that is none. Such a set would be accepted, and fail when its objects are created.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from itertools import chain
from typing import Any, Final

import orjson

from grove.api import labels
from grove.plan.kinds import AUTOSCALER, POD, PODCLIQUE, PODCLIQUESCALINGGROUP
from grove.runtime.resources import ResourceType

NAME: Final = "grove-"
"""What the names of tried objects begin with."""
_PRIORITY: Final = "priorityClassName"
_TEMPLATE: Final = "spec.template"


@dataclass(frozen=True, slots=True)
class Trial:
    """An object to try, and where its fields stand in the set."""

    resource: ResourceType
    body: dict[str, Any]
    owner: str
    """the path of the clique or scaling group that it is tried for"""
    places: tuple[tuple[str, str], ...]
    """prefixes of its fields with those in the set, the first that fits counts; the last one fits all"""
    priority: str = ""
    """the PriorityClass of a pod that the set gives it"""

    @property
    def key(self) -> bytes:
        """What is equal where the objects are."""
        return blake2b(orjson.dumps(self.body, option=orjson.OPT_SORT_KEYS), digest_size=16).digest()

    def place(self, field: str) -> str:
        """Where a field of the object stands in the set."""
        for prefix, path in self.places:
            rest = field.removeprefix(prefix)
            if field.startswith(prefix) and rest[:1] in ("", ".", "["):
                return path + rest
        return self.places[-1][1]


def trials(pcs: Mapping[str, Any], old: Mapping[str, Any] | None) -> list[Trial]:
    """What has to be tried of a valid, defaulted PodCliqueSet: like objects once, and none that are as in `old`."""
    known = {trial.key for trial in _all(old)} if old is not None else set()
    found: list[Trial] = []
    for trial in _all(pcs):
        key = trial.key
        if key not in known:
            known.add(key)
            found.append(trial)
    return found


def _all(pcs: Mapping[str, Any]) -> Iterator[Trial]:
    template = pcs["spec"]["template"]
    cliques, groups = template.get("cliques") or (), template.get("podCliqueScalingGroups") or ()
    autoscaled: Iterable[tuple[str, str, Any]] = chain(
        ((PODCLIQUE.kind, f"cliques[{i}].spec.autoScalingConfig", c["spec"]) for i, c in enumerate(cliques)),
        ((PODCLIQUESCALINGGROUP.kind, f"podCliqueScalingGroups[{i}].scaleConfig", g) for i, g in enumerate(groups)),
    )
    for index, clique in enumerate(cliques):
        yield _pod(f"{_TEMPLATE}.cliques[{index}]", clique, template.get(_PRIORITY) or "")
    for kind, path, owner in autoscaled:
        config = owner.get(path.rpartition(".")[2])
        if config and config.get("metrics"):
            yield _autoscaler(kind, f"{_TEMPLATE}.{path}", config)


def _pod(path: str, clique: Mapping[str, Any], priority: str) -> Trial:
    """A pod with what the user wrote and no more, so that fields keep their places."""
    spec = dict(clique["spec"].get("podSpec") or {})
    places = [("metadata", path), ("spec", f"{path}.spec.podSpec"), ("", f"{path}.spec.podSpec")]
    if priority:
        spec[_PRIORITY] = priority
        places.insert(0, (f"spec.{_PRIORITY}", f"{_TEMPLATE}.{_PRIORITY}"))
    # As on the real one. It makes the API server refuse a nodeName, and it keeps schedulers away.
    spec["schedulingGates"] = [*(spec.get("schedulingGates") or ()), {"name": labels.POD_GATE}]
    metadata = {
        "generateName": NAME,
        "labels": {**(clique.get("labels") or {}), labels.MANAGED_BY: labels.MANAGED_BY_GROVE},
        "annotations": clique.get("annotations") or {},
    }
    body = {"apiVersion": "v1", "kind": POD.kind, "metadata": metadata, "spec": spec}
    return Trial(POD, body, path, tuple(places), priority)


def _autoscaler(kind: str, path: str, config: Mapping[str, Any]) -> Trial:
    spec = {**config, "scaleTargetRef": {"apiVersion": labels.API_VERSION, "kind": kind, "name": NAME + "x"}}
    body = {
        "apiVersion": AUTOSCALER.api_version,
        "kind": AUTOSCALER.kind,
        "metadata": {"generateName": NAME, "labels": {labels.MANAGED_BY: labels.MANAGED_BY_GROVE}},
        "spec": spec,
    }
    return Trial(AUTOSCALER, body, path, (("spec", path), ("", path)))
