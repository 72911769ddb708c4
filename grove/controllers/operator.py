"""The operator's process: kopf carries start-up, login, probes and signals; informers and queues do the work.

Every kind, users' and ours alike, comes through our informers, because only they notice what vanished while a watch
was down: after a relist kopf reports what it found, and nothing at all when that is an empty list.
"""

import asyncio
import itertools
import logging
import socket
from collections.abc import Callable, Collection, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import kopf

from grove.admission import Facts
from grove.controllers.actor import Actor, Patience
from grove.controllers.binding import BindingReconciler, BindingRouter
from grove.controllers.config import OperatorConfiguration, Server
from grove.controllers.login import Login
from grove.controllers.monitoring import Monitor
from grove.controllers.podclique import PodCliqueReconciler
from grove.controllers.podcliqueset import PodCliqueSetReconciler
from grove.controllers.replica import ReplicaReconciler
from grove.controllers.routing import Name, ReplicaKey, Router, Wake
from grove.controllers.scalinggroup import ScalingGroupReconciler
from grove.controllers.scheduling import Scheduling
from grove.controllers.startup import Startup
from grove.controllers.summaries import Summaries
from grove.controllers.verdicts import Verdicts
from grove.controllers.world import World
from grove.runtime import endpoints, health
from grove.runtime.client import Client
from grove.runtime.election import Election
from grove.runtime.events import EventRecorder
from grove.runtime.informer import Informer
from grove.runtime.metrics import REGISTRY
from grove.runtime.queue import WorkQueue
from grove.runtime.transport import bind

if TYPE_CHECKING:
    from grove.controllers.webhooks import Webhooks

logger = logging.getLogger(__name__)

_SET_DUTY = 30.0  # a pass over a large set looks at all its children, mostly to count them: 3 % of a core will do
_PATIENT_SECONDS = 5.0
_REPLICAS_AT_ONCE = 32  # a pass over a replica is a few writes one after the other: it mostly waits
_SILENT_SECONDS = 180.0
_STUCK_SECONDS = 300.0


class Controllers:
    """The stores, queues and reconcilers, wired together around one client; no kopf in here.

    With an `election` the caches are filled always, and passes run only while this process leads.
    """

    def __init__(self, client: Client, config: OperatorConfiguration, election: Election | None = None) -> None:
        schedulers = config.scheduler.enable()
        world = World(schedulers, topology_aware=config.topology_aware_scheduling.enabled)
        self.world = world
        self.scheduling = scheduling = Scheduling(schedulers, world)
        self.facts = partial(_facts, scheduling, config, schedulers.topologies)
        self.informers: list[Informer[Any]] = world.informers(client)
        self._recorder = EventRecorder(client, "grove-operator")
        actor, patience = Actor(client, world, self._recorder), Patience()
        wake = Wake(
            podcliqueset=lambda key, within: self.sets.add_after(key, within),
            replica=lambda key, within: self.replicas.add_after(key, within),
            scaling_group=lambda key, within: self.scaling_groups.add_after(key, within),
            podclique=lambda key, within: self.podcliques.add_after(key, within),
        )
        startup = Startup(world, actor, wake, config.init_container)
        verdicts, summaries = Verdicts(self.facts), Summaries(world)
        replicas = ReplicaReconciler(world, actor, patience, wake, scheduling, startup, verdicts)
        sets = PodCliqueSetReconciler(
            world, actor, Patience(), replicas, scheduling, verdicts, summaries
        )  # one set does not wait for a crowd of cliques
        groups = ScalingGroupReconciler(world, actor, patience, summaries)
        cliques = PodCliqueReconciler(world, actor, patience, scheduling, startup)
        syncs = config.controllers
        self.sets: WorkQueue[Name] = WorkQueue(
            sets.reconcile, name="podcliqueset", concurrency=syncs.pod_clique_set.concurrent_syncs, duty=_SET_DUTY
        )
        self.replicas: WorkQueue[ReplicaKey] = WorkQueue(
            replicas.reconcile, name="podcliqueset-replica", concurrency=_REPLICAS_AT_ONCE
        )
        self.scaling_groups: WorkQueue[Name] = WorkQueue(
            groups.reconcile,
            name="podcliquescalinggroup",
            concurrency=syncs.pod_clique_scaling_group.concurrent_syncs,
        )
        self.podcliques: WorkQueue[Name] = WorkQueue(
            cliques.reconcile, name="podclique", concurrency=syncs.pod_clique.concurrent_syncs
        )
        self.queues: list[WorkQueue[Any]] = [self.sets, self.replicas, self.scaling_groups, self.podcliques]
        self._routers: list[Router | BindingRouter] = [Router(world, wake)]
        if world.topology_aware:
            kinds = schedulers.topologies
            bindings = BindingReconciler(world, actor, kinds)
            queue: WorkQueue[Name] = WorkQueue(bindings.reconcile, name="clustertopologybinding", concurrency=1)
            self.queues.append(queue)
            self._routers.append(BindingRouter(world, kinds, queue))
        self._election = election
        self.monitor = Monitor(world, self.informers, election.leads if election is not None else lambda: True)

    async def run(self) -> None:
        """Fill the caches, then work, whenever elected, until cancelled; then passes under way have ten seconds."""
        async with asyncio.TaskGroup() as tasks:
            for informer in self.informers:
                tasks.create_task(informer.run(), name=f"informer {informer.resource.label}")
            tasks.create_task(self._recorder.run(), name="events")
            await asyncio.gather(*(informer.store.wait_synced() for informer in self.informers))
            logger.info("Caches are filled: %d PodCliqueSets, %d pods", len(self.world.sets), len(self.world.pods))
            if self._election is None:
                await self._work()
            else:
                await self._election.run(self._work, self._abort)

    async def _work(self) -> None:
        """Reconcile everything, then what changes, until cancelled."""
        for router in self._routers:
            router.connect()
        try:
            async with asyncio.TaskGroup() as tasks:
                for queue in self.queues:
                    tasks.create_task(queue.run(), name=f"queue {queue.name}")
        finally:
            for router in self._routers:
                router.disconnect()
            await asyncio.gather(*(queue.stop() for queue in self.queues))
            await self._recorder.drain()

    def _abort(self) -> None:
        for queue in self.queues:
            queue.abort()

    def problems(self) -> list[str]:
        """What is wrong with the process; empty when it is healthy."""
        silent = health.silent(self.informers, _SILENT_SECONDS)
        if len(silent) == len(self.informers):
            silent = []  # the API server is away: a restart would only cost the caches
        return [*silent, *health.stuck(self.queues, _STUCK_SECONDS)]


def _facts(scheduling: Scheduling, config: OperatorConfiguration, by_topology: Collection[str]) -> Facts:
    """What the rules of admission ask beside the object: the same for webhooks and for sets that are read."""
    facts = scheduling.facts()
    return replace(
        facts,
        topology_schedulers={*facts.topology_schedulers, *by_topology},
        topology_aware=config.topology_aware_scheduling.enabled,
        mnnvl=config.network.auto_mnnvl_enabled,
    )


class Operator:
    """The handlers that kopf calls."""

    def __init__(self, config: OperatorConfiguration, kubeconfig: Path | None = None) -> None:
        self.settings = kopf.OperatorSettings()
        self.settings.scanning.disabled = True  # we know our kinds; kopf need not look for them
        self.settings.posting.enabled = False
        # Else kopf, which asks once what the cluster serves, ends the process when the API server is away for a minute.
        self.settings.networking.error_backoffs = itertools.repeat(_PATIENT_SECONDS)
        self.registry = kopf.OperatorRegistry()
        self.failed = False
        self._config = config
        self._kubeconfig = kubeconfig
        self._login = Login(kubeconfig=kubeconfig)
        self._stop = asyncio.Event()
        self._controllers: Controllers | None = None
        self._webhooks: Webhooks | None = None
        self._webhook_socket: socket.socket | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._endpoints: list[asyncio.Task[None]] = []
        kopf.on.startup(registry=self.registry, errors=kopf.ErrorsMode.PERMANENT)(self._start)
        kopf.on.login(registry=self.registry)(self._credentials)
        kopf.on.cleanup(registry=self.registry)(self._finish)

    async def run(self) -> None:
        """Run until a signal comes or the work fails for good (then `failed` is set).

        Raises LoginError when there are no usable credentials, OSError when a port is taken.
        """
        await self._login.renew()
        server = self._config.server
        probes = {"/healthz": endpoints.probe(self._problems), "/readyz": endpoints.probe(self.unready)}
        try:
            if server.webhooks.port:
                self._webhook_socket = bind(server.webhooks.bind_address, server.webhooks.port)
            if server.health_probes.port:
                self._serve(server.health_probes, probes)
            if server.metrics.port:
                self._serve(server.metrics, {"/metrics": endpoints.metrics_page})
            await kopf.operator(
                registry=self.registry,
                settings=self.settings,
                clusterwide=True,
                standalone=True,
                stop_flag=self._stop,
            )
        finally:
            for task in self._endpoints:
                task.cancel()
            await asyncio.gather(*self._endpoints, return_exceptions=True)
            await self._login.close()

    def _serve(self, server: Server, pages: Mapping[str, Callable[[], endpoints.Page]]) -> None:
        sock = bind(server.bind_address, server.port)
        self._endpoints.append(asyncio.create_task(endpoints.serve(sock, pages)))

    async def _start(self, **_: Any) -> None:
        election = self._candidate()
        client = self._client(election.leads) if election is not None else self._client()
        self._controllers = Controllers(client, self._config, election)
        REGISTRY.register(self._controllers.monitor)
        self._tasks.append(asyncio.create_task(self._watch_over(self._controllers.run()), name="controllers"))
        if self._webhook_socket is not None:
            from grove.controllers.webhooks import Webhooks  # 10 MB, which only those pay who want them

            # Sessions belong to an event loop, and reviews have one of their own.
            login = Login(kubeconfig=self._kubeconfig)
            self._webhooks = Webhooks(
                self._client(),
                Client(login.session, self._login.server, reauth=login.renew),
                self._webhook_socket,
                self._config,
                self._controllers.facts,
                self._controllers.scheduling.findings,
                namespace=self._login.namespace,
                open=login,
            )
            self._tasks.append(asyncio.create_task(self._watch_over(self._webhooks.run()), name="webhooks"))
        self._tasks.append(asyncio.create_task(self._say_hello(), name="hello"))

    async def _say_hello(self) -> None:
        logger.info("Working on %s", self._login.server)  # not before: only now does kopf listen to signals

    def _client(self, may_write: Callable[[], bool] = lambda: True) -> Client:
        limits = self._config.runtime_client_connection
        return Client(
            self._login.session,
            self._login.server,
            reauth=self._login.renew,
            qps=limits.qps,
            burst=limits.burst,
            may_write=may_write,
        )

    def _candidate(self) -> Election | None:
        """What takes part in the leader election, over connections of its own; None when there is none."""
        config = self._config.leader_election
        if not config.enabled:
            return None
        timing = config.timing()
        client = Client(
            self._login.reserved, self._login.server, reauth=self._login.renew, timeout=timing.renew_deadline / 2
        )
        namespace, identity = config.resource_namespace or self._login.namespace, f"{socket.gethostname()}_{uuid4()}"
        return Election(client, namespace, config.resource_name, identity, timing)

    async def _watch_over(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception:
            logger.exception("The operator cannot go on")
            self.failed = True
        finally:
            self._stop.set()

    async def _credentials(self, **_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=self._login.server, aiohttp_session=self._login.session())

    def _problems(self) -> list[str]:
        return self._controllers.problems() if self._controllers is not None else []

    def unready(self) -> list[str]:
        """Why requests should go to other replicas; empty when they may come here."""
        if self._controllers is None:
            return ["not started yet"]
        webhooks = self._webhooks.problems() if self._webhooks is not None else []
        return [*health.unsynced(self._controllers.informers), *webhooks]

    async def _finish(self, **_: Any) -> None:
        for task in self._tasks:  # the webhooks last: requests still come while the others finish
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
