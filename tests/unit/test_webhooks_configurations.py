"""The manifests of the webhook configurations against the API doc (2.0, 2.6)."""

from typing import Any

import pytest

from grove.webhooks.configurations import manifests, with_ca_bundle

Object = dict[str, Any]


def rules(webhook: Object) -> set[tuple[str, str, str, str, str]]:
    """(group, version, resource, operation, scope) of all that a webhook is asked about."""
    return {
        (group, version, resource, operation, rule["scope"])
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
        for operation in rule["operations"]
    }


def expected(group: str, versions: str, resources: str, operations: str, scope: str = "Namespaced") -> set[Any]:
    return {
        (group, version, resource, operation, scope)
        for version in versions.split()
        for resource in resources.split()
        for operation in operations.split()
    }


SETS = expected("grove.io", "v1alpha1", "podcliquesets", "CREATE UPDATE")
WEBHOOKS = [
    (
        "MutatingWebhookConfiguration",
        "podcliqueset-defaulting-webhook",
        "pcs.defaulting.webhooks.grove.io",
        "/webhooks/default-podcliqueset",
        SETS,
    ),
    (
        "ValidatingWebhookConfiguration",
        "podcliqueset-validating-webhook",
        "pcs.validating.webhooks.grove.io",
        "/webhooks/validate-podcliqueset",
        SETS,
    ),
    (
        "ValidatingWebhookConfiguration",
        "clustertopology-validating-webhook",
        "clustertopology.validating.webhooks.grove.io",
        "/webhooks/validate-clustertopology",
        expected("grove.io", "v1alpha1", "clustertopologybindings", "CREATE UPDATE", "Cluster"),
    ),
    (
        "ValidatingWebhookConfiguration",
        "authorizer-webhook",
        "authorizer.webhooks.grove.io",
        "/webhooks/authorizer-webhook",
        expected("", "v1", "secrets serviceaccounts services", "UPDATE DELETE")
        | expected("", "v1", "pods", "UPDATE")
        | expected("rbac.authorization.k8s.io", "v1", "roles rolebindings", "UPDATE DELETE")
        | expected("autoscaling", "v1 v2", "horizontalpodautoscalers", "UPDATE DELETE")
        | expected("grove.io", "v1alpha1", "podcliques podcliquescalinggroups", "CREATE UPDATE DELETE")
        | expected("scheduler.grove.io", "v1alpha1", "podgangs", "CREATE UPDATE DELETE"),
    ),
]


def test_names_paths_and_rules() -> None:
    made = [
        (found["kind"], found["metadata"]["name"], webhook["name"], path(webhook), rules(webhook))
        for found in manifests(namespace="grove", protect=True)
        for webhook in found["webhooks"]
    ]
    assert made == WEBHOOKS


def path(webhook: Object) -> str:
    service: Object = webhook["clientConfig"]["service"]
    assert (service["name"], service["namespace"]) == ("grove-operator", "grove")
    return str(service["path"])


@pytest.mark.parametrize("index", range(4))
def test_what_holds_for_all(index: int) -> None:
    found = manifests(namespace="grove", protect=True)[index]
    assert "namespace" not in found["metadata"]
    (webhook,) = found["webhooks"]
    assert webhook["failurePolicy"] == "Fail"
    assert webhook["matchPolicy"] == "Exact"
    assert webhook["sideEffects"] == "None"
    assert webhook["timeoutSeconds"] == 10
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert "caBundle" not in webhook["clientConfig"]


def test_protection_is_only_installed_where_it_is_wanted_and_selects_managed_objects() -> None:
    assert [found["metadata"]["name"] for found in manifests(namespace="grove")] == [row[1] for row in WEBHOOKS[:3]]
    webhook = manifests(namespace="grove", protect=True)[3]["webhooks"][0]
    assert webhook["objectSelector"] == {"matchLabels": {"app.kubernetes.io/managed-by": "grove-operator"}}


def test_exempt_users_and_controllers_are_not_asked_about() -> None:
    (condition,) = manifests(url="https://x", protect=True, exempt=["alice"])[3]["webhooks"][0]["matchConditions"]
    for user in (
        "alice",
        "system:serviceaccount:kube-system:generic-garbage-collector",
        "system:serviceaccount:kube-system:horizontal-pod-autoscaler",
        "system:serviceaccount:kube-system:namespace-controller",
        "system:kube-controller-manager",
    ):
        assert f'"{user}"' in condition["expression"]


def test_a_url_instead_of_a_service() -> None:
    for found in manifests(url="https://127.0.0.1:2750/", protect=True):
        (webhook,) = found["webhooks"]
        assert webhook["clientConfig"]["url"].startswith("https://127.0.0.1:2750/webhooks/")
        assert "service" not in webhook["clientConfig"]


def test_filling_in_a_bundle_changes_nothing_else() -> None:
    before = manifests(namespace="grove")[0]
    after = with_ca_bundle(before, b"PEM")
    assert after["webhooks"][0]["clientConfig"].pop("caBundle") == "UEVN"
    assert after == before
