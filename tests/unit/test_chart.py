"""Files of the chart that can be judged without helm."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

from grove.cli import main
from grove.controllers.monitoring import Monitor
from grove.controllers.world import World
from grove.runtime.election import Election
from grove.runtime.metrics import REGISTRY
from tests.fake_api import FakeApi

CHART = Path(__file__).parents[2] / "charts" / "grove"
ALERTS = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
DASHBOARD = json.loads((CHART / "files" / "dashboard.json").read_text())


def test_webhooks_are_those_of_the_operator() -> None:
    file = str(CHART / "files" / "webhooks.yaml")
    checked = CliRunner().invoke(main, ["webhooks", "-n", "grove-system", "--authorizer", "--check", "-o", file])
    assert checked.exit_code == 0, checked.output


def test_crds_are_those_of_the_project() -> None:
    assert (CHART / "crds").resolve() == CHART.parents[1] / "crds"


def test_the_oldest_kubernetes_is_one_that_knows_all_that_the_crds_ask_for() -> None:
    """Older API servers than 1.30 refuse `optionalOldSelf`; tried with 1.28.15 (refused) and 1.30.14 (a whole life)."""
    oldest = re.fullmatch(r">=(1\.\d+)\.0-0", yaml.safe_load((CHART / "Chart.yaml").read_text())["kubeVersion"])
    assert oldest
    assert f"Kubernetes {oldest[1]} or newer" in (CHART.parents[1] / "docs" / "install.md").read_text()
    asks = any("optionalOldSelf" in file.read_text() for file in (CHART / "crds").iterdir())
    assert int(oldest[1].removeprefix("1.")) >= (30 if asks else 25)


def test_every_value_is_in_the_schema_with_a_default_that_fits() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def check(path: str, value: Any, rules: dict[str, Any]) -> None:
        if isinstance(value, dict) and "properties" in rules:
            assert rules["additionalProperties"] is False, path
            assert value.keys() <= rules["properties"].keys(), path
            for key, item in value.items():
                check(f"{path}.{key}", item, rules["properties"][key])

    check("", yaml.safe_load((CHART / "values.yaml").read_text()), schema)


def series() -> set[str]:
    """The names of all series of an operator."""
    api = FakeApi()
    Election(api.client(), "n", "n", "i")
    families = [*REGISTRY.collect(), *Monitor(World(), [], lambda: True).collect()]
    suffixes = {"counter": ["_total"], "histogram": ["_bucket", "_count", "_sum"]}
    return {family.name + suffix for family in families for suffix in suffixes.get(family.type, [""])}


def test_alerts_and_dashboard_ask_for_series_that_exist() -> None:
    rules = [rule["expr"] for group in ALERTS["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    assert len(rules) >= 5
    assert len(panels) >= 10
    known = series()
    for expression in rules + panels:
        named = set(
            re.findall(
                r"\b(?:grove|workqueue|rest_client|informer|leader|controller_runtime|process)_\w+",
                re.sub(r'"[^"]*"', "", expression),
            )
        )
        assert named, expression
        assert named <= known, expression


def test_alerts_say_what_is_wrong_and_what_to_do() -> None:
    for rule in (rule for group in ALERTS["groups"] for rule in group["rules"]):
        assert re.fullmatch("Grove[A-Za-z]+", rule["alert"])
        assert rule["labels"]["severity"] in ("critical", "warning")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert rule["for"]
