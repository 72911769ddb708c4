"""`grove plan`: what it shows, what it says about bad input, and what it costs to start."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Command, Context
from click.testing import CliRunner, Result

from grove.cli import COMMANDS, main
from grove.cli.manifests import read_manifests
from grove.cli.plan import MAX_PODS
from tests.topology_cases import BINDING, CASES

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
GOLDEN = Path(__file__).parent / "golden"
CONCEPTS = "user-guide/01_core-concepts"
NAMING = "user-guide/02_pod-and-resource-naming-conventions"
ENVIRONMENT = "user-guide/03_environment-variables-for-pod-discovery"
SIMPLE3 = "simple/simple3-explicit-startup-order.yaml"

# file: PodCliques, PodCliqueScalingGroups, PodGangs, HorizontalPodAutoscalers, Pods
COUNTS = {
    "simple/simple1.yaml": (4, 1, 1, 2, 9),
    "simple/simple2-explicit-startup-order.yaml": (4, 0, 1, 1, 9),
    SIMPLE3: (11, 1, 2, 2, 23),
    f"{CONCEPTS}/single-node-aggregated.yaml": (1, 0, 1, 0, 2),
    f"{CONCEPTS}/single-node-disaggregated.yaml": (2, 0, 1, 0, 5),
    f"{CONCEPTS}/multi-node-aggregated.yaml": (4, 1, 2, 0, 8),
    f"{CONCEPTS}/multi-node-disaggregated.yaml": (6, 2, 2, 0, 13),
    f"{CONCEPTS}/complete-inference-pipeline.yaml": (6, 2, 1, 0, 11),
    f"{NAMING}/multinode-disaggregated-with-frontend.yaml": (7, 2, 2, 0, 13),
    f"{ENVIRONMENT}/standalone-env-vars.yaml": (1, 0, 1, 0, 2),
    f"{ENVIRONMENT}/pcsg-env-vars.yaml": (4, 1, 2, 0, 8),
}

SMALL = """\
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: %s}
spec:
  replicas: %s
  template:
    cliques:
    - {name: a, spec: {podSpec: {containers: [{name: main, image: busybox}]}}}
"""


def plan(*args: str | Path, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(main, ["plan", *map(str, args)], input=stdin, catch_exceptions=False)


def objects(*args: str | Path) -> list[dict[str, Any]]:
    result = plan(*args, "-o", "json")
    assert result.exit_code == 0, result.stderr
    items: list[dict[str, Any]] = json.loads(result.stdout)["items"]
    return items


def written(folder: Path, text: str, name: str = "set.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def of_kind(items: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {item["metadata"]["name"]: item for item in items if item["kind"] == kind}


def test_every_sample_is_counted() -> None:
    assert COUNTS.keys() == {str(path.relative_to(SAMPLES)) for path in SAMPLES.rglob("*.yaml")}


@pytest.mark.parametrize("sample", COUNTS)
def test_samples_become_what_is_documented(sample: str) -> None:
    kinds = Counter(item["kind"] for item in objects("-f", SAMPLES / sample))
    podcliques, groups, gangs, autoscalers, pods = COUNTS[sample]
    assert kinds == +Counter(
        PodClique=podcliques,
        PodCliqueScalingGroup=groups,
        PodGang=gangs,
        Service=1,
        HorizontalPodAutoscaler=autoscalers,
        Pod=pods,
    )


def test_the_last_line_counts_the_objects() -> None:
    result = plan("-f", SAMPLES / "simple/simple1.yaml")
    assert result.stdout.splitlines()[-1] == (
        "1 PodCliqueSet → 4 PodCliques, 1 PodCliqueScalingGroup, 1 PodGang, 1 Service, "
        "2 HorizontalPodAutoscalers, 9 Pods"
    )
    assert result.stderr == ""


@pytest.mark.parametrize(
    ("source", "golden"),
    [(SAMPLES / SIMPLE3, "plan_simple3.txt"), (GOLDEN / "plan_big.yaml", "plan_big.txt")],
    ids=["simple3", "big"],
)
def test_the_tree(source: Path, golden: str) -> None:
    result = plan("-f", source)
    assert result.stdout == (GOLDEN / golden).read_text(encoding="utf-8")
    assert result.exit_code == 0


def test_the_objects_of_simple3() -> None:
    items = objects("-f", SAMPLES / SIMPLE3)
    grouped = {f"simple3-0-sga-{j}-{clique}" for j in range(3) for clique in ("pcb", "pcc", "pcd")}
    assert of_kind(items, "PodClique").keys() == {"simple3-0-pca", "simple3-0-pce"} | grouped
    assert of_kind(items, "PodCliqueScalingGroup").keys() == {"simple3-0-sga"}
    assert of_kind(items, "Service").keys() == {"simple3-0"}
    autoscalers = of_kind(items, "HorizontalPodAutoscaler")
    bounds = {name: (obj["spec"]["minReplicas"], obj["spec"]["maxReplicas"]) for name, obj in autoscalers.items()}
    assert bounds == {"simple3-0-pca": (3, 5), "simple3-0-sga": (3, 6)}
    groups = {
        name: {group["name"]: group["minReplicas"] for group in gang["spec"]["podgroups"]}
        for name, gang in of_kind(items, "PodGang").items()
    }
    base = {name for name in grouped if "-sga-2-" not in name}
    assert groups == {
        "simple3-0": {"simple3-0-pca": 3, "simple3-0-pce": 2, **dict.fromkeys(base, 2)},
        "simple3-0-sga-0": dict.fromkeys(grouped - base, 2),
    }


def test_the_pods_of_simple3() -> None:
    pods = {pod["spec"]["hostname"]: pod for pod in of_kind(objects("-f", SAMPLES / SIMPLE3), "Pod").values()}
    assert len(pods) == 23
    pod = pods["simple3-0-pce-1"]
    tags = {key: value for key, value in pod["metadata"]["labels"].items() if key != "grove.io/pod-template-hash"}
    assert tags == {
        "app.kubernetes.io/component": "pcs-podclique",
        "app.kubernetes.io/managed-by": "grove-operator",
        "app.kubernetes.io/name": "simple3-0-pce",
        "app.kubernetes.io/part-of": "simple3",
        "grove.io/podclique": "simple3-0-pce",
        "grove.io/podclique-pod-index": "1",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podgang": "simple3-0",
    }
    assert pod["spec"]["subdomain"] == "simple3-0"
    assert pod["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]
    references = of_kind(objects("-f", SAMPLES / SIMPLE3), "PodGang")["simple3-0"]["spec"]["podgroups"]
    assert pod["metadata"]["name"] in {pod["name"] for group in references for pod in group["podReferences"]}


def test_yaml_and_json_hold_the_same_each_time() -> None:
    args = ("-f", SAMPLES / SIMPLE3)
    text = plan(*args, "-o", "yaml").stdout
    assert text == plan(*args, "-o", "yaml").stdout
    assert list(yaml.load_all(text, yaml.CSafeLoader)) == objects(*args)
    assert "&id" not in text


def test_text_survives_in_both_forms(tmp_path: Path) -> None:
    env = {
        "DATE": "2026-09-01",
        "TIME": "12:30",
        "BIG": "1e3",
        "YES": "y",
        "LINES": "a\n  b\n\n",
        "DE": "größe → 日本 \x85",
    }
    variables = json.dumps([{"name": key, "value": value} for key, value in env.items()])
    text = (SMALL % ("s", 1)).replace("image: busybox", f"env: {variables}")
    path = written(tmp_path, text)
    again = written(tmp_path, plan("-f", path, "-o", "yaml").stdout, "again.yaml")
    kubernetes_reading = [document.obj for document in read_manifests(str(again))]
    assert kubernetes_reading == objects("-f", path)
    [pod] = of_kind(kubernetes_reading, "Pod").values()
    found = {variable["name"]: variable.get("value") for variable in pod["spec"]["containers"][0]["env"]}
    assert {key: found[key] for key in env} == env


def test_yaml_is_read_as_kubectl_reads_it(tmp_path: Path) -> None:
    """The values are what kubectl 1.37 prints for the same text."""
    text = """\
a: y
b: 12:30
c: 2026-09-01
d: 1e3
e: 010
f: 0o10
g: 1_000
h: 0x1F
i: 0b11
j: .5
k: 5.
l: =
m: 09
n: n
r: 2001-12-14t21:59:43.10-05:00
s: 08.5
t: +5
u: -0x1F
v: '1'
w: off
y: 1
1: one
x: &x {p: 1, q: 2}
z: {<<: *x, q: 3, r: 4}
"""
    [manifest] = read_manifests(str(written(tmp_path, text)))
    assert manifest.obj == {
        "a": True, "b": "12:30", "c": "2026-09-01", "d": 1000, "e": 8, "f": 8, "g": 1000, "h": 31, "i": 3, "j": 0.5,
        "k": 5, "l": "=", "m": 9, "false": False, "r": "2001-12-14t21:59:43.10-05:00", "s": 8.5, "t": 5, "u": -31,
        "v": "1", "w": False, "true": 1, "1": "one", "x": {"p": 1, "q": 2}, "z": {"p": 1, "q": 3, "r": 4},
    }  # fmt: skip


def test_replicas_are_all_alike() -> None:
    """The tree shows one replica for all; the objects agree."""
    text = (GOLDEN / "plan_big.yaml").read_text(encoding="utf-8").replace("replicas: 1000", "replicas: 3")
    result = plan("-f", "-", "-o", "json", stdin=text)
    names = [item["metadata"]["name"] for item in json.loads(result.stdout)["items"] if item["kind"] != "Pod"]
    replicas = [[name for name in names if name.startswith(f"big-{i}")] for i in range(3)]
    assert len(replicas[0]) == 13 + 1 + 4 + 1
    for i in (1, 2):
        assert replicas[i] == [name.replace("big-0", f"big-{i}", 1) for name in replicas[0]]


def test_bad_input_is_listed_whole() -> None:
    result = plan("-f", GOLDEN / "plan_bad.yaml")
    assert result.exit_code == 1
    assert result.stdout == ""
    expected = (GOLDEN / "plan_bad.txt").read_text(encoding="utf-8")
    assert result.stderr.replace(f"{GOLDEN}{os.sep}", "") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: [1,\nb", "set.yaml:3: is not valid YAML: while parsing a flow sequence"),
        ("a: 1\nb: 2\na: 3\n", "set.yaml:3: is not valid YAML: key 'a' is given twice"),
        ("- a\n", "set.yaml:1: must be an object with apiVersion and kind"),
        ('{"kind": "List", "items": [3]}', "set.yaml:1: must be an object with apiVersion and kind"),
        ("a: &x [*x]\n", "set.yaml:1: is not valid YAML: found unconstructable recursive node"),
        ("a: !!binary aGVsbG8=\n", "set.yaml:1: is not valid YAML: could not determine a constructor"),
        ("a: " + "9" * 5000, "set.yaml:1: is not valid YAML: 9999999999999999999999999999999999999999 is no number"),
        ("a: 9223372036854775808", "set.yaml:1: is not valid YAML: 9223372036854775808 is too large a number"),
        ("a: 1e999", "set.yaml:1: is not valid YAML: 1e999 is too large a number"),
        ("[" * 100_000, "set.yaml:1: is not valid YAML"),
        ("{" * 100_000, "set.yaml:1: is not valid YAML"),
        ('{"a": ' * 2000 + "1" + "}" * 2000, "set.yaml"),
        ("", "there is no PodCliqueSet in the input"),
        ("---\n---\n", "there is no PodCliqueSet in the input"),
        ("kind: Pod\n", "there is no PodCliqueSet in the input"),
    ],
)
def test_files_that_make_no_sense(tmp_path: Path, text: str, expected: str) -> None:
    result = plan("-f", written(tmp_path, text))
    assert result.exit_code == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.replace(f"{tmp_path}{os.sep}", "").splitlines()[-1].startswith(f"error: {expected}")


def test_files_that_cannot_be_read_do_not_hide_other_problems(tmp_path: Path) -> None:
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"a: 1\nb: \xe4\n")
    result = plan("-f", tmp_path / "none.yaml", "-f", latin, "-f", tmp_path, "-f", GOLDEN / "plan_bad.yaml")
    assert result.exit_code == 1
    lines = result.stderr.splitlines()
    assert lines[0] == f"error: {tmp_path / 'none.yaml'}: cannot be read: No such file or directory"
    assert lines[1] == f"error: {latin}:2: is not UTF-8 text"
    assert lines[2] == f"error: {tmp_path}: cannot be read: Is a directory"
    assert lines[3].endswith("PodCliqueSet my.set")


@pytest.mark.parametrize(
    "args", [[], ["-f"], ["-f", "x", "-o", "xml"], ["--nope"], ["-f", "x", "y"]], ids=lambda args: " ".join(args)
)
def test_wrong_usage_is_2(args: list[str]) -> None:
    assert plan(*args).exit_code == 2


def test_other_kinds_are_passed_over(tmp_path: Path) -> None:
    text = "kind: ConfigMap\n---\nkind: Pod\n---\nkind: Pod\n---\n{}\n---\n" + SMALL % ("s", 1)
    result = plan("-f", written(tmp_path, text))
    assert result.exit_code == 0
    note = f"note: {tmp_path / 'set.yaml'}:1: passed over 4 of kind ConfigMap, Pod, object without kind\n"
    assert result.stderr == note


def test_lists_and_several_files_count_together(tmp_path: Path) -> None:
    one, two, three = (yaml.safe_load(SMALL % (name, 1)) for name in ("one", "two", "three"))
    inner = {"apiVersion": "v1", "kind": "List", "items": [two]}
    a_list = {"kind": "PodCliqueSetList", "items": [one, inner]}
    path = written(tmp_path, json.dumps(a_list), "list.json")
    result = plan("-f", path, "-f", "-", stdin=b"\xef\xbb\xbf" + json.dumps(three, indent="\t").encode())
    assert result.stdout.splitlines()[-1] == ("3 PodCliqueSets → 3 PodCliques, 3 PodGangs, 3 Services, 3 Pods")


def test_a_set_given_twice_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, SMALL % ("s", 1) + "---\n" + SMALL % ("s", 1))
    result = plan("-f", path)
    assert result.exit_code == 1
    assert f'metadata.name: Duplicate value: "s": the set is in {path}:1 already' in result.stderr
    assert plan("-f", path, "-f", path).exit_code == 1


def test_namespace_is_for_sets_that_name_none(tmp_path: Path) -> None:
    mine = (SMALL % ("mine", 1)).replace("{name: mine}", "{name: mine, namespace: own}")
    path = written(tmp_path, mine + "---\n" + SMALL % ("other", 1))
    spaces = {item["metadata"]["name"]: item["metadata"]["namespace"] for item in objects("-f", path, "-n", "team")}
    assert (spaces["mine-0"], spaces["other-0"]) == ("own", "team")
    assert objects("-f", path)[-1]["metadata"]["namespace"] == "default"


def test_a_set_of_no_replicas_is_warned_about(tmp_path: Path) -> None:
    path = written(tmp_path, (SMALL % ("s", 1)).replace("  replicas: 1\n", ""))
    result = plan("-f", path)
    assert result.exit_code == 0
    assert result.stderr == f"{path}:1: PodCliqueSet s\n  warning: spec.replicas: is 0: nothing would run\n"
    assert result.stdout == "PodCliqueSet default/s: 0 replicas\n1 PodCliqueSet → nothing\n"


def test_a_set_read_from_a_cluster_is_planned_like_a_new_one(tmp_path: Path) -> None:
    obj = yaml.safe_load(SMALL % ("s", 1))
    live = {
        **obj,
        "metadata": {
            **obj["metadata"],
            "uid": "5d8a",
            "resourceVersion": "x",
            "deletionTimestamp": "2026-09-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
        },
        "status": {"replicas": "many"},
    }
    new, stored = written(tmp_path, json.dumps(obj), "new.json"), written(tmp_path, json.dumps(live), "live.json")
    assert objects("-f", stored) == objects("-f", new)


def test_a_generated_name_shows_where_it_is_generated(tmp_path: Path) -> None:
    path = written(tmp_path, (SMALL % ("s", 1)).replace("name: s}", "generateName: s-}"))
    assert of_kind(objects("-f", path), "Service").keys() == {"s-xxxxx-0"}


def test_more_pods_than_a_cluster_holds_are_refused(tmp_path: Path) -> None:
    replicas = 10_000
    assert MAX_PODS % replicas == 0

    def with_pods(count: int) -> Path:
        return written(tmp_path, (SMALL % ("s", replicas)).replace("{podSpec", f"{{replicas: {count}, podSpec"))

    result = plan("-f", with_pods(MAX_PODS // replicas + 1))
    assert result.exit_code == 1
    too_many = MAX_PODS + replicas
    assert f"the set would have {too_many} pods, Kubernetes supports {MAX_PODS} in a cluster" in result.stderr
    assert plan("-f", with_pods(MAX_PODS // replicas)).exit_code == 0


def run(*args: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, *args], cwd=ROOT, capture_output=True, check=False, env={**os.environ, **(env or {})}
    )


def test_a_terminal_without_unicode_gets_plain_characters() -> None:
    env = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    result = run("-m", "grove", "plan", "-f", str(SAMPLES / SIMPLE3), env=env)
    assert (result.returncode, result.stderr) == (0, b"")
    lines = result.stdout.decode("ascii").splitlines()
    assert lines[1] == "`- replica 0"
    assert lines[2] == "   |- Service simple3-0"
    assert lines[-1].startswith("1 PodCliqueSet -> 11 PodCliques, ")
    bad = run("-m", "grove", "plan", "-f", str(GOLDEN / "plan_bad.yaml"), env=env)
    assert b"a -> b -> a" in bad.stderr


def test_a_reader_that_stops_early_is_no_error() -> None:
    text = (GOLDEN / "plan_big.yaml").read_text(encoding="utf-8").replace("replicas: 1000", "replicas: 20")
    command = f"{sys.executable} -m grove plan -f - -o yaml | head -n 1"
    result = subprocess.run(command, shell=True, cwd=ROOT, input=text, capture_output=True, text=True, check=True)
    assert result.stdout == "---\n"
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize("output", ["tree", "yaml", "json"])
def test_a_full_disk_is_said_in_one_sentence(output: str) -> None:
    """Linux' /dev/full refuses every write as a full disk does."""
    form = [] if output == "tree" else ["-o", output]
    command = [sys.executable, "-m", "grove", "plan", "-f", "samples/simple/simple1.yaml", *form]
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (result.returncode, result.stderr) == (
        1,
        "Error: the output could not be written: No space left on device\n",
    )


HEAVY = "{'kopf', 'aiohttp', 'asyncio'}"


@pytest.mark.parametrize(
    "args", [["--help"], ["plan", "-f", "samples/simple/simple1.yaml"], ["plan", "--help"]], ids=lambda args: args[-1]
)
def test_only_what_a_command_needs_is_imported(args: list[str]) -> None:
    code = (
        "import sys; from grove.cli import main\n"
        f"try: main({args!r})\n"
        f"finally: print(sorted({HEAVY} & sys.modules.keys()), file=sys.stderr)"
    )
    result = run("-c", code)
    assert (result.returncode, result.stderr) == (0, b"[]\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_where_the_table_says(name: str) -> None:
    command = main.get_command(Context(main), name)
    assert isinstance(command, Command)
    assert command.help


def test_version_and_help() -> None:
    runner = CliRunner()
    version = runner.invoke(main, ["--version"])
    assert version.exit_code == 0
    assert version.stdout.startswith("grove")
    overview = runner.invoke(main, ["--help"]).stdout
    listed = [line.split()[0] for line in overview.partition("Commands:")[2].splitlines() if line[:3].strip()]
    expected = (
        "operator tree status explain rollout diagnose plan rules reference crds webhooks image cluster kind demo"
    )
    assert listed == expected.split()
    assert runner.invoke(main, ["nope"]).exit_code == 2
    assert runner.invoke(main, ["plan", "--help"]).stdout.startswith("Usage: main plan [OPTIONS]")


# Topology


def topology_input(tmp_path: Path, **binding: Any) -> str:
    documents = [CASES["TAS16"].pcs, {**BINDING, **binding}]
    file = tmp_path / "near.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return str(file)


def test_levels_are_those_of_the_bindings_in_the_input(tmp_path: Path) -> None:
    result = plan("-f", topology_input(tmp_path))
    lines = [line.lstrip("│├└─ ") for line in result.stdout.splitlines() if "nodes of one" in line]
    assert lines == [
        "PodGang tas16-0 (base): at least 6 of 6 pods, on nodes of one kubernetes.io/block",
        "tas16-0-prefill-0-pworker: at least 1 of 1 pod, on nodes of one kubernetes.io/hostname",
        "tas16-0-decoder-0, on nodes of one kubernetes.io/rack",
        "tas16-0-prefill-0, on nodes of one kubernetes.io/rack",
        "PodGang tas16-0-decoder-0 (scaled): at least 2 of 2 pods, on nodes of one kubernetes.io/rack",
        "PodGang tas16-0-prefill-0 (scaled): at least 2 of 2 pods, on nodes of one kubernetes.io/rack",
        "tas16-0-prefill-1-pworker: at least 1 of 1 pod, on nodes of one kubernetes.io/hostname",
    ]
    assert result.stderr == ""


def test_a_level_that_the_binding_lacks(tmp_path: Path) -> None:
    spec = {"levels": BINDING["spec"]["levels"][:2]}
    result = plan("-f", topology_input(tmp_path, spec=spec))
    assert result.exit_code == 1
    assert "no level of ClusterTopologyBinding grove-topology, which has zone, block" in result.stderr


def test_a_binding_that_is_not_in_the_input(tmp_path: Path) -> None:
    result = plan("-f", topology_input(tmp_path, metadata={"name": "another"}))
    assert result.exit_code == 0
    assert "the input has no such ClusterTopologyBinding, levels are not shown" in result.stderr
    assert "nodes of one" not in result.stdout


def test_a_binding_that_is_wrong(tmp_path: Path) -> None:
    spec = {"levels": [BINDING["spec"]["levels"][0]] * 2}
    result = plan("-f", topology_input(tmp_path, spec=spec))
    assert result.exit_code == 1
    assert "ClusterTopologyBinding grove-topology\n  error: spec.levels[1].domain: Duplicate value" in result.stderr
