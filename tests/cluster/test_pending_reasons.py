"""Why a gang is pending: on its PodGang, on its set, and once as an event (report G14)."""

import time
from collections.abc import Iterator

import pytest

from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import Object, Workspace, condition, gates, verdict


def waits(workspace: Workspace, gang: str, reason: str, *words: str) -> str:
    """Wait until a PodGang is Pending for that reason and says these words; what it says."""

    def look() -> str:
        found = workspace.get("pg", gang)
        message: str = condition(found, "Scheduled")["message"]
        assert found["status"]["phase"] == "Pending"
        assert verdict(found, "Scheduled") == ("False", reason), f"{found['status']}"
        assert all(word in message for word in words), message
        return message

    return workspace.wait(look, f"{gang} is pending: {reason} {words}")


def told(workspace: Workspace, pcs: str) -> list[Object]:
    """The events that tell why gangs of a set are pending."""
    return workspace.events(pcs, "PodGangPending")


def test_no_room(workspace: Workspace) -> None:
    """The scheduler's own words, one event however long it takes, and the next one only after it ran."""
    workspace.create("pcs", podcliqueset("r", clique("a", 2, room=workspace.namespace)))
    message = waits(workspace, "r-0", "Unschedulable", "r-0-a has 0 of 2", "the scheduler says: ")
    said = message.partition("the scheduler says: ")[2]
    answers = [condition(pod, "PodScheduled").get("message", "") for pod in workspace.pods()]
    assert any(" ".join(answer.split())[:60] in said for answer in answers if answer), f"{answers}: {message}"
    (event,) = workspace.wait(lambda: told(workspace, "r"), "an event tells")
    assert (event["type"], event["involvedObject"]["kind"]) == ("Warning", "PodCliqueSet")
    assert message in event["message"]

    def shown() -> bool:
        (entry,) = workspace.get("pcs", "r")["status"]["podGangStatuses"]
        conditions = {one["type"]: one["message"] for one in entry["conditions"]}
        return (entry["name"], entry["phase"], conditions["Scheduled"]) == ("r-0", "Pending", message)

    workspace.wait(shown, "the set shows the same")
    time.sleep(3.0)
    assert len(told(workspace, "r")) == 1
    workspace.open_rooms(2)
    workspace.settled("r", 2)
    gang = workspace.until("pg", "r-0", lambda pg: pg["status"]["phase"] == "Running", "it runs")
    assert {kind: verdict(gang, kind)[0] for kind in ("Initialized", "Scheduled", "Ready", "Unhealthy")} == {
        "Initialized": "True", "Scheduled": "True", "Ready": "True", "Unhealthy": "False"
    }  # fmt: skip


def test_a_gate_of_somebody_else(workspace: Workspace) -> None:
    mine = "example.com/hold"
    held = clique("a", 2, podSpec={"schedulingGates": [{"name": mine}]})
    workspace.create("pcs", podcliqueset("f", held, clique("b", 1)))
    message = waits(workspace, "f-0", "SchedulingGated", f"scheduling gate {mine} holds 2 of f-0-a")
    (event,) = workspace.wait(lambda: told(workspace, "f"), "an event tells")
    assert message in event["message"]
    for pod in workspace.clique_pods("f-0-a"):
        workspace.patch("pod", pod["metadata"]["name"], {"spec": {"schedulingGates": None}})
    workspace.settled("f", 3)


@pytest.fixture
def webhook_gate(workspace: Workspace) -> Iterator[str]:
    """A gate that admission adds to every pod of the namespace, as Kueue's webhook does."""
    gate, path = "kueue.x-k8s.io/admission", "/apis/admissionregistration.k8s.io/v1"
    added = f"Object.spec.schedulingGates{{name: '{gate}'}}"
    expression = f"[JSONPatch{{op: 'add', path: '/spec/schedulingGates/-', value: {added}}}]"
    name = f"gates-{workspace.namespace}"
    pods = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    constraints = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": workspace.namespace}},
        "resourceRules": [pods],
    }
    mutations = [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}]
    spec = {"matchConstraints": constraints, "mutations": mutations, "reinvocationPolicy": "Never"}
    objects = {"mutatingadmissionpolicies": spec, "mutatingadmissionpolicybindings": {"policyName": name}}
    for plural, body in objects.items():
        workspace.cluster.api("POST", f"{path}/{plural}", {"metadata": {"name": name}, "spec": body})
    gated = {"containers": [{"name": "m", "image": "i"}], "schedulingGates": [{"name": "example.com/probe"}]}
    tried = f"/api/v1/namespaces/{workspace.namespace}/pods?dryRun=All"

    def works() -> bool:
        made = workspace.cluster.api("POST", tried, {"metadata": {"name": "probe"}, "spec": gated})
        return gates(made) == ["example.com/probe", gate]

    workspace.wait(works, "pods get the gate")
    yield gate
    for plural in objects:
        workspace.cluster.api("DELETE", f"{path}/{plural}/{name}")


def test_a_gate_that_a_webhook_adds(workspace: Workspace, webhook_gate: str) -> None:
    workspace.create("pcs", podcliqueset("k", clique("a", 2), clique("b", 1)))
    waits(workspace, "k-0", "SchedulingGated", f"scheduling gate {webhook_gate} holds 2 of k-0-a")
    assert [gates(pod) for pod in workspace.pods()] == [[webhook_gate]] * 3
    for pod in workspace.pods():
        workspace.patch("pod", pod["metadata"]["name"], {"spec": {"schedulingGates": None}})
    workspace.settled("k", 3)


def test_pods_that_a_quota_refuses(workspace: Workspace) -> None:
    workspace.limit_pods(1)
    workspace.create("pcs", podcliqueset("q", clique("a", 2)))
    message = waits(workspace, "q-0", "PodGangPodsCreationPending", "q-0-a has 1 of 2", "exceeded quota: pods")
    assert condition(workspace.get("pg", "q-0"), "Initialized")["message"] == message
    workspace.wait(lambda: any("exceeded quota" in event["message"] for event in told(workspace, "q")), "it is told")
    workspace.delete("quota", "pods")
    workspace.settled("q", 2)


def test_a_scaled_gang_names_its_base(workspace: Workspace) -> None:
    workspace.create(
        "pcs", podcliqueset("b", clique("a", 1, room=workspace.namespace), clique("c", 1), group("g", "c", 2, 1))
    )
    waits(workspace, "b-0", "Unschedulable", "b-0-a has 0 of 1")
    waits(workspace, "b-0-g-0", "WaitingForBaseGang", "its base gang b-0 is not scheduled", "b-0-g-1-c has 0 of 1")
    assert not [event for event in told(workspace, "b") if event["message"].startswith("PodGang b-0-g-0 ")]
    workspace.open_rooms(1)
    workspace.settled("b", 3)


def test_conditions_and_score_of_others_stay(workspace: Workspace) -> None:
    """What a scheduler writes on a PodGang survives all that Grove writes there."""
    workspace.create("pcs", podcliqueset("o", clique("a", 1, room=workspace.namespace)))
    waits(workspace, "o-0", "Unschedulable")
    theirs = [
        {
            "type": kind,
            "status": "True",
            "reason": "Theirs",
            "message": "",
            "lastTransitionTime": "2026-09-01T00:00:00Z",
        }
        for kind in ("example.com/Reserved", "DisruptionTarget")
    ]

    conditions = [*workspace.get("pg", "o-0")["status"]["conditions"], *theirs]
    workspace.patch("pg", "o-0", {"status": {"conditions": conditions, "placementScore": 0.5}}, "status")
    workspace.open_rooms(1)
    workspace.settled("o", 1)
    gang = workspace.until("pg", "o-0", lambda pg: pg["status"]["phase"] == "Running", "it runs")
    assert [one for one in gang["status"]["conditions"] if one["reason"] == "Theirs"] == theirs
    assert gang["status"]["placementScore"] == 0.5
