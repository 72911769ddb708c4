"""`grove reference`: the page has every field, and every string of the API that is in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from grove.api import labels, vocabulary
from grove.api.labels import ConditionType, Env, EventReason, Reason
from grove.cli.plan import plan
from grove.cli.reference import reference

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "api-reference.md"
TEXT = PAGE.read_text(encoding="utf-8")
CRDS = {crd["spec"]["names"]["kind"]: crd for crd in (yaml.safe_load(f.read_text()) for f in (ROOT / "crds").iterdir())}

NOT_IN_USE = {
    # of NVLink domains, which have no effect yet
    EventReason.COMPUTE_DOMAIN_CREATE_SUCCESSFUL, EventReason.COMPUTE_DOMAIN_CREATE_FAILED,
    EventReason.COMPUTE_DOMAIN_DELETE_SUCCESSFUL, EventReason.COMPUTE_DOMAIN_DELETE_FAILED,
}  # fmt: skip


def section(title: str) -> str:
    """A section of the page, with those below it."""
    return TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def fields(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Path and schema of all fields of a CustomResourceDefinition, those of Kubernetes' own types left out."""
    for name, field in node.get("properties", {}).items():
        here = f"{path}.{name}".removeprefix(".")
        yield here, field
        if name not in ("podSpec", "templateSpec", "metrics", "conditions", "lastErrors"):
            yield from fields(field.get("items", field), f"{here}[]" if "items" in field else here)


def test_the_page_is_up_to_date() -> None:
    checked = CliRunner().invoke(reference, ["--check", "-o", str(PAGE)])
    assert checked.exit_code == 0, checked.output


@pytest.mark.parametrize("kind", CRDS)
def test_every_field_has_a_row_with_its_description_and_default(kind: str) -> None:
    rows = dict(re.findall(r"^\| `([^`]+)` \| (.*) \|$", section(kind), re.MULTILINE))
    schema = CRDS[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    wanted = dict(fields(schema))
    for path in [path for path in wanted if path.split(".")[0] in ("apiVersion", "kind", "metadata")]:
        del wanted[path]
    assert rows.keys() == wanted.keys()
    for path, field in wanted.items():
        cells = re.split(r"(?<!\\) \| ?", rows[path].replace("\\|", "|"))
        assert cells[-1] == field["description"].replace("\n", " ")
        assert cells[1].strip() == (f"`{field['default']}`".lower() if isinstance(field.get("default"), bool) else
                                    f"`{field['default']}`" if "default" in field else "")  # fmt: skip


@pytest.mark.parametrize(
    "path",
    [
        "cliques[].spec.roleName",
        "cliques[].spec.minAvailable",
        "cliques[].spec.startsAfter",
        "cliqueStartupType",
        "podCliqueScalingGroups[].cliqueNames",
        "podCliqueScalingGroups[].minAvailable",
        "resourceClaimTemplates",
    ],
)
def test_what_cannot_change_says_so(path: str) -> None:
    (row,) = re.findall(rf"^\| `spec\.template\.{re.escape(path)}` \|.*$", TEXT, re.MULTILINE)
    assert "cannot change" in row


def test_every_string_in_use_is_explained() -> None:
    explained = {word.text for word in (*vocabulary.EVENTS, *vocabulary.ENVIRONMENT)}
    assert explained == {*EventReason, *Env} - NOT_IN_USE
    assert {word.type for word in vocabulary.CONDITIONS} == {*ConditionType} - NOT_IN_USE
    reasons = {reason for word in vocabulary.CONDITIONS for reason in word.reasons}
    assert reasons == {*Reason} - NOT_IN_USE


def test_what_a_set_becomes_carries_the_labels_and_annotations_of_the_page() -> None:
    made = dict[tuple[str, str], set[str]]()
    for sample in ("simple/simple1.yaml", "simple/simple3-explicit-startup-order.yaml"):
        printed = CliRunner().invoke(plan, ["-f", str(ROOT / "samples" / sample), "-o", "yaml"]).output
        for obj in yaml.safe_load_all(printed):
            for what in ("labels", "annotations"):
                for key in obj["metadata"].get(what, {}):
                    if key.startswith((labels.GROVE_PREFIX, "app.kubernetes.io/")):
                        made.setdefault((what, key), set()).add(obj["kind"])
    words = {("labels", word.text): word for word in vocabulary.LABELS}
    words |= {("annotations", word.text): word for word in vocabulary.ANNOTATIONS}
    assert len(made) > 15
    assert {key: {*words[key].on} & {*vocabulary.MADE} for key in made} == made
