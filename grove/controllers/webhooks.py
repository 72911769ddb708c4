"""The webhooks as a part of the operator's process: all of grove/webhooks, put together as configured.

They work whether this process leads or stands by, so a request may go to any replica.
"""

import asyncio
import socket
from collections.abc import Callable, Iterable
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from pathlib import Path

from grove.admission import Facts
from grove.admission.fields import Field, Finding
from grove.controllers.config import CertProvisionMode, OperatorConfiguration
from grove.runtime.client import Client
from grove.webhooks.certificates import expiry
from grove.webhooks.configurations import SERVICE
from grove.webhooks.handlers import Handlers
from grove.webhooks.provision import MountedFiles, OwnAuthority
from grove.webhooks.server import WebhookServer


class Webhooks:
    """Serves on a bound socket, as `config` says; `namespace` is the operator's own.

    `prompt` is the client for what reviews wait for, in the event loop of the server and while `open` is: its requests
    must not queue behind all others. `facts` and `findings` are what the rules and the back ends say (see `Handlers`).
    """

    def __init__(
        self,
        client: Client,
        prompt: Client,
        sock: socket.socket,
        config: OperatorConfiguration,
        facts: Callable[[], Facts],
        findings: Callable[[Field], Iterable[Finding]],
        *,
        namespace: str,
        open: AbstractAsyncContextManager[object],  # noqa: A002
    ) -> None:
        webhooks, authorizer = config.server.webhooks, config.authorizer
        handlers = Handlers(
            prompt,
            facts,
            findings,
            protect=authorizer.enabled,
            exempt=authorizer.exempt_service_account_user_names,
        )
        self._server = WebhookServer(sock, handlers.by_path(), open)
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
