"""A node with real containers: Debian's containerd, a real kubelet and kube-proxy, in an embedded control plane.

Everything lives in one folder and is gone with `remove`: processes, containers, mounts, the bridge, the rules of
kube-proxy; the kernel's settings are as before. Pods reach each other, the API server and Services; there is no DNS.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grove.cluster import binaries, processes
from grove.image import oci, operator
from tests.cluster.harness import ROOT, Harness, wait
from tests.cluster.webhooks import free_port
from tests.node import images

NAME = "real-0"
BUSYBOX_IMAGE = "docker.io/library/busybox:1.37.0"
MAIN_IMAGE = "registry.example/main:1"
OPERATOR_IMAGE = operator.default_name(ROOT)
SAMPLE_IMAGE = "docker.io/library/nginx:alpine"
"""What the samples run; here it sleeps."""
_PAUSE_IMAGE = "registry.example/pause:1"

_BRIDGE, _SUBNET, _ADDRESS = "grovenode0", "10.244.78.0/24", "10.244.78.1"
_CNI = Path("/usr/lib/cni")
_CNI_RESULTS = Path("/var/lib/cni/results")
_KERNEL = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward")
"""Settings that a kubelet or a network plugin changes."""
_PROGRAMS = {"containerd": "containerd", "ctr": "containerd", "runc": "runc", "ip": "iproute2", "nft": "nftables"}

APISERVER_FLAGS = {"bind-address": "0.0.0.0", "advertise-address": _ADDRESS}
"""An API server that pods reach, as they reach the node."""

# Takes the node down when its standard input ends, which it does however the test run ends: even by kill -9.
_GUARD = """
import pathlib, sys
from tests.node.node import remove
sys.stdin.read()
remove(pathlib.Path(sys.argv[1]))
"""


def find_or_build() -> dict[str, Path]:
    """The programs of a node that are built, by name."""
    return binaries.find_or_build(tools=(binaries.KUBELET, binaries.KUBE_PROXY))


def missing() -> str:
    """What this machine lacks for a node with real containers, as one sentence; "" when nothing."""
    if sys.platform != "linux":
        return "a node with real containers needs Linux"
    packages = {package for program, package in _PROGRAMS.items() if not shutil.which(program)}
    if not (_CNI / "bridge").exists():
        packages.add("containernetworking-plugins")
    if not images.BUSYBOX.exists() or b"statically linked" not in _file_kind(images.BUSYBOX):
        packages.add("busybox-static")
    if packages:
        install = f"apt-get install --no-install-recommends {' '.join(sorted(packages))}"
        return f"a node with real containers needs programs that are not here: {install}"
    if os.geteuid() != 0:
        return "a node with real containers needs root: run it as root, or leave it to CI"
    return ""


@contextmanager
def running_node(cluster: Harness, folder: Path) -> Iterator["Node"]:
    """A node of `cluster` with its state in `folder`, gone after the block and after every other end of the test run.

    `folder` must be short: containerd's socket lies in it, whose path has at most 107 characters.
    """
    guard = subprocess.Popen(
        [sys.executable, "-c", _GUARD, folder], cwd=ROOT, stdin=subprocess.PIPE, start_new_session=True
    )
    assert guard.stdin
    try:
        node = Node(cluster, folder)
        node.start()
        yield node
    finally:
        for pod in cluster.api("GET", f"/api/v1/pods?fieldSelector=spec.nodeName={NAME}")["items"]:
            path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
            with contextlib.suppress(Exception):
                cluster.api("DELETE", path, {"gracePeriodSeconds": 0})
        guard.stdin.close()
        assert guard.wait(timeout=120) == 0, "the node could not be taken down"


class Node:
    """The node's processes, and what the tests look at below the API: logs and containers."""

    def __init__(self, cluster: Harness, folder: Path) -> None:
        self._cluster = cluster
        self._folder = folder
        self._bin = folder / "bin"

    def start(self) -> None:
        """Bring the node up; it is Ready afterwards. It is the cluster's only one: KWOK would play it, too."""
        self._cluster.stop("kwok-controller")
        for name in ("bin", "cni", "images", "kubelet", "logs"):
            (self._folder / name).mkdir(parents=True)
        programs = {**find_or_build(), "containerd": Path(shutil.which("containerd") or "")}
        for name, path in programs.items():
            (self._bin / name).symlink_to(path)  # a process is known by the path it was started with
        for setting in _KERNEL:
            copy = self._folder / "kernel" / setting
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(Path("/proc/sys", setting).read_text())
        _make_bridge()
        self._start_containerd()
        self._import_images()
        self._start_kubelet()
        self._start_kube_proxy()
        wait(self._is_ready, 120, f"node {NAME} is Ready")

    def log(self, pod: dict[str, object], container: str) -> list[str]:
        """The lines a container of a pod has printed, as the kubelet keeps them."""
        metadata = pod["metadata"]
        assert isinstance(metadata, dict)
        folder = f"{metadata['namespace']}_{metadata['name']}_{metadata['uid']}"
        lines: list[str] = []
        for file in sorted((self._folder / "pods" / folder / container).glob("*.log")):
            # Each line: time, stream, P or F, and the words.
            lines += [line.split(" ", 3)[3] for line in file.read_text().splitlines()]
        return lines

    def process_of(self, container_id: str) -> Path:
        """The /proc folder of a container's first process; `container_id` is that of the pod's status."""
        listing = self._ctr("tasks", "ls")
        found = next(line.split() for line in listing.splitlines() if line.startswith(container_id.rpartition("/")[2]))
        return Path("/proc", found[1])

    def powerless(self, container_id: str) -> dict[str, list[str]]:
        """Check by what the kernel says that a container has no powers: no root, no capabilities, no new privileges,
        filtered calls. Returns the options of its mounts by path.
        """
        process = self.process_of(container_id)
        facts = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines() if ":\t" in line)
        assert set(facts["Uid"].split()) == {"65532"}
        for capabilities in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
            assert int(facts[capabilities], 16) == 0
        assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
        mounts = [line.split() for line in (process / "mounts").read_text().splitlines()]
        return {mount[1]: mount[3].split(",") for mount in mounts}

    def _start_containerd(self) -> None:
        conflist = f"""
{{"cniVersion": "0.4.0", "name": "grove", "plugins": [
  {{"type": "bridge", "bridge": "{_BRIDGE}", "isGateway": true, "hairpinMode": true, "ipMasq": false,
    "ipam": {{"type": "host-local", "dataDir": "{self._folder}/ipam", "routes": [{{"dst": "0.0.0.0/0"}}],
              "ranges": [[{{"subnet": "{_SUBNET}", "gateway": "{_ADDRESS}"}}]]}}}}]}}
"""
        (self._folder / "cni" / "10-grove.conflist").write_text(conflist)
        # Without restrict_oom_score_adj sandboxes do not start where root may not lower it, as in some containers.
        (self._folder / "containerd.toml").write_text(f"""
version = 2
root = "{self._folder}/containerd"
state = "{self._folder}/state"
[grpc]
  address = "{self._folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{_PAUSE_IMAGE}"
  netns_mounts_under_state_dir = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{_CNI}"
    conf_dir = "{self._folder}/cni"
""")
        command = (str(self._bin / "containerd"), "--config", str(self._folder / "containerd.toml"))
        processes.start(command, self._folder / "logs" / "containerd.log")
        wait(lambda: self._ctr("version"), 60, "containerd answers")

    def _import_images(self) -> None:
        folder = self._folder / "images"
        pause = {"Entrypoint": ["/bin/sleep", "2147483647"]}
        oci.save([images.busybox()], [BUSYBOX_IMAGE, MAIN_IMAGE], folder / "busybox.tar", {"Entrypoint": ["/bin/sh"]})
        oci.save([images.busybox()], [_PAUSE_IMAGE, SAMPLE_IMAGE], folder / "pause.tar", pause)
        operator.build(ROOT, OPERATOR_IMAGE, folder / "operator.tar")
        for file in folder.iterdir():
            self._ctr("images", "import", str(file))
            file.unlink()

    def _start_kubelet(self) -> None:
        (self._folder / "resolv.conf").touch()
        (self._folder / "kubelet.yaml").write_text(f"""
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: 127.0.0.1
port: 0
healthzPort: 0
readOnlyPort: 0
authentication: {{anonymous: {{enabled: false}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
containerRuntimeEndpoint: unix://{self._folder}/containerd.sock
podLogsDir: {self._folder}/pods
volumePluginDir: {self._folder}/volume-plugins
resolvConf: {self._folder}/resolv.conf
failSwapOn: false
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: false
enforceNodeAllocatable: []
makeIPTablesUtilChains: false
protectKernelDefaults: false
serializeImagePulls: false
localStorageCapacityIsolation: true
evictionHard: {{memory.available: 50Mi, nodefs.available: 1%, imagefs.available: 1%}}
imageGCHighThresholdPercent: 100
syncFrequency: 10s
""")
        command = (
            str(self._bin / "kubelet"),
            f"--config={self._folder}/kubelet.yaml",
            f"--kubeconfig={self._cluster.kubeconfig}",
            f"--root-dir={self._folder}/kubelet",
            f"--cert-dir={self._folder}/pki",
            f"--hostname-override={NAME}",
            f"--node-ip={_ADDRESS}",
        )
        processes.start(command, self._folder / "logs" / "kubelet.log")

    def _start_kube_proxy(self) -> None:
        (self._folder / "kube-proxy.yaml").write_text(f"""
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: nftables
clientConnection: {{kubeconfig: {self._cluster.kubeconfig}}}
clusterCIDR: {_SUBNET}
hostnameOverride: {NAME}
healthzBindAddress: 127.0.0.1:{free_port()}
metricsBindAddress: 127.0.0.1:{free_port()}
nodePortAddresses: [primary]
conntrack: {{maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s, udpTimeout: 0s,
            udpStreamTimeout: 0s}}
""")
        command = (str(self._bin / "kube-proxy"), f"--config={self._folder}/kube-proxy.yaml")
        processes.start(command, self._folder / "logs" / "kube-proxy.log")

    def _is_ready(self) -> bool:
        for name in {"kubelet", "kube-proxy"} - {*processes.running(self._bin).values()}:
            raise RuntimeError(f"{name} ended:\n{(self._folder / 'logs' / f'{name}.log').read_text()[-3000:]}")
        node = self._cluster.api("GET", f"/api/v1/nodes/{NAME}")
        taints = node["spec"].get("taints", [])
        ready = ("Ready", "True") in [(one["type"], one["status"]) for one in node["status"].get("conditions", [])]
        return ready and not taints

    def _ctr(self, *arguments: str) -> str:
        return _ctr(self._folder, *arguments)


def remove(folder: Path) -> None:
    """Stop the node in `folder` and leave nothing of it: processes, containers, mounts, the bridge, files."""
    processes.stop(folder / "bin", ["kubelet", "kube-proxy"])
    for family in ("ip", "ip6"):
        subprocess.run(["nft", "delete", "table", family, "kube-proxy"], check=False, capture_output=True)
    if "containerd" in processes.running(folder / "bin").values():
        _end_containers(folder)
        processes.stop(folder / "bin", ["containerd"])
    for pid in _shims(folder):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, 9)
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
    subprocess.run(["ip", "link", "delete", _BRIDGE], check=False, capture_output=True)
    for cgroup in (*Path("/sys/fs/cgroup").glob("k8s.io"), *Path("/sys/fs/cgroup").glob("*/k8s.io")):
        with contextlib.suppress(OSError):  # somebody else's containers are in it
            cgroup.rmdir()
    for setting in _KERNEL:
        with contextlib.suppress(OSError):
            Path("/proc/sys", setting).write_text((folder / "kernel" / setting).read_text())
    shutil.rmtree(folder, ignore_errors=True)


def _end_containers(folder: Path) -> None:
    with contextlib.suppress(subprocess.SubprocessError):
        for task in _ctr(folder, "tasks", "ls", "-q").split():
            subprocess.run(_command(folder, "tasks", "kill", "-s", "9", task), check=False, capture_output=True)
        deadline = time.monotonic() + 20
        while "RUNNING" in _ctr(folder, "tasks", "ls") and time.monotonic() < deadline:
            time.sleep(0.1)
        for task in _ctr(folder, "tasks", "ls", "-q").split():
            subprocess.run(_command(folder, "tasks", "rm", "-f", task), check=False, capture_output=True)
        for container in _ctr(folder, "containers", "ls", "-q").split():
            subprocess.run(_command(folder, "containers", "rm", container), check=False, capture_output=True)
            for result in _CNI_RESULTS.glob(f"*-{container}-*"):
                result.unlink(missing_ok=True)


def _shims(folder: Path) -> list[int]:
    """Containers' keepers that are left: they name the node's socket on their command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"containerd-shim" in words[0] and f"{folder}/containerd.sock".encode() in words:
                    found.append(int(entry.name))
    return found


def _make_bridge() -> None:
    """The bridge of the pods; its address is the node's, whatever network this machine has or has not."""
    subprocess.run(["ip", "link", "delete", _BRIDGE], check=False, capture_output=True)  # of a node that was killed
    for command in (
        f"ip link add {_BRIDGE} type bridge",
        f"ip addr add {_ADDRESS}/24 dev {_BRIDGE}",
        f"ip link set {_BRIDGE} up",
    ):
        subprocess.run(command.split(), check=True)


def _command(folder: Path, *arguments: str) -> list[str]:
    return ["ctr", "-a", f"{folder}/containerd.sock", "-n", "k8s.io", *arguments]


def _ctr(folder: Path, *arguments: str) -> str:
    done = subprocess.run(_command(folder, *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ctr {' '.join(arguments)}: {done.stderr}"
    return done.stdout


def _file_kind(file: Path) -> bytes:
    """`statically linked` for a program without an interpreter (ELF), `other` for any other."""
    data = file.read_bytes()[:4096]
    return b"statically linked" if data[:4] == b"\x7fELF" and b"ld-linux" not in data else b"other"
