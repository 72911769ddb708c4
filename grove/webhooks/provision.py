"""Where the webhook server's certificate comes from, and who trusts it.

`auto`: we are our own authority. Everything is in one Secret, which all replicas of the operator share: whoever writes
it first wins (resourceVersion), the others take what they find. The webhook configurations get the authority as
`caBundle`. `manual`: two files that somebody else renews; whoever does, sees to `caBundle` too.

Either way a new certificate is shown without a restart.
"""

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from grove.api import labels
from grove.runtime.cache import Store
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.informer import Informer
from grove.runtime.queue import Done, WorkQueue
from grove.runtime.resources import ResourceType
from grove.webhooks import certificates
from grove.webhooks.certificates import Certificates
from grove.webhooks.configurations import MUTATING, NAMES, VALIDATING, Manifest, is_injected, with_ca_bundle
from grove.webhooks.server import WebhookServer

logger = logging.getLogger(__name__)

SECRET: Final = ResourceType("", "v1", "secrets", "Secret")

_SETTLE_SECONDS: Final = 5.0
"""Until every API server has heard of a new authority. Until then a certificate of the one before is shown on."""
_LONGEST_WAIT: Final = 3600.0
"""Seconds to the next look at the clock, as it may have been set."""
_FILES_SECONDS: Final = 5.0
"""How often the files are looked at. A mounted Secret is a file system without events, and is itself a minute late."""

_KEY: Final = "certificates"


@dataclass(frozen=True, slots=True)
class _Object:
    """A Secret or webhook configuration; `wire` is None for those that are not ours."""

    namespace: str
    name: str
    uid: str
    resource_version: int
    wire: dict[str, Any] | None


def _view(names: Collection[str]) -> Callable[[dict[str, Any]], _Object]:
    def view(obj: dict[str, Any]) -> _Object:
        metadata = obj["metadata"]
        name = metadata["name"]
        return _Object(
            metadata.get("namespace", ""),
            name,
            metadata["uid"],
            int(metadata["resourceVersion"]),
            obj if name in names else None,
        )

    return view


class OwnAuthority:
    """Mode auto. Each pass makes sure of three things, in this order: the Secret, `caBundle`, what the server shows.

    `names` are the DNS names and addresses at which the server is called.
    """

    def __init__(
        self, client: Client, server: WebhookServer, *, namespace: str, secret: str, names: Collection[str]
    ) -> None:
        self._client = client
        self._server = server
        self._namespace = namespace
        self._secret_name = secret
        self._names = names
        self._secrets: Store[_Object] = Store()
        self._configurations: dict[ResourceType, Store[_Object]] = {MUTATING: Store(), VALIDATING: Store()}
        self._shown: Certificates | None = None
        self._problem = "no certificate yet"
        self._given_up = False
        self._strangers: set[str] = set()
        self.queue: WorkQueue[str] = WorkQueue(self._pass, name="webhook-certificates", concurrency=1)
        self.informers: list[Informer[Any]] = [
            Informer(
                client,
                SECRET,
                self._secrets,
                _view({secret}),
                namespace=namespace,
                field_selector=f"metadata.name={secret}",
            ),
            *(
                Informer(client, resource, store, _view(NAMES[resource]))
                for resource, store in self._configurations.items()
            ),
        ]
        for store in (self._secrets, *self._configurations.values()):
            store.on_change(lambda _old, _new: self.queue.add(_KEY))

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(informer.run(), name=f"informer {informer.resource.label}")
            await self._secrets.wait_synced()
            self.queue.add(_KEY)
            tasks.create_task(self.queue.run(), name="queue webhook-certificates")

    def problems(self) -> list[str]:
        """Why no certificate is shown; empty when one is."""
        return [self._problem] if self._problem else []

    async def _pass(self, _: str) -> Done | None:
        now = datetime.now(UTC)
        try:
            current = await self._ensure_secret(now)
            trusted = current is not None and await self._ensure_trust(current)
        except ApiError as error:
            self._problem = f"no certificate: {error}"
            raise
        if current is None or not trusted:
            return Done(again_after=1.0)  # another replica was first; mostly the news of that comes sooner
        wait = (certificates.renewal(current) - now).total_seconds()
        if current != self._shown:
            if self._shown is not None and not certificates.trusts(self._shown.ca_bundle, current.ca_bundle):
                await asyncio.sleep(_SETTLE_SECONDS)
            await self._server.show(current.certificate, current.key)
            self._shown, self._problem = current, ""
            logger.info("Showing the webhook certificate that ends at %s", certificates.expiry(current.certificate))
        return Done(again_after=min(wait, _LONGEST_WAIT))

    async def _ensure_secret(self, now: datetime) -> Certificates | None:
        """What the Secret holds, renewed when it has to be; None when somebody else has just changed it."""
        found = self._secrets.get(self._namespace, self._secret_name)
        secret = found.wire if found is not None else None
        current = Certificates.from_secret(secret.get("data")) if secret else None
        if secret and self._is_given_up(secret, now):
            return self._shown
        # A Secret that was deleted or emptied comes back as it was, so nobody has to trust anything new.
        wanted = certificates.up_to_date(current or self._shown, self._names, now)
        if wanted == current:
            return current
        try:
            if secret is None:
                stored = await self._client.create(SECRET, self._new_secret(wanted))
            else:
                body = {**secret, "data": {**(secret.get("data") or {}), **wanted.to_secret()}}
                stored = await self._client.replace(SECRET, self._namespace, self._secret_name, body)
        except ApiError as error:
            if error.is_already_exists or error.is_conflict:
                return None
            raise
        logger.info("Wrote new webhook certificates to the Secret %s/%s", self._namespace, self._secret_name)
        stored.setdefault("kind", SECRET.kind)
        self._secrets.put(_view({self._secret_name})(stored))
        return wanted

    def _is_given_up(self, secret: Manifest, now: datetime) -> bool:
        """Whether somebody else has begun to provide the certificate, who would write the Secret again if we did.

        We are about to be told so by our configuration. Until then what is shown is shown on, as long as it is good.
        """
        shown = self._shown
        given_up = certificates.is_of_others(secret.get("data")) and shown is not None
        if given_up and not self._given_up:
            logger.warning(
                "The Secret %s/%s has a certificate of somebody else and is left alone: "
                "set certProvisionMode to manual, or delete the Secret",
                self._namespace,
                self._secret_name,
            )
        self._given_up = given_up
        return given_up and certificates.up_to_date(shown, self._names, now) == shown

    def _new_secret(self, content: Certificates) -> Manifest:
        tags = {
            labels.MANAGED_BY: labels.MANAGED_BY_GROVE,
            "app.kubernetes.io/component": "webhook",
            labels.PART_OF: "grove",
        }
        return {
            "apiVersion": SECRET.api_version,
            "kind": SECRET.kind,
            "type": "kubernetes.io/tls",
            "metadata": {"name": self._secret_name, "namespace": self._namespace, "labels": tags},
            "data": content.to_secret(),
        }

    async def _ensure_trust(self, current: Certificates) -> bool:
        """Add our authority to `caBundle` wherever it is missing; whether that is done everywhere."""
        done = True
        for resource, store in self._configurations.items():
            for found in store:
                if found.wire is not None and self._distrusts(found.wire, current.ca_bundle):
                    done = await self._fill_in(resource, found.wire, current.ca_bundle) and done
        return done

    def _distrusts(self, configuration: Manifest, bundle: bytes) -> bool:
        """Whether a configuration lacks our authority, and it is for us to add it."""
        name = configuration["metadata"]["name"]
        present = {entry["clientConfig"].get("caBundle", "") for entry in configuration.get("webhooks") or ()}
        lacking = not all(certificates.trusts(b64decode(pem), bundle) for pem in present)
        if lacking and is_injected(configuration):
            if name not in self._strangers:
                self._strangers.add(name)
                logger.warning("caBundle of %s is left to cert-manager, as its annotation says", name)
            return False
        self._strangers.discard(name)
        return lacking

    async def _fill_in(self, resource: ResourceType, configuration: Manifest, bundle: bytes) -> bool:
        name = configuration["metadata"]["name"]
        try:
            stored = await self._client.replace(resource, "", name, with_ca_bundle(configuration, bundle))
        except ApiError as error:
            if error.is_conflict or error.is_not_found:
                return False
            raise
        logger.info("Filled in caBundle of %s %s", resource.kind, name)
        self._configurations[resource].put(_view(NAMES[resource])(stored))
        return True


class MountedFiles:
    """Mode manual: `tls.crt` and `tls.key` in a folder, shown as they are and again when they change."""

    def __init__(self, server: WebhookServer, folder: Path) -> None:
        self._server = server
        self._files = (folder / certificates.CERTIFICATE, folder / certificates.KEY)
        self._problem = "no certificate yet"

    async def run(self) -> None:
        """Work until cancelled."""
        seen: tuple[bytes, ...] = ()
        while True:
            try:
                content = tuple(file.read_bytes() for file in self._files)
                if content != seen:
                    await self._server.show(*content)
                    logger.info("Showing the webhook certificate that ends at %s", certificates.expiry(content[0]))
                self._tell("")
                seen = content
            except (OSError, ValueError) as error:
                self._tell(f"{self._files[0].parent}: {error}")
            await asyncio.sleep(_FILES_SECONDS)

    def problems(self) -> list[str]:
        """Why no certificate is shown, or not the one in the files; empty when all is well."""
        return [self._problem] if self._problem else []

    def _tell(self, problem: str) -> None:
        if problem and problem != self._problem:
            logger.warning("Webhook certificate: %s", problem)
        self._problem = problem
