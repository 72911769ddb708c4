"""ClusterTopologyBindings when writes fail, news are lost and the operator is killed."""

import pytest

from grove.plan.kinds import CLUSTERTOPOLOGYBINDING
from grove.schedulers.kai import TOPOLOGY
from tests.unit.bindings import (
    IN_SYNC,
    KEYS,
    MORE,
    RELIEVED,
    WARNED,
    bind,
    change,
    drift,
    entries,
    events,
    keys,
    levels,
    play,
    status,
    topology,
)
from tests.unit.harness import LONG, Cluster


def test_what_kai_refuses_is_told_once() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.api.faults.refuse(422, "Invalid", verb="create", resource="topologies", times=None)
        bind(cluster)
        await cluster.rest(10 * LONG)
        [(scheduler, name, in_sync, message)] = entries(cluster)
        assert (scheduler, name, in_sync) == ("kai-scheduler", "gpus", False)
        assert message.startswith("create Topology gpus: ")
        assert "observedGeneration" not in status(cluster)
        assert events(cluster) == [WARNED]
        assert cluster.committed() == {"patch clustertopologybindings status": 1}
        assert len(cluster.api.writes("create", "topologies")) > 10
        cluster.api.faults.requests.clear()
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC
        assert status(cluster)["observedGeneration"] == 1
        assert events(cluster) == [WARNED, RELIEVED]

    play(test)


@pytest.mark.parametrize("verb", ["create", "delete", "patch"])
@pytest.mark.parametrize("fault", ["409", "429", "500", "reset", "lost"])
def test_a_write_that_fails_is_made_up_for(verb: str, fault: str) -> None:
    async def test(cluster: Cluster) -> None:
        faults = cluster.api.faults
        resource = "clustertopologybindings" if verb == "patch" else "topologies"
        match fault:
            case "reset":
                faults.reset(verb=verb, resource=resource, times=2)
            case "lost":
                faults.lose_response(verb=verb, resource=resource, times=2)
            case _:
                faults.refuse(int(fault), verb=verb, resource=resource, times=2)
        bind(cluster)
        await cluster.quiet()
        change(cluster, levels(MORE))
        await cluster.quiet()
        assert keys(cluster) == MORE
        assert drift(cluster) == IN_SYNC
        assert status(cluster)["observedGeneration"] == 2
        assert faults.requests[0].hits >= 1

    play(test)


def test_killed_between_delete_and_create() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        cluster.api.faults.reset(verb="create", resource="topologies", times=None)
        change(cluster, levels(MORE))
        await cluster.rest(1.0)
        assert topology(cluster) is None
        await cluster.end(kill=True)
        cluster.api.faults.requests.clear()
        await cluster.rest(LONG)
        assert topology(cluster) is None
        cluster.start()
        await cluster.quiet()
        assert keys(cluster) == MORE
        assert drift(cluster) == IN_SYNC

    play(test)


def test_another_status_is_put_right() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        wanted = status(cluster)
        cluster.api.update(
            CLUSTERTOPOLOGYBINDING,
            "",
            "gpus",
            lambda obj: {**obj, "status": {**obj["status"], "schedulerTopologyStatuses": []}},
            status=True,
        )
        await cluster.quiet()
        assert status(cluster) == wanted

    play(test)


def test_news_that_come_late_or_never_do_no_harm() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.api.faults.watch_delay = 3.0
        bind(cluster)
        await cluster.quiet()
        cluster.api.faults.lose_event = lambda kind, resource, _: resource == TOPOLOGY and kind == "DELETED"
        change(cluster, levels(MORE))
        await cluster.quiet()
        await cluster.heal()
        assert keys(cluster) == MORE
        assert drift(cluster) == IN_SYNC

    play(test)
