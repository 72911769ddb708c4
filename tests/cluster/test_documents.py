"""Every command of README.md and docs/ is typed here, page by page and in order, on a cluster of this file's own.

A reader's shell is played: what it exports stays, what a page has it save is there, and what a page says comes out has
to come out. What cannot be run here stands in `tests/documents.py`, with its reason.
"""

import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from grove.cli.background import BackgroundOperator
from grove.cluster import binaries
from tests.cluster.harness import ROOT, running_cluster, wait
from tests.documents import ASKS, DOCUMENTS, NOT_RUN, RUNS_ON, Command, File, lacking, steps

BEFORE = {
    "docs/migration.md": ["kubectl apply -f samples/simple/simple1.yaml"],
    # The chart brings webhooks of its own.
    "docs/install.md": ["kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations --all"],
}
"""What has to be done before a page, since it presumes it."""

AFTER = {
    # It has the API server call an operator that is not there.
    "docs/admission.md": ["make demo"],
}
"""What has to be done after a page, for the others."""

LAST = ["docs/install.md", "docs/development.md"]
"""Pages that leave the cluster without what the others need."""

_SHELL = 'cd "$1"; . ./.environment; eval "$2"; code=$?; export -p > .environment; exit $code'
_PATIENCE = 240.0


class Reader:
    """Somebody at a shell, in a checkout."""

    def __init__(self, folder: Path, programs: Path) -> None:
        self.folder = folder
        self._running: list[subprocess.Popen[bytes]] = []
        for path in ROOT.iterdir():
            if not path.name.startswith(".") and path.name != "build":
                (folder / path.name).symlink_to(path)
        environment = folder / ".venv"
        environment.mkdir()
        for path in Path(sys.prefix).iterdir():
            if path.name != ".ready":
                (environment / path.name).symlink_to(path)
        (environment / ".ready").touch()  # so that make installs nothing
        kept = {
            name: os.environ[name] for name in ("HOME", "XDG_CACHE_HOME", "KUBEBUILDER_ASSETS") if name in os.environ
        }
        kept["PATH"] = f"{os.environ['PATH']}:{programs}"
        exports = [f"export {name}={shlex.quote(value)}\n" for name, value in kept.items()]
        (folder / ".environment").write_text("".join(exports))

        self.saves("README.md")

    def saves(self, page: str) -> None:
        """Make the files that a page shows."""
        for step in steps(DOCUMENTS[page]):
            if isinstance(step, File):
                (self.folder / step.name).write_text(step.text)

    def types(self, text: str) -> tuple[int, str]:
        """Run a command to its end; its exit code, and what it prints."""
        command = ["bash", "-c", _SHELL, "bash", str(self.folder), text]
        done = subprocess.run(
            command, env={}, stdin=subprocess.DEVNULL, stdout=-1, stderr=-2, text=True, timeout=_PATIENCE, check=False
        )
        return done.returncode, done.stdout

    def starts(self, text: str) -> None:
        """Run a command until `leaves` is called."""
        command = ["bash", "-c", f'cd "$1"; . ./.environment; exec {text}', "bash", str(self.folder)]
        self._running.append(subprocess.Popen(command, env={}, stdin=-3, stdout=-3, stderr=-3))

    def leaves(self) -> None:
        """End what `starts` has started, with ctrl-C."""
        while self._running:
            process = self._running.pop()
            process.send_signal(signal.SIGINT)
            process.wait(60)

    def runs_the_demo(self) -> None:
        """What the other pages presume: the README's first command, and the line of the README that comes after it."""
        for text in ("make demo", 'eval "$(.venv/bin/grove cluster env)"'):
            code, said = self.types(text)
            assert code == 0, said

    def follows(self, page: str) -> None:
        """Do what a page says, and see what it says."""
        self.saves(page)
        for step in steps(DOCUMENTS[page]):
            if isinstance(step, File):
                continue
            if any(re.fullmatch(pattern, step.text) for pattern in NOT_RUN):
                self.imagines(step)
            elif any(re.fullmatch(pattern, step.text) for pattern in RUNS_ON):
                self.starts(step.text)
            elif re.match(ASKS, step.text):
                wait(partial(self.sees, step), timeout=_PATIENCE, message=str(step))
            else:
                self.sees(step)

    def sees(self, command: Command) -> bool:
        """Run a command, which must succeed or fail with what the page shows, and print what the page shows."""
        code, said = self.types(command.text)
        assert code == 0 or command.shown, f"{command} ends with {code}:\n{said}"
        missing = lacking(command.shown, said)
        assert not missing, f"{command} does not show\n{missing}\nbut\n{said}"
        return True

    def imagines(self, command: Command) -> None:
        """Ask make what it would run, of a target that is not run here."""
        if command.text.startswith("make "):
            code, said = self.types(command.text.replace("make ", "make -n ", 1))
            assert code == 0, f"{command}:\n{said}"


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader with a cluster in the folder where `make demo` looks for one."""
    folder = tmp_path_factory.mktemp("reader")
    reader = Reader(folder, binaries.find_or_build(tools=(binaries.HELM,))["helm"].parent)
    with running_cluster(folder / ".cluster", 10):
        yield reader
        BackgroundOperator(folder / ".cluster").stop()


@pytest.mark.parametrize("page", [*(name for name in DOCUMENTS if name not in LAST), *LAST])
def test_page(reader: Reader, page: str) -> None:
    if page != "README.md" and "KUBECONFIG" not in (reader.folder / ".environment").read_text():
        reader.runs_the_demo()
    for text in BEFORE.get(page, ()):
        reader.types(text)
    try:
        reader.follows(page)
    finally:
        reader.leaves()
        for text in ("kubectl delete podcliquesets --all", *AFTER.get(page, ())):
            reader.types(text)
