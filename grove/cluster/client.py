"""A small synchronous client of the Kubernetes API, standard library only: for starting the cluster and for tests.

The operator has its own, asynchronous one. This one favours being short and obvious over being fast.
"""

import http.client
import json
import select
import ssl
import threading
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


class ApiStatus(Exception):  # noqa: N818, the API's own word
    """The API server refused a request; the fields are those of its Status object."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message


class Client:
    """Talks to the API server of a kubeconfig's current context, which must name certificate files.

    Connections are kept open, one per thread.
    """

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        context = _named(config["contexts"], config["current-context"])["context"]
        cluster = _named(config["clusters"], context["cluster"])["cluster"]
        user = _named(config["users"], context["user"])["user"]
        self.server: str = cluster["server"]
        self._ssl = ssl.create_default_context(cafile=cluster["certificate-authority"])
        self._ssl.load_cert_chain(user["client-certificate"], user["client-key"])
        self._threads = threading.local()

    def api(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        timeout: float = 30.0,
    ) -> Any:
        """Send one request and return the decoded answer: JSON as Python values, anything else as text.

        `body` is sent as JSON whatever the content type; `timeout` is in seconds. Raises ApiStatus for an answer of
        400 and above, OSError when the server cannot be reached. Nothing is retried.
        """
        connection = self._connection(timeout)
        data = None if body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, data, {"Content-Type": content_type, "Accept": "application/json, */*"})
            response = connection.getresponse()
            text = response.read().decode()
        except BaseException as error:
            connection.close()
            if isinstance(error, http.client.HTTPException):
                raise ConnectionError(f"{method} {path}: {error!r}") from error
            raise
        is_json = "json" in (response.getheader("Content-Type") or "")
        answer = json.loads(text) if is_json else text
        if response.status >= 400:
            status = answer if isinstance(answer, dict) else {}
            raise ApiStatus(response.status, status.get("reason") or response.reason, status.get("message") or text)
        return answer

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None = getattr(self._threads, "connection", None)
        if connection is None:
            # http.client, because it takes no notice of proxy variables, which often lack an exception for 127.0.0.1.
            address = urlsplit(self.server)
            connection = http.client.HTTPSConnection(address.hostname or "", address.port, context=self._ssl)
            self._threads.connection = connection
        elif connection.sock is not None and select.select([connection.sock], [], [], 0)[0]:
            connection.close()  # an idle connection that has something to read was closed by the other side
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection


def answers(url: str, timeout: float = 5.0) -> bool:
    """Whether a health endpoint of this machine answers 200. Its certificate is not checked, nothing is sent to it."""
    address = urlsplit(url)
    connection: http.client.HTTPConnection
    if address.scheme == "https":
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(address.netloc, timeout=timeout, context=context)
    else:
        connection = http.client.HTTPConnection(address.netloc, timeout=timeout)
    try:
        connection.request("GET", address.path)
        return connection.getresponse().status == 200
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(entry for entry in entries if entry["name"] == name)
