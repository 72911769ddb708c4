"""The client: what it sends, what it repeats, and what it must never repeat."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from grove.runtime import metrics
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.limiter import RateLimiter
from grove.runtime.resources import ResourceType
from grove.runtime.transport import DEAD_PEER_SECONDS, keepalive_socket, open_session
from tests.fake_api import PODS, FakeApi
from tests.fake_api.seen import WIDGETS, pod, until, widget
from tests.fake_api.virtual import cancel, elapsed, virtual_time


@pytest.fixture
def api() -> FakeApi:
    return FakeApi([WIDGETS])


@asynccontextmanager
async def over_sockets(api: FakeApi, **headers: str) -> AsyncIterator[Client]:
    """A client that reaches the server through real TCP."""
    async with api.listen() as url, open_session(headers=headers) as session:
        yield Client(lambda: session, url)


async def test_the_life_of_an_object(api: FakeApi) -> None:
    client = api.client()
    made = await client.create(WIDGETS, widget("a", size=1))
    assert made["metadata"]["uid"]
    assert (await client.get(WIDGETS, "default", "a")) == made
    patched = await client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}})
    assert (patched["spec"], patched["metadata"]["generation"]) == ({"size": 2}, 2)
    patched = await client.patch(WIDGETS, "default", "a", [{"op": "replace", "path": "/spec/size", "value": 3}])
    assert patched["spec"] == {"size": 3}
    status = await client.patch(WIDGETS, "default", "a", {"status": {"ready": True}}, "status")
    assert (status["status"], status["metadata"]["generation"]) == ({"ready": True}, 3)
    with pytest.raises(ApiError) as caught:
        await client.replace(WIDGETS, "default", "a", made)
    assert caught.value.is_conflict
    replaced = await client.replace(WIDGETS, "default", "a", {**status, "spec": {"size": 4}})
    assert replaced["spec"] == {"size": 4}
    await client.delete(WIDGETS, "default", "a", uid=made["metadata"]["uid"])
    with pytest.raises(ApiError) as caught:
        await client.get(WIDGETS, "default", "a")
    assert caught.value.is_not_found


async def test_delete_options_reach_the_server(api: FakeApi) -> None:
    client = api.client()
    api.create(PODS, pod("a", nodeName="n1", terminationGracePeriodSeconds=60))
    ending = await client.delete(PODS, "default", "a", grace_period_seconds=7)
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 7
    owner = api.create(WIDGETS, widget("owner"))
    child = widget("child")
    child["metadata"]["ownerReferences"] = [{"uid": owner["metadata"]["uid"]}]
    api.create(WIDGETS, child)
    await client.delete(WIDGETS, "default", "owner", propagation_policy="Orphan")
    await api.quiet(0.01)
    assert api.objects(WIDGETS)[0]["metadata"]["ownerReferences"] == []


async def test_errors_say_what_the_server_said(api: FakeApi) -> None:
    client = api.client()
    api.create(WIDGETS, widget("a"))
    with pytest.raises(ApiError) as caught:
        await client.create(WIDGETS, widget("a"))
    error = caught.value
    assert error.is_already_exists
    assert not error.is_conflict
    assert (error.status, error.reason, error.verb) == (409, "AlreadyExists", "create")
    assert error.path == "/apis/example.com/v1/namespaces/default/widgets"
    assert 'widgets.example.com "a" already exists' in str(error)
    with pytest.raises(ApiError) as caught:
        await client.delete(WIDGETS, "default", "a", uid="another")
    assert caught.value.is_conflict
    api.faults.refuse(403, "Forbidden")
    with pytest.raises(ApiError) as caught:
        await client.get(WIDGETS, "default", "a")
    assert (caught.value.is_forbidden, caught.value.is_namespace_terminating) == (True, False)


def test_an_error_without_a_status_object() -> None:
    error = ApiError.from_response(404, b"404 page not found\n", None, verb="list", path="/apis/none/v1/nones")
    assert (error.reason, error.message, error.is_not_found) == ("", "404 page not found", True)
    assert ApiError.from_response(503, b"[1]", "12", verb="get", path="/").retry_after == 12
    assert ApiError.from_response(503, b"", "Wed, 21 Oct 2015 07:28:00 GMT", verb="get", path="/").retry_after is None


@pytest.mark.parametrize(
    ("status", "retriable"),
    [
        (0, True),
        (400, False),
        (403, False),
        (404, False),
        (409, True),
        (422, False),
        (429, True),
        (500, True),
        (503, True),
    ],
)
def test_what_may_succeed_later(status: int, retriable: bool) -> None:
    assert ApiError(status, "", "", verb="get", path="/").retriable is retriable


async def test_lists_come_in_pages_and_are_turned_at_once(api: FakeApi) -> None:
    for number in range(7):
        api.create(WIDGETS, widget(f"w{number}", labels={"odd": str(number % 2)}))
    api.create(WIDGETS, widget("elsewhere", "other"))
    client = api.client()
    listing = await client.list(WIDGETS, namespace="default", limit=2, view=lambda obj: obj["metadata"]["name"])
    assert listing.items == [f"w{number}" for number in range(7)]
    assert listing.resource_version == str(api.version)
    assert [request.verb for request in api.requests] == ["list"] * 4
    odd = await client.list(WIDGETS, label_selector="odd=1", view=lambda obj: obj["metadata"]["name"])
    assert odd.items == ["w1", "w3", "w5"]
    everywhere = await client.list(WIDGETS)
    assert len(everywhere.items) == 8
    assert everywhere.items[0]["kind"] == "Widget"


async def test_a_list_shows_one_moment_and_starts_over_when_its_pages_expire(api: FakeApi) -> None:
    for number in range(5):
        api.create(WIDGETS, widget(f"w{number}"))
    seen: list[str] = []

    def view(obj: dict[str, Any]) -> str:
        seen.append(obj["metadata"]["name"])
        if len(seen) == 2:  # while the first page is read
            api.delete(WIDGETS, "default", "w0")
            api.expire_pages()
        return seen[-1]

    listing = await api.client().list(WIDGETS, limit=2, view=view)
    assert listing.items == ["w1", "w2", "w3", "w4"]
    assert listing.resource_version == str(api.version)


async def test_a_missing_group_and_resource(api: FakeApi) -> None:
    client = api.client()
    assert await client.discover("example.com", "v1") == {"widgets"}
    assert "pods" in (await client.discover("", "v1") or ())
    assert await client.discover("example.org", "v1") is None
    with pytest.raises(ApiError) as caught:
        await client.list(ResourceType("example.org", "v1", "things", "Thing"))
    assert caught.value.is_not_found


@virtual_time
async def test_what_the_server_turns_away_is_repeated_when_it_says() -> None:
    for status in (429, 503):
        api = FakeApi([WIDGETS])
        start = elapsed()
        api.faults.refuse(status, "Busy", verb="create", retry_after=2, times=2)
        await api.client().create(WIDGETS, widget("a"))
        assert 4 <= elapsed() - start <= 5, "twice two seconds, a quarter more at most"
        assert [request.status for request in api.requests] == [status, status, 201]


@virtual_time
async def test_waiting_is_bounded_in_number_and_length() -> None:
    api = FakeApi([WIDGETS])
    api.faults.refuse(429, "TooManyRequests", retry_after=3600, times=None)
    with pytest.raises(ApiError) as caught:
        await api.client().create(WIDGETS, widget("a"))
    assert (caught.value.status, caught.value.retry_after) == (429, 3600)
    assert len(api.requests) == 5
    assert 40 <= elapsed() <= 50


@virtual_time
async def test_what_comes_without_a_date_is_not_repeated() -> None:
    api = FakeApi([WIDGETS])
    for status in (409, 429, 500, 503, 504):
        api.requests.clear()
        api.faults.refuse(status, "Reason", verb="create")
        with pytest.raises(ApiError) as caught:
            await api.client().create(WIDGETS, widget("a"))
        assert (caught.value.status, caught.value.reason) == (status, "Reason")
        assert len(api.requests) == 1


@pytest.mark.parametrize("committed", [True, False])
async def test_a_write_whose_answer_is_lost_is_not_repeated(api: FakeApi, committed: bool) -> None:
    api.create(WIDGETS, widget("b", size=1))
    break_connection: Callable[..., object] = api.faults.lose_response if committed else api.faults.reset
    async with over_sockets(api) as client:
        await client.get(WIDGETS, "default", "b")  # a connection stands, as it does in real life
        break_connection(verb="create")
        with pytest.raises(ApiError) as caught:
            await client.create(WIDGETS, widget("a"))
        assert (caught.value.status, caught.value.retriable, caught.value.not_sent) == (0, True, False)
        break_connection(verb="patch")
        with pytest.raises(ApiError):
            await client.patch(WIDGETS, "default", "b", {"spec": {"size": 2}})
    assert [request.verb for request in api.writes()] == ["create", "patch"]
    assert (api.find(WIDGETS, "default", "a") is not None) is committed


@virtual_time
async def test_a_refused_connection_is_tried_again_as_nothing_was_sent() -> None:
    api = FakeApi([WIDGETS])
    api.faults.down = True
    task = asyncio.ensure_future(api.client().create(WIDGETS, widget("a")))
    await asyncio.sleep(0.05)
    api.faults.down = False
    await task
    assert api.find(WIDGETS, "default", "a") is not None
    api.faults.down = True
    with pytest.raises(ApiError) as caught:
        await api.client().create(WIDGETS, widget("b"))
    assert (caught.value.status, caught.value.not_sent) == (0, True)


async def test_a_refused_connection_over_sockets() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
    async with open_session() as session:
        with pytest.raises(ApiError) as caught:
            await Client(lambda: session, f"http://127.0.0.1:{port}").get(WIDGETS, "default", "a")
    assert (caught.value.status, caught.value.not_sent) == (0, True)


@virtual_time
async def test_a_request_that_hangs_times_out() -> None:
    api = FakeApi([WIDGETS])
    api.faults.latency = 1000
    with pytest.raises(ApiError) as caught:
        await api.client(timeout=30).get(WIDGETS, "default", "a")
    assert (caught.value.status, caught.value.reason) == (0, "TimeoutError")
    assert elapsed() == 30


async def test_a_rotated_token_leads_to_one_login_for_all_and_one_repetition(api: FakeApi) -> None:
    api.token = "new"
    tokens = ["old"]
    clients = {token: api.client(token=token) for token in ("old", "new")}
    logins: list[int] = []

    async def reauth() -> None:
        await asyncio.sleep(0.01)
        logins.append(1)
        tokens.append("new")

    client = Client(lambda: clients[tokens[-1]]._session(), "http://api", reauth=reauth)
    made = await asyncio.gather(*(client.create(WIDGETS, widget(f"w{number}")) for number in range(20)))
    assert len(made) == 20
    assert len(logins) == 1
    api.token = "newer still"
    with pytest.raises(ApiError) as caught:
        await client.get(WIDGETS, "default", "w1")
    assert caught.value.status == 401
    assert len(logins) == 2, "no login loop"


async def test_a_login_that_fails_leaves_the_refusal(api: FakeApi) -> None:
    api.token = "new"

    async def reauth() -> None:
        raise PermissionError("no token file")

    with pytest.raises(ApiError) as caught:
        await api.client(reauth=reauth).get(WIDGETS, "default", "a")
    assert caught.value.status == 401
    assert isinstance(caught.value.__cause__, PermissionError)


@virtual_time
async def test_the_rate_limit_allows_a_burst_then_so_many_per_second() -> None:
    limiter = RateLimiter(qps=10, burst=5)
    times: list[float] = []

    async def one() -> None:
        await limiter.wait()
        times.append(round(elapsed(), 3))

    await asyncio.gather(*(one() for _ in range(10)))
    assert times == [0, 0, 0, 0, 0, 0.1, 0.2, 0.3, 0.4, 0.5]
    await asyncio.sleep(60)
    await asyncio.gather(*(one() for _ in range(6)))
    assert [round(when - times[10], 3) for when in times[10:]] == [0, 0, 0, 0, 0, 0.1], "the burst fills up, no further"


@virtual_time
async def test_the_limit_holds_for_requests() -> None:
    api = FakeApi([WIDGETS])
    client = api.client(qps=10, burst=1)
    await asyncio.gather(*(client.create(WIDGETS, widget(f"w{number}")) for number in range(11)))
    assert 0.99 <= elapsed() <= 1.01


async def collect(client: Client, into: list[dict[str, Any]], since: str, **options: Any) -> None:
    async for event in client.watch(WIDGETS, resource_version=since, **options):
        into.append(event)  # noqa: PERF401  # what came before an error counts


async def test_a_watch_tells_what_happened_since(api: FakeApi) -> None:
    client = api.client()
    since = (await client.list(WIDGETS)).resource_version
    api.create(WIDGETS, widget("a"))
    events: list[dict[str, Any]] = []
    opened: list[bool] = []
    task = asyncio.ensure_future(collect(client, events, since, on_open=lambda: opened.append(True)))
    await until(lambda: len(events) == 1)
    await client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}})
    await client.patch(WIDGETS, "default", "a", {"spec": {"size": 2}})
    await client.delete(WIDGETS, "default", "a")
    api.bookmark()
    await until(lambda: len(events) >= 4)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "BOOKMARK"]
    assert events[-1]["object"]["metadata"]["resourceVersion"] == str(api.version)
    assert opened == [True]
    api.drop_watches(broken=False)
    await asyncio.wait_for(task, 10)


async def test_a_watch_from_too_far_back_is_gone(api: FakeApi) -> None:
    since = str(api.version)
    api.create(WIDGETS, widget("a"))
    api.compact()
    with pytest.raises(ApiError) as caught:
        await collect(api.client(), [], since)
    assert (caught.value.is_gone, caught.value.reason) == (True, "Expired")


async def test_a_broken_watch_is_an_error_after_the_events_that_came(api: FakeApi) -> None:
    async with over_sockets(api) as client:
        events: list[dict[str, Any]] = []
        task = asyncio.ensure_future(collect(client, events, str(api.version)))
        await until(lambda: api.watches)
        api.create(WIDGETS, widget("a"))
        await until(lambda: events)
        api.drop_watches()
        with pytest.raises(ApiError) as caught:
            await asyncio.wait_for(task, 10)
        assert caught.value.status == 0
        assert [event["type"] for event in events] == ["ADDED"]


async def test_lines_of_any_length_pass_whole(api: FakeApi) -> None:
    async with over_sockets(api) as client:
        events: list[dict[str, Any]] = []
        task = asyncio.ensure_future(collect(client, events, str(api.version)))
        await until(lambda: api.watches)
        texts = ["x" * (3 * 2**20), "short", "é" * 2**20, "y" * 2**18]
        for number, text in enumerate(texts):
            api.create(WIDGETS, widget(f"w{number}", text=text))
        await until(lambda: len(events) == len(texts))
        assert [event["object"]["spec"]["text"] for event in events] == texts
        await cancel(task)


@virtual_time
async def test_the_server_ends_a_watch_after_fifteen_to_twenty_seconds() -> None:
    api = FakeApi([WIDGETS])
    for _ in range(5):
        start = elapsed()
        await collect(api.client(), [], str(api.version))
        assert 15 <= elapsed() - start <= 20
    await collect(api.client(), [], str(api.version), seconds=3)


async def test_a_watch_that_is_left_closes_its_connection(api: FakeApi) -> None:
    async with over_sockets(api) as client:
        task = asyncio.ensure_future(collect(client, [], str(api.version)))
        await until(lambda: api.watches)
        connector = client._session().connector
        assert connector is not None
        assert len(connector._acquired) == 1
        await cancel(task)
        assert len(connector._acquired) == 0


async def test_the_user_agent_and_no_compression_are_sent() -> None:
    async with open_session(headers={"User-Agent": "probe/1", "Authorization": "Bearer t"}) as session:
        assert session.headers["User-Agent"] == "probe/1"
        assert session.headers["Authorization"] == "Bearer t"
        assert session.headers["Accept-Encoding"] == "identity"


def test_sockets_notice_a_dead_peer_within_half_a_minute() -> None:
    with keepalive_socket((socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", 1))) as sock:
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        idle, interval, count = (
            sock.getsockopt(socket.IPPROTO_TCP, getattr(socket, option))
            for option in ("TCP_KEEPIDLE", "TCP_KEEPINTVL", "TCP_KEEPCNT")
        )
        assert idle + interval * count <= DEAD_PEER_SECONDS < 30
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == DEAD_PEER_SECONDS * 1000


async def test_connections_use_such_sockets(api: FakeApi) -> None:
    async with over_sockets(api) as client:
        task = asyncio.ensure_future(collect(client, [], str(api.version)))
        await until(lambda: api.watches)
        connector = client._session().connector
        assert connector is not None
        (protocol,) = connector._acquired
        assert protocol.transport is not None
        sock = protocol.transport.get_extra_info("socket")
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
        await cancel(task)


async def test_requests_are_counted(api: FakeApi) -> None:
    def count(verb: str, code: str) -> float:
        labels = {"verb": verb, "resource": "widgets.example.com", "code": code}
        return metrics.REGISTRY.get_sample_value("rest_client_requests_total", labels) or 0.0

    before = {key: count(*key) for key in (("create", "201"), ("create", "409"), ("create", "0"))}
    client = api.client()
    await client.create(WIDGETS, widget("a"))
    with pytest.raises(ApiError):
        await client.create(WIDGETS, widget("a"))
    api.faults.reset(verb="create")
    with pytest.raises(ApiError):
        await client.create(WIDGETS, widget("b"))
    assert {key: count(*key) - value for key, value in before.items()} == dict.fromkeys(before, 1.0)
    assert b"rest_client_request_duration_seconds_bucket" in metrics.exposition()
