"""The tree, the status and the rollout of sets, and containers as the kubelet tells of them."""

from typing import Any

import pytest

from grove.inspect.containers import complaints
from grove.inspect.rollout import RESTARTED_AT, Verdict, restart_note, restart_patch, rollout
from grove.inspect.scene import KINDS, Scene, scenes
from grove.inspect.status import set_status
from grove.inspect.text import bar
from grove.inspect.tree import tree
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from tests.unit.harness import Cluster, in_cluster
from tests.unit.rollouts import changed
from tests.unit.support import Object, clique, group, pod_set

SET = pod_set(clique("a", 2, 1), clique("b", 1), groups=[group("g", ["b"], 2, 1)])
AT = "2026-11-30T08:00:00Z"


def scene(cluster: Cluster) -> Scene:
    """The set web."""
    found = {resource: cluster.api.objects(resource, "default") for resource in KINDS}
    return next(one for one in scenes(found) if one.template.name == "web")


def shown(cluster: Cluster, pods: int = 16) -> list[str]:
    return list(tree(scene(cluster)).node(lambda text, _: text, pods).lines())


@in_cluster
async def test_a_set_that_runs(cluster: Cluster) -> None:
    await cluster.up(SET)
    at = {
        name: [f"{pod['metadata']['name']}: ready on {pod['spec']['nodeName']}" for pod in cluster.pods_of(name)]
        for name in ("web-0-a", "web-0-g-0-b", "web-0-g-1-b")
    }
    assert shown(cluster) == [
        "PodCliqueSet default/web: Ready, 1 of 1 replica available, 4 pods ready",
        "└─ replica 0: Running, gang web-0",
        "   ├─ PodClique web-0-a: 2 of 2 ready, at least 1",
        f"   │  ├─ {at['web-0-a'][0]}",
        f"   │  └─ {at['web-0-a'][1]}",
        "   └─ PodCliqueScalingGroup web-0-g: 2 of 2 replicas available, at least 1",
        "      ├─ replica 0: Running, gang web-0",
        "      │  └─ PodClique web-0-g-0-b: 1 of 1 ready",
        f"      │     └─ {at['web-0-g-0-b'][0]}",
        "      └─ replica 1: Running, gang web-0-g-0",
        "         └─ PodClique web-0-g-1-b: 1 of 1 ready",
        f"            └─ {at['web-0-g-1-b'][0]}",
    ]
    status = set_status(scene(cluster))
    assert (status.state, status.done, status.sentence) == ("Ready", True, "1 of 1 replica available, 4 pods ready")
    assert list(status.lines()) == [
        "replicas  ████████████████████  1/1 available",
        "a         ████████████████████  2/2 ready, at least 1",
        "b         ████████████████████  2/2 ready, at least 1",
        "gangs     2 Running",
    ]
    assert rollout(scene(cluster).template.pcs).sentence == "the replica runs the template and is available"
    data = tree(scene(cluster)).to_json()
    assert (data["kind"], data["name"], data["namespace"], data["state"]) == (
        "PodCliqueSet", "default/web", "default", "Ready"
    )  # fmt: skip
    pod = data["children"][0]["children"][0]["children"][0]
    assert (pod["kind"], pod["state"], pod["index"], pod["restarts"]) == ("Pod", "ready", 0, 0)


@in_cluster
async def test_a_set_that_does_not(cluster: Cluster) -> None:
    """Below its wish, below its minimum, idle, and with more pods than anybody wants to see."""
    await cluster.up(SET)
    first, second = (pod["metadata"]["name"] for pod in cluster.pods_of("web-0-a"))
    cluster.pods.crash("default", second, exit_code=3)
    await cluster.quiet()
    crash = "main ended with exit code 3 (CrashLoopBackOff), restarted once"
    lines = shown(cluster, pods=1)
    assert lines[0] == "PodCliqueSet default/web: Degraded, 1 of 1 replica available, 3 of 4 pods ready"
    assert lines[2:5] == [
        "   ├─ PodClique web-0-a: 1 of 2 ready, at least 1",
        f"   │  ├─ {second}: starting on {cluster.get(POD, second)['spec']['nodeName']}, {crash}",
        "   │  └─ … 1 more: 1 ready",
    ]
    assert shown(cluster, pods=0)[3] == "   │  └─ 1 starting, 1 ready"
    assert "a         ██████████▒▒▒▒▒▒▒▒▒▒  1/2 ready, 2 on nodes, at least 1" in set_status(scene(cluster)).lines()
    cluster.pods.crash("default", first)
    await cluster.quiet()
    status = set_status(scene(cluster))
    assert (status.state, status.done, status.sentence) == ("Unavailable", False, "0 of 1 replica available")
    (gang,) = (one for one in status.gangs if one.name == "web-0")
    assert gang.unhealthy.startswith("web-0-a has fallen below its minimum of 1; replica 0 of PodCliqueSet web gets")
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 0)
    cluster.scale(PODCLIQUE, "web-0-a", 0)
    await cluster.quiet()
    assert shown(cluster)[1:] == [
        "└─ replica 0: idle",
        "   ├─ PodClique web-0-a: idle",
        "   └─ PodCliqueScalingGroup web-0-g: idle",
    ]


@in_cluster
async def test_a_rollout_from_its_beginning_to_its_end(cluster: Cluster) -> None:
    seen: list[tuple[Verdict, str]] = []

    def look() -> None:
        if (found := cluster.api.find(PODCLIQUESET, "default", "web")) is not None:
            state = rollout(scene(cluster).template.pcs)
            if seen[-1:] != [(state.verdict, state.sentence)] and found:
                seen.append((state.verdict, state.sentence))

    cluster.api.listeners.append(lambda change: look() if change.resource == PODCLIQUESET else None)
    await cluster.up(SET)
    assert seen[0] == (Verdict.WAITING, "waiting until every PodClique has been given the template")
    assert seen[-1] == (Verdict.DONE, "the replica runs the template and is available")
    assert sum(verdict == Verdict.DONE for verdict, _ in seen) == 1
    cluster.patch(PODCLIQUESET, "web", {"spec": changed(SET, "a")["spec"]})
    begun = len(seen) - 1
    assert seen[-1][0] is not Verdict.DONE, "from the moment of the change on it is not done"
    await cluster.quiet()
    assert any(text.startswith("replica 0: ") and "of web-0-a run the template" in text for _, text in seen[begun:])
    assert seen[-1][1] == "the replica runs the template and is available"
    assert [verdict for verdict, _ in seen[begun:]].count(Verdict.DONE) == 1


@in_cluster
async def test_a_restart_replaces_the_pods_of_a_clique(cluster: Cluster) -> None:
    await cluster.up(SET)
    before = {pod["metadata"]["uid"] for pod in cluster.pods_of("web-0-a")}
    others = {name: uid for name, uid in cluster.uids().items() if "-g-" in name}
    pcs = scene(cluster).template.pcs
    patch = restart_patch(pcs, ["a"], AT)
    assert patch == [
        {"op": "test", "path": "/metadata/generation", "value": pcs.generation},
        {"op": "add", "path": "/spec/template/cliques/0/annotations", "value": {RESTARTED_AT: AT}},
    ]
    await cluster.api.client().patch(PODCLIQUESET, "default", "web", patch)
    await cluster.quiet()
    after = cluster.pods_of("web-0-a")
    assert before.isdisjoint(pod["metadata"]["uid"] for pod in after)
    assert {pod["metadata"]["annotations"][RESTARTED_AT] for pod in after} == {AT}
    assert {name: uid for name, uid in cluster.uids().items() if "-g-" in name} == others
    assert restart_note(pcs, ["a"]) == "pods are replaced as in an update, one replica of the set after the other"
    assert restart_note(pcs, ["b"]).endswith("; replicas of g are replaced as a whole")
    with pytest.raises(ValueError, match="there is no clique c in the template; there are a, b"):
        restart_patch(pcs, ["c"], AT)


@in_cluster
async def test_nothing_moves_under_on_delete(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2))
    obj["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await cluster.up(obj)
    cluster.patch(PODCLIQUESET, "web", {"spec": changed(obj, "a")["spec"]})
    await cluster.quiet()
    pcs = scene(cluster).template.pcs
    assert rollout(pcs).verdict == Verdict.STUCK
    assert "until somebody deletes them" in rollout(pcs).sentence
    assert restart_note(pcs, ["a"]) == "updateStrategy is OnDelete: pods stay until somebody deletes them"


@pytest.mark.parametrize(
    ("wanted", "ready", "begun", "drawn"),
    [
        (2, 1, 2, "██████████▒▒▒▒▒▒▒▒▒▒"),
        (1000, 999, 1000, "███████████████████▒"),
        (4, 0, 0, "░" * 20),
        (0, 0, 0, "░" * 20),
        (2, 5, 5, "█" * 20),
    ],
)
def test_only_what_is_whole_looks_whole(wanted: int, ready: int, begun: int, drawn: str) -> None:
    assert bar(wanted, ready, begun) == drawn


CRASH = {"terminated": {"exitCode": 137, "reason": "OOMKilled"}}
BACKOFF = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}
PULL = {"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image"}}


@pytest.mark.parametrize(
    ("container", "text"),
    [
        ({"state": PULL}, "main cannot start: ImagePullBackOff"),
        ({"state": {"waiting": {"reason": "ContainerCreating"}}}, "main is being created"),
        (
            {"state": BACKOFF, "lastState": CRASH, "restartCount": 4},
            "main ended with exit code 137 (OOMKilled), restarted 4 times",
        ),
        ({"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}, "main ended with exit code 1 (Error)"),
        ({"state": {"terminated": {"exitCode": 0}}}, None),
        ({"state": {"running": {}}, "started": False}, "main runs, and its startup probe has not succeeded"),
        ({"state": {"running": {}}, "started": True}, "main runs and is not ready"),
        ({"state": {"running": {}}, "started": True, "ready": True}, None),
        (
            {"state": {"running": {}}, "lastState": CRASH, "restartCount": 1},
            "main ended with exit code 137 (OOMKilled), restarted once",
        ),
    ],
)
def test_what_a_container_says(container: Object, text: str | None) -> None:
    pod: Any = {"spec": {}, "status": {"containerStatuses": [{"name": "main", **container}]}}
    assert [f"{one.container} {one.text}" for one in complaints(pod)] == ([text] if text else [])


def test_init_containers_come_before_main_ones_and_ours_is_no_trouble() -> None:
    waiting = {"waiting": {"reason": "PodInitializing"}}
    status = {
        "initContainerStatuses": [
            {"name": "load", "state": {"running": {}}},
            {"name": "proxy", "state": {"running": {}}, "started": True, "ready": False},
            {"name": "grove-initc", "state": {"running": {}}},
        ],
        "containerStatuses": [{"name": "main", "state": waiting}],
    }
    spec = {"initContainers": [{"name": "load"}, {"name": "proxy", "restartPolicy": "Always"}, {"name": "grove-initc"}]}
    found = [(one.container, one.text) for one in complaints({"spec": spec, "status": status})]
    assert found == [
        ("proxy", "runs and is not ready"),
        ("load", "is an init container that runs"),
        ("main", "is being created"),
    ]
