"""`grove plan` with a scheduler: the one that the pods name, or the one that is asked for."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.support import GOLDEN, by_name, clique, group, pod_set
from tests.unit.test_cli_plan import objects, of_kind, plan, written

QUEUE = "kai.scheduler/queue"


def workload2(scheduler: str = "", queue: str = "test") -> str:
    cliques = [clique(name, pods, 1) for name, pods in (("pc-a", 2), ("pc-b", 1), ("pc-c", 3))]
    obj = pod_set(*cliques, name="workload2", groups=[group("sg-x", ["pc-b", "pc-c"], 2, 1)])
    for one in cliques:
        if scheduler:
            one["spec"]["podSpec"]["schedulerName"] = scheduler
    obj["metadata"]["labels"] = {"app": "workload2"} | ({QUEUE: queue} if queue else {})
    return yaml.safe_dump(obj)


@pytest.mark.parametrize(("named", "asked"), [("kai-scheduler", ()), ("", ("--scheduler", "kai-scheduler"))])
def test_podgroups_of_kai(tmp_path: Path, named: str, asked: tuple[str, ...]) -> None:
    path = written(tmp_path, workload2(named))
    items = objects("-f", path, *asked)
    golden = by_name(list(yaml.safe_load_all((GOLDEN / "kai_podgroups.yaml").read_text())))
    assert {name: obj["spec"] for name, obj in of_kind(items, "PodGroup").items()} == {
        name: obj["spec"] for name, obj in golden.items()
    }
    for pod in of_kind(items, "Pod").values():
        metadata = pod["metadata"]
        assert pod["spec"]["schedulerName"] == "kai-scheduler"
        assert metadata["annotations"]["pod-group-name"] == metadata["labels"]["grove.io/podgang"]
        assert metadata["labels"]["kai.scheduler/subgroup-name"] == metadata["labels"]["grove.io/podclique"]
    tree = plan("-f", path, *asked).stdout
    assert "   │  └─ PodGroup workload2-0 of scheduling.run.ai, in queue test" in tree
    assert tree.endswith("1 Service, 10 Pods, 2 PodGroups\n")


def test_the_one_asked_for_stands_in_for_the_one_named(tmp_path: Path) -> None:
    items = objects("-f", written(tmp_path, workload2("kai-scheduler")), "--scheduler", "volcano")
    podgroups = of_kind(items, "PodGroup")
    assert {one["apiVersion"] for one in podgroups.values()} == {"scheduling.volcano.sh/v1beta1"}
    assert [one["name"] for one in podgroups["workload2-0"]["spec"]["subGroupPolicy"]] == [
        "workload2-0-pc-a",
        "workload2-0-sg-x-0-pc-b",
        "workload2-0-sg-x-0-pc-c",
    ]
    annotations: list[Any] = [pod["metadata"]["annotations"] for pod in of_kind(items, "Pod").values()]
    assert {one["scheduling.k8s.io/group-name"] for one in annotations} == {"workload2-0", "workload2-0-sg-x-0"}


@pytest.mark.parametrize("named", ["", "someone-elses"])
def test_without_a_known_scheduler_there_are_no_such_objects(tmp_path: Path, named: str) -> None:
    items = objects("-f", written(tmp_path, workload2(named)))
    assert not of_kind(items, "PodGroup")
    assert {pod["spec"]["schedulerName"] for pod in of_kind(items, "Pod").values()} == {named or "default-scheduler"}


def test_what_the_scheduler_demands_is_checked(tmp_path: Path) -> None:
    path = written(tmp_path, workload2(queue=""))
    assert plan("-f", path).exit_code == 0
    result = plan("-f", path, "--scheduler", "kai-scheduler")
    assert result.exit_code == 1
    assert f"error: metadata.labels[{QUEUE}]: Required value: kai-scheduler needs a queue" in result.stderr


def test_an_unknown_scheduler_is_refused(tmp_path: Path) -> None:
    result = plan("-f", written(tmp_path, workload2()), "--scheduler", "nix")
    assert result.exit_code == 2
    assert "there is no back end for 'nix'; there are default-scheduler, kai-scheduler, lpx-scheduler" in result.stderr


@pytest.mark.parametrize("spec", ["", "spec: 7", "spec: {template: []}", "spec: {template: {cliques: [1, {spec: 2}]}}"])
def test_broken_sets_are_told_with_a_scheduler_too(tmp_path: Path, spec: str) -> None:
    text = f"apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\nmetadata: {{name: x}}\n{spec}\n"
    result = plan("-f", written(tmp_path, text), "--scheduler", "volcano")
    assert result.exit_code == 1
    assert "error: spec" in result.stderr
