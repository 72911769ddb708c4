"""The rules of gangs and gates, checked over everything that happened and not just at the end."""

from collections.abc import Iterable, Mapping

from tests.cluster.history import Change
from tests.cluster.workspace import Object, is_gated, verdict


def references(podgang: Object) -> list[str]:
    """Names of all pods a PodGang references, in its order."""
    groups = podgang["spec"]["podgroups"]
    return [reference["name"] for group in groups for reference in group["podReferences"]]


def minimums(podgang: Object) -> dict[str, int]:
    """minReplicas of a PodGang's pod groups, in its order."""
    return {group["name"]: group["minReplicas"] for group in podgang["spec"]["podgroups"]}


def is_initialized(podgang: Object) -> bool:
    """Whether the condition Initialized is True."""
    return verdict(podgang, "Initialized") == ("True", "PodGangPodsCreated")


def check_gates(changes: Iterable[Change], sizes: Mapping[str, int]) -> set[str]:
    """Check what happened to pods and PodGangs, in order; the names of the gangs whose gates came off.

    `sizes` says how many pods each gang has when it starts. Until all of them are referenced the PodGang is not
    Initialized and no gate comes off; a pod loses its gate only when its PodGang references it.
    """
    gangs: dict[str, Object] = {}
    gated: dict[str, str] = {}
    released: set[str] = set()
    for change in changes:
        if change.kind == "pg":
            gangs[change.name] = change.object
            if is_initialized(change.object) and change.name not in released:
                assert len(references(change.object)) >= sizes[change.name], f"Initialized too early: {change.object}"
        elif change.kind == "pod" and is_gated(change.object):
            gated[change.name] = change.object["metadata"]["labels"]["grove.io/podgang"]
        elif change.kind == "pod" and change.type != "DELETED" and change.name in gated:
            gang = gated.pop(change.name)
            assert gang in gangs, f"{change.name} was released before {gang} existed"
            assert change.name in references(gangs[gang]), f"{change.name} was released, {gang} did not name it"
            if gang not in released:
                complete = len(references(gangs[gang])) >= sizes[gang]  # the status that says so comes after
                assert complete, f"{change.name} was released before {gang} was complete"
            released.add(gang)
    return released
