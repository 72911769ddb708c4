"""Kubeconfigs as kubectl reads them, service accounts, and clear errors where they cannot be used."""

import base64
import os
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from grove.runtime.credentials import Credentials, LoginError, service_account
from grove.runtime.kubeconfig import Kubeconfig
from tests.certificates import issued_by_others

SERVER = "https://127.0.0.1:6443"


def write(path: Path, cluster: dict[str, Any], user: dict[str, Any], **more: Any) -> Path:
    """A kubeconfig with one context, cluster and user, all named after the file."""
    name = path.name
    content = {
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": cluster}],
        "users": [{"name": name, "user": user}],
        **more,
    }
    path.write_text(yaml.safe_dump(content))
    return path


async def credentials(*files: Path, context: str = "") -> Credentials:
    kubeconfig = Kubeconfig.read(os.pathsep.join(map(str, files)))
    assert kubeconfig is not None
    return await kubeconfig.credentials(context)


async def test_the_first_file_that_says_something_wins(tmp_path: Path) -> None:
    one = write(tmp_path / "one", {"server": SERVER}, {"token": "t1"})
    again = [{"name": "one", "cluster": {"server": "http://wrong"}}, {"name": "two", "cluster": {"server": "http://2"}}]
    two = write(tmp_path / "two", {}, {"token": "t2"}, **{"clusters": again, "current-context": "one"})
    absent = tmp_path / "absent"
    assert await credentials(absent, one, two) == Credentials(server=SERVER, token="t1")
    assert await credentials(one, two, context="two") == Credentials(server="http://2", token="t2")
    assert Kubeconfig.read(str(absent)) is None


async def test_all_that_a_kubeconfig_may_say(tmp_path: Path) -> None:
    files = issued_by_others(["web"])
    data = {name: base64.b64encode(content).decode() for name, content in files.items()}
    text = {name: content.decode() for name, content in files.items()}
    wanted = Credentials(
        server=SERVER, authority=text["ca.crt"], certificate=text["tls.crt"], key=text["tls.key"], proxy="http://proxy"
    )
    cluster = {"server": SERVER, "proxy-url": "http://proxy"}
    inline = write(
        tmp_path / "inline",
        {**cluster, "certificate-authority-data": data["ca.crt"], "certificate-authority": "not read"},
        {"client-certificate-data": data["tls.crt"], "client-key-data": data["tls.key"]},
    )
    assert await credentials(inline, context="inline") == wanted
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes("# für uns\n".encode() * (name == "ca.crt") + content)
    relative = write(
        folder / "relative",
        {**cluster, "certificate-authority": "ca.crt"},
        {"client-certificate": "tls.crt", "client-key": str(folder / "tls.key")},
    )
    found = await credentials(relative, context="relative")
    assert (found.certificate, found.key) == (wanted.certificate, wanted.key)
    assert len(found.ssl_context().get_ca_certs()) == 1, "a comment in another language does no harm"
    (folder / "token").write_text("from a file\n")
    other = write(
        folder / "other",
        {"server": SERVER, "insecure-skip-tls-verify": True},
        {"token": "older", "tokenFile": "token"},
        contexts=[{"name": "other", "context": {"cluster": "other", "user": "other", "namespace": "ours"}}],
    )
    found = await credentials(other, context="other")
    assert (found.namespace, found.headers()) == ("ours", {"Authorization": "Bearer from a file"})
    assert found.ssl_context().verify_mode is ssl.CERT_NONE
    basic = write(tmp_path / "basic", {"server": SERVER}, {"username": "Aladdin", "password": "open sesame"})
    assert (await credentials(basic, context="basic")).headers() == {
        "Authorization": "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="  # the example of RFC 7617
    }


def test_the_server_sees_the_certificate(tmp_path: Path) -> None:
    files = {name: content.decode() for name, content in issued_by_others(["web"]).items()}
    ours = Credentials(server=SERVER, insecure=True, certificate=files["tls.crt"], key=files["tls.key"])
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    theirs.verify_mode = ssl.CERT_REQUIRED
    theirs.load_verify_locations(cadata=files["ca.crt"])
    (tmp_path / "both").write_text(files["tls.key"] + files["tls.crt"])
    theirs.load_cert_chain(tmp_path / "both")
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = ours.ssl_context().wrap_bio(to_client, to_server)
    server = theirs.wrap_bio(to_server, to_client, server_side=True)
    for end in (client, server, client, server):
        with suppress(ssl.SSLWantReadError):
            end.do_handshake()
    assert (server.getpeercert() or {})["subject"] == ((("commonName", "web"),),)


async def test_a_plugin_beside_the_kubeconfig(tmp_path: Path) -> None:
    plugin = tmp_path / "bin" / "plugin"
    plugin.parent.mkdir()
    plugin.write_text("""#!/bin/sh\nprintf '{"status": {"clientCertificateData": "C", "clientKeyData": "K"}}'\n""")
    plugin.chmod(0o755)
    command = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "bin/plugin"}}
    found = await credentials(write(tmp_path / "k", {"server": SERVER}, command), context="k")
    assert found == Credentials(server=SERVER, certificate="C", key="K")


async def test_what_is_wrong_with_a_kubeconfig(tmp_path: Path) -> None:
    good = {"server": SERVER}
    for cluster, user, more, said in (
        (good, {}, {}, "names no current context; it has k"),
        (good, {}, {"current-context": "c"}, "has no context c; it has k"),
        (good, {}, {"current-context": "k", "clusters": []}, "has no cluster k; it has none"),
        ({}, {}, {"current-context": "k"}, "names no server for cluster k"),
        (good, {"tokenFile": "gone"}, {"current-context": "k"}, "cannot be used: .*No such file.*gone"),
        (good, {"client-key-data": "a"}, {"current-context": "k"}, "cannot be used: "),
        (good, {}, {"clusters": "k"}, "k is no kubeconfig: "),
        (
            good,
            {"exec": {"apiVersion": "v1", "command": "none"}},
            {"current-context": "k"},
            "plugin none gave no credentials",
        ),
    ):
        file = write(tmp_path / "k", cluster, user, **more)
        with pytest.raises(LoginError, match=said):
            await credentials(file)
    with pytest.raises(LoginError, match=r"certificates for https://127.0.0.1:6443 cannot be used"):
        Credentials(server=SERVER, certificate="C", key="K").ssl_context()


def test_a_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    assert service_account(tmp_path) is None, "this is no pod"
    for name, text in (("token", "t0\n"), ("namespace", "grove-system"), ("ca.crt", "PEM")):
        (tmp_path / name).write_text(text)
    for host, server in (
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("", "https://kubernetes.default.svc"),
    ):
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        assert service_account(tmp_path) == Credentials(
            server=server, namespace="grove-system", authority="PEM", token="t0"
        ), "it needs no DNS"
    (tmp_path / "token").unlink()
    (tmp_path / "token").mkdir()
    with pytest.raises(LoginError, match="service account cannot be used"):
        service_account(tmp_path)
