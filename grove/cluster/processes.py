"""The processes of a cluster, known by the program they run.

A process belongs to a cluster when its program is a file in the cluster's own `bin` folder. That holds after a crash
or a reboot, where a file with a process id may name a stranger by now, and so no stranger is ever stopped.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

STARTED = "--- started again ---\n"
"""The line in a log after which the words of a new process begin."""


_LAUNCH = '"$@" >>"$0" 2>&1 </dev/null & echo $!'


def running(folder: Path) -> dict[int, str]:
    """Process id → program name of everything that runs from the absolute path `folder`."""
    prefix = f"{folder}/"
    found = {}
    for pid, command in _commands(prefix):
        if command.startswith(prefix):
            found[pid] = command.removeprefix(prefix).split(maxsplit=1)[0]
    return found


def start(command: Sequence[str], log: Path) -> None:
    """Start a program that outlives this process, its output appended to `log`; from the return on `running` knows it.

    A shell in between makes it a child of init: were it ours, it would stay a zombie after it ends, and other
    programs would take it for alive.
    """
    with log.open("a") as output:
        output.write(STARTED)
    shell = ["/bin/sh", "-c", _LAUNCH, str(log), *command]
    answer = subprocess.run(shell, start_new_session=True, stdout=subprocess.PIPE, check=True)
    while any(pid == int(answer.stdout) and _LAUNCH in text for pid, text in _commands(_LAUNCH)):
        time.sleep(0.005)  # still the shell, which is about to become the program


def stop(folder: Path, names: Collection[str] | None = None, timeout: float = 30.0) -> None:
    """Kill what runs from `folder` (only the programs `names`, when given) and wait until it is gone, ports and all.

    Raises TimeoutError when something is still there after `timeout` seconds.
    """
    deadline = time.monotonic() + timeout
    killed: set[int] = set()
    while True:
        victims = [pid for pid, name in running(folder).items() if names is None or name in names]
        lingering = [pid for pid in killed if _lingers(pid)]
        if not victims and not lingering:
            return
        if time.monotonic() > deadline:
            raise TimeoutError(f"processes {victims or lingering} do not stop")
        for pid in victims:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            killed.add(pid)
        time.sleep(0.02)


def _lingers(pid: int) -> bool:
    """Whether a killed process is still closing its files and ports (Linux): its command line goes before they do.

    A zombie holds nothing any more once the last of its threads is gone.
    """
    process = Path("/proc", str(pid))
    try:
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        return state != "Z" or len(list((process / "task").iterdir())) > 1
    except OSError:
        return False


def _commands(needle: str) -> Iterator[tuple[int, str]]:
    """Process id and command line of every living process, at least of those that contain `needle`."""
    if sys.platform == "linux":
        # Not ps: slim container images have none. A zombie has an empty command line.
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                try:
                    command = Path(entry.path, "cmdline").read_bytes()
                except OSError:  # it has just ended
                    continue
                yield int(entry.name), command.replace(b"\0", b" ").decode(errors="replace")
    else:
        listing = subprocess.run(["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True)
        for line in listing.stdout.splitlines():
            if needle in line:
                pid, command = line.split(maxsplit=1)
                yield int(pid), command
