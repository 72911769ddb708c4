"""Kubeconfigs, read as kubectl reads them.

Source: https://kubernetes.io/docs/concepts/configuration/organize-cluster-access-kubeconfig/ and
https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/
"""

import asyncio
import base64
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import yaml

from grove.runtime.credentials import Credentials, LoginError, pem

_PLUGIN_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Entry:
    """What a kubeconfig says of a context, a cluster or a user."""

    folder: Path
    """of the file; it names others relative to that"""
    fields: Mapping[str, Any]

    def text(self, key: str) -> str:
        return str(self.fields.get(key) or "")

    def content(self, key: str) -> bytes:
        """Of the file that is named; raises OSError."""
        return (self.folder / name).read_bytes() if (name := self.text(key)) else b""

    def pem(self, key: str) -> str:
        """A certificate or key, given as such or as a file; raises OSError, ValueError."""
        data = self.text(f"{key}-data")
        return pem(base64.b64decode(data) if data else self.content(key))


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """Contexts, clusters and users by their names, and the name of the current context."""

    current: str
    contexts: Mapping[str, _Entry]
    clusters: Mapping[str, _Entry]
    users: Mapping[str, _Entry]

    @classmethod
    def read(cls, files: str) -> "Kubeconfig | None":
        """Read the files of a list as in $KUBECONFIG; what several say the first decides, those that are not there are
        passed over. None when none is there. Raises LoginError.
        """
        paths = [path for name in files.split(os.pathsep) if name and (path := Path(name).expanduser()).exists()]
        current = ""
        sections: dict[str, dict[str, _Entry]] = {"context": {}, "cluster": {}, "user": {}}
        for path in paths:
            try:
                config = yaml.safe_load(path.read_text("utf-8")) or {}
                current = current or str(config.get("current-context") or "")
                for section, entries in sections.items():
                    for item in config.get(f"{section}s") or ():
                        entries.setdefault(str(item["name"]), _Entry(path.absolute().parent, item.get(section) or {}))
            except (OSError, ValueError, yaml.YAMLError, TypeError, KeyError, AttributeError) as error:
                raise LoginError(f"{path} is no kubeconfig: {type(error).__name__}: {error}") from error
        return cls(current, *sections.values()) if paths else None

    async def credentials(self, context: str = "") -> Credentials:
        """Those of a context, the current one when none is named. Raises LoginError."""
        if not (context or self.current):
            raise LoginError(f"the kubeconfig names no current context; it has {_listed(self.contexts)}")
        chosen = _entry(self.contexts, "context", context or self.current)
        cluster = _entry(self.clusters, "cluster", chosen.text("cluster"))
        user = self.users.get(chosen.text("user"), _Entry(Path(), {}))
        if not cluster.text("server"):
            raise LoginError(f"the kubeconfig names no server for cluster {chosen.text('cluster')}")
        try:
            found = Credentials(
                server=cluster.text("server"),
                namespace=chosen.text("namespace") or "default",
                authority=cluster.pem("certificate-authority"),
                insecure=cluster.fields.get("insecure-skip-tls-verify") is True,
                token=user.content("tokenFile").decode().strip() or user.text("token"),
                certificate=user.pem("client-certificate"),
                key=user.pem("client-key"),
                username=user.text("username"),
                password=user.text("password"),
                proxy=cluster.text("proxy-url") or None,
            )
        except (OSError, ValueError) as error:
            raise LoginError(f"the kubeconfig cannot be used: {error}") from error
        plugin = user.fields.get("exec")
        if plugin is None or found.token or found.certificate:
            return found
        return await _with_plugin(found, _Entry(user.folder, plugin))


def _entry(entries: Mapping[str, _Entry], kind: str, name: str) -> _Entry:
    try:
        return entries[name]
    except KeyError:
        raise LoginError(f"the kubeconfig has no {kind} {name}; it has {_listed(entries)}") from None


def _listed(entries: Mapping[str, _Entry]) -> str:
    return ", ".join(entries) or "none"


async def _with_plugin(found: Credentials, plugin: _Entry) -> Credentials:
    """Complete credentials by the program that a user's `exec` names, as cloud providers use it.

    Protocol: client.authentication.k8s.io ExecCredential. Raises LoginError when the program fails.
    """
    command = plugin.text("command")
    try:
        program = str(plugin.folder / command) if os.sep in command else command
        extra = {str(entry["name"]): str(entry["value"]) for entry in plugin.fields.get("env") or ()}
        request = {"apiVersion": plugin.fields["apiVersion"], "kind": "ExecCredential", "spec": {"interactive": False}}
        process = await asyncio.create_subprocess_exec(
            program,
            *map(str, plugin.fields.get("args") or ()),
            env={**os.environ, **extra, "KUBERNETES_EXEC_INFO": json.dumps(request)},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await asyncio.wait_for(process.communicate(), _PLUGIN_SECONDS)
        status: dict[str, Any] = json.loads(output)["status"]
    except (OSError, TimeoutError, ValueError, KeyError, TypeError) as error:
        raise LoginError(f"the kubeconfig's plugin {command} gave no credentials: {error!r}") from error
    return replace(
        found,
        token=status.get("token") or "",
        certificate=status.get("clientCertificateData") or "",
        key=status.get("clientKeyData") or "",
    )
