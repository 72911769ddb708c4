"""The init container: where it goes, and what it must not change."""

import copy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from grove.plan.diff import quantity
from grove.plan.init_container import Hold, InitContainer, Program
from grove.plan.pods import build_pod
from tests.unit.support import Object, Paper, clique, pod_set

OWNER = Paper.of(pod_set(clique("a", 1), clique("b", 1), cliqueStartupType="CliqueStartupTypeInOrder")).podcliques[
    "web-0-b"
]


def held(pod_spec: Object, settings: InitContainer | None = None, waits_for: str = "a", **annotations: str) -> Object:
    pod: Object = {"metadata": {"name": "p", "annotations": annotations}, "spec": copy.deepcopy(pod_spec)}
    Hold(settings or InitContainer(), waits_for).apply(pod)
    return pod


def container(pod: Object) -> Object:
    [found] = [one for one in pod["spec"]["initContainers"] if one["name"] == "grove-initc"]
    return dict(found)


MAIN = {"name": "main", "image": "main:1"}


def test_nothing_of_the_users_is_moved() -> None:
    """T5: own init containers, sidecars, containers and volumes keep their order, whatever they are called."""
    spec = {
        "initContainers": [{"name": "z"}, {"name": "sidecar", "restartPolicy": "Always"}, {"name": "a"}],
        "containers": [{"name": "z-main"}, {"name": "a-main"}],
        "volumes": [{"name": "z-vol"}, {"name": "a-vol"}],
        "serviceAccountName": "mine",
    }
    pod = held(spec)["spec"]
    assert [one["name"] for one in pod["initContainers"]] == ["z", "sidecar", "a", "grove-initc"]
    assert [one["name"] for one in pod["volumes"]] == ["z-vol", "a-vol", "pod-info-vol"]
    assert pod["containers"] == spec["containers"]
    assert pod["initContainers"][:-1] == spec["initContainers"]
    assert pod["serviceAccountName"] == "mine"


def test_no_credentials_and_no_variables() -> None:
    pod = held({"containers": [MAIN]})
    added = container(pod)
    assert added.keys() == {
        "name", "image", "imagePullPolicy", "command", "resources", "securityContext", "volumeMounts"
    }  # fmt: skip
    assert added["volumeMounts"] == [{"name": "pod-info-vol", "mountPath": "/var/grove/pod-info", "readOnly": True}]
    [volume] = pod["spec"]["volumes"]
    paths = {item["path"]: item["fieldRef"]["fieldPath"] for item in volume["downwardAPI"]["items"]}
    assert paths == {
        "startup": "metadata.annotations['grove.io/startup']",
        "waiting-for": "metadata.annotations['grove.io/startup-waiting-for']",
    }


def test_the_users_volume_of_that_name_stays() -> None:
    pod = held({"containers": [MAIN], "volumes": [{"name": "pod-info-vol"}, {"name": "grove-pod-info-vol"}]})
    assert container(pod)["volumeMounts"][0]["name"] == "grove-grove-pod-info-vol"
    assert [one["name"] for one in pod["spec"]["volumes"]][-1] == "grove-grove-pod-info-vol"


def test_born_waiting_or_released() -> None:
    notes = {"mine": "1", "grove.io/startup": "released", "grove.io/startup-waiting-for": "x"}
    waiting = held({"containers": [MAIN]}, None, "a (at least 1 ready)", **notes)["metadata"]["annotations"]
    assert waiting == {"mine": "1", "grove.io/startup-waiting-for": "a (at least 1 ready)"}
    free = held({"containers": [MAIN]}, None, "", **notes)["metadata"]["annotations"]
    assert free == {"mine": "1", "grove.io/startup": "released"}


def test_the_podclique_itself_is_not_touched() -> None:
    before = copy.deepcopy(OWNER.wire)
    made = build_pod(OWNER, 0, "p", None, Hold(InitContainer(), "a"))
    assert OWNER.wire == before
    assert container(made)["name"] == "grove-initc"
    assert "env" in made["spec"]["containers"][0]
    assert "initContainers" not in build_pod(OWNER, 0, "p", None)["spec"]


def test_fit_for_the_restricted_standard() -> None:
    """Pod Security Standards, restricted: what each container has to say."""
    security = container(held({"containers": [MAIN]}))["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert security["runAsNonRoot"] is True
    assert security["runAsUser"] > 0
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert security["readOnlyRootFilesystem"] is True


@pytest.mark.parametrize(
    ("pod_user", "configured", "expected"),
    [(None, 65532, 65532), (1000, 65532, None), (0, 65532, 65532), (None, None, None), (None, 7, 7)],
)
def test_the_user(pod_user: int | None, configured: int | None, expected: int | None) -> None:
    """The pod's own user, unless that is root."""
    spec: Object = {"containers": [MAIN]}
    if pod_user is not None:
        spec["securityContext"] = {"runAsUser": pod_user}
    security = container(held(spec, InitContainer(run_as_user=configured)))["securityContext"]
    assert security.get("runAsUser") == expected


def test_programs_and_images() -> None:
    shell = container(held({"containers": [MAIN]}))
    assert shell["command"][:2] == ["/bin/sh", "-c"]
    assert shell["image"] == "docker.io/library/busybox:1.37.0"
    settings = InitContainer(program=Program.PYTHON, image="op:2", image_pull_policy="Always")
    python = container(held({"containers": [MAIN]}, settings))
    assert python["command"] == ["python", "-m", "grove.initc", "/var/grove/pod-info/startup"]
    assert (python["image"], python["imagePullPolicy"]) == ("op:2", "Always")


@pytest.mark.parametrize(
    "wrong",
    [
        {"program": "python"},
        {"program": "go"},
        {"cpu": "much"},
        {"memory": ""},
        {"imagePullPolicy": "Sometimes"},
        {"runAsUser": 0},
    ],
)
def test_wrong_configuration(wrong: Object) -> None:
    with pytest.raises(ValidationError):
        InitContainer.model_validate(wrong)


# Resources

amounts = st.sampled_from(["1m", "50m", "100m", "0.2", "1", "4"])
sizes = st.sampled_from(["1Mi", "16Mi", "64Mi", "100M", "1Gi"])
lists = st.fixed_dictionaries({}, optional={"cpu": amounts, "memory": sizes, "nvidia.com/gpu": st.just("1")})


@st.composite
def containers(draw: st.DrawFn) -> Object:
    """A container as the API accepts it: a request is never above its limit."""
    limits = draw(lists)
    requests = {name: value for name, value in draw(lists).items() if amount(value) <= amount(limits.get(name, "99Gi"))}
    resources = {kind: value for kind, value in (("requests", requests), ("limits", limits)) if value}
    if draw(st.booleans()) and limits:
        resources["requests"] = dict(limits)
    return {"name": "c", **({"resources": resources} if resources else {})}


def amount(value: str) -> Decimal:
    found = quantity(value)
    assert found is not None
    return found


def given_of(one: Object, kind: str) -> dict[str, str]:
    """Requests with the limits in place of those that are missing, as the API server has it, or the limits."""
    resources = one.get("resources") or {}
    if kind == "limits":
        return dict(resources.get("limits") or {})
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def quality(spec: Object) -> str:
    """The pod's quality of service by Kubernetes' rules: cpu and memory of all containers, init containers too."""
    every = [*spec["containers"], *spec.get("initContainers", ())]
    requests = [{k: amount(v) for k, v in given_of(one, "requests").items() if k in ("cpu", "memory")} for one in every]
    limits = [{k: amount(v) for k, v in given_of(one, "limits").items() if k in ("cpu", "memory")} for one in every]
    if not any(requests) and not any(limits):
        return "BestEffort"
    full = all(have.keys() == {"cpu", "memory"} for have in limits)
    return "Guaranteed" if full and requests == limits else "Burstable"


def asked(spec: Object, kind: str, name: str) -> Decimal:
    """What the pod asks of a node: the sum of its containers, or more when an init container alone needs more."""
    total = sum((amount(given_of(one, kind).get(name, "0")) for one in spec["containers"]), Decimal(0))
    alone = [amount(given_of(one, kind).get(name, "0")) for one in spec.get("initContainers", ())]
    return max([total, *alone])


@given(st.lists(containers(), min_size=1, max_size=3), st.lists(containers(), max_size=2))
def test_quality_of_service_and_demand_stay(main: list[Object], init: list[Object]) -> None:
    before: Object = {"containers": main, **({"initContainers": init} if init else {})}
    pod = held(before)
    after = pod["spec"]
    assert quality(after) == quality(before)
    for kind in ("requests", "limits"):
        for name in ("cpu", "memory", "nvidia.com/gpu"):
            assert asked(after, kind, name) == asked(before, kind, name)
    added = container(pod)
    for name in given_of(added, "limits"):
        assert amount(given_of(added, "requests")[name]) <= amount(given_of(added, "limits")[name])
    # A quota on a resource demands a number of every container, and these have one.
    for kind in ("requests", "limits"):
        for name in ("cpu", "memory"):
            if all(name in given_of(one, kind) for one in main):
                assert name in given_of(added, kind)


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, {}),
        ({"requests": {"nvidia.com/gpu": 8}, "limits": {"nvidia.com/gpu": 8}}, {}),
        ({"requests": {"cpu": 2}}, {"requests": {"cpu": "100m"}}),
        ({"requests": {"cpu": "10m", "memory": "1Gi"}}, {"requests": {"cpu": "10m", "memory": "64Mi"}}),
        ({"limits": {"memory": "1Gi"}}, {"requests": {"memory": "64Mi"}, "limits": {"memory": "64Mi"}}),
    ],
)
def test_resources(resources: dict[str, Any], expected: Object) -> None:
    assert container(held({"containers": [{**MAIN, "resources": resources}]}))["resources"] == expected


def test_resources_of_the_pod_as_a_whole() -> None:
    """Where the pod itself has requests and limits, they decide the quality of service, and cover all containers."""
    spec = {"containers": [MAIN], "resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}
    assert container(held(spec))["resources"] == {}
