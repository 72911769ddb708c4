"""`grove operator` as a process: what it says and how it exits when it cannot start, and when it is stopped."""

import asyncio
import itertools
import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import pytest
import yaml

from grove.cli.operator import STOPPED_BY_ERROR, _run
from grove.controllers.config import OperatorConfiguration
from grove.controllers.operator import Operator

KUBECONFIG = {
    "current-context": "c",
    "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True}}],
    "users": [{"name": "u", "user": {"token": "t"}}],
}


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield sock.getsockname()[1]


def start(tmp_path: Path, config: object, kubeconfig: object = KUBECONFIG) -> subprocess.Popen[str]:
    files = {"kubeconfig": kubeconfig, "config.yaml": config}
    for name, content in files.items():
        (tmp_path / name).write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    command = [sys.executable, "-m", "grove", "operator"]
    command += ["--kubeconfig", str(tmp_path / "kubeconfig"), "--config", str(tmp_path / "config.yaml")]
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)


def server(health: int = 0, metrics: int = 0, webhooks: int = 0) -> dict[str, object]:
    return {
        "server": {
            "healthProbes": {"port": health, "bindAddress": "127.0.0.1"},
            "metrics": {"port": metrics, "bindAddress": "127.0.0.1"},
            "webhooks": {"port": webhooks, "bindAddress": "127.0.0.1"},
        }
    }


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("a: [", "config.yaml: while parsing"),
        ("kind: Deployment", 'config.yaml: kind: Unsupported value: "Deployment": supported values: "OperatorCon'),
        ({"logLevel": "loud"}, 'config.yaml: logLevel: Unsupported value: "loud"'),
        (
            {"controllers": {"podClique": {"concurrentSyncs": 0}}},
            "controllers.podClique.concurrentSyncs: Invalid value: 0",
        ),
    ],
)
def test_unusable_configuration_is_named(tmp_path: Path, config: object, message: str) -> None:
    process = start(tmp_path, config)
    _, output = process.communicate(timeout=60)
    assert process.returncode == 2
    assert message in output
    assert "Traceback" not in output


@pytest.mark.parametrize("role", ["health", "metrics", "webhooks"])
def test_a_taken_port_is_named(tmp_path: Path, taken_port: int, role: str) -> None:
    process = start(tmp_path, server(**{role: taken_port}))
    _, output = process.communicate(timeout=60)
    assert process.returncode == 4
    assert f"port {taken_port}" in output
    assert "in use" in output.splitlines()[-1]


def first_lines(process: subprocess.Popen[str]) -> list[str]:
    """What an operator logs until it has begun; it is ended then."""
    assert process.stderr is not None
    lines: list[str] = []
    for line in process.stderr:
        lines.append(line.rstrip("\n"))
        if "Working on" in line:
            break
    process.kill()
    process.communicate(timeout=30)
    return lines


@pytest.mark.parametrize("log_format", ["json", "text", None])
def test_what_is_ignored_is_warned_about_in_the_format_asked_for(tmp_path: Path, log_format: str | None) -> None:
    config = {**server(), "featureGates": {}} | ({"logFormat": log_format} if log_format else {})
    lines = first_lines(start(tmp_path, config))
    warning = f"{tmp_path / 'config.yaml'}: featureGates is no field and is ignored"
    if log_format == "text":
        assert any(line.endswith(f" WARNING {warning}") for line in lines)
    else:  # the default, as this is no terminal
        entries = [json.loads(line) for line in lines]
        assert all({"ts", "level", "logger", "msg"} <= entry.keys() for entry in entries)
        assert [entry["msg"] for entry in entries if entry["level"] == "warning"] == [warning]


@pytest.mark.parametrize(("level", "heard"), [("debug", "dwe"), ("info", "we"), ("error", "e")])
def test_the_log_level_counts(level: str, heard: str) -> None:
    program = (
        "import logging; from grove.cli.operator import set_up_logging; "
        f"set_up_logging({level!r}, as_json=False); log = logging.getLogger('grove.any'); "
        "log.debug('<d>'); log.warning('<w>'); log.error('<e>'); logging.getLogger('kopf').info('<k>')"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert re.findall("<(.)>", done.stderr) == list(heard)


def test_an_empty_kubeconfig_is_named(tmp_path: Path) -> None:
    process = start(tmp_path, server(), kubeconfig={})
    _, output = process.communicate(timeout=60)
    assert process.returncode == 6
    assert output.startswith("grove operator: ")
    assert "Traceback" not in output


def test_sigterm_stops_it_even_while_the_api_server_is_away(tmp_path: Path) -> None:
    process = start(tmp_path, server())
    assert process.stderr is not None
    assert any("Working on https://127.0.0.1:1" in line for line in process.stderr)  # reads on until it is said
    process.send_signal(signal.SIGTERM)
    _, output = process.communicate(timeout=30)
    assert process.returncode == 0, output


def test_the_api_server_is_waited_for_without_end() -> None:
    backoffs = Operator(OperatorConfiguration()).settings.networking.error_backoffs
    assert not isinstance(backoffs, float | None)
    day = list(itertools.islice(backoffs, 24 * 3600))
    assert sum(day) >= 24 * 3600
    assert max(day) <= 30


def test_an_api_server_out_of_reach_is_no_taken_port(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def unreachable(_: Operator) -> None:
        async with aiohttp.ClientSession() as session:
            await session.get("http://127.0.0.1:1/")

    monkeypatch.setattr(Operator, "run", unreachable)
    assert asyncio.run(_run(OperatorConfiguration())) == STOPPED_BY_ERROR
    assert "no contact with the API server" in capsys.readouterr().err
