"""What the API server is told about the webhooks: their configurations, as manifests. Names, paths and rules follow
the API doc 2.0 and 2.6.

They are installed like any other manifest and belong to whoever installs them. The operator changes one thing: it
fills in `caBundle` (see provision.py).
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from grove.admission.protection import CONTROLLERS
from grove.api import labels
from grove.runtime.resources import ResourceType
from grove.webhooks.certificates import joined

Manifest = dict[str, Any]

DEFAULT_PATH: Final = "/webhooks/default-podcliqueset"
VALIDATE_PATH: Final = "/webhooks/validate-podcliqueset"
VALIDATE_BINDING_PATH: Final = "/webhooks/validate-clustertopology"
AUTHORIZE_PATH: Final = "/webhooks/authorizer-webhook"

_GROUP: Final = "admissionregistration.k8s.io"
MUTATING: Final = ResourceType(_GROUP, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", False)
VALIDATING: Final = ResourceType(
    _GROUP, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", False
)

SERVICE: Final = "grove-operator"
"""Name of the Service in front of the webhook server."""
SECONDS: Final = 10
"""How long the API server waits for an answer."""

_CHANGED: Final = [
    {
        "name": "more-than-status-or-metadata",
        "expression": 'request.operation != "UPDATE" || object.?spec != oldObject.?spec'
        " || object.metadata.?labels != oldObject.metadata.?labels"
        " || object.metadata.?annotations != oldObject.metadata.?annotations",
    }
]
"""Updates of status, finalizers and owners pass without a call, so that an object can go while no operator runs."""


@dataclass(frozen=True, slots=True)
class _Webhook:
    resource: ResourceType
    configuration: str
    """name of the configuration object; each has one webhook"""
    name: str
    path: str
    rules: Sequence[Manifest]
    conditions: Sequence[Manifest] = ()
    object_selector: Manifest | None = None


def _rule(group: str, versions: str, resources: str, operations: str, scope: str = "Namespaced") -> Manifest:
    return {
        "apiGroups": [group],
        "apiVersions": versions.split(),
        "operations": operations.split(),
        "resources": resources.split(),
        "scope": scope,
    }


_SETS: Final = [_rule("grove.io", "v1alpha1", "podcliquesets", "CREATE UPDATE")]
_BINDINGS: Final = [_rule("grove.io", "v1alpha1", "clustertopologybindings", "CREATE UPDATE", "Cluster")]
_MANAGED: Final = [
    _rule("", "v1", "secrets serviceaccounts services", "UPDATE DELETE"),
    _rule("", "v1", "pods", "UPDATE"),
    _rule("rbac.authorization.k8s.io", "v1", "roles rolebindings", "UPDATE DELETE"),
    _rule("autoscaling", "v1 v2", "horizontalpodautoscalers", "UPDATE DELETE"),
    _rule("grove.io", "v1alpha1", "podcliques podcliquescalinggroups", "CREATE UPDATE DELETE"),
    _rule("scheduler.grove.io", "v1alpha1", "podgangs", "CREATE UPDATE DELETE"),
]

_DEFAULTING: Final = _Webhook(
    MUTATING, "podcliqueset-defaulting-webhook", "pcs.defaulting.webhooks.grove.io", DEFAULT_PATH, _SETS, _CHANGED
)
_VALIDATION: Final = _Webhook(
    VALIDATING, "podcliqueset-validating-webhook", "pcs.validating.webhooks.grove.io", VALIDATE_PATH, _SETS, _CHANGED
)
_BINDING_VALIDATION: Final = _Webhook(
    VALIDATING,
    "clustertopology-validating-webhook",
    "clustertopology.validating.webhooks.grove.io",
    VALIDATE_BINDING_PATH,
    _BINDINGS,
    _CHANGED,
)
_AUTHORIZER: Final = _Webhook(
    VALIDATING,
    "authorizer-webhook",
    "authorizer.webhooks.grove.io",
    AUTHORIZE_PATH,
    _MANAGED,
    object_selector={"matchLabels": {labels.MANAGED_BY: labels.MANAGED_BY_GROVE}},
)

_INJECTOR: Final = "cert-manager.io/inject-"


def is_injected(configuration: Manifest) -> bool:
    """Whether cert-manager has been asked to write `caBundle`, which it would do over and over."""
    return any(key.startswith(_INJECTOR) for key in configuration["metadata"].get("annotations") or ())


NAMES: Final[Mapping[ResourceType, frozenset[str]]] = {
    MUTATING: frozenset({_DEFAULTING.configuration}),
    VALIDATING: frozenset(each.configuration for each in (_VALIDATION, _BINDING_VALIDATION, _AUTHORIZER)),
}
"""The names of our configurations, by kind."""


def manifests(
    *,
    namespace: str = "",
    url: str = "",
    protect: bool = False,
    exempt: Collection[str] = (),
) -> list[Manifest]:
    """The webhook configurations, without `caBundle`.

    The API server finds the server through the Service grove-operator in `namespace`, or directly by `url`, for
    instance https://127.0.0.1:2750. `protect` adds the authorizer; it is not asked about the users in `exempt`, which
    should have the operator's own, nor about Kubernetes' controllers, which must work while no operator runs.
    """
    found = [_DEFAULTING, _VALIDATION, _BINDING_VALIDATION]
    made = [_manifest(webhook, namespace, url, webhook.conditions) for webhook in found]
    if protect:
        users = json.dumps(sorted({*CONTROLLERS, *exempt}))
        spared = [{"name": "not-exempt", "expression": f"!(request.userInfo.username in {users})"}]
        made.append(_manifest(_AUTHORIZER, namespace, url, spared))
    return made


def _manifest(webhook: _Webhook, namespace: str, url: str, conditions: Sequence[Manifest]) -> Manifest:
    service = {"name": SERVICE, "namespace": namespace, "path": webhook.path}
    entry: Manifest = {
        "name": webhook.name,
        "clientConfig": {"url": url.rstrip("/") + webhook.path} if url else {"service": service},
        "rules": list(webhook.rules),
        "matchConditions": list(conditions),
        "matchPolicy": "Exact",
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": SECONDS,
        "admissionReviewVersions": ["v1"],
    }
    if webhook.object_selector:
        entry["objectSelector"] = webhook.object_selector
    tags = {
        "app.kubernetes.io/component": "webhook",
        "app.kubernetes.io/name": webhook.configuration,
        labels.PART_OF: "grove",
    }
    return {
        "apiVersion": webhook.resource.api_version,
        "kind": webhook.resource.kind,
        "metadata": {"name": webhook.configuration, "labels": tags},
        "webhooks": [entry],
    }


def with_ca_bundle(configuration: Manifest, bundle: bytes) -> Manifest:
    """A configuration as it was read, with all its webhooks trusting `bundle`, beside the authorities of others."""
    entries = []
    for entry in configuration.get("webhooks") or ():
        present = b64decode(entry["clientConfig"].get("caBundle", ""))
        encoded = b64encode(joined(present, bundle)).decode()
        entries.append({**entry, "clientConfig": {**entry["clientConfig"], "caBundle": encoded}})
    return {**configuration, "webhooks": entries}
