"""Defaults: each rule, nothing but the rule, and never twice."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from grove.admission import validate
from grove.admission.defaults import default_podcliqueset

CRD = Path(__file__).parents[2] / "crds" / "grove.io_podcliquesets.yaml"


def a_set(clique_spec: Any = None, **template: Any) -> dict[str, Any]:
    """A set of one clique `a`."""
    spec = {"podSpec": {"containers": [{"name": "main"}]}, **(clique_spec or {})}
    return {
        "metadata": {"name": "s", "namespace": "ns"},
        "spec": {"template": {"cliques": [{"name": "a", "spec": spec}], **template}},
    }


def defaulted_clique(**spec: Any) -> dict[str, Any]:
    result: dict[str, Any] = default_podcliqueset(a_set(spec))["spec"]["template"]["cliques"][0]["spec"]
    return result


def defaulted_group(**group: Any) -> dict[str, Any]:
    obj = a_set(podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["a"], **group}])
    result: dict[str, Any] = default_podcliqueset(obj)["spec"]["template"]["podCliqueScalingGroups"][0]
    return result


def test_everything_that_has_a_default_gets_it() -> None:
    obj = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s"},
        "spec": {
            "updateStrategy": {},
            "template": {
                "cliques": [
                    {
                        "name": "a",
                        "spec": {
                            "podSpec": {"containers": [{"name": "main", "ports": [{"containerPort": 80}]}]},
                            "autoScalingConfig": {"maxReplicas": 4},
                        },
                    }
                ],
                "podCliqueScalingGroups": [{"name": "g", "cliqueNames": [], "scaleConfig": {"maxReplicas": 4}}],
            },
        },
    }
    assert default_podcliqueset(obj) == {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": "default"},
        "spec": {
            "updateStrategy": {"type": "RollingRecreate"},
            "template": {
                "cliqueStartupType": "CliqueStartupTypeAnyOrder",
                "terminationDelay": "4h",
                "headlessServiceConfig": {"publishNotReadyAddresses": True},
                "cliques": [
                    {
                        "name": "a",
                        "spec": {
                            "roleName": "a",
                            "replicas": 1,
                            "minAvailable": 1,
                            "podSpec": {
                                "containers": [{"name": "main", "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                                "restartPolicy": "Always",
                                "terminationGracePeriodSeconds": 30,
                            },
                            "autoScalingConfig": {"minReplicas": 1, "maxReplicas": 4},
                        },
                    }
                ],
                "podCliqueScalingGroups": [
                    {
                        "name": "g",
                        "cliqueNames": [],
                        "replicas": 1,
                        "minAvailable": 1,
                        "scaleConfig": {"minReplicas": 1, "maxReplicas": 4},
                    }
                ],
            },
        },
    }


@pytest.mark.parametrize(
    ("given_values", "replicas", "min_available"),
    [
        ({}, 1, 1),
        ({"replicas": None, "minAvailable": None}, 1, 1),
        ({"replicas": 4}, 4, 4),
        ({"replicas": 4, "minAvailable": 2}, 4, 2),
        ({"replicas": 0}, 0, 1),
        ({"replicas": 0, "minAvailable": 3}, 0, 3),
        ({"minAvailable": 3}, 1, 3),
        ({"replicas": -2}, -2, 1),
    ],
)
def test_clique_replicas_and_min_available(given_values: dict[str, Any], replicas: int, min_available: int) -> None:
    spec = defaulted_clique(**given_values)
    assert (spec["replicas"], spec["minAvailable"]) == (replicas, min_available)


@pytest.mark.parametrize(
    ("given_values", "min_replicas"),
    [
        ({}, 1),
        ({"replicas": 4}, 4),
        ({"replicas": 4, "minAvailable": 2}, 4),
        ({"replicas": 0}, 1),
        ({"replicas": 0, "minAvailable": 3}, 3),
    ],
)
def test_min_replicas_follow_the_defaulted_numbers(given_values: dict[str, Any], min_replicas: int) -> None:
    spec = defaulted_clique(**given_values, autoScalingConfig={"maxReplicas": 9})
    assert spec["autoScalingConfig"] == {"maxReplicas": 9, "minReplicas": min_replicas}
    group = defaulted_group(**{"minAvailable": 1, **given_values}, scaleConfig={"maxReplicas": 9})
    assert group["scaleConfig"] == {"maxReplicas": 9, "minReplicas": min_replicas}


def test_min_replicas_that_are_given_stay_and_no_autoscaler_is_invented() -> None:
    config = {"minReplicas": 2, "maxReplicas": 9}
    assert defaulted_clique(replicas=4, autoScalingConfig=config)["autoScalingConfig"] == config
    assert "autoScalingConfig" not in defaulted_clique()
    assert "scaleConfig" not in defaulted_group()


def test_an_idle_group_stays_idle() -> None:
    assert (defaulted_group(replicas=0)["replicas"], defaulted_group(replicas=0)["minAvailable"]) == (0, 1)


@pytest.mark.parametrize(("role", "expected"), [(None, "a"), ("", "a"), ("worker", "worker")])
def test_role_name_is_the_cliques_name_by_default(role: str | None, expected: str) -> None:
    assert defaulted_clique(roleName=role)["roleName"] == expected


def test_what_is_given_stays() -> None:
    obj = a_set(
        {
            "roleName": "r",
            "replicas": 2,
            "minAvailable": 1,
            "podSpec": {"containers": [], "restartPolicy": "Never", "terminationGracePeriodSeconds": 0},
        },
        cliqueStartupType="CliqueStartupTypeInOrder",
        terminationDelay="1m",
        headlessServiceConfig={"publishNotReadyAddresses": False},
    )
    assert default_podcliqueset(obj) is obj


def test_blank_restart_policy_and_namespace_count_as_absent() -> None:
    assert defaulted_clique(podSpec={"restartPolicy": ""})["podSpec"]["restartPolicy"] == "Always"
    assert default_podcliqueset({"metadata": {"namespace": ""}})["metadata"]["namespace"] == "default"


def test_an_empty_headless_service_config_publishes_not_ready_addresses() -> None:
    template = default_podcliqueset(a_set(headlessServiceConfig={}))["spec"]["template"]
    assert template["headlessServiceConfig"] == {"publishNotReadyAddresses": True}


def test_neither_replicas_of_the_set_nor_an_update_strategy_are_added() -> None:
    spec = default_podcliqueset(a_set())["spec"]
    assert spec.keys() == {"template"}


def test_the_input_is_not_changed_and_untouched_parts_are_shared() -> None:
    obj = a_set({"replicas": 2}, resourceSharing=[{"name": "x", "scope": "AllReplicas"}])
    before = copy.deepcopy(obj)
    result = default_podcliqueset(obj)
    assert obj == before
    assert result["spec"]["template"]["resourceSharing"] is obj["spec"]["template"]["resourceSharing"]
    containers = result["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
    assert containers is obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]


def test_defaults_shared_between_objects_are_not_the_objects_to_change() -> None:
    one, other = default_podcliqueset(a_set()), default_podcliqueset(a_set())
    one["spec"]["template"]["headlessServiceConfig"]["publishNotReadyAddresses"] = False
    assert other["spec"]["template"]["headlessServiceConfig"]["publishNotReadyAddresses"] is True


def test_defaults_of_the_crd_are_the_same() -> None:
    schema = yaml.load(CRD.read_text(encoding="utf-8"), yaml.CSafeLoader)["spec"]["versions"][0]["schema"][
        "openAPIV3Schema"
    ]
    spec = schema["properties"]["spec"]["properties"]
    template = spec["template"]["properties"]
    group = template["podCliqueScalingGroups"]["items"]["properties"]
    container = template["cliques"]["items"]["properties"]["spec"]["properties"]["podSpec"]["properties"]["containers"]
    ours = default_podcliqueset(
        {"spec": {"updateStrategy": {}, "template": {"podCliqueScalingGroups": [{}], "cliques": [
            {"spec": {"podSpec": {"containers": [{"ports": [{}]}]}}}]}}}
    )["spec"]  # fmt: skip
    assert ours["updateStrategy"]["type"] == spec["updateStrategy"]["properties"]["type"]["default"]
    assert ours["template"]["cliqueStartupType"] == template["cliqueStartupType"]["default"]
    published = template["headlessServiceConfig"]["properties"]["publishNotReadyAddresses"]["default"]
    assert ours["template"]["headlessServiceConfig"]["publishNotReadyAddresses"] == published
    for key in ("replicas", "minAvailable"):
        assert ours["template"]["podCliqueScalingGroups"][0][key] == group[key]["default"]
    port = container["items"]["properties"]["ports"]["items"]["properties"]
    [ours_container] = ours["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
    assert ours_container["ports"][0]["protocol"] == port["protocol"]["default"]


PATHS: dict[str, list[Any]] = {
    "metadata": ["metadata"],
    "spec": ["spec"],
    "template": ["spec", "template"],
    "cliques": ["spec", "template", "cliques"],
    "groups": ["spec", "template", "podCliqueScalingGroups"],
    "clique": ["spec", "template", "cliques", 0, "spec"],
    "pod": ["spec", "template", "cliques", 0, "spec", "podSpec"],
    "container": ["spec", "template", "cliques", 0, "spec", "podSpec", "containers", 0],
}


@pytest.mark.parametrize("value", [None, "x", 5, True, [], [None], ["x"], {}, {"name": 3}, [{"spec": None}]])
@pytest.mark.parametrize("path", PATHS.values(), ids=PATHS.keys())
def test_values_of_the_wrong_type_pass_through(path: list[Any], value: Any) -> None:
    obj: dict[str, Any] = a_set()
    *steps, last = path
    _at(obj, steps)[last] = value
    result = default_podcliqueset(obj)
    assert default_podcliqueset(result) is result
    if not isinstance(value, dict | list):
        assert _at(result, path) == value


def _at(obj: Any, path: list[Any]) -> Any:
    for step in path:
        obj = obj[step]
    return obj


numbers = st.none() | st.integers(-2, 5) | st.booleans() | st.text(max_size=2)
scaled: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {}, optional={"replicas": numbers, "minAvailable": numbers, "autoScalingConfig": st.none() | st.just({})}
)


@given(scaled)
def test_defaulting_twice_is_the_same_as_once(spec: dict[str, Any]) -> None:
    once = default_podcliqueset(a_set(spec))
    assert default_podcliqueset(once) is once
    for key, value in spec.items():
        if value is not None and not isinstance(value, dict):
            assert once["spec"]["template"]["cliques"][0]["spec"][key] is value


def updated(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The spec of the clique after an update."""
    result: dict[str, Any] = default_podcliqueset(a_set(new), a_set(old))["spec"]["template"]["cliques"][0]["spec"]
    return result


@pytest.mark.parametrize(
    ("old", "new", "role", "minimum"),
    [
        ({"replicas": 3, "minAvailable": 2, "roleName": "x"}, {"replicas": 5}, "x", 2),
        (
            {"replicas": 3, "minAvailable": 2, "roleName": "x"},
            {"replicas": 5, "minAvailable": 1, "roleName": "y"},
            "y",
            1,
        ),
        ({"replicas": 3}, {"replicas": 5}, "a", 3),
        ({}, {"replicas": 5, "minAvailable": None, "roleName": ""}, "a", 1),
        ({"replicas": 0}, {"replicas": 4}, "a", 1),
        ({"roleName": "", "replicas": 2}, {"replicas": 2}, "a", 2),
    ],
)
def test_what_cannot_change_is_kept_where_an_update_leaves_it_out(
    old: dict[str, Any], new: dict[str, Any], role: str, minimum: int
) -> None:
    """Else minAvailable would move with the replicas, and the update would be refused."""
    spec = updated(old, new)
    assert (spec["roleName"], spec["minAvailable"]) == (role, minimum)


def test_an_update_of_an_object_from_before_the_webhooks_adds_nothing_that_cannot_be() -> None:
    old = a_set({"replicas": 2})
    new = copy.deepcopy(old) | {"metadata": {"name": "s", "namespace": "ns", "finalizers": []}}
    assert validate(default_podcliqueset(new, old), old).ok
    assert default_podcliqueset(new, old) == default_podcliqueset(new)


def test_a_group_keeps_its_minimum_where_an_update_leaves_it_out() -> None:
    def with_group(**config: Any) -> dict[str, Any]:
        return a_set(podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["a"], **config}])

    new = default_podcliqueset(with_group(replicas=4), with_group(replicas=3, minAvailable=2))
    assert new["spec"]["template"]["podCliqueScalingGroups"][0]["minAvailable"] == 2


@pytest.mark.parametrize("old", [None, {}, {"spec": []}, {"spec": {"template": {"cliques": [None, {"name": []}]}}}])
def test_an_odd_object_before_does_not_matter(old: Any) -> None:
    assert default_podcliqueset(a_set(), old) == default_podcliqueset(a_set())
