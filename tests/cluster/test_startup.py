"""The start order on a real API server, with kubelets that hold `grove-initc` until its annotation is there."""

import random
import time
from datetime import datetime
from typing import Any

import pytest

from tests.cluster.chaos import dice
from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.history import Change
from tests.cluster.repeat import repetitions
from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import Object, Workspace, condition, is_active, is_ready, uid, uids, verdict

IN_ORDER: Object = {"cliqueStartupType": "CliqueStartupTypeInOrder"}
EXPLICIT: Object = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
NEVER_READY = {"sim.test/ready-delay": "1h"}


def ten_pods(name: str, minimums: tuple[int, int, int, int], startup: Object, **after: list[str]) -> Object:
    """Two pc-a; one pc-b and three pc-c in each of two replicas of sg-x; minimums of the cliques, then of the group."""
    parents: dict[str, Any] = {f"pc-{one}": {"startsAfter": names} for one, names in after.items()}
    cliques = [
        clique(one, replicas, minimum, **parents.get(one, {}))
        for one, replicas, minimum in zip(("pc-a", "pc-b", "pc-c"), (2, 1, 3), minimums[:3], strict=True)
    ]
    return podcliqueset(name, *cliques, group("sg-x", "pc-b pc-c", 2, minimums[3]), **startup)


FULL, SMALLEST = (2, 1, 3, 2), (1, 1, 1, 1)
WORKLOADS = {
    "workload3": ten_pods("workload3", FULL, IN_ORDER),
    "workload4": ten_pods("workload4", SMALLEST, IN_ORDER),
    "workload5": ten_pods("workload5", FULL, EXPLICIT, c=["pc-a"], b=["pc-c"]),
    "workload6": ten_pods("workload6", SMALLEST, EXPLICIT, b=["pc-a"], c=["pc-b"]),
}


def ready_times(pods: list[Object], podclique: str) -> list[datetime]:
    """When the pods of a PodClique became ready, sorted."""
    mine = [pod for pod in pods if pod["metadata"]["labels"]["grove.io/podclique"] == podclique]
    return sorted(datetime.fromisoformat(condition(pod, "Ready")["lastTransitionTime"]) for pod in mine)


def start_times(pods: list[Object], podclique: str) -> list[datetime]:
    """When the main containers of a PodClique's pods started, sorted."""
    mine = [pod for pod in pods if pod["metadata"]["labels"]["grove.io/podclique"] == podclique]
    return sorted(
        datetime.fromisoformat(container["state"]["running"]["startedAt"])
        for pod in mine
        for container in pod["status"]["containerStatuses"]
    )


def is_released(pod: Object) -> bool:
    return bool(pod["metadata"].get("annotations", {}).get("grove.io/startup") == "released")


def is_held(pod: Object) -> bool:
    names = [container["name"] for container in pod["spec"].get("initContainers", [])]
    return "grove-initc" in names and not is_released(pod)


def check_order(workspace: Workspace, history: list[Change]) -> int:
    """Replay every change of pods: who is released has parents that have had enough ready pods at one time.

    How many pods were released after their creation.
    """
    podcliques = {one["metadata"]["name"]: one["spec"] for one in workspace.items("pclq")}
    pods: dict[str, Object] = {}
    opened: set[str] = set()
    released: set[str] = set()
    writes = 0

    def enough(parent: str) -> bool:
        of_it = [pod for pod in pods.values() if pod["metadata"]["labels"]["grove.io/podclique"] == parent]
        minimum: int = podcliques[parent]["minAvailable"]
        return sum(is_ready(pod) and is_active(pod) for pod in of_it) >= minimum

    for change in history:
        pod, name = change.object, change.name
        before = pods.pop(name, None)
        if change.type != "DELETED":
            pods[name] = pod
        opened |= {one for one, spec in podcliques.items() if all(map(enough, spec.get("startsAfter", [])))}
        if is_released(pod) and uid(pod) not in released:
            released.add(uid(pod))
            owner = pod["metadata"]["labels"]["grove.io/podclique"]
            assert owner in opened, f"{name} was released before the parents of {owner} were ready"
            writes += before is not None
    return writes


# -- SO-1 to SO-4 ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "pairs"),
    [("workload3", [("a", "b"), ("b", "c")]), ("workload5", [("a", "c"), ("a", "b"), ("c", "b")])],
    ids=["so1-in-order", "so3-explicit"],
)
def test_a_whole_gang_starts_in_order(workspace: Workspace, name: str, pairs: list[tuple[str, str]]) -> None:
    """All pods of a parent are ready before any pod of a child starts, across both replicas of the group."""
    workspace.create("pcs", WORKLOADS[name])
    pods = workspace.settled(name, 10)
    cliques = {
        "a": [f"{name}-0-pc-a"],
        "b": [f"{name}-0-sg-x-0-pc-b", f"{name}-0-sg-x-1-pc-b"],
        "c": [f"{name}-0-sg-x-0-pc-c", f"{name}-0-sg-x-1-pc-c"],
    }
    for parent, child in pairs:
        ready = [when for one in cliques[parent] for when in ready_times(pods, one)]
        started = [when for one in cliques[child] for when in start_times(pods, one)]
        assert (len(ready), len(started)) == ({"a": 2, "b": 2, "c": 6}[parent], {"a": 2, "b": 2, "c": 6}[child])
        assert max(ready) <= min(started), f"{child} started before {parent} was ready"


@pytest.mark.parametrize("name", ["workload4", "workload6"], ids=["so2-in-order", "so4-explicit"])
def test_minimums_start_in_order_and_scaled_gangs_by_themselves(workspace: Workspace, name: str) -> None:
    """One ready pod of a parent is enough; in the scaled gang only its own replica counts."""
    before = workspace.revision()
    workspace.create("pcs", WORKLOADS[name])
    pods = workspace.settled(name, 10)
    first_a = ready_times(pods, f"{name}-0-pc-a")[0]
    for replica in (0, 1):
        b, c = f"{name}-0-sg-x-{replica}-pc-b", f"{name}-0-sg-x-{replica}-pc-c"
        assert first_a <= min(ready_times(pods, b) + ready_times(pods, c))
        assert ready_times(pods, b)[0] <= start_times(pods, c)[0]
    assert check_order(workspace, workspace.changes(before, "pod")) == 1 + 3 + 3  # pc-b of the base gang, every pc-c
    specs = {one["metadata"]["name"]: one["spec"].get("startsAfter") for one in workspace.items("pclq")}
    assert specs == {
        f"{name}-0-pc-a": None,
        f"{name}-0-sg-x-0-pc-b": [f"{name}-0-pc-a"],
        f"{name}-0-sg-x-0-pc-c": [f"{name}-0-sg-x-0-pc-b"],
        f"{name}-0-sg-x-1-pc-b": None,
        f"{name}-0-sg-x-1-pc-c": [f"{name}-0-sg-x-1-pc-b"],
    }


# -- what is seen of it ----------------------------------------------------------------------------------------------


def chain(name: str = "s", first: Object | None = None, **of_all: Any) -> Object:
    """Two a, then two b, then two c, then two d; one ready pod is enough of each."""
    cliques = [clique(one, 2, 1, annotations=first if one == "a" else None, **of_all) for one in "abcd"]
    return podcliqueset(name, *cliques, **IN_ORDER)


def test_who_waits_says_so_and_costs_nothing(workspace: Workspace) -> None:
    workspace.create("pcs", chain(first=NEVER_READY))
    said = "waiting for ready pods: s-0-a has 0 of 1"
    told = workspace.until("pclq", "s-0-b", lambda obj: condition(obj, "StartupReleased").get("message") == said, said)
    assert verdict(told, "StartupReleased") == ("False", "WaitingForParents")
    assert said in workspace.cluster.kubectl("describe", "pclq", "s-0-b", "-n", workspace.namespace)
    workspace.wait(lambda: len([pod for pod in workspace.pods() if "nodeName" in pod["spec"]]) == 8, "all are placed")
    pods = workspace.clique_pods("s-0-b")
    assert all(is_held(pod) for pod in pods)
    assert [pod["metadata"]["annotations"]["grove.io/startup-waiting-for"] for pod in pods] == 2 * [
        "a (at least 1 ready)"
    ]
    assert not condition(workspace.get("pclq", "s-0-a"), "StartupReleased")
    assert not workspace.names("secret")
    assert not workspace.names("role")


def test_by_hand(workspace: Workspace) -> None:
    """The annotation is all there is to it: whoever sets it lets the pod go, also while no operator runs."""
    workspace.create("pcs", chain(first=NEVER_READY))
    workspace.wait(lambda: len([pod for pod in workspace.pods() if "nodeName" in pod["spec"]]) == 8, "all are placed")
    with workspace.operator.stopped():
        name = workspace.clique_pods("s-0-b")[0]["metadata"]["name"]
        workspace.cluster.kubectl("annotate", "pod", name, "grove.io/startup=released", "-n", workspace.namespace)
        workspace.until("pod", name, is_ready, "runs")
    workspace.wait(lambda: any(map(is_ready, workspace.clique_pods("s-0-c"))), "and its children follow")


def test_what_is_the_users_stays_in_its_place(workspace: Workspace) -> None:
    """T2, T5: own ServiceAccount; own init containers, sidecars, containers and volumes in the template's order."""
    workspace.create("serviceaccount", {"metadata": {"name": "mine"}})
    pod_spec = {
        "serviceAccountName": "mine",
        "initContainers": [
            {"name": "z-init", "image": "i"},
            {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
            {"name": "a-init", "image": "i"},
        ],
        "containers": [{"name": "z-main", "image": "i"}, {"name": "a-main", "image": "i"}],
        "volumes": [{"name": "z-vol", "emptyDir": {}}, {"name": "a-vol", "emptyDir": {}}],
    }
    workspace.create("pcs", podcliqueset("s", clique("a", 1), clique("b", 1, podSpec=pod_spec), **IN_ORDER))
    workspace.settled("s", 2)
    [pod] = workspace.clique_pods("s-0-b")
    spec = pod["spec"]
    assert [one["name"] for one in spec["initContainers"]] == ["z-init", "sidecar", "a-init", "grove-initc"]
    assert [one["name"] for one in spec["containers"]] == ["z-main", "a-main"]
    assert [one["name"] for one in spec["volumes"]][:3] == ["z-vol", "a-vol", "pod-info-vol"]
    assert spec["serviceAccountName"] == "mine"
    assert pod["status"]["qosClass"] == "BestEffort"


GUARANTEED = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "10m"}}, "Burstable"),
        ({"requests": GUARANTEED, "limits": GUARANTEED}, "Guaranteed"),
        ({"limits": {"cpu": "20m", "memory": "8Mi"}}, "Guaranteed"),
    ],
)
def test_quality_of_service_stays(workspace: Workspace, resources: Object, quality: str) -> None:
    """As the API server sees it, which also has to accept the numbers."""
    main = {"name": "main", "image": "i", "resources": resources}
    workspace.create(
        "pcs", podcliqueset("s", clique("a", 1), clique("b", 1, podSpec={"containers": [main]}), **IN_ORDER)
    )
    workspace.settled("s", 2)
    [pod] = workspace.clique_pods("s-0-b")
    assert pod["status"]["qosClass"] == quality
    [added] = [one for one in pod["spec"]["initContainers"] if one["name"] == "grove-initc"]
    assert "nvidia.com/gpu" not in str(added["resources"])


@pytest.fixture
def restricted(cluster: Harness, workspace: Workspace) -> Workspace:
    """A namespace that enforces the restricted Pod Security Standard."""
    enforce = {"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "restricted"}}}
    cluster.api("PATCH", f"/api/v1/namespaces/{workspace.namespace}", enforce, "application/merge-patch+json")
    return workspace


SAFE: Object = {
    "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
    "containers": [
        {
            "name": "main",
            "image": "i",
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
    ],
}


def test_restricted_namespaces_take_it(restricted: Workspace) -> None:
    cliques = [clique(one, 1, podSpec=SAFE) for one in "ab"]
    restricted.create("pcs", podcliqueset("s", *cliques, **IN_ORDER))
    restricted.settled("s", 2)


def test_a_quota_on_limits_takes_it(workspace: Workspace) -> None:
    """Such a quota demands limits of every container."""
    hard = {"limits.cpu": "4", "limits.memory": "4Gi", "requests.cpu": "4", "requests.memory": "4Gi"}
    workspace.create("quota", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
    main = {"name": "main", "image": "i", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    cliques = [clique(one, 2, podSpec={"containers": [main]}) for one in "ab"]
    workspace.create("pcs", podcliqueset("s", *cliques, **IN_ORDER))
    workspace.settled("s", 4)  # their sum is just the quota: the init containers add nothing


def test_t7_a_misspelled_field_is_refused_when_asked_strictly(workspace: Workspace) -> None:
    wrong = podcliqueset("s", clique("a", 1), clique("b", 1, startAfter=["a"]), **EXPLICIT)
    with pytest.raises(ApiStatus, match=r"unknown field .*startAfter"):
        workspace.create("pcs", wrong)
    stored = workspace.create("pcs", podcliqueset("s", clique("a", 1), clique("b", 1, startsAfter=["a"]), **EXPLICIT))
    assert stored["spec"]["template"]["cliques"][1]["spec"]["startsAfter"] == ["a"]


# -- life afterwards -------------------------------------------------------------------------------------------------


def test_t8_a_parent_killed_later_restarts_no_child(workspace: Workspace) -> None:
    workspace.create("pcs", chain())
    before = workspace.settled("s", 8)
    parents = workspace.clique_pods("s-0-a")
    for pod in parents:
        workspace.delete("pod", pod["metadata"]["name"], grace_seconds=0)
    workspace.wait(lambda: not uids(parents) & uids(workspace.pods()), "the parents are gone")
    after = workspace.settled("s", 8)
    assert uids(before) - uids(parents) < uids(after)
    assert verdict(workspace.get("pclq", "s-0-b"), "StartupReleased") == ("True", "ParentsReady")


def test_a_pod_made_when_its_parents_are_ready_is_born_released(workspace: Workspace) -> None:
    workspace.create("pcs", chain())
    workspace.settled("s", 8)
    before = workspace.revision()
    workspace.scale("pclq", "s-0-d", 5)
    workspace.settled("s", 11)
    made = [change.object for change in workspace.changes(before, "pod") if change.type == "ADDED"]
    assert len(made) == 3
    assert all(is_released(pod) for pod in made)


def test_g7_scaled_gangs_wait_for_places_not_for_the_order_of_others(workspace: Workspace) -> None:
    """The base gang's pods hold each other up for ever; the scaled gang starts once they are placed."""
    cliques = [clique("a", 1, annotations=NEVER_READY), clique("b", 1), clique("c", 1)]
    workspace.create("pcs", podcliqueset("s", *cliques, group("g", "b c", 2, 1), **IN_ORDER))

    def scaled_runs() -> bool:
        pods = [*workspace.clique_pods("s-0-g-1-b"), *workspace.clique_pods("s-0-g-1-c")]
        return len(pods) == 2 and all(map(is_ready, pods))

    workspace.wait(scaled_runs, "the scaled gang runs")
    assert is_held(workspace.clique_pods("s-0-g-0-b")[0])


def test_a_gang_that_is_terminated_starts_anew_in_order(workspace: Workspace) -> None:
    """The pods that go with the old gang make nobody ready in the new one."""
    workspace.create("pcs", podcliqueset("s", clique("a", 1), clique("b", 2), terminationDelay="2s", **IN_ORDER))
    before = workspace.settled("s", 3)
    [parent] = workspace.clique_pods("s-0-a")
    workspace.label("pod", parent["metadata"]["name"], unready="true")
    workspace.wait(lambda: not uids(workspace.pods()) & uids(before), "all pods are new", 120)
    pods = workspace.settled("s", 3)
    assert ready_times(pods, "s-0-a")[0] <= start_times(pods, "s-0-b")[0]


def test_an_update_replaces_the_replicas_of_a_group_in_order(workspace: Workspace) -> None:
    """All pods of a replica go together; new children wait for new parents, not for old ones on their way out."""

    def wanted(image: str) -> Object:
        containers = {"containers": [{"name": "main", "image": image}]}
        cliques = [clique("a", 12, podSpec=containers), clique("b", 4, podSpec=containers)]
        return podcliqueset("s", *cliques, group("g", "a b", 2, 2), **IN_ORDER)

    workspace.create("pcs", wanted("registry.example/main:1"))
    before = workspace.settled("s", 32)
    workspace.patch("pcs", "s", {"spec": wanted("registry.example/main:2")["spec"]})
    workspace.wait(lambda: not uids(workspace.pods()) & uids(before), "all pods are new", 180)
    pods = workspace.settled("s", 32)
    for replica in (0, 1):
        ready, started = ready_times(pods, f"s-0-g-{replica}-a"), start_times(pods, f"s-0-g-{replica}-b")
        assert (len(ready), len(started)) == (12, 4)
        assert ready[-1] <= started[0], f"replica {replica}"


def test_a_flapping_parent(workspace: Workspace) -> None:
    """Ready, not ready, ready, …: nobody starts before enough are ready at once, nobody is stopped after."""
    unready = clique("a", 2, 2, labels={"sim.test/unready": "true"})
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("s", unready, clique("b", 3), **IN_ORDER))
    workspace.wait(
        lambda: [pod["status"]["phase"] for pod in workspace.clique_pods("s-0-a")] == 2 * ["Running"], "a runs"
    )
    names = [pod["metadata"]["name"] for pod in workspace.clique_pods("s-0-a")]
    for turn in range(6):
        workspace.label("pod", names[turn % 2], unready="false")
        workspace.until("pod", names[turn % 2], is_ready, "is ready")
        workspace.label("pod", names[turn % 2], unready="true")
        workspace.until("pod", names[turn % 2], lambda pod: not is_ready(pod), "is not ready")
    # A pod that starts unready is Ready for a moment here; only where both were at one time may somebody have started.
    for name in names:
        workspace.label("pod", name, unready="false")
    children = workspace.settled("s", 5)
    for name in names:
        workspace.label("pod", name, unready="true")
        workspace.until("pod", name, lambda pod: not is_ready(pod), "is not ready")
    after = workspace.clique_pods("s-0-b")
    assert uids(after) < uids(children)
    assert all(map(is_ready, after))
    check_order(workspace, workspace.changes(before, "pod"))


def test_the_operator_is_killed_all_along_the_chain(workspace: Workspace) -> None:
    """kill -9, again and again, at any moment: the order holds, and each pod is made and released once."""
    source: random.Random = dice()
    for number in range(repetitions(1, 10)):
        name, before = f"s{number}", workspace.revision()
        workspace.create("pcs", ten_pods(name, FULL, IN_ORDER))

        def runs(name: str = name) -> bool:
            pods = workspace.pods(f"app.kubernetes.io/part-of={name}")
            return len(pods) == 10 and all(map(is_ready, pods))

        while not runs():
            time.sleep(source.uniform(0.2, 1.5))
            workspace.operator.kill()
            workspace.operator.start()
        workspace.settled(name, 10)
        history = workspace.changes(before, "pod")
        assert check_order(workspace, history) == 2 + 6
        assert sum(change.type == "ADDED" for change in history) == 10
        workspace.delete("pcs", name)
        workspace.gone(name)
