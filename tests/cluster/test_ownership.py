"""What belongs to whom: users' objects, foreign fields, our own children, and names that somebody else holds."""

from functools import partial

import pytest

from tests.cluster.operators import OperatorProcess
from tests.cluster.workloads import clique, group, podcliqueset, workload
from tests.cluster.workspace import CHILDREN, HOLD, Object, Workspace, is_ready, uid, uids, verdict

SCALER: Object = {"minReplicas": 2, "maxReplicas": 4}
MARK = {"example.com/mark": "mine"}


def new_image(pcs: Object) -> None:
    """Change the first clique's template."""
    pcs["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "registry.example/main:2"


def observed(workspace: Workspace, name: str, generation: int) -> None:
    """Wait until every child has been given the template of this generation."""
    workspace.wait(
        lambda: workspace.get("pcs", name)["status"]["observedGeneration"] == generation, "the change is observed"
    )


def test_the_users_object_stays_the_users(workspace: Workspace) -> None:
    """The operator writes its status and nothing else: no default, no annotation, no finalizer, no new generation."""
    pcs = podcliqueset("u", clique("a", 2), clique("b"), group("g", "b"))
    pcs["metadata"] |= {"annotations": {"team": "red"}, "labels": {"app": "u"}}
    workspace.create("pcs", pcs)
    created = workspace.hold("pcs", "u")
    workspace.settled("u", 3)
    now = workspace.get("pcs", "u")
    for both in (created, now):
        both["metadata"].pop("managedFields")
        both["metadata"].pop("resourceVersion")
        both.pop("status", None)
    assert now == created
    assert now["metadata"]["generation"] == 1
    assert "minAvailable" not in now["spec"]["template"]["cliques"][1]["spec"], "defaults are applied in mind only"


def test_what_others_put_on_our_objects_survives(workspace: Workspace) -> None:
    """Labels, annotations, finalizers and conditions: through scaling, a new template and pods that come and go."""
    workspace.create(
        "pcs", podcliqueset("o", clique("a", 2, 1), clique("b", 1), group("g", "b", 2, scaleConfig=SCALER))
    )
    workspace.settled("o", 4)
    marked = {(kind, name) for kind in CHILDREN for name in workspace.names(kind, "app.kubernetes.io/part-of=o")}
    for kind, name in marked:
        workspace.hold(kind, name)
        workspace.patch(kind, name, {"metadata": {"labels": MARK, "annotations": MARK}})
    foreign = {
        "type": "example.com/Checked",
        "status": "True",
        "reason": "Fine",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    conditioned = [("pclq", "o-0-a"), ("pcsg", "o-0-g"), ("pg", "o-0")]
    for kind, name in conditioned:
        conditions = workspace.get(kind, name)["status"]["conditions"]
        workspace.patch(kind, name, {"status": {"conditions": [foreign, *conditions]}}, "status")

    workspace.scale("pclq", "o-0-a", 3)
    workspace.settled("o", 5)
    observed(workspace, "o", workspace.update("pcs", "o", new_image)["metadata"]["generation"])
    workspace.scale("pclq", "o-0-a", 2)
    workspace.wait(lambda: workspace.get("pclq", "o-0-a")["status"]["replicas"] == 2, "the third pod is gone")
    for kind, name in marked:
        metadata = workspace.get(kind, name)["metadata"]
        assert metadata["labels"].items() >= MARK.items(), f"{kind} {name}"
        assert metadata["annotations"].items() >= MARK.items(), f"{kind} {name}"
        assert metadata["finalizers"] == HOLD, f"{kind} {name}"
        if (kind, name) in conditioned:
            assert workspace.get(kind, name)["status"]["conditions"][0] == foreign


def test_what_was_edited_or_deleted_by_hand_is_put_right(workspace: Workspace) -> None:
    workspace.create(
        "pcs", podcliqueset("e", clique("a", 2, 2, autoScalingConfig=SCALER), clique("b"), group("g", "b"))
    )
    workspace.settled("e", 3)
    edits: list[tuple[str, str, Object]] = [
        ("svc", "e-0", {"spec": {"selector": {"app.kubernetes.io/part-of": "other"}}}),
        ("hpa", "e-0-a", {"spec": {"maxReplicas": 9}}),
        ("pclq", "e-0-a", {"spec": {"minAvailable": 1}}),
        ("pcsg", "e-0-g", {"metadata": {"labels": {"app.kubernetes.io/component": None}}}),
        ("pg", "e-0", {"spec": {"podgroups": []}}),
    ]
    for kind, name, edit in edits:
        before = workspace.get(kind, name)
        workspace.patch(kind, name, edit)

        def is_back(kind: str = kind, name: str = name, before: Object = before) -> bool:
            now = workspace.get(kind, name)
            return bool(now["spec"] == before["spec"] and now["metadata"]["labels"] == before["metadata"]["labels"])

        workspace.wait(is_back, f"{kind} {name} is as it was")
    workspace.settled("e", 3)
    for kind, name in (("svc", "e-0"), ("hpa", "e-0-a"), ("pg", "e-0"), ("pclq", "e-0-g-0-b"), ("pcsg", "e-0-g")):
        lost = uid(workspace.get(kind, name))
        workspace.delete(kind, name)
        workspace.until(kind, name, partial(is_another, lost), "it is back")
    workspace.settled("e", 3)


def is_another(lost: str, obj: Object) -> bool:
    return uid(obj) != lost


FOREIGN: dict[str, tuple[str, Object]] = {
    "svc": ("n-0", {"spec": {"clusterIP": "None", "selector": {"mine": "yes"}}}),
    "pclq": (
        "n-0-a",
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodClique",
            "spec": {"roleName": "r", "replicas": 0, "podSpec": {"containers": [{"name": "m", "image": "none"}]}},
        },
    ),
    "pcsg": (
        "n-0-g",
        {
            "apiVersion": "grove.io/v1alpha1",
            "kind": "PodCliqueScalingGroup",
            "spec": {"replicas": 0, "cliqueNames": ["b"]},
        },
    ),
    "pg": ("n-0", {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "spec": {"podgroups": []}}),
}
CODES = {"svc": "SERVICE", "pclq": "PODCLIQUE", "pcsg": "PODCLIQUESCALINGGROUP", "pg": "PODGANG"}
REASONS = {
    "pclq": "PodCliqueCreateOrUpdateFailed",
    "pcsg": "PodCliqueScalingGroupCreateOrUpdateFailed",
    "pg": "PodGangCreateOrUpdateFailed",
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_name_that_somebody_else_holds(workspace: Workspace, kind: str) -> None:
    """The set says so in lastErrors and an event, writes nothing over it, and goes on once the name is free."""
    name, foreign = FOREIGN[kind]
    workspace.create(kind, {**foreign, "metadata": {"name": name, "labels": MARK}})
    before = workspace.get(kind, name)
    workspace.create("pcs", podcliqueset("n", clique("a", 1), clique("b", 1), group("g", "b")))

    def told() -> bool:
        errors = workspace.get("pcs", "n")["status"]["lastErrors"]
        assert [error["code"] for error in errors] == [f"ERR_CREATE_{CODES[kind]}"]
        assert name in errors[0]["description"]
        return "exists already" in errors[0]["description"]

    workspace.wait(told, "lastErrors names the object")
    if kind in REASONS:
        events = workspace.wait(lambda: workspace.events("n", REASONS[kind]), "an event tells it")
        assert events[0]["type"] == "Warning"
        assert "exists already" in events[0]["message"]
    assert workspace.get(kind, name) == before
    if kind == "pclq":
        workspace.wait(
            lambda: verdict(workspace.get("pg", "n-0"), "Initialized")[0] == "False",
            "a gang without one of its cliques is not whole",
        )
    if kind == "svc":
        workspace.wait(lambda: all(map(is_ready, workspace.pods())), "the pods run, they lack nothing but DNS names")

    workspace.delete(kind, name)
    workspace.settled("n", 2)
    workspace.wait(lambda: not workspace.get("pcs", "n")["status"].get("lastErrors"), "the error is gone")


def test_sets_with_equal_parts_share_a_namespace(workspace: Workspace) -> None:
    """Ten sets with the same clique names, among them names that end or begin with others': nobody takes a pod."""
    names = [f"{prefix}{number}" for prefix in ("w", "w-0-") for number in range(5)]
    for name in names:
        workspace.create("pcs", podcliqueset(name, clique("leader", 1), clique("pleader", 2), group("g", "pleader")))
    pods = [uids(workspace.settled(name, 3)) for name in names]
    assert len(set().union(*pods)) == 30
    for name in names:
        leader, pleader = workspace.get("pclq", f"{name}-0-leader"), workspace.get("pclq", f"{name}-0-g-0-pleader")
        assert (leader["spec"]["roleName"], pleader["spec"]["roleName"]) == ("leader", "pleader")
        assert (leader["status"]["replicas"], pleader["status"]["replicas"]) == (1, 2)


def test_unicode_and_a_large_object(workspace: Workspace) -> None:
    """Values of any script arrive on the pods; a set of 200 KB runs like a small one."""
    notes = {"example.com/note": "größe ☃ 日本語 🚀", "example.com/big": "x" * 200_000}
    pcs = workload()
    pcs["metadata"]["annotations"] = {"example.com/note": notes["example.com/note"]}
    pcs["spec"]["template"]["cliques"][0]["annotations"] = notes
    workspace.create("pcs", pcs)
    workspace.settled("w", 10)
    for pod in workspace.clique_pods("w-0-a"):
        assert pod["metadata"]["annotations"].items() >= notes.items()
    assert workspace.get("pg", "w-0")["metadata"]["annotations"] == {"example.com/note": notes["example.com/note"]}


def test_pods_left_behind_by_their_podclique_go_to_the_next_one(workspace: Workspace) -> None:
    """`kubectl delete --cascade=orphan`, and a pod whose owner reference somebody takes away."""
    workspace.create("pcs", podcliqueset("l", clique("a", 3)))
    pods = workspace.settled("l", 3)
    other = {"apiVersion": "v1", "kind": "Service", "name": "l-0", "uid": uid(workspace.get("svc", "l-0"))}

    def adopted(by: Object) -> bool:
        owners = [pod["metadata"]["ownerReferences"] for pod in workspace.pods()]
        return [[ref["uid"] for ref in refs if ref.get("controller")] for refs in owners] == [[uid(by)]] * 3

    pclq = workspace.get("pclq", "l-0-a")
    workspace.hold("pod", pods[0]["metadata"]["name"])
    workspace.patch("pod", pods[0]["metadata"]["name"], {"metadata": {"ownerReferences": [other]}})
    workspace.wait(lambda: adopted(pclq), "the pod is taken back")
    assert other in [ref for pod in workspace.pods() for ref in pod["metadata"]["ownerReferences"]], (
        "another owner stays"
    )
    workspace.delete("pclq", "l-0-a", policy="Orphan")
    after = workspace.until("pclq", "l-0-a", partial(is_another, uid(pclq)), "it is back")
    workspace.wait(lambda: adopted(after), "its pods are taken over")
    assert uids(workspace.settled("l", 3)) == uids(pods)


GO_HASH = "57bd44b6dbd69587cf76"


def as_the_go_operator_left_it(workspace: Workspace, name: str) -> None:
    """Give a set's children what the Go operator writes otherwise: hash values, finalizers, no record of replicas."""
    told = {"currentPodTemplateHash": GO_HASH, "currentPodCliqueSetGenerationHash": "5d9f8c"}
    workspace.patch("pcs", name, {"status": {"currentGenerationHash": "5d9f8c"}}, "status")
    for kind, finalizer in (("pclq", "podclique"), ("pcsg", "podcliquescalinggroup")):
        metadata: Object = {
            "annotations": {"grove.io/template-replicas": None},
            "finalizers": [f"grove.io/{finalizer}.grove.io"],
        }
        for child in workspace.names(kind):
            workspace.patch(kind, child, {"metadata": metadata})
    hashed = {"metadata": {"labels": {"grove.io/pod-template-hash": GO_HASH}}}
    for podclique in workspace.names("pclq"):
        workspace.patch("pclq", podclique, hashed)
        workspace.patch("pclq", podclique, {"status": told}, "status")
    for pod in workspace.names("pod"):
        workspace.patch("pod", pod, hashed)


def test_a_set_of_the_go_operator_is_taken_over(workspace: Workspace, operator: OperatorProcess) -> None:
    """No pod restarts, a number that was scaled is no change of the template, and deleting leaves nothing."""
    workspace.create("pcs", workload())
    pods = workspace.settled("w", 10)
    with operator.stopped():
        as_the_go_operator_left_it(workspace, "w")
        workspace.scale("pclq", "w-0-a", 3)
    workspace.reads("pclq", "w-0-a", replicas=3, readyReplicas=3)
    workspace.reads("pcs", "w", replicas=1, availableReplicas=1)
    assert uids(pods) < uids(workspace.pods())
    pclq = workspace.get("pclq", "w-0-a")
    assert pclq["spec"]["replicas"] == 3
    assert pclq["metadata"]["annotations"]["grove.io/template-replicas"] == "2"
    assert pclq["metadata"]["labels"]["grove.io/pod-template-hash"] != GO_HASH
    workspace.delete("pcs", "w")
    workspace.gone("w")


def test_hashes_of_the_go_operator_are_replaced_in_place(workspace: Workspace, operator: OperatorProcess) -> None:
    """Its pods run what the template asks for, so they are not stale: they get our hash and count as updated."""
    workspace.create("pcs", workload())
    pods = workspace.settled("w", 10)
    with operator.stopped():
        as_the_go_operator_left_it(workspace, "w")

    def all_ours() -> bool:
        ours = {pclq["metadata"]["labels"]["grove.io/pod-template-hash"] for pclq in workspace.items("pclq")}
        theirs = {pod["metadata"]["labels"]["grove.io/pod-template-hash"] for pod in workspace.pods()}
        assert theirs == ours, f"pods have {theirs}, cliques {ours}"
        return GO_HASH not in ours

    workspace.wait(all_ours, "cliques and pods have our hashes", 20)
    assert uids(workspace.settled("w", 10)) == uids(pods)
