"""`grove rules`: the page of rules is written from the rules, and says what they are."""

from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner

from grove.admission.registry import BINDING_RULES, PODCLIQUESET_RULES
from grove.cli.rules import rules

PAGE = Path(__file__).parents[2] / "docs" / "admission-rules.md"


def test_the_page_is_up_to_date() -> None:
    checked = CliRunner().invoke(rules, ["--check", "-o", str(PAGE)])
    assert checked.exit_code == 0, checked.output


def test_every_rule_has_a_row() -> None:
    printed = CliRunner().invoke(rules).output
    assert printed == PAGE.read_text(encoding="utf-8")
    rows = [line for line in printed.splitlines() if line.startswith("| ") and not line.startswith("| fields")]
    assert len(rows) == len(PODCLIQUESET_RULES) + len(BINDING_RULES)
    for rule in PODCLIQUESET_RULES + BINDING_RULES:
        assert any(rule.text in row and f"| {rule.when} |" in row for row in rows)


def test_what_is_for_maintainers_is_left_out() -> None:
    assert "api rule" not in PAGE.read_text(encoding="utf-8")
    assert "API doc" not in PAGE.read_text(encoding="utf-8")


def test_it_says_when_the_page_is_not_up_to_date(tmp_path: Path) -> None:
    page = tmp_path / "rules.md"
    missing = CliRunner().invoke(rules, ["--check", "-o", str(page)])
    assert missing.exit_code == 1
    assert f"{page} is missing" in missing.output
    assert not page.exists()
    assert CliRunner().invoke(rules, ["-o", str(page)]).exit_code == 0
    assert CliRunner().invoke(rules, ["--check", "-o", str(page)]).exit_code == 0
    assert CliRunner().invoke(rules, ["--check"]).exit_code == 2
