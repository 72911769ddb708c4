"""ClusterTopologyBindings at work: KAI's Topologies, their status and events."""

from grove.controllers.config import OperatorConfiguration
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING
from grove.schedulers.kai import TOPOLOGY
from tests.unit.bindings import (
    DRIFTED,
    IN_SYNC,
    KEYS,
    MORE,
    RELIEVED,
    WARNED,
    aware,
    bind,
    change,
    drift,
    entries,
    events,
    keys,
    levels,
    play,
    put,
    status,
    topology,
)
from tests.unit.harness import LONG, Cluster
from tests.unit.support import Object


def test_tas1_a_topology_is_made_once_and_all_is_quiet() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert entries(cluster) == [("kai-scheduler", "gpus", True, "")]
        assert drift(cluster) == IN_SYNC
        assert status(cluster)["observedGeneration"] == 1
        assert cluster.committed() == {
            "create topologies": 1,
            "patch clustertopologybindings status": 1,
        }
        assert events(cluster) == []  # it has never been otherwise

        # Nor is anything written when a pass looks again, or another operator does.
        before = len(cluster.api.writes())
        found = cluster.api.find(CLUSTERTOPOLOGYBINDING, "", "gpus")
        assert found is not None
        tagged = {**found["metadata"], "labels": {"a": "b"}}
        cluster.api.update(CLUSTERTOPOLOGYBINDING, "", "gpus", lambda obj: {**obj, "metadata": tagged})
        await cluster.end()
        cluster.start()
        await cluster.quiet()
        assert cluster.api.writes()[before:] == []

    play(test)


def test_tas17_every_binding_has_its_own() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster, KEYS, "h100-topology")
        bind(cluster, MORE, "gb200-topology")
        await cluster.quiet()
        assert keys(cluster, "h100-topology") == KEYS
        assert keys(cluster, "gb200-topology") == MORE

    play(test)


def test_tas19_changed_levels_make_another_topology() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        first = topology(cluster)
        assert first is not None
        change(cluster, levels(MORE))
        await cluster.quiet()
        second = topology(cluster)
        assert second is not None
        assert second["metadata"]["uid"] != first["metadata"]["uid"]
        assert keys(cluster) == MORE
        assert drift(cluster) == IN_SYNC
        assert status(cluster)["observedGeneration"] == 2
        assert events(cluster) == []  # the gap is too short to be told
        assert cluster.committed() == {
            "create topologies": 2,
            "delete topologies": 1,
            "patch clustertopologybindings status": 2,
        }

    play(test)


def test_one_that_a_finalizer_holds_is_made_again_when_it_is_gone() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        cluster.api.update(
            TOPOLOGY, "", "gpus", lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": ["a/b"]}}
        )
        change(cluster, levels(MORE))
        await cluster.quiet()
        text = f"Topology gpus is being replaced by one with the levels {', '.join(MORE)}"
        assert entries(cluster) == [("kai-scheduler", "gpus", False, text)]
        assert drift(cluster) == DRIFTED
        assert events(cluster) == [WARNED]
        cluster.api.update(TOPOLOGY, "", "gpus", lambda obj: {**obj, "metadata": {**obj["metadata"], "finalizers": []}})
        await cluster.quiet()
        assert keys(cluster) == MORE
        assert drift(cluster) == IN_SYNC
        assert events(cluster) == [WARNED, RELIEVED]

    play(test)


def test_one_that_somebody_deletes_comes_back() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        cluster.api.delete(TOPOLOGY, "", "gpus", {})
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC

    play(test)


def test_one_of_somebody_else_is_told_and_left_alone_until_it_goes() -> None:
    async def test(cluster: Cluster) -> None:
        theirs = put(cluster)
        bind(cluster)
        await cluster.quiet()
        assert topology(cluster) == theirs
        text = "Topology gpus does not belong to this binding: delete it, or name it in spec.schedulerTopologyBindings"
        assert entries(cluster) == [("kai-scheduler", "gpus", False, text)]
        assert events(cluster) == [WARNED]
        cluster.api.delete(TOPOLOGY, "", "gpus", {})
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC
        assert events(cluster) == [WARNED, RELIEVED]

    play(test)


def test_tas18_a_reference_is_followed_and_never_written() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster, kai_scheduler="theirs")
        await cluster.quiet()
        assert entries(cluster) == [("kai-scheduler", "theirs", False, "there is no Topology theirs")]
        assert drift(cluster) == DRIFTED
        put(cluster, name="theirs")
        await cluster.quiet()
        assert drift(cluster) == IN_SYNC
        assert status(cluster)["schedulerTopologyStatuses"][0]["schedulerBackendTopologyObservedGeneration"] == 1

        def shorten(obj: Object) -> Object:
            return {**obj, "spec": {"levels": obj["spec"]["levels"][:1]}}

        cluster.api.update(TOPOLOGY, "", "theirs", shorten)
        await cluster.quiet()
        assert drift(cluster) == DRIFTED
        assert status(cluster)["schedulerTopologyStatuses"][0]["schedulerBackendTopologyObservedGeneration"] == 2
        assert events(cluster) == [WARNED, RELIEVED, WARNED]
        assert cluster.names(TOPOLOGY) == {"theirs"}
        assert set(cluster.committed()) == {"patch clustertopologybindings status"}

    play(test)


def test_a_reference_comes_and_goes() -> None:
    """KAI goes on with the Topology of the binding's name, which running gangs know; nobody writes it meanwhile."""

    async def test(cluster: Cluster) -> None:
        bind(cluster)
        put(cluster, MORE, "theirs")
        await cluster.quiet()
        first = topology(cluster)
        reference = [{"schedulerName": "kai-scheduler", "topologyReference": "theirs"}]
        change(cluster, {**levels(MORE), "schedulerTopologyBindings": reference})
        await cluster.quiet()
        assert entries(cluster) == [("kai-scheduler", "theirs", True, "")]
        assert topology(cluster) == first
        change(cluster, {"schedulerTopologyBindings": []})
        await cluster.quiet()
        assert keys(cluster) == MORE
        assert cluster.names(TOPOLOGY) == {"gpus", "theirs"}

    play(test)


def test_kai_may_come_later_and_go_again() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        text = "the API server does not serve topologies.kai.scheduler in version v1alpha1"
        assert entries(cluster) == [("kai-scheduler", "gpus", False, text)]
        cluster.api.install(TOPOLOGY)
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC
        cluster.api.uninstall(TOPOLOGY)
        await cluster.quiet()
        assert entries(cluster) == [("kai-scheduler", "gpus", False, text)]
        assert events(cluster) == [WARNED, RELIEVED, WARNED]

    play(test, kai=False)


def test_without_the_right_to_read_topologies_none_is_written() -> None:
    async def test(cluster: Cluster) -> None:
        cluster.api.faults.refuse(403, "Forbidden", resource="topologies", times=None)
        cluster.api.drop_watches(TOPOLOGY)
        await cluster.rest(LONG)
        bind(cluster)
        await cluster.rest(LONG)
        assert drift(cluster) == DRIFTED
        assert cluster.api.writes("create", "topologies") == []
        await cluster.heal()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC

    play(test)


def test_a_scheduler_that_is_not_enabled() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster, kai_scheduler="theirs")
        await cluster.quiet()
        text = "the operator has no profile kai-scheduler with topology objects"
        assert entries(cluster) == [("kai-scheduler", "theirs", False, text)]
        assert drift(cluster) == ("Unknown", "TopologyNotFound")
        assert events(cluster) == []
        change(cluster, {"schedulerTopologyBindings": []})
        await cluster.quiet()
        assert not status(cluster)["conditions"]
        assert not status(cluster)["schedulerTopologyStatuses"]
        assert status(cluster)["observedGeneration"] == 2

    play(test, aware())


def test_where_topology_does_not_count_nothing_is_done() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        assert cluster.api.writes() == []

    scheduler = {"profiles": [{"name": "kai-scheduler"}]}
    play(test, OperatorConfiguration.model_validate({"scheduler": scheduler}))


def test_what_is_made_goes_with_the_binding_and_comes_with_the_next() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        cluster.api.delete(CLUSTERTOPOLOGYBINDING, "", "gpus", {})
        await cluster.quiet()
        assert cluster.names(TOPOLOGY) == set()
        bind(cluster, MORE)
        cluster.api.delete(CLUSTERTOPOLOGYBINDING, "", "gpus", {})
        bind(cluster)
        await cluster.quiet()
        assert keys(cluster) == KEYS
        assert drift(cluster) == IN_SYNC

    play(test)


def test_for_a_binding_on_its_way_out_nothing_is_made_again() -> None:
    async def test(cluster: Cluster) -> None:
        bind(cluster)
        await cluster.quiet()
        finalizers = {"finalizers": ["a/b"]}
        cluster.api.update(
            CLUSTERTOPOLOGYBINDING, "", "gpus", lambda obj: {**obj, "metadata": {**obj["metadata"], **finalizers}}
        )
        cluster.api.delete(CLUSTERTOPOLOGYBINDING, "", "gpus", {})
        cluster.api.delete(TOPOLOGY, "", "gpus", {})
        await cluster.quiet()
        assert cluster.names(CLUSTERTOPOLOGYBINDING) == {"gpus"}
        assert cluster.names(TOPOLOGY) == set()

    play(test)
