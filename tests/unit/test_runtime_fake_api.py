"""The in-memory API server behaves as the real one does where tests rely on it (each fact tried on Kubernetes 1.37)."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.runtime.resources import ResourceType
from tests.fake_api import PODS, ApiStatus, FakeApi, Object, PodSimulator, Scale
from tests.fake_api.objects import json_patch, label_selector, merge_patch
from tests.fake_api.seen import WIDGETS, pod, until, widget
from tests.fake_api.virtual import elapsed, settle, virtual_time


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi([WIDGETS])
    api.install(WIDGETS, Scale(selector="status.selector"))
    return api


def refusal(act: Callable[[], object]) -> tuple[int, str]:
    with pytest.raises(ApiStatus) as caught:
        act()
    return caught.value.status, caught.value.reason


def owned(name: str, *owners: Object) -> Object:
    body = widget(name)
    refs = [{"apiVersion": "example.com/v1", "kind": "Widget", "name": one["metadata"]["name"]} for one in owners]
    body["metadata"]["ownerReferences"] = [
        {**ref, "uid": one["metadata"]["uid"]} for ref, one in zip(refs, owners, strict=True)
    ]
    return body


def names(api: FakeApi, resource: ResourceType = WIDGETS) -> list[str]:
    return [obj["metadata"]["name"] for obj in api.objects(resource)]


def test_create_sets_what_the_server_owns(api: FakeApi) -> None:
    body = widget("a", size=1)
    body["status"] = {"ready": True}
    body["metadata"].update(uid="mine", generation=7, deletionTimestamp="2020-01-01T00:00:00Z")
    made = api.create(WIDGETS, body)
    assert made["metadata"]["uid"] != "mine"
    assert (made["metadata"]["generation"], "status" in made, "deletionTimestamp" in made["metadata"]) == (
        1,
        False,
        False,
    )
    assert (made["apiVersion"], made["kind"]) == ("example.com/v1", "Widget")
    assert int(made["metadata"]["resourceVersion"]) == api.version
    assert refusal(lambda: api.create(WIDGETS, widget("a"))) == (409, "AlreadyExists")
    generated = api.create(WIDGETS, {"metadata": {"generateName": "g-", "namespace": "default"}})
    assert generated["metadata"]["name"].startswith("g-0")


def test_returned_objects_are_copies(api: FakeApi) -> None:
    made = api.create(WIDGETS, widget("a", size=1))
    made["spec"]["size"] = 9
    found = api.find(WIDGETS, "default", "a")
    assert found is not None
    found["spec"]["size"] = 9
    assert api.objects(WIDGETS)[0]["spec"] == {"size": 1}


def change(
    api: FakeApi, patch: Any, *, status: bool = False, name: str = "a", resource: ResourceType = WIDGETS
) -> Object:
    return api.update(resource, "default", name, lambda obj: merge_patch(obj, patch), status=status)


def test_generation_follows_the_spec_alone_and_status_is_apart(api: FakeApi) -> None:
    api.create(WIDGETS, widget("a", size=1))
    labelled = change(api, {"metadata": {"labels": {"x": "y"}}, "status": {"n": 1}})
    assert (labelled["metadata"]["generation"], "status" in labelled) == (1, False)
    told = change(api, {"spec": {"size": 5}, "status": {"n": 1}, "metadata": {"labels": {"x": "z"}}}, status=True)
    assert (told["spec"], told["status"], told["metadata"]["labels"]) == ({"size": 1}, {"n": 1}, {"x": "y"})
    assert change(api, {"spec": {"size": 2}})["metadata"]["generation"] == 2


def test_a_write_that_changes_nothing_is_no_news(api: FakeApi) -> None:
    before = api.create(WIDGETS, widget("a", size=1))
    assert change(api, {"spec": {"size": 1}}) == before
    assert change(api, {}, status=True) == before
    assert api.version == int(before["metadata"]["resourceVersion"])


def test_guards_of_an_update(api: FakeApi) -> None:
    api.create(WIDGETS, widget("a", size=1))
    assert refusal(lambda: change(api, {"metadata": {"resourceVersion": "1"}})) == (409, "Conflict")
    assert refusal(lambda: change(api, {"metadata": {"resourceVersion": "1"}, "status": {}}, status=True))[0] == 409
    assert refusal(lambda: change(api, {"metadata": {"uid": "other"}})) == (422, "Invalid")
    assert change(api, {"metadata": {"uid": "other"}, "status": {"a": 1}}, status=True)["status"] == {"a": 1}
    assert refusal(lambda: change(api, {}, name="none")) == (404, "NotFound")
    current = api.objects(WIDGETS)[0]["metadata"]["resourceVersion"]
    assert change(api, {"metadata": {"resourceVersion": current}, "spec": {"size": 3}})["spec"] == {"size": 3}


def test_finalizers_hold_an_object(api: FakeApi) -> None:
    body = widget("a")
    body["metadata"]["finalizers"] = ["example.com/f"]
    api.create(WIDGETS, body)
    ending = api.delete(WIDGETS, "default", "a")
    assert ending is not None
    assert (ending["metadata"]["deletionGracePeriodSeconds"], ending["metadata"]["generation"]) == (0, 2)
    assert refusal(lambda: api.create(WIDGETS, widget("a"))) == (409, "AlreadyExists")
    more = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
    assert refusal(lambda: change(api, more)) == (422, "Invalid")
    version = api.version
    assert api.delete(WIDGETS, "default", "a") == ending
    assert api.version == version, "a second delete is no news"
    change(api, {"metadata": {"finalizers": None}})
    assert names(api) == []


def test_delete_answers_as_the_resource_does(api: FakeApi) -> None:
    made = api.create(WIDGETS, widget("a"))
    wrong = {"preconditions": {"uid": "other"}}
    assert refusal(lambda: api.delete(WIDGETS, "default", "a", wrong)) == (409, "Conflict")
    assert api.delete(WIDGETS, "default", "a", {"preconditions": {"uid": made["metadata"]["uid"]}}) is None
    assert refusal(lambda: api.delete(WIDGETS, "default", "a")) == (404, "NotFound")
    api.create(PODS, pod("free"))
    gone = api.delete(PODS, "default", "free")
    assert gone is not None
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    assert names(api, PODS) == []


def test_pods_on_a_node_end_gracefully(api: FakeApi) -> None:
    api.create(PODS, pod("a", nodeName="n1"))
    ending = api.delete(PODS, "default", "a")
    assert ending is not None
    assert ending["metadata"]["deletionGracePeriodSeconds"] == 30
    assert api.delete(PODS, "default", "a", {"gracePeriodSeconds": 60}) == ending, "only ever shorter"
    assert names(api, PODS) == ["a"]
    api.delete(PODS, "default", "a", {"gracePeriodSeconds": 0})
    assert names(api, PODS) == []


def test_pod_specs_hardly_change(api: FakeApi) -> None:
    made = api.create(PODS, pod("a", gates=("one", "two")))
    assert made["status"]["conditions"][0]["reason"] == "SchedulingGated"
    assert refusal(lambda: change(api, {"spec": {"hostname": "x"}}, resource=PODS)) == (422, "Invalid")
    more = {"spec": {"schedulingGates": [{"name": "one"}, {"name": "three"}]}}
    assert refusal(lambda: change(api, more, resource=PODS)) == (422, "Invalid")
    assert refusal(lambda: api.bind("default", "a", "n1"))[0] == 409, "gated"
    lifted = change(api, {"spec": {"schedulingGates": [{"name": "two"}]}}, resource=PODS)
    assert lifted["metadata"]["generation"] == 2
    images = {"spec": {"containers": [{"name": "main", "image": "example.com/image:2"}]}}
    assert change(api, images, resource=PODS)["spec"]["containers"][0]["image"] == "example.com/image:2"


async def test_garbage_collection_follows_the_last_owner(api: FakeApi) -> None:
    one, two = api.create(WIDGETS, widget("one")), api.create(WIDGETS, widget("two"))
    child = api.create(WIDGETS, owned("child", one, two))
    api.create(WIDGETS, owned("grandchild", child))
    api.delete(WIDGETS, "default", "one")
    await settle()
    assert names(api) == ["child", "grandchild", "two"]
    api.delete(WIDGETS, "default", "two")
    await settle()
    assert names(api) == []
    api.create(WIDGETS, owned("late", one))
    await settle()
    assert names(api) == [], "its owner had gone before"


def test_garbage_can_be_collected_by_hand(api: FakeApi) -> None:
    api.garbage_collection = False
    one = api.create(WIDGETS, widget("one"))
    api.create(WIDGETS, owned("child", one))
    api.delete(WIDGETS, "default", "one")
    assert names(api) == ["child"]
    api.collect_garbage()
    assert names(api) == []


async def test_orphaning_and_foreground_deletion(api: FakeApi) -> None:
    one = api.create(WIDGETS, widget("one"))
    api.create(WIDGETS, owned("child", one))
    api.delete(WIDGETS, "default", "one", {"propagationPolicy": "Orphan"})
    await settle()
    assert names(api) == ["child"]
    two = api.create(WIDGETS, widget("two"))
    held = owned("held", two)
    held["metadata"]["finalizers"] = ["example.com/f"]
    api.create(WIDGETS, held)
    api.delete(WIDGETS, "default", "two", {"propagationPolicy": "Foreground"})
    await settle()
    assert names(api) == ["child", "held", "two"], "the owner waits for what it owns"
    assert "deletionTimestamp" in api.objects(WIDGETS)[1]["metadata"]
    change(api, {"metadata": {"finalizers": None}}, name="held")
    await settle()
    assert names(api) == ["child"]


async def test_scale(api: FakeApi) -> None:
    client = api.client()
    api.create(WIDGETS, widget("a", replicas=2))
    change(api, {"status": {"replicas": 1, "selector": "x=y"}}, status=True)
    path = WIDGETS.path("default", "a", "scale")
    scale = await client.request("GET", path)
    assert (scale["spec"], scale["status"]) == ({"replicas": 2}, {"replicas": 1, "selector": "x=y"})
    scale["spec"]["replicas"] = 5
    assert (await client.request("PUT", path, body=scale))["spec"] == {"replicas": 5}
    with pytest.raises(ApiError) as caught:
        await client.request("PUT", path, body=scale)
    assert caught.value.is_conflict
    assert api.objects(WIDGETS)[0]["metadata"]["generation"] == 2
    api.create(PODS, pod("a"))
    with pytest.raises(ApiError) as caught:
        await client.request("GET", PODS.path("default", "a", "scale"))
    assert caught.value.is_not_found


async def test_a_namespace_that_ends_takes_nothing_new(api: FakeApi) -> None:
    api.terminating_namespaces.add("default")
    with pytest.raises(ApiError) as caught:
        await api.client().create(WIDGETS, widget("a"))
    assert caught.value.is_namespace_terminating


async def test_patches_need_their_content_type(api: FakeApi) -> None:
    api.create(WIDGETS, widget("a"))
    with pytest.raises(ApiError) as caught:
        await api.client().request("PATCH", WIDGETS.path("default", "a"), body={}, content_type="application/json")
    assert caught.value.status == 415


async def test_requests_are_recorded_and_direct_writes_are_not(api: FakeApi) -> None:
    client = api.client()
    api.create(WIDGETS, widget("a"))
    await client.patch(WIDGETS, "default", "a", {"status": {"x": 1}}, "status")
    await client.create(WIDGETS, widget("b"))
    await client.list(WIDGETS)
    seen = [(one.verb, one.resource, one.name, one.subresource, one.status) for one in api.requests]
    assert seen == [
        ("patch", "widgets", "a", "status", 200),
        ("create", "widgets", "", "", 201),
        ("list", "widgets", "", "", 200),
    ]
    assert len(api.writes()) == 2
    assert len(api.writes("create", "widgets")) == 1
    assert api.writes("delete") == []


async def test_faults_hit_what_they_name(api: FakeApi) -> None:
    client = api.client()
    api.create(WIDGETS, widget("a"))
    api.create(WIDGETS, widget("b"))
    fault = api.faults.refuse(500, "Broken", verb="get", name="b", skip=1, times=2)
    outcomes = []
    for name in ("a", "b", "a", "b", "b", "b"):
        try:
            await client.get(WIDGETS, "default", name)
            outcomes.append(200)
        except ApiError as error:
            outcomes.append(error.status)
    assert outcomes == [200, 200, 200, 500, 500, 200]
    assert fault.hits == 2


async def test_chaos_is_the_same_for_the_same_seed() -> None:
    async def statuses(seed: int) -> list[int]:
        api = FakeApi([WIDGETS])
        api.faults.chaos(0.05, seed)
        client, found = api.client(), []
        for number in range(200):
            try:
                await client.create(WIDGETS, widget(f"w{number}"))
                found.append(201)
            except ApiError as error:
                found.append(error.status)
        return found

    first = await statuses(1)
    assert first == await statuses(1)
    assert first != await statuses(2)
    assert {201, 409, 500, 0} <= set(first)


@virtual_time
async def test_late_watches_keep_their_order() -> None:
    api = FakeApi([WIDGETS])
    delays = iter([3.0, 0.0, 1.0])
    api.faults.watch_delay = lambda: next(delays)
    seen: list[tuple[float, str]] = []

    async def watch() -> None:
        async for event in api.client().watch(WIDGETS, resource_version=str(api.version)):
            name = event["object"]["metadata"]["name"]
            seen.append((round(elapsed(), 3), name))

    task = asyncio.ensure_future(watch())
    await settle()
    for name in "abc":
        api.create(WIDGETS, widget(name))
    await asyncio.sleep(10)
    assert seen == [(3.0, "a"), (3.0, "b"), (3.0, "c")]
    task.cancel()


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("a=1", ["one"]),
        ("a==1", ["one"]),
        ("a!=1", ["none", "two"]),
        ("a in (1, 2)", ["one", "two"]),
        ("a notin (1),b=x", ["two"]),
        ("a", ["one", "two"]),
        ("!a", ["none"]),
        ("example.com/key=v.w-x", ["none"]),
        ("", ["none", "one", "two"]),
    ],
)
def test_label_selectors(selector: str, selected: list[str]) -> None:
    labels = {"one": {"a": "1", "b": "x"}, "two": {"a": "2", "b": "x"}, "none": {"example.com/key": "v.w-x"}}
    matches = label_selector(selector)
    assert sorted(name for name, of in labels.items() if matches({"metadata": {"labels": of}})) == selected


def test_a_selector_that_cannot_be_read() -> None:
    assert refusal(lambda: label_selector("a=b=c")) == (400, "BadRequest")


# The examples of RFC 7386, appendix A.
@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert merge_patch(target, patch) == result


# After RFC 6902, appendix A.
@pytest.mark.parametrize(
    ("target", "operation", "result"),
    [
        ({"foo": "bar"}, {"op": "add", "path": "/baz", "value": "qux"}, {"foo": "bar", "baz": "qux"}),
        ({"foo": [1, 3]}, {"op": "add", "path": "/foo/1", "value": 2}, {"foo": [1, 2, 3]}),
        ({"foo": [1]}, {"op": "add", "path": "/foo/-", "value": [2]}, {"foo": [1, [2]]}),
        ({"baz": 1, "foo": 2}, {"op": "remove", "path": "/baz"}, {"foo": 2}),
        ({"foo": [1, 2, 3]}, {"op": "remove", "path": "/foo/1"}, {"foo": [1, 3]}),
        ({"baz": 1}, {"op": "replace", "path": "/baz", "value": 2}, {"baz": 2}),
        ({"a": {"b": [5]}}, {"op": "test", "path": "/a/b/0", "value": 5}, {"a": {"b": [5]}}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
    ],
)
def test_json_patch(target: Any, operation: Object, result: Any) -> None:
    assert json_patch(target, [operation]) == result


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/foo", "value": "other"},
        {"op": "test", "path": "/none", "value": 1},
        {"op": "remove", "path": "/none"},
        {"op": "replace", "path": "/none", "value": 1},
        {"op": "add", "path": "/none/deep", "value": 1},
        {"op": "add", "path": "/list/7", "value": 1},
        {"op": "frob", "path": "/foo"},
    ],
)
def test_json_patches_that_do_not_hold(operation: Object) -> None:
    target = {"foo": "bar", "list": [1]}
    assert refusal(lambda: json_patch(target, [{"op": "add", "path": "/x", "value": 1}, operation])) == (422, "Invalid")
    assert target == {"foo": "bar", "list": [1]}, "all or nothing"


async def test_pods_live_a_whole_life(api: FakeApi) -> None:
    simulator = PodSimulator(api, nodes=2)
    api.create(PODS, pod("gated", gates=("example.com/gate",)))
    for name in "ab":
        api.create(PODS, pod(name))
    await api.quiet(0.02)
    by_name = {obj["metadata"]["name"]: obj for obj in api.objects(PODS)}
    assert {by_name[name]["spec"]["nodeName"] for name in "ab"} == {"node-0", "node-1"}
    conditions = {one["type"]: one["status"] for one in by_name["a"]["status"]["conditions"]}
    assert conditions == {"PodScheduled": "True", "Initialized": "True", "ContainersReady": "True", "Ready": "True"}
    assert "nodeName" not in by_name["gated"]["spec"]
    change(api, {"spec": {"schedulingGates": None}}, name="gated", resource=PODS)
    await until(lambda: api.objects(PODS)[2]["status"]["phase"] == "Running")
    simulator.set_ready("default", "a", False)
    assert _condition(api, "a", "Ready") == "False"
    simulator.crash("default", "a", exit_code=3)
    (container,) = api.objects(PODS)[0]["status"]["containerStatuses"]
    assert (container["restartCount"], container["lastState"]["terminated"]["exitCode"]) == (1, 3)
    simulator.finish("default", "b", reason="Evicted")
    assert (api.objects(PODS)[1]["status"]["phase"], api.objects(PODS)[1]["status"]["reason"]) == ("Failed", "Evicted")
    for name in ("a", "b", "gated"):
        api.delete(PODS, "default", name)
    await until(lambda: names(api, PODS) == [])


def _condition(api: FakeApi, name: str, kind: str) -> str:
    found = api.find(PODS, "default", name)
    assert found is not None
    return str(next(one["status"] for one in found["status"]["conditions"] if one["type"] == kind))


@virtual_time
async def test_the_simulator_takes_its_time_and_can_be_held() -> None:
    api = FakeApi()
    free = False
    simulator = PodSimulator(api, schedulable=lambda pod: free, bind_after=2, ready_after=5, gone_after=10)
    api.create(PODS, pod("a"))
    await asyncio.sleep(100)
    assert "nodeName" not in api.objects(PODS)[0]["spec"]
    free = True
    simulator.step()
    await asyncio.sleep(2.1)
    assert (api.objects(PODS)[0]["spec"]["nodeName"], api.objects(PODS)[0]["status"]["phase"]) == ("node-0", "Pending")
    await asyncio.sleep(5)
    assert _condition(api, "a", "Ready") == "True"
    api.delete(PODS, "default", "a")
    await asyncio.sleep(9)
    assert names(api, PODS) == ["a"]
    await asyncio.sleep(2)
    assert names(api, PODS) == []


async def test_thousands_of_objects_at_once(api: FakeApi) -> None:
    client: Client = api.client()
    made = await asyncio.gather(*(client.create(PODS, pod(f"p{number}")) for number in range(2000)))
    assert len({obj["metadata"]["uid"] for obj in made}) == 2000
    assert len({obj["metadata"]["resourceVersion"] for obj in made}) == 2000
    listing = await client.list(PODS, limit=300)
    assert len(listing.items) == 2000
