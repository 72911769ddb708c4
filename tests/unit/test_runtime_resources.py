"""URL paths as the Kubernetes API documents them."""

import pytest

from grove.runtime.resources import ResourceType, reference_to
from grove.runtime.writes import Create

PODS = ResourceType("", "v1", "pods", "Pod")
DEPLOYMENTS = ResourceType("apps", "v1", "deployments", "Deployment")
NODES = ResourceType("", "v1", "nodes", "Node", namespaced=False)


def test_paths() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("web") == "/api/v1/namespaces/web/pods"
    assert PODS.path("web", "a") == "/api/v1/namespaces/web/pods/a"
    assert DEPLOYMENTS.path("web", "a", "scale") == "/apis/apps/v1/namespaces/web/deployments/a/scale"
    assert NODES.path(name="n1") == "/api/v1/nodes/n1"
    assert NODES.path("ignored", "n1", "status") == "/api/v1/nodes/n1/status"


def test_paths_are_quoted() -> None:
    assert PODS.path("a/b", "c?d") == "/api/v1/namespaces/a%2Fb/pods/c%3Fd"


def test_paths_that_make_no_sense() -> None:
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path(name="a")
    with pytest.raises(ValueError, match="needs a namespace"):
        PODS.path("", "a")
    with pytest.raises(ValueError, match="needs the name"):
        PODS.path("web", subresource="status")


def test_names() -> None:
    assert (PODS.api_version, PODS.label) == ("v1", "pods")
    assert (DEPLOYMENTS.api_version, DEPLOYMENTS.label) == ("apps/v1", "deployments.apps")


def test_a_reference_names_the_object() -> None:
    obj = {"metadata": {"name": "a", "namespace": "web", "uid": "u", "labels": {"x": "y"}}}
    assert reference_to(DEPLOYMENTS, obj) == {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "namespace": "web",
        "name": "a",
        "uid": "u",
    }
    assert reference_to(NODES, {"metadata": {"name": "n1"}}) == {"apiVersion": "v1", "kind": "Node", "name": "n1"}


def test_a_create_is_named_by_its_body() -> None:
    create = Create(PODS, {"metadata": {"name": "a", "namespace": "web"}})
    assert (create.namespace, create.name) == ("web", "a")
    assert Create(NODES, {"metadata": {"name": "n1"}}).namespace == ""
