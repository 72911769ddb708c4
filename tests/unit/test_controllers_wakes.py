"""Each kind of change wakes the pass that reads it: what others take away or change comes back, what they add stays."""

from collections.abc import Callable
from typing import Any

import pytest

from grove.plan.kinds import AUTOSCALER, CHILDREN, POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG, SERVICE
from grove.runtime.resources import ResourceType
from tests.fake_api.objects import copy
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import Object, clique, group, pod_set

SET = pod_set(
    clique("a", 2, autoScalingConfig={"maxReplicas": 9}),
    clique("b", 1),
    groups=[group("g", ["b"], 2, 1, scaleConfig={"maxReplicas": 5})],
)
MANAGED = "app.kubernetes.io/managed-by"

_SERVER_FIELDS = ("uid", "resourceVersion", "generation", "creationTimestamp")


def plain(obj: Object) -> Object:
    """An object without what the API server keeps for itself, and without times."""
    result: Object = copy(obj)
    for field in _SERVER_FIELDS:
        result["metadata"].pop(field, None)
    (result.get("status") or {}).pop("observedGeneration", None)
    for ref in result["metadata"].get("ownerReferences") or ():
        ref.pop("uid")
    for condition in (result.get("status") or {}).get("conditions") or ():
        condition.pop("lastTransitionTime", None)
    return result


# What was deleted comes back


@pytest.mark.parametrize(
    ("resource", "name"),
    [
        (SERVICE, "web-0"),
        (AUTOSCALER, "web-0-a"),
        (AUTOSCALER, "web-0-g"),
        (PODGANG, "web-0"),
        (PODGANG, "web-0-g-0"),
        (PODCLIQUE, "web-0-a"),
        (PODCLIQUE, "web-0-g-1-b"),
        (PODCLIQUESCALINGGROUP, "web-0-g"),
    ],
    ids=lambda value: value.plural if isinstance(value, ResourceType) else value,
)
@in_cluster
async def test_what_was_deleted_comes_back(cluster: Cluster, resource: ResourceType, name: str) -> None:
    await cluster.up(SET)
    before = cluster.get(resource, name)
    cluster.delete(resource, name)
    await cluster.quiet()
    after = cluster.get(resource, name)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    if resource != PODGANG:  # its pods may be others
        assert plain(after) == plain(before)
    await cluster.check({"web": SET})


@in_cluster
async def test_everything_that_was_deleted_comes_back(cluster: Cluster) -> None:
    await cluster.up(SET)
    for resource in CHILDREN:
        for name in cluster.names(resource):
            if cluster.api.find(resource, "default", name) is not None:
                cluster.delete(resource, name)
    await cluster.quiet()
    await cluster.check({"web": SET})


# What was changed is put right


PART_OF, REPLICA = {"app.kubernetes.io/part-of": None}, {"grove.io/podcliqueset-replica-index": "7"}

CHANGES: dict[str, tuple[ResourceType, str, Object]] = {
    "service spec": (SERVICE, "web-0", {"spec": {"publishNotReadyAddresses": False, "selector": {"x": "y"}}}),
    "service part-of": (SERVICE, "web-0", {"metadata": {"labels": PART_OF}}),
    "service replica index": (SERVICE, "web-0", {"metadata": {"labels": REPLICA}}),
    "service managed-by": (SERVICE, "web-0", {"metadata": {"labels": {MANAGED: None}}}),
    "autoscaler spec": (AUTOSCALER, "web-0-a", {"spec": {"maxReplicas": 77}}),
    "autoscaler part-of": (AUTOSCALER, "web-0-a", {"metadata": {"labels": PART_OF}}),
    "autoscaler managed-by": (AUTOSCALER, "web-0-g", {"metadata": {"labels": {MANAGED: "me"}}}),
    "clique minimum": (PODCLIQUE, "web-0-a", {"spec": {"minAvailable": 1}}),
    "clique podSpec": (PODCLIQUE, "web-0-a", {"spec": {"podSpec": {"containers": [{"name": "other"}]}}}),
    "clique role": (PODCLIQUE, "web-0-g-0-b", {"spec": {"roleName": "other"}}),
    "clique part-of": (PODCLIQUE, "web-0-a", {"metadata": {"labels": PART_OF}}),
    "clique replica index": (PODCLIQUE, "web-0-a", {"metadata": {"labels": REPLICA}}),
    "clique gang": (PODCLIQUE, "web-0-a", {"metadata": {"labels": {"grove.io/podgang": "other"}}}),
    "clique hash": (PODCLIQUE, "web-0-a", {"metadata": {"labels": {"grove.io/pod-template-hash": "x"}}}),
    "clique managed-by": (PODCLIQUE, "web-0-a", {"metadata": {"labels": {MANAGED: None}}}),
    "member's group": (PODCLIQUE, "web-0-g-1-b", {"metadata": {"labels": {"grove.io/podcliquescalinggroup": "x"}}}),
    "member's index": (
        PODCLIQUE,
        "web-0-g-1-b",
        {"metadata": {"labels": {"grove.io/podcliquescalinggroup-replica-index": None}}},
    ),
    "clique record": (PODCLIQUE, "web-0-a", {"metadata": {"annotations": {"grove.io/template-replicas": None}}}),
    "group cliques": (PODCLIQUESCALINGGROUP, "web-0-g", {"spec": {"cliqueNames": ["a"]}}),
    "group minimum": (PODCLIQUESCALINGGROUP, "web-0-g", {"spec": {"minAvailable": 2}}),
    "group part-of": (PODCLIQUESCALINGGROUP, "web-0-g", {"metadata": {"labels": PART_OF}}),
    "group replica index": (PODCLIQUESCALINGGROUP, "web-0-g", {"metadata": {"labels": REPLICA}}),
    "gang references": (PODGANG, "web-0", {"spec": {"podgroups": []}}),
    "gang scheduler": (PODGANG, "web-0", {"metadata": {"labels": {"grove.io/scheduler-name": "x"}}}),
    "gang part-of": (PODGANG, "web-0", {"metadata": {"labels": PART_OF}}),
    "gang priority": (PODGANG, "web-0-g-0", {"spec": {"priorityClassName": "high"}}),
}


@pytest.mark.parametrize("case", CHANGES)
@in_cluster
async def test_what_was_changed_is_put_right(cluster: Cluster, case: str) -> None:
    await cluster.up(SET)
    resource, name, change = CHANGES[case]
    before = cluster.get(resource, name)
    cluster.patch(resource, name, change)
    await cluster.quiet()
    assert plain(cluster.get(resource, name)) == plain(before)
    assert cluster.watchdog.lost == 0
    await cluster.check({"web": SET})


STATUSES: dict[str, tuple[ResourceType, str, Object]] = {
    "set": (PODCLIQUESET, "web", {"availableReplicas": 7, "podGangStatuses": []}),
    "group": (PODCLIQUESCALINGGROUP, "web-0-g", {"availableReplicas": 0, "conditions": [], "selector": "x"}),
    "clique": (PODCLIQUE, "web-0-a", {"readyReplicas": 0, "conditions": [], "currentPodTemplateHash": "x"}),
    "member": (PODCLIQUE, "web-0-g-0-b", {"scheduledReplicas": 0}),
    "gang phase": (PODGANG, "web-0", {"phase": "Allocating"}),
    "gang conditions": (PODGANG, "web-0-g-0", {"conditions": []}),
}


@pytest.mark.parametrize("case", STATUSES)
@in_cluster
async def test_a_status_that_others_wrote_is_put_right(cluster: Cluster, case: str) -> None:
    await cluster.up(SET)
    resource, name, change = STATUSES[case]
    before = cluster.get(resource, name)
    cluster.patch(resource, name, {"status": change}, status=True)
    await cluster.quiet()
    assert plain(cluster.get(resource, name)) == plain(before)
    await cluster.check({"web": SET})


@in_cluster
async def test_a_pod_that_lost_its_gang_gets_it_back(cluster: Cluster) -> None:
    await cluster.up(SET)
    (pod, _) = cluster.pods_of("web-0-a")
    cluster.patch(POD, pod["metadata"]["name"], {"metadata": {"labels": {"grove.io/podgang": "other"}}})
    await cluster.quiet()
    assert plain(cluster.get(POD, pod["metadata"]["name"])) == plain(pod)
    await cluster.check({"web": SET})


# What others add stays, and costs nothing


EXTRAS: dict[str, Object] = {
    "labels": {"metadata": {"labels": {"team": "x"}}},
    "annotations": {"metadata": {"annotations": {"example.com/note": "x"}}},
    "finalizers": {"metadata": {"finalizers": ["example.com/hold"]}},
}


@pytest.mark.parametrize("extra", EXTRAS)
@in_cluster
async def test_what_others_add_stays(cluster: Cluster, extra: str) -> None:
    await cluster.up(SET)
    sent = len(cluster.api.writes())
    marked = {}
    for resource in CHILDREN:
        for name in cluster.names(resource):
            marked[resource, name] = plain(cluster.patch(resource, name, EXTRAS[extra]))
    await cluster.quiet()
    assert {key: plain(cluster.get(*key)) for key in marked} == marked
    assert len(cluster.api.writes()) == sent


@in_cluster
async def test_conditions_of_others_stay(cluster: Cluster) -> None:
    await cluster.up(SET)
    foreign = {
        "type": "Foreign",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": "2026-09-01T00:00:00Z",
    }
    kinds = ((PODCLIQUE, "web-0-a"), (PODCLIQUESCALINGGROUP, "web-0-g"), (PODGANG, "web-0"))
    for resource, name in kinds:
        conditions = [*cluster.get(resource, name)["status"]["conditions"], foreign]
        cluster.patch(resource, name, {"status": {"conditions": conditions}}, status=True)
    (pod, _) = cluster.pods_of("web-0-a")
    cluster.pods.crash("default", pod["metadata"]["name"])
    await cluster.quiet()
    for resource, name in kinds:
        conditions = cluster.get(resource, name)["status"]["conditions"]
        assert foreign in conditions
        assert len({one["type"] for one in conditions}) == len(conditions) > 1


# What the user changes on the set


@in_cluster
async def test_a_touch_costs_nothing(cluster: Cluster) -> None:
    await cluster.up(SET)
    sent = len(cluster.api.writes())
    cluster.patch(PODCLIQUESET, "web", {"metadata": {"annotations": {"grove.io/reconcile-trigger": "1"}}})
    await cluster.quiet()
    assert len(cluster.api.writes()) == sent


@in_cluster
async def test_labels_of_the_set_reach_its_gangs(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.patch(PODCLIQUESET, "web", {"metadata": {"labels": {"team": "x"}, "annotations": {"note": "y"}}})
    await cluster.quiet()
    for name in ("web-0", "web-0-g-0"):
        metadata = cluster.get(PODGANG, name)["metadata"]
        assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("x", "y")
    assert cluster.watchdog.lost == 0


USER: dict[str, tuple[Callable[[Object], Any], Callable[[Cluster], bool]]] = {
    "autoscaler goes": (
        lambda spec: spec["template"]["cliques"][0]["spec"].pop("autoScalingConfig"),
        lambda cluster: cluster.names(AUTOSCALER) == {"web-0-g"},
    ),
    "autoscaler grows": (
        lambda spec: spec["template"]["cliques"][0]["spec"]["autoScalingConfig"].update(maxReplicas=12),
        lambda cluster: cluster.get(AUTOSCALER, "web-0-a")["spec"]["maxReplicas"] == 12,
    ),
    "service": (
        lambda spec: spec["template"].update(headlessServiceConfig={"publishNotReadyAddresses": False}),
        lambda cluster: cluster.get(SERVICE, "web-0")["spec"]["publishNotReadyAddresses"] is False,
    ),
    "priority": (
        lambda spec: spec["template"].update(priorityClassName="high"),
        lambda cluster: cluster.get(PODGANG, "web-0-g-0")["spec"]["priorityClassName"] == "high",
    ),
    "template": (
        lambda spec: spec["template"]["cliques"][1]["spec"]["podSpec"].update(hostNetwork=True),
        lambda cluster: all(
            cluster.get(PODCLIQUE, f"web-0-g-{index}-b")["spec"]["podSpec"]["hostNetwork"] for index in (0, 1)
        ),
    ),
}


@pytest.mark.parametrize("case", USER)
@in_cluster
async def test_what_the_user_changes_reaches_the_children(cluster: Cluster, case: str) -> None:
    await cluster.up(SET)
    change, reached = USER[case]
    spec = copy(SET["spec"])
    change(spec)
    cluster.api.update(PODCLIQUESET, "default", "web", lambda obj: {**obj, "spec": spec})
    await cluster.quiet()
    assert reached(cluster)
    assert cluster.get(PODCLIQUESET, "web")["status"]["observedGeneration"] == 2
