"""The start order at work: nobody starts before its parents, whatever happens to the operator and to the wire."""

from collections.abc import Iterator

import pytest

from grove.plan.kinds import POD, PODCLIQUE
from tests.fake_api.simulator import released
from tests.fake_api.store import Change
from tests.unit.expectations import active
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, group, pod_set
from tests.unit.test_controllers_faults import FAULTS

CHAIN = pod_set(
    clique("a", 3, 2),
    clique("b", 2, 1),
    clique("c", 2, 2),
    clique("d", 1),
    groups=[group("g", ["b", "c"], 3, 1)],
    cliqueStartupType="CliqueStartupTypeInOrder",
)
PODS = 3 + 3 * (2 + 2) + 1
HELD = 2 + 3 * 2 + 1
"""Pods that start after others: b of the base gang, c of each replica of the group, d."""

DIAMOND = pod_set(
    clique("d", 1, startsAfter=["b", "c"]),
    clique("b", 2, 1, startsAfter=["a"]),
    clique("c", 2, startsAfter=["a"]),
    clique("a", 2, 1),
    cliqueStartupType="CliqueStartupTypeExplicit",
)


def is_ready(pod: Object) -> bool:
    found = (pod.get("status") or {}).get("conditions") or ()
    return ("Ready", "True") in [(one["type"], one["status"]) for one in found]


def is_released(pod: Object) -> bool:
    return bool((pod["metadata"].get("annotations") or {}).get("grove.io/startup") == "released")


def others_than_a(pod: Object) -> bool:
    """For the simulator: released pods start, but those of clique a only when the test says so."""
    owner: str = pod["metadata"]["labels"]["grove.io/podclique"]
    return released(pod) and owner != "web-0-a"


class OrderWatch:
    """Looks at every release and notes those whose parents had never been ready together with enough pods."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.broken: list[str] = []
        self.releases = 0
        self._opened: set[str] = set()
        cluster.api.listeners.append(self._look)

    def _look(self, change: Change) -> None:
        if change.resource != POD or change.new is None:
            return
        for podclique in self.cluster.api.objects(PODCLIQUE):
            if all(self._enough(parent) for parent in podclique["spec"].get("startsAfter") or ()):
                self._opened.add(podclique["metadata"]["name"])
        if is_released(change.new) and not (change.old is not None and is_released(change.old)):
            self.releases += change.old is not None
            owner = change.new["metadata"]["labels"]["grove.io/podclique"]
            if owner not in self._opened:
                self.broken.append(f"{change.new['metadata']['name']} was released too soon")

    def _enough(self, name: str) -> bool:
        parent = self.cluster.api.find(PODCLIQUE, "default", name)
        if parent is None:
            return False
        ready = [pod for pod in self.cluster.pods_of(name) if is_ready(pod) and active(pod)]
        return bool(len(ready) >= parent["spec"]["minAvailable"])


def condition(cluster: Cluster, name: str) -> tuple[str, str]:
    found = (cluster.get(PODCLIQUE, name).get("status") or {}).get("conditions") or ()
    return next(((one["status"], one["message"]) for one in found if one["type"] == "StartupReleased"), ("", ""))


def held(cluster: Cluster) -> Iterator[Object]:
    for pod in cluster.api.objects(POD):
        if any(one["name"] == "grove-initc" for one in pod["spec"].get("initContainers") or ()):
            yield pod


@in_cluster
async def test_a_chain_starts_in_order_with_one_write_per_held_pod(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    await cluster.up(CHAIN)
    assert order.broken == []
    assert order.releases == HELD
    assert len(list(held(cluster))) == HELD
    writes = cluster.committed()
    assert writes["patch pods"] == PODS + HELD
    assert writes["create pods"] == PODS
    for name in ("web-0-g-0-b", "web-0-g-2-c", "web-0-d"):
        assert condition(cluster, name)[0] == "True"
    for name in ("web-0-a", "web-0-g-1-b"):
        assert condition(cluster, name) == ("", "")


@in_cluster
async def test_parents_in_any_order_of_the_template(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    await cluster.up(DIAMOND)
    assert (order.broken, order.releases) == ([], 5)


@in_cluster
async def test_a_set_without_order_is_as_before(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2), clique("b", 2, startsAfter=["a"]))
    await cluster.up(obj)
    assert list(held(cluster)) == []
    assert cluster.committed()["patch pods"] == 4
    assert not any("startsAfter" in one["spec"] for one in cluster.api.objects(PODCLIQUE))


@in_cluster
async def test_who_waits_says_so(cluster: Cluster) -> None:
    cluster.pods.may_start = others_than_a
    cluster.create(CHAIN)
    await cluster.rest(20)
    assert condition(cluster, "web-0-g-0-b") == ("False", "waiting for ready pods: web-0-a has 0 of 2")
    assert condition(cluster, "web-0-d") == ("False", "waiting for ready pods: web-0-g-0-c has 0 of 2")
    waiting = cluster.pods_of("web-0-g-0-b")[0]["metadata"]["annotations"]
    assert waiting["grove.io/startup-waiting-for"] == "a (at least 2 ready)"
    before = len(cluster.api.writes())
    await cluster.rest(600)
    assert cluster.committed(before) == {}  # waiting costs nothing
    first, second, _ = cluster.pods_of("web-0-a")
    cluster.pods.set_ready("default", first["metadata"]["name"], True)
    await cluster.rest(10)
    assert condition(cluster, "web-0-g-0-b") == ("False", "waiting for ready pods: web-0-a has 1 of 2")
    cluster.pods.set_ready("default", second["metadata"]["name"], True)
    await cluster.rest(1)
    assert all(is_released(pod) for pod in cluster.pods_of("web-0-g-0-b"))
    assert "grove.io/startup-waiting-for" not in cluster.pods_of("web-0-g-0-b")[0]["metadata"]["annotations"]
    cluster.pods.may_start = released
    cluster.pods.step()
    await cluster.quiet()
    await cluster.check({"web": CHAIN})


@in_cluster
async def test_the_operator_is_killed_at_every_step(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    cluster.create(CHAIN)
    for step in range(60):
        await cluster.rest(0.01 + 0.003 * (step % 7))
        await cluster.end(kill=True)
        cluster.start()
    await cluster.quiet()
    await cluster.check({"web": CHAIN})
    assert (order.broken, order.releases) == ([], HELD)


@in_cluster
async def test_while_no_operator_runs_pods_wait_and_go_on_after(cluster: Cluster) -> None:
    cluster.pods.may_start = lambda pod: False
    cluster.create(CHAIN)
    await cluster.rest(5)
    await cluster.end(kill=True)
    for pod in cluster.pods_of("web-0-a"):
        cluster.pods.set_ready("default", pod["metadata"]["name"], True)
    await cluster.rest(3600)
    assert not any(is_released(pod) for pod in held(cluster))
    cluster.start()
    await cluster.rest(1)
    assert all(is_released(pod) for pod in cluster.pods_of("web-0-g-0-b"))


@in_cluster
async def test_two_operators_release_once(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    cluster.start()
    await cluster.up(DIAMOND)
    assert (order.broken, order.releases) == ([], 5)


@pytest.mark.parametrize("fault", FAULTS)
@in_cluster
async def test_whatever_the_wire_does(cluster: Cluster, fault: str) -> None:
    order = OrderWatch(cluster)
    FAULTS[fault](cluster.api.faults)
    cluster.create(CHAIN)
    await cluster.quiet()
    await cluster.heal()
    await cluster.check({"web": CHAIN})
    assert (order.broken, order.releases) == ([], HELD)


@in_cluster
async def test_a_flapping_parent_holds_until_enough_are_ready_at_once(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    cluster.pods.may_start = others_than_a
    cluster.create(CHAIN)
    await cluster.rest(5)
    names = [pod["metadata"]["name"] for pod in cluster.pods_of("web-0-a")]
    for turn in range(30):  # one at a time, never two
        cluster.pods.set_ready("default", names[turn % 3], True)
        await cluster.rest(0.7)
        cluster.pods.set_ready("default", names[turn % 3], False)
        await cluster.rest(0.7)
    assert order.releases == 2 * 2  # only c of the scaled gangs, which waits for b of its own replica
    for name in names:
        cluster.pods.set_ready("default", name, True)
    await cluster.rest(5)
    before = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in held(cluster)}
    released = order.releases
    for name in names:  # and now they go: nobody is held again
        cluster.pods.set_ready("default", name, False)
        await cluster.rest(1)
    assert order.releases >= released
    assert {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in held(cluster)} == before
    assert all(is_released(pod) for pod in cluster.pods_of("web-0-g-0-b"))
    assert order.broken == []


@in_cluster
async def test_a_parent_that_is_replaced_restarts_no_child(cluster: Cluster) -> None:
    """T8."""
    await cluster.up(CHAIN)
    before = cluster.uids()
    parents = {pod["metadata"]["name"] for pod in cluster.pods_of("web-0-a")}
    for name in parents:
        cluster.delete(POD, name)
    await cluster.quiet()
    await cluster.check({"web": CHAIN})
    assert {name: uid for name, uid in cluster.uids().items() if name in before} == {
        name: uid for name, uid in before.items() if name not in parents
    }


@in_cluster
async def test_a_pod_made_when_its_parents_are_ready_is_born_released(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    await cluster.up(CHAIN)
    releases, sent = order.releases, len(cluster.api.writes())
    cluster.delete(POD, cluster.pods_of("web-0-d")[0]["metadata"]["name"])
    cluster.scale(PODCLIQUE, "web-0-g-0-b", 4)
    await cluster.quiet()
    await cluster.check({"web": CHAIN}, {"web-0-g-0-b": 4})
    assert order.releases == releases
    assert order.broken == []
    assert cluster.committed(sent)["patch pods"] == 3  # the gates


@in_cluster
async def test_a_child_replaced_while_a_parent_is_away_waits(cluster: Cluster) -> None:
    order = OrderWatch(cluster)
    await cluster.up(CHAIN)
    cluster.pods.may_start = others_than_a
    for pod in cluster.pods_of("web-0-a")[:2]:
        cluster.delete(POD, pod["metadata"]["name"])
    await cluster.rest(2)
    old = cluster.pods_of("web-0-g-0-b")[0]["metadata"]["name"]
    cluster.delete(POD, old)
    await cluster.rest(2)
    waiting = [pod for pod in cluster.pods_of("web-0-g-0-b") if not is_released(pod)]
    assert len(waiting) == 1
    assert condition(cluster, "web-0-g-0-b")[0] == "False"
    for pod in cluster.pods_of("web-0-a"):
        cluster.pods.set_ready("default", pod["metadata"]["name"], True)
    await cluster.quiet()
    assert all(is_released(pod) for pod in cluster.pods_of("web-0-g-0-b"))
    assert order.broken == []


@in_cluster
async def test_a_removed_annotation_comes_back(cluster: Cluster) -> None:
    cluster.pods.ready_after = 30.0
    cluster.create(DIAMOND)
    await cluster.rest(31)
    [pod, *_] = cluster.pods_of("web-0-b")
    assert is_released(pod)
    cluster.patch(POD, pod["metadata"]["name"], {"metadata": {"annotations": {"grove.io/startup": None}}})
    await cluster.rest(1)
    assert is_released(cluster.get(POD, pod["metadata"]["name"]))


@in_cluster
async def test_idle_cliques_hold_up_nobody(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2), clique("b", 0, 1), clique("c", 1), cliqueStartupType="CliqueStartupTypeInOrder")
    order = OrderWatch(cluster)
    cluster.create(obj)
    await cluster.quiet()
    await cluster.check({"web": obj})
    assert order.releases == 1
    for pod in cluster.pods_of("web-0-c"):
        assert is_released(pod)


def as_go_operator(cluster: Cluster, pod: Object) -> str:
    """Put a pod as the Go operator makes it in the place of ours; its uid."""
    cluster.delete(POD, pod["metadata"]["name"], gracePeriodSeconds=0)
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "labels", "ownerReferences")}
    waiter = {"name": "grove-initc", "image": "i", "args": ["--podcliques=web-0-a:1"]}
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"} | {"initContainers": [waiter]}
    made = cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return str(made["metadata"]["uid"])


@in_cluster
async def test_pods_of_the_go_operator_are_left_to_themselves(cluster: Cluster) -> None:
    """Their init container asks the API server itself, with the set's Secret; nobody restarts or annotates them."""
    obj = pod_set(clique("a", 1), clique("b", 2), cliqueStartupType="CliqueStartupTypeInOrder")
    cluster.pods.may_start = lambda pod: False
    cluster.create(obj)
    await cluster.rest(5)
    await cluster.end(kill=True)
    theirs = [as_go_operator(cluster, pod) for pod in cluster.pods_of("web-0-b")]
    cluster.start()
    cluster.pods.may_start = lambda pod: True
    cluster.pods.step()
    await cluster.quiet()
    await cluster.check({"web": obj})
    pods = cluster.pods_of("web-0-b")
    assert [pod["metadata"]["uid"] for pod in pods] == theirs
    assert not any((pod["metadata"].get("annotations") or {}).get("grove.io/startup") for pod in pods)
