"""PodCliqueSets to run, as wire objects."""

from typing import Any

Object = dict[str, Any]


def clique(
    name: str,
    replicas: int | None = None,
    minimum: int | None = None,
    *,
    room: str = "",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A clique of a template; what is None is left out.

    `room` is the namespace for whose nodes (Workspace.open_rooms) its pods wait; they take one node each. `spec` adds
    to the clique's spec; its key `podSpec` adds to the podSpec.
    """
    container: Object = {"name": "main", "image": "registry.example/main:1"}
    pod_spec: Object = {"containers": [container], "terminationGracePeriodSeconds": 5}
    if room:
        container["resources"] = {"requests": {"cpu": "33"}}  # a node has 64
        pod_spec["nodeSelector"] = {"test/room": room}
    body: Object = {"roleName": name, **spec, "podSpec": {**pod_spec, **spec.get("podSpec", {})}}
    if replicas is not None:
        body["replicas"] = replicas
    if minimum is not None:
        body["minAvailable"] = minimum
    result: Object = {"name": name, "spec": body}
    if labels:
        result["labels"] = labels
    if annotations:
        result["annotations"] = annotations
    return result


def group(name: str, cliques: str, replicas: int = 1, minimum: int = 1, **config: Any) -> Object:
    """A scaling group's configuration; `cliques` are names with spaces between."""
    return {
        "name": name,
        "cliqueNames": cliques.split(),
        "replicas": replicas,
        "minAvailable": minimum,
        **config,
    }


def podcliqueset(name: str, *parts: Object, replicas: int = 1, **template: Any) -> Object:
    """A PodCliqueSet of cliques and groups, told apart by their fields; `template` adds to the template."""
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "template": {
                "cliques": [part for part in parts if "cliqueNames" not in part],
                "podCliqueScalingGroups": [part for part in parts if "cliqueNames" in part],
                **template,
            },
        },
    }


def workload(name: str = "w", *, groups: int = 2, **options: Any) -> Object:
    """The workload of most reports: two a; one b and three c in each replica of g; every minAvailable is 1."""
    return podcliqueset(
        name,
        clique("a", 2, 1, **options),
        clique("b", 1, 1, **options),
        clique("c", 3, 1, **options),
        group("g", "b c", groups, 1),
    )


def whole(name: str = "workload1", **options: Any) -> Object:
    """Ten pods that are one gang: every minimum is the full number (WL1)."""
    return podcliqueset(
        name,
        clique("pc-a", 2, 2, **options),
        clique("pc-b", 1, 1, **options),
        clique("pc-c", 3, 3, **options),
        group("sg-x", "pc-b pc-c", 2, 2),
    )


def partial(name: str = "workload2", **options: Any) -> Object:
    """The same ten pods with every minimum 1: a base gang, and a scaled gang of the group's second replica (WL2)."""
    return podcliqueset(
        name,
        clique("pc-a", 2, 1, **options),
        clique("pc-b", 1, 1, **options),
        clique("pc-c", 3, 1, **options),
        group("sg-x", "pc-b pc-c", 2, 1),
    )
