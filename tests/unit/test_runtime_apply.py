"""Sending a plan: what counts as done, what stops the rest, what the caches are told."""

import logging
from typing import Any

import pytest

from grove.runtime.apply import Result, apply
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Patch, Write
from tests.fake_api import PODS, FakeApi, Scale
from tests.fake_api.seen import WIDGETS, pod, widget


class News:
    """What the caches were told."""

    def __init__(self) -> None:
        self.objects: list[str] = []
        self.deleted: list[tuple[str, str]] = []

    def on_object(self, resource: ResourceType, obj: dict[str, Any]) -> None:
        self.objects.append(obj["metadata"]["name"])

    def on_deleted(self, resource: ResourceType, namespace: str, name: str, uid: str) -> None:
        self.deleted.append((name, uid))


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi([WIDGETS])
    api.install(WIDGETS, Scale())
    return api


@pytest.fixture
def news() -> News:
    return News()


async def send(api: FakeApi, news: News, *writes: Write, **options: Any) -> list[Result]:
    return await apply(api.client(), writes, on_object=news.on_object, on_deleted=news.on_deleted, **options)


def creates(count: int) -> list[Create]:
    return [Create(WIDGETS, widget(f"w{number}")) for number in range(count)]


async def test_every_write_has_its_result_in_order(api: FakeApi, news: News) -> None:
    made = api.create(WIDGETS, widget("old", size=1))
    uid = made["metadata"]["uid"]
    gone = api.create(WIDGETS, widget("gone"))["metadata"]["uid"]
    writes: list[Write] = [
        Create(WIDGETS, widget("new")),
        Patch(WIDGETS, "default", "old", {"spec": {"size": 2}}, uid=uid),
        Patch(WIDGETS, "default", "old", {"status": {"ready": True}}, subresource="status"),
        Delete(WIDGETS, "default", "gone", gone, reason="scaled in"),
    ]
    results = await send(api, news, *writes)
    assert [result.write for result in results] == writes
    assert all(result.ok for result in results)
    assert sorted(news.objects) == ["new", "old", "old"]
    assert [result.object for result in results] == [None] * 4, "the caches have them; a large plan must not keep them"
    assert news.deleted == [("gone", gone)]
    old = api.find(WIDGETS, "default", "old")
    assert old is not None
    assert (old["spec"], old["status"]) == ({"size": 2}, {"ready": True})


async def test_a_create_that_meets_an_object_returns_it(api: FakeApi, news: News) -> None:
    there = api.create(WIDGETS, widget("a", size=1))
    (result,) = await send(api, news, Create(WIDGETS, widget("a", size=2)))
    assert (result.ok, result.existing, result.object) == (True, True, there)
    assert news.objects == ["a"]
    assert api.find(WIDGETS, "default", "a") == there


async def test_a_create_whose_answer_was_lost_is_found_by_the_next_pass(api: FakeApi, news: News) -> None:
    api.faults.lose_response(verb="create")
    (result,) = await send(api, news, Create(WIDGETS, widget("a")))
    assert not result.ok
    assert result.error is not None
    assert result.error.status == 0
    assert news.objects == []
    (again,) = await send(api, news, Create(WIDGETS, widget("a")))
    assert (again.ok, again.existing) == (True, True)
    assert len(api.objects(WIDGETS)) == 1


async def test_an_object_that_goes_between_create_and_look_is_an_error(api: FakeApi, news: News) -> None:
    api.create(WIDGETS, widget("a"))
    api.faults.refuse(404, "NotFound", verb="get")
    (result,) = await send(api, news, Create(WIDGETS, widget("a")))
    assert result.error is not None
    assert result.error.is_already_exists
    assert not result.existing


async def test_what_is_gone_already_counts_as_deleted(api: FakeApi, news: News) -> None:
    (result,) = await send(api, news, Delete(WIDGETS, "default", "a", "some-uid"))
    assert result.ok
    assert news.deleted == [("a", "some-uid")]


async def test_another_object_of_the_name_stays_and_the_delete_counts(api: FakeApi, news: News) -> None:
    api.create(WIDGETS, widget("a"))
    (result,) = await send(api, news, Delete(WIDGETS, "default", "a", "the-one-before"))
    assert result.ok
    assert news.deleted == [("a", "the-one-before")]
    assert len(api.objects(WIDGETS)) == 1


async def test_a_delete_that_only_begins_tells_of_a_changed_object(api: FakeApi, news: News) -> None:
    finalized = widget("held")
    finalized["metadata"]["finalizers"] = ["example.com/hold"]
    held = api.create(WIDGETS, finalized)
    bound = api.create(PODS, pod("bound", nodeName="n1"))
    free = api.create(PODS, pod("free"))
    results = await send(
        api,
        news,
        Delete(WIDGETS, "default", "held", held["metadata"]["uid"]),
        Delete(PODS, "default", "bound", bound["metadata"]["uid"]),
        Delete(PODS, "default", "free", free["metadata"]["uid"]),
    )
    assert all(result.ok for result in results)
    assert sorted(news.objects) == ["bound", "held"]
    assert news.deleted == [("free", free["metadata"]["uid"])], "a pod without a node has no kubelet to wait for"


async def test_removing_the_last_finalizer_tells_of_a_removal(api: FakeApi, news: News) -> None:
    finalized = widget("held")
    finalized["metadata"]["finalizers"] = ["example.com/hold"]
    uid = api.create(WIDGETS, finalized)["metadata"]["uid"]
    api.delete(WIDGETS, "default", "held")
    (result,) = await send(api, news, Patch(WIDGETS, "default", "held", {"metadata": {"finalizers": None}}, uid=uid))
    assert result.ok
    assert (news.objects, news.deleted) == ([], [("held", uid)])


async def test_a_patch_of_something_gone_or_another_object(api: FakeApi, news: News) -> None:
    api.create(PODS, pod("a", gates=("example.com/gate",)))
    lift = {"op": "remove", "path": "/spec/schedulingGates/0"}
    results = await send(
        api,
        news,
        Patch(PODS, "default", "none", {"metadata": {"labels": {"a": "b"}}}),
        Patch(PODS, "default", "a", {"metadata": {"labels": {"a": "b"}}}, uid="another"),
        Patch(PODS, "default", "a", [lift], uid="another"),
    )
    statuses = [result.error.status for result in results if result.error is not None]
    assert statuses == [404, 422, 422]
    unchanged = api.find(PODS, "default", "a")
    assert unchanged is not None
    assert unchanged["spec"]["schedulingGates"] == [{"name": "example.com/gate"}]
    assert "labels" not in unchanged["metadata"]


async def test_a_scale_answer_is_no_object_for_the_cache(api: FakeApi, news: News) -> None:
    api.create(WIDGETS, widget("a", replicas=1))
    (result,) = await send(api, news, Patch(WIDGETS, "default", "a", {"spec": {"replicas": 3}}, subresource="scale"))
    assert result.object is not None
    assert result.object["kind"] == "Scale"
    assert news.objects == []
    assert api.objects(WIDGETS)[0]["spec"] == {"replicas": 3}


async def test_refused_creates_stop_the_rest(api: FakeApi, news: News) -> None:
    api.faults.refuse(403, "Forbidden", verb="create", times=None)
    results = await send(api, news, *creates(1000))
    assert len(api.requests) == 8
    assert [result.skipped for result in results] == [False] * 8 + [True] * 992
    assert not any(result.ok for result in results)
    assert [result.write for result in results] == creates(1000)


async def test_a_failure_in_a_later_batch_stops_what_follows(api: FakeApi, news: News) -> None:
    api.faults.refuse(500, "InternalError", verb="create", name="", skip=8 + 16)
    results = await send(api, news, *creates(100))
    assert sum(result.ok for result in results) == 8 + 16 + 31
    assert sum(result.error is not None for result in results) == 1
    assert sum(result.skipped for result in results) == 100 - 8 - 16 - 32


async def test_the_staleness_of_one_object_stops_nothing(api: FakeApi, news: News) -> None:
    for number in range(20):
        api.create(WIDGETS, widget(f"w{number}"))
    stale = {"metadata": {"resourceVersion": "1"}, "spec": {"size": 1}}
    gate: list[dict[str, Any]] = [{"op": "test", "path": "/spec/none", "value": 1}]
    patches: list[Write] = [Patch(WIDGETS, "default", "w0", stale), Patch(WIDGETS, "default", "none", {})]
    patches += [Patch(WIDGETS, "default", "w1", gate)]
    patches += [Patch(WIDGETS, "default", f"w{number}", {"spec": {"size": 2}}) for number in range(20)]
    results = await send(api, news, *patches)
    assert [result.ok for result in results] == [False] * 3 + [True] * 20


async def test_batches_grow_and_are_bounded(api: FakeApi, news: News) -> None:
    in_flight = most = 0
    sizes: list[int] = []
    client = api.client()
    original = client.create

    async def counting(resource: ResourceType, body: dict[str, Any]) -> dict[str, Any]:
        nonlocal in_flight, most
        if in_flight == 0:
            sizes.append(0)
        sizes[-1] += 1
        in_flight += 1
        most = max(most, in_flight)
        try:
            return await original(resource, body)
        finally:
            in_flight -= 1

    client.create = counting  # type: ignore[method-assign]
    results = await apply(client, creates(100), concurrency=32)
    assert all(result.ok for result in results)
    assert most == 32
    assert sizes == [8, 16, 32, 32, 12]


async def test_a_cache_that_fails_does_not_make_a_write_fail(api: FakeApi, caplog: pytest.LogCaptureFixture) -> None:
    def broken(*_: object) -> None:
        raise ValueError("on purpose")

    results = await apply(api.client(), creates(2), on_object=broken)
    assert all(result.ok for result in results)
    assert len(caplog.records) == 2


async def test_a_delete_says_why_in_the_log(api: FakeApi, news: News, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    await send(api, news, Delete(PODS, "default", "a", "u", reason="its gang is terminated"))
    assert "Deleting pods default/a: its gang is terminated" in caplog.text


async def test_without_a_cache_the_result_keeps_the_object(api: FakeApi) -> None:
    (result,) = await apply(api.client(), creates(1))
    assert result.object == api.find(WIDGETS, "default", "w0")


async def test_nothing_to_do(api: FakeApi, news: News) -> None:
    assert await send(api, news) == []
    assert api.requests == []
