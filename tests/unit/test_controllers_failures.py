"""What users are told by status and events, and what happens when writes are refused for good or a kind is missing."""

from typing import Any

import pytest

from grove.controllers.actor import Failure, Outcome, PassFailedError
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET, PODGANG, SERVICE
from grove.runtime.events import EVENT
from grove.runtime.resources import ResourceType
from tests.fake_api.store import Change
from tests.unit.harness import Cluster, in_cluster
from tests.unit.support import NOW, Object, clique, group, pod_set

SET = pod_set(clique("a", 2), clique("b", 1), groups=[group("g", ["b"], 2, 1)])

_WITHOUT_GANGS = "NoGangGuarantee"
"""What a set is told on this cluster, which serves no gangs of its own."""


def events(cluster: Cluster, kind: str, name: str, type_: str = "") -> list[str]:
    """Reasons of the events on an object, in alphabetical order."""
    return sorted(
        event["reason"]
        for event in cluster.api.objects(EVENT)
        if (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == (kind, name)
        and type_ in ("", event["type"])
        and event["reason"] != _WITHOUT_GANGS
    )


def errors(cluster: Cluster, resource: ResourceType, name: str) -> list[str]:
    """Codes in an object's status.lastErrors."""
    return [error["code"] for error in (cluster.get(resource, name).get("status") or {}).get("lastErrors") or ()]


# Refused for good


@in_cluster
async def test_a_quota_holds_the_gang_and_says_so_until_it_is_lifted(cluster: Cluster) -> None:
    cluster.api.faults.refuse(403, "Forbidden", verb="create", resource="pods", skip=1, times=None)
    cluster.create(SET)
    await cluster.rest(180)
    assert cluster.watchdog.created == 1
    assert all(pod["spec"]["schedulingGates"] for pod in cluster.api.objects(POD))
    shown = [name for name in sorted(cluster.names(PODCLIQUE)) if errors(cluster, PODCLIQUE, name)]
    assert len(shown) >= 2
    for name in shown:
        assert errors(cluster, PODCLIQUE, name) == ["ERR_CREATE_POD"] * len(errors(cluster, PODCLIQUE, name))
        assert "PodCreateFailed" in events(cluster, "PodClique", name, "Warning")
    gang = cluster.get(PODGANG, "web-0")["status"]
    assert gang["phase"] == "Pending"
    assert {one["type"]: one["status"] for one in gang["conditions"]}["Initialized"] == "False"
    # Refusals are not met by the thousand: the passes come ever more rarely.
    assert len(cluster.api.writes("create", "pods")) < 100
    cluster.api.faults.requests.clear()
    await cluster.quiet()
    await cluster.check({"web": SET})


@in_cluster
async def test_a_podspec_that_is_refused_heals_with_the_template(cluster: Cluster) -> None:
    fault = cluster.api.faults.refuse(422, "Invalid", verb="create", resource="pods", times=None)
    cluster.create(SET)
    await cluster.rest(60)
    assert errors(cluster, PODCLIQUE, "web-0-a") == ["ERR_CREATE_POD"] * 2
    better = pod_set(clique("a", 2, image="example.com/image:2"), clique("b", 1), groups=[group("g", ["b"], 2, 1)])
    cluster.patch(PODCLIQUESET, "web", {"spec": better["spec"]})
    await cluster.rest(1)
    fault.times = fault.hits  # the new template is accepted
    await cluster.quiet()
    await cluster.check({"web": better})


@pytest.mark.parametrize(
    ("resource", "name", "where", "reason"),
    [
        (SERVICE, "web-0", PODCLIQUESET, ""),
        (PODCLIQUE, "web-0-a", PODCLIQUESET, "PodCliqueCreateOrUpdateFailed"),
        (PODCLIQUESCALINGGROUP, "web-0-g", PODCLIQUESET, "PodCliqueScalingGroupCreateOrUpdateFailed"),
        (PODGANG, "web-0", PODCLIQUESET, "PodGangCreateOrUpdateFailed"),
        (PODCLIQUE, "web-0-g-0-b", PODCLIQUESCALINGGROUP, "PodCliqueCreateFailed"),
    ],
    ids=lambda value: value.plural if isinstance(value, ResourceType) else value,
)
@in_cluster
async def test_an_object_of_somebody_else_is_left_alone(
    cluster: Cluster, resource: ResourceType, name: str, where: ResourceType, reason: str
) -> None:
    spec: Object = {"podSpec": {"containers": []}, "replicas": 0, "cliqueNames": [], "podgroups": []}
    foreign = {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
    made = cluster.create({**foreign, "metadata": {"name": name, "namespace": "default"}})
    cluster.create(SET)
    await cluster.rest(200)
    told = "web" if where == PODCLIQUESET else "web-0-g"
    assert errors(cluster, where, told) == [f"ERR_CREATE_{resource.kind.upper()}"]
    assert not reason or reason in events(cluster, where.kind, told, "Warning")
    assert cluster.get(resource, name) == made
    cluster.delete(resource, name)
    await cluster.quiet()
    await cluster.check({"web": SET})


@in_cluster
async def test_of_two_sets_that_want_the_same_name_the_second_waits(cluster: Cluster) -> None:
    # Replica 1 of group g of `web` is the gang web-0-g-0, and so is the gang of replica 0 of `web-0-g`.
    other = pod_set(clique("a", 1), name="web-0-g")
    await cluster.up(SET)
    cluster.create(other)
    await cluster.rest(60)
    assert errors(cluster, PODCLIQUESET, "web-0-g") == ["ERR_CREATE_PODGANG"]
    assert all(pod["spec"]["schedulingGates"] for pod in cluster.pods_of("web-0-g-0-a"))
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    await cluster.check({"web-0-g": other})


# Refused for a moment: nothing for users


@pytest.mark.parametrize("status", [409, 429, 500, 503])
@in_cluster
async def test_what_passes_is_not_shown(cluster: Cluster, status: int) -> None:
    shown: list[Any] = []
    cluster.api.listeners.append(lambda change: shown.extend((change.last.get("status") or {}).get("lastErrors") or ()))
    for verb in ("create", "patch", "delete"):
        cluster.api.faults.refuse(status, verb=verb, probability=0.4, times=40)
    cluster.create(SET)
    await cluster.quiet()
    cluster.scale(PODCLIQUE, "web-0-a", 4)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 1)
    await cluster.heal()
    await cluster.check({"web": SET}, {"web-0-a": 4, "web-0-g": 1})
    assert shown == []


@in_cluster
async def test_a_patch_that_meets_a_namesake_is_not_shown(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.api.faults.lose_event = lambda _, resource, __: resource == PODGANG
    before = cluster.get(PODGANG, "web-0")
    cluster.delete(PODGANG, "web-0")
    cluster.create({**before, "metadata": {**before["metadata"], "uid": None}})
    shown: list[Any] = []
    cluster.api.listeners.append(lambda change: shown.extend((change.last.get("status") or {}).get("lastErrors") or ()))
    cluster.patch(PODCLIQUESET, "web", {"metadata": {"labels": {"team": "x"}}})
    await cluster.rest(5)
    assert [write.status for write in cluster.api.writes("patch", "podgangs") if write.status > 299][:1] == [422]
    await cluster.heal()
    await cluster.check({"web": SET})
    assert cluster.get(PODGANG, "web-0")["metadata"]["labels"]["team"] == "x"
    assert shown == []
    assert events(cluster, "PodCliqueSet", "web", "Warning") == []


@in_cluster
async def test_a_delete_that_admission_answers_with_a_conflict_is_tried_again(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.api.faults.refuse(409, "Conflict", verb="delete", times=3)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 1)
    await cluster.quiet()
    await cluster.check({"web": SET}, {"web-0-g": 1})


@in_cluster
async def test_a_namesake_s_leftovers_make_room_without_a_word(cluster: Cluster) -> None:
    await cluster.up(SET)
    # Something holds the PodCliques of the group for a while after their owner has gone and come again.
    cluster.patch(PODCLIQUE, "web-0-g-0-b", {"metadata": {"finalizers": ["example.com/hold"]}})
    cluster.delete(PODCLIQUESCALINGGROUP, "web-0-g")
    await cluster.rest(30)
    assert cluster.get(PODCLIQUE, "web-0-g-0-b")["metadata"]["deletionTimestamp"]
    assert errors(cluster, PODCLIQUESCALINGGROUP, "web-0-g") == []
    assert events(cluster, "PodCliqueScalingGroup", "web-0-g", "Warning") == []
    cluster.patch(PODCLIQUE, "web-0-g-0-b", {"metadata": {"finalizers": None}})
    await cluster.quiet()
    await cluster.check({"web": SET})


@in_cluster
async def test_a_gang_that_another_operator_wrote_differently_is_put_right_before_it_starts(cluster: Cluster) -> None:
    def be_faster(change: Change) -> None:
        if change.resource == PODCLIQUESET and change.old is None:
            owner = {"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "name": "web", "controller": True}
            metadata: Object = {"name": "web-0", "namespace": "default", "labels": {}}
            metadata["ownerReferences"] = [{**owner, "uid": change.last["metadata"]["uid"]}]
            kind = {"apiVersion": PODGANG.api_version, "kind": PODGANG.kind}
            cluster.create({**kind, "metadata": metadata, "spec": {"podgroups": []}})

    await cluster.rest(1)  # the operator watches by now, and does not hear of that PodGang
    cluster.api.listeners.append(be_faster)
    cluster.api.faults.lose_event = lambda kind, resource, _: (kind, resource) == ("ADDED", PODGANG)
    await cluster.up(SET)


# Events of what went well


@in_cluster
async def test_events_of_a_life(cluster: Cluster) -> None:
    await cluster.up(SET)
    assert set(events(cluster, "PodCliqueSet", "web")) == {
        "PodCliqueCreateOrUpdateSuccessful",
        "PodCliqueScalingGroupCreateSuccessful",
        "PodGangCreateOrUpdateSuccessful",
    }
    assert events(cluster, "PodCliqueScalingGroup", "web-0-g") == ["PodCliqueCreateSuccessful"]
    assert events(cluster, "PodClique", "web-0-a") == ["PodCreateSuccessful"]
    cluster.scale(PODCLIQUE, "web-0-a", 3)
    await cluster.quiet()
    cluster.scale(PODCLIQUE, "web-0-a", 2)
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 1)
    await cluster.quiet()
    assert set(events(cluster, "PodClique", "web-0-a")) == {"PodCreateSuccessful", "PodDeleteSuccessful"}
    assert "PodCliqueScalingGroupReplicaDeleteSuccessful" in events(cluster, "PodCliqueScalingGroup", "web-0-g")
    assert "PodGangDeleteSuccessful" in events(cluster, "PodCliqueSet", "web")
    cluster.scale(PODCLIQUESET, "web", 0)
    await cluster.quiet()
    assert {"PodCliqueDeleteSuccessful", "PodCliqueScalingGroupDeleteSuccessful"} <= set(
        events(cluster, "PodCliqueSet", "web")
    )
    warnings = {event["reason"] for event in cluster.api.objects(EVENT) if event["type"] != "Normal"}
    assert warnings == {_WITHOUT_GANGS}


@pytest.mark.parametrize(("lost", "told"), [(1, False), (2, True)])
@in_cluster
async def test_the_loss_of_all_scheduled_pods_is_an_event(cluster: Cluster, lost: int, told: bool) -> None:
    await cluster.up(SET)
    cluster.pods.schedulable = lambda pod: False
    for pod in cluster.pods_of("web-0-a")[:lost]:
        cluster.delete(POD, pod["metadata"]["name"])
    await cluster.quiet()
    assert events(cluster, "PodClique", "web-0-a", "Warning") == (["AllScheduledReplicasLost"] if told else [])


@in_cluster
async def test_a_set_that_never_ran_lost_nothing(cluster: Cluster) -> None:
    cluster.pods.schedulable = lambda pod: False
    cluster.create(SET)
    await cluster.quiet()
    cluster.scale(PODCLIQUE, "web-0-a", 0)
    await cluster.quiet()
    warnings = {event["reason"] for event in cluster.api.objects(EVENT) if event["type"] != "Normal"}
    assert warnings == {_WITHOUT_GANGS}


# Something is missing


@in_cluster
async def test_a_kind_that_is_served_late(cluster: Cluster) -> None:
    await cluster.end()
    cluster.api.uninstall(PODGANG)
    cluster.create(SET)
    cluster.start()
    await cluster.rest(60)
    assert cluster.names(PODCLIQUE) == set()
    cluster.api.install(PODGANG)
    await cluster.rest(60)
    await cluster.quiet()
    await cluster.check({"web": SET})


@in_cluster
async def test_children_without_their_set_make_nothing(cluster: Cluster) -> None:
    await cluster.up(SET)
    cluster.delete(PODCLIQUESET, "web", propagationPolicy="Orphan")
    await cluster.quiet()
    created = cluster.watchdog.created
    for pod in cluster.pods_of("web-0-a"):
        cluster.delete(POD, pod["metadata"]["name"])
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 3)
    await cluster.quiet()
    assert cluster.watchdog.created == created
    assert len(cluster.names(PODCLIQUE)) == 3


# Finalizers of the Go operator


@in_cluster
async def test_its_finalizers_hold_nothing_up(cluster: Cluster) -> None:
    finalizers = {
        PODCLIQUESET: "grove.io/podcliqueset.grove.io",
        PODCLIQUESCALINGGROUP: "grove.io/podcliquescalinggroup.grove.io",
        PODCLIQUE: "grove.io/podclique.grove.io",
    }
    await cluster.up(SET)
    for resource, finalizer in finalizers.items():
        for name in cluster.names(resource):
            cluster.patch(resource, name, {"metadata": {"finalizers": [finalizer]}})
    await cluster.quiet()
    cluster.scale(PODCLIQUESCALINGGROUP, "web-0-g", 1)
    await cluster.quiet()
    assert cluster.names(PODCLIQUE) == {"web-0-a", "web-0-g-0-b"}
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    await cluster.check({})


# Nothing is kept of what is gone


@in_cluster
async def test_nothing_is_kept_of_a_set_that_is_gone(cluster: Cluster) -> None:
    await cluster.up(SET)
    for pod in cluster.pods_of("web-0-a"):
        cluster.delete(POD, pod["metadata"]["name"])
    await cluster.quiet()
    world = cluster.operators[0].controllers.world
    assert world.last_occupants
    cluster.delete(PODCLIQUESET, "web")
    await cluster.quiet()
    assert world.last_occupants == {}
    assert all(len(store) == 0 for store in (world.sets, world.podcliques, world.pods, world.podgangs, world.services))


# What a pass makes of its failures


def failure(code: str, **fields: Any) -> Failure:
    return Failure(code, f"{code} went wrong", **fields)


def test_a_pass_without_failures_is_done() -> None:
    assert Outcome().finish() is None
    assert Outcome().last_errors({"lastErrors": [{"code": "x"}]}, NOW) == []


def test_what_only_the_cache_lacks_is_waited_for() -> None:
    assert Outcome([failure("x", news_come=1.0), failure("y", news_come=5.0)]).finish() == 5.0


def test_the_rest_is_tried_again_after_the_longest_wish() -> None:
    outcome = Outcome([failure("x", news_come=9.0), failure("y", retry_after=3.0), failure("z", retry_after=2.0)])
    with pytest.raises(PassFailedError, match="y went wrong; z went wrong") as raised:
        outcome.finish()
    assert raised.value.retry_after == 3.0


def test_errors_are_shown_once_each_and_keep_their_time() -> None:
    before = {"lastErrors": [{"code": "x", "description": "x went wrong", "observedAt": "2026-08-01T00:00:00Z"}]}
    outcome = Outcome([failure("x"), failure("x"), failure("y"), failure("passing", passing=True)])
    assert outcome.last_errors(before, NOW) == [
        {"code": "x", "description": "x went wrong", "observedAt": "2026-08-01T00:00:00Z"},
        {"code": "y", "description": "y went wrong", "observedAt": NOW},
    ]
    assert len(Outcome([failure(str(number)) for number in range(50)]).last_errors({}, NOW)) == 10
