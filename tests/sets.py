"""Random PodCliqueSets that people could write: nearly right, in every part that admission has rules for."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

Obj = dict[str, Any]

_names = st.from_regex(r"[a-z]([-a-z0-9]{0,5}[a-z0-9])?", fullmatch=True)
_container: st.SearchStrategy[Obj] = st.fixed_dictionaries(
    {"name": st.just("main"), "image": st.just("busybox:stable")},
    optional={
        "env": st.lists(st.sampled_from(["A", "b.c", "GROVE_PCS_NAME", "_"]), unique=True, max_size=2).map(
            lambda names: [{"name": name, "value": "x"} for name in names]
        ),
        "ports": st.just([{"containerPort": 80}]),
        "resources": st.just({"limits": {"nvidia.com/gpu": 1}}),
    },
)
_metadata = st.dictionaries(st.sampled_from(["app", "example.com/x"]), st.sampled_from(["", "v1", "A_b.c"]), max_size=2)


@st.composite
def pod_specs(draw: st.DrawFn) -> Obj:
    """A podSpec of one container, now and then with another one before it."""
    spec: Obj = {"containers": [draw(_container)]}
    if draw(st.booleans()):
        spec["initContainers"] = [{"name": "first", "image": "busybox:stable"}]
    spec |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "restartPolicy": st.sampled_from(["Always", "OnFailure", "Never"]),
                "terminationGracePeriodSeconds": st.integers(0, 60),
                "hostname": st.just("mine"),
                "priorityClassName": st.just("system-cluster-critical"),
                "schedulingGates": st.just([{"name": "example.com/gate"}]),
                "nodeSelector": st.just({"example.com/gpu": "yes"}),
            },
        )
    )
    return spec


@st.composite
def autoscalers(draw: st.DrawFn) -> Obj:
    """An AutoScalingConfig."""
    config: Obj = {"maxReplicas": draw(st.integers(1, 6))}
    if draw(st.booleans()):
        config["minReplicas"] = draw(st.integers(1, 3))
    return config


@st.composite
def cliques(draw: st.DrawFn, name: str, before: list[str]) -> Obj:
    """A clique; it may start after any of those `before` it."""
    spec: Obj = {"podSpec": draw(pod_specs())}
    for key, least, most in (("replicas", 0, 4), ("minAvailable", 1, 3)):
        if draw(st.booleans()):
            spec[key] = draw(st.integers(least, most))
    if draw(st.booleans()) and before:
        spec["startsAfter"] = before[-draw(st.integers(1, 2)) :]
    if draw(st.integers(0, 3)) == 0:
        spec["autoScalingConfig"] = draw(autoscalers())
    if draw(st.booleans()):
        spec["roleName"] = f"role-{name}"
    result: Obj = {"name": name, "spec": spec}
    if draw(st.booleans()):
        result |= {"labels": draw(_metadata), "annotations": draw(_metadata)}
    return result


@st.composite
def podcliquesets(draw: st.DrawFn) -> Obj:
    """A PodCliqueSet of up to five cliques and two scaling groups."""
    names = draw(st.lists(_names, min_size=1, max_size=5, unique=True))
    template: Obj = {"cliques": [draw(cliques(name, names[:index])) for index, name in enumerate(names)]}
    grouped = draw(st.permutations(names))[: draw(st.integers(0, len(names)))]
    groups = [part for part in (grouped[:2], grouped[2:4]) if part]
    if groups:
        called = draw(st.lists(_names, min_size=len(groups), max_size=len(groups), unique=True))
        template["podCliqueScalingGroups"] = [
            draw(
                st.fixed_dictionaries(
                    {"name": st.just(name), "cliqueNames": st.just(list(members))},
                    optional={
                        "replicas": st.integers(0, 4),
                        "minAvailable": st.integers(1, 2),
                        "annotations": _metadata,
                        "scaleConfig": autoscalers(),
                    },
                )
            )
            for name, members in zip(called, groups, strict=True)
        ]
    template |= draw(
        st.fixed_dictionaries(
            {},
            optional={
                "cliqueStartupType": st.sampled_from(
                    ["CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"]
                ),
                "terminationDelay": st.sampled_from(["4h", "1m30s", "500ms"]),
                "headlessServiceConfig": st.sampled_from([{}, {"publishNotReadyAddresses": False}]),
                "priorityClassName": st.just("system-node-critical"),
            },
        )
    )
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": draw(_names), "namespace": "default", "labels": draw(_metadata)},
        "spec": {"replicas": draw(st.integers(0, 3)), "template": template},
    }
