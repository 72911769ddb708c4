"""Protection of what Grove makes: whether somebody may change a managed object by hand.

Pure: the request as in admission/v1, what is configured, and a way to look up a set. Off unless configured.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from grove.api.labels import DISABLE_PROTECTION, PART_OF

_KUBE_SYSTEM: Final = "system:serviceaccount:kube-system:"
CONTROLLERS: Final = frozenset(
    {
        f"{_KUBE_SYSTEM}generic-garbage-collector",
        f"{_KUBE_SYSTEM}namespace-controller",
        f"{_KUBE_SYSTEM}horizontal-pod-autoscaler",
        "system:kube-controller-manager",
    }
)
"""Users that are always allowed: a cluster that cannot collect its garbage, scale, or delete a namespace is broken.
The last one is all controllers where they share an identity."""

FindSet = Callable[[str, str], Mapping[str, Any] | None]
"""The metadata of a PodCliqueSet, given namespace and name; None when there is none. May raise when it cannot tell."""


@dataclass(frozen=True, slots=True)
class Protection:
    """Who may change managed objects."""

    operator: str
    """user name of the operator, `system:serviceaccount:<namespace>:<name>`"""
    find_set: FindSet
    exempt: Collection[str] = ()
    """further user names (authorizer.exemptServiceAccountUserNames)"""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to a request."""

    allowed: bool
    message: str = ""
    """why not"""
    warnings: tuple[str, ...] = ()


def authorize(request: Any, protection: Protection) -> Decision:
    """Decide on an AdmissionRequest for a managed object (API doc 2.6). Never raises.

    Pods may always be deleted, and Kubernetes' own controllers may do all they do. Everybody else is refused unless
    the object belongs to no set, or its set lifts the protection with an annotation.
    """
    kind = _text(request, "kind", "kind")
    operation, user = _text(request, "operation"), _text(request, "userInfo", "username")
    if operation == "CONNECT" or (operation == "DELETE" and kind == "Pod"):
        return Decision(True)
    if user and (user == protection.operator or user in CONTROLLERS or user in protection.exempt):
        return Decision(True)
    side = "object" if operation == "CREATE" else "oldObject"
    namespace, set_name = _text(request, "namespace"), _text(request, side, "metadata", "labels", PART_OF)
    name = _text(request, "name") or _text(request, side, "metadata", "name")
    what = f"{kind or 'object'} {namespace}/{name}"
    if not set_name:
        return Decision(True, warnings=(f"{what} is not protected: it has no label {PART_OF}",))
    try:
        owner = protection.find_set(namespace, set_name)
    except Exception as error:
        return Decision(False, f"cannot tell whether {what} is protected: PodCliqueSet {set_name}: {error}")
    if owner is None:
        return Decision(True, warnings=(f"{what} is not protected: there is no PodCliqueSet {namespace}/{set_name}",))
    if _text(owner, "annotations", DISABLE_PROTECTION) == "true":
        return Decision(True)
    return Decision(
        False,
        f"{what} is managed by Grove for PodCliqueSet {set_name}: {user or 'an unknown user'} may not "
        f"{operation.lower() or 'change'} it. Change the PodCliqueSet instead; to lift the protection: kubectl "
        f"annotate podcliqueset -n {namespace} {set_name} {DISABLE_PROTECTION}=true",
    )


def _text(value: Any, *steps: str) -> str:
    """The string at the end of a path, empty when there is none."""
    for step in steps:
        value = value.get(step) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else ""
