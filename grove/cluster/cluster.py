"""The embedded cluster: a Kubernetes control plane as plain processes, with fake nodes.

etcd, kube-apiserver, kube-controller-manager, kube-scheduler and KWOK (which plays the kubelets) run on 127.0.0.1 with
free ports and keep everything in one folder. kwokctl makes certificates and command lines and starts them the first
time; after that this module starts and stops them itself. The native gang APIs are on.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from grove.cluster import binaries, nodes, processes
from grove.cluster.client import ApiStatus, Client, answers
from grove.cluster.config import COMPONENTS, Component, choose_ports, kwokctl_config, read_components
from grove.cluster.errors import ClusterError
from grove.cluster.lock import exclusive

DEFAULT_NAME = "grove"
DEFAULT_NODES = 10

_STARTUP = 180.0
"""Seconds a control plane may take to become healthy; it needs 3 on an idle machine."""

_SLOW = 20.0
"""Seconds in which a running component that does not answer has to recover, or it is taken for hung."""


@dataclass(frozen=True)
class Status:
    """What there is of a cluster. `nodes` counts (Ready, all), both 0 when the API server does not answer."""

    name: str
    state: Literal["running", "degraded", "stopped"]
    components: dict[str, Literal["healthy", "unhealthy", "not running"]]
    server: str
    nodes: tuple[int, int]
    kubeconfig: Path


class _PortTakenError(ClusterError):
    """Somebody took a port between choosing it and listening on it."""


class _DiskFullError(ClusterError):
    """No component can work without space, and making the cluster anew would only lose its data."""


class Cluster:
    """One cluster in one folder.

    `name` is lower-case letters, digits and dashes; left out it is that of the cluster in the folder, or `grove`.
    `report` gets a line for each thing worth telling. `apiserver_flags` are for the API server of a new cluster, and
    `gangs` tells whether that has Kubernetes' own gangs. Raises ClusterError for a bad name, for a folder that holds
    another cluster, and on a platform that cannot run one.
    """

    def __init__(
        self,
        name: str | None = None,
        directory: Path = Path(".cluster"),
        report: Callable[[str], None] = lambda _: None,
        apiserver_flags: Mapping[str, str] | None = None,
        *,
        gangs: bool = True,
    ) -> None:
        binaries.target_platform()
        self.directory = directory.resolve()
        self._report = report
        self._apiserver_flags = apiserver_flags
        self._gangs = gangs
        self._kwok = self.directory / "kwok"
        self._clusters = self._kwok / ".kwok" / "clusters"  # where kwokctl keeps them below the home folder
        existing = self._existing_name()
        self.name = name or existing or DEFAULT_NAME
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?", self.name):
            raise ClusterError(
                f"{self.name!r} cannot name a cluster: use up to 40 lower-case letters, digits and dashes, with a "
                "letter or digit at both ends"
            )
        if existing not in (None, self.name):
            raise ClusterError(
                f"{self.directory} holds the cluster {existing}: choose another folder for {self.name} with --dir"
            )
        self.kubeconfig = self.directory / "kubeconfig"
        self._home = self._clusters / self.name

    # -- the whole cluster ---------------------------------------------------------------------------------------

    def up(self, node_count: int | None = None) -> Status:
        """Make the cluster run with at least `node_count` fake nodes (10 for a new cluster, as many as it has for one
        that exists) and return its status once it is healthy and every node is Ready.

        Does nothing to a healthy cluster. One that is stopped or half dead is restarted and keeps its objects; if
        that fails it is made anew, which `report` is told. Raises ClusterError when it does not come up.
        """
        with self._locked():
            status = self.status()
            if not self._is_complete():
                self._create(node_count)
            elif status.state != "running":
                self._revive(status, node_count)
            else:
                self._report(f"cluster {self.name} is already running")
            nodes.create(self.client(), node_count or 0)
            nodes.wait_usable(self.client())
            return self.status()

    def down(self) -> bool:
        """Stop every process of the cluster and remove its files; False when there was nothing.

        Works without the binaries, and after somebody has removed the folder but not the processes. Raises ClusterError
        when a process cannot be stopped or a file not removed.
        """
        if not self._kwok.exists() and not processes.running(self._clusters):
            return False
        with self._locked():
            self._destroy()
            (self.directory / "lock").unlink(missing_ok=True)
        if not any(self.directory.iterdir()):
            self.directory.rmdir()
        return True

    def status(self) -> Status:
        """Look at every component's process and health endpoint. Changes nothing."""
        alive = self._alive()
        components: dict[str, Literal["healthy", "unhealthy", "not running"]] = {}
        for component in self._components():
            if component.name not in alive:
                components[component.name] = "not running"
            else:
                components[component.name] = "healthy" if answers(component.health) else "unhealthy"
        server, count = "", (0, 0)
        if self._is_complete() and components["kube-apiserver"] == "healthy":
            client = self.client()
            items = client.api("GET", "/api/v1/nodes")["items"]
            server, count = client.server, (sum(map(nodes.is_ready, items)), len(items))
        state: Literal["running", "degraded", "stopped"] = "degraded"
        if not alive:
            state = "stopped"
        elif self._is_complete() and set(components.values()) == {"healthy"}:
            state = "running"
        return Status(self.name, state, components, server, count, self.kubeconfig)

    def client(self) -> Client:
        """A client of the API server as cluster administrator."""
        return Client(self._home / "kubeconfig.yaml")

    # -- single components -----------------------------------------------------------------------------------------

    def stop(self, name: str) -> None:
        """Kill one component, such as `kube-scheduler`, the hard way: no clean shutdown, as in a crash."""
        processes.stop(self._home / "bin", [self._component(name).name])

    def start(self, name: str) -> None:
        """Start one component with the flags it had and wait until it is healthy; nothing happens if it runs.

        Raises ClusterError when it does not become healthy.
        """
        component = self._component(name)
        self._spawn(component)
        self._wait_healthy([component], _STARTUP)

    def restart_apiserver(self) -> None:
        """Kill the API server and start it again on the same port; what is stored stays, watches break."""
        self.stop("kube-apiserver")
        self.start("kube-apiserver")

    # -- inside ------------------------------------------------------------------------------------------------------

    def _create(self, node_count: int | None) -> None:
        programs = binaries.find_or_build()
        for attempt in range(1, 6):
            self._destroy()
            try:
                self._create_control_plane(programs)
                break
            except _PortTakenError as error:
                self._report(f"{error}: trying other ports")
                if attempt == 5:
                    raise
            except BaseException:
                processes.stop(self._home / "bin")  # the logs stay, they tell why
                raise
        nodes.create(self.client(), DEFAULT_NODES if node_count is None else node_count)
        # Last, since a cluster with this file counts as complete: `up` starts again from nothing where it is missing.
        shutil.copyfile(self._home / "kubeconfig.yaml", self.kubeconfig)

    def _create_control_plane(self, programs: dict[str, Path]) -> None:
        self._kwok.mkdir(parents=True)
        config = self._kwok / "cluster.yaml"
        config.write_text(kwokctl_config(programs, choose_ports(), self._apiserver_flags, gangs=self._gangs))
        create: list[str | Path] = [programs["kwokctl"], "create", "cluster", "--name", self.name]
        # kwokctl takes options from KWOK_* variables too; none of the user's may leak in. KWOK_WORKDIR is no way to
        # place the files, since it is cut at the first space; HOME is. And it runs the kubectl of PATH.
        environment = {key: value for key, value in os.environ.items() if not key.startswith("KWOK_")}
        environment["HOME"] = str(self._kwok)
        environment["PATH"] = f"{programs['kubectl'].parent}{os.pathsep}{environment.get('PATH', os.defpath)}"
        log = self._kwok / "create.log"
        with log.open("wb") as output:
            kwokctl = subprocess.Popen(
                [*create, "--config", config], env=environment, stdout=output, stderr=subprocess.STDOUT
            )
        try:
            while kwokctl.poll() is None:
                # Left alone it would wait for minutes for an API server that has ended long ago.
                started = {file.stem for file in self._home.glob("pids/*.pid")}
                for name in started - self._alive():
                    self._ended(name)
                time.sleep(0.05)
        finally:
            kwokctl.kill()
            kwokctl.wait()
        if kwokctl.returncode != 0:
            raise ClusterError(f"kwokctl cannot create the cluster, see {log}:\n{_tail(log)}")
        # From now on processes are known by what they run. These files grow stale, and kwokctl kills what they name.
        shutil.rmtree(self._home / "pids")
        self._wait_control_plane()

    def _revive(self, status: Status, node_count: int | None) -> None:
        if "not running" not in status.components.values():
            try:
                self._wait_healthy(self._components(), _SLOW)
                return
            except ClusterError as error:  # not just slow
                self._report(str(error))
        self._report(
            f"cluster {self.name} is {'half dead' if status.state == 'degraded' else 'stopped'}: restarting it"
        )
        processes.stop(self._home / "bin")
        try:
            for component in self._components():
                self._spawn(component)
            self._wait_control_plane()
        except _DiskFullError:
            raise
        except (ClusterError, FileNotFoundError) as error:
            self._report(f"the restart failed: {error}\nmaking the cluster anew; what was stored in it is lost")
            self._create(node_count)

    def _spawn(self, component: Component) -> None:
        if component.name not in self._alive():
            processes.start(component.command, component.log)

    def _wait_control_plane(self) -> None:
        """Wait until everything is healthy and the service account exists without which no pod is admitted."""
        self._wait_healthy(self._components(), _STARTUP)
        deadline = time.monotonic() + _STARTUP
        while not self._admits_pods():
            if time.monotonic() > deadline:
                raise ClusterError("the controller manager made no default service account: see its log")
            time.sleep(0.05)

    def _wait_healthy(self, components: list[Component], timeout: float) -> None:
        deadline = time.monotonic() + timeout
        waiting, restarts = list(components), 0
        while waiting := [component for component in waiting if not answers(component.health)]:
            alive = self._alive()
            for component in waiting:
                if component.name not in alive:
                    self._ended(component.name, may_restart=restarts < 10)
                    self._spawn(component)
                    restarts += 1
            if time.monotonic() > deadline:
                raise ClusterError(f"{waiting[0].name} is not healthy after {timeout:.0f} s, see {waiting[0].log}")
            time.sleep(0.05)

    def _ended(self, name: str, may_restart: bool = True) -> None:
        """Raise the error for a component that has ended, unless it may be started again.

        Nothing recovers from the end of etcd or the API server. The others give up when that one is slow to start.
        """
        log = self._home / "logs" / f"{name}.log"
        words = _tail(log, 100)
        if "address already in use" in words:
            raise _PortTakenError(f"a port of {name} was taken meanwhile")
        if "no space left on device" in words:
            raise _DiskFullError(f"{name} ended, the disk is full: free 1 GB for {self.directory} and run it again")
        if name in ("etcd", "kube-apiserver") or not may_restart:
            raise ClusterError(f"{name} ended, see {log}:\n{_tail(log)}")

    def _admits_pods(self) -> bool:
        try:
            self.client().api("GET", "/api/v1/namespaces/default/serviceaccounts/default")
        except (ApiStatus, OSError):
            return False
        return True

    def _destroy(self) -> None:
        try:
            processes.stop(self._clusters)
            self.kubeconfig.unlink(missing_ok=True)
            if self._kwok.exists():
                shutil.rmtree(self._kwok)
        except (OSError, TimeoutError) as error:
            raise ClusterError(f"cannot remove the cluster in {self.directory}: {error}") from error

    def _existing_name(self) -> str | None:
        return next((home.name for home in sorted(self._clusters.glob("*"))), None)

    def _alive(self) -> set[str]:
        return set(processes.running(self._home / "bin").values())

    def _is_complete(self) -> bool:
        return bool(self._components()) and self.kubeconfig.exists()

    def _components(self) -> list[Component]:
        return read_components(self._home)

    def _component(self, name: str) -> Component:
        for component in self._components():
            if component.name == name:
                return component
        if name in COMPONENTS:
            raise ClusterError(f"there is no cluster {self.name} in {self.directory}: run grove cluster up")
        raise ClusterError(f"{name} is not a component of the cluster, these are: {', '.join(COMPONENTS)}")

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                lock = exclusive(
                    self.directory / "lock", lambda pid: self._report(f"process {pid} works on this cluster; waiting")
                )
                stack.enter_context(lock)
            except OSError as error:
                raise ClusterError(
                    f"cannot write to {self.directory} ({error.strerror}): choose another folder with --dir"
                ) from error
            yield


def _tail(log: Path, lines: int = 8) -> str:
    """The end of a log, at most since the last start."""
    if not log.exists():
        return ""
    text = log.read_text(errors="replace").rpartition(processes.STARTED)[2]
    return "\n".join(f"  | {line}" for line in text.splitlines()[-lines:])
