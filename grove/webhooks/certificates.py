"""A certificate authority of our own, and the certificate the webhook server shows. Pure: no I/O, no clock.

Subjects, lifetimes and the keys of the Secret follow the API doc 5.3.
"""

import ipaddress
from base64 import b64decode, b64encode
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CA_BUNDLE: Final = "ca.crt"
CA_KEY: Final = "ca.key"
CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
"""Keys of the Secret's data."""

_CA_LIFE: Final = timedelta(days=3650)
_LIFE: Final = timedelta(days=365)
_EARLY: Final = timedelta(days=90)
"""How long before its end a certificate is replaced. The authority goes that long before a certificate it signs would
outlive it."""
_SKEW: Final = timedelta(hours=1)
"""Certificates begin in the past, since clocks differ."""
_SUBJECT: Final = x509.Name(
    [x509.NameAttribute(NameOID.COMMON_NAME, "Grove-CA"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Grove")]
)


@dataclass(frozen=True, slots=True)
class Certificates:
    """What the Secret holds, as PEM."""

    ca_bundle: bytes
    """the authority first, then those before it that are still valid: their certificates may be shown for a while"""
    ca_key: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def from_secret(cls, data: Mapping[str, str] | None) -> "Certificates | None":
        """Read a Secret's data; None when a part is missing or is no base64."""
        try:
            parts = [b64decode((data or {}).get(key) or "", validate=True) for key in _FIELDS]
        except ValueError:
            return None
        return cls(*parts) if all(parts) else None

    def to_secret(self) -> dict[str, str]:
        """A Secret's data."""
        return {key: b64encode(getattr(self, field)).decode() for key, field in _FIELDS.items()}


_FIELDS: Final = {CA_BUNDLE: "ca_bundle", CA_KEY: "ca_key", CERTIFICATE: "certificate", KEY: "key"}


def up_to_date(current: Certificates | None, names: Collection[str], now: datetime) -> Certificates:
    """`current` if it is whole, long enough valid and for all `names` (DNS names and IP addresses); else new ones.

    Whatever is still good is kept: the authority, when only the server's certificate has to go; and in the bundle an
    authority that went, for as long as it is valid. `current` may hold anything.
    """
    authority = _usable_authority(current, now)
    if authority is None:
        authority = _new_authority(now)
    elif current is not None and _is_good(current, authority[0], names, now):
        return current
    ca, ca_key = authority
    certificate, key = _new_certificate(ca, ca_key, names, now)
    older = [old for old in _certificates(current.ca_bundle if current else b"") if old != ca and _ends(old) > now]
    return Certificates(
        ca_bundle=b"".join(each.public_bytes(Encoding.PEM) for each in (ca, *older[:2])),
        ca_key=_pem(ca_key),
        certificate=certificate.public_bytes(Encoding.PEM),
        key=_pem(key),
    )


def renewal(current: Certificates) -> datetime:
    """When `up_to_date` would replace something of what it returned."""
    ca, certificate = _certificates(current.ca_bundle)[0], _certificates(current.certificate)[0]
    return min(_ends(certificate) - _EARLY, _ends(ca) - _LIFE - _EARLY)


def expiry(pem: bytes) -> datetime:
    """When the first certificate of a PEM text ends; raises ValueError when there is none."""
    found = _certificates(pem)
    if not found:
        raise ValueError("there is no certificate")
    return _ends(found[0])


def trusts(bundle: bytes, wanted: bytes) -> bool:
    """Whether a CA bundle holds every authority of another one."""
    return set(_certificates(wanted)) <= set(_certificates(bundle))


def joined(present: bytes, ours: bytes) -> bytes:
    """A CA bundle with `ours`, and what `present` holds of others; older authorities of this module go."""
    others = [found for found in _certificates(present) if found.subject != _SUBJECT]
    return b"".join([ours, *(found.public_bytes(Encoding.PEM) for found in others)])


def is_of_others(data: Mapping[str, str] | None) -> bool:
    """Whether a Secret's data holds a certificate with its key that somebody else has issued, such as cert-manager."""
    try:
        certificate, key = (b64decode((data or {}).get(name) or "", validate=True) for name in (CERTIFICATE, KEY))
    except ValueError:
        return False
    found = _certificates(certificate)
    return bool(found and key) and found[0].issuer != _SUBJECT


def _certificates(pem: bytes) -> list[x509.Certificate]:
    """All certificates of a PEM text; none when it cannot be read."""
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        return []


def _ends(certificate: x509.Certificate) -> datetime:
    return certificate.not_valid_after_utc


def _usable_authority(
    current: Certificates | None, now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey] | None:
    """The authority, if it can sign a certificate now that does not outlive it."""
    if current is None:
        return None
    found, key = _certificates(current.ca_bundle), _private_key(current.ca_key)
    if not found or key is None or not _belong(found[0], key):
        return None
    return (found[0], key) if _ends(found[0]) - now > _LIFE + _EARLY else None


def _is_good(current: Certificates, ca: x509.Certificate, names: Collection[str], now: datetime) -> bool:
    found, key = _certificates(current.certificate), _private_key(current.key)
    if not found or key is None or not _belong(found[0], key) or _ends(found[0]) - now <= _EARLY:
        return False
    try:
        found[0].verify_directly_issued_by(ca)
        extension = found[0].extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound):
        return False
    return set(_alternative_names(names)) <= set(extension.value)


def _belong(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> bool:
    try:
        return bool(certificate.public_key() == key.public_key())
    except (ValueError, UnsupportedAlgorithm):
        return False


def _private_key(pem: bytes) -> ec.EllipticCurvePrivateKey | None:
    """A key of the kind that we make; None for all else."""
    try:
        key = load_pem_private_key(pem, password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return None
    return key if isinstance(key, ec.EllipticCurvePrivateKey) else None


def _pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _new_authority(now: datetime) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _builder(_SUBJECT, key, now, _CA_LIFE)
        .issuer_name(_SUBJECT)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(digital_signature=True, key_cert_sign=True, crl_sign=True), critical=True)
    )
    return builder.sign(key, SHA256()), key


def _new_certificate(
    ca: x509.Certificate, ca_key: ec.EllipticCurvePrivateKey, names: Collection[str], now: datetime
) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, next(iter(names)))])
    builder = (
        _builder(subject, key, now, _LIFE)
        .issuer_name(ca.subject)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(_alternative_names(names)), critical=False)
        # The bundle may hold several authorities of the same name; this tells which one signed.
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False)
    )
    return builder.sign(ca_key, SHA256()), key


def _builder(
    subject: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(**used: bool) -> x509.KeyUsage:
    uses = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    )
    return x509.KeyUsage(**{use: used.get(use, False) for use in uses})


def _alternative_names(names: Collection[str]) -> list[x509.GeneralName]:
    return [_alternative_name(name) for name in names]


def _alternative_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)
