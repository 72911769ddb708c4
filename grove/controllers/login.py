"""Credentials: from a kubeconfig or the pod's service account, as one HTTP session that kopf and our client share."""

import os
from collections.abc import Callable

import aiohttp
import kopf

from grove import __version__
from grove.runtime.transport import open_session

_CONNECTIONS = 32
"""Requests in flight, watches included. More would only queue at the API server, and each costs a TLS handshake."""

USER_AGENT = f"grove-operator/{__version__}"
"""The part before the slash is the field manager of all our writes."""


class Login:
    """Holds the current session. Tokens rotate, so `renew` reads the credentials again."""

    def __init__(self, settings: kopf.OperatorSettings) -> None:
        self._settings = settings
        self._session: aiohttp.ClientSession | None = None
        self._info: kopf.ConnectionInfo | None = None

    @property
    def server(self) -> str:
        """URL of the API server."""
        assert self._info is not None, "renew() comes first"
        return str(self._info.server)

    def session(self) -> aiohttp.ClientSession:
        """The session to use now."""
        assert self._session is not None, "renew() comes first"
        return self._session

    async def renew(self) -> None:
        """Read the credentials and open a session; the one before stays open until `close` for requests under way.

        Raises kopf.LoginError when there are no credentials.
        """
        self._info = self._find()
        old, self._session = (
            self._session,
            open_session(
                ssl=self._info.as_ssl_context(),
                headers={**self._info.as_http_headers(), "User-Agent": USER_AGENT},
                proxy=self._info.proxy_url,
                connections=_CONNECTIONS,
            ),
        )
        if old is not None:
            # Requests under way, watches above all, break off and come again on the new session.
            await old.close()

    def credentials(self) -> kopf.AiohttpSession:
        """The session in the form that kopf takes."""
        return kopf.AiohttpSession(server=self.server, aiohttp_session=self.session())

    async def close(self) -> None:
        """Close the session."""
        if self._session is not None:
            await self._session.close()

    def _find(self) -> kopf.ConnectionInfo:
        sources: list[Callable[..., kopf.ConnectionInfo | None]] = [
            kopf.login_with_service_account,
            kopf.login_with_kubeconfig,
        ]
        if os.environ.get("KUBECONFIG"):
            sources.reverse()
        for source in sources:
            info = source(settings=self._settings)
            if info is not None:
                return info
        raise kopf.LoginError("no credentials: no kubeconfig is given and this is no pod with a service account")
