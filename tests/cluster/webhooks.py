"""Webhooks that a real API server calls: those of an operator, and those in the test's own process, which can be told
different things from test to test.
"""

import asyncio
import ssl
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, NoReturn

from grove.admission import Facts
from grove.plan.kinds import PODCLIQUESET
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.transport import bind
from grove.webhooks.certificates import up_to_date
from grove.webhooks.configurations import MUTATING, VALIDATING, manifests, with_ca_bundle
from grove.webhooks.handlers import Handlers
from grove.webhooks.reviews import Answer, Request
from grove.webhooks.server import Handler, WebhookServer
from tests.cluster.harness import ApiStatus, Harness
from tests.cluster.operators import QUIET
from tests.cluster.workloads import clique, podcliqueset


class LocalWebhooks:
    """Answers by the rules alone: no pod is tried, nobody is asked."""

    def __init__(self) -> None:
        self.facts = Facts()
        """what rules are told beside the object"""
        self.asleep = False
        """whether everything is let through, as before the rules were there"""
        self._loop = asyncio.new_event_loop()
        self._socket = bind("127.0.0.1", 0)
        self._certificates = up_to_date(None, ["127.0.0.1"], datetime.now(UTC))

    @contextmanager
    def serving(self, cluster: Harness) -> Iterator[None]:
        """Serve, and have the API server ask, within the block."""
        thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        thread.start()
        server = WebhookServer(self._socket, {path: self._answer(path) for path in self._handlers().by_path()})
        self._run(server.show(self._certificates.certificate, self._certificates.key))
        url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        for manifest in manifests(url=url):
            resource = MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING
            cluster.api("POST", resource.path(), with_ca_bundle(manifest, self._certificates.ca_bundle))
        try:
            yield
        finally:
            self._run(server.close())
            self._loop.call_soon_threadsafe(self._loop.stop)
            thread.join()
            self._loop.close()

    def _handlers(self) -> Handlers:
        return Handlers(Client(_nobody, ""), lambda: self.facts, dry_run=False)

    def _answer(self, path: str) -> Handler:
        handler = self._handlers().by_path()[path]

        async def answer(request: Request) -> Answer:
            return Answer() if self.asleep else await handler(request)

        return answer

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(60)


def _nobody() -> NoReturn:
    """There is no cluster to ask: the facts are those of the case."""
    raise ApiError(0, "NoCluster", "the facts are those of the case", verb="get", path="")


def install(cluster: Harness, port: int, **options: Any) -> None:
    """Have the API server call the operator at this port of this machine; options as in `manifests`."""
    for manifest in manifests(url=f"https://127.0.0.1:{port}", **options):
        resource = MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING
        cluster.api("POST", resource.path(), manifest)


def uninstall(cluster: Harness) -> None:
    """Have the API server call no webhooks of the operator any more."""
    for manifest in manifests(url="https://127.0.0.1:1"):
        resource = MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING
        cluster.api("DELETE", resource.path(name=manifest["metadata"]["name"]))


def wait_called(cluster: Harness, namespace: str = "default") -> None:
    """Wait until the webhooks answer: they refuse a pod without containers, which the schema would take."""
    probe = podcliqueset("probe", clique("a", 1, podSpec={"containers": []}))
    cluster.wait(lambda: "pcs.validating" in refusal(cluster, probe, namespace), message="webhooks answer")


def refusal(cluster: Harness, obj: dict[str, Any], namespace: str = "default") -> str:
    """Why a new object is refused, an empty string when it is not; it leaves no trace."""
    try:
        cluster.api("POST", f"{PODCLIQUESET.path(namespace)}?dryRun=All", obj)
    except ApiStatus as error:
        return error.message
    return ""


def configured(port: int, **fields: Any) -> dict[str, Any]:
    """The configuration of an operator that serves webhooks at this port and nothing else."""
    server = {**QUIET["server"], "webhooks": {"bindAddress": "127.0.0.1", "port": port, **fields.pop("webhooks", {})}}
    return {**QUIET, "server": server, **fields}


def free_port() -> int:
    with bind("127.0.0.1", 0) as sock:
        port: int = sock.getsockname()[1]
        return port


def shown(port: int) -> str:
    """The certificate that a client sees at this port, as PEM; an empty string while nobody listens."""
    try:
        return ssl.get_server_certificate(("127.0.0.1", port))
    except ConnectionRefusedError:
        return ""
