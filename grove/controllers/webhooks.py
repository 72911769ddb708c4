"""The webhooks as a part of the operator's process: all of grove/webhooks, put together as configured.

They work whether this process leads or stands by, so a request may go to any replica.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Callable
from pathlib import Path

from grove.admission import Facts
from grove.controllers.config import CertProvisionMode, OperatorConfiguration
from grove.runtime.client import Client
from grove.webhooks.configurations import SERVICE
from grove.webhooks.handlers import Handlers
from grove.webhooks.provision import MountedFiles, OwnAuthority
from grove.webhooks.server import WebhookServer


class Webhooks:
    """Serves on a bound socket, as `config` says; `namespace` is the operator's own.

    `facts` tells what rules ask beside the object.
    """

    def __init__(
        self,
        client: Client,
        sock: socket.socket,
        config: OperatorConfiguration,
        *,
        namespace: str,
        facts: Callable[[], Facts] = Facts,
    ) -> None:
        webhooks, authorizer = config.server.webhooks, config.authorizer
        handlers = Handlers(
            client, facts, protect=authorizer.enabled, exempt=authorizer.exempt_service_account_user_names
        )
        self._server = WebhookServer(sock, handlers.by_path())
        self._certificates: OwnAuthority | MountedFiles
        if webhooks.cert_provision_mode is CertProvisionMode.MANUAL:
            self._certificates = MountedFiles(self._server, Path(webhooks.server_cert_dir))
        else:
            self._certificates = OwnAuthority(
                client,
                self._server,
                namespace=namespace,
                secret=webhooks.secret_name,
                names=_names(namespace, webhooks.bind_address),
            )

    async def run(self) -> None:
        """Serve until cancelled; then requests under way are finished."""
        try:
            await self._certificates.run()
        finally:
            await asyncio.shield(self._server.close())

    def problems(self) -> list[str]:
        """Why no request is taken, or with an old certificate; empty when all is well."""
        return [f"webhooks: {problem}" for problem in self._certificates.problems()]


def _names(namespace: str, address: str) -> list[str]:
    """The names at which the API server calls (API doc 5.3); an address, too, where it is only for this machine."""
    within = [f"{SERVICE}.{namespace}{domain}" for domain in ("", ".svc", ".svc.cluster.local")]
    return [SERVICE, *within, *([address] if _is_loopback(address) else [])]


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:  # a name, or none
        return address == "localhost"
