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
from tests.bench.usage import Usage

BASE = "100x2"
BASES = {BASE: "deploy", "100x2 update": "update"}
"""The scenarios to which the cost per pod of others is compared, and the phase in which it is."""


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
    for measure, seconds in run.bare.items():
        if mine := found.get((measure, "s")):
            found[f"{measure}, share of a bare loop's", ""] = round(mine / seconds, 2)
    for name, usage in _costs(run):
        writes = sum(usage.writes.values())
        found[f"{name}: CPU per pod", "ms"] = round(1000 * usage.cpu["operator"] / run.pods, 2)
        found[f"{name}: writes per pod", ""] = round(writes / run.pods, 2)
        if run.replicas > 1:
            found[f"{name}: writes per replica", ""] = round(writes / run.replicas, 2)
    deploy = run.phase("deploy").usage
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


def _costs(run: Run) -> list[tuple[str, Usage]]:
    """The phases in which every pod is made, so that costs per pod mean something."""
    return [(phase.name, phase.usage) for phase in run.phases if phase.name in ("deploy", "update")]


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
    for base, phase in BASES.items():
        measure = f"{phase}: CPU per pod"
        per_pod = {name: found for name, values in summary.items() if (found := _find(values, measure)) is not None}
        for name in per_pod.keys() - {base} if base in per_pod else ():
            ratio = round(per_pod[name].median / per_pod[base].median, 2)
            summary[name].append(_value(name, f"{measure}, relative to {base}", "", [ratio]))
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
    tables = []
    for name, usage in _costs(run):
        rows = [[f"{run.scenario}: writes of {name}", "", "per replica", "per pod"]]
        for what, count in usage.writes.items():
            rows.append([what, str(count), f"{count / run.replicas:.2f}", f"{count / run.pods:.2f}"])
        tables.append(_table(rows))
    counted = ", ".join(f"{kind} {own}/{server}" for kind, (own, server) in run.counted.items())
    tables[-1] += f"\ncounted by the operator/by the API server, all phases but delete: {counted}"
    return "\n\n".join(tables)


def _value(scenario: str, name: str, unit: str, numbers: Iterable[float]) -> Value:
    numbers = list(numbers)
    return Value(name, unit, round(median(numbers), 2), min(numbers), budget(scenario, name))


def _find(values: Iterable[Value], measure: str) -> Value | None:
    return next((value for value in values if value.measure == measure), None)


def _number(value: float) -> str:
    return f"{value:.0f}" if value == int(value) or value >= 1000 else f"{value:.2f}" if value < 10 else f"{value:.1f}"


def _table(rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "  ".join("─" * width for width in widths), *lines[1:]])
