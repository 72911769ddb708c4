"""Sets that no webhook has seen and that admission would have refused: they are told so, and left as they are."""

from typing import Any

from grove.controllers.config import OperatorConfiguration
from grove.controllers.operator import Controllers
from grove.plan.kinds import CHILDREN, POD, PODCLIQUESET
from grove.runtime.events import EVENT
from tests.fake_api import FakeApi
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, pod_set

CIRCLE = "the cliques wait for each other: a → b → a"
EXPLICIT = "CliqueStartupTypeExplicit"


def a_set(*, circle: bool, replicas: int = 1, **fields: Any) -> Object:
    """Two cliques, the second after the first, and the first after the second in a `circle`."""
    first = clique("a", 2, starts_after=["b"] if circle else [])
    first["spec"]["startsAfter"] = first["spec"].pop("starts_after")
    second = clique("b", 1)
    second["spec"]["startsAfter"] = ["a"]
    return pod_set(first, second, replicas=replicas, cliqueStartupType=EXPLICIT, **fields)


def told(cluster: Cluster) -> list[str]:
    """What the status of the set says is wrong."""
    status = cluster.get(PODCLIQUESET, "web").get("status") or {}
    return [f"{error['code']}: {error['description']}" for error in status.get("lastErrors") or ()]


def warnings(cluster: Cluster) -> list[str]:
    """The warnings on the set, as `reason: message`."""
    events = [event for event in cluster.api.objects(EVENT) if event["type"] == "Warning"]
    return [f"{e['reason']}: {e['message']}" for e in events if e["involvedObject"]["kind"] == "PodCliqueSet"]


@in_cluster
async def test_an_invalid_set_creates_nothing_and_says_why(cluster: Cluster) -> None:
    cluster.create(a_set(circle=True, replicas=2))
    await cluster.quiet()
    assert [cluster.names(kind) for kind in CHILDREN] == [set()] * len(CHILDREN)
    [error] = told(cluster)
    path = "spec.template.cliques[0].spec.startsAfter"
    assert error.startswith(f'ERR_INVALID_SPEC: {path}: Invalid value: ["b"]: {CIRCLE}')
    assert warnings(cluster) == [error.replace("ERR_INVALID_SPEC", "InvalidSpec")]


@in_cluster
async def test_it_comes_up_when_it_is_put_right(cluster: Cluster) -> None:
    cluster.create(a_set(circle=True))
    await cluster.quiet()
    right = a_set(circle=False)
    cluster.patch(PODCLIQUESET, "web", {"spec": right["spec"]})
    await cluster.quiet()
    assert told(cluster) == []
    await cluster.check({"web": right})


@in_cluster
async def test_a_set_that_becomes_invalid_is_left_as_it_is(cluster: Cluster) -> None:
    """Its pods run on and are replaced, up to the lifting of their gates; nothing is added, changed or removed."""
    right = a_set(circle=False)
    cluster.create(right)
    await cluster.quiet()
    before = {kind: cluster.names(kind) for kind in CHILDREN if kind is not POD}
    pods = cluster.names(POD)
    cluster.patch(PODCLIQUESET, "web", {"spec": a_set(circle=True, replicas=3)["spec"]})
    await cluster.quiet()
    assert cluster.names(POD) == pods
    cluster.delete(POD, min(pods))
    await cluster.quiet()
    assert len(told(cluster)) == 1
    assert {kind: cluster.names(kind) for kind in before} == before
    after = cluster.api.objects(POD)
    assert len(after) == len(pods)
    assert not any(pod["spec"].get("schedulingGates") for pod in after)
    cluster.patch(PODCLIQUESET, "web", {"spec": right["spec"]})
    await cluster.quiet()
    assert told(cluster) == []
    await cluster.check({"web": right})


def test_the_rules_are_told_what_the_webhooks_are_told() -> None:
    config = OperatorConfiguration.model_validate(
        {"topologyAwareScheduling": {"enabled": True}, "network": {"autoMNNVLEnabled": True}}
    )
    facts = Controllers(FakeApi().client(), config).facts()
    assert (facts.topology_aware, facts.mnnvl, facts.schedulers) == (True, True, ["default-scheduler"])


@in_cluster
async def test_rules_for_new_sets_do_not_hit_stored_ones(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 1))
    obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["nodeName"] = "n1"
    cluster.create(obj)
    await cluster.quiet()
    assert told(cluster) == []
    assert len(cluster.names(POD)) == 1
