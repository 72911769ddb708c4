"""Every case, and that the cases leave out no rule."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from grove.admission import default, validate
from grove.admission.fields import Field
from grove.admission.registry import BINDING_RULES, PODCLIQUESET_RULES, Rule
from tests.admission_cases import CASES, Case
from tests.admission_cases.rows import ROWS


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_answer(case: Case) -> None:
    result = validate(case.new, case.old, case.facts)
    assert [str(error) for error in result.errors] == list(case.errors)
    assert list(result.warnings) == list(case.warnings)


@pytest.mark.parametrize("case", [case for case in CASES if not case.errors], ids=lambda case: case.name)
def test_what_is_accepted_stays_so(case: Case) -> None:
    """With its defaults, when it is written once more, and when it is merely read."""
    full = default(case.new, case.old)
    assert default(full, case.old) is full
    assert validate(full, case.old, case.facts).ok
    assert validate(full, full, case.facts).ok


BY_NAME = {case.name: case for case in CASES}
NUMBERED = (
    *(f"V{number}" for number in range(1, 55)),
    *(f"C{number}" for number in range(1, 10)),
    *("M1", "M2", "M3", "M3b"),
    *(f"U{number}" for number in range(1, 13)),
    *("W1", "W2", "W3"),
)


def test_every_row_of_the_api_document_has_cases() -> None:
    assert tuple(ROWS) == NUMBERED


@pytest.mark.parametrize("row", NUMBERED)
def test_a_row_is_refused_and_accepted(row: str) -> None:
    refused, accepted = ROWS[row]
    for name in refused:
        case = BY_NAME[name]
        assert case.warnings if row.startswith("W") else case.errors
    assert not BY_NAME[accepted].errors


def test_names_are_unique() -> None:
    assert [name for name, count in Counter(case.name for case in CASES).items() if count > 1] == []


def found_by(rule: Rule, case: Case) -> list[str]:
    """The paths of what a rule finds in a case."""
    old = default(case.old) if case.old is not None else None
    new = default(case.new, old)
    return [finding.path for finding in rule(Field(new), None if old is None else Field(old), case.facts)]


@pytest.mark.parametrize("rule", PODCLIQUESET_RULES + BINDING_RULES, ids=lambda rule: rule.about.__name__)
def test_every_rule_has_a_case_and_names_its_fields(rule: Rule) -> None:
    kind = "ClusterTopologyBinding" if rule in BINDING_RULES else "PodCliqueSet"
    cases = [case for case in CASES if case.new.get("kind") == kind]
    paths = {path for case in cases for path in found_by(rule, case)}
    assert paths
    known = [re.escape(field).replace(r"\[\*\]", r"\[\d+\]") for field in rule.fields]
    if known:
        assert [path for path in paths if not re.match(rf"({'|'.join(known)})(?![\w])", path)] == []
