"""A Dynamo-like client works with an unchanged habit for a whole life of a deployment."""

import yaml

from tests.cluster.dynamo import DEPLOYMENT, RESTART, Component, DynamoClient
from tests.cluster.harness import ROOT
from tests.cluster.operators import OperatorProcess
from tests.cluster.workspace import Object, Workspace, uid, uids


def chat(workspace: Workspace, prefill: int = 2, decode: int = 1, frontend: int = 1, room: str = "") -> DynamoClient:
    """A deployment of a front end, prefill on two nodes and decode on four."""
    components = [Component("frontend", frontend, room=room), Component("prefill", prefill, workers=1)]
    return DynamoClient(workspace, "chat70b", *components, Component("decode", decode, workers=3))


def ready(client: DynamoClient) -> list[Object]:
    """Wait until the deployment is ready; the client looks after its set all the time. Its pods, all of them.

    The pods of a scaling group's replica that went may end a moment later: the garbage collector takes them.
    """

    def look() -> list[list[Object]]:
        client.reconcile()
        assert client.is_ready()
        pods = {name: client.pods(name) for name in client.components}
        counts = {name: len(found) for name, found in pods.items()}
        assert counts == {name: component.pods for name, component in client.components.items()}, f"{counts}"
        return list(pods.values())

    return [pod for pods in client.workspace.wait(look, "the deployment is ready") for pod in pods]


def quiet(client: DynamoClient) -> None:
    """Nobody has edited the set but the client, and it sees nothing to write."""
    assert not client.reconcile()
    assert client.fights == 0


def restarts(workspace: Workspace) -> int:
    """Container restarts of all pods together."""
    return sum(c["restartCount"] for pod in workspace.items("pod") for c in pod["status"].get("containerStatuses", []))


def test_the_whole_life_of_a_deployment(workspace: Workspace, operator: OperatorProcess) -> None:
    client = chat(workspace)
    assert client.reconcile()
    first = ready(client)
    quiet(client)
    assert workspace.get("pcs", "chat70b")["metadata"]["generation"] == 1
    names_and_labels(client)

    # The planner changes its mind six times in a row, for two components at once, and the client looks on.
    for prefill, frontend in ((3, 2), (4, 4), (2, 1), (5, 3), (3, 5), (4, 2)):
        client.scale("prefill", prefill)
        client.scale("frontend", frontend)
        quiet(client)
    scaled = ready(client)
    assert uids(first) <= uids(scaled), "scaling has restarted a pod"

    # A changed spec, as a full update: nothing restarts, and the scaled numbers stay.
    client.delay = "20m"
    assert client.reconcile()
    assert uids(ready(client)) == uids(scaled)
    quiet(client)
    assert workspace.get("pcs", "chat70b")["metadata"]["generation"] == 2
    assert workspace.get("pclq", "chat70b-0-frontend")["spec"]["replicas"] == 2

    # Idle, while the operator is replaced by another; then back.
    client.scale("frontend", 0)
    client.scale("decode", 0)
    operator.restart()
    rest = ready(client)
    assert uids(rest) <= uids(scaled)
    assert workspace.get("pcs", "chat70b")["status"]["availableReplicas"] == 1
    client.scale("frontend", 1)
    client.scale("decode", 2)
    assert uids(rest) <= uids(ready(client))
    quiet(client)
    assert restarts(workspace) == 0

    workspace.delete("cm", "chat70b")
    workspace.gone("chat70b")


def names_and_labels(client: DynamoClient) -> None:
    """What Dynamo addresses by name and label: children, pods by their hostnames, ranks."""
    workspace = client.workspace
    assert workspace.names("pcsg") == ["chat70b-0-decode", "chat70b-0-prefill"]
    for name in workspace.names("pclq"):
        metadata = workspace.get("pclq", name)["metadata"]
        assert metadata["labels"][DEPLOYMENT] == "chat70b"
        assert metadata["annotations"][RESTART] == "2026-09-01T00:00:00Z"
    owner = workspace.get("pcsg", "chat70b-0-prefill")["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["apiVersion"], owner["controller"]) == ("PodCliqueSet", "grove.io/v1alpha1", True)
    pods = {pod["spec"]["hostname"]: pod for name in client.components for pod in client.pods(name)}
    assert pods.keys() == {
        "chat70b-0-frontend-0",
        "chat70b-0-prefill-0-prefill-ldr-0",
        "chat70b-0-prefill-0-prefill-wkr-0",
        "chat70b-0-prefill-1-prefill-ldr-0",
        "chat70b-0-prefill-1-prefill-wkr-0",
        "chat70b-0-decode-0-decode-ldr-0",
        "chat70b-0-decode-0-decode-wkr-0",
        "chat70b-0-decode-0-decode-wkr-1",
        "chat70b-0-decode-0-decode-wkr-2",
    }
    assert {pod["spec"]["subdomain"] for pod in pods.values()} == {"chat70b-0"}
    ranks = [
        pods[f"chat70b-0-decode-0-decode-{who}"]["metadata"]["labels"]["grove.io/podcliquescalinggroup-pod-index"]
        for who in ("ldr-0", "wkr-0", "wkr-1", "wkr-2")
    ]
    assert ranks == ["0", "1", "2", "3"]
    assert workspace.get("pg", "chat70b-0")["spec"]["podgroups"][-1]["minReplicas"] == 3, "all workers or none"


def test_components_are_restarted(workspace: Workspace) -> None:
    """A new annotation restarts the pods of a component, and no others; ready is said only of what has restarted."""
    client = chat(workspace)
    client.reconcile()
    first = ready(client)
    for number, name in enumerate(("frontend", "prefill"), 2):
        client.restarted[name] = f"2026-09-0{number}T00:00:00Z"
        before = {component: uids(client.pods(component)) for component in client.components}
        assert client.reconcile()
        for pod in ready(client):
            component = pod["metadata"]["labels"]["nvidia.com/dynamo-component"]
            assert pod["metadata"]["annotations"][RESTART] == client.restarted[component]
            assert (uid(pod) in before[component]) == (component != name)
        quiet(client)
    assert len(first) == len(ready(client))


def test_a_deployment_created_idle(workspace: Workspace) -> None:
    """While a checkpoint is made the client writes 0; the deployment counts as ready, and starts when it scales."""
    client = chat(workspace, prefill=1, decode=0, frontend=0)
    client.reconcile()
    first = ready(client)
    assert len(first) == 2
    quiet(client)
    client.scale("frontend", 2)
    client.scale("decode", 1)
    assert uids(first) < uids(ready(client))
    quiet(client)


def test_scaling_before_the_children_exist(workspace: Workspace) -> None:
    """NotFound is no error to the client: it comes back until the number is there."""
    client = chat(workspace)
    client.reconcile()

    def asked() -> bool:
        client.scale("frontend", 3)
        client.scale("prefill", 1)
        return client.is_ready()

    workspace.wait(asked, "the numbers wanted last are there")
    assert len(ready(client)) == 3 + 2 + 4
    quiet(client)


def test_why_a_component_is_not_ready(workspace: Workspace) -> None:
    """Without a node for one of them, for lack of capacity, and so are the others: they are one gang."""
    client = chat(workspace, prefill=1, room=workspace.namespace)
    client.reconcile()

    def short_of_nodes() -> bool:
        assert client.verdict("frontend") == "InsufficientCapacity", client.verdict("frontend")
        return not any(pod["spec"].get("nodeName") for pod in workspace.pods())

    workspace.wait(short_of_nodes, "no component has a node")
    workspace.open_rooms(1)
    ready(client)
    client.scale("frontend", 2)
    workspace.wait(lambda: client.verdict("frontend") == "InsufficientCapacity", "the second has no node")
    workspace.open_rooms(1)
    ready(client)


def test_the_crd_promises_no_coherent_updates() -> None:
    """The client takes that value in the schema for the feature."""
    text = (ROOT / "crds" / "grove.io_podcliquesets.yaml").read_text()
    crd = yaml.load(text, Loader=yaml.CSafeLoader)  # a large file: the other loader takes seconds
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    strategies = schema["properties"]["updateStrategy"]["properties"]["type"]["enum"]
    assert strategies == ["RollingRecreate", "OnDelete"]
