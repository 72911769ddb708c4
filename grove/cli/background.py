"""The operator as a background process, for the demo."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import yaml

CONFIG = """\
kind: OperatorConfiguration
logFormat: text
topologyAwareScheduling: {{enabled: true}}
server: {{healthProbes: {{port: 0}}, metrics: {{port: 0}}, webhooks: {{bindAddress: 127.0.0.1, port: {port}}}}}
"""
"""No fixed ports, so that several demos can run side by side; topology, as the nodes of the demo have labels for it."""


class BackgroundOperator:
    """The operator of the cluster in `directory`, as a process that outlives this one.

    It holds a lock on the file with its process id for as long as it lives. So a number left behind by a crash or a
    reboot never names a stranger, and of two that start it at once only one does.
    """

    def __init__(self, directory: Path) -> None:
        self.log = directory / "operator.log"
        self._pid = directory / "operator.pid"
        self._config = directory / "operator.yaml"
        self._kubeconfig = directory / "kubeconfig"

    def running(self) -> bool:
        """Whether it runs."""
        with self._locked() as held:
            return held is None and self._pid.exists()

    def outdated(self) -> bool:
        """Whether it was started for a cluster that this one has replaced."""
        return self._pid.exists() and self._pid.stat().st_mtime < self._kubeconfig.stat().st_mtime

    @property
    def webhooks(self) -> str:
        """URL of its webhook server; an empty string when it was never started."""
        if not self._config.exists():
            return ""
        return f"https://127.0.0.1:{yaml.safe_load(self._config.read_text())['server']['webhooks']['port']}"

    def start(self) -> None:
        """Start it, unless it runs."""
        command = [sys.executable, "-m", "grove", "operator"]
        command += ["--kubeconfig", str(self._kubeconfig), "--config", str(self._config)]
        if not self._pid.exists():
            self._pid.touch()
        with self._locked() as held, self.log.open("ab") as log:
            if held is None:
                return
            self._config.write_text(CONFIG.format(port=_free_port()))
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # ctrl-C is not for it
                pass_fds=[held.fileno()],
            )
            held.truncate(0)
            held.write(str(process.pid))

    def stop(self, grace: float = 20.0) -> bool:
        """Stop it, by force after `grace` seconds, and remove its files; False when it did not run."""
        was_running = self.running()
        sent, deadline = 0, time.monotonic() + grace
        while self.running():
            number = signal.SIGTERM if time.monotonic() < deadline else signal.SIGKILL
            text = self._pid.read_text()
            if text and sent != number:
                os.kill(int(text), number)
                sent = number
            time.sleep(0.05)
        for file in (self._pid, self._config, self.log):
            file.unlink(missing_ok=True)
        return was_running

    def last_words(self, lines: int = 8) -> str:
        """The end of its log, indented."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])

    @contextmanager
    def _locked(self) -> Iterator[IO[str] | None]:
        """The file with the process id, locked; None when the operator holds it or there is no file."""
        import fcntl  # here, because Windows has none

        try:
            file = self._pid.open("r+")
        except FileNotFoundError:
            yield None
            return
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield None
                return
            yield file


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port
