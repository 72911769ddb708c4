"""Where the certificate comes from and who trusts it: the Secret, `caBundle`, mounted files."""

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from grove.runtime.transport import bind
from grove.webhooks import certificates, provision
from grove.webhooks.certificates import Certificates, up_to_date
from grove.webhooks.configurations import MUTATING, VALIDATING, manifests, with_ca_bundle
from grove.webhooks.provision import SECRET, MountedFiles, OwnAuthority
from grove.webhooks.server import WebhookServer
from tests.certificates import issued_by_others
from tests.fake_api import FakeApi
from tests.fake_api.seen import until

Object = dict[str, Any]
NAMES = ("grove-operator", "grove-operator.grove.svc")
NOW = datetime.now(UTC)


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(provision, "_SETTLE_SECONDS", 0.05)
    monkeypatch.setattr(provision, "_FILES_SECONDS", 0.01)


@pytest.fixture
def api() -> FakeApi:
    """An API server on which the webhook configurations are installed."""
    api = FakeApi([SECRET, MUTATING, VALIDATING])
    for manifest in manifests(namespace="grove", protect=True):
        api.create(MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING, manifest)
    return api


class Replica:
    """One of the operator's replicas."""

    def __init__(self, api: FakeApi) -> None:
        sock = bind("127.0.0.1", 0)
        self.address = sock.getsockname()
        self.server = WebhookServer(sock, {})
        self.authority = OwnAuthority(api.client(), self.server, namespace="grove", secret="s", names=NAMES)

    async def shown(self) -> bytes:
        """The certificate a client sees, in DER; empty while nobody listens."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        try:
            _, writer = await asyncio.open_connection(*self.address, ssl=context)
        except ConnectionRefusedError:
            return b""
        found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        writer.close()
        return found


@asynccontextmanager
async def running(*replicas: Replica) -> AsyncIterator[None]:
    tasks = [asyncio.ensure_future(replica.authority.run()) for replica in replicas]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for replica in replicas:
            await replica.server.close()


async def comes_to_show(replica: Replica, certificate: bytes) -> None:
    wanted = ssl.PEM_cert_to_DER_cert(certificate.decode())
    async with asyncio.timeout(30):
        while await replica.shown() != wanted:  # noqa: ASYNC110  # a client looks, nobody tells
            await asyncio.sleep(0.01)


def stored(api: FakeApi) -> Certificates | None:
    secret = api.find(SECRET, "grove", "s")
    return Certificates.from_secret(secret["data"]) if secret else None


def bundles(api: FakeApi) -> list[bytes]:
    """The `caBundle` of every webhook."""
    found = [*api.objects(MUTATING), *api.objects(VALIDATING)]
    return [base64.b64decode(each["webhooks"][0]["clientConfig"].get("caBundle", "")) for each in found]


def trusted(api: FakeApi) -> bool:
    now = stored(api)
    return now is not None and all(certificates.trusts(bundle, now.ca_bundle) for bundle in bundles(api))


def secret_with(content: Certificates | None, **data: str) -> Object:
    metadata = {"name": "s", "namespace": "grove"}
    return {"metadata": metadata, "type": "kubernetes.io/tls", "data": data if content is None else content.to_secret()}


async def test_a_fresh_cluster(api: FakeApi) -> None:
    replica = Replica(api)
    async with running(replica):
        assert replica.authority.problems() == ["no certificate yet"]
        await until(lambda: not replica.authority.problems())
        secret = api.find(SECRET, "grove", "s")
        assert secret is not None
        assert secret["type"] == "kubernetes.io/tls"
        assert secret["metadata"]["labels"] == {
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/component": "webhook",
            "app.kubernetes.io/part-of": "grove",
        }
        now = stored(api)
        assert now is not None
        await comes_to_show(replica, now.certificate)
        assert bundles(api) == [now.ca_bundle] * 4
        written = len(api.writes())
        assert written == 1 + 4
        await api.quiet()
        assert len(api.writes()) == written


async def test_the_empty_secret_of_a_chart_is_filled_and_keeps_the_rest(api: FakeApi) -> None:
    chart = secret_with(None, **{"tls.crt": "", "tls.key": "", "other": "eA=="})
    chart["metadata"]["labels"] = {"release": "grove"}
    api.create(SECRET, chart)
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
    secret = api.find(SECRET, "grove", "s")
    assert secret is not None
    assert secret["metadata"]["labels"] == {"release": "grove"}
    assert secret["data"]["other"] == "eA=="
    assert stored(api) is not None


async def test_replicas_agree(api: FakeApi) -> None:
    replicas = [Replica(api) for _ in range(3)]
    async with running(*replicas):
        await until(lambda: not any(replica.authority.problems() for replica in replicas) and trusted(api))
        now = stored(api)
        assert now is not None
        for replica in replicas:
            await comes_to_show(replica, now.certificate)
        created = [request for request in api.writes(resource="secrets") if request.status < 300]
        assert len(created) == 1


@pytest.mark.parametrize("how", ["deleted", "emptied"])
async def test_a_lost_secret_comes_back_as_it_was(api: FakeApi, how: str) -> None:
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
        before = stored(api)
        if how == "deleted":
            api.delete(SECRET, "grove", "s")
        else:
            api.update(SECRET, "grove", "s", lambda obj: {**obj, "data": {"tls.crt": "", "tls.key": ""}})
        await until(lambda: stored(api) == before)


async def test_before_its_end_a_certificate_is_renewed_without_a_restart(api: FakeApi) -> None:
    old = up_to_date(None, NAMES, NOW - timedelta(days=300))
    api.create(SECRET, secret_with(old))
    replica = Replica(api)
    async with running(replica):
        await until(lambda: stored(api) != old)
        now = stored(api)
        assert now is not None
        assert now.ca_bundle == old.ca_bundle
        await comes_to_show(replica, now.certificate)
        again = up_to_date(now, (*NAMES, "more"), NOW)
        api.update(SECRET, "grove", "s", lambda obj: {**obj, "data": again.to_secret()})
        await comes_to_show(replica, again.certificate)


async def test_the_deadline_of_a_renewal_is_kept(api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event tells that time goes by."""
    soon = datetime.now(UTC) - timedelta(days=365) + certificates._EARLY + timedelta(seconds=3)
    old = up_to_date(None, NAMES, soon)
    api.create(SECRET, secret_with(old))
    replica = Replica(api)
    async with running(replica):
        await comes_to_show(replica, old.certificate)
        await until(lambda: stored(api) != old)


async def test_a_new_authority_is_trusted_before_it_is_shown(api: FakeApi) -> None:
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
        before = stored(api)
        assert before is not None
        other = up_to_date(None, NAMES, NOW)
        both = Certificates(other.ca_bundle + before.ca_bundle, other.ca_key, other.certificate, other.key)
        api.update(SECRET, "grove", "s", lambda obj: {**obj, "data": both.to_secret()})
        while ssl.PEM_cert_to_DER_cert(other.certificate.decode()) != await replica.shown():
            seen_trusted = trusted(api)
        assert seen_trusted
        assert all(certificates.trusts(bundle, before.ca_bundle) for bundle in bundles(api))


async def test_configurations_that_are_installed_anew_are_filled_in_again(api: FakeApi) -> None:
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
        for manifest in manifests(namespace="grove", protect=True):
            resource = MUTATING if manifest["kind"] == MUTATING.kind else VALIDATING
            name, fresh = manifest["metadata"]["name"], manifest["webhooks"]
            api.update(resource, "", name, lambda obj: {**obj, "webhooks": fresh})  # noqa: B023  # called at once
        await until(lambda: trusted(api))


async def test_authorities_of_others_stay_beside_ours(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    """Save where cert-manager would write its own again: what it was asked to do is left to it."""
    stale, foreign = up_to_date(None, NAMES, NOW).ca_bundle, up_to_date(None, NAMES, NOW).certificate
    left = "podcliqueset-validating-webhook"
    annotated = {"name": left, "annotations": {"cert-manager.io/inject-ca-from": "grove/certificate"}}
    api.update(MUTATING, "", "podcliqueset-defaulting-webhook", lambda obj: with_ca_bundle(obj, stale + foreign))
    api.update(VALIDATING, "", "authorizer-webhook", lambda obj: with_ca_bundle(obj, stale))
    api.update(
        VALIDATING,
        "",
        left,
        lambda obj: {**with_ca_bundle(obj, foreign), "metadata": {**obj["metadata"], **annotated}},
    )
    stranger = {"metadata": {"name": "another"}, "webhooks": [{"name": "x", "clientConfig": {"url": "https://x"}}]}
    api.create(VALIDATING, stranger)
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
        await api.quiet()
        now = stored(api)
        assert now is not None
        found = {each["metadata"]["name"]: each for each in [*api.objects(MUTATING), *api.objects(VALIDATING)]}
        filled = {key: each["webhooks"][0]["clientConfig"].get("caBundle") for key, each in found.items()}
        ours, both, theirs = (
            base64.b64encode(bundle).decode() for bundle in (now.ca_bundle, now.ca_bundle + foreign, foreign)
        )
        assert filled == {
            "podcliqueset-defaulting-webhook": both,
            "clustertopology-validating-webhook": ours,
            "authorizer-webhook": ours,
            left: theirs,
            "another": None,
        }
        assert [text for text in caplog.messages if left in text] == [
            f"caBundle of {left} is left to cert-manager, as its annotation says"
        ]


async def test_a_secret_that_somebody_else_has_begun_to_provide_is_left_to_them(
    api: FakeApi, caplog: pytest.LogCaptureFixture
) -> None:
    """The switch to another issuer begins so; what is shown and trusted stays until the configuration follows."""
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems())
        before = stored(api)
        assert before is not None
        theirs = {key: base64.b64encode(value).decode() for key, value in issued_by_others(NAMES).items()}
        api.update(SECRET, "grove", "s", lambda obj: {**obj, "data": theirs})
        await until(lambda: "is left alone" in caplog.text)
        await api.quiet()
        assert api.objects(SECRET)[0]["data"] == theirs
        assert all(certificates.trusts(bundle, before.ca_bundle) for bundle in bundles(api))
        assert await replica.shown() == ssl.PEM_cert_to_DER_cert(before.certificate.decode())
        api.delete(SECRET, "grove", "s")
        await until(lambda: stored(api) == before)
    restarted = Replica(api)
    api.update(SECRET, "grove", "s", lambda obj: {**obj, "data": theirs})
    async with running(restarted):
        await until(lambda: not restarted.authority.problems())
        assert stored(api) is not None, "who has nothing to show takes it over"


async def test_a_refusal_is_named_and_got_over(api: FakeApi) -> None:
    fault = api.faults.refuse(403, "Forbidden", resource="secrets", verb="create", times=None)
    replica = Replica(api)
    async with running(replica):
        await until(lambda: any("403 Forbidden" in problem for problem in replica.authority.problems()))
        api.faults.requests.remove(fault)
        await until(lambda: not replica.authority.problems())


async def test_conflicts_are_got_over(api: FakeApi) -> None:
    api.create(SECRET, secret_with(None))
    api.faults.refuse(409, "Conflict", verb="update", times=4)
    replica = Replica(api)
    async with running(replica):
        await until(lambda: not replica.authority.problems() and trusted(api))


async def test_mounted_files_are_shown_as_they_change(tmp_path: Path) -> None:
    sock = bind("127.0.0.1", 0)
    server = WebhookServer(sock, {})
    files = MountedFiles(server, tmp_path)
    task = asyncio.ensure_future(files.run())
    replica = Replica.__new__(Replica)
    replica.address = sock.getsockname()
    try:
        await until(lambda: any("tls.crt" in problem for problem in files.problems()))
        for _ in range(2):
            made = up_to_date(None, NAMES, NOW)
            (tmp_path / "tls.crt").write_bytes(made.certificate)
            (tmp_path / "tls.key").write_bytes(made.key)
            await comes_to_show(replica, made.certificate)
            await until(lambda: not files.problems())
        (tmp_path / "tls.key").write_bytes(up_to_date(None, NAMES, NOW).key)
        await until(lambda: any("cannot be used" in problem for problem in files.problems()))
        await comes_to_show(replica, made.certificate)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await server.close()
