"""A kind cluster with the operator in it: real nodes in containers, with fake GPUs and a place in a topology.

kind and helm are built as the programs of the embedded cluster are; the machine has to have a container engine.
"""

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import yaml

from grove.cluster import binaries
from grove.cluster.config import GANG_APIS, GANG_FEATURES
from grove.cluster.errors import ClusterError

NAME = "grove"
NAMESPACE = "grove-system"
KUBECONFIG = Path("build/kind.kubeconfig")

KAI_CHART = "oci://ghcr.io/kai-scheduler/kai-scheduler/kai-scheduler"
KAI_VERSION = "v0.17.0"

ENGINES = ("docker", "podman", "nerdctl")
"""What kind can use, in the order in which they are tried; its own variable KIND_EXPERIMENTAL_PROVIDER names one."""

_GPUS = 8
_NODES_PER_RACK, _NODES_PER_BLOCK, _NODES_PER_ZONE = 2, 4, 8


def config(workers: int) -> str:
    """kind's configuration of a cluster with so many workers: Kubernetes of kind's version, with gangs."""
    document = {
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "kind": "Cluster",
        "featureGates": dict.fromkeys(GANG_FEATURES, True),
        "runtimeConfig": dict.fromkeys(GANG_APIS, "true"),
        "nodes": [{"role": "control-plane"}, *({"role": "worker"} for _ in range(workers))],
    }
    return yaml.safe_dump(document, sort_keys=False)


def labels(index: int) -> dict[str, str]:
    """The place of a worker, counted from 0. The host is a label that the kubelet sets itself."""
    zone = f"zone-{index // _NODES_PER_ZONE}"
    return {
        "kubernetes.io/rack": f"rack-{index // _NODES_PER_RACK}",
        "kubernetes.io/block": f"block-{index // _NODES_PER_BLOCK}",
        "kubernetes.io/zone": zone,
        "topology.kubernetes.io/zone": zone,
    }


def find_engine(environment: Mapping[str, str] = os.environ) -> str:
    """The container engine that answers. Raises ClusterError, which names each that was tried."""
    wanted = environment.get("KIND_EXPERIMENTAL_PROVIDER")
    answers: list[str] = []
    for engine in (wanted,) if wanted else ENGINES:
        if not shutil.which(engine):
            answers.append(f"{engine} is not installed")
            continue
        try:
            done = subprocess.run([engine, "info"], capture_output=True, text=True, check=False, timeout=60)
        except subprocess.TimeoutExpired:
            answers.append(f"{engine} does not answer")
            continue
        if done.returncode == 0:
            return engine
        words = (done.stderr.strip() or done.stdout.strip()).splitlines()
        answers.append(f"{engine} says: {words[-1] if words else 'nothing'}")
    raise ClusterError(
        f"kind needs a container engine, and none answers here ({', '.join(answers)}): start one, or install Docker "
        "or Podman; `make demo` needs none"
    )


class Kind:
    """The cluster `name`. `report` gets a line for each step. Raises ClusterError where there is no engine."""

    def __init__(self, name: str = NAME, report: Callable[[str], None] = lambda _: None) -> None:
        self.name = name
        self._report = report
        self.engine = find_engine()
        programs = binaries.find_or_build(tools=(binaries.KIND,)) | binaries.find_or_build(tools=(binaries.HELM,))
        self._kind, self._helm = str(programs["kind"]), str(programs["helm"])
        self._environment = {**os.environ, "KIND_EXPERIMENTAL_PROVIDER": self.engine}
        KUBECONFIG.parent.mkdir(exist_ok=True)

    def up(self, workers: int, kai: bool) -> None:
        """Make the cluster, or take the one that is there; give its workers GPUs and places, and install KAI."""
        if self._exists():
            self._report(f"cluster {self.name} is there")
            self._export()
        else:
            self._report(f"making cluster {self.name} with {workers} workers")
            command = ("create", "cluster", "--name", self.name, "--kubeconfig", str(KUBECONFIG), "--wait", "5m")
            self._run(self._kind, *command, "--config", "-", stdin=config(workers))
        self._kubectl("wait", "nodes", "--all", "--for=condition=Ready", "--timeout=5m")
        nodes = self._ask(self._kind, "get", "nodes", "--name", self.name).split()
        found = sorted((name for name in nodes if "-worker" in name), key=lambda name: (len(name), name))
        self._report(f"{len(found)} workers get {_GPUS} fake GPUs each, and labels of a topology")
        for index, node in enumerate(found):
            self._kubectl(
                "label", "node", node, "--overwrite", *(f"{key}={value}" for key, value in labels(index).items())
            )
            patch = json.dumps({"status": {"capacity": {"nvidia.com/gpu": str(_GPUS)}}})
            self._kubectl("patch", "node", node, "--subresource=status", "--type=merge", f"--patch={patch}")
        if kai:
            self._report(f"installing KAI {KAI_VERSION}")
            self._install("kai-scheduler", KAI_CHART, "kai-scheduler", "--version", KAI_VERSION)

    def require(self) -> None:
        """Take the cluster that is there. Raises ClusterError when there is none."""
        if not self._exists():
            raise ClusterError(f"there is no kind cluster {self.name}: run `make kind-up` first")
        self._export()

    def build(self, source: Path, image: str, archive: Path) -> None:
        """Make the operator's image with the engine, for machines whose own programs do not run in the cluster."""
        self._report(f"building {image} with {self.engine}")
        dockerfile = str(source / "grove" / "image" / "Dockerfile")
        self._run(self.engine, "build", "--file", dockerfile, "--tag", image, str(source))
        archive.unlink(missing_ok=True)  # podman does not replace it
        self._run(self.engine, "save", "--output", str(archive), image)

    def deploy(self, chart: Path, archive: Path) -> None:
        """Load the operator's image and install the chart, or upgrade it; the operator is ready afterwards."""
        self._report(f"loading {archive} into the nodes")
        self._run(self._kind, "load", "image-archive", str(archive), "--name", self.name)
        self._report("installing the chart")
        self._install("grove", str(chart), NAMESPACE, *values(archive))

    def undeploy(self) -> None:
        """Uninstall the chart. CustomResourceDefinitions, sets and their pods stay."""
        self.require()
        command = ("uninstall", "grove", "--namespace", NAMESPACE, "--ignore-not-found", "--wait")
        self._run(self._helm, *command, "--kubeconfig", str(KUBECONFIG))

    def down(self) -> None:
        """Delete the cluster with everything in it."""
        self._run(self._kind, "delete", "cluster", "--name", self.name, "--kubeconfig", str(KUBECONFIG))
        KUBECONFIG.unlink(missing_ok=True)

    def _export(self) -> None:
        """Write the kubeconfig, which `make clean` may have removed."""
        self._ask(self._kind, "export", "kubeconfig", "--name", self.name, "--kubeconfig", str(KUBECONFIG))

    def _exists(self) -> bool:
        return self.name in self._ask(self._kind, "get", "clusters").split()

    def _install(self, release: str, chart: str, namespace: str, *arguments: str) -> None:
        command = ("upgrade", "--install", release, chart, "--namespace", namespace, "--create-namespace")
        self._run(self._helm, *command, *arguments, "--wait", "--timeout", "10m", "--kubeconfig", str(KUBECONFIG))

    def _kubectl(self, *arguments: str) -> None:
        """The one in the control plane's container: it fits, and needs no build."""
        command = ("exec", f"{self.name}-control-plane", "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf")
        self._ask(self.engine, *command, *arguments)

    def _run(self, program: str, *arguments: str, stdin: str = "") -> None:
        """Run a program to its end; what it says is seen."""
        command = [program, *arguments]
        if subprocess.run(command, input=stdin, env=self._environment, text=True, check=False).returncode:
            raise ClusterError(f"{Path(program).name} {' '.join(arguments[:2])} failed, see above")

    def _ask(self, program: str, *arguments: str) -> str:
        """Run a program to its end and return what it printed."""
        done = subprocess.run([program, *arguments], env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ClusterError(f"{Path(program).name} {' '.join(arguments)} failed: {done.stderr.strip()}")
        return done.stdout


def values(archive: Path) -> Sequence[str]:
    """The chart's values as helm's arguments: both schedulers, and a roll of the operator when its image changes."""
    content = hashlib.sha256(archive.read_bytes()).hexdigest()[:16]
    profiles = ("default-scheduler", "kai-scheduler")
    pairs = [f"config.scheduler.profiles[{index}].name={name}" for index, name in enumerate(profiles)]
    pairs += ["crdInstaller.enabled=true", f"podAnnotations.archive=sha256-{content}"]
    return [argument for pair in pairs for argument in ("--set", pair)]
