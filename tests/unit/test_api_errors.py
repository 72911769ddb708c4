"""What is wrong with an object is said per field: the path, the value and what would be right."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from grove.api.base import field_errors, field_path
from grove.api.podcliqueset import PodCliqueSet


def test_wrong_values_are_named_with_their_path_and_what_would_be_right() -> None:
    obj = {
        "spec": {
            "replicas": "two",
            "template": {
                "cliqueStartupType": "Sometime",
                "headlessServiceConfig": {"publishNotReadyAddresses": "yes"},
                "topologyConstraint": {"pack": []},
                "podCliqueScalingGroups": {},
                "cliques": [
                    {"name": "a", "labels": {"example.com/rank": 1}, "spec": {"podSpec": {}}},
                    {"name": "b", "spec": {"podSpec": "x", "replicas": True, "minAvailable": 1.5}},
                    {"spec": {}},
                ],
            },
        }
    }
    with pytest.raises(ValidationError) as caught:
        PodCliqueSet.from_wire(obj)
    kinds = '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
    template = "spec.template"
    assert sorted(field_errors(caught.value)) == sorted(
        [
            'spec.replicas: Invalid value: "two": must be a whole number',
            f'{template}.cliqueStartupType: Unsupported value: "Sometime": supported values: {kinds}',
            f'{template}.headlessServiceConfig.publishNotReadyAddresses: Invalid value: "yes": must be true or false',
            f"{template}.topologyConstraint.pack: Invalid value: []: must be an object",
            f"{template}.podCliqueScalingGroups: Invalid value: {{}}: must be a list",
            f"{template}.cliques[0].labels[example.com/rank]: Invalid value: 1: must be a string",
            f'{template}.cliques[1].spec.podSpec: Invalid value: "x": must be an object',
            f"{template}.cliques[1].spec.replicas: Invalid value: true: must be a whole number",
            f"{template}.cliques[1].spec.minAvailable: Invalid value: 1.5: must be a whole number",
            f"{template}.cliques[2].name: Required value",
            f"{template}.cliques[2].spec.podSpec: Required value",
        ]
    )


@pytest.mark.parametrize(
    ("obj", "line"),
    [
        ({}, "spec: Required value"),
        ({"spec": None}, "spec: Required value"),
        ({"spec": {"template": {"cliques": None}}}, "spec.template.cliques: Required value"),
        (
            {"spec": {"template": {"cliques": [None]}}},
            "spec.template.cliques[0]: Invalid value: null: must be an object",
        ),
    ],
)
def test_what_is_missing_is_said(obj: dict[str, Any], line: str) -> None:
    with pytest.raises(ValidationError) as caught:
        PodCliqueSet.from_wire(obj)
    assert field_errors(caught.value) == [line]


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(ValidationError) as caught:
        PodCliqueSet.from_wire({"spec": {"replicas": "9" * 500, "template": {"cliques": []}}})
    (line,) = field_errors(caught.value)
    assert "9999…" in line
    assert len(line) < 160


def test_field_path() -> None:
    assert field_path(("spec", "cliques", 1, "labels", "a.b/c")) == "spec.cliques[1].labels[a.b/c]"
    assert field_path((0, "name")) == "[0].name"
