"""Names are part of the API: these are the documented ones."""

from __future__ import annotations

import pytest

from grove.api import names


def test_children_of_a_set() -> None:
    assert names.podclique_name("simple1", 0, "pca") == "simple1-0-pca"
    assert names.scaling_group_name("simple1", 2, "sga") == "simple1-2-sga"
    assert names.scaling_group_podclique_name("simple1-0-sga", 1, "pcb") == "simple1-0-sga-1-pcb"
    assert names.hpa_name("simple1-0-sga") == "simple1-0-sga"


def test_gangs() -> None:
    assert names.base_podgang_name("simple3", 0) == "simple3-0"
    assert names.scaled_podgang_name("simple3-0-sga", 2, 2) == "simple3-0-sga-0", "counts from 0 again"
    assert names.scaled_podgang_name("simple3-0-sga", 5, 2) == "simple3-0-sga-3"
    assert names.scaled_podgang_name("simple3-0-sga", 0, 0) == "simple3-0-sga-0"
    assert names.topology_group_name("simple3-0-sga", 1) == "simple3-0-sga-1"


def test_a_replica_of_the_base_gang_has_no_gang_of_its_own() -> None:
    with pytest.raises(ValueError, match="replica 1 of simple3-0-sga is below minAvailable 2"):
        names.scaled_podgang_name("simple3-0-sga", 1, 2)


def test_how_pods_are_addressed() -> None:
    assert names.headless_service_name("chat", 3) == "chat-3"
    assert names.headless_service_fqdn("chat", 3, "serve") == "chat-3.serve.svc.cluster.local"
    assert names.pod_hostname("chat-3-worker", 7) == "chat-3-worker-7"
    assert names.pod_fqdn("chat-3-worker", 7, "chat", 3, "serve") == "chat-3-worker-7.chat-3.serve.svc.cluster.local"
    assert names.pod_generate_name("chat-3-worker") == "chat-3-worker-"


def test_devices() -> None:
    assert names.compute_domain_name("chat", 1, "train") == "chat-1-train"
    assert names.shared_claim_name("chat", "gpus") == "chat-all-gpus"
    assert names.replica_claim_name("chat", 1, "gpus") == "chat-1-gpus"


def test_selectors() -> None:
    whole = "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=chat"
    assert names.podcliqueset_selector("chat") == whole
    assert names.podclique_selector("chat", "chat-0-worker") == f"{whole},grove.io/podclique=chat-0-worker"
    assert (
        names.scaling_group_selector("chat", "chat-0-prefill")
        == f"{whole},grove.io/podcliquescalinggroup=chat-0-prefill"
    )
