"""Which PodGangs exist and what they say, and when the gates of their pods come off."""

from tests.cluster.gates import check_gates, is_initialized, minimums, references
from tests.cluster.workloads import clique, group, partial, podcliqueset, whole
from tests.cluster.workspace import (
    Object,
    Workspace,
    condition,
    gates,
    index,
    is_gated,
    is_ready,
    uid,
    uids,
    verdict,
)

GATE = "grove.io/podgang-pending-creation"


def test_a_whole_gang_is_one_podgang_of_all_pods(workspace: Workspace) -> None:
    before = workspace.revision()
    workspace.create("pcs", whole())
    pods = workspace.settled("workload1", 10)
    assert workspace.names("pg") == ["workload1-0"]
    gang = workspace.get("pg", "workload1-0")
    assert list(minimums(gang).items()) == [
        ("workload1-0-pc-a", 2),
        ("workload1-0-sg-x-0-pc-b", 1),
        ("workload1-0-sg-x-0-pc-c", 3),
        ("workload1-0-sg-x-1-pc-b", 1),
        ("workload1-0-sg-x-1-pc-c", 3),
    ]
    for entry in gang["spec"]["podgroups"]:
        named = [reference["name"] for reference in entry["podReferences"]]
        members = workspace.clique_pods(entry["name"])
        assert named == sorted(pod["metadata"]["name"] for pod in members)
        assert {reference["namespace"] for reference in entry["podReferences"]} == {workspace.namespace}
    assert {pod["metadata"]["labels"]["grove.io/podgang"] for pod in pods} == {"workload1-0"}
    assert check_gates(workspace.changes(before, "pod", "pg"), {"workload1-0": 10}) == {"workload1-0"}


def test_a_scaled_gang_waits_until_the_base_gang_is_scheduled(workspace: Workspace) -> None:
    """The base gang's minimum is set free though nothing can run it; its surplus and the scaled gang wait for that."""
    before = workspace.revision()
    workspace.create("pcs", partial(room=workspace.namespace))
    gangs = {"workload2-0": 6, "workload2-0-sg-x-0": 4}

    def base_is_open() -> bool:
        pods = workspace.pods()
        free = sorted(pod["metadata"]["labels"]["grove.io/podclique"] for pod in pods if not is_gated(pod))
        assert len(pods) == 10
        assert free == ["workload2-0-pc-a", "workload2-0-sg-x-0-pc-b", "workload2-0-sg-x-0-pc-c"]
        return True

    workspace.wait(base_is_open, "three pods of the base gang have no gate, the seven others have")
    assert all(set(minimums(workspace.get("pg", name)).values()) == {1} for name in gangs)
    for pod in workspace.pods("grove.io/base-podgang"):
        assert pod["metadata"]["labels"]["grove.io/base-podgang"] == "workload2-0"

    # The PodGang is no part of the decision: it comes back as it was, and the scaled gang still waits.
    lost = uid(workspace.get("pg", "workload2-0"))
    workspace.delete("pg", "workload2-0")
    workspace.wait(lambda: is_initialized(workspace.get("pg", "workload2-0")), "the PodGang is back")
    again = workspace.get("pg", "workload2-0")
    assert uid(again) != lost
    assert len(references(again)) == 6
    assert base_is_open()

    workspace.open_rooms(10)
    workspace.settled("workload2", 10)
    history = workspace.changes(before, "pod", "pg")
    assert check_gates(history, gangs) == gangs.keys()
    for name in gangs:
        workspace.until("pg", name, lambda gang: gang.get("status", {}).get("phase") == "Running", "it runs")


def test_base_scheduled_means_the_minimum_of_every_clique(workspace: Workspace) -> None:
    """b needs 2 and c needs 2 of 3: with room for one c nothing is placed, with two the scaled gang starts."""
    room = workspace.namespace
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("s", clique("b", 2, 2), clique("c", 3, 2, room=room), group("g", "b c", 2)))
    workspace.open_rooms(1)
    workspace.wait(lambda: sum(not is_gated(pod) for pod in workspace.pods()) == 4, "the base gang's minimum is free")
    assert all(is_gated(pod) for pod in workspace.pods("grove.io/base-podgang=s-0"))
    workspace.open_rooms(1)
    workspace.wait(
        lambda: sum(not is_gated(pod) for pod in workspace.pods("grove.io/base-podgang=s-0")) == 4,
        "the scaled gang's minimum is free",
    )
    placed: dict[str, set[str]] = {"s-0-g-0-b": set(), "s-0-g-0-c": set()}
    for change in workspace.changes(before, "pod"):
        owner = change.object["metadata"]["labels"]["grove.io/podclique"]
        if owner in placed and verdict(change.object, "PodScheduled")[0] == "True":
            placed[owner].add(change.name)
        elif owner not in placed and not is_gated(change.object):
            break
    assert {owner: len(pods) for owner, pods in placed.items()} == {"s-0-g-0-b": 2, "s-0-g-0-c": 2}


def test_an_incomplete_gang_stays_gated_and_says_why(workspace: Workspace) -> None:
    """A quota refuses one of four pods. Lifted, all goes on without help and the errors are gone."""
    workspace.limit_pods(3)
    before = workspace.revision()
    workspace.create("pcs", podcliqueset("q", clique("a", 2), clique("b", 2)))

    def blocked() -> list[Object]:
        gang = workspace.get("pg", "q-0")
        assert verdict(gang, "Initialized") == ("False", "PodGangPodsCreationPending")
        assert len(references(gang)) == 3
        return [pclq for pclq in workspace.items("pclq") if pclq["status"].get("lastErrors")]

    starved = workspace.wait(blocked, "the PodGang waits for the fourth pod")[0]
    name = starved["metadata"]["name"]
    assert f"{name} has 1 of 2" in condition(workspace.get("pg", "q-0"), "Initialized")["message"]
    assert starved["status"]["lastErrors"][0]["code"] == "ERR_CREATE_POD"
    assert "exceeded quota: pods" in starved["status"]["lastErrors"][0]["description"]
    failed = workspace.wait(lambda: workspace.events(name, "PodCreateFailed"), "an event tells of the refusal")
    assert failed[0]["type"] == "Warning"
    assert "exceeded quota: pods" in failed[0]["message"]
    assert [gates(pod) for pod in workspace.pods()] == [[GATE]] * 3
    assert workspace.get("pcs", "q")["status"].get("availableReplicas", 0) == 0

    workspace.delete("quota", "pods")
    workspace.settled("q", 4)
    workspace.wait(
        lambda: not any(pclq["status"].get("lastErrors") for pclq in workspace.items("pclq")), "no error is left"
    )
    assert check_gates(workspace.changes(before, "pod", "pg"), {"q-0": 4}) == {"q-0"}


def test_a_lagging_gang_does_not_hold_another(workspace: Workspace) -> None:
    """Two replicas of two pods and a quota for three: one gang runs, the other keeps its gate."""
    workspace.limit_pods(3)
    workspace.create("pcs", podcliqueset("l", clique("a", 2), replicas=2))

    def one_of_two() -> bool:
        by_replica = [workspace.clique_pods(f"l-{i}-a") for i in (0, 1)]
        assert sorted(map(len, by_replica)) == [1, 2]
        short, full = sorted(by_replica, key=len)
        assert [gates(pod) for pod in short] == [[GATE]]
        return all(is_ready(pod) for pod in full)

    workspace.wait(one_of_two, "one replica runs")
    workspace.wait(lambda: workspace.get("pcs", "l")["status"].get("availableReplicas") == 1, "one is available")


def test_a_pod_with_the_wrong_gang_label_does_not_count(workspace: Workspace) -> None:
    workspace.limit_pods(3)
    workspace.create("pcs", podcliqueset("r", clique("a", 2), clique("b", 2)))
    workspace.wait(lambda: workspace.get("pg", "r-0") and len(workspace.pods()) == 3, "three of four pods are there")
    stray = workspace.pods()[0]["metadata"]["name"]
    before = workspace.revision()
    workspace.patch("pod", stray, {"metadata": {"labels": {"grove.io/podgang": "elsewhere"}}})
    workspace.delete("quota", "pods")
    workspace.settled("r", 4)
    for change in workspace.changes(before, "pg"):
        if change.name == "r-0" and is_initialized(change.object):
            assert len(references(change.object)) == 4
    assert len(references(workspace.get("pg", "r-0"))) == 4


def test_only_our_own_gate_comes_off(workspace: Workspace) -> None:
    mine = "example.com/hold"
    held = clique("a", 2, podSpec={"schedulingGates": [{"name": mine}]})
    workspace.create("pcs", podcliqueset("f", held))
    workspace.wait(
        lambda: [gates(pod) for pod in workspace.pods()] == [[mine], [mine]], "only the gate of the template is left"
    )
    workspace.wait(
        lambda: workspace.get("pclq", "f-0-a")["status"].get("scheduleGatedReplicas") == 2, "both count as gated"
    )
    assert is_initialized(workspace.get("pg", "f-0"))
    for pod in workspace.pods():
        workspace.patch("pod", pod["metadata"]["name"], {"spec": {"schedulingGates": None}})
    workspace.settled("f", 2)


def test_a_replaced_pod_is_referenced_in_place_of_the_old_one(workspace: Workspace) -> None:
    workspace.create("pcs", podcliqueset("p", clique("a", 3)))
    pods = workspace.settled("p", 3)
    before = workspace.revision()
    workspace.delete("pod", pods[1]["metadata"]["name"])
    workspace.wait(lambda: [index(pod) for pod in workspace.pods()] == [0, 1, 2], "it is replaced")
    again = workspace.settled("p", 3)
    assert uids(again) & uids(pods) == {uid(pods[0]), uid(pods[2])}
    assert references(workspace.get("pg", "p-0")) == sorted(pod["metadata"]["name"] for pod in again)
    check_gates(workspace.changes(before, "pod", "pg"), {"p-0": 2})


def test_number_and_names_of_podgangs(workspace: Workspace) -> None:
    """One base gang per replica, one scaled gang per replica of a group beyond minAvailable; also after scaling."""
    one = clique("a", 1)
    grouped = (clique("b", 1), clique("c", 1))
    workspace.create("pcs", podcliqueset("s1", one, replicas=2))
    workspace.create("pcs", podcliqueset("s2", grouped[0], group("g", "b", 3, 1)))
    workspace.create("pcs", podcliqueset("s3", one, grouped[0], group("g", "b", 4, 2)))
    workspace.create("pcs", podcliqueset("s4", grouped[0], group("g", "b", 2, 1), replicas=2))
    workspace.create("pcs", podcliqueset("s5", grouped[0], group("g", "b", 2, 2)))
    workspace.create("pcs", podcliqueset("s6", *grouped, group("g", "b", 3, 1), group("h", "c", 2, 1)))
    expect_gangs(workspace, s1="0 1", s2="0 0-g-0 0-g-1", s3="0 0-g-0 0-g-1", s4="0 0-g-0 1 1-g-0", s5="0")
    expect_gangs(workspace, s6="0 0-g-0 0-g-1 0-h-0")
    base = {name: references(workspace.get("pg", name)) for name in ("s2-0", "s3-0", "s6-0")}

    workspace.scale("pcsg", "s2-0-g", 4)
    workspace.scale("pcsg", "s3-0-g", 6)
    workspace.scale("pcsg", "s4-1-g", 5)
    workspace.scale("pcsg", "s6-0-g", 2)
    expect_gangs(workspace, s2="0 0-g-0 0-g-1 0-g-2", s3="0 0-g-0 0-g-1 0-g-2 0-g-3", s6="0 0-g-0 0-h-0")
    expect_gangs(workspace, s4="0 0-g-0 1 1-g-0 1-g-1 1-g-2 1-g-3")

    workspace.scale("pcsg", "s3-0-g", 2)
    workspace.scale("pcsg", "s4-1-g", 3)
    expect_gangs(workspace, s3="0", s4="0 0-g-0 1 1-g-0 1-g-1")
    assert {name: references(workspace.get("pg", name)) for name in base} == base, "scaling left the base gangs alone"


def expect_gangs(workspace: Workspace, **suffixes: str) -> None:
    for name, wanted in suffixes.items():
        names = [f"{name}-{suffix}" for suffix in wanted.split()]

        def look(name: str = name, names: list[str] = names) -> bool:
            found = workspace.names("pg", f"app.kubernetes.io/part-of={name}")
            assert found == names, f"{found}"
            return all(is_initialized(gang) for gang in workspace.items("pg", f"app.kubernetes.io/part-of={name}"))

        workspace.wait(look, f"{name} has the PodGangs {', '.join(names)}")


def test_phases_of_a_podgang(workspace: Workspace) -> None:
    """Pending until its minimum is placed, Starting until that is Ready, then Running; and back when pods go."""
    slow = clique("a", 2, room=workspace.namespace, annotations={"sim.test/ready-delay": "1500ms"})
    workspace.create("pcs", podcliqueset("g", slow))

    def reads(phase: str, **verdicts: str) -> None:
        def look() -> bool:
            gang = workspace.get("pg", "g-0")
            seen = {kind: verdict(gang, kind)[0] for kind in verdicts}
            assert (gang["status"]["phase"], seen) == (phase, verdicts), f"{gang['status']}"
            return True

        workspace.wait(look, f"the PodGang is {phase}")

    reads("Pending", Initialized="True", Scheduled="False", Ready="False")
    assert "g-0-a has 0 of 2" in condition(workspace.get("pg", "g-0"), "Scheduled")["message"]
    workspace.open_rooms(2)
    reads("Starting", Initialized="True", Scheduled="True", Ready="False")
    reads("Running", Initialized="True", Scheduled="True", Ready="True")
    workspace.close_rooms()
    workspace.delete("pod", workspace.pods()[0]["metadata"]["name"])
    reads("Pending", Initialized="True", Scheduled="False", Ready="False")
