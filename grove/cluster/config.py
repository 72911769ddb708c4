"""What kwokctl is told to make, and what it made: the configuration file of a cluster, both ways."""

import random
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok-controller")

_STAGES = Path(__file__).parent / "stages.yaml"

_PORTS = (
    "etcdPort",
    "etcdPeerPort",
    "kubeApiserverPort",
    "kubeControllerManagerPort",
    "kubeSchedulerPort",
    "kwokControllerPort",
)

# A network reserved for measurements, which no machine is in. Its first address is the API server's own Service.
_SERVICES = "198.18.0.0/16"
_APISERVER_SERVICE = "198.18.0.1"

# Gangs of the stock scheduler: Workload and PodGroup (v1beta1), CompositePodGroup (v1alpha3).
GANG_APIS = ("scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha3")
GANG_FEATURES = ("GenericWorkload", "TopologyAwareWorkloadScheduling", "CompositePodGroup")
"""What has to be on in Kubernetes 1.37: groups with versions, and feature gates."""

_EXTRA_ARGUMENTS = {
    # The data of a cluster for demos and tests need not outlive a power cut.
    "etcd": {"unsafe-no-fsync": "true"},
    # By default the API server looks for the address of the default route and does not start without one. Nothing
    # here connects to what it advertises, but it may not be a loopback address. This one is reserved for examples.
    "kube-apiserver": {"advertise-address": "192.0.2.1", "service-cluster-ip-range": _SERVICES},
    # There is one of each. With an election a restarted one would wait for its predecessor's lease to run out.
    "kube-controller-manager": {"leader-elect": "false", "horizontal-pod-autoscaler-sync-period": "2s"},
    "kube-scheduler": {"leader-elect": "false"},
}

_HEALTH = {
    "etcd": "/health",
    "kube-apiserver": "/readyz",
    "kube-controller-manager": "/healthz",
    "kube-scheduler": "/readyz",
    "kwok-controller": "/healthz",
}


@dataclass(frozen=True)
class Component:
    """A process of the control plane: how it is started, the URL that tells its health, its log file."""

    name: str
    command: tuple[str, ...]
    health: str
    log: Path


def choose_ports() -> dict[str, int]:
    """A free port of 127.0.0.1 for each listener, by the name of its kwokctl option.

    They are below the range from which Linux and macOS serve outgoing connections, so nobody takes one by accident,
    and random, so that two clusters starting at once hardly ever choose the same.
    """
    ports: list[int] = []
    while len(ports) < len(_PORTS):
        port = random.randint(20000, 32000)  # noqa: S311, no secret
        if port not in ports and _is_free(port):
            ports.append(port)
    return dict(zip(_PORTS, ports, strict=True))


def kwokctl_config(
    programs: Mapping[str, Path],
    ports: Mapping[str, int],
    apiserver_flags: Mapping[str, str] | None = None,
    *,
    gangs: bool = True,
) -> str:
    """The YAML documents that describe a cluster to kwokctl: its options, then the pods' life cycle as stages.

    `apiserver_flags` are further flags of the API server, without the dashes. `gangs` tells whether Kubernetes' own
    gangs are on; without them it is like Kubernetes before 1.37.
    """
    options = {
        "runtime": "binary",
        "bindAddress": "127.0.0.1",
        "disableQPSLimits": True,
        "kubeRuntimeConfig": _all_on(GANG_APIS if gangs else ()),
        "kubeFeatureGates": _all_on(GANG_FEATURES if gangs else ()),
        "kubeApiserverCertSANs": [_APISERVER_SERVICE],
        "etcdBinary": str(programs["etcd"]),
        "kubeApiserverBinary": str(programs["kube-apiserver"]),
        "kubeControllerManagerBinary": str(programs["kube-controller-manager"]),
        "kubeSchedulerBinary": str(programs["kube-scheduler"]),
        "kwokControllerBinary": str(programs["kwok"]),
        **ports,
    }
    extra = {**_EXTRA_ARGUMENTS, "kube-apiserver": _EXTRA_ARGUMENTS["kube-apiserver"] | dict(apiserver_flags or {})}
    patches = [
        {"name": name, "extraArgs": [{"key": key, "value": value} for key, value in arguments.items()]}
        for name, arguments in extra.items()
    ]
    document = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokctlConfiguration",
        "options": options,
        "componentsPatches": patches,
    }
    return f"{yaml.safe_dump(document)}---\n{_STAGES.read_text()}"


def read_components(home: Path) -> list[Component]:
    """The components of the cluster in `home`, in the order in which they start; empty when it was never finished."""
    try:
        with (home / "kwok.yaml").open() as file:
            documents = yaml.safe_load_all(file)
            config: dict[str, Any] = next(doc for doc in documents if doc["kind"] == "KwokctlConfiguration")
    except (FileNotFoundError, yaml.YAMLError, StopIteration):
        return []
    return [
        Component(
            name=entry["name"],
            command=(entry["binary"], *entry["args"]),
            health=f"{entry['metric']['scheme']}://{entry['metric']['host']}{_HEALTH[entry['name']]}",
            log=home / "logs" / f"{entry['name']}.log",
        )
        for entry in config.get("components", [])
    ]


def _all_on(names: Iterable[str]) -> str:
    return ",".join(f"{name}=true" for name in names)


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        try:
            listener.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
