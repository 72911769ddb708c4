"""The report: measures of each run, their medians beside the budgets, as a table for people and as JSON."""

import os
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median, quantiles
from typing import Any

from tests.bench.budgets import budget
from tests.bench.run import Run
from tests.bench.scenarios import SCENARIOS

BASE = "100x2"
"""The scenario to which the cost per pod of the others is compared."""


@dataclass(frozen=True, slots=True)
class Value:
    """A measure over all runs of a scenario; `limit` is its budget."""

    measure: str
    unit: str
    median: float
    minimum: float
    limit: float | None

    @property
    def title(self) -> str:
        """The measure with its unit."""
        return f"{self.measure} [{self.unit}]" if self.unit else self.measure

    @property
    def within(self) -> bool | None:
        """Whether the median is within the budget; None without one."""
        return None if self.limit is None else self.median <= self.limit

    def __str__(self) -> str:
        text = _number(self.median)
        if self.minimum != self.median:
            text += f" (min {_number(self.minimum)})"
        if self.limit is None:
            return text
        return f"{text}  ≤ {_number(self.limit)} {'ok' if self.within else 'OVER'}"


def measures(run: Run) -> dict[tuple[str, str], float]:
    """(measure, unit) → number, for one run."""
    found: dict[tuple[str, str], float] = {}
    for phase in run.phases:
        for goal, seconds in phase.seconds.items():
            found[f"{phase.name}: {goal}", "s"] = seconds
        found[f"{phase.name}: CPU", "s"] = phase.usage.cpu["operator"]
        found[f"{phase.name}: writes", ""] = sum(phase.usage.writes.values())
        found[f"{phase.name}: refused writes", ""] = phase.usage.refused
    for word in ("opens", "free"):
        if openings := _openings(run, word):
            found[f"deploy: clique ready → next one {word}, longest", "s"] = max(openings)
    deploy = run.phase("deploy").usage
    writes = sum(deploy.writes.values())
    found["deploy: CPU per pod", "ms"] = round(1000 * deploy.cpu["operator"] / run.pods, 2)
    found["deploy: writes per pod", ""] = round(writes / run.pods, 2)
    if run.replicas > 1:
        found["deploy: writes per replica", ""] = round(writes / run.replicas, 2)
    found["deploy: machine taken by others", "%"] = round(100 * deploy.others / (deploy.wall * (os.cpu_count() or 1)))
    for what, latencies in run.admission.items():
        found[f"admission: {what}, p50", "ms"] = round(quantiles(latencies, n=100)[49], 1)
        found[f"admission: {what}, p99", "ms"] = round(quantiles(latencies, n=100)[98], 1)
    found["start: CPU", "s"] = run.startup_cpu
    found["memory: before", "MB"] = run.started.now
    found["memory: after deploy", "MB"] = deploy.memory.now
    found["memory: peak", "MB"] = run.phases[-1].usage.memory.peak
    found["memory: end", "MB"] = run.phases[-1].usage.memory.now
    return found


def _openings(run: Run, word: str) -> list[float]:
    """Of a chain: seconds from a clique's minimum being ready to the next one's first or last pod being released."""
    scenario, seconds = SCENARIOS.get(run.scenario), run.phase("deploy").seconds
    cliques = list(scenario.chain) if scenario else []
    return [round(seconds[f"{after} {word}"] - seconds[f"{before} ready"], 2) for before, after in pairwise(cliques)]


def summarise(runs: Sequence[Run]) -> dict[str, list[Value]]:
    """The measures of each scenario, over all its runs, in a fixed order."""
    summary: dict[str, list[Value]] = {}
    for scenario in dict.fromkeys(run.scenario for run in runs):
        samples = [measures(run) for run in runs if run.scenario == scenario]
        summary[scenario] = [
            _value(scenario, name, unit, [sample[name, unit] for sample in samples]) for name, unit in samples[0]
        ]
    per_pod = {name: _find(values, "deploy: CPU per pod") for name, values in summary.items()}
    if BASE in per_pod:
        for name in summary.keys() - {BASE}:
            ratio = round(per_pod[name].median / per_pod[BASE].median, 2)
            summary[name].append(_value(name, f"deploy: CPU per pod, relative to {BASE}", "", [ratio]))
    return summary


def to_json(runs: Sequence[Run], summary: dict[str, list[Value]], commit: str) -> dict[str, Any]:
    """Everything measured, and the machine it was measured on."""
    return {
        "commit": commit,
        "machine": {"cpus": os.cpu_count(), "python": platform.python_version(), "kernel": platform.release()},
        "summary": {
            name: [asdict(value) | {"within": value.within} for value in values] for name, values in summary.items()
        },
        "runs": [asdict(run) for run in runs],
    }


def to_text(runs: Sequence[Run], summary: dict[str, list[Value]]) -> str:
    """The tables: measures beside budgets; then, of each scenario's last run, who used the CPU and what was written."""
    last = {run.scenario: run for run in runs}.values()
    return "\n\n".join([_measures_table(summary), *map(_cpu_table, last), *map(_writes_table, last)])


def _measures_table(summary: dict[str, list[Value]]) -> str:
    rows = [["", *summary]]
    for title in dict.fromkeys(value.title for values in summary.values() for value in values):
        cells = ({value.title: str(value) for value in values} for values in summary.values())
        rows.append([title, *(cell.get(title, "") for cell in cells)])
    return _table(rows)


def _cpu_table(run: Run) -> str:
    processes = list(run.phases[0].usage.cpu)
    rows = [[f"{run.scenario}: CPU seconds", "wall", *processes, "others"]]
    for phase in run.phases:
        usage = phase.usage
        rows.append([phase.name, *map(_number, (usage.wall, *(usage.cpu[name] for name in processes), usage.others))])
    return _table(rows)


def _writes_table(run: Run) -> str:
    rows = [[f"{run.scenario}: writes of deploy", "", "per replica", "per pod"]]
    for what, count in run.phase("deploy").usage.writes.items():
        rows.append([what, str(count), f"{count / run.replicas:.2f}", f"{count / run.pods:.2f}"])
    counted = ", ".join(f"{kind} {own}/{server}" for kind, (own, server) in run.counted.items())
    return f"{_table(rows)}\ncounted by the operator/by the API server, all phases but delete: {counted}"


def _value(scenario: str, name: str, unit: str, numbers: Iterable[float]) -> Value:
    numbers = list(numbers)
    return Value(name, unit, round(median(numbers), 2), min(numbers), budget(scenario, name))


def _find(values: Iterable[Value], measure: str) -> Value:
    return next(value for value in values if value.measure == measure)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 1000 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])
