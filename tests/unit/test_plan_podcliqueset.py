"""A set as a whole: what has to go, what a replica gets, and the status."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.api.podgang import PodGang
from grove.plan.podcliqueset import SetSnapshot, plan_removals, podcliqueset_status
from grove.plan.replica import ReplicaSnapshot, plan_children, plan_gangs
from grove.plan.rollout import ReplicaStanding
from grove.plan.summary import GangSummary, ReplicaSummary, summarise
from grove.plan.template import Template
from grove.runtime.writes import Create, Delete, Patch
from tests.fake_api.objects import merge_patch
from tests.unit.support import NOW, Object, Paper, by_name, clique, group, pod_set, stored, template

SCALED = {"maxReplicas": 9}


def wanted(replicas: int = 2, **changes: Any) -> Object:
    """A standalone clique and a group, both autoscaled; the group's second replica is a gang of its own."""
    options = {"autoScalingConfig": SCALED, "scaleConfig": SCALED, "image": "example.com/image:1", **changes}
    return pod_set(
        clique("a", 2, image=options["image"], autoScalingConfig=options["autoScalingConfig"]),
        clique("b", 1, image=options["image"]),
        groups=[group("g", ["b"], 2, 1, **{"scaleConfig": options["scaleConfig"]} if options["scaleConfig"] else {})],
        replicas=replicas,
    )


def status_for(tpl: Template, name: str) -> Object:
    """The status of a PodClique or group that is all well."""
    return {
        "readyReplicas": 9,
        "updatedReplicas": 9,
        "availableReplicas": 9,
        "currentPodTemplateHash": tpl.pod_template_hashes[name[-1]] if name[-1] in tpl.cliques else None,
        "currentPodCliqueSetGenerationHash": tpl.generation_hash,
    }


def live(obj: Object) -> SetSnapshot:
    """Everything that a set has when all is well."""
    tpl = template(obj)
    snapshot = SetSnapshot({}, {}, {}, {}, {})
    kinds: dict[str, Any] = {
        "PodClique": (snapshot.podcliques, PodClique.from_wire),
        "PodCliqueScalingGroup": (snapshot.scaling_groups, PodCliqueScalingGroup.from_wire),
        "PodGang": (snapshot.podgangs, PodGang.from_wire),
        "Service": (snapshot.services, lambda wire: wire),
        "HorizontalPodAutoscaler": (snapshot.autoscalers, lambda wire: wire),
    }
    for replica in range(tpl.replicas):
        paper = Paper.of(obj, replica=replica)
        paper.fill(ready=True)
        there = ReplicaSnapshot(podcliques=paper.podcliques, scaling_groups=paper.scaling_groups, pods=paper.pods)
        members = [one.wire for one in (*paper.podcliques.values(), *paper.scaling_groups.values())]
        gangs = plan_gangs(tpl, replica, there, hurry=lambda _: True, now=NOW).values()
        plain = [write.body for write in plan_children(tpl, replica, ReplicaSnapshot()) if isinstance(write, Create)]
        made = [write.body for plan in gangs for write in plan.spec if isinstance(write, Create)]
        for wire in (*plain, *members, *made):
            into, read = kinds[wire["kind"]]
            into[wire["metadata"]["name"]] = read(
                stored(merge_patch(wire, {"status": status_for(tpl, wire["metadata"]["name"])}))
            )
    return snapshot


def removed(tpl: Template, snapshot: SetSnapshot) -> set[tuple[str, str]]:
    writes = plan_removals(tpl, snapshot)
    assert all(isinstance(write, Delete) and write.uid == f"uid-{write.name}" for write in writes)
    return {(write.resource.kind, write.name) for write in writes}


# What has to go


def test_nothing_goes_when_all_is_wanted() -> None:
    assert removed(template(wanted()), live(wanted())) == set()


def test_a_replica_that_is_scaled_in_goes_with_everything() -> None:
    assert removed(template(wanted(1)), live(wanted(2))) == {
        ("Service", "web-1"),
        ("PodClique", "web-1-a"),
        ("PodCliqueScalingGroup", "web-1-g"),
        ("HorizontalPodAutoscaler", "web-1-a"),
        ("HorizontalPodAutoscaler", "web-1-g"),
        ("PodGang", "web-1"),
        ("PodGang", "web-1-g-0"),
    }


def test_a_set_without_replicas_keeps_nothing() -> None:
    kinds = {kind for kind, _ in removed(template(wanted(0)), live(wanted(1)))}
    assert kinds == {"Service", "PodClique", "PodCliqueScalingGroup", "HorizontalPodAutoscaler", "PodGang"}


def test_podcliques_of_a_group_are_the_group_s_business() -> None:
    snapshot = live(wanted())
    stray = merge_patch(snapshot.podcliques["web-0-g-0-b"].wire, {"metadata": {"name": "web-0-g-7-b"}})
    snapshot.podcliques["web-0-g-7-b"] = PodClique.from_wire(stray)  # type: ignore[index]
    assert removed(template(wanted()), snapshot) == set()


def test_autoscalers_go_with_their_configuration() -> None:
    now = template(wanted(autoScalingConfig=None, scaleConfig=None))
    assert removed(now, live(wanted())) == {
        ("HorizontalPodAutoscaler", f"web-{index}-{name}") for index in (0, 1) for name in ("a", "g")
    }


def test_the_gang_of_a_replica_of_a_group_that_is_scaled_in_goes() -> None:
    snapshot = live(wanted())
    wire = merge_patch(snapshot.scaling_groups["web-0-g"].wire, {"spec": {"replicas": 1}})
    snapshot.scaling_groups["web-0-g"] = PodCliqueScalingGroup.from_wire(wire)  # type: ignore[index]
    assert removed(template(wanted()), snapshot) == {("PodGang", "web-0-g-0")}


def test_the_gang_of_an_idle_replica_goes() -> None:
    snapshot = live(wanted())
    for name in ("web-0-a", "web-0-g-0-b"):
        wire = merge_patch(snapshot.podcliques[name].wire, {"spec": {"replicas": 0}})
        snapshot.podcliques[name] = PodClique.from_wire(wire)  # type: ignore[index]
    assert removed(template(wanted()), snapshot) == {("PodGang", "web-0")}


def test_what_is_on_its_way_out_is_not_deleted_again() -> None:
    snapshot = live(wanted(2))
    for name, wire in list(snapshot.services.items()):
        snapshot.services[name] = merge_patch(wire, {"metadata": {"deletionTimestamp": NOW}})  # type: ignore[index]
    assert "Service" not in {kind for kind, _ in removed(template(wanted(1)), snapshot)}


def test_a_set_on_its_way_out_is_left_to_the_garbage_collector() -> None:
    assert plan_removals(template(wanted(), deletionTimestamp=NOW), live(wanted())) == ()


# What a replica gets


def test_a_replica_gets_all_its_children() -> None:
    writes = plan_children(template(wanted()), 1, ReplicaSnapshot())
    assert [(write.resource.kind, write.name) for write in writes if isinstance(write, Create)] == [
        ("Service", "web-1"),
        ("PodClique", "web-1-a"),
        ("PodCliqueScalingGroup", "web-1-g"),
        ("HorizontalPodAutoscaler", "web-1-a"),
        ("HorizontalPodAutoscaler", "web-1-g"),
    ]


def snapshot_of(there: SetSnapshot) -> ReplicaSnapshot:
    return ReplicaSnapshot(
        podcliques=there.podcliques,
        scaling_groups=there.scaling_groups,
        podgangs=there.podgangs,
        services=there.services,
        autoscalers=there.autoscalers,
    )


def test_a_replica_that_has_all_gets_nothing() -> None:
    assert plan_children(template(wanted()), 1, snapshot_of(live(wanted()))) == ()


def test_a_replica_beyond_the_count_gets_nothing() -> None:
    assert plan_children(template(wanted(1)), 1, ReplicaSnapshot()) == ()
    assert plan_gangs(template(wanted(1)), 1, ReplicaSnapshot(), hurry=lambda _: True, now=NOW) == {}
    assert plan_children(template(wanted(), deletionTimestamp=NOW), 0, ReplicaSnapshot()) == ()


def test_names_with_uid_of_the_owner() -> None:
    bodies = [
        write.body
        for write in plan_children(template(wanted(), uid="u"), 0, ReplicaSnapshot())
        if isinstance(write, Create)
    ]
    assert {body["metadata"]["ownerReferences"][0]["uid"] for body in by_name(bodies).values()} == {"u"}


def test_a_changed_service_configuration_reaches_the_services() -> None:
    obj = wanted()
    obj["spec"]["template"]["headlessServiceConfig"] = {"publishNotReadyAddresses": False}
    (write,) = plan_children(template(obj), 1, snapshot_of(live(wanted())))
    assert isinstance(write, Patch)
    assert (write.resource.kind, write.name, write.body) == (
        "Service",
        "web-1",
        {"spec": {"publishNotReadyAddresses": False}},
    )


# Status (API doc 1.7; acceptance list 13, row "available replicas")


def status(snapshot: SetSnapshot, obj: Object | None = None, generation: int = 1) -> Object:
    tpl = template(obj or wanted(), generation=generation)
    replicas = [summarise(tpl, replica, snapshot) for replica in range(tpl.replicas)]
    return podcliqueset_status(tpl, replicas, lambda *_: snapshot, [], NOW)


def counts(snapshot: SetSnapshot) -> tuple[int, int, int]:
    found = status(snapshot)
    return found["replicas"], found["availableReplicas"], found["updatedReplicas"]


def test_all_is_well() -> None:
    found = status(live(wanted()), generation=5)
    assert (found["replicas"], found["availableReplicas"], found["updatedReplicas"]) == (2, 2, 2)
    assert found["hpaPodSelector"] == "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web"
    assert found["observedGeneration"] == 5
    assert found["currentGenerationHash"] == template(wanted()).generation_hash


CHANGES: dict[str, tuple[str, Object, tuple[int, int]]] = {
    "clique short of a pod": ("PodClique/web-0-a", {"status": {"readyReplicas": 1}}, (1, 1)),
    "clique without status": ("PodClique/web-0-a", {"status": None}, (1, 1)),
    "clique being deleted": ("PodClique/web-0-a", {"metadata": {"deletionTimestamp": NOW}}, (1, 1)),
    "clique with stale pods": ("PodClique/web-0-a", {"status": {"currentPodTemplateHash": "stale"}}, (2, 1)),
    "clique behind": ("PodClique/web-0-a", {"status": {"currentPodCliqueSetGenerationHash": "stale"}}, (2, 1)),
    "clique idle": ("PodClique/web-0-a", {"spec": {"replicas": 0}, "status": {"readyReplicas": 0}}, (2, 2)),
    "group short of a replica": ("PodCliqueScalingGroup/web-1-g", {"status": {"availableReplicas": 0}}, (1, 1)),
    "group without status": ("PodCliqueScalingGroup/web-1-g", {"status": None}, (1, 1)),
    "group being deleted": ("PodCliqueScalingGroup/web-1-g", {"metadata": {"deletionTimestamp": NOW}}, (1, 1)),
    "group behind": ("PodCliqueScalingGroup/web-1-g", {"status": {"currentPodCliqueSetGenerationHash": "x"}}, (2, 1)),
    "group idle": (
        "PodCliqueScalingGroup/web-1-g",
        {"spec": {"replicas": 0}, "status": {"availableReplicas": 0}},
        (2, 2),
    ),
}


@pytest.mark.parametrize("case", CHANGES)
def test_available_and_updated(case: str) -> None:
    where, change, numbers = CHANGES[case]
    snapshot = live(wanted())
    kind, name = where.split("/")
    if kind == "PodClique":
        into: Any = snapshot.podcliques
        into[name] = PodClique.from_wire(merge_patch(into[name].wire, change))
    else:
        into = snapshot.scaling_groups
        into[name] = PodCliqueScalingGroup.from_wire(merge_patch(into[name].wire, change))
    assert counts(snapshot) == (2, *numbers)


@pytest.mark.parametrize("name", ["web-0-a", "web-0-g"])
def test_a_missing_child(name: str) -> None:
    snapshot = live(wanted())
    podcliques: Any = snapshot.podcliques
    groups: Any = snapshot.scaling_groups
    podcliques.pop(name, None)
    groups.pop(name, None)
    assert counts(snapshot) == (2, 1, 1)


def test_children_of_replicas_beyond_the_count_are_ignored() -> None:
    assert status(live(wanted(3)), wanted(2))["availableReplicas"] == 2


def test_nothing_to_be_available() -> None:
    assert status(SetSnapshot(), pod_set(replicas=2))["availableReplicas"] == 2
    none = status(SetSnapshot(), wanted(0))
    assert (none["replicas"], none["availableReplicas"], none["observedGeneration"]) == (0, 0, 1)


UNTOLD: dict[str, Callable[[SetSnapshot], Any]] = {
    "clique missing": lambda there: there.podcliques.pop("web-1-a"),  # type: ignore[attr-defined]
    "member missing": lambda there: there.podcliques.pop("web-1-g-1-b"),  # type: ignore[attr-defined]
    "group missing": lambda there: there.scaling_groups.pop("web-1-g"),  # type: ignore[attr-defined]
}


@pytest.mark.parametrize("case", UNTOLD)
def test_a_generation_is_observed_once_every_child_was_told(case: str) -> None:
    snapshot = live(wanted())
    UNTOLD[case](snapshot)
    assert not {"observedGeneration", "currentGenerationHash"} & status(snapshot).keys()


def test_a_new_template_is_observed_once_every_child_carries_it() -> None:
    newer = wanted(image="example.com/image:2")
    keys = {"observedGeneration", "currentGenerationHash"}
    assert not keys & status(live(wanted()), newer).keys()
    halfway = replace(live(wanted()))
    halfway.podcliques = {**halfway.podcliques, **{n: p for n, p in live(newer).podcliques.items() if "-g-" not in n}}
    assert not keys & status(halfway, newer).keys()
    assert keys <= status(live(newer), newer).keys()


def test_a_phase_that_only_others_know_is_listed_as_pending() -> None:
    snapshot = live(wanted(1))
    gangs: Any = snapshot.podgangs
    gangs["web-0"] = PodGang.from_wire(merge_patch(gangs["web-0"].wire, {"status": {"phase": "Allocating"}}))
    assert status(snapshot, wanted(1))["podGangStatuses"][0] == {"name": "web-0", "phase": "Pending"}


def test_gangs_are_listed_with_their_phase() -> None:
    snapshot = live(wanted(1))
    gangs: Any = snapshot.podgangs
    gangs["web-0"] = PodGang.from_wire(merge_patch(gangs["web-0"].wire, {"status": {"phase": "Running"}}))
    assert status(snapshot, wanted(1))["podGangStatuses"] == [
        {"name": "web-0", "phase": "Running"},
        {"name": "web-0-g-0", "phase": "Pending"},
    ]


def test_of_many_gangs_those_that_do_not_run_are_listed_first_and_explained() -> None:
    """A hundred are listed, ten with their conditions, of which each has about a kilobyte."""
    snapshot = live(wanted(120))
    gangs: Any = snapshot.podgangs
    conditions = [{"type": "Ready", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}]
    for name, gang in gangs.items():
        phase = "Starting" if name in ("web-119", "web-118-g-0") else "Running"
        gangs[name] = PodGang.from_wire(merge_patch(gang.wire, {"status": {"phase": phase, "conditions": conditions}}))
    listed = status(snapshot, wanted(120))["podGangStatuses"]
    assert len(listed) == 100
    assert sorted(listed, key=lambda entry: str(entry["name"])) == listed
    assert [entry["name"] for entry in listed if entry["phase"] == "Starting"] == ["web-118-g-0", "web-119"]
    explained = [entry for entry in listed if entry.get("conditions") == conditions]
    assert len(explained) == 10
    assert all(entry in explained for entry in listed if entry["phase"] == "Starting")


def test_the_object_stays_small_however_many_replicas_are_updated() -> None:  # U14
    """Under 20 KB with 500 replicas, half of them updated, each of whose gangs says what gangs usually say."""
    conditions = [
        {"type": kind, "status": "True", "reason": "MinimumPlaced", "message": 80 * "m", "lastTransitionTime": NOW}
        for kind in ("Initialized", "Scheduled", "Ready", "Unhealthy", "GangGuaranteed")
    ]
    standing = ReplicaStanding(arrived=False, scheduled=True, serves=True, stale=True, lacks_room=False)
    replicas = [
        ReplicaSummary(
            told=True,
            available=index != 250,
            updated=index < 250,
            stale=index >= 250,
            cliques=int(index < 250),
            groups=0,
            gangs=(GangSummary(f"web-{index}", "Starting" if index == 250 else "Running", conditions),),
            owned=3,
            standing=replace(standing, arrived=index < 250),
        )
        for index in range(500)
    ]
    obj = pod_set(clique("a", 2), replicas=500)
    progress = {"updateStartedAt": NOW, "currentlyUpdating": [{"replicaIndex": 250, "updateStartedAt": NOW}]}
    obj["status"] = {"updateProgress": progress, "currentGenerationHash": template(obj).generation_hash}
    tpl = template(obj)
    shown = podcliqueset_status(tpl, replicas, lambda *_: SetSnapshot(), [], NOW)
    assert shown["updateProgress"]["updatedPodCliquesCount"] == 250
    assert "web-250" in [gang["name"] for gang in shown["podGangStatuses"]]
    assert len(json.dumps({**obj, "status": shown})) < 20_000
