"""The webhooks as a part of the operator's process: all of grove/webhooks, put together as configured.

They work whether this process leads or stands by, so a request may go to any replica.
"""

import asyncio
import socket
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from grove.controllers.config import CertProvisionMode, OperatorConfiguration
from grove.controllers.scheduling import Scheduling
from grove.runtime.client import Client
from grove.webhooks.certificates import expiry
from grove.webhooks.configurations import SERVICE
from grove.webhooks.handlers import Handlers
from grove.webhooks.provision import MountedFiles, OwnAuthority
from grove.webhooks.server import WebhookServer


class Webhooks:
    """Serves on a bound socket, as `config` says; `namespace` is the operator's own.

    `prompt` is the client for what reviews wait for: its requests must not queue behind all others.
    """

    def __init__(
        self,
        client: Client,
        prompt: Client,
        sock: socket.socket,
        config: OperatorConfiguration,
        scheduling: Scheduling,
        *,
        namespace: str,
    ) -> None:
        webhooks, authorizer = config.server.webhooks, config.authorizer
        handlers = Handlers(
            prompt,
            lambda: replace(
                scheduling.facts(),
                topology_aware=config.topology_aware_scheduling.enabled,
                mnnvl=config.network.auto_mnnvl_enabled,
            ),
            scheduling.findings,
            protect=authorizer.enabled,
            exempt=authorizer.exempt_service_account_user_names,
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
                names=_names(namespace),
            )

    async def run(self) -> None:
        """Serve until cancelled; then requests under way are finished."""
        try:
            await self._certificates.run()
        finally:
            await asyncio.shield(self._server.close())

    def problems(self) -> list[str]:
        """Why requests should go elsewhere; empty when they are answered, be it with a certificate not renewed yet."""
        if not self._server.listening:
            return [f"webhooks: {problem}" for problem in self._certificates.problems()]
        end = expiry(self._server.certificate)
        if end > _now():
            return []
        return [f"webhooks: the certificate ended at {end}", *self._certificates.problems()]


def _names(namespace: str) -> list[str]:
    """The names at which the API server calls (API doc 5.3), and the address at which one on this machine does."""
    within = [f"{SERVICE}.{namespace}{domain}" for domain in ("", ".svc", ".svc.cluster.local")]
    return [SERVICE, *within, "127.0.0.1"]


def _now() -> datetime:
    return datetime.now(UTC)
