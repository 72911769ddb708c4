"""What admission accepts can be made: the set, and every object it would become, are taken by a real API server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings

from grove.admission import default, validate
from grove.api.podcliqueset import PodCliqueSet
from grove.plan.expand import expand
from grove.plan.template import Template
from tests.cluster.harness import Harness
from tests.cluster.objects import collection
from tests.cluster.repeat import repetitions
from tests.sets import podcliquesets

pytestmark = pytest.mark.usefixtures("crds")

PLURALS = {
    ("v1", "Service"): "services",
    ("v1", "Pod"): "pods",
    ("autoscaling/v2", "HorizontalPodAutoscaler"): "horizontalpodautoscalers",
}


@settings(
    max_examples=repetitions(8, 200),
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.function_scoped_fixture],
)
@given(obj=podcliquesets())
def test_every_object_of_an_accepted_set_is_taken(cluster: Harness, namespace: str, obj: dict[str, Any]) -> None:
    obj["metadata"]["namespace"] = namespace
    assume(validate(obj).ok)
    full = default(obj)
    for written in (obj, full):
        send(cluster, namespace, written)
    for made in children(full):
        send(cluster, namespace, made)


def children(obj: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Everything a set would become; without owners, which a dry run has not made."""
    for replica in expand(Template(PodCliqueSet.from_wire(obj))):
        for made in replica.objects:
            yield {
                **made,
                "metadata": {key: value for key, value in made["metadata"].items() if key != "ownerReferences"},
            }


def send(cluster: Harness, namespace: str, obj: dict[str, Any]) -> None:
    """Create an object without leaving a trace; an unknown field is an error too."""
    version, kind = obj["apiVersion"], obj["kind"]
    plural = PLURALS.get((version, kind))
    prefix = "/api" if version == "v1" else "/apis"
    path = f"{prefix}/{version}/namespaces/{namespace}/{plural}" if plural else collection(kind, namespace)
    cluster.api("POST", f"{path}?dryRun=All&fieldValidation=Strict", obj)
