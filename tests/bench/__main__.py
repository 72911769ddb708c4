"""`python -m tests.bench`: see the package's docstring."""

import asyncio
import json
import os
import subprocess
import tempfile
import time
import uuid
from pathlib import Path

import click

import tests.bench
from grove.cluster import binaries
from grove.plan.kinds import PODCLIQUESET
from tests.bench.bare import measure_bare
from tests.bench.observer import GoalMissedError
from tests.bench.operator import running_operator
from tests.bench.report import BASE, summarise, to_json, to_text
from tests.bench.run import Run, Target, measure
from tests.bench.scenarios import NAMESPACE, SCENARIOS, Scenario
from tests.cluster.harness import ROOT, Harness, running_cluster


@click.command(help=tests.bench.__doc__.replace("\n\n", "\n\n\b\n"))
@click.option(
    "--scenario", "names", multiple=True, type=click.Choice(list(SCENARIOS)), help="Run only this one. Repeatable."
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Runs of each scenario.")
@click.option("--idle", type=click.FloatRange(1), default=60.0, show_default=True, help="Seconds of the idle phase.")
@click.option("--bare", is_flag=True, help="Also run a bare loop that sends the same writes, and compare with it.")
@click.option(
    "--json",
    "json_file",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to write all numbers.  [default: bench-results/<time>.json]",
)
@click.option(
    "--profile",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder for cProfile data of the operator, one file per run. The numbers then mean little.",
)
def main(
    names: tuple[str, ...], repeat: int, idle: float, bare: bool, json_file: Path | None, profile: Path | None
) -> None:
    binaries.find_or_build()
    if profile:
        profile.mkdir(parents=True, exist_ok=True)
    runs: list[Run] = []
    for name in names or SCENARIOS:
        for number in range(1, repeat + 1):
            load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
            click.echo(f"{name}: {SCENARIOS[name].title}, run {number} of {repeat}; load before: {load}", err=True)
            data = profile.resolve() / f"{name}-{number}.prof" if profile else None
            runs.append(_run(SCENARIOS[name], idle, data))
            if bare:
                runs[-1].bare = _bare(SCENARIOS[name])
    summary = summarise(runs)
    click.echo(to_text(runs, summary))
    json_file = json_file or ROOT / "bench-results" / time.strftime("%Y-%m-%dT%H-%M-%S.json")
    json_file.parent.mkdir(parents=True, exist_ok=True)
    json_file.write_text(json.dumps(to_json(runs, summary, _commit()), indent=1, ensure_ascii=False) + "\n")
    click.echo(f"\nall numbers: {json_file}")


def _run(scenario: Scenario, idle: float, profile: Path | None) -> Run:
    """One run in a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="grove-bench-") as folder:
        directory = Path(folder)
        with running_cluster(directory / "cluster", scenario.nodes, "bench", gangs=scenario.gangs) as harness:
            _prepare(harness)
            with running_operator(harness.kubeconfig, directory, profile, webhooks=scenario.admission) as operator:
                target = Target(harness.server, harness.kubeconfig, _programs(harness), operator)
                try:
                    return asyncio.run(measure(scenario, target, idle, lambda line: click.echo(line, err=True)))
                except GoalMissedError as error:
                    tail = "\n".join(operator.log.read_text().splitlines()[-20:])
                    raise click.ClickException(f"{error}; the operator's log ends with:\n{tail}") from error


def _bare(scenario: Scenario) -> dict[str, float]:
    """The bare loop, in a cluster of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="grove-bench-") as folder,
        running_cluster(Path(folder) / "cluster", scenario.nodes, "bench", gangs=scenario.gangs) as harness,
    ):
        _prepare(harness)
        found = asyncio.run(measure_bare(scenario, harness.server, harness.kubeconfig))
    milestones = ", ".join(f"{goal.partition(': ')[2]} {seconds:.1f} s" for goal, seconds in found.items())
    click.echo(f"  a bare loop: {milestones}", err=True)
    return found


def _prepare(harness: Harness) -> None:
    """Install the CRDs and make the namespace, ready to admit pods and to have its garbage collected."""
    harness.kubectl("apply", "-f", ROOT / "crds")
    harness.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    harness.api("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    harness.wait(lambda: harness.api("GET", account), message="the namespace has its service account")
    _wait_collected(harness)


def _wait_collected(harness: Harness) -> None:
    """Wait until the garbage collector deletes custom resources: it looks for new kinds only twice a minute."""
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": str(uuid.uuid4())}
    canary = SCENARIOS[BASE].manifest()
    canary["metadata"] = {"name": "canary", "ownerReferences": [gone]}
    path = PODCLIQUESET.path(NAMESPACE)
    harness.api("POST", path, canary)
    harness.wait(lambda: not harness.api("GET", path)["items"], message="the garbage collector works")


def _programs(harness: Harness) -> Path:
    """The folder from which the cluster's processes run."""
    return harness.cluster.directory / "kwok" / ".kwok" / "clusters" / harness.cluster.name / "bin"


def _commit() -> str:
    git = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return git.stdout.strip()


if __name__ == "__main__":
    main(prog_name="python -m tests.bench")
