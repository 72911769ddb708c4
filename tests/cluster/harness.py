"""What cluster tests stand on: one running cluster with helpers to look at it, to change it and to wait."""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from grove.cluster import binaries
from grove.cluster.client import ApiStatus
from grove.cluster.cluster import Cluster

__all__ = ["PATIENCE", "ROOT", "ApiStatus", "Harness", "running_cluster", "wait"]

ROOT = Path(__file__).parents[2]
"""The project's root folder."""

PATIENCE = 240.0
"""Seconds after which a test that waits gives up. Many times what it takes: other work may have the machine."""

T = TypeVar("T")

# Takes the cluster down when its standard input ends, which it does however the test run ends: even by kill -9.
_GUARD = """
import pathlib, sys
from grove.cluster.cluster import Cluster
sys.stdin.read()
Cluster(directory=pathlib.Path(sys.argv[1])).down()
"""


class Harness:
    """A running cluster. Names and values are those of the Kubernetes API."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.kubeconfig = cluster.kubeconfig
        self._client = cluster.client()
        self._kubectl = binaries.find_or_build()["kubectl"]

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._client.server

    def api(self, method: str, path: str, body: object = None, content_type: str = "application/json") -> Any:
        """One request to the API server; the decoded answer. Raises ApiStatus when it refuses."""
        return self._client.api(method, path, body, content_type, timeout=PATIENCE)

    def kubectl(self, *arguments: str | Path, input: str | None = None, check: bool = True) -> str:  # noqa: A002
        """Run kubectl with `input` as its standard input; its standard output. A failure fails the test if `check`."""
        done = self.kubectl_says(*arguments, input=input)
        assert not check or done.returncode == 0, f"kubectl {' '.join(map(str, arguments))}:\n{done.stderr}"
        return done.stdout

    def kubectl_says(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl; its exit code and both its outputs."""
        command = [self._kubectl, "--kubeconfig", self.kubeconfig, *arguments]
        return subprocess.run(command, input=input, capture_output=True, text=True, check=False)

    def wait(self, look: Callable[[], T], timeout: float = PATIENCE, message: str = "the condition") -> T:
        """See the function `wait`."""
        return wait(look, timeout, message)

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again, see Cluster.restart_apiserver."""
        self.cluster.restart_apiserver()

    def stop(self, component: str) -> None:
        """Kill one component, see Cluster.stop."""
        self.cluster.stop(component)

    def start(self, component: str) -> None:
        """Start one component again, see Cluster.start."""
        self.cluster.start(component)


def wait(look: Callable[[], T], timeout: float = PATIENCE, message: str = "the condition") -> T:
    """Call `look` until it returns something true and return that; fail with the last state after `timeout` s.

    Not found, a failed assertion and an API server that is away or busy count as not yet.
    """
    deadline = time.monotonic() + timeout
    while True:
        last: object
        try:
            if found := look():
                return found
            last = found
        except ApiStatus as error:
            if error.status not in (404, 429):
                raise
            last = error
        except (AssertionError, OSError) as error:
            last = error
        if time.monotonic() > deadline:
            raise AssertionError(f"{message}: not within {timeout:.0f} s, last seen: {last!r}")
        time.sleep(0.05)


@contextmanager
def running_cluster(
    directory: Path,
    nodes: int,
    name: str | None = None,
    apiserver_flags: Mapping[str, str] | None = None,
    *,
    gangs: bool = True,
) -> Iterator[Harness]:
    """A cluster of its own in `directory`, gone after the block and after every other end of the test run."""
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, directory], cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
    )
    assert guard.stdin
    try:
        cluster = Cluster(name, directory, apiserver_flags=apiserver_flags, gangs=gangs)
        cluster.up(nodes)
        yield Harness(cluster)
    finally:
        guard.stdin.close()
        assert guard.wait(timeout=120) == 0, "the cluster could not be taken down"
