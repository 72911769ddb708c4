"""How everything that Grove makes is called. Names are part of the API: users address pods by them.

`pcs` is the name of a PodCliqueSet and `i` the index of its replica; `pcsg` is the full name of a
PodCliqueScalingGroup and `j` the index of its replica; `pclq` is the full name of a PodClique and `k` the index of a
pod in it. All indices count from 0.
"""

from __future__ import annotations

from grove.api.labels import MANAGED_BY, MANAGED_BY_GROVE, PART_OF, PODCLIQUE, SCALING_GROUP


def podclique_name(pcs: str, i: int, clique: str) -> str:
    """The PodClique of a clique that is in no scaling group."""
    return f"{pcs}-{i}-{clique}"


def scaling_group_name(pcs: str, i: int, group: str) -> str:
    """The PodCliqueScalingGroup of a group in the set's template."""
    return f"{pcs}-{i}-{group}"


def scaling_group_podclique_name(pcsg: str, j: int, clique: str) -> str:
    """The PodClique of a clique in one replica of a scaling group."""
    return f"{pcsg}-{j}-{clique}"


def base_podgang_name(pcs: str, i: int) -> str:
    """The gang of a replica's cliques and of the first minAvailable replicas of its scaling groups."""
    return f"{pcs}-{i}"


def scaled_podgang_name(pcsg: str, j: int, min_available: int) -> str:
    """The gang of a scaling group's replica beyond minAvailable. Its number counts from 0 at replica minAvailable.

    Raises ValueError for a replica that belongs to the base gang.
    """
    if j < min_available:
        raise ValueError(f"replica {j} of {pcsg} is below minAvailable {min_available}: it is in the base gang")
    return f"{pcsg}-{j - min_available}"


def headless_service_name(pcs: str, i: int) -> str:
    """The Service, and thereby the subdomain, of a replica's pods."""
    return f"{pcs}-{i}"


def headless_service_fqdn(pcs: str, i: int, namespace: str) -> str:
    """The DNS name of a replica's Service, as in GROVE_HEADLESS_SERVICE."""
    return f"{headless_service_name(pcs, i)}.{namespace}.svc.cluster.local"


def pod_hostname(pclq: str, k: int) -> str:
    """The host name of a pod, the same for each pod that ever takes index `k`."""
    return f"{pclq}-{k}"


def pod_fqdn(pclq: str, k: int, pcs: str, i: int, namespace: str) -> str:
    """The DNS name of a pod."""
    return f"{pod_hostname(pclq, k)}.{headless_service_fqdn(pcs, i, namespace)}"


def pod_generate_name(pclq: str) -> str:
    """What a pod's name starts with; five characters follow."""
    return f"{pclq}-"


def hpa_name(target: str) -> str:
    """The HorizontalPodAutoscaler of a PodClique or PodCliqueScalingGroup."""
    return target


def topology_group_name(pcsg: str, j: int) -> str:
    """The topology constraint group of a scaling group's replica in the base gang."""
    return f"{pcsg}-{j}"


def compute_domain_name(pcs: str, i: int, mnnvl_group: str) -> str:
    """The ComputeDomain of a replica's NVLink group, and the ResourceClaimTemplate that its driver makes."""
    return f"{pcs}-{i}-{mnnvl_group}"


def shared_claim_name(owner: str, template: str) -> str:
    """The ResourceClaim that all replicas of `owner` share."""
    return f"{owner}-all-{template}"


def replica_claim_name(owner: str, index: int, template: str) -> str:
    """The ResourceClaim of one replica of `owner`."""
    return f"{owner}-{index}-{template}"


def podcliqueset_selector(pcs: str) -> str:
    """Label selector of all pods of a set."""
    return f"{MANAGED_BY}={MANAGED_BY_GROVE},{PART_OF}={pcs}"


def podclique_selector(pcs: str, pclq: str) -> str:
    """Label selector of the pods of a PodClique."""
    return f"{podcliqueset_selector(pcs)},{PODCLIQUE}={pclq}"


def scaling_group_selector(pcs: str, pcsg: str) -> str:
    """Label selector of the pods of a PodCliqueScalingGroup."""
    return f"{podcliqueset_selector(pcs)},{SCALING_GROUP}={pcsg}"


def index_of(text: str) -> int | None:
    """The index that a label or the end of a name tells; None when it is no number."""
    return int(text) if text.isascii() and text.isdigit() else None
