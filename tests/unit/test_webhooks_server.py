"""The webhook server over real TLS: what clients get back, whatever they send, and which certificate they see."""

import asyncio
import base64
import json
import ssl
import urllib.request
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from grove.admission import Facts
from grove.runtime.transport import bind
from grove.webhooks import configurations
from grove.webhooks.certificates import Certificates, up_to_date
from grove.webhooks.handlers import Handlers
from grove.webhooks.reviews import Answer, BadReviewError, Request, decode, encode
from grove.webhooks.server import Handler, WebhookServer
from tests.fake_api import FakeApi
from tests.unit.support import clique, pod_set

Object = dict[str, Any]
VALIDATE = configurations.VALIDATE_PATH


def new_certificates(*names: str) -> Certificates:
    return up_to_date(None, names or ("127.0.0.1",), datetime.now(UTC))


def review(**request: Any) -> Object:
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    complete = {"uid": "u", "kind": kind, "operation": "CREATE", "namespace": "default", "userInfo": {}, **request}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": complete}


@asynccontextmanager
async def serving(handlers: Mapping[str, Handler], shown: Certificates) -> AsyncIterator[tuple[WebhookServer, str]]:
    """A server that shows a certificate, and its URL."""
    sock = bind("127.0.0.1", 0)
    server = WebhookServer(sock, handlers)
    await server.show(shown.certificate, shown.key)
    try:
        yield server, f"https://127.0.0.1:{sock.getsockname()[1]}"
    finally:
        await server.close()


def trusting(shown: Certificates) -> aiohttp.ClientSession:
    """A client as the API server is one: it trusts this authority and no other."""
    context = ssl.create_default_context(cadata=shown.ca_bundle.decode())
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context))


async def post(client: aiohttp.ClientSession, url: str, **options: Any) -> tuple[int, str]:
    """Status and text of the answer."""
    async with client.post(url, **options) as response:
        return response.status, await response.text()


async def seen(url: str) -> bytes:
    """The certificate that a client sees now, in DER."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    port = int(url.rpartition(":")[2])
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    found: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return found


def rules() -> Mapping[str, Handler]:
    return Handlers(FakeApi().client(), Facts, dry_run=False).by_path()


async def test_an_answer_over_tls() -> None:
    shown = new_certificates()
    async with serving(rules(), shown) as (_, url), trusting(shown) as client:
        status, text = await post(client, url + VALIDATE, json=review(object=pod_set(clique("a", 1))))
    assert status == 200
    assert json.loads(text) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u", "allowed": True},
    }


async def test_a_new_certificate_is_shown_at_once_and_open_connections_stay() -> None:
    first, second = new_certificates(), new_certificates()
    body = review(object=pod_set(clique("a", 1)))
    async with serving(rules(), first) as (server, url), trusting(first) as before, trusting(second) as after:
        assert (await post(before, url + VALIDATE, json=body))[0] == 200
        await server.show(second.certificate, second.key)
        assert await seen(url) == ssl.PEM_cert_to_DER_cert(second.certificate.decode())
        for client in (before, after):  # the first one's connection is open still
            assert (await post(client, url + VALIDATE, json=body))[0] == 200
    with pytest.raises(aiohttp.ClientConnectorError):
        async with aiohttp.ClientSession() as client:
            await client.get(url)


async def test_an_unusable_certificate_leaves_the_one_before() -> None:
    first, second = new_certificates(), new_certificates()
    async with serving(rules(), first) as (server, url):
        for certificate, key in ((b"", b""), (b"no", b"no"), (first.certificate, second.key)):
            with pytest.raises(ValueError, match="the certificate cannot be used"):
                await server.show(certificate, key)
        assert await seen(url) == ssl.PEM_cert_to_DER_cert(first.certificate.decode())


async def test_nobody_is_served_before_there_is_a_certificate() -> None:
    sock = bind("127.0.0.1", 0)
    server = WebhookServer(sock, {})
    assert not server.listening
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection(*sock.getsockname())
    await server.close()


def test_a_taken_port_is_an_os_error() -> None:
    with bind("127.0.0.1", 0) as sock:
        sock.listen()
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", sock.getsockname()[1])


@pytest.mark.parametrize(
    ("body", "content_type", "status", "text"),
    [
        ("{}", "text/plain", 415, "the content type must be application/json"),
        ("{}", "application/yaml", 415, "the content type must be application/json"),
        ("", "application/json", 400, "the body must be JSON"),
        ("{", "application/json", 400, "the body must be JSON"),
        ("[]", "application/json", 400, "the body must be an AdmissionReview of admission.k8s.io/v1"),
        (json.dumps(review() | {"apiVersion": "admission.k8s.io/v1beta1"}), "application/json", 400, "AdmissionReview"),
        (json.dumps(review() | {"request": None}), "application/json", 400, "request.uid: Required value"),
        (json.dumps(review(uid=7)), "application/json", 400, "request.uid: Required value"),
        ("[" * 100_000, "application/json", 400, "the body must be JSON"),
        (" " * (2**25 + 1), "application/json", 413, "33554432"),
    ],
    ids=["text", "yaml", "empty", "cut", "a list", "another version", "no request", "no uid", "deep", "too large"],
)
async def test_what_is_no_review_is_told_so(body: str, content_type: str, status: int, text: str) -> None:
    shown = new_certificates()
    async with serving(rules(), shown) as (_, url), trusting(shown) as client:
        answer = await post(client, url + VALIDATE, data=body, headers={"Content-Type": content_type})
    assert answer[0] == status
    assert text in answer[1]


async def test_unknown_paths_and_methods() -> None:
    shown = new_certificates()
    async with serving(rules(), shown) as (_, url), trusting(shown) as client:
        assert (await post(client, url + "/webhooks/nope", json=review()))[0] == 404
        async with client.get(url + VALIDATE) as response:
            assert response.status == 405


async def test_a_fault_of_ours_is_a_sentence_and_no_traceback() -> None:
    async def broken(_: Request) -> Answer:
        raise RuntimeError("secret details")

    shown = new_certificates()
    async with serving({"/broken": broken}, shown) as (_, url), trusting(shown) as client:
        status, text = await post(client, url + "/broken", json=review())
    answer = json.loads(text)["response"]
    assert status == 200
    assert answer["allowed"] is False
    assert answer["status"]["message"] == "not checked, by a fault of the operator that its log tells of"


async def test_a_large_review_holds_up_nobody() -> None:
    """A large set is worked on beside the loop: meanwhile the loop turns, and a small one is answered."""
    large = pod_set(*(clique(f"c{number}", 1, image="i" * 1000) for number in range(2000)))
    shown, turns = new_certificates(), 0
    async with serving(rules(), shown) as (_, url), trusting(shown) as client:
        answer = asyncio.ensure_future(client.post(url + VALIDATE, json=review(object=large)))
        while not answer.done():
            await asyncio.sleep(0.001)
            turns += 1
        async with await answer as response:
            assert response.status == 200
    assert turns > 20


async def test_reviews_do_not_wait_for_the_main_loop() -> None:
    """While the loop that the operator works in is held up, answers are given."""

    def ask(url: str, shown: Certificates) -> bytes:
        context = ssl.create_default_context(cadata=shown.ca_bundle.decode())
        data = json.dumps(review(object=pod_set(clique("a", 1)))).encode()
        headers = {"Content-Type": "application/json"}
        asked = urllib.request.Request(url + VALIDATE, data, headers)
        with urllib.request.urlopen(asked, context=context, timeout=60) as answer:
            found: bytes = answer.read()
            return found

    shown = new_certificates()
    async with serving(rules(), shown) as (_, url):
        assert b'"allowed":true' in ask(url, shown)  # which holds up this loop until it has an answer


async def test_who_asks_on_while_it_closes_is_told_to_leave() -> None:
    """Each answer on an open connection is whole, and one of them is the last."""

    async def allow(_: Request) -> Answer:
        return Answer(True)

    shown = new_certificates()
    async with serving({VALIDATE: allow}, shown) as (server, url), trusting(shown) as client:
        async with client.post(url + VALIDATE, json=review()) as response:
            assert response.headers.get("Connection") != "close"
        closing = asyncio.ensure_future(server.close())
        while not closing.done():
            async with client.post(url + VALIDATE, json=review()) as response:
                assert response.status == 200
                if response.headers.get("Connection") == "close":
                    break
        else:
            raise AssertionError("nobody was told")
        await closing


async def test_what_handlers_need_is_open_while_they_serve() -> None:
    """It belongs to the loop in which they run."""
    events: list[tuple[str, asyncio.AbstractEventLoop]] = []

    @asynccontextmanager
    async def open_it() -> AsyncIterator[None]:
        events.append(("open", asyncio.get_running_loop()))
        yield
        events.append(("closed", asyncio.get_running_loop()))

    async def handler(_: Request) -> Answer:
        events.append(("asked", asyncio.get_running_loop()))
        return Answer()

    shown, sock = new_certificates(), bind("127.0.0.1", 0)
    server = WebhookServer(sock, {"/x": handler}, open_it())
    await server.show(shown.certificate, shown.key)
    url = f"https://127.0.0.1:{sock.getsockname()[1]}/x"
    async with trusting(shown) as client:
        assert (await post(client, url, json=review()))[0] == 200
    await server.close()
    assert [what for what, _ in events] == ["open", "asked", "closed"]
    loops = {loop for _, loop in events}
    assert len(loops) == 1
    assert asyncio.get_running_loop() not in loops


async def answered(handler: Handler, decoded: Request) -> Answer:
    return await handler(decoded)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=20,
)
REQUESTS = st.fixed_dictionaries(
    {"uid": st.text(min_size=1)},
    optional={
        key: JSON
        | st.sampled_from(["CREATE", "UPDATE", "DELETE", "CONNECT"])
        | st.just({"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"})
        for key in ("kind", "operation", "namespace", "name", "object", "oldObject", "userInfo", "subResource")
    },
)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(request=REQUESTS, path=st.sampled_from(sorted(rules())))
def test_any_request_gets_an_answer(request: Object, path: str) -> None:
    try:
        decoded = decode(json.dumps(review() | {"request": request}).encode())
    except BadReviewError:
        return
    protecting = Handlers(FakeApi().client(), Facts, dry_run=False, protect=True)
    protecting._user = "system:serviceaccount:grove:grove-operator"
    answer = asyncio.run(answered(protecting.by_path()[path], decoded))
    response = json.loads(encode(decoded.uid, answer))["response"]
    assert response["uid"] == request["uid"]
    assert response["allowed"] or 400 <= response["status"]["code"] < 500


def test_warnings_are_lines_that_a_header_can_hold() -> None:
    answer = json.loads(encode("u", Answer(warnings=["a\nb\x00c", "x" * 1000])))
    first, second = answer["response"]["warnings"]
    assert first == "a b c"
    assert len(second) == 250


def test_a_patch_is_sent_as_base64_of_json() -> None:
    patch = [{"op": "add", "path": "/spec/replicas", "value": 1}]
    response = json.loads(encode("u", Answer(patch=patch)))["response"]
    assert response["patchType"] == "JSONPatch"
    assert json.loads(base64.b64decode(response["patch"])) == patch
