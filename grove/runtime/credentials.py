"""Who we are at an API server, and how its connections are secured."""

import base64
import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FOLDER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class LoginError(Exception):
    """There are no credentials, or they cannot be used; one sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Credentials:
    """An API server and what proves there who we are. Certificates and keys are PEM."""

    server: str
    """URL"""
    namespace: str = "default"
    """that of the pod, or of the kubeconfig's context"""
    authority: str = ""
    """what the server's certificate is checked against; "" is what the system trusts"""
    insecure: bool = False
    """the server's certificate is not checked"""
    token: str = ""
    certificate: str = ""
    key: str = ""
    username: str = ""
    password: str = ""
    proxy: str | None = None
    """URL"""

    def headers(self) -> dict[str, str]:
        """The HTTP headers that prove who we are."""
        if self.token:
            return {"Authorization": f"Bearer {self.token}"}
        if self.username:
            pair = base64.b64encode(f"{self.username}:{self.password}".encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def ssl_context(self) -> ssl.SSLContext:
        """The settings of TLS; raises LoginError when a certificate or a key is none."""
        try:
            context = ssl.create_default_context(cadata=self.authority or None)
            if self.certificate and self.key:
                with _files(self.certificate, self.key) as (certificate, key):
                    context.load_cert_chain(certificate, key)
        except (ssl.SSLError, ValueError) as error:
            raise LoginError(f"the certificates for {self.server} cannot be used: {error}") from error
        if self.insecure:
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context


@contextmanager
def _files(*texts: str) -> Iterator[list[str]]:
    """Texts as files that only we can read, since ssl takes a key from nowhere else."""
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.NamedTemporaryFile("w", encoding="ascii")) for _ in texts]
        for file, text in zip(files, texts, strict=True):
            file.write(text)
            file.flush()
        yield [file.name for file in files]


def pem(content: bytes) -> str:
    """The text of a PEM file; it is ASCII, but comments in it need not be."""
    return content.decode("ascii", "ignore")


def service_account(folder: Path = _FOLDER) -> Credentials | None:
    """The service account of the pod we are in, None outside of pods. Raises LoginError.

    The server is at the address that the kubelet tells every pod: its name would need a DNS that works.
    """
    token, authority, namespace = (folder / name for name in ("token", "ca.crt", "namespace"))
    host, port = (os.environ.get(f"KUBERNETES_SERVICE_{part}", "") for part in ("HOST", "PORT"))
    address = f"{f'[{host}]' if ':' in host else host}:{port}" if host and port else "kubernetes.default.svc"
    if not token.exists():
        return None
    try:
        return Credentials(
            server=f"https://{address}",
            namespace=(namespace.read_text("utf-8").strip() if namespace.exists() else "") or "default",
            authority=pem(authority.read_bytes()) if authority.exists() else "",
            token=token.read_text("utf-8").strip(),
        )
    except (OSError, ValueError) as error:
        raise LoginError(f"the pod's service account cannot be used: {error}") from error
