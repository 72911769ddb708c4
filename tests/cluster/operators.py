"""The operator as a process of its own, started and stopped as users and crashes do."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.harness import ROOT

QUIET: Mapping[str, Any] = {
    "server": {"metrics": {"port": 0}, "healthProbes": {"port": 0}, "webhooks": {"port": 0}},
    "logFormat": "text",
}
"""A configuration that opens no port, so that any number of operators run side by side."""

_STARTUP = 180.0
_SHUTDOWN = 90.0

# Runs the command, and ends when its standard input does, which it does however the test run ends: even by kill -9.
_LAUNCH = """
import os, threading
threading.Thread(target=lambda: (os.read(0, 1), os._exit(1)), daemon=True).start()
from grove.cli import main
main(prog_name="grove")
"""


class OperatorProcess:
    """`grove operator` on one cluster, from the sources in `root`. Restarts append to the same log."""

    def __init__(self, kubeconfig: Path, folder: Path, config: Mapping[str, Any] = QUIET, *, root: Path = ROOT) -> None:
        self._root = root
        self._log = folder / "operator.log"
        self._log.touch()
        config_file = folder / "operator.yaml"
        config_file.write_text(yaml.safe_dump(dict(config)))
        arguments = ["operator", "--kubeconfig", str(kubeconfig), "--config", str(config_file)]
        self._command = [sys.executable, "-c", _LAUNCH, *arguments]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        """All it has logged, restarts included."""
        return self._log.read_text(errors="replace")

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """Process id; the process must have been started."""
        assert self._process is not None, "the operator was not started"
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start it, and wait until it has read the cluster unless told otherwise. Fails the test if it ends instead."""
        assert not self.is_running, "the operator runs already"
        mark = len(self.log)
        with self._log.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                cwd=self._root,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        deadline = time.monotonic() + _STARTUP
        while wait and "Caches are filled" not in self.log[mark:]:
            assert self.is_running, f"the operator ended at its start:\n{self.tail()}"
            assert time.monotonic() < deadline, f"the operator did not start within {_STARTUP:.0f} s:\n{self.tail()}"
            time.sleep(0.05)

    def stop(self) -> int:
        """End it by SIGTERM, as a Deployment does; its exit code."""
        return self._end(signal.SIGTERM)

    def kill(self) -> None:
        """End it by SIGKILL: no clean-up, as in a crash."""
        self._end(signal.SIGKILL)

    def restart(self) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start()

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """It does not run within the block; afterwards it does."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    def tail(self, lines: int = 40) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.splitlines()[-lines:])

    @property
    def cpu_seconds(self) -> float:
        """CPU time used since the last start, in user and kernel mode together (Linux)."""
        # The command's name, in brackets, may hold spaces; utime and stime are the 14th and 15th fields.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def rss(self) -> int:
        """Resident memory in bytes (Linux)."""
        return self._memory("VmRSS")

    @property
    def peak_rss(self) -> int:
        """Largest resident memory since the last start in bytes (Linux)."""
        return self._memory("VmHWM")

    def _memory(self, field: str) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:"))

    def _end(self, how: signal.Signals) -> int:
        assert self._process is not None, "the operator was not started"
        self._process.send_signal(how)
        try:
            code = self._process.wait(_SHUTDOWN)
        except subprocess.TimeoutExpired as error:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"the operator was not gone {_SHUTDOWN:.0f} s after {how.name}") from error
        finally:
            if self._process.stdin:
                self._process.stdin.close()
        return code
