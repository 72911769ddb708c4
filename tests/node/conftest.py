"""Fixtures of the tests with real containers: a cluster whose only node is a real kubelet on this machine."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from grove.cluster import binaries
from tests.cluster.conftest import crds, namespace, operator, pytest_runtest_makereport, workspace
from tests.cluster.harness import Harness, running_cluster
from tests.node.node import APISERVER_FLAGS, Node, find_or_build, missing, running_node

__all__ = ["crds", "namespace", "operator", "pytest_runtest_makereport", "workspace"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Say in one sentence what is missing, and build what can be built, before the first test."""
    ours = any(Path(__file__).parent in item.path.parents for item in session.items)
    if session.config.option.collectonly or not ours:
        return
    if reason := missing():
        pytest.exit(reason, returncode=1)
    capture = session.config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        binaries.find_or_build()
        binaries.find_or_build(tools=(binaries.HELM,))
        find_or_build()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """A cluster without fake nodes."""
    with running_cluster(tmp_path_factory.mktemp("cluster"), 0, apiserver_flags=APISERVER_FLAGS) as harness:
        yield harness


@pytest.fixture(scope="session", autouse=True)
def node(cluster: Harness) -> Iterator[Node]:
    """Its one node, which runs real containers."""
    folder = Path(tempfile.mkdtemp(prefix="grove-node-"))  # a short path, see running_node
    try:
        with running_node(cluster, folder) as node:
            yield node
    finally:
        shutil.rmtree(folder, ignore_errors=True)
