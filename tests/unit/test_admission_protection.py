"""Who may change what Grove makes: the order in which a request is judged, and that every request gets an answer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from grove.admission import Decision, Protection, authorize

OPERATOR = "system:serviceaccount:grove-system:grove-operator"
LIFTED = "grove.io/disable-managed-resource-protection"
KUBE_SYSTEM = "system:serviceaccount:kube-system"
SETS: dict[tuple[str, str], dict[str, Any]] = {
    ("ns", "web"): {"name": "web"},
    ("ns", "open"): {"annotations": {LIFTED: "true"}},
    ("ns", "nearly"): {"annotations": {LIFTED: "True"}},
}
GUARD = Protection(OPERATOR, lambda namespace, name: SETS.get((namespace, name)), exempt=("binder",))


def request(
    operation: str = "UPDATE", user: str = "bob", kind: str = "PodClique", part_of: str | None = "web", **fields: Any
) -> dict[str, Any]:
    """An AdmissionRequest for a managed object of a set."""
    labels = {"app.kubernetes.io/managed-by": "grove-operator"} | (
        {"app.kubernetes.io/part-of": part_of} if part_of else {}
    )
    side = "object" if operation == "CREATE" else "oldObject"
    return {
        "kind": {"group": "grove.io", "version": "v1alpha1", "kind": kind},
        "namespace": "ns",
        "name": "web-0-a",
        "operation": operation,
        "userInfo": {"username": user},
        side: {"metadata": {"name": "web-0-a", "labels": labels}},
        **fields,
    }


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize("kind", ["PodClique", "PodCliqueScalingGroup", "PodGang", "Service", "Pod"])
def test_others_are_denied_and_told_how_to_lift_it(operation: str, kind: str) -> None:
    decision = authorize(request(operation, kind=kind), GUARD)
    if (operation, kind) == ("DELETE", "Pod"):
        assert decision == Decision(True)
        return
    assert not decision.allowed
    assert f"{kind} ns/web-0-a" in decision.message
    assert f"bob may not {operation.lower()} it" in decision.message
    assert f"kubectl annotate podcliqueset -n ns web {LIFTED}=true" in decision.message


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
@pytest.mark.parametrize(
    "user",
    [
        OPERATOR,
        "binder",
        f"{KUBE_SYSTEM}:generic-garbage-collector",
        f"{KUBE_SYSTEM}:horizontal-pod-autoscaler",
        f"{KUBE_SYSTEM}:namespace-controller",
        "system:kube-controller-manager",
    ],
)
def test_the_operator_exempt_users_and_kubernetes_controllers_are_allowed(user: str, operation: str) -> None:
    assert authorize(request(operation, user), GUARD) == Decision(True)


@pytest.mark.parametrize("user", ["", f"{KUBE_SYSTEM}:replicaset-controller", f"{OPERATOR}2", "system:admin"])
def test_nobody_else_is(user: str) -> None:
    assert not authorize(request(user=user), GUARD).allowed


def test_connect_is_allowed() -> None:
    assert authorize(request("CONNECT"), GUARD) == Decision(True)


def test_the_annotation_lifts_it_and_only_the_exact_one_does() -> None:
    assert authorize(request(part_of="open"), GUARD) == Decision(True)
    assert not authorize(request(part_of="nearly"), GUARD).allowed


@pytest.mark.parametrize(("part_of", "why"), [(None, "it has no label"), ("gone", "there is no PodCliqueSet ns/gone")])
def test_what_belongs_to_no_set_is_free_with_a_warning(part_of: str | None, why: str) -> None:
    decision = authorize(request(part_of=part_of), GUARD)
    assert decision.allowed
    assert len(decision.warnings) == 1
    assert why in decision.warnings[0]


def test_the_label_that_counts_is_the_one_before_the_change() -> None:
    changed = request() | {"object": {"metadata": {"name": "web-0-a", "labels": {}}}}
    assert not authorize(changed, GUARD).allowed


def test_a_lookup_that_fails_denies() -> None:
    def fail(namespace: str, name: str) -> None:
        raise TimeoutError("no answer")

    decision = authorize(request(), Protection(OPERATOR, fail))
    assert not decision.allowed
    assert "cannot tell whether PodClique ns/web-0-a is protected" in decision.message
    assert "no answer" in decision.message
    assert authorize(request(user=OPERATOR), Protection(OPERATOR, fail)).allowed


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kind", "operation", "userInfo", "username", "oldObject", "metadata", "labels"]), inner
        )
    ),
    max_leaves=10,
)


@settings(max_examples=200, deadline=None)
@given(anything)
def test_every_request_gets_an_answer(garbage: Any) -> None:
    assert isinstance(authorize(garbage, GUARD), Decision)
    if isinstance(garbage, dict):
        assert isinstance(authorize(request() | garbage, GUARD), Decision)
