"""The two waiting programs, run for real on a folder that stands in for the downward-API volume."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from grove.plan.init_container import InitContainer, Program

Start = Callable[[], subprocess.Popen[str]]


def command(program: Program, folder: Path) -> list[str]:
    """The command of the container, on another folder."""
    settings = InitContainer(program=program, image="i")
    words = [word.replace("/var/grove/pod-info", str(folder)) for word in settings.command]
    return [sys.executable if word == "python" else word for word in words]


@pytest.fixture(params=list(Program))
def start(request: pytest.FixtureRequest, tmp_path: Path) -> Start:
    def run() -> subprocess.Popen[str]:
        words = command(request.param, tmp_path)
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=_as_in_a_container
        )
        request.addfinalizer(process.kill)
        return process

    return run


def _as_in_a_container() -> None:
    """Heed SIGINT, also where the tests run in the background, which ignores it: a shell cannot trap it then."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline().strip()


def put(folder: Path, startup: str, waiting_for: str = "") -> None:
    """Write the files as the kubelet does: without a newline, and in one step."""
    for name, text in (("startup", startup), ("waiting-for", waiting_for)):
        unfinished = folder / f".{name}"
        unfinished.write_text(text)
        os.replace(unfinished, folder / name)


def test_waits_and_says_for_whom(start: Start, tmp_path: Path) -> None:
    put(tmp_path, "", "a (at least 2 ready)")
    process = start()
    assert first_line(process) == "waiting for a (at least 2 ready)"
    assert process.poll() is None
    put(tmp_path, "released")
    output, errors = process.communicate(timeout=60)
    assert (process.returncode, output.strip(), errors) == (0, "released", "")


def test_released_from_the_beginning(start: Start, tmp_path: Path) -> None:
    put(tmp_path, "released")
    output, errors = start().communicate(timeout=60)
    assert (output.strip(), errors) == ("released", "")


def test_other_values_are_no_release(start: Start, tmp_path: Path) -> None:
    put(tmp_path, "releasedd")
    process = start()
    assert first_line(process) == "waiting for the release by the operator"
    put(tmp_path, "not released")
    time.sleep(1.5)
    assert process.poll() is None


def test_a_missing_file_is_waited_for(start: Start, tmp_path: Path) -> None:
    process = start()
    assert first_line(process).startswith("waiting for")
    put(tmp_path, "released")
    process.communicate(timeout=60)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it(start: Start, tmp_path: Path, number: signal.Signals) -> None:
    put(tmp_path, "")
    process = start()
    first_line(process)
    process.send_signal(number)
    process.communicate(timeout=60)
    assert process.returncode in (143, 130)


def test_wrong_usage() -> None:
    done = subprocess.run([sys.executable, "-m", "grove.initc"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "usage" in done.stderr


def test_it_imports_nothing_but_the_standard_library() -> None:
    look = (
        "import grove.initc, sys; print([n for n in sys.modules if n.split('.')[0] in ('kopf', 'aiohttp', 'pydantic')])"
    )
    done = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
