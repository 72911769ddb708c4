"""An update of one set on a real cluster, and what its events must never show."""

import copy
from collections import Counter, defaultdict
from collections.abc import Sequence

from tests.cluster.history import Change
from tests.cluster.workspace import Object, Workspace, is_active, is_ready

CLIQUE = "grove.io/podclique"
GROUP = "grove.io/podcliquescalinggroup"
SET_REPLICA = "grove.io/podcliqueset-replica-index"
GROUP_REPLICA = "grove.io/podcliquescalinggroup-replica-index"
TRIGGER = "UPDATE_TRIGGER"


def edited(obj: Object, *cliques: str, value: str = "1") -> Object:
    """The set with a variable set in every container of some cliques."""
    result = copy.deepcopy(obj)
    for one in result["spec"]["template"]["cliques"]:
        if one["name"] in cliques:
            for container in one["spec"]["podSpec"]["containers"]:
                container["env"] = [{"name": TRIGGER, "value": value}]
    return result


def is_updated(pod: Object, value: str = "1") -> bool:
    """Whether the variable is in a pod."""
    return {"name": TRIGGER, "value": value} in pod["spec"]["containers"][0].get("env", [])


class Update:
    """A set that is up, and what happens to it from then on."""

    def __init__(self, workspace: Workspace, obj: Object, pods: int) -> None:
        self.workspace = workspace
        self.obj = obj
        self.name = str(obj["metadata"]["name"])
        workspace.create("pcs", obj)
        self.before = {pod["spec"]["hostname"]: pod for pod in workspace.settled(self.name, pods)}
        self.since = workspace.revision()

    def edit(self, *cliques: str, value: str = "1", **spec: object) -> None:
        """Change cliques, and fields of the set's spec."""
        self.obj = edited(self.obj, *cliques, value=value)
        self.obj["spec"] |= spec
        self.workspace.patch("pcs", self.name, {"spec": self.obj["spec"]})

    def told(self) -> None:
        """Wait until the operator has heard of the change, which takes it some 100 ms."""
        pcs = self.workspace.get("pcs", self.name)
        generation = pcs["metadata"]["generation"]
        self.workspace.until("pcs", self.name, lambda pcs: pcs["status"]["observedGeneration"] == generation, "told")

    def scale(self, kind: str, part: str, replicas: int) -> None:
        """Scale a clique or group in both replicas of the set."""
        for index in range(2):
            self.workspace.scale(kind, f"{self.name}-{index}-{part}", replicas)

    @property
    def progress(self) -> Object:
        """The set's updateProgress."""
        found: Object = self.workspace.get("pcs", self.name)["status"].get("updateProgress", {})
        return found

    def ended(self) -> None:
        """Wait until the set says that the update of its generation has ended."""

        def look() -> bool:
            pcs = self.workspace.get("pcs", self.name)
            assert pcs["status"].get("observedGeneration") == pcs["metadata"]["generation"], f"{pcs['status']}"
            return "updateEndedAt" in pcs["status"]["updateProgress"]

        self.workspace.wait(look, f"the update of {self.name} has ended")

    def done(self, pods: int) -> list[Object]:
        """Wait for the end; the pods. Checks every event since the beginning, and the count of replicas."""
        self.ended()
        found = self.workspace.settled(self.name, pods)
        pcs = self.workspace.get("pcs", self.name)
        assert pcs["status"]["updatedReplicas"] == pcs["spec"]["replicas"]
        assert "currentlyUpdating" not in pcs["status"]["updateProgress"]
        broken = violations(self.workspace.changes(self.since, "pod", "pclq"), [*self.before.values()])
        assert not broken, "\n".join(broken)
        return found

    def all_updated(self, pods: Sequence[Object], *cliques: str) -> None:
        """Check that the pods of these cliques have the variable, and no other does."""
        for pod in pods:
            clique = pod["metadata"]["labels"][CLIQUE]
            assert is_updated(pod) == clique.endswith(cliques), pod["metadata"]["name"]

    def made(self) -> Counter[str]:
        """How many pods were made in each slot since the beginning."""
        changes = self.workspace.changes(self.since, "pod")
        return Counter(change.object["spec"]["hostname"] for change in changes if change.type == "ADDED")


def violations(changes: Sequence[Change], before: Sequence[Object], unavailable: int = 1) -> list[str]:
    """What went wrong in an update, event by event, of a set that was whole at first.

    A ready pod of a standalone clique went while too few others were ready; one of a scaling group's replica while
    another replica of the group was down; or one of a set's replica while another replica of the set was down.
    """
    pods: dict[str, dict[str, Object]] = defaultdict(dict)
    for pod in before:
        pods[pod["metadata"]["labels"][CLIQUE]][pod["metadata"]["uid"]] = pod
    least = {name: len(mine) for name, mine in pods.items()}
    for change in changes:  # numbers that were scaled in between count from the beginning
        if change.kind == "pclq" and change.name in least:
            count = 0 if change.type == "DELETED" else change.object["spec"]["replicas"]
            least[change.name] = min(least[change.name], count)
    found: list[str] = []
    for change in changes:
        if change.kind != "pod":
            continue
        tags, uid = change.object["metadata"]["labels"], change.object["metadata"]["uid"]
        if change.type != "DELETED" and is_active(change.object):
            pods[tags[CLIQUE]][uid] = change.object
        elif (lost := pods[tags[CLIQUE]].pop(uid, None)) is not None and is_ready(lost) and least.get(tags[CLIQUE]):
            found += _lost(lost, pods, least, unavailable)
    return found


def _lost(pod: Object, pods: dict[str, dict[str, Object]], least: dict[str, int], unavailable: int) -> list[str]:
    tags, name = pod["metadata"]["labels"], pod["metadata"]["name"]
    ready = {clique: sum(map(is_ready, mine.values())) for clique, mine in pods.items()}
    down = {clique for clique, count in least.items() if ready.get(clique, 0) < count}
    label = {clique: next(iter(mine.values()))["metadata"]["labels"] for clique, mine in pods.items() if mine}
    found = []
    if GROUP not in tags and tags[CLIQUE] in least and ready.get(tags[CLIQUE], 0) < least[tags[CLIQUE]] - unavailable:
        found.append(f"{name} went, {ready.get(tags[CLIQUE], 0)} are left ready")
    for clique in down & label.keys():
        other = label[clique]
        if other[SET_REPLICA] != tags[SET_REPLICA]:
            found.append(f"{name} went while {clique} of another replica of the set was down")
        elif GROUP in tags and other.get(GROUP) == tags[GROUP] and other[GROUP_REPLICA] != tags[GROUP_REPLICA]:
            found.append(f"{name} went while {clique} of another replica of the group was down")
    return found
