"""Certificates as somebody else issues them, such as cert-manager."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID


def issued_by_others(names: Sequence[str]) -> dict[str, bytes]:
    """What cert-manager puts into a Secret: a certificate for these DNS names, its key, and its authority, as PEM."""
    ca_key, key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    authority, subject = _name("somebody else"), _name(names[0])
    alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
    ca = _builder(authority, ca_key.public_key()).issuer_name(authority)
    ca = ca.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    certificate = _builder(subject, key.public_key()).issuer_name(authority)
    certificate = certificate.add_extension(alternatives, critical=False)
    return {
        "ca.crt": ca.sign(ca_key, SHA256()).public_bytes(Encoding.PEM),
        "tls.crt": certificate.sign(ca_key, SHA256()).public_bytes(Encoding.PEM),
        "tls.key": key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()),
    }


def _builder(subject: x509.Name, key: rsa.RSAPublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=30))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
