"""What the objects of all schedulers have in common."""

from grove.api import labels
from grove.api.labels import Component
from grove.api.podclique import PodClique
from grove.api.podgang import PodGang
from grove.plan.children import managed_labels
from grove.plan.template import owner_reference
from grove.schedulers.backend import GangView, Object


def gang_labels(gang: GangView) -> dict[str, str]:
    """Labels of every scheduler object of a gang: by them it is found (`Cluster.of_gang`) and its changes are told."""
    return managed_labels(gang.template.name, Component.PODGANG.value) | {
        labels.PODCLIQUESET_REPLICA_INDEX: str(gang.replica),
        labels.PODGANG: gang.state.gang.name,
    }


def gang_metadata(gang: GangView, name: str, owner: PodGang | PodClique) -> Object:
    """Metadata of a scheduler object of a gang that goes when `owner` does."""
    is_gang = isinstance(owner, PodGang)
    api_version, kind = (labels.SCHEDULER_API_VERSION, "PodGang") if is_gang else (labels.API_VERSION, "PodClique")
    return {
        "name": name,
        "namespace": gang.template.namespace,
        "labels": gang_labels(gang),
        "ownerReferences": owner_reference(api_version, kind, owner.name, owner.uid),
    }
