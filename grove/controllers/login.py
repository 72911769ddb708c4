"""Credentials: from a kubeconfig or the pod's service account, as one HTTP session that kopf and our client share."""

import asyncio
import dataclasses
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import kopf
import yaml

from grove import __version__
from grove.runtime.transport import open_session

_CONNECTIONS = 32
"""Requests in flight, watches included. More would only queue at the API server, and each costs a TLS handshake."""

_RESERVED = 8

_PLUGIN_SECONDS = 60.0

USER_AGENT = f"grove-operator/{__version__}"
"""The part before the slash is the field manager of all our writes."""


class Login:
    """Holds the current session. Tokens rotate, so `renew` reads the credentials again."""

    def __init__(self, settings: kopf.OperatorSettings, user_agent: str = USER_AGENT) -> None:
        self._settings = settings
        self._user_agent = user_agent
        self._sessions: tuple[aiohttp.ClientSession, ...] = ()
        self._info: kopf.ConnectionInfo | None = None

    @property
    def server(self) -> str:
        """URL of the API server."""
        assert self._info is not None, "renew() comes first"
        return str(self._info.server)

    @property
    def namespace(self) -> str:
        """The operator's own namespace: that of its pod, or of the kubeconfig's context."""
        assert self._info is not None, "renew() comes first"
        return self._info.default_namespace or "default"

    def session(self) -> aiohttp.ClientSession:
        """The session to use now."""
        assert self._sessions, "renew() comes first"
        return self._sessions[0]

    def reserved(self) -> aiohttp.ClientSession:
        """A session for what must not wait for a connection behind all other requests."""
        assert self._sessions, "renew() comes first"
        return self._sessions[1]

    async def renew(self) -> None:
        """Read the credentials and open a session in place of the one before.

        Raises kopf.LoginError when there are no credentials or they cannot be read.
        """
        self._info = await self._find()
        ssl, old = self._info.as_ssl_context(), self._sessions
        self._sessions = tuple(
            open_session(
                ssl=ssl,
                headers={**self._info.as_http_headers(), "User-Agent": self._user_agent},
                proxy=self._info.proxy_url,
                connections=connections,
            )
            for connections in (_CONNECTIONS, _RESERVED)
        )
        # Requests under way, watches above all, break off and come again on the new session.
        await asyncio.gather(*(session.close() for session in old))

    def credentials(self) -> kopf.AiohttpSession:
        """The session in the form that kopf takes."""
        return kopf.AiohttpSession(server=self.server, aiohttp_session=self.session())

    async def __aenter__(self) -> "Login":
        await self.renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the sessions."""
        await asyncio.gather(*(session.close() for session in self._sessions))

    async def _find(self) -> kopf.ConnectionInfo:
        sources: list[Callable[..., kopf.ConnectionInfo | None]] = [
            _service_account,
            kopf.login_with_kubeconfig,
        ]
        if os.environ.get("KUBECONFIG"):
            sources.reverse()
        for source in sources:
            try:
                info = source(settings=self._settings)
            except (OSError, KeyError, TypeError, AttributeError, ValueError, yaml.YAMLError) as error:
                raise kopf.LoginError(f"the kubeconfig cannot be used: {type(error).__name__}: {error}") from error
            if info is not None:
                return await _with_plugin(info) if source is kopf.login_with_kubeconfig else info
        raise kopf.LoginError("no credentials: no kubeconfig is given and this is no pod with a service account")


def _service_account(**options: Any) -> kopf.ConnectionInfo | None:
    """The pod's service account, at the address that the kubelet tells every pod: names need a DNS that works."""
    info = kopf.login_with_service_account(**options)
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    if info is None or not host or not port:
        return info
    return dataclasses.replace(info, server=f"https://{f'[{host}]' if ':' in host else host}:{port}")


async def _with_plugin(info: kopf.ConnectionInfo) -> kopf.ConnectionInfo:
    """Complete a kubeconfig's credentials by its exec plugin, as cloud providers use it; kopf reads static ones only.

    Protocol: client.authentication.k8s.io ExecCredential. Raises kopf.LoginError when the plugin fails.
    """
    plugin = _plugin()
    if info.token or info.certificate_data or info.certificate_path or plugin is None:
        return info
    command = [str(plugin["command"]), *map(str, plugin.get("args") or ())]
    extra = {str(entry["name"]): str(entry["value"]) for entry in plugin.get("env") or ()}
    request = {"apiVersion": plugin["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
    environment = {**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)}
    try:
        process = await asyncio.create_subprocess_exec(
            *command, env=environment, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await asyncio.wait_for(process.communicate(), _PLUGIN_SECONDS)
        status: dict[str, Any] = json.loads(output)["status"]
    except (OSError, TimeoutError, ValueError, KeyError) as error:
        raise kopf.LoginError(f"the kubeconfig's plugin {command[0]} gave no credentials: {error!r}") from error
    return dataclasses.replace(
        info,
        token=status.get("token"),
        certificate_data=_pem(status.get("clientCertificateData")),
        private_key_data=_pem(status.get("clientKeyData")),
    )


def _pem(text: str | None) -> bytes | None:
    return text.encode() if text else None


def _plugin() -> Mapping[str, Any] | None:
    """The exec section of the current context's user, looked up as kubectl does: the first file that says it wins."""
    files = [
        Path(name).expanduser() for name in os.environ.get("KUBECONFIG", "~/.kube/config").split(os.pathsep) if name
    ]
    configs = [yaml.safe_load(file.read_text(encoding="utf-8")) or {} for file in files]
    current = next((config["current-context"] for config in configs if config.get("current-context")), None)
    context = _named(configs, "contexts", current).get("context") or {}
    user = _named(configs, "users", context.get("user")).get("user") or {}
    plugin: Mapping[str, Any] | None = user.get("exec")
    return plugin


def _named(configs: list[dict[str, Any]], section: str, name: str | None) -> Mapping[str, Any]:
    entries = (entry for config in configs for entry in config.get(section) or ())
    return next((entry for entry in entries if entry.get("name") == name), {})
