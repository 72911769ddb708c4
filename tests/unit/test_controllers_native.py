"""The operator on a cluster that serves gangs of its own, or comes to do so."""

from collections.abc import Mapping
from typing import Any

from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESET, PODGANG
from grove.runtime.events import EVENT
from grove.schedulers.native import COMPOSITE, LARGE, PODGROUP
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, group, pod_set

SET = pod_set(
    clique("a", 3, min_available=2), clique("b", 2, min_available=1), groups=[group("g", ["b"], 2, 1)], replicas=2
)


def install(cluster: Cluster) -> None:
    cluster.api.install(PODGROUP)
    cluster.api.install(COMPOSITE)


def guarantees(cluster: Cluster) -> Mapping[str, tuple[str, str]]:
    """Status and reason of each PodGang's condition."""
    found = {}
    for gang in cluster.api.objects(PODGANG):
        [one] = [one for one in gang["status"]["conditions"] if one["type"] == "GangGuaranteed"]
        found[gang["metadata"]["name"]] = (one["status"], one["reason"])
    return found


def groups(cluster: Cluster) -> set[Any]:
    return {pod["spec"].get("schedulingGroup", {}).get("podGroupName") for pod in cluster.api.objects(POD)}


@in_cluster
async def test_gangs_come_up_and_rest(cluster: Cluster) -> None:
    install(cluster)
    await cluster.up(SET)
    assert set(guarantees(cluster).values()) == {("True", "CompositePodGroup")}
    # Per replica a, the base gang's b and the scaled gang's b, which is alone in its gang.
    assert groups(cluster) == cluster.names(PODGROUP) | {None}
    assert len(cluster.names(PODGROUP)) == 6
    assert len(cluster.names(COMPOSITE)) == 2
    done = cluster.committed()
    assert (done["create podgroups"], done["create compositepodgroups"]) == (6, 2)
    assert not any(verb.split()[0] in ("patch", "delete") and "podgroups" in verb for verb in done)


@in_cluster
async def test_a_plain_gang_costs_one_more_write(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 2), replicas=3))
    without = sum(cluster.committed().values())
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    install(cluster)
    await cluster.quiet()
    before = len(cluster.api.writes())
    await cluster.up(pod_set(clique("a", 2), replicas=3))
    assert sum(cluster.committed(before).values()) == without + 3


@in_cluster
async def test_a_large_gang_gets_its_root_when_all_gates_are_off(cluster: Cluster) -> None:
    install(cluster)
    await cluster.up(pod_set(clique("a", LARGE + 1)))
    made = [(write.verb, write.resource) for write in cluster.api.writes()]
    assert made.count(("patch", "pods")) >= LARGE + 1
    assert ("patch", "pods") not in made[made.index(("create", "podgroups")) :]


@in_cluster
async def test_scaling_in_and_out_and_going_idle(cluster: Cluster) -> None:
    install(cluster)
    await cluster.up(SET)
    cluster.scale(PODCLIQUE, "web-0-a", 0)
    await cluster.quiet()
    names = cluster.names(PODGROUP)
    assert len(names) == 5
    cluster.scale(PODCLIQUE, "web-0-a", 5)
    cluster.scale(PODCLIQUESET, "web", 1)
    await cluster.quiet()
    assert len(cluster.names(PODGROUP)) == 3
    assert len(cluster.names(COMPOSITE)) == 1
    await cluster.check({"web": {**SET, "spec": {**SET["spec"], "replicas": 1}}}, {"web-0-a": 5})
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    assert not cluster.names(PODGROUP) | cluster.names(COMPOSITE) | cluster.names(POD)


@in_cluster
async def test_a_cluster_that_comes_to_serve_gangs(cluster: Cluster) -> None:
    await cluster.up(SET)
    assert set(guarantees(cluster).values()) == {("False", "NoGangScheduling")}
    told = [event for event in cluster.api.objects(EVENT) if event["reason"] == "NoGangGuarantee"]
    assert [(event["type"], event["involvedObject"]["name"]) for event in told] == [("Warning", "web")]
    assert told[0]["message"].endswith("the cluster serves no PodGroups of scheduling.k8s.io/v1beta1")

    install(cluster)
    await cluster.quiet()
    assert set(guarantees(cluster).values()) == {("False", "PodsOutsideGroups")}
    assert cluster.names(PODGROUP) == set()  # what runs is left in peace

    for pod in cluster.api.objects(POD):
        cluster.delete(POD, pod["metadata"]["name"])
    await cluster.quiet()
    assert set(guarantees(cluster).values()) == {("True", "CompositePodGroup")}
    assert groups(cluster) == cluster.names(PODGROUP) | {None}
    await cluster.check({"web": SET})


@in_cluster
async def test_a_cluster_that_serves_less_and_less(cluster: Cluster) -> None:
    """What runs is left in peace and does not count as a gang any more; what comes in its place has what there is."""
    install(cluster)
    await cluster.up(SET)
    for kind, outside, reason in ((COMPOSITE, "PodsOutsideGroups", "PodGroup"), (PODGROUP, "NoGangScheduling", "")):
        before = cluster.uids()
        cluster.api.uninstall(kind)
        await cluster.quiet()
        assert set(guarantees(cluster).values()) == {("False", outside)}
        assert cluster.uids() == before
        for pod in cluster.api.objects(POD):
            cluster.delete(POD, pod["metadata"]["name"])
        await cluster.quiet()
        assert set(guarantees(cluster).values()) == {("True", reason) if reason else ("False", outside)}
        assert groups(cluster) == cluster.names(PODGROUP) | {None}
        await cluster.check({"web": SET})


@in_cluster
async def test_objects_that_others_delete_come_back(cluster: Cluster) -> None:
    install(cluster)
    await cluster.up(SET)
    before: dict[Any, Object] = {}
    for kind in (PODGROUP, COMPOSITE):
        for obj in cluster.api.objects(kind):
            before[kind, obj["metadata"]["name"]] = obj
            cluster.delete(kind, obj["metadata"]["name"])
    await cluster.quiet()
    after = {
        (kind, obj["metadata"]["name"]): obj for kind in (PODGROUP, COMPOSITE) for obj in cluster.api.objects(kind)
    }
    assert after.keys() == before.keys()
    assert all(after[key]["spec"] == before[key]["spec"] for key in after)
    cluster.delete(PODGANG, "web-0")
    await cluster.quiet()
    owners = {obj["metadata"]["name"]: obj["metadata"]["ownerReferences"] for obj in cluster.api.objects(COMPOSITE)}
    uids = {gang["metadata"]["uid"] for gang in cluster.api.objects(PODGANG)}
    assert all(owner[0]["uid"] in uids for owner in owners.values())
    await cluster.check({"web": SET})


@in_cluster
async def test_no_half_of_a_gang_comes_back_while_the_scheduler_drives_it_out(cluster: Cluster) -> None:
    """Here pods are gone as soon as they are deleted, so the first tells nothing once it is gone."""
    install(cluster)
    await cluster.up(pod_set(clique("a", 1), clique("b", 1)))
    seen = await drive_out(cluster, "web-0-a")
    assert seen == [True]  # b is still placed
    seen = await drive_out(cluster, "web-0-b")
    assert seen == [False]
    await cluster.quiet()
    assert all(pod["spec"]["nodeName"] for pod in cluster.api.objects(POD))


async def drive_out(cluster: Cluster, podclique: str) -> list[bool]:
    """Take a pod as the scheduler does; whether each of its successors is gated a second later."""
    [pod] = cluster.pods_of(podclique)
    name, reason = pod["metadata"]["name"], {"reason": "PreemptionByScheduler"}
    status = {"conditions": [*pod["status"]["conditions"], {"type": "DisruptionTarget", "status": "True", **reason}]}
    cluster.patch(POD, name, {"status": status}, status=True)
    cluster.delete(POD, name, gracePeriodSeconds=0)
    await cluster.rest(1)
    return [bool(pod["spec"].get("schedulingGates")) for pod in cluster.pods_of(podclique)]


@in_cluster
async def test_what_an_earlier_gang_left_is_waited_for(cluster: Cluster) -> None:
    """The garbage collector is late: it would take the root away while the new gang is being placed."""
    install(cluster)
    await cluster.up(SET)
    [root] = [one for one in cluster.names(COMPOSITE) if one.startswith("web-0-")]
    cluster.scale(PODCLIQUESET, "web", 1)
    await cluster.quiet()
    cluster.api.garbage_collection = False
    for kind, name in ((PODGANG, "web-0"), (PODCLIQUE, "web-0-a")):
        cluster.delete(kind, name)
    for pod in cluster.pods_of("web-0-a"):
        cluster.delete(POD, pod["metadata"]["name"])
    await cluster.rest(60)
    [owner] = cluster.get(COMPOSITE, root)["metadata"]["ownerReferences"]
    assert owner["uid"] != cluster.get(PODGANG, "web-0")["metadata"]["uid"]
    assert [bool(pod["spec"].get("schedulingGates")) for pod in cluster.pods_of("web-0-a")] == [True] * 3
    cluster.api.garbage_collection = True
    cluster.api.collect_garbage()
    await cluster.quiet()
    [owner] = cluster.get(COMPOSITE, root)["metadata"]["ownerReferences"]
    assert owner["uid"] == cluster.get(PODGANG, "web-0")["metadata"]["uid"]
    await cluster.check({"web": {**SET, "spec": {**SET["spec"], "replicas": 1}}})
