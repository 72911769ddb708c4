"""Whatever is thrown at admission, it answers; and what it accepts can be planned."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grove.admission import Facts, default, validate
from grove.admission.defaults import default_podcliqueset
from grove.admission.validation import validate_podcliqueset
from grove.api.podcliqueset import PodCliqueSet
from grove.plan.expand import expand
from grove.plan.template import Template
from tests.sets import podcliquesets

HOST_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

KEYS = [
    "metadata", "name", "namespace", "generateName", "labels", "annotations", "spec", "template", "cliques", "replicas",
    "minAvailable", "podSpec", "containers", "initContainers", "env", "ports", "restartPolicy", "startsAfter",
    "autoScalingConfig", "scaleConfig", "minReplicas", "maxReplicas", "podCliqueScalingGroups", "cliqueNames",
    "terminationDelay", "cliqueStartupType", "headlessServiceConfig", "updateStrategy", "schedulerName", "roleName",
]  # fmt: skip
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["a", "b", "g", "CliqueStartupTypeExplicit", "4h", "9" * 200_000, "-1h", "٣h", "\ud800", "\x00"])
)
json_like = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=4), inner, max_size=5)
    ),
    max_leaves=25,
)


def good_set() -> dict[str, Any]:
    container = {"name": "main", "env": [{"name": "A", "value": "x"}], "ports": [{"containerPort": 80}]}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "s", "namespace": "ns", "labels": {"app": "x"}, "annotations": {"a": "b"}},
        "spec": {
            "replicas": 2,
            "updateStrategy": {"type": "OnDelete"},
            "template": {
                "cliqueStartupType": "CliqueStartupTypeExplicit",
                "terminationDelay": "1m",
                "headlessServiceConfig": {"publishNotReadyAddresses": False},
                "topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}},
                "resourceClaimTemplates": [
                    {"name": "r", "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}
                ],
                "resourceSharing": [{"name": "r", "scope": "AllReplicas", "filter": {"childCliqueNames": ["a"]}}],
                "cliques": [
                    {
                        "name": "a",
                        "labels": {"x": "y"},
                        "annotations": {"x": "y"},
                        "spec": {
                            "roleName": "leader",
                            "replicas": 3,
                            "minAvailable": 2,
                            "podSpec": {"containers": [container], "schedulingGates": [{"name": "example.com/g"}]},
                            "autoScalingConfig": {
                                "minReplicas": 2,
                                "maxReplicas": 5,
                                "metrics": [{"type": "Resource"}],
                            },
                        },
                    },
                    {
                        "name": "b",
                        "spec": {
                            "replicas": 2,
                            "podSpec": {"initContainers": [container], "containers": [container]},
                            "startsAfter": ["a"],
                        },
                    },
                ],
                "podCliqueScalingGroups": [
                    {
                        "name": "g",
                        "cliqueNames": ["b"],
                        "replicas": 3,
                        "minAvailable": 2,
                        "annotations": {"x": "y"},
                        "scaleConfig": {"maxReplicas": 4},
                    }
                ],
            },
        },
    }


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths to all values in an object."""
    entries: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in entries:
        yield (*path, key)
        yield from places(item, (*path, key))


PLACES = list(places(good_set()))
MUTATIONS = st.lists(
    st.tuples(st.sampled_from(PLACES), st.sampled_from(["set", "drop", "repeat"]), json_like), min_size=1, max_size=3
)


def mutated(mutations: list[tuple[tuple[Any, ...], str, Any]]) -> dict[str, Any]:
    obj = good_set()
    for path, what, value in mutations:
        owner: Any = obj
        try:
            for step in path[:-1]:
                owner = owner[step]
            if what == "drop":
                del owner[path[-1]]
            elif what == "repeat" and isinstance(owner, list):
                owner.append(copy.deepcopy(owner[path[-1]]))
            else:
                owner[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier mutation took that place away
    return obj


def check(obj: Any) -> None:
    before = copy.deepcopy(obj)
    result = validate_podcliqueset(obj)
    assert repr(obj) == repr(before)
    for line in (*map(str, result.errors), *result.warnings):
        assert line
    if result.ok:
        check_plan(default_podcliqueset(obj))


def check_plan(obj: dict[str, Any]) -> None:
    """A set that was accepted can be planned; PodCliques and pods have distinct names that DNS can hold."""
    spec = obj["spec"]
    obj = {**obj, "metadata": {**obj["metadata"], "name": obj["metadata"].get("name") or "generated"}}
    if any(number > 50 for number in _replicas(spec)):
        return
    replicas = expand(Template(PodCliqueSet.from_wire(obj)))
    podcliques = [podclique["metadata"]["name"] for replica in replicas for podclique in replica.podcliques]
    hosts = [pod["spec"]["hostname"] for replica in replicas for pod in replica.pods]
    assert all(HOST_NAME.fullmatch(host) for host in hosts)
    assert len(podcliques) == len(set(podcliques))
    assert len(hosts) == len(set(hosts))


def _replicas(spec: dict[str, Any]) -> Iterator[int]:
    yield spec.get("replicas") or 0
    template = spec["template"]
    yield from (clique["spec"]["replicas"] for clique in template["cliques"])
    yield from (group["replicas"] for group in template.get("podCliqueScalingGroups") or ())


def test_the_set_that_is_mutated_is_a_good_one() -> None:
    assert validate_podcliqueset(good_set()).errors == ()
    check_plan(default_podcliqueset(good_set()))


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(json_like)
def test_any_json_gets_an_answer(obj: Any) -> None:
    check(obj)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(MUTATIONS)
def test_a_damaged_set_gets_an_answer(mutations: list[tuple[tuple[Any, ...], str, Any]]) -> None:
    check(mutated(mutations))


ODD: list[Any] = [None, True, -1, 2**40, 1.5, float("nan"), "", "x", "9" * 200_000, [], [None], [[]], {}, {"": None}]


@pytest.mark.parametrize("path", PLACES, ids=lambda path: ".".join(map(str, path)))
def test_every_place_takes_every_odd_value(path: tuple[Any, ...]) -> None:
    for value in ODD:
        check(mutated([(path, "set", value)]))
    check(mutated([(path, "drop", None)]))
    check(mutated([(path, "repeat", None)]))


@st.composite
def sets_with_alike_names(draw: st.DrawFn) -> dict[str, Any]:
    names = draw(st.lists(st.sampled_from(["a", "g", "g-0-a", "1-a", "g-0"]), min_size=2, unique=True))
    grouped = draw(st.permutations(names))[1:]
    obj = good_set()
    obj["spec"]["template"] = {
        "cliques": [{"name": name, "spec": {"podSpec": {"containers": [{"name": "main"}]}}} for name in names],
        "podCliqueScalingGroups": [
            {"name": name, "cliqueNames": [member], "replicas": 2}
            for name, member in zip(draw(st.permutations(["g", "g-0", "a"])), grouped, strict=False)
        ],
    }
    return obj


@settings(max_examples=200, deadline=None)
@given(sets_with_alike_names())
def test_names_that_pass_never_meet(obj: dict[str, Any]) -> None:
    check(obj)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(podcliquesets())
def test_a_set_that_is_accepted_can_be_planned(obj: dict[str, Any]) -> None:
    check(obj)


def test_most_of_these_sets_are_accepted() -> None:
    """Else the test before would show little."""
    accepted = []

    @settings(max_examples=100, deadline=None, database=None, derandomize=True)
    @given(podcliquesets())
    def count(obj: dict[str, Any]) -> None:
        accepted.append(validate_podcliqueset(obj).ok)

    count()
    assert sum(accepted) > len(accepted) / 4


def test_five_thousand_damaged_sets_get_an_answer() -> None:
    """Plain random damage, of the object and of the one before; an exception would fail the test."""
    random = Random(4)
    short = [value for value in ODD if len(str(value)) < 100]
    values = [*short, "CliqueStartupTypeExplicit", ["a"], ["b", "b"], {"pack": {}}, -(2**70), "\ud800", "0s", {"a": 1}]

    def damaged() -> dict[str, Any]:
        damage = [
            (random.choice(PLACES), random.choice(["set", "set", "drop", "repeat"]), copy.copy(random.choice(values)))
            for _ in range(random.randint(1, 4))
        ]
        return mutated(damage)

    facts = Facts(
        schedulers=("default-scheduler",), topology_aware=True, topologies={"t": ("zone", "rack")}, mnnvl=False
    )
    for _ in range(5000):
        new, old = damaged(), random.choice([None, damaged(), good_set()])
        full = default(new, old)
        assert default(full, old) == full
        result = validate(new, old, facts)
        assert all(map(str, result.errors))


def test_huge_input_is_answered_in_reasonable_steps() -> None:
    obj = good_set()
    clique = obj["spec"]["template"]["cliques"][0]
    obj["spec"]["template"]["cliques"] = [
        {**clique, "name": f"c-{i}", "spec": {**clique["spec"], "roleName": "r", "startsAfter": [f"c-{i + 1}", "x"]}}
        for i in range(2000)
    ]
    obj["spec"]["template"]["podCliqueScalingGroups"] = [
        {"name": f"g-{i}", "cliqueNames": [f"c-{i}"]} for i in range(2000)
    ]
    result = validate_podcliqueset(obj)
    duplicates = [error for error in result.errors if error.path.endswith("roleName")]
    assert len(duplicates) == 1999


def test_deep_input_is_answered() -> None:
    deep: Any = "end"
    for _ in range(900):
        deep = [deep]
    obj = good_set()
    obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["volumes"] = deep
    assert validate_podcliqueset(obj).ok
    obj["spec"]["template"]["terminationDelay"] = deep
    [error] = validate_podcliqueset(obj).errors
    assert error.path == "spec.template.terminationDelay"
    assert str(error)
