"""The programs of the embedded cluster: find them, or build them once from the Go modules in the `binaries` folder.

Where they come from, first match wins, program by program:

1. `$KUBEBUILDER_ASSETS`, the folder of envtest.
2. The user cache: `$XDG_CACHE_HOME/grove/bin/<key>` (`~/.cache` when unset). The key is a hash of the modules' go.sum
   files and the build flags, so another version never mixes with this one.
3. `go build` into that cache folder. The modules name each program as a tool; nothing is downloaded but source that
   go.sum vouches for.
"""

import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from grove.cluster import golang
from grove.cluster.errors import ClusterError
from grove.cluster.golang import Progress
from grove.cluster.lock import exclusive

MODULES = Path(__file__).parent / "binaries"


@dataclass(frozen=True)
class Tool:
    """A program: its file name, the folder of its Go module, its package path."""

    name: str
    module: str
    package: str


TOOLS = (
    Tool("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Tool("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Tool("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Tool("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Tool("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl"),
    Tool("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Tool("kwokctl", "kwok", "sigs.k8s.io/kwok/cmd/kwokctl"),
)
"""What a cluster consists of."""

HELM = Tool("helm", "helm", "helm.sh/helm/v3/cmd/helm")
KIND = Tool("kind", "kind", "sigs.k8s.io/kind")
"""Not parts of a cluster; `grove kind` needs them, and the tests of the chart. Each has a cache folder of its own."""

KUBELET = Tool("kubelet", "kubelet", "k8s.io/kubernetes/cmd/kubelet")
KUBE_PROXY = Tool("kube-proxy", "kubelet", "k8s.io/kubernetes/cmd/kube-proxy")
"""Not parts of a cluster, whose nodes are fake; the tests with real containers need them."""


def kubernetes_version() -> str:
    """The Kubernetes version that is built, such as `v1.37.2`."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (MODULES / "kubernetes" / "go.mod").read_text(), re.MULTILINE)
    assert found, "the module requires k8s.io/kubernetes"
    return found[1]


def target_platform() -> tuple[str, str]:
    """GOOS and GOARCH of this machine. Raises ClusterError where the cluster cannot run."""
    system, machine = platform.system(), platform.machine().lower()
    arch = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}.get(machine)
    if system not in ("Linux", "Darwin") or arch is None:
        raise ClusterError(
            f"the embedded cluster runs on Linux and macOS with amd64 or arm64, not on {system} {machine}: "
            "use any Kubernetes 1.37 cluster through its kubeconfig instead"
        )
    return system.lower(), arch


def build_flags(module: str) -> list[str]:
    """Arguments of `go build` for the programs of a module.

    The version must be linked in: an API server without it calls itself v0.0.0 and clients misjudge it, and helm takes
    every cluster that it cannot ask for a 1.20.
    """
    link = "-s -w"
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    if module == "helm":
        link += "".join(
            f" -X helm.sh/helm/v3/pkg/{package}.k8sVersion{part}={value}"
            for package in ("chartutil", "lint/rules")
            for part, value in (("Major", major), ("Minor", minor))
        )
    if module in ("kubernetes", "kubelet"):
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        link += "".join(f" -X k8s.io/component-base/version.{name}={value}" for name, value in values.items())
    return ["-trimpath", "-mod=readonly", "-buildvcs=false", "-ldflags", link]


def cache_root() -> Path:
    """The project's folder in the user's cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "grove"


def cache_folder(tools: Sequence[Tool] = TOOLS) -> Path:
    """Where the built programs of exactly these tools' modules, flags and platform are kept."""
    digest = hashlib.sha256(" ".join(target_platform()).encode())
    for module in sorted({tool.module for tool in tools}):
        digest.update((MODULES / module / "go.sum").read_bytes())
        digest.update("\0".join(build_flags(module)).encode())
    return cache_root() / "bin" / digest.hexdigest()[:16]


def find_or_build(progress: Progress | None = None, tools: Sequence[Tool] = TOOLS) -> dict[str, Path]:
    """Path of every program in `tools` by name. Builds what is missing: long the first time, nothing after that.

    Two processes may call it at once: one builds, the other waits. An interrupted build goes on where it stopped.
    Raises ClusterError when a program can neither be found nor built.
    """
    progress = progress or Progress()
    assets = _assets(progress, tools)
    folder = cache_folder(tools)
    wanted = [tool for tool in tools if tool.name not in assets]
    if any(not _usable(folder / tool.name) for tool in wanted):
        try:
            with exclusive(folder / "lock", lambda pid: progress.say(f"process {pid} is building them; waiting")):
                _build(wanted, folder, progress)
        except OSError as error:
            raise ClusterError(
                f"cannot write to the cache folder {folder} ({error.strerror}): "
                "free space or fix its permissions, or set XDG_CACHE_HOME to another folder"
            ) from error
    return {tool.name: assets.get(tool.name, folder / tool.name) for tool in tools}


def _build(wanted: list[Tool], folder: Path, progress: Progress) -> None:
    missing = [tool for tool in wanted if not _usable(folder / tool.name)]
    if not missing:  # another process built them while this one waited for the lock
        return
    go = golang.find_go(cache_root(), progress)
    many = " programs" if len(missing) > 1 else " program"
    progress.say(
        f"building {len(missing)}{many} into {folder}, once; on two cores all of Kubernetes takes about 10 minutes"
    )
    for index, tool in enumerate(missing, 1):
        arguments = [*build_flags(tool.module), tool.package]
        with progress.step(f"[{index}/{len(missing)}] building {tool.name}"):
            golang.build(go, MODULES / tool.module, arguments, folder / tool.name, progress)


def _assets(progress: Progress, tools: Sequence[Tool], environment: Mapping[str, str] = os.environ) -> dict[str, Path]:
    """The programs in `$KUBEBUILDER_ASSETS`. Raises ClusterError when it has no API server that can serve us."""
    value = environment.get("KUBEBUILDER_ASSETS")
    if not value:
        return {}
    folder = Path(value).absolute()
    found = {tool.name: folder / tool.name for tool in tools if _usable(folder / tool.name)}
    if tools is not TOOLS:
        return found
    if "kube-apiserver" not in found:
        raise ClusterError(f"KUBEBUILDER_ASSETS is {folder}, which has no kube-apiserver: correct it or unset it")
    _check_version(found["kube-apiserver"])
    if lacking := [tool.name for tool in tools if tool.name not in found]:
        progress.say(f"KUBEBUILDER_ASSETS lacks {', '.join(lacking)}: taken from {cache_folder()}")
    return found


def _check_version(apiserver: Path) -> None:
    """The gang APIs came with the minor version that is built here; an older API server refuses their flags."""
    try:
        answer = subprocess.run([apiserver, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        answer = str(error)
    found = re.search(r"v(\d+)\.(\d+)", answer)
    wanted = ".".join(kubernetes_version().removeprefix("v").split(".")[:2])
    if not found or (int(found[1]), int(found[2])) < tuple(int(part) for part in wanted.split(".")):
        raise ClusterError(
            f"KUBEBUILDER_ASSETS has {answer.strip() or 'an unknown version'}, but Kubernetes {wanted} or newer is "
            "needed: point it there, or unset it and the right version is built"
        )


def _usable(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0 and os.access(path, os.X_OK)
