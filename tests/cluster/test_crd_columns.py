"""`kubectl get` shows the documented columns, with the values of the documented fields."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.harness import Harness
from tests.cluster.objects import collection, create, make, pcs, scalable

pytestmark = pytest.mark.usefixtures("crds")


def headings_and_values(cluster: Harness, namespace: str, resource: str, wide: bool) -> dict[str, str]:
    """The line of `kubectl get` for the object x, by heading."""
    output = cluster.kubectl("get", "-n", namespace, resource, "x", *(["-o", "wide"] if wide else []))
    headings, values = output.splitlines()
    starts = [headings.index(word) for word in headings.split()]
    ends = [*starts[1:], None]
    return {headings[start:end].strip(): values[start:end].strip() for start, end in zip(starts, ends, strict=True)}


CONDITION = {
    "type": "MinAvailableBreached",
    "status": "False",
    "reason": "R",
    "message": "",
    "lastTransitionTime": "2026-09-01T00:00:00Z",
}


@pytest.mark.parametrize(
    ("short_name", "obj", "status", "expected", "wide"),
    [
        (
            "pcs",
            pcs({}),
            {
                "availableReplicas": 2,
                "updatedReplicas": 3,
                "updateProgress": {
                    "updatedPodCliquesCount": 4,
                    "totalPodCliquesCount": 5,
                    "updatedPodCliqueScalingGroupsCount": 6,
                    "totalPodCliqueScalingGroupsCount": 7,
                },
            },
            {
                "REPLICAS": "1",
                "AVAILABLE": "2",
                "UPDATED": "3",
                "PCLQS-UPDATED": "4",
                "PCLQS-TOTAL": "5",
                "PCSGS-UPDATED": "6",
                "PCSGS-TOTAL": "7",
            },
            {"UPDATING": ""},
        ),
        (
            "pclq",
            scalable("PodClique", 2, 1),
            {
                "readyReplicas": 3,
                "scheduledReplicas": 4,
                "updatedReplicas": 5,
                "scheduleGatedReplicas": 6,
                "conditions": [CONDITION],
            },
            {"MINAVAIL": "1", "REPLICAS": "2", "READY": "3", "SCHEDULED": "4", "UPDATED": "5"},
            {"GATED": "6", "MINBREACHED": "False"},
        ),
        (
            "pcsg",
            scalable("PodCliqueScalingGroup", 2, 1),
            {
                "availableReplicas": 3,
                "scheduledReplicas": 4,
                "updatedReplicas": 5,
                "conditions": [CONDITION],
                "updateProgress": {
                    "updateStartedAt": "2026-09-01T00:00:00Z",
                    "podCliqueSetGenerationHash": "h",
                    "updatedPodCliquesCount": 6,
                    "totalPodCliquesCount": 7,
                },
            },
            {
                "MINAVAIL": "1",
                "REPLICAS": "2",
                "AVAILABLE": "3",
                "SCHEDULED": "4",
                "UPDATED": "5",
                "PCLQS-UPDATED": "6",
                "PCLQS-TOTAL": "7",
            },
            {"MINBREACHED": "False"},
        ),
        ("pg", make("PodGang", {"podgroups": []}), {"phase": "Running"}, {"PHASE": "Running"}, {}),
    ],
    ids=["pcs", "pclq", "pcsg", "pg"],
)
def test_columns(
    cluster: Harness,
    namespace: str,
    short_name: str,
    obj: dict[str, Any],
    status: dict[str, Any],
    expected: dict[str, str],
    wide: dict[str, str],
) -> None:
    create(cluster, namespace, obj)
    path = f"{collection(obj['kind'], namespace)}/x/status"
    cluster.api("PATCH", path, {"status": status}, "application/merge-patch+json")
    line = headings_and_values(cluster, namespace, short_name, wide=False)
    assert line.pop("AGE")
    assert line == {"NAME": "x"} | expected
    line = headings_and_values(cluster, namespace, short_name, wide=True)
    assert line.pop("AGE")
    assert line == {"NAME": "x"} | expected | wide


def test_columns_of_a_topology(cluster: Harness, namespace: str) -> None:
    """Cluster-scoped; named after the namespace, so that it meets no other test's."""
    levels = [{"domain": "zone", "key": "topology.kubernetes.io/zone"}, {"domain": "rack", "key": "rack"}]
    create(cluster, namespace, make("ClusterTopologyBinding", {"levels": levels}, namespace))
    headings, values = cluster.kubectl("get", "ct", namespace).splitlines()
    assert headings.split() == ["NAME", "DOMAINS", "AGE"]
    assert values.split()[:2] == [namespace, "zone"]
    cluster.api("DELETE", f"{collection('ClusterTopologyBinding', namespace)}/{namespace}")


def test_get_grove_lists_every_kind(cluster: Harness, namespace: str) -> None:
    create(cluster, namespace, pcs({}, "a-set"))
    create(cluster, namespace, make("PodGang", {"podgroups": []}, "a-gang"))
    names = cluster.kubectl("get", "grove", "-n", namespace, "-o", "name").split()
    assert "podcliqueset.grove.io/a-set" in names
    assert "podgang.scheduler.grove.io/a-gang" in names
