"""The small parts of the embedded cluster: nodes, configuration, processes, the lock, health checks, the command."""

import http.server
import multiprocessing
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from grove.cli.cluster import cluster as command
from grove.cluster import binaries, client, cluster, config, nodes, processes
from grove.cluster.lock import exclusive


@pytest.mark.parametrize(
    ("index", "rack", "block", "zone"),
    [(0, 0, 0, 0), (6, 0, 0, 0), (7, 1, 0, 0), (19, 2, 0, 0), (20, 2, 1, 0), (27, 3, 1, 0), (28, 4, 1, 1)],
)
def test_a_nodes_place_follows_from_its_index(index: int, rack: int, block: int, zone: int) -> None:
    node = nodes.node(index)
    assert node["metadata"]["name"] == f"node-{index}"
    assert node["metadata"]["labels"] == {
        "type": "kwok",
        "kubernetes.io/hostname": f"node-{index}",
        "kubernetes.io/rack": f"rack-{rack}",
        "kubernetes.io/block": f"block-{block}",
        "kubernetes.io/zone": f"zone-{zone}",
        "topology.kubernetes.io/zone": f"zone-{zone}",
    }
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}


def test_ports_are_free_and_different() -> None:
    ports = config.choose_ports()
    assert len(set(ports.values())) == 6
    for port in ports.values():
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", port))


def test_configuration_names_every_program_and_all_stages() -> None:
    programs = {tool.name: Path("/cache") / tool.name for tool in binaries.TOOLS}
    ports = config.choose_ports()
    options, *stages = list(yaml.safe_load_all(config.kwokctl_config(programs, ports)))
    named = {value for key, value in options["options"].items() if key.endswith("Binary")}
    assert named == {f"/cache/{name}" for name in programs if name not in ("kubectl", "kwokctl")}
    assert ports.items() <= options["options"].items()
    assert options["options"]["bindAddress"] == "127.0.0.1"
    assert {stage["kind"] for stage in stages} == {"Stage"}
    names = [stage["metadata"]["name"] for stage in stages]
    assert len(names) == len(set(names)) == 12
    assert {"pod-ready", "pod-fail", "pod-crash", "pod-delete", "pod-init-finish-released"} <= set(names)


@pytest.mark.parametrize("gangs", [True, False])
def test_gangs_are_all_on_or_all_off(gangs: bool) -> None:
    programs = {tool.name: Path("/cache") / tool.name for tool in binaries.TOOLS}
    options = next(yaml.safe_load_all(config.kwokctl_config(programs, {}, gangs=gangs)))["options"]
    on = (*config.GANG_APIS, *config.GANG_FEATURES) if gangs else ()
    found = [part for key in ("kubeRuntimeConfig", "kubeFeatureGates") for part in options[key].split(",") if part]
    assert found == [f"{name}=true" for name in on]


def test_components_of_an_unfinished_cluster(tmp_path: Path) -> None:
    assert config.read_components(tmp_path) == []
    (tmp_path / "kwok.yaml").write_text("kind: KwokctlConfiguration\noptions: {}\n")
    assert config.read_components(tmp_path) == []
    (tmp_path / "kwok.yaml").write_text("kind: [")
    assert config.read_components(tmp_path) == []


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[Path]:
    """A folder with spaces in its name and two programs in it, `one` and `two`, which run."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    sleep = shutil.which("sleep")
    assert sleep
    for name in ("one", "two"):
        (folder / name).symlink_to(sleep)
        processes.start([str(folder / name), "300"], tmp_path / "log")
    yield folder
    processes.stop(folder)


def test_processes_are_known_by_their_program(sleepers: Path) -> None:
    found = processes.running(sleepers)
    assert sorted(found.values()) == ["one", "two"]
    assert os.getpid() not in found
    processes.stop(sleepers, ["one"])
    assert list(processes.running(sleepers).values()) == ["two"]
    assert processes.running(sleepers.parent / "a fold") == {}
    processes.stop(sleepers)
    assert processes.running(sleepers) == {}


def test_started_programs_write_to_the_log(tmp_path: Path) -> None:
    script = tmp_path / "talk"
    script.write_text("#!/bin/sh\necho out; echo err >&2; cat\n")
    script.chmod(0o755)
    (tmp_path / "log").write_text("before\n")
    processes.start([str(script)], tmp_path / "log")
    expected, deadline = f"before\n{processes.STARTED}out\nerr\n", time.monotonic() + 60
    while (tmp_path / "log").read_text() != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (tmp_path / "log").read_text() == expected


def _hold(path: Path, ready: "multiprocessing.synchronize.Event", release: "multiprocessing.synchronize.Event") -> None:
    with exclusive(path, lambda _: None):
        ready.set()
        release.wait(60)


def test_lock_waits_for_its_holder_and_tells_who(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, release = context.Event(), context.Event()
    holder = context.Process(target=_hold, args=(tmp_path / "new" / "lock", ready, release))
    holder.start()
    try:
        assert ready.wait(60)
        told: list[str] = []

        def waiting(pid: str) -> None:
            told.append(pid)
            release.set()

        with exclusive(tmp_path / "new" / "lock", waiting):
            assert release.is_set()
        assert told == [str(holder.pid)]
        with exclusive(tmp_path / "new" / "lock", waiting):
            assert len(told) == 1, "free at once"
    finally:
        release.set()
        holder.join(60)


def test_lock_is_not_fooled_by_a_removed_file(tmp_path: Path) -> None:
    """Who waits for a lock whose file is removed by its holder gets the lock of the file that is there."""
    path = tmp_path / "lock"
    inside, done = threading.Event(), threading.Event()

    def second() -> None:
        with exclusive(path, lambda _: inside.set()):
            assert path.exists()
            done.set()

    with exclusive(path, lambda _: None):
        thread = threading.Thread(target=second)
        thread.start()
        assert inside.wait(60)
        path.unlink()
    thread.join(60)
    assert done.is_set()


def test_health_is_an_answer_of_200() -> None:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 500)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            return

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        url = f"http://127.0.0.1:{server.server_port}"
        assert client.answers(f"{url}/healthz")
        assert not client.answers(f"{url}/livez")
        server.shutdown()
    assert not client.answers(f"{url}/healthz")


def test_command_says_what_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bad_name = CliRunner().invoke(command, ["up", "--dir", str(tmp_path / "x"), "--name", "Not_Good"])
    assert bad_name.exit_code == 1
    assert bad_name.output.startswith("Error: 'Not_Good' cannot name a cluster: ")

    (tmp_path / "file").touch()
    no_folder = CliRunner().invoke(command, ["up", "--dir", str(tmp_path / "file" / "x")])
    assert no_folder.exit_code == 1
    assert "Not a directory): choose another folder with --dir" in no_folder.output

    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    no_programs = CliRunner().invoke(command, ["up", "--dir", str(tmp_path / "x")])
    assert no_programs.exit_code == 1
    assert no_programs.output.startswith(f"Error: KUBEBUILDER_ASSETS is {tmp_path}, which has no kube-apiserver")
    assert CliRunner().invoke(command, ["status", "--dir", str(tmp_path / "x")]).exit_code == 3


def test_what_up_says_to_type_is_one_command_even_in_a_folder_with_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my cluster" / "kubeconfig"
    found = cluster.Status("grove", "running", {}, "https://127.0.0.1:1", (1, 1), file)
    monkeypatch.setattr(cluster.Cluster, "up", lambda *_: found)
    result = CliRunner().invoke(command, ["up", "--dir", str(file.parent)])
    typed = result.output.splitlines()[-1]
    shown = subprocess.run(
        ["sh", "-c", f'{typed}; printf %s "$KUBECONFIG"'], check=True, capture_output=True, text=True
    )
    assert shown.stdout == str(file)
