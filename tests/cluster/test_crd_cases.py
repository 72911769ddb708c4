"""Every case of admission against a real API server without webhooks: what the CustomResourceDefinitions refuse by
themselves, and that they take all that admission accepts.
"""

from __future__ import annotations

import copy

import pytest

from tests.admission_cases import CASES, Case, Obj
from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.objects import collection, store

pytestmark = pytest.mark.usefixtures("crds")

DRY_RUN = "?dryRun=All"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer_of_the_api_server(cluster: Harness, namespace: str, case: Case) -> None:
    path = collection(case.new.get("kind", "PodCliqueSet"), namespace)
    message = ""
    try:
        if case.old is None:
            cluster.api("POST", path + DRY_RUN, placed(case.new, namespace))
        else:
            stored = store(cluster, path, placed(case.old, namespace))
            new = placed(case.new, namespace)
            new["metadata"]["resourceVersion"] = stored["metadata"]["resourceVersion"]
            cluster.api("PUT", f"{path}/{stored['metadata']['name']}{DRY_RUN}", new)
    except ApiStatus as error:
        message = error.message
    if case.schema:
        assert case.schema in message
    else:
        assert message == ""


def placed(obj: Obj, namespace: str) -> Obj:
    """A copy of a case's object in a namespace of this cluster."""
    obj = copy.deepcopy(obj)
    if obj.get("metadata", {}).get("namespace") == "ns":
        obj["metadata"]["namespace"] = namespace
    return obj
