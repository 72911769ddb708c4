"""Validation: what passes, what passes with a warning, and that nothing hides anything else."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.admission.facts import Facts
from grove.admission.fields import ErrorKind, Field
from grove.admission.rules.startup import find_cycles
from grove.admission.validation import Result, validate_podcliqueset

Obj = dict[str, Any]
CLIQUES = "spec.template.cliques"


def clique(name: str = "a", **spec: Any) -> Obj:
    return {"name": name, "spec": {"podSpec": {"containers": [{"name": "main", "image": "busybox"}]}, **spec}}


def group(name: str, *members: str, **config: Any) -> Obj:
    return {"name": name, "cliqueNames": list(members), **config}


def a_set(*cliques: Obj, name: str = "s", replicas: int = 1, **template: Any) -> Obj:
    """A set of the cliques given, by default one called `a`."""
    template["cliques"] = list(cliques) or [clique()]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "ns"},
        "spec": {"replicas": replicas, "template": template},
    }


def with_pod(**pod_spec: Any) -> Obj:
    return a_set(clique(podSpec={"containers": [{"name": "main"}], **pod_spec}))


ACCEPTED: dict[str, Obj] = {
    "cliques and groups": a_set(
        clique("a", replicas=3, minAvailable=2),
        clique("b"),
        podCliqueScalingGroups=[group("g", "b", replicas=2)],
    ),
    "a generated name": a_set() | {"metadata": {"generateName": "s-"}},
    "name that starts with a digit": a_set(name="7b"),
    "45 characters": a_set(clique("c" * 25), name="s" * 20),
    "45 characters with a group": a_set(
        clique("c" * 15), podCliqueScalingGroups=[group("g" * 10, "c" * 15)], name="s" * 20
    ),
    "host name of 62 characters": a_set(
        clique("c" * 15, replicas=10_000, minAvailable=1),
        podCliqueScalingGroups=[group("g" * 15, "c" * 15, replicas=10_000)],
        name="s" * 15,
        replicas=10_000,
    ),
    "no role names": a_set(clique("a"), clique("b"), clique("c", roleName="")),
    "idle clique": a_set(clique(replicas=0), clique("b", replicas=0, minAvailable=3)),
    "idle group": a_set(podCliqueScalingGroups=[group("g", "a", replicas=0, minAvailable=2)]),
    "idle and scaled": a_set(clique(replicas=0, minAvailable=2, autoScalingConfig={"maxReplicas": 2})),
    "bounds all equal": a_set(clique(replicas=2, autoScalingConfig={"minReplicas": 2, "maxReplicas": 2})),
    "group below its template replicas": a_set(
        podCliqueScalingGroups=[group("g", "a", replicas=3, scaleConfig={"minReplicas": 1, "maxReplicas": 2})]
    ),
    "largest number": a_set(clique(minAvailable=1, replicas=10_000)),
    "durations": a_set(terminationDelay="1h30m0.5s"),
    "longest duration": a_set(terminationDelay="2562047h"),
    "startsAfter": a_set(
        clique("a"),
        clique("b", startsAfter=["a"]),
        clique("c", startsAfter=["b", "a"]),
        cliqueStartupType="CliqueStartupTypeExplicit",
    ),
    "same variable in two containers": with_pod(
        containers=[{"name": "x", "env": [{"name": "A"}]}, {"name": "y", "env": [{"name": "A"}]}]
    ),
    "odd variable names": with_pod(
        containers=[{"name": "x", "env": [{"name": name} for name in ("a.b-c_D", "-", "_")]}]
    ),
    "one scheduler": a_set(
        clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "default-scheduler"}), clique("b")
    ),
    "labels and annotations": a_set(
        {
            **clique(),
            "labels": {"example.com/App_1": "v1.2-x", "empty": "", "x" * 63: "y" * 63},
            "annotations": {"Example.com/A": "größe → 日本\n"},
        }
    ),
    "other names with numbers": a_set(
        clique("g-x-a"),
        clique("a"),
        clique("g-00-a"),
        clique("g-0-a-0"),
        podCliqueScalingGroups=[group("g", "a")],
    ),
    "clique and group of one name": a_set(
        clique("a", autoScalingConfig={"maxReplicas": 2}), clique("b"), podCliqueScalingGroups=[group("a", "b")]
    ),
    "gates of others": with_pod(schedulingGates=[{"name": "example.com/quota"}]),
    "nulls": a_set(
        {**clique(replicas=None, autoScalingConfig=None), "labels": None, "annotations": None},
        podCliqueScalingGroups=None,
        topologyConstraint=None,
    ),
    "status of any kind": a_set() | {"status": {"replicas": "many"}},
}


@pytest.mark.parametrize("obj", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_accepted_without_a_word(obj: Obj) -> None:
    assert validate_podcliqueset(obj) == Result()


WARNED: dict[str, tuple[Obj, list[str]]] = {
    "startsAfter that is not read": (
        a_set(clique("a"), clique("b", startsAfter=["a"])),
        [
            (
                f"{CLIQUES}[1].spec.startsAfter: has no effect with CliqueStartupTypeAnyOrder, "
                "only with CliqueStartupTypeExplicit"
            )
        ],
    ),
    "startsAfter that is not read, nor right": (
        a_set(
            clique("a", startsAfter=["b"]),
            clique("b", startsAfter=["a", "x", "b"]),
            cliqueStartupType="CliqueStartupTypeInOrder",
        ),
        [
            (
                f"{CLIQUES}[0].spec.startsAfter: has no effect with CliqueStartupTypeInOrder, "
                "only with CliqueStartupTypeExplicit"
            ),
            (
                f"{CLIQUES}[1].spec.startsAfter: has no effect with CliqueStartupTypeInOrder, "
                "only with CliqueStartupTypeExplicit"
            ),
            f"{CLIQUES}[1].spec.startsAfter[1]: Not found: there is no clique of this name in the template",
            f"{CLIQUES}[1].spec.startsAfter[2]: Invalid value: a clique cannot start after itself",
            (
                f"{CLIQUES}[0].spec.startsAfter: Invalid value: the cliques wait for each other: a → b → a; "
                "remove one of these"
            ),
        ],
    ),
    "restart policy that lets pods end": (
        with_pod(restartPolicy="Never"),
        [
            (
                f"{CLIQUES}[0].spec.podSpec.restartPolicy: with Never a pod can end; "
                "Grove then replaces the whole pod, so its work should not end"
            )
        ],
    ),
    "host name": (
        with_pod(hostname="a", subdomain=""),
        [f"{CLIQUES}[0].spec.podSpec.hostname: has no effect: Grove sets it, so that pods find each other by name"],
    ),
    "misspelled field": (
        a_set(clique(startAfter=["a"])),
        [f"{CLIQUES}[0].spec.startAfter: unknown field, has no effect; did you mean startsAfter?"],
    ),
    "fields of nobody": (
        {**a_set(zzz=1), "qqq": {}},
        [
            "spec.template.zzz: unknown field, has no effect",
            "qqq: unknown field, has no effect",
        ],
    ),
}


@pytest.mark.parametrize(("obj", "expected"), WARNED.values(), ids=WARNED.keys())
def test_accepted_with_a_warning(obj: Obj, expected: list[str]) -> None:
    result = validate_podcliqueset(obj)
    assert result.ok
    assert list(result.warnings) == expected


def test_a_required_field_that_is_misspelled_is_named_and_the_misspelling_too() -> None:
    obj = a_set({"name": "a", "spec": {"podspec": {}}})
    result = validate_podcliqueset(obj)
    assert [str(error) for error in result.errors] == [f"{CLIQUES}[0].spec.podSpec: Required value"]
    assert list(result.warnings) == [f"{CLIQUES}[0].spec.podspec: unknown field, has no effect; did you mean podSpec?"]


def test_all_problems_at_once() -> None:
    obj = a_set(
        clique("a", replicas="two"),
        clique("b", replicas=1, minAvailable=2, podSpec={"containers": []}),
        clique("b", startsAfter=["nobody"]),
        name="my.set",
        cliqueStartupType="CliqueStartupTypeExplicit",
        terminationDelay="soon",
        podCliqueScalingGroups=[group("g", "a", "ghost", replicas=-1)],
    )
    kinds = {(error.path, error.kind) for error in validate_podcliqueset(obj).errors}
    groups = "spec.template.podCliqueScalingGroups"
    assert kinds == {
        (f"{CLIQUES}[0].spec.replicas", ErrorKind.INVALID),
        ("metadata.name", ErrorKind.INVALID),
        ("spec.template.terminationDelay", ErrorKind.INVALID),
        (f"{CLIQUES}[2].name", ErrorKind.DUPLICATE),
        (f"{CLIQUES}[2].spec.roleName", ErrorKind.DUPLICATE),
        (f"{CLIQUES}[1].spec.minAvailable", ErrorKind.INVALID),
        (f"{CLIQUES}[1].spec.podSpec.containers", ErrorKind.REQUIRED),
        (f"{CLIQUES}[2].spec.startsAfter[0]", ErrorKind.NOT_FOUND),
        (f"{groups}[0].replicas", ErrorKind.INVALID),
        (f"{groups}[0].cliqueNames[1]", ErrorKind.NOT_FOUND),
    }


def test_a_mistyped_number_is_not_compared_with_others() -> None:
    result = validate_podcliqueset(a_set(clique(replicas="two", minAvailable=5)))
    assert [error.path for error in result.errors] == [f"{CLIQUES}[0].spec.replicas"]


def test_rules_for_new_objects_spare_stored_ones() -> None:
    obj = with_pod(nodeName="n1", topologySpreadConstraints=[])
    assert len(validate_podcliqueset(obj).errors) == 2
    assert validate_podcliqueset(obj, obj) == Result()


def test_the_default_scheduler_is_what_is_left_out() -> None:
    obj = a_set(clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "kai-scheduler"}), clique("b"))
    assert validate_podcliqueset(obj, facts=Facts(default_scheduler="kai-scheduler")).ok
    assert not validate_podcliqueset(obj).ok


def test_the_object_is_not_changed() -> None:
    obj = a_set(clique(replicas=2))
    before = copy.deepcopy(obj)
    validate_podcliqueset(obj)
    assert obj == before


def test_paths_name_odd_keys_and_values_are_cut() -> None:
    labels = Field({"metadata": {"labels": {"example.com/a": "x" * 200}}})["metadata"]["labels"]
    [label] = labels.items()
    assert str(label.invalid("no")) == f'metadata.labels[example.com/a]: Invalid value: "{"x" * 79}…: no'


def test_values_that_no_json_can_hold_are_shown_by_type() -> None:
    nested: list[Any] = []
    nested.append(nested)
    assert str(Field(nested)["x"].parent.invalid("no")) == "Invalid value: <list>: no"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        ({}, []),
        ({"a": []}, []),
        ({"a": ["b"], "b": []}, []),
        ({"a": ["b", "c"], "b": ["d"], "c": ["d"], "d": []}, []),
        ({"a": ["a"]}, [["a"]]),
        ({"a": ["nobody"]}, []),
        ({"b": ["a"], "a": ["b"]}, [["b", "a"]]),
        ({"x": ["c"], "a": ["b"], "b": ["c"], "c": ["a"]}, [["a", "b", "c"]]),
        ({"a": ["b"], "b": ["a"], "c": ["d", "a"], "d": ["c"]}, [["a", "b"], ["c", "d"]]),
        ({"a": ["b", "c"], "b": ["a"], "c": ["a"]}, [["a", "b"]]),
    ],
)
def test_cycles(graph: dict[str, list[str]], expected: list[list[str]]) -> None:
    assert find_cycles(graph) == expected


def test_a_cycle_of_any_length_is_found() -> None:
    graph = {str(i): [str((i + 1) % 50_000)] for i in range(50_000)}
    [cycle] = find_cycles(graph)
    assert cycle == [str(i) for i in range(50_000)]
