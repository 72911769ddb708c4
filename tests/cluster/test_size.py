"""Large and awkward: a thousand pods, many sets alike, names at their limits, any character, large objects."""

import json
import re

import pytest

from tests.cluster.chaos import assert_rest
from tests.cluster.gates import check_gates
from tests.cluster.storm import Ledger, assert_shape
from tests.cluster.workloads import Object, clique, group, podcliqueset, workload
from tests.cluster.workspace import Workspace, index, uids

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL_LIMIT = 63


def vanish(workspace: Workspace, *names: str) -> None:
    """Delete these sets and wait until the namespace is empty."""
    for name in names:
        workspace.delete("pcs", name)
    assert_shape(workspace, [])


def test_a_thousand_pods(workspace: Workspace) -> None:
    """500 in one clique and 50 replicas of 10 in a group come, rest, go by scaling, come again, and are deleted."""
    big = podcliqueset("big", clique("a", 500, 1), clique("b", 10, 1), group("g", "b", 50, 1))
    ledger = Ledger(workspace)
    workspace.create("pcs", big)
    workspace.wait(lambda: ledger.count() == 1000, "a thousand pods are there", 240)
    workspace.settled("big", 1000, 240)
    assert_shape(workspace, [big])
    assert_rest(workspace.cluster, 20.0)

    workspace.scale("pclq", "big-0-a", 0)
    workspace.scale("pcsg", "big-0-g", 0)
    workspace.wait(lambda: ledger.count() == 0, "all have gone", 240)
    workspace.settled("big", 0)
    idle = podcliqueset("big", clique("a", 0, 1), clique("b", 10, 1), group("g", "b", 0, 1))
    assert_shape(workspace, [idle])

    workspace.scale("pclq", "big-0-a", 500)
    workspace.scale("pcsg", "big-0-g", 50)
    workspace.wait(lambda: ledger.count() == 1000, "a thousand pods are there again", 240)
    workspace.delete("pcs", "big")
    workspace.wait(lambda: ledger.count() == 0, "all have gone again", 240)
    assert_shape(workspace, [])
    ledger.check()
    ledger.close()


def test_ten_sets_with_the_same_cliques(workspace: Workspace) -> None:
    sets = {f"w{number}": workload(f"w{number}") for number in range(10)}
    for body in sets.values():
        workspace.create("pcs", body)
    pods = {name: uids(workspace.settled(name, 10)) for name in sets}
    assert_shape(workspace, sets.values())

    for name in ("w1", "w3", "w5", "w7", "w9"):
        del sets[name]
        workspace.delete("pcs", name)
    assert_shape(workspace, sets.values())
    for name in sets:
        assert uids(workspace.settled(name, 10)) == pods[name], "the others' pods stay"
    vanish(workspace, *sets)


@pytest.mark.parametrize(
    ("pcs", "alone", "pcsg", "member"),
    [
        ("p" * 15, "a" * 30, "g" * 15, "m" * 15),
        ("x--y", "a--b", "g--h", "c--d"),
        ("0-1", "1", "0-2", "3-0"),
    ],
    ids=["longest", "double dashes", "numbers"],
)
def test_names(workspace: Workspace, pcs: str, alone: str, pcsg: str, member: str) -> None:
    """The group grows past ten replicas, so that its indices get a second digit."""
    body = podcliqueset(pcs, clique(alone, 2, 1), clique(member, 1, 1), group(pcsg, member, 2, 1))
    workspace.create("pcs", body)
    workspace.settled(pcs, 4)
    workspace.scale("pcsg", f"{pcs}-0-{pcsg}", 12)
    pods = workspace.settled(pcs, 14)
    body["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = 12
    assert_shape(workspace, [body])

    members = [f"{pcs}-0-{pcsg}-{replica}-{member}" for replica in range(12)]
    hosts = {pod["spec"]["hostname"] for pod in pods}
    assert hosts == {f"{pcs}-0-{alone}-0", f"{pcs}-0-{alone}-1", *(f"{name}-0" for name in members)}
    for pod in pods:
        assert DNS_LABEL.fullmatch(pod["spec"]["hostname"])
        assert pod["spec"]["hostname"] == f"{pod['metadata']['labels']['grove.io/podclique']}-{index(pod)}"
        assert all(len(value) <= LABEL_LIMIT for value in pod["metadata"]["labels"].values())
    gangs = [f"{pcs}-0", *(f"{pcs}-0-{pcsg}-{number}" for number in range(11))]
    assert workspace.names("pg") == sorted(gangs), "a scaled gang counts from the first replica beyond minAvailable"
    vanish(workspace, pcs)


WORDS = "Grüße, мир, 世界, 🌳\t\n'\"\\"


def test_unicode(workspace: Workspace) -> None:
    """Annotations and values of variables may hold any text, and arrive as they were."""
    variable = {"name": "WORDS", "value": WORDS}
    container = {"name": "main", "image": "registry.example/main:1", "env": [variable]}
    body = podcliqueset("w", clique("a", 2, 1, annotations={"words": WORDS}, podSpec={"containers": [container]}))
    body["metadata"]["annotations"] = {"set-words": WORDS}
    workspace.create("pcs", body)
    for pod in workspace.settled("w", 2):
        assert pod["metadata"]["annotations"]["words"] == WORDS
        assert variable in pod["spec"]["containers"][0]["env"]
    assert workspace.get("pg", "w-0")["metadata"]["annotations"]["set-words"] == WORDS
    assert_rest(workspace.cluster, 2.0)
    vanish(workspace, "w")


def test_a_label_that_kubernetes_refuses(workspace: Workspace) -> None:
    """Labels are ASCII. Without webhooks the set is stored: it says what is wrong and makes nothing until corrected."""
    body = podcliqueset("w", clique("good", 1, 1), clique("bad", 1, 1, labels={"words": "мир"}))
    workspace.create("pcs", body)

    def told() -> bool:
        errors = workspace.get("pcs", "w")["status"]["lastErrors"]
        path = "spec.template.cliques[1].labels.words"
        assert any(path in error["description"] and "мир" in error["description"] for error in errors), errors
        return True

    workspace.wait(told, "the set's status tells of the label")
    assert "InvalidSpec" in {event["reason"] for event in workspace.events("w")}
    assert workspace.names("pclq") == []

    cliques = [clique("good", 1, 1), clique("bad", 1, 1, labels={"words": "world"})]
    workspace.patch("pcs", "w", {"spec": {"template": {"cliques": cliques}}})
    workspace.settled("w", 2)
    assert not workspace.get("pcs", "w")["status"]["lastErrors"]
    vanish(workspace, "w")


def test_two_hundred_kilobytes(workspace: Workspace) -> None:
    """Half in annotations, which PodGangs mirror, half in variables, which every pod has."""
    notes = {f"note-{number}": f"{number}" * 10_000 for number in range(1, 10)}
    env = [{"name": f"V{number}", "value": f"{number:04}" * 100} for number in range(260)]
    container = {"name": "main", "image": "registry.example/main:1", "env": env}
    body = podcliqueset(
        "w", clique("a", 2, 1, podSpec={"containers": [container]}), clique("b", 1, 1), group("g", "b", 2, 1)
    )
    body["metadata"]["annotations"] = notes
    assert len(json.dumps(body)) >= 200_000
    workspace.create("pcs", body)
    pods = workspace.settled("w", 4)
    assert_shape(workspace, [body])
    for pod in pods:
        if pod["metadata"]["labels"]["grove.io/podclique"] == "w-0-a":
            have = pod["spec"]["containers"][0]["env"]
            assert [variable for variable in have if not variable["name"].startswith("GROVE_")] == env
    for gang in workspace.items("pg"):
        assert gang["metadata"]["annotations"] == notes
    assert_rest(workspace.cluster, 2.0)
    vanish(workspace, "w")


def test_sixty_cliques(workspace: Workspace) -> None:
    """They are one gang: no gate comes off before all sixty pods exist."""
    since = workspace.revision()
    body: Object = podcliqueset("w", *(clique(f"c{number}", 1, 1) for number in range(60)))
    workspace.create("pcs", body)
    workspace.settled("w", 60)
    assert_shape(workspace, [body])
    assert check_gates(workspace.changes(since, "pod", "pg"), {"w-0": 60}) == {"w-0"}
    vanish(workspace, "w")
