"""Validation beyond single cases: all problems at once, the paths and values of errors, cycles."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from grove.admission.facts import Facts
from grove.admission.fields import ErrorKind, Field
from grove.admission.validation import Result, validate_podcliqueset
from grove.plan.startup import find_cycles
from tests.admission_cases.case import CLIQUES, a_set, clique, group, with_pod


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
    obj["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
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
