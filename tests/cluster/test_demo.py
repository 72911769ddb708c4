"""`grove demo`, as `make demo` runs it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from grove.cli import background
from grove.cli.background import BackgroundOperator
from grove.cli.demo import demo as command
from tests.cluster.harness import ROOT, Harness, running_cluster


def demo(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "grove", "demo", *map(str, arguments)]
    return subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster of its own, since the demo works in the namespace default."""
    with running_cluster(tmp_path_factory.mktemp("demo") / "cluster", nodes=10) as harness:
        yield harness
        BackgroundOperator(harness.cluster.directory).stop()


def test_nine_pods_from_one_object_twice_over(stage: Harness) -> None:
    """The second run finds everything there; what it shows is the same, and no pod is another one."""
    directory = stage.cluster.directory
    first = demo("--dir", directory)
    assert first.returncode == 0, first.stderr
    uids = pod_uids(stage)
    second = demo("--dir", directory)
    assert second.returncode == 0, second.stderr
    assert "operator  started" in first.stdout
    assert "operator  runs already" in second.stdout
    assert pod_uids(stage) == uids
    assert len(uids) == 9
    for output in (first.stdout, second.stdout):
        assert "simple1   9 of 9 pods running, gang simple1-0 Running" in output
        assert rows(output, "podcliqueset.grove.io") == ["simple1"]
        assert rows(output, "podcliquescalinggroup.grove.io") == ["simple1-0-sga"]
        assert rows(output, "podgang.scheduler.grove.io") == ["simple1-0"]
        cliques = ["simple1-0-pca", "simple1-0-pcd", "simple1-0-sga-0-pcb", "simple1-0-sga-0-pcc"]
        assert rows(output, "podclique.grove.io") == cliques
        assert len(re.findall(r"^pod/simple1-0-\S+ +1/1 +Running ", output, re.MULTILINE)) == 9


def test_every_command_it_proposes_does_what_it_says(stage: Harness) -> None:
    proposed = re.findall(r"^  (kubectl .*?) *(?:#.*)?$", demo("--dir", stage.cluster.directory).stdout, re.MULTILINE)
    expected = [9 + 4, 9 + 4 + 2, 9 + 4 + 2 + 9, 9 + 4 + 2 + 9, 0]
    assert len(proposed) == len(expected)
    for words, count in zip(proposed, expected, strict=True):
        stage.kubectl(*words.split()[1:])
        stage.wait(partial(has_running, stage, count), message=f"{count} pods run after {words}")


def test_a_wrong_set_is_refused_before_it_is_stored(stage: Harness) -> None:
    wrong = yaml.safe_load((ROOT / "samples/simple/simple1.yaml").read_text())
    wrong["metadata"]["name"] = "wrong"
    (container,) = wrong["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"]
    container["volumeMounts"] = [{"name": "nope", "mountPath": "/x"}]
    said = stage.kubectl_says("apply", "-f", "-", input=yaml.safe_dump(wrong)).stderr
    assert 'admission webhook "pcs.validating.webhooks.grove.io" denied the request: ' in said
    assert 'spec.template.cliques[0].spec.podSpec.containers[0].volumeMounts[0].name: Not found: "nope"' in said


def test_an_operator_that_ends_is_reported_with_its_last_words(stage: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = stage.cluster.directory
    stage.kubectl("delete", "pcs", "--all")
    assert BackgroundOperator(directory).stop()
    monkeypatch.setattr(background, "CONFIG", background.CONFIG.replace("OperatorConfiguration", "Deployment"))
    failed = CliRunner().invoke(command, ["--dir", str(directory)])
    assert failed.exit_code == 1
    assert "the operator has ended; its log says:" in failed.output
    assert 'kind: Unsupported value: "Deployment": supported values: "OperatorConfiguration"' in failed.output


def rows(output: str, kind: str) -> list[str]:
    """Names of the objects of a kind in kubectl's table."""
    return re.findall(rf"^{re.escape(kind)}/(\S+)", output, re.MULTILINE)


def pods(stage: Harness) -> list[dict[str, dict[str, str]]]:
    selector = "labelSelector=app.kubernetes.io/part-of=simple1"
    found: list[dict[str, dict[str, str]]] = stage.api("GET", f"/api/v1/namespaces/default/pods?{selector}")["items"]
    return found


def pod_uids(stage: Harness) -> set[str]:
    return {pod["metadata"]["uid"] for pod in pods(stage)}


def has_running(stage: Harness, count: int) -> bool:
    """Whether the set has `count` pods and all of them run."""
    return [pod["status"].get("phase") for pod in pods(stage)] == ["Running"] * count
