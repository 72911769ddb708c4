"""What people reported about gangs (G), the API (A) and the first moments (H): triggers, and what is right."""

from tests.cluster.gates import check_gates, is_initialized, minimums, references
from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import Object, Workspace, index, is_gated, is_ready, uids

NEVER_READY = {"sim.test/ready-delay": "1h"}
"""Annotation of pods that are placed and never become ready."""


def test_g7_a_scaled_gang_waits_for_places_not_for_readiness(workspace: Workspace) -> None:
    """Otherwise workloads that need all their pods placed before any gets ready would hang."""
    workspace.create("pcs", workload(groups=3, annotations=NEVER_READY))

    def all_placed() -> bool:
        pods = workspace.pods()
        assert len(pods) == 14
        assert not [pod["metadata"]["name"] for pod in pods if is_gated(pod) or "nodeName" not in pod["spec"]]
        return True

    workspace.wait(all_placed, "the pods of all three gangs are placed")
    assert not any(is_ready(pod) for pod in workspace.pods())


def test_g9_long_names_and_two_digit_indices(workspace: Workspace) -> None:
    """Names with 45 characters of the user's and double dashes: every pod starts, every hostname is valid."""
    pcs, scaling_group, member = "an--inference-set", "a--scaling-group", "leader--pods"
    assert len(pcs + scaling_group + member) == 45
    workspace.create("pcs", podcliqueset(pcs, clique(member, 1), group(scaling_group, member)))
    workspace.settled(pcs, 1)
    workspace.scale("pcsg", f"{pcs}-0-{scaling_group}", 12)
    pods = workspace.settled(pcs, 12)
    hostnames = {pod["spec"]["hostname"] for pod in pods}
    assert hostnames == {f"{pcs}-0-{scaling_group}-{replica}-{member}-0" for replica in range(12)}
    assert max(map(len, hostnames)) == 45 + len("-0--11--0")
    assert max(len(pod["metadata"]["name"]) for pod in pods) == 45 + len("-0--11--xxxxx")


def test_g10_no_gang_is_initialized_before_it_is_complete(workspace: Workspace) -> None:
    """At every moment: an initialized PodGang references as many pods as its cliques have, sorted by name."""
    before = workspace.revision()
    workspace.create("pcs", workload())
    workspace.settled("w", 10)
    sizes = {"w-0": 6, "w-0-g-0": 4}
    history = workspace.changes(before, "pod", "pg")
    assert check_gates(history, sizes) == sizes.keys()
    told = [change.object for change in history if change.kind == "pg" and is_initialized(change.object)]
    assert {gang["metadata"]["name"] for gang in told} == sizes.keys()
    for gang in told:
        assert len(references(gang)) == sizes[gang["metadata"]["name"]]
        for entry in gang["spec"]["podgroups"]:
            named = [reference["name"] for reference in entry["podReferences"]]
            assert named == sorted(named)


def test_g12_the_minimum_defaults_to_the_replicas(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("g", clique("a", 4), clique("b", 3), clique("c"), group("g", "b")))
    workspace.settled("g", 8)
    assert minimums(workspace.get("pg", "g-0")) == {"g-0-a": 4, "g-0-c": 1, "g-0-g-0-b": 3}
    assert workspace.get("pclq", "g-0-a")["spec"]["minAvailable"] == 4


def test_g17_a_replacement_is_never_taken_for_surplus(workspace: Workspace) -> None:
    """One Pending pod and one Running pod that takes a minute to end are deleted: two creations, nothing else."""
    slow_end = {"sim.test/term-delay": "60s"}
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("g", clique("a", 3, 1, room=workspace.namespace, annotations=slow_end)))
    workspace.open_rooms(2)
    workspace.wait(lambda: sum(map(is_ready, workspace.pods())) == 2, "two of three pods run")
    pods = workspace.pods()
    pending = next(pod for pod in pods if "nodeName" not in pod["spec"])
    running = next(pod for pod in pods if is_ready(pod))
    for pod in (pending, running):
        workspace.delete("pod", pod["metadata"]["name"], grace_seconds=60)

    def replaced() -> bool:
        now = workspace.pods()
        return [index(pod) for pod in now] == [0, 1, 2] and len(uids(now) & uids(pods)) == 1

    workspace.wait(replaced, "both are replaced")
    workspace.open_rooms(2)
    workspace.settled("g", 3)
    history = workspace.changes(before, "pod")
    assert len([change for change in history if change.type == "ADDED"]) == 3 + 2
    ended = {change.name for change in history if "deletionTimestamp" in change.object["metadata"]}
    assert ended | {c.name for c in history if c.type == "DELETED"} == {
        pending["metadata"]["name"],
        running["metadata"]["name"],
    }


def test_a8_the_podgang_mirrors_labels_and_annotations_of_the_set(workspace: Workspace) -> None:
    """Later changes and removals too; grove.io/ keys are no part of it, and what others put on the gang stays."""
    pcs = podcliqueset("m", clique("a", 1))
    tags = {"example.com/q": "x", "grove.io/private": "no"}
    pcs["metadata"] |= {"annotations": dict(tags), "labels": dict(tags)}
    workspace.create("pcs", pcs)
    workspace.settled("m", 1)
    theirs = {"grove.io/theirs": "kept", "scheduler.example/theirs": "kept"}
    workspace.patch("pg", "m-0", {"metadata": {"annotations": theirs, "labels": theirs}})

    def mirrors(value: str | None) -> None:
        wanted = theirs | ({} if value is None else {"example.com/q": value})

        def look(gang: Object) -> bool:
            own = {k: v for k, v in gang["metadata"]["labels"].items() if not k.startswith("app.kubernetes.io/")}
            own.pop("grove.io/scheduler-name")
            return gang["metadata"]["annotations"] == wanted and own == wanted

        workspace.until("pg", "m-0", look, f"it mirrors {value}")

    mirrors("x")
    workspace.patch("pcs", "m", {"metadata": {key: {"example.com/q": "y"} for key in ("labels", "annotations")}})
    mirrors("y")
    workspace.patch("pcs", "m", {"metadata": {key: {"example.com/q": None} for key in ("labels", "annotations")}})
    mirrors(None)
    labels = workspace.get("pg", "m-0")["metadata"]["labels"]
    assert labels["grove.io/scheduler-name"] == "default-scheduler"
    assert labels["app.kubernetes.io/component"] == "podgang"


def test_a11_all_pods_of_a_clique_get_the_same_annotations(workspace: Workspace) -> None:
    wanted = {f"example.com/{number}": str(number) for number in range(20)}
    workspace.create("pcs", podcliqueset("a", clique("a", 50, room=workspace.namespace, annotations=wanted)))
    pclq = workspace.until("pclq", "a-0-a", lambda pclq: pclq["status"]["replicas"] == 50, "it has its pods")
    assert [pod["metadata"]["annotations"] for pod in workspace.items("pod")] == [wanted] * 50
    assert pclq["metadata"]["annotations"] == wanted | {"grove.io/template-replicas": "50"}


def test_a12_groves_variables_come_first(workspace: Workspace) -> None:
    """So that the user's may refer to them; a user's variable of the same name gives way, in every container."""
    mine = [{"name": "MY", "value": "$(GROVE_PCLQ_POD_INDEX)-x"}, {"name": "GROVE_PCS_NAME", "value": "fake"}]
    containers = [{"name": name, "image": "none", "env": mine} for name in ("main", "side")]
    spec = {"containers": containers, "initContainers": [{"name": "init", "image": "none", "env": mine}]}
    workspace.create(
        "pcs", podcliqueset("e", clique("a", 1, podSpec=spec), clique("b", 1, podSpec=spec), group("g", "b"))
    )
    workspace.settled("e", 2)
    standalone = ["PCS_NAME", "PCS_INDEX", "PCLQ_NAME", "HEADLESS_SERVICE", "PCLQ_POD_INDEX"]
    grouped = [*standalone, "PCSG_NAME", "PCSG_TEMPLATE_NUM_PODS", "PCSG_INDEX", "PCSG_POD_INDEX"]
    for podclique, names in (("e-0-a", standalone), ("e-0-g-0-b", grouped)):
        pod = workspace.clique_pods(podclique)[0]
        for container in (*pod["spec"]["containers"], *pod["spec"]["initContainers"]):
            assert [item["name"] for item in container["env"]] == [*(f"GROVE_{name}" for name in names), "MY"]
            values = {item["name"]: item.get("value") for item in container["env"]}
            assert values["GROVE_PCS_NAME"] == "e"
            assert values["GROVE_HEADLESS_SERVICE"] == f"e-0.{workspace.namespace}.svc.cluster.local"
            assert values["MY"] == "$(GROVE_PCLQ_POD_INDEX)-x"
        assert [c["name"] for c in pod["spec"]["containers"]] == ["main", "side"]


def test_a14_a_set_whose_pods_are_not_ready_is_not_available(workspace: Workspace) -> None:
    """The pods run, their readiness probe fails."""
    workspace.create("pcs", podcliqueset("a", clique("a", 2, labels={"sim.test/unready": "true"})))
    workspace.reads(
        "pclq",
        "a-0-a",
        ("MinAvailableBreached", "True", "InsufficientReadyPods"),
        replicas=2,
        scheduledReplicas=2,
        readyReplicas=0,
    )
    assert {pod["status"]["phase"] for pod in workspace.pods()} == {"Running"}
    workspace.reads("pcs", "a", replicas=1, availableReplicas=0, updatedReplicas=0)


def test_a15_columns_show_how_it_stands(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("k", clique("a", 3, 2), clique("b", 1), group("g", "b", 2, 1)))
    workspace.settled("k", 5)
    workspace.reads("pcsg", "k-0-g", updatedReplicas=2)
    workspace.reads("pclq", "k-0-a", readyReplicas=3)

    def row(kind: str, name: str, *options: str) -> dict[str, str]:
        text = workspace.cluster.kubectl("get", kind, name, "-n", workspace.namespace, *options)
        head, line = text.splitlines()
        starts = [head.index(word) for word in head.split()]
        ends = [*starts[1:], None]
        return {head[a:b].strip(): line[a:b].strip() for a, b in zip(starts, ends, strict=True)}

    pcs, pclq, pcsg = row("pcs", "k"), row("pclq", "k-0-a", "-o", "wide"), row("pcsg", "k-0-g", "-o", "wide")
    assert pcs.items() >= {"REPLICAS": "1", "AVAILABLE": "1", "UPDATED": "1"}.items()
    assert pclq.items() >= {"MINAVAIL": "2", "REPLICAS": "3", "READY": "3", "SCHEDULED": "3", "UPDATED": "3"}.items()
    assert pclq.items() >= {"GATED": "0", "MINBREACHED": "False"}.items()
    assert pcsg.items() >= {"MINAVAIL": "1", "REPLICAS": "2", "AVAILABLE": "2", "SCHEDULED": "2"}.items()
    assert pcsg.items() >= {"UPDATED": "2", "MINBREACHED": "False"}.items()
    assert row("pg", "k-0")["PHASE"] == "Running"
    assert "GATED" not in row("pclq", "k-0-a"), "only when asked for more"


def test_h10_scaling_right_after_creation(workspace: Workspace) -> None:
    """The child does not exist yet: clients that repeat on NotFound get their number, and no pod is made twice."""
    before = workspace.revision()
    workspace.create("pcs", workload())
    pending = {("pclq", "w-0-a"): 4, ("pcsg", "w-0-g"): 3}

    def all_scaled() -> bool:
        for (kind, name), replicas in list(pending.items()):
            workspace.scale(kind, name, replicas)  # NotFound means not yet to `wait`; any other refusal ends the test
            del pending[kind, name]
        return True

    workspace.wait(all_scaled, "both children could be scaled")
    workspace.settled("w", 4 + 3 * 4)
    added = [change for change in workspace.changes(before, "pod") if change.type == "ADDED"]
    assert len(added) == 16
