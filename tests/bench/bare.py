"""The floor: a bare loop that sends the operator's writes, and neither watches nor decides anything.

How long a control plane takes for the writes of a scenario, its scheduler for the pods and its garbage collector for
the deletion depends on the machine. Beside this loop, in the same run, it shows what the operator adds.
"""

import asyncio
import copy
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final

from grove.admission.defaults import default_podcliqueset
from grove.api.labels import POD_GATE
from grove.api.podcliqueset import PodCliqueSet
from grove.cli.plan_scheduler import scheduled, with_scheduler
from grove.plan import kinds
from grove.plan.expand import Replica, expand
from grove.plan.template import Template
from grove.runtime.client import Client
from grove.runtime.resources import ResourceType
from grove.runtime.transport import open_session
from grove.schedulers.native import COMPOSITE, PODGROUP
from tests.bench.observer import Observer
from tests.bench.scenarios import NAME, NAMESPACE, Scenario
from tests.bench.usage import credentials

AT_ONCE: Final = 32
"""Requests under way, as many as the operator has."""
STATUSES: Final = 3
"""Statuses of a PodClique on its way up: pods are there, have nodes, are ready."""

_RESOURCES: dict[str, ResourceType] = {
    resource.kind: resource
    for resource in (
        kinds.PODCLIQUE, kinds.PODCLIQUESCALINGGROUP, kinds.PODGANG, kinds.SERVICE, kinds.POD, PODGROUP, COMPOSITE
    )
}  # fmt: skip

Object = dict[str, Any]


async def measure_bare(scenario: Scenario, server: str, kubeconfig: Path) -> dict[str, float]:
    """Seconds of the loop's life of a scenario's set, by the names that the operator's measures have.

    CPU is that of this process, in which the pods are watched as well.

    Raises GoalMissedError when pods do not get ready or do not go.
    """
    replicas = _on_paper(scenario)
    async with open_session(ssl=await credentials(kubeconfig)) as session:
        client = Client(lambda: session, server)
        seen = Observer(client)
        async with seen.watching():
            start, used = asyncio.get_running_loop().time(), time.process_time()
            root = await client.create(kinds.PODCLIQUESET, scenario.manifest())
            loop = _Loop(client, {(kinds.PODCLIQUESET.kind, NAME): root["metadata"]["uid"]})
            goals = {
                "deploy: pods created": lambda: seen.pods == scenario.pods,
                "deploy: ungated": lambda: seen.pods == scenario.pods and seen.gated == 0,
                "deploy: Ready": lambda: seen.ready == scenario.pods,
            }
            async with asyncio.TaskGroup() as group:
                for replica in replicas:
                    group.create_task(loop.replica(replica))
                reached = await seen.reach(goals)
            found = {goal: at - start for goal, at in reached.items()}
            found["deploy: CPU"] = time.process_time() - used
            start = asyncio.get_running_loop().time()
            await client.delete(kinds.PODCLIQUESET, NAMESPACE, NAME, propagation_policy="Background")
            reached = await seen.reach({"delete: pods gone": lambda: seen.pods == 0})
            return found | {goal: at - start for goal, at in reached.items()}


def _on_paper(scenario: Scenario) -> list[Replica]:
    obj = default_podcliqueset(with_scheduler(scenario.manifest(), "default-scheduler"))
    template = Template(PodCliqueSet.from_wire(obj))
    return [scheduled(replica, template) if scenario.gangs else replica for replica in expand(template)]


class _Loop:
    """Sends the writes of all replicas side by side. `uids` are those of the owners there are, by kind and name."""

    def __init__(self, client: Client, uids: dict[tuple[str, str], str]) -> None:
        self._client = client
        self._uids = uids
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def replica(self, replica: Replica) -> None:
        """Make a replica's objects in the operator's order."""
        for objects in (
            replica.scaling_groups, (*replica.services, *replica.podcliques), replica.pods, replica.podgangs,
            replica.scheduler_objects,
        ):  # fmt: skip
            await asyncio.gather(*map(self._create, objects))
        await asyncio.gather(*map(self._lift_gate, replica.pods))
        for number in range(STATUSES):
            await asyncio.gather(*(self._report(podclique, number) for podclique in replica.podcliques))

    async def _create(self, obj: Object) -> None:
        body = copy.deepcopy(obj)
        for owner in body["metadata"]["ownerReferences"]:
            owner["uid"] = self._uids[owner["kind"], owner["name"]]
        made = await self._send(self._client.create(_RESOURCES[obj["kind"]], body))
        self._uids[obj["kind"], obj["metadata"]["name"]] = made["metadata"]["uid"]

    async def _lift_gate(self, pod: Object) -> None:
        gates = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] != POD_GATE]
        await self._send(self._patch(kinds.POD, pod, {"spec": {"schedulingGates": gates or None}}))

    async def _report(self, podclique: Object, number: int) -> None:
        await self._send(self._patch(kinds.PODCLIQUE, podclique, {"status": {"observedGeneration": number}}, "status"))

    def _patch(
        self, resource: ResourceType, obj: Object, body: Object, subresource: str | None = None
    ) -> Coroutine[Any, Any, Object]:
        return self._client.patch(resource, NAMESPACE, obj["metadata"]["name"], body, subresource)

    async def _send(self, request: Coroutine[Any, Any, Object]) -> Object:
        async with self._turns:
            return await request
