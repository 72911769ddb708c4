"""Taking over a set that the Go operator made and ran, with all that it leaves behind, on a real API server.

The objects have the form in which it writes them (API doc 3 and 4): its hashes, finalizers and names of pods, the init
container that watches the parents, and per set a ServiceAccount with a Role and the Secret of its token.
"""

from typing import Any

from tests.cluster.workloads import clique, group, podcliqueset
from tests.cluster.workspace import Object, Workspace, is_ready, uids

NAME = "taken"
GENERATION = "c9d56ffbcf5b54588cd"
HASHES = {"a": "555cb447d85dc9cb67d", "b": "54679c4f6596cf678d55", "c": "5d88b94bf4c474bd785b"}
POD_LABELS = {
    *(f"app.kubernetes.io/{key}" for key in ("component", "managed-by", "name", "part-of")),
    *(f"grove.io/podclique{key}" for key in ("", "-pod-index", "set-replica-index")),
    *(f"grove.io/podcliquescalinggroup{key}" for key in ("", "-replica-index")),
    "grove.io/podgang",
    "grove.io/base-podgang",
    "grove.io/pod-template-hash",
}
GROUP_ENV = [
    {"name": f"GROVE_PCSG_{name}", "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['grove.io/{label}']"}}}
    for name, label in (
        ("NAME", "podcliquescalinggroup"),
        ("INDEX", "podcliquescalinggroup-replica-index"),
    )
] + [{"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": "3"}]
_PLACED = ("nodeName", "schedulingGroup")
TOKEN_VOLUME: Object = {"name": "sa-token-secret-vol", "secret": {"secretName": f"{NAME}-ic-sat", "defaultMode": 420}}
INFO_VOLUME: Object = {
    "name": "pod-info-vol",
    "downwardAPI": {
        "items": [
            {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
            {"path": "podgangname", "fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}},
        ]
    },
}


def role_of(podclique: str) -> str:
    return podclique.rpartition("-")[2]


def credentials(workspace: Workspace, pcs: Object) -> list[tuple[str, str]]:
    """The ServiceAccount of the set with what belongs to it; their kinds and names."""
    owner = {key: pcs[key] for key in ("apiVersion", "kind")} | {key: pcs["metadata"][key] for key in ("name", "uid")}
    reference = {**owner, "controller": True, "blockOwnerDeletion": True}
    role = f"grove.io:pcs:{NAME}"
    account = {"kind": "ServiceAccount", "name": NAME, "namespace": workspace.namespace}
    rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}
    token: Object = {"type": "kubernetes.io/service-account-token"}
    of_account = {"annotations": {"kubernetes.io/service-account.name": NAME}}
    made: list[tuple[str, str, Object, Object]] = [
        ("serviceaccount", NAME, {}, {}),
        ("role", role, {"rules": [rule]}, {}),
        ("rolebinding", role, {"roleRef": {"kind": "Role", "name": role}, "subjects": [account]}, {}),
        ("secret", f"{NAME}-ic-sat", token, of_account),
    ]
    labels = {"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": NAME}
    for kind, name, body, metadata in made:
        about = {"name": name, "labels": labels, "ownerReferences": [reference], **metadata}
        workspace.create(kind, {**body, "metadata": about})
    workspace.until("secret", f"{NAME}-ic-sat", lambda secret: "token" in secret.get("data", {}), "has its token")
    return [(kind, name) for kind, name, *_ in made]


def go_pod(pod: Object, parents: list[str]) -> Object:
    """The pod that the Go operator would have made for the same place."""
    spec: dict[str, Any] = {key: value for key, value in pod["spec"].items() if key not in _PLACED}
    spec["initContainers"] = [one for one in spec.get("initContainers", ()) if one["name"] != "grove-initc"]
    spec["volumes"] = [volume for volume in spec["volumes"] if "projected" in volume]
    if parents:
        mounts = {"pod-info-vol": "/var/grove/pod-info", TOKEN_VOLUME["name"]: "/var/run/secrets/kubernetes.io/sa"}
        waiting = {
            "name": "grove-initc",
            "image": "grove-initc:v0.1.0",
            "args": [f"--podcliques={parent}:1" for parent in parents],
            "volumeMounts": [{"name": name, "mountPath": path, "readOnly": True} for name, path in mounts.items()],
        }
        spec["initContainers"].append(waiting)
        spec["volumes"] += [TOKEN_VOLUME, INFO_VOLUME]
    metadata, podclique = pod["metadata"], pod["metadata"]["labels"]["grove.io/podclique"]
    labels = {key: value for key, value in metadata["labels"].items() if key in POD_LABELS}
    labels["grove.io/pod-template-hash"] = HASHES[role_of(podclique)]
    about = {"generateName": f"{podclique}-", "labels": labels, "ownerReferences": metadata["ownerReferences"]}
    # By this the simulated kubelet lets the init container end; there is no Go program that would.
    return {"metadata": {**about, "annotations": {"grove.io/startup": "released"}}, "spec": spec}


def replace_pods(workspace: Workspace) -> None:
    """Put the Go operator's pods in the place of ours, ready, and into their gangs."""
    ours = workspace.pods()
    parents = {one["metadata"]["name"]: one["spec"].get("startsAfter", []) for one in workspace.items("pclq")}
    for pod in ours:
        workspace.delete("pod", pod["metadata"]["name"], grace_seconds=0)
    workspace.wait(lambda: not uids(ours) & uids(workspace.items("pod")), "our pods are gone")
    made = [
        workspace.create("pod", go_pod(pod, parents[pod["metadata"]["labels"]["grove.io/podclique"]])) for pod in ours
    ]
    for pod in made:
        workspace.until("pod", pod["metadata"]["name"], is_ready, "is ready")
        workspace.patch("pod", pod["metadata"]["name"], {"metadata": {"annotations": None}})
    for gang in workspace.items("pg"):
        for podgroup in gang["spec"]["podgroups"]:
            names = [pod["metadata"]["name"] for pod in workspace.clique_pods(podgroup["name"])]
            podgroup["podReferences"] = [{"name": name, "namespace": workspace.namespace} for name in sorted(names)]
        workspace.patch("pg", gang["metadata"]["name"], {"spec": gang["spec"]})
        workspace.patch("pg", gang["metadata"]["name"], {"status": {"phase": "Pending"}}, "status")
    for kind in ("podgroup", "cpg"):
        for name in workspace.names(kind):
            workspace.delete(kind, name)


def rewrite_parents(workspace: Workspace) -> None:
    """Give PodCliques, scaling groups and the set the Go operator's hashes, finalizers and variables."""
    for podclique in workspace.items("pclq"):
        name, theirs = podclique["metadata"]["name"], HASHES[role_of(podclique["metadata"]["name"])]
        labels = {"grove.io/pod-template-hash": theirs}
        finalizers = ["grove.io/podclique.grove.io"]
        spec = podclique["spec"]["podSpec"]
        for container in spec["containers"]:
            container.pop("env", None)
            if role_of(name) != "a":
                container["env"] = GROUP_ENV
        about = {"labels": labels, "annotations": None, "finalizers": finalizers}
        workspace.patch("pclq", name, {"metadata": about, "spec": {"podSpec": spec}})
        status = {"currentPodTemplateHash": theirs, "currentPodCliqueSetGenerationHash": GENERATION}
        workspace.patch("pclq", name, {"status": status}, "status")
    status = {"currentPodCliqueSetGenerationHash": GENERATION}
    for name in workspace.names("pcsg"):
        workspace.patch("pcsg", name, {"metadata": {"finalizers": ["grove.io/podcliquescalinggroup.grove.io"]}})
        workspace.patch("pcsg", name, {"status": status}, "status")
    workspace.patch("pcs", NAME, {"metadata": {"finalizers": ["grove.io/podcliqueset.grove.io"]}})
    workspace.patch("pcs", NAME, {"status": {"currentGenerationHash": GENERATION}}, "status")


def test_a_set_of_the_go_operator_is_taken_over(workspace: Workspace) -> None:
    """Nothing restarts; what the set needed for its init containers stays, until the set goes."""
    parts = [clique("a", 2, 1), clique("b", 1, 1, startsAfter=["a"]), clique("c", 2, 1, startsAfter=["b"])]
    explicit: Object = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
    pcs = workspace.create("pcs", podcliqueset(NAME, *parts, group("g", "b c", 2, 1), **explicit))
    workspace.settled(NAME, 8)
    with workspace.operator.stopped():
        replace_pods(workspace)
        rewrite_parents(workspace)
        left = {key: workspace.get(*key) for key in credentials(workspace, pcs)}
        before = {pod["metadata"]["name"]: pod for pod in workspace.pods()}
    assert len(before) == 8

    def taken_over() -> bool:
        """Every hash is ours, and what it was before is kept."""
        for podclique in workspace.items("pclq"):
            name = podclique["metadata"]["name"]
            adopted = podclique["metadata"].get("annotations", {}).get("grove.io/adopted-template-hash", "")
            assert adopted.startswith(f"{HASHES[role_of(name)]}="), f"{name}: {adopted}"
            assert podclique["status"]["currentPodTemplateHash"] == adopted.partition("=")[2], name
        return str(workspace.get("pcs", NAME)["status"]["currentGenerationHash"]) != GENERATION

    workspace.wait(taken_over, "the hashes are ours")
    after = {pod["metadata"]["name"]: pod for pod in workspace.settled(NAME, 8)}
    assert {name: (pod["metadata"]["uid"], pod["spec"]) for name, pod in after.items()} == {
        name: (pod["metadata"]["uid"], pod["spec"]) for name, pod in before.items()
    }
    assert "updateProgress" not in workspace.get("pcs", NAME)["status"], "to take over is no update"
    assert {key: workspace.get(*key) for key in left} == left
    replaced_pods_are_ours(workspace)
    assert {key: workspace.get(*key) for key in left} == left
    workspace.delete("pcs", NAME)
    workspace.gone(NAME)
    workspace.wait(lambda: not any(workspace.find(*key) for key in left), "the credentials go with the set")


def replaced_pods_are_ours(workspace: Workspace) -> None:
    """A pod that is lost afterwards comes back at its place as this operator makes them: without the Secret."""
    lost = workspace.clique_pods(f"{NAME}-0-g-0-b")[0]
    workspace.delete("pod", lost["metadata"]["name"], grace_seconds=0)
    workspace.wait(lambda: uids([lost]).isdisjoint(uids(workspace.pods())), "it is gone")
    workspace.settled(NAME, 8)
    [new] = workspace.clique_pods(f"{NAME}-0-g-0-b")
    assert new["spec"]["hostname"] == lost["spec"]["hostname"]
    assert [one["name"] for one in new["spec"]["initContainers"]] == ["grove-initc"]
    assert not [volume for volume in new["spec"]["volumes"] if "secret" in volume]
