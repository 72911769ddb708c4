"""The runtime as a whole: a small controller reaches the wanted state through any disorder, then keeps still."""

import asyncio
import random
from typing import Any

import pytest

from grove.runtime.apply import apply
from grove.runtime.cache import Store
from grove.runtime.informer import Informer
from grove.runtime.queue import Done, WorkQueue
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete, Patch, Write
from tests.fake_api import PODS, FakeApi, PodSimulator
from tests.fake_api.seen import WIDGETS, Seen, pod, widget
from tests.fake_api.virtual import cancel, virtual_time

OWNER = "example.com/owner"


class Controller:
    """Keeps ``spec.replicas`` pods per Widget, named by number, and tells their number in the status."""

    def __init__(self, api: FakeApi) -> None:
        self.client = api.client()
        self.widgets: Store[Seen] = Store()
        self.pods: Store[Seen] = Store({"owner": lambda seen: [seen.labels.get(OWNER)]})
        self.queue: WorkQueue[str] = WorkQueue(self.reconcile, name="widgets")
        self.told: dict[str, int] = {}
        self.widgets.on_change(lambda old, new: self.queue.add((new or old).name))  # type: ignore[union-attr]
        self.pods.on_change(lambda old, new: self.queue.add((new or old).labels[OWNER]))  # type: ignore[union-attr]

    async def run(self) -> None:
        informers = [
            Informer(self.client, WIDGETS, self.widgets, Seen.of),
            Informer(self.client, PODS, self.pods, Seen.of, label_selector=OWNER),
        ]
        tasks = [asyncio.ensure_future(informer.run()) for informer in informers]
        try:
            await asyncio.gather(self.widgets.wait_synced(), self.pods.wait_synced())
            await self.queue.run()
        finally:
            await cancel(*tasks)
            await self.queue.stop(0)

    def take(self, resource: ResourceType, obj: dict[str, Any]) -> None:
        (self.pods if resource == PODS else self.widgets).put(Seen.of(obj))

    def forget(self, resource: ResourceType, namespace: str, name: str, uid: str) -> None:
        (self.pods if resource == PODS else self.widgets).remove(namespace, name, uid)

    def plan(self, name: str) -> list[Write]:
        owner = self.widgets.get("default", name)
        live = {seen.name: seen for seen in self.pods.by_index("owner", name)}
        if owner is None:
            return []  # the garbage collector does it
        wanted = {f"{name}-{number}" for number in range(owner.spec["replicas"])}
        writes: list[Write] = [Create(PODS, self.pod(new, owner)) for new in sorted(wanted - live.keys())]
        writes += [Delete(PODS, "default", old, live[old].uid) for old in sorted(live.keys() - wanted)]
        if not writes and self.told.get(owner.uid) != len(live):
            status = {"status": {"pods": len(live)}}
            writes.append(Patch(WIDGETS, "default", name, status, subresource="status"))
        return writes

    async def reconcile(self, name: str) -> Done:
        writes = self.plan(name)
        results = await apply(self.client, writes, on_object=self.take, on_deleted=self.forget)
        for result in results:
            if result.error is not None:
                raise result.error
            if isinstance(result.write, Patch) and (owner := self.widgets.get("default", name)) is not None:
                self.told[owner.uid] = result.write.body["status"]["pods"]  # type: ignore[call-overload]
        return Done(cost=0.001)

    def pod(self, name: str, owner: Seen) -> dict[str, Any]:
        body = pod(name)
        reference = {"apiVersion": "example.com/v1", "kind": "Widget", "name": owner.name, "uid": owner.uid}
        body["metadata"].update(labels={OWNER: owner.name}, ownerReferences=[{**reference, "controller": True}])
        return body


def wanted(api: FakeApi) -> list[str]:
    owners = api.objects(WIDGETS)
    return sorted(f"{obj['metadata']['name']}-{number}" for obj in owners for number in range(obj["spec"]["replicas"]))


def present(api: FakeApi) -> list[str]:
    return sorted(obj["metadata"]["name"] for obj in api.objects(PODS))


async def disorder(api: FakeApi, rng: random.Random) -> None:
    """Scale, delete and create Widgets, kill pods, cut watches, stop the server."""
    name = f"w{rng.randrange(4)}"
    exists = api.find(WIDGETS, "default", name) is not None
    match rng.randrange(8):
        case 0 | 1 | 2 if exists:
            replicas = rng.randrange(12)
            api.update(WIDGETS, "default", name, lambda obj: {**obj, "spec": {"replicas": replicas}})
        case 3 if exists:
            api.delete(WIDGETS, "default", name)
        case 4 if present(api):
            api.delete(PODS, "default", rng.choice(present(api)), {"gracePeriodSeconds": 0})
        case 5:
            api.compact()
            api.drop_watches()
        case 6:
            api.faults.down = True
            await asyncio.sleep(rng.random())
            api.faults.down = False
        case _ if not exists:
            api.create(WIDGETS, widget(name, replicas=rng.randrange(12)))


@pytest.mark.parametrize("seed", range(10))
def test_the_wanted_pods_are_there_in_the_end_and_nobody_writes_any_more(seed: int) -> None:
    @virtual_time
    async def scenario() -> None:
        rng = random.Random(seed)
        api = FakeApi([WIDGETS])
        PodSimulator(api, bind_after=rng.random, ready_after=rng.random, gone_after=rng.random)
        api.faults.chaos(0.03, seed)
        api.faults.latency = lambda: rng.choice((0.0, 0.01, 0.1))
        api.faults.watch_delay = lambda: rng.choice((0.0, 0.01, 0.5))
        controllers = [Controller(api) for _ in range(2)]  # an old and a new leader
        tasks = [asyncio.ensure_future(controller.run()) for controller in controllers]
        for _ in range(60):
            await disorder(api, rng)
            if rng.random() < 0.1:  # kill -9 and restart
                await cancel(tasks[0])
                tasks[0] = asyncio.ensure_future(Controller(api).run())
            await asyncio.sleep(rng.choice((0.0, 0.05, 1.0)))
        await asyncio.sleep(120)
        assert present(api) == wanted(api)
        assert all(obj["status"]["phase"] == "Running" for obj in api.objects(PODS))
        owners = api.objects(WIDGETS)
        assert [obj["status"]["pods"] for obj in owners] == [obj["spec"]["replicas"] for obj in owners]
        writes = len(api.writes())
        api.faults.clear()
        await asyncio.sleep(3600)
        assert len(api.writes()) == writes, "idle means no writes"
        await cancel(*tasks)

    scenario()


@virtual_time
async def test_a_plan_of_thousands_costs_one_write_each() -> None:
    api = FakeApi([WIDGETS])
    PodSimulator(api)
    controller = Controller(api)
    task = asyncio.ensure_future(controller.run())
    api.create(WIDGETS, widget("big", replicas=1000))
    await asyncio.sleep(600)
    assert present(api) == wanted(api)
    assert len(api.writes("create", "pods")) == 1000
    assert len(api.writes("patch", "widgets")) == 1
    api.update(WIDGETS, "default", "big", lambda obj: {**obj, "spec": {"replicas": 0}})
    await asyncio.sleep(600)
    assert present(api) == []
    assert len(api.writes("delete", "pods")) == 1000
    await cancel(task)
