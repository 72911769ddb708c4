"""What processes consumed: /proc, and the request counters of the operator and of the API server."""

import asyncio
import os
import re
import ssl
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from grove.runtime.kubeconfig import Kubeconfig

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = re.compile(r"^(\w+)\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(\w+)="([^"]*)"')
_WRITES = {"create", "update", "patch", "delete"}
_SERVER_WRITES = {"POST", "PUT", "PATCH", "APPLY", "DELETE"}

Requests = Counter[tuple[str, str]]
"""How many by (verb, resource)."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Resident memory of a process in MB (10⁶ bytes): now, and the highest so far."""

    now: float
    peak: float


@dataclass(frozen=True, slots=True)
class Reading:
    """Everything consumed up to a moment. CPU in seconds by process name; `busy` is that of the whole machine."""

    at: float
    cpu: Mapping[str, float]
    busy: float
    writes: Requests
    refused: int
    memory: Memory


@dataclass(frozen=True, slots=True)
class Usage:
    """Everything consumed between two readings; `others` is the CPU of processes that are not ours."""

    wall: float
    cpu: dict[str, float]
    others: float
    writes: dict[str, int]
    refused: int
    memory: Memory


class Meter:
    """Reads the consumption of `processes` (name → pid), of which one is called `operator`."""

    def __init__(self, processes: Mapping[str, int], session: aiohttp.ClientSession, metrics_url: str) -> None:
        self._processes = processes
        self._session = session
        self._metrics_url = metrics_url

    async def read(self) -> Reading:
        """What was consumed up to now."""
        writes, refused = operator_writes(await fetch(self._session, self._metrics_url))
        return Reading(
            at=asyncio.get_running_loop().time(),
            cpu={name: cpu_seconds(pid) for name, pid in self._processes.items()},
            busy=machine_seconds(),
            writes=writes,
            refused=refused,
            memory=memory(self._processes["operator"]),
        )

    async def settle(self, quiet: float = 3.0) -> Reading:
        """Wait until the operator has written nothing for `quiet` seconds; the reading of then."""
        last = await self.read()
        since = last.at
        while True:
            await asyncio.sleep(1.0)  # the operator pays for each look at its metrics
            reading = await self.read()
            if (reading.writes, reading.refused) != (last.writes, last.refused):
                last, since = reading, reading.at
            elif reading.at - since >= quiet:
                return reading

    async def calm(self, share: float = 0.1, seconds: float = 2.0) -> Reading:
        """Wait until none of the processes takes more than this share of a core; the reading of then.

        A new API server is busy with itself for a while, above all after CRDs were installed.
        """
        last = await self.read()
        while True:
            await asyncio.sleep(seconds)
            reading = await self.read()
            if all(reading.cpu[name] - last.cpu[name] <= share * seconds for name in reading.cpu):
                return reading
            last = reading


def difference(before: Reading, after: Reading) -> Usage:
    """What was consumed from one reading to the next."""
    cpu = {name: round(after.cpu[name] - before.cpu[name], 2) for name in after.cpu}
    writes = after.writes - before.writes
    return Usage(
        wall=round(after.at - before.at, 2),
        cpu=cpu,
        others=round(max(after.busy - before.busy - sum(cpu.values()), 0.0), 2),
        writes={f"{verb} {resource}": count for (verb, resource), count in sorted(writes.items())},
        refused=after.refused - before.refused,
        memory=after.memory,
    )


async def fetch(session: aiohttp.ClientSession, url: str) -> str:
    """The text at a URL."""
    async with session.get(url) as response:
        response.raise_for_status()
        return await response.text()


def operator_writes(metrics: str) -> tuple[Requests, int]:
    """What the operator wrote, and how many of its writes the API server refused, from the operator's metrics."""
    done: Requests = Counter()
    refused = 0
    for labels, value in _samples(metrics, "rest_client_requests_total"):
        if labels["verb"] in _WRITES:
            if labels["code"].startswith("2"):
                done[labels["verb"], labels["resource"]] += value
            else:
                refused += value
    return done, refused


def server_writes(metrics: str) -> Counter[str]:
    """How many writes of each resource the API server accepted from anyone, from its metrics."""
    done: Counter[str] = Counter()
    for labels, value in _samples(metrics, "apiserver_request_total"):
        if labels["verb"] in _SERVER_WRITES and labels["code"].startswith("2"):
            group, resource = labels["group"], labels["resource"]
            done[f"{resource}.{group}" if group else resource] += value
    return done


def _samples(metrics: str, name: str) -> list[tuple[dict[str, str], int]]:
    return [
        (dict(_LABEL.findall(labels)), int(float(value)))
        for found, labels, value in _SAMPLE.findall(metrics)
        if found == name
    ]


def cpu_seconds(pid: int) -> float:
    """Seconds of CPU a process has used, in user and in kernel mode, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def machine_seconds() -> float:
    """Seconds of CPU the whole machine has used: user, nice, system, interrupts, but neither idle nor I/O wait."""
    user, nice, system, _idle, _iowait, irq, softirq = map(
        int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]
    )
    return (user + nice + system + irq + softirq) / _TICKS


def memory(pid: int) -> Memory:
    """Resident memory of a process."""
    status = dict(re.findall(r"^(Vm\w+):\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE))
    return Memory(*(round(int(status[field]) * 1024 / 1e6, 1) for field in ("VmRSS", "VmHWM")))


async def credentials(kubeconfig: Path) -> ssl.SSLContext:
    """What the kubeconfig of a local cluster trusts and shows."""
    config = Kubeconfig.read(str(kubeconfig))
    assert config is not None, f"{kubeconfig} does not exist"
    return (await config.credentials()).ssl_context()
