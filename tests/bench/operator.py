"""The operator as a process of its own, as users run it."""

import ctypes
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.harness import ROOT

_PR_SET_PDEATHSIG = 1
_READY = "Caches are filled"
_SERVING = "Serving webhooks"


# Profiles CPU time, not the time that goes by: on a busy machine that would show who was interrupted.
_PROFILED = """
import cProfile, sys, time
from grove.cli import main
profile = cProfile.Profile(time.process_time)
try:
    profile.runcall(main, sys.argv[2:], prog_name="grove")
finally:
    profile.dump_stats(sys.argv[1])
"""


@dataclass(frozen=True, slots=True)
class OperatorProcess:
    """A running operator: its process id, the URLs of its metrics and its webhooks (empty without), its log."""

    pid: int
    metrics_url: str
    webhooks_url: str
    log: Path


@contextmanager
def running_operator(
    kubeconfig: Path, directory: Path, profile: Path | None = None, *, webhooks: bool = False
) -> Iterator[OperatorProcess]:
    """Run the operator while the block runs; it has filled its caches when the block begins.

    With `profile`, it runs under cProfile and leaves the data in that file; with `webhooks` it serves them. Raises
    RuntimeError, with the end of its log, when it does not start.
    """
    port, webhook_port = _free_port(), _free_port() if webhooks else 0
    config = directory / "operator.yaml"
    server = {
        "metrics": {"bindAddress": "127.0.0.1", "port": port},
        "healthProbes": {"port": 0},
        "webhooks": {"bindAddress": "127.0.0.1", "port": webhook_port},
    }
    config.write_text(yaml.safe_dump({"server": server}))
    program = ["-c", _PROFILED, str(profile)] if profile else ["-m", "grove"]
    arguments = ["operator", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    log = directory / "operator.log"
    with (
        log.open("wb") as output,
        subprocess.Popen(
            [sys.executable, *program, *arguments], cwd=ROOT, stderr=output, preexec_fn=_end_with_parent
        ) as process,
    ):
        try:
            _wait_started(process, log, [_READY, *([_SERVING] if webhooks else [])])
            url = f"https://127.0.0.1:{webhook_port}" if webhooks else ""
            yield OperatorProcess(process.pid, f"http://127.0.0.1:{port}/metrics", url, log)
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_started(
    process: "subprocess.Popen[bytes]", log: Path, milestones: Iterable[str], timeout: float = 60.0
) -> None:
    deadline = time.monotonic() + timeout
    while not all(milestone in log.read_text() for milestone in milestones):
        if process.poll() is not None or time.monotonic() > deadline:
            lines = "\n".join(log.read_text().splitlines()[-20:])
            raise RuntimeError(f"the operator did not start; its log ends with:\n{lines}")
        time.sleep(0.05)


def _end_with_parent() -> None:
    """Ask the kernel for a SIGTERM when the parent ends, so that a killed benchmark leaves no operator behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
