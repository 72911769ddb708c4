"""The demo's operator as a background process. The API server it is given does not answer, which it waits for."""

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from grove.cli.background import BackgroundOperator

KUBECONFIG = """\
apiVersion: v1
kind: Config
current-context: nowhere
contexts: [{name: nowhere, context: {cluster: nowhere, user: nobody}}]
clusters: [{name: nowhere, cluster: {server: "http://127.0.0.1:9"}}]
users: [{name: nobody, user: {token: none}}]
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    (tmp_path / "kubeconfig").write_text(KUBECONFIG)
    yield tmp_path
    BackgroundOperator(tmp_path).stop(grace=0)


def process_id(folder: Path) -> int:
    return int((folder / "operator.pid").read_text())


def wait_for_end(operator: BackgroundOperator) -> None:
    deadline = time.monotonic() + 60
    while operator.running():
        assert time.monotonic() < deadline, "the operator does not end"
        time.sleep(0.05)


def test_started_twice_it_runs_once_and_stops_without_a_trace(folder: Path) -> None:
    first, second = BackgroundOperator(folder), BackgroundOperator(folder)
    assert not first.running()
    first.start()
    started = process_id(folder)
    assert second.running()
    second.start()
    assert process_id(folder) == started
    os.kill(started, 0)  # raises unless there is such a process
    assert second.stop()
    assert not first.running()
    assert sorted(path.name for path in folder.iterdir()) == ["kubeconfig"]
    assert not first.stop()


def test_the_number_of_a_stranger_is_not_touched(folder: Path) -> None:
    """After a reboot the file may name any process, here the one that runs this test."""
    (folder / "operator.pid").write_text(str(os.getpid()))
    operator = BackgroundOperator(folder)
    assert not operator.running()
    assert not operator.stop()
    assert not (folder / "operator.pid").exists()


def test_one_that_ended_leaves_its_last_words_and_is_started_anew(folder: Path) -> None:
    (folder / "kubeconfig").rename(folder / "away")
    operator = BackgroundOperator(folder)
    operator.start()
    wait_for_end(operator)
    assert f"'{folder / 'kubeconfig'}' does not exist" in operator.last_words()
    before = process_id(folder)
    (folder / "away").rename(folder / "kubeconfig")
    operator.start()
    assert operator.running()
    assert process_id(folder) != before


def test_it_is_outdated_when_the_cluster_is_newer(folder: Path) -> None:
    operator = BackgroundOperator(folder)
    assert not operator.outdated()
    operator.start()
    assert not operator.outdated()
    later = time.time() + 60
    os.utime(folder / "kubeconfig", (later, later))
    assert operator.outdated()
