"""Certificates of our own: what a TLS client accepts, and when what is replaced."""

import contextlib
import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from grove.webhooks import certificates
from grove.webhooks.certificates import Certificates, up_to_date

NOW = datetime(2026, 9, 1, tzinfo=UTC)
NAMES = ("grove-operator", "grove-operator.grove.svc", "127.0.0.1")
END = b"-----END CERTIFICATE-----\n"
YEAR = timedelta(days=365)


@pytest.fixture
def fresh() -> Certificates:
    return up_to_date(None, NAMES, NOW)


def handshake(shown: Certificates, ca_bundle: bytes, name: str, folder: Path) -> None:
    """A TLS handshake in memory, as the API server does it; raises ssl.SSLError when the client does not trust."""
    for file, content in (("crt", shown.certificate), ("key", shown.key)):
        (folder / file).write_bytes(content)
    serving = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    serving.load_cert_chain(folder / "crt", folder / "key")
    calling = ssl.create_default_context(cadata=ca_bundle.decode())
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = serving.wrap_bio(to_server, to_client, server_side=True)
    client = calling.wrap_bio(to_client, to_server, server_hostname=name)
    for side in (client, server, client, server):
        with contextlib.suppress(ssl.SSLWantReadError):
            side.do_handshake()
    assert client.getpeercert(), "the handshake is complete"


@pytest.mark.parametrize("name", NAMES)
def test_a_client_that_trusts_the_authority_accepts_every_name(name: str, tmp_path: Path) -> None:
    shown = up_to_date(None, NAMES, datetime.now(UTC))
    handshake(shown, shown.ca_bundle, name, tmp_path)


def test_a_client_refuses_another_name_and_another_authority(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    shown, other = up_to_date(None, NAMES, now), up_to_date(None, NAMES, now)
    with pytest.raises(ssl.SSLError, match="mismatch"):
        handshake(shown, shown.ca_bundle, "example.com", tmp_path)
    with pytest.raises(ssl.SSLError, match="verify failed"):
        handshake(shown, other.ca_bundle, NAMES[0], tmp_path)


def test_lifetimes_are_those_of_the_api_doc(fresh: Certificates) -> None:
    assert certificates.expiry(fresh.certificate) == NOW + YEAR
    assert certificates.expiry(fresh.ca_bundle) == NOW + 10 * YEAR


def test_what_is_good_stays(fresh: Certificates) -> None:
    assert up_to_date(fresh, NAMES, NOW) is fresh
    assert up_to_date(fresh, NAMES[:1], NOW + timedelta(days=200)) is fresh


def test_renewal_names_the_moment_of_the_next_change(fresh: Certificates) -> None:
    moment = certificates.renewal(fresh)
    assert NOW + timedelta(days=180) < moment < NOW + YEAR
    assert up_to_date(fresh, NAMES, moment - timedelta(seconds=1)) is fresh
    assert up_to_date(fresh, NAMES, moment) is not fresh


def test_before_its_end_the_certificate_alone_is_replaced(fresh: Certificates) -> None:
    later = NOW + timedelta(days=300)
    renewed = up_to_date(fresh, NAMES, later)
    assert (renewed.ca_bundle, renewed.ca_key) == (fresh.ca_bundle, fresh.ca_key)
    assert renewed.certificate != fresh.certificate
    assert certificates.expiry(renewed.certificate) == later + YEAR


def test_ten_years_pass_without_an_invalid_moment() -> None:
    """Whatever the renewals are, what is shown is valid then and signed by a valid authority."""
    moment, current = NOW, up_to_date(None, NAMES, NOW)
    authorities = {current.ca_key}
    while moment < NOW + 12 * YEAR:
        moment = certificates.renewal(current)
        renewed = up_to_date(current, NAMES, moment)
        assert certificates.expiry(current.certificate) > moment
        assert certificates.expiry(renewed.certificate) <= certificates.expiry(renewed.ca_bundle)
        signer = current.ca_bundle[: current.ca_bundle.index(END) + len(END)]
        assert certificates.trusts(renewed.ca_bundle, signer), "clients go on trusting what is shown"
        current = renewed
        authorities.add(current.ca_key)
    assert len(authorities) == 2


def test_a_new_authority_is_trusted_beside_the_one_before(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    old = up_to_date(None, NAMES, now)
    new = up_to_date(replace(old, ca_key=b"lost"), NAMES, now)
    assert new.ca_key != old.ca_key
    for shown in (old, new):
        handshake(shown, new.ca_bundle, NAMES[0], tmp_path)


def test_an_authority_that_ended_is_trusted_no_more() -> None:
    old = up_to_date(None, NAMES, NOW - 20 * YEAR)
    new = up_to_date(old, NAMES, NOW)
    assert not certificates.trusts(new.ca_bundle, old.ca_bundle)


@pytest.mark.parametrize(
    "change",
    [
        {"certificate": b"nonsense"},
        {"key": b"nonsense"},
        {"key": up_to_date(None, NAMES, NOW).key},
        {"certificate": up_to_date(None, NAMES, NOW).certificate},
        {"ca_key": up_to_date(None, NAMES, NOW).ca_key},
        {"ca_bundle": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"},
        {"ca_bundle": b"", "ca_key": b"", "certificate": b"", "key": b""},
    ],
    ids=[
        "no certificate",
        "no key",
        "another key",
        "of another authority",
        "another authority's key",
        "no CA",
        "empty",
    ],
)
def test_what_does_not_fit_together_is_replaced(fresh: Certificates, change: dict[str, bytes]) -> None:
    mended = up_to_date(replace(fresh, **change), NAMES, NOW)
    assert up_to_date(mended, NAMES, NOW) is mended
    assert mended.certificate != replace(fresh, **change).certificate


def test_a_certificate_for_too_few_names_is_replaced(fresh: Certificates) -> None:
    more = (*NAMES, "grove-operator.grove.svc.cluster.local")
    renewed = up_to_date(fresh, more, NOW)
    assert renewed.ca_key == fresh.ca_key
    assert up_to_date(renewed, more, NOW) is renewed


def test_a_secret_holds_it_all(fresh: Certificates) -> None:
    data = fresh.to_secret()
    assert sorted(data) == ["ca.crt", "ca.key", "tls.crt", "tls.key"]
    assert Certificates.from_secret(data) == fresh


@pytest.mark.parametrize(
    "data",
    [None, {}, {"tls.crt": "", "tls.key": ""}, {"ca.crt": "%", "ca.key": "", "tls.crt": "", "tls.key": ""}],
)
def test_an_incomplete_secret_holds_nothing(data: dict[str, str] | None) -> None:
    assert Certificates.from_secret(data) is None


def test_bundles_are_compared_by_their_certificates(fresh: Certificates) -> None:
    other = up_to_date(None, NAMES, NOW)
    assert certificates.trusts(other.ca_bundle + fresh.ca_bundle, fresh.ca_bundle)
    assert not certificates.trusts(fresh.ca_bundle, other.ca_bundle + fresh.ca_bundle)
    assert not certificates.trusts(b"", fresh.ca_bundle)


def test_a_bundle_keeps_the_authorities_of_others(fresh: Certificates) -> None:
    older, foreign = up_to_date(None, NAMES, NOW).ca_bundle, fresh.certificate
    assert certificates.joined(older + foreign, fresh.ca_bundle) == fresh.ca_bundle + foreign
    assert certificates.joined(b"", fresh.ca_bundle) == fresh.ca_bundle
    assert certificates.joined(b"no certificate", fresh.ca_bundle) == fresh.ca_bundle
