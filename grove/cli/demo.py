"""`grove demo`: a PodCliqueSet from YAML to running pods, on a Kubernetes of this machine."""

import os
import shlex
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import yaml

from grove.api.labels import MANAGED_BY, MANAGED_BY_GROVE, PART_OF
from grove.cli.background import BackgroundOperator
from grove.cli.cluster import exports
from grove.cluster import binaries
from grove.cluster.client import ApiStatus, Client
from grove.cluster.cluster import Cluster
from grove.cluster.errors import ClusterError
from grove.webhooks.configurations import manifests

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "samples" / "simple" / "simple1.yaml"
NAME = "simple1"
"""Name of the PodCliqueSet in the sample."""

_PATIENCE = 180.0
"""Seconds in which the pods have to run; they need 3 on an idle machine."""

_KINDS = (
    "grove.io/v1alpha1/podcliquesets",
    "grove.io/v1alpha1/podcliquescalinggroups",
    "grove.io/v1alpha1/podcliques",
    "grove.io/v1alpha1/clustertopologybindings",
    "scheduler.grove.io/v1alpha1/podgangs",
)

_NOT_YET = (404, 429, 503)
"""What the API server answers for a kind whose CustomResourceDefinition is being set up."""

_NEXT = """\
{pods} pods in {gangs}, from one object: {took:.1f} s.

Now you:
  {exports}
  kubectl scale pcsg {name}-0-sga --replicas=2    # one more pair of pcb and pcc: 4 pods, a gang of their own
  kubectl scale pclq {name}-0-pca --replicas=5    # two more pods in the gang that runs
  kubectl scale pcs {name} --replicas=2           # the whole system once more
  kubectl get pcs,pclq,pcsg,pg,pod
  kubectl delete pcs {name}                       # nothing is left of it
  {down}"""


@click.command()
@click.option(
    "--dir",
    "directory",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path(".cluster"),
    show_default=True,
    help="Folder of the cluster, as in `grove cluster`. The operator's log is there too.",
)
def demo(directory: Path) -> None:
    """Take a PodCliqueSet to nine running pods on this machine.

    Starts a cluster (see `grove cluster`), installs the CustomResourceDefinitions, starts the operator in the
    background, has the API server call its webhooks, and applies samples/simple/simple1.yaml. What runs already is
    used as it is, so running it twice is the same as once.

    Exit code 0 when the pods run, 1 when they do not, 130 after ctrl-C.
    """
    try:
        _Demo(directory.resolve(), BackgroundOperator(directory.resolve())).run()
    except BrokenPipeError:  # nobody reads any more; click ends quietly
        raise
    except (ClusterError, ApiStatus, OSError) as error:
        raise click.ClickException(str(error)) from error
    except KeyboardInterrupt:
        click.echo("\ninterrupted: run it again to go on, or `make cluster-down` to remove everything", err=True)
        sys.exit(130)


@dataclass(frozen=True, slots=True)
class _Picture:
    """How far the set has come."""

    running: int
    wanted: int
    gangs: tuple[str, ...]
    """names and phases"""
    done: bool

    def __str__(self) -> str:
        return ", ".join([f"{self.running} of {self.wanted} pods running", *(f"gang {gang}" for gang in self.gangs)])


class _Demo:
    """One run of the demo."""

    def __init__(self, directory: Path, operator: BackgroundOperator) -> None:
        if not SAMPLE.is_file():
            raise ClusterError(f"the demo needs the project's checkout: {SAMPLE} is not there")
        self._directory = directory
        self._operator = operator
        self._kubectl = binaries.find_or_build()["kubectl"]
        self._began = time.monotonic()

    def run(self) -> None:
        cluster = self._start_cluster()
        client = cluster.client()
        self._install_api(client)
        self._start_operator()
        self._install_webhooks()
        picture = self._run_sample(client)
        click.echo()
        click.echo(self._call("get", "pcs,pclq,pcsg,pg,pod"))
        in_checkout = self._directory == ROOT / ".cluster"
        click.echo(
            _NEXT.format(
                pods=picture.running,
                gangs="one gang" if len(picture.gangs) == 1 else f"{len(picture.gangs)} gangs",
                took=time.monotonic() - self._began,
                name=NAME,
                exports=exports(cluster.kubeconfig),
                down="make cluster-down" if in_checkout else f"grove cluster down --dir {_quoted(self._directory)}",
            )
        )

    def _start_cluster(self) -> Cluster:
        line = _Line("cluster")
        line.show("starting Kubernetes")
        cluster = Cluster(directory=self._directory, report=line.note)
        status = cluster.up()
        line.done(f"Kubernetes {binaries.kubernetes_version()}, {status.nodes[0]} nodes with 8 GPUs each")
        return cluster

    def _install_api(self, client: Client) -> None:
        line = _Line("API")
        line.show("installing the CustomResourceDefinitions")
        self._call("apply", "-f", str(ROOT / "crds"))
        deadline = time.monotonic() + _PATIENCE
        while not _is_served(client):
            if time.monotonic() > deadline:
                raise ClusterError(
                    f"the API server does not serve Grove's kinds {_PATIENCE:.0f} s after their creation"
                )
            time.sleep(0.05)
        line.done(f"{len(_KINDS)} CustomResourceDefinitions")

    def _start_operator(self) -> None:
        line = _Line("operator")
        if self._operator.outdated():
            self._operator.stop()
        already = self._operator.running()
        self._operator.start()
        line.done(f"{'runs already' if already else 'started'}, its log is {os.path.relpath(self._operator.log)}")

    def _install_webhooks(self) -> None:
        """Have the API server ask the operator about sets, and wait until it does."""
        line = _Line("webhooks")
        line.show("the API server gets to know the operator")
        configurations = manifests(url=self._operator.webhooks)
        self._call("apply", "-f", "-", content=yaml.safe_dump_all(configurations))
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self._call("apply", "--dry-run=server", "-f", str(SAMPLE))
                break
            except ClusterError as error:
                self._must_run()
                if "failed calling webhook" not in str(error) or time.monotonic() > deadline:
                    raise
            time.sleep(0.1)
        line.done(f"{len(configurations)}, a set is checked before it is stored")

    def _must_run(self) -> None:
        if not self._operator.running():
            raise ClusterError(f"the operator has ended; its log says:\n{self._operator.last_words()}")

    def _run_sample(self, client: Client) -> _Picture:
        """Apply the sample and wait until all its pods run."""
        line = _Line(NAME)
        self._call("apply", "-f", str(SAMPLE))
        deadline = time.monotonic() + _PATIENCE
        while not (picture := _look(client)).done:
            line.show(str(picture))
            self._must_run()
            if time.monotonic() > deadline:
                late = f"{NAME} is not there after {_PATIENCE:.0f} s ({picture})"
                raise ClusterError(f"{late}; the operator's log ends with:\n{self._operator.last_words()}")
            time.sleep(0.1)
        line.done(str(picture))
        return picture

    def _call(self, *arguments: str, content: str | None = None) -> str:
        """Run kubectl with `content` as its input; its output. Raises ClusterError with its words when it fails."""
        command = [str(self._kubectl), "--kubeconfig", str(self._directory / "kubeconfig"), *arguments]
        done = subprocess.run(command, input=content or "", capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise ClusterError(f"kubectl {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


def _is_served(client: Client) -> bool:
    try:
        for kind in _KINDS:
            client.api("GET", f"/apis/{kind}?limit=1")
    except ApiStatus as error:
        if error.status not in _NOT_YET:
            raise
        return False
    return True


def _look(client: Client) -> _Picture:
    try:
        return _see(client)
    except ApiStatus as error:
        if error.status not in _NOT_YET:
            raise
        return _Picture(0, 0, (), done=False)


def _see(client: Client) -> _Picture:
    selector = f"?labelSelector={MANAGED_BY}={MANAGED_BY_GROVE},{PART_OF}={NAME}"

    def items(group: str, plural: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = client.api("GET", f"/{group}/namespaces/default/{plural}{selector}")["items"]
        return found

    pcs = client.api("GET", f"/apis/grove.io/v1alpha1/namespaces/default/podcliquesets/{NAME}")
    phases = [
        pod["status"].get("phase") for pod in items("api/v1", "pods") if "deletionTimestamp" not in pod["metadata"]
    ]
    wanted = sum(pclq["spec"].get("replicas", 0) for pclq in items("apis/grove.io/v1alpha1", "podcliques"))
    gangs = items("apis/scheduler.grove.io/v1alpha1", "podgangs")
    status = pcs.get("status") or {}
    available = (status.get("observedGeneration"), status.get("availableReplicas", 0))
    return _Picture(
        running=phases.count("Running"),
        wanted=wanted,
        gangs=tuple(f"{g['metadata']['name']} {(g.get('status') or {}).get('phase', 'Pending')}" for g in gangs),
        done=available == (pcs["metadata"]["generation"], pcs["spec"].get("replicas", 0))
        and phases == ["Running"] * wanted,
    )


class _Line:
    """A step as one line of output: rewritten in place on a terminal, a line for each change elsewhere."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._began = time.monotonic()
        self._shown = ""
        self._start = "\r\033[K" if sys.stdout.isatty() else ""

    def show(self, text: str) -> None:
        """Say how it stands."""
        if text != self._shown:
            self._shown = text
            click.echo(f"{self._start}{self._label:<9} {text}", nl=not self._start)

    def note(self, text: str) -> None:
        """Say something that stays."""
        click.echo(f"{self._start}{text}")

    def done(self, text: str) -> None:
        """End the line; it tells how long the step took."""
        click.echo(f"{self._start}{self._label:<9} {text} ({time.monotonic() - self._began:.1f} s)")


def _quoted(path: Path) -> str:
    """The path as one word of a shell."""
    return shlex.quote(str(path))
