"""Credentials: from a kubeconfig or the pod's service account, as one HTTP session that kopf and our client share."""

import asyncio
import os
from pathlib import Path

import aiohttp

from grove import __version__
from grove.runtime.credentials import Credentials, LoginError, service_account
from grove.runtime.kubeconfig import Kubeconfig
from grove.runtime.transport import open_session

_CONNECTIONS = 32
"""Requests in flight, watches included. More would only queue at the API server, and each costs a TLS handshake."""

_RESERVED = 8

USER_AGENT = f"grove-operator/{__version__}"
"""The part before the slash is the field manager of all our writes."""


class Login:
    """Holds the current session. Tokens rotate, so `renew` reads the credentials again.

    Without `kubeconfig` these are those of $KUBECONFIG, of the pod's service account or of ~/.kube/config. `context` is
    one of the kubeconfig, "" the current one.
    """

    def __init__(self, user_agent: str = USER_AGENT, kubeconfig: Path | None = None, context: str = "") -> None:
        self._user_agent = user_agent
        self._kubeconfig = kubeconfig
        self._context = context
        self._sessions: tuple[aiohttp.ClientSession, ...] = ()
        self._credentials: Credentials | None = None

    @property
    def server(self) -> str:
        """URL of the API server."""
        assert self._credentials is not None, "renew() comes first"
        return self._credentials.server

    @property
    def namespace(self) -> str:
        """The operator's own namespace: that of its pod, or of the kubeconfig's context."""
        assert self._credentials is not None, "renew() comes first"
        return self._credentials.namespace

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

        Raises LoginError when there are no credentials or they cannot be used.
        """
        self._credentials = credentials = await self._find()
        ssl, old = credentials.ssl_context(), self._sessions
        self._sessions = tuple(
            open_session(
                ssl=ssl,
                headers={**credentials.headers(), "User-Agent": self._user_agent},
                proxy=credentials.proxy,
                connections=connections,
            )
            for connections in (_CONNECTIONS, _RESERVED)
        )
        # Requests under way, watches above all, break off and come again on the new session.
        await asyncio.gather(*(session.close() for session in old))

    async def __aenter__(self) -> "Login":
        await self.renew()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the sessions."""
        await asyncio.gather(*(session.close() for session in self._sessions))

    async def _find(self) -> Credentials:
        files = str(self._kubeconfig or os.environ.get("KUBECONFIG", ""))
        if not files and not self._context and (found := service_account()) is not None:
            return found
        kubeconfig = Kubeconfig.read(files or "~/.kube/config")
        if kubeconfig is not None:
            return await kubeconfig.credentials(self._context)
        if files:
            raise LoginError(f"the kubeconfig {files} does not exist")
        raise LoginError("no credentials: no kubeconfig is given and this is no pod with a service account")
