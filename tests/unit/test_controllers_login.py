"""Credentials: kubeconfigs with tokens and with exec plugins, and clear errors where there are none."""

import stat
from pathlib import Path

import pytest
import yaml

from grove.controllers.login import USER_AGENT, Login
from grove.runtime.credentials import LoginError

SERVER = "https://127.0.0.1:6443"


def kubeconfig(tmp_path: Path, user: dict[str, object]) -> Path:
    file = tmp_path / "kubeconfig"
    content = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": SERVER, "insecure-skip-tls-verify": True}}],
        "users": [{"name": "other", "user": {"token": "wrong"}}, {"name": "u", "user": user}],
    }
    file.write_text(yaml.safe_dump(content))
    return file


def plugin(tmp_path: Path, body: str) -> dict[str, object]:
    script = tmp_path / "plugin"
    script.write_text(f"#!/bin/sh\n{body}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": str(script),
            "args": ["get-token"],
            "env": [{"name": "TOKEN_PREFIX", "value": "secret"}],
        }
    }


async def logged_in(file: Path, monkeypatch: pytest.MonkeyPatch) -> Login:
    monkeypatch.setenv("KUBECONFIG", str(file))
    login = Login()
    await login.renew()
    return login


async def test_static_token_and_field_manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    login = await logged_in(kubeconfig(tmp_path, {"token": "t0"}), monkeypatch)
    assert login.server == SERVER
    assert login.session().headers["Authorization"] == "Bearer t0"
    assert login.session().headers["User-Agent"] == USER_AGENT
    assert USER_AGENT.split("/")[0] == "grove-operator"
    await login.close()


async def test_exec_plugin_gives_the_token_and_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    count = tmp_path / "count"
    body = f"""echo x >> {count}
printf '{{"kind":"ExecCredential","status":{{"token":"%s-%s-%s"}}}}' "$TOKEN_PREFIX" "$1" $(grep -c x {count})"""
    login = await logged_in(kubeconfig(tmp_path, plugin(tmp_path, body)), monkeypatch)
    first = login.session()
    assert first.headers["Authorization"] == "Bearer secret-get-token-1"
    await login.renew()
    assert first.closed
    assert login.session().headers["Authorization"] == "Bearer secret-get-token-2"
    await login.close()


@pytest.mark.parametrize("body", ["exit 1", "echo nonsense", "echo '{}'"])
async def test_failing_plugin_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> None:
    with pytest.raises(LoginError, match=r"plugin .*/plugin gave no credentials"):
        await logged_in(kubeconfig(tmp_path, plugin(tmp_path, body)), monkeypatch)


async def test_no_credentials_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LoginError, match="no kubeconfig is given"):
        await Login().renew()


async def test_a_kubeconfig_and_a_context_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    with pytest.raises(LoginError, match=r"the kubeconfig .*none does not exist"):
        await Login().renew()
    file = kubeconfig(tmp_path, {"token": "t0"})
    async with Login(kubeconfig=file) as login:
        assert login.server == SERVER
    with pytest.raises(LoginError, match="has no context d; it has c"):
        await Login(kubeconfig=file, context="d").renew()
