"""Defaults of a PodCliqueSet: what an absent field means, written out.

The same function serves the mutating webhook, the operator when it reads a set (so that it works on clusters without
webhooks) and `grove plan`. It also fills in the defaults of the CRD, which files have not been through yet.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeGuard

from grove.api.labels import DEFAULT_TERMINATION_DELAY
from grove.api.podcliqueset import CliqueStartupType, UpdateStrategyType

_RESTART_POLICY: Final = {"restartPolicy": "Always"}
_GRACE_PERIOD: Final = {"terminationGracePeriodSeconds": 30}
_HEADLESS_SERVICE: Final = {"publishNotReadyAddresses": True}
_UPDATE_STRATEGY: Final = {"type": UpdateStrategyType.ROLLING_RECREATE.value}
_TEMPLATE: Final = {
    "cliqueStartupType": CliqueStartupType.ANY_ORDER.value,
    "terminationDelay": DEFAULT_TERMINATION_DELAY,
    "headlessServiceConfig": {},  # filled in the next step
}
_PORT: Final = {"protocol": "TCP"}


def default_podcliqueset(obj: dict[str, Any], old: dict[str, Any] | None = None) -> dict[str, Any]:
    """The set with its defaults filled in (api rules D1-D9 and the defaults of the CRD).

    `obj` is not modified; the result shares every part that needed no default, and is `obj` itself when nothing did.
    Null counts as absent. What has the wrong type is passed through for validation to report. Applying it twice is
    the same as once.

    An absent number of replicas means 1 while an explicit 0 stays: idle. minAvailable follows the replicas and
    minReplicas follows both, each at least 1, so an idle clique wakes up to its minimum. `spec.replicas` has no
    default here: the CRD's is 0, and a set without it says so.

    When `old` is updated, what cannot change keeps its value where it is left out: otherwise minAvailable would move
    with the replicas, and be refused.
    """
    kept = {} if old is None else _kept(default_podcliqueset(old))
    result = _changed(obj, "metadata", _metadata)
    return _changed(result, "spec", partial(_spec, kept=kept))


_Kept = Mapping[tuple[str, str], Mapping[str, Any]]
"""What cliques (and scaling groups) had before, by the list they are in and their name."""


def _kept(old: dict[str, Any]) -> _Kept:
    template = _object(_object(old.get("spec")).get("template"))
    kept: dict[tuple[str, str], Mapping[str, Any]] = {}
    for key, fields in (("cliques", ("roleName", "minAvailable")), ("podCliqueScalingGroups", ("minAvailable",))):
        values = template.get(key)
        for item in map(_object, values if isinstance(values, list) else ()):
            name = item.get("name")
            owner = _object(item.get("spec")) if key == "cliques" else item
            if isinstance(name, str):
                kept[key, name] = {field: owner[field] for field in fields if owner.get(field) is not None}
    return kept


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    return _filled(metadata, {"namespace": "default"}, blank=True)


def _spec(spec: dict[str, Any], kept: _Kept) -> dict[str, Any]:
    result = _changed(spec, "updateStrategy", lambda strategy: _filled(strategy, _UPDATE_STRATEGY))
    return _changed(result, "template", partial(_template, kept=kept))


def _template(template: dict[str, Any], kept: _Kept) -> dict[str, Any]:
    result = _filled(template, _TEMPLATE)
    result = _changed(result, "headlessServiceConfig", lambda config: _filled(config, _HEADLESS_SERVICE))
    result = _each(result, "cliques", partial(_clique, kept=kept))
    return _each(result, "podCliqueScalingGroups", partial(_scaling_group, kept=kept))


def _clique(clique: dict[str, Any], kept: _Kept) -> dict[str, Any]:
    name = clique.get("name")
    before = kept.get(("cliques", name), {}) if isinstance(name, str) else {}
    return _changed(clique, "spec", lambda spec: _clique_spec(_filled(spec, before, blank=True), name))


def _clique_spec(spec: dict[str, Any], name: Any) -> dict[str, Any]:
    result = _filled(spec, {"roleName": name}, blank=True) if name and isinstance(name, str) else spec
    result = _filled(result, {"replicas": 1})
    replicas = result["replicas"]
    if _is_number(replicas):
        result = _filled(result, {"minAvailable": max(replicas, 1)})
    result = _autoscaling(result, "autoScalingConfig")
    return _changed(result, "podSpec", _pod_spec)


def _scaling_group(group: dict[str, Any], kept: _Kept) -> dict[str, Any]:
    name = group.get("name")
    before = kept.get(("podCliqueScalingGroups", name), {}) if isinstance(name, str) else {}
    return _autoscaling(_filled(group, {"replicas": 1, "minAvailable": 1, **before}), "scaleConfig")


def _autoscaling(owner: dict[str, Any], key: str) -> dict[str, Any]:
    """Default minReplicas of the scaling configuration under `key` from the numbers beside it."""
    replicas, minimum = owner.get("replicas"), owner.get("minAvailable")
    if not _is_number(replicas) or not _is_number(minimum):
        return owner
    return _changed(owner, key, lambda config: _filled(config, {"minReplicas": max(replicas, minimum, 1)}))


def _pod_spec(pod_spec: dict[str, Any]) -> dict[str, Any]:
    result = _filled(_filled(pod_spec, _RESTART_POLICY, blank=True), _GRACE_PERIOD)
    for key in ("initContainers", "containers"):
        result = _each(result, key, lambda container: _each(container, "ports", lambda port: _filled(port, _PORT)))
    return result


def _filled(value: dict[str, Any], defaults: Mapping[str, Any], *, blank: bool = False) -> dict[str, Any]:
    """`value` with the defaults it lacks; `blank` counts an empty string as lacking."""
    missing = {
        key: default
        for key, default in defaults.items()
        if (present := value.get(key)) is None or (blank and present == "")
    }
    return {**value, **missing} if missing else value


def _changed(owner: dict[str, Any], key: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """`owner` with the object under `key` changed; `owner` itself when there is none or it stays as it is."""
    value = owner.get(key)
    if not isinstance(value, dict):
        return owner
    changed = change(value)
    return owner if changed is value else {**owner, key: changed}


def _each(owner: dict[str, Any], key: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> dict[str, Any]:
    """As `_changed`, for each object of the list under `key`."""
    values = owner.get(key)
    if not isinstance(values, list):
        return owner
    changed = [change(value) if isinstance(value, dict) else value for value in values]
    if all(new is old for new, old in zip(changed, values, strict=True)):
        return owner
    return {**owner, key: changed}


def _is_number(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)
