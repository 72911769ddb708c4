"""What KAI gets: PodGroups and pods that belong to them, and which queue."""

from typing import Any

import pytest
import yaml

from grove.admission.fields import Field, FieldWarning
from grove.api import labels
from grove.plan.pods import build_pod
from grove.runtime.writes import Create, Delete, Patch
from grove.schedulers import Slot
from grove.schedulers.kai import PODGROUP, QUEUE, Kai
from tests.cluster.scheduler_crds import kai_podgroups
from tests.unit.schedulers import Shown, filled, findings, made, podgang, settled, view
from tests.unit.support import GOLDEN, Object, by_name, clique, group, pod_set

KAI = Kai("kai-scheduler", {})
SKIP = "kai.scheduler/skip-podgrouper"
QUEUED = "kai.scheduler/queue"


def installed(version: str = "0.15", *queues: str) -> Shown:
    """A cluster with KAI."""
    cluster = Shown()
    cluster.install(kai_podgroups(version), PODGROUP)
    if queues:
        cluster.served.add(QUEUE)
    for queue in queues:
        cluster.put(QUEUE, {"metadata": {"name": queue}})
    return cluster


def kai_set(*cliques: Object, name: str = "web", queue: str = "test", **fields: Any) -> Object:
    """A set whose pods KAI places, from a queue that the set names in a label."""
    for one in cliques:
        one["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    result = pod_set(*cliques, name=name, **fields)
    result["metadata"]["labels"] = {QUEUED: queue} if queue else {}
    return result


def workload2() -> Object:
    """The set of the golden file: its cliques name the queue."""
    tags = {QUEUED: "test"}
    cliques = [clique(name, pods, 1, labels=tags) for name, pods in (("pc-a", 2), ("pc-b", 1), ("pc-c", 3))]
    result = kai_set(*cliques, name="workload2", queue="", groups=[group("sg-x", ["pc-b", "pc-c"], 2, 1)])
    result["metadata"]["labels"] = {"app": "workload2"}
    return result


def subgroups(podgroup: Object) -> dict[str, Object]:
    return {
        one["name"]: {key: value for key, value in one.items() if key != "name"}
        for one in podgroup["spec"]["subGroups"]
    }


def test_podgroups_are_those_of_the_go_operator() -> None:
    paper, cluster = filled(workload2()), installed()
    golden = by_name(list(yaml.safe_load_all((GOLDEN / "kai_podgroups.yaml").read_text())))
    assert [gang.name for gang in paper.gangs] == list(golden)
    for name, wanted in golden.items():
        found = made(KAI, cluster, view(paper, cluster, name), PODGROUP)
        assert found["spec"] == wanted["spec"]
        assert (found["apiVersion"], found["kind"]) == (wanted["apiVersion"], wanted["kind"])
        assert wanted["metadata"]["labels"].items() <= found["metadata"]["labels"].items()
        (owner,) = found["metadata"]["ownerReferences"]
        assert owner == wanted["metadata"]["ownerReferences"][0] | {"uid": f"uid-{name}"}
        assert SKIP not in found["metadata"]["annotations"]


def test_a_pod_names_its_podgroup_and_subgroup_and_keeps_the_pod_grouper_off() -> None:
    paper = filled(workload2())
    podclique = paper.podcliques["workload2-0-sg-x-1-pc-b"]
    pod = KAI.prepare_pod(build_pod(podclique, 0, "x", None), Slot(paper.template, podclique, 0, installed()))
    assert pod["metadata"]["annotations"] == {SKIP: "true", "pod-group-name": "workload2-0-sg-x-0"}
    assert pod["metadata"]["labels"]["kai.scheduler/subgroup-name"] == "workload2-0-sg-x-1-pc-b"
    assert pod["metadata"]["labels"][QUEUED] == "test"


def test_pods_that_name_no_podgroup_join_once() -> None:
    """They were made before KAI took PodGroups of others, by an older operator or for an older KAI."""
    paper, cluster = filled(kai_set(clique("a", 2)), joined=False), installed()
    todo = KAI.decide(view(paper, cluster, "web-0")).writes
    joins = [write for write in todo if isinstance(write, Patch)]
    assert [write.name for write in joins] == sorted(pod.name for pod in paper.pods["uid-web-0-a"])
    assert joins[0].body == {
        "metadata": {
            "annotations": {SKIP: "true", "pod-group-name": "web-0"},
            "labels": {"kai.scheduler/subgroup-name": "web-0-a"},
        }
    }


def test_minimums_follow_the_podgang_in_both_directions() -> None:
    paper, cluster = filled(kai_set(clique("a", 3, 2), clique("b", 2, 1))), installed()
    made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    for a, b in ((3, 2), (1, 1)):
        groups = [
            {"name": "web-0-a", "minReplicas": a, "podReferences": []},
            {"name": "web-0-b", "minReplicas": b, "podReferences": []},
        ]
        found = made(KAI, cluster, view(paper, cluster, "web-0", podgang(paper, "web-0", podgroups=groups)), PODGROUP)
        assert found["spec"]["minMember"] == a + b
        assert subgroups(found) == {"web-0-a": {"minMember": a}, "web-0-b": {"minMember": b}}


def test_the_podgroup_stays_as_it_is_while_every_minimum_is_released() -> None:
    paper, cluster = filled(kai_set(clique("a", 2), priorityClassName="high")), installed()
    before = made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)["spec"]
    released = [{"name": "web-0-a", "minReplicas": 0, "podReferences": []}]
    gang = podgang(paper, "web-0", podgroups=released, priorityClassName="")
    assert made(KAI, cluster, view(paper, cluster, "web-0", gang), PODGROUP)["spec"] == before
    assert not [
        write for write in KAI.decide(view(paper, installed(), "web-0", gang)).writes if isinstance(write, Create)
    ]


def test_what_kai_writes_on_a_podgroup_stays() -> None:
    paper, cluster = filled(kai_set(clique("a", 2))), installed()
    live = made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    live["spec"] |= {"queue": "moved", "markUnschedulable": True, "schedulingBackoff": 1}
    live["metadata"]["labels"] |= {QUEUED: "moved", "kai.scheduler/node-pool": "gpu"}
    live["metadata"]["annotations"] |= {"kai.scheduler/last-start-timestamp": "now"}
    settled(KAI, cluster, view(paper, cluster, "web-0"))


def test_another_queue_of_the_set_is_applied_once() -> None:
    cluster = installed()
    made(KAI, cluster, view(filled(kai_set(clique("a", 2))), cluster, "web-0"), PODGROUP)
    paper = filled(kai_set(clique("a", 2), queue="other"))
    live = made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    assert live["spec"]["queue"] == "other"
    live["spec"]["queue"] = "moved"
    settled(KAI, cluster, view(paper, cluster, "web-0"))


def test_priority_preemptibility_and_node_pool_reach_the_podgroup_and_leave_it() -> None:
    cluster = installed("0.17")
    rich = kai_set(clique("a", 2, labels={"kai.scheduler/node-pool": "gpu"}), priorityClassName="inference")
    rich["metadata"]["labels"]["kai.scheduler/preemptibility"] = "non-preemptible"
    found = made(KAI, cluster, view(filled(rich), cluster, "web-0"), PODGROUP)
    assert found["spec"]["priorityClassName"] == "inference"
    assert found["spec"]["preemptibility"] == "non-preemptible"
    assert found["spec"]["stalenessGracePeriod"] == "-1s"  # Grove's terminationDelay decides
    assert found["metadata"]["labels"]["kai.scheduler/node-pool"] == "gpu"
    plain = made(KAI, cluster, view(filled(kai_set(clique("a", 2))), cluster, "web-0"), PODGROUP)
    assert not plain["spec"].keys() & {"priorityClassName", "preemptibility"}


def required(key: str) -> Object:
    return {"packConstraint": {"required": key}}


def test_topology_constraints_of_all_three_levels() -> None:
    """A set in one block, its scaling group's replicas in a rack each, a clique's pods on a host each (TAS8)."""
    paper, cluster = filled(kai_set(clique("p", 2), clique("d", 2), groups=[group("g", ["p", "d"], 2, 2)])), installed()
    gang = podgang(paper, "web-0")
    wire = gang.wire
    wire["metadata"]["annotations"]["grove.io/topology-name"] = "racks"
    names = [one["name"] for one in wire["spec"]["podgroups"]]
    wire["spec"]["topologyConstraint"] = {"packConstraint": {"required": "block", "preferred": "rack"}}
    wire["spec"]["topologyConstraintGroupConfigs"] = [
        {"name": "web-0-g-0", "podGroupNames": names[:2], "topologyConstraint": required("rack")},
        {"name": "web-0-g-1", "podGroupNames": names[2:], "topologyConstraint": required("rack")},
        {"name": "empty", "podGroupNames": [], "topologyConstraint": required("rack")},
    ]
    wire["spec"]["podgroups"][0]["topologyConstraint"] = required("host")
    found = made(KAI, cluster, view(paper, cluster, "web-0", type(gang).from_wire(wire)), PODGROUP)
    assert found["spec"]["topologyConstraint"] == {
        "topology": "racks",
        "requiredTopologyLevel": "block",
        "preferredTopologyLevel": "rack",
    }
    rack, host = ({"topology": "racks", "requiredTopologyLevel": level} for level in ("rack", "host"))
    assert subgroups(found) == {
        "web-0-g-0": {"minSubGroup": 2, "topologyConstraint": rack},
        "web-0-g-1": {"minSubGroup": 2, "topologyConstraint": rack},
        names[0]: {"minMember": 2, "parent": "web-0-g-0", "topologyConstraint": host},
        names[1]: {"minMember": 2, "parent": "web-0-g-0"},
        names[2]: {"minMember": 2, "parent": "web-0-g-1"},
        names[3]: {"minMember": 2, "parent": "web-0-g-1"},
    }
    assert found["spec"]["minMember"] == 8


def test_constraints_without_a_topology_keep_the_gates_on_and_say_why() -> None:
    paper, cluster = filled(kai_set(clique("a", 2))), installed()
    gang = view(paper, cluster, "web-0", podgang(paper, "web-0", topologyConstraint=required("rack")))
    todo = KAI.decide(gang)
    assert todo.writes == ()
    assert todo.hold == {pod.name for pod in paper.pods["uid-web-0-a"]}
    assert "no topology is named in its annotation grove.io/topology-name" in KAI.placement(gang).reason


# -- queues ------------------------------------------------------------------------------------------------------------


def named(on_set: tuple[str, str] = ("", ""), **on_cliques: tuple[str, str]) -> Object:
    """A set with cliques a and b; each place names its queue as (label, annotation)."""

    def tags(label: str, annotation: str) -> Object:
        return {"labels": {QUEUED: label} if label else {}, "annotations": {QUEUED: annotation} if annotation else {}}

    cliques = [clique(name, 1, **tags(*on_cliques.get(name, ("", "")))) for name in ("a", "b")]
    result = kai_set(*cliques, queue="")
    result["metadata"] |= tags(*on_set)
    return result


@pytest.mark.parametrize(
    ("obj", "queue"),
    [
        (named(("s", "")), "s"),
        (named(("", "s")), "s"),
        (named(("s", "other")), "s"),
        (named(("s", ""), a=("s", ""), b=("", "s")), "s"),
        (named(a=("c", ""), b=("c", "")), "c"),
        (named(a=("c", "")), "c"),
        (named(b=("", "c")), "c"),
    ],
)
def test_one_queue_is_found(obj: Object, queue: str) -> None:
    cluster = installed("0.15", queue)
    assert findings(KAI, cluster, obj) == []
    assert made(KAI, cluster, view(filled(obj), cluster, "web-0"), PODGROUP)["spec"]["queue"] == queue


CLIQUES = "spec.template.cliques"


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (named(), f"metadata.labels[{QUEUED}]: Required value: kai-scheduler needs a queue"),
        (
            named(("s", ""), b=("c", "")),
            f'{CLIQUES}[1].labels[{QUEUED}]: Invalid value: "c": all pods of a set are in one queue',
        ),
        (
            named(("", "s"), a=("", "c")),
            f'{CLIQUES}[0].annotations[{QUEUED}]: Invalid value: "c": all pods of a set are in one queue',
        ),
        (
            named(a=("x", ""), b=("y", "")),
            f'{CLIQUES}[1].labels[{QUEUED}]: Invalid value: "y": all pods of a set are in one queue',
        ),
    ],
)
def test_none_or_several_queues_are_refused_and_no_podgroup_is_made(obj: Object, problem: str) -> None:
    cluster, paper = installed("0.15", "s", "c", "x", "y"), filled(obj)
    (found,) = findings(KAI, cluster, obj)
    assert found.startswith(problem)
    gang = view(paper, cluster, "web-0")
    todo = KAI.decide(gang)
    assert todo.writes == ()
    assert len(todo.hold) == 2
    assert KAI.placement(gang).reason.startswith(problem)


def test_a_podgroup_that_is_there_stays_when_the_set_loses_its_queue() -> None:
    cluster = installed()
    made(KAI, cluster, view(filled(named(("s", ""))), cluster, "web-0"), PODGROUP)
    todo = KAI.decide(view(filled(named()), cluster, "web-0"))
    assert (todo.writes, todo.hold) == ((), frozenset())


def test_a_queue_that_is_not_there_is_no_error_but_the_reason_of_waiting() -> None:
    cluster, obj = installed("0.15", "other"), kai_set(clique("a", 1), queue="test")
    told = f'metadata.labels[{QUEUED}]: KAI has no Queue "test": pods wait until it has'
    assert findings(KAI, cluster, obj) == [told]
    assert isinstance(next(iter(KAI.validate(Field(obj), cluster))), FieldWarning)
    gang = view(filled(obj), cluster, "web-0")
    assert made(KAI, cluster, gang, PODGROUP)["spec"]["queue"] == "test"
    assert KAI.placement(gang).reason == 'KAI has no Queue "test"'
    cluster.put(QUEUE, {"metadata": {"name": "test"}})
    assert KAI.placement(gang).reason == ""


# -- versions ----------------------------------------------------------------------------------------------------------


def test_an_older_kai_makes_the_podgroups_itself() -> None:
    """No annotation and no PodGroup: the pod grouper goes by the PodGang."""
    cluster, obj = installed("0.14"), kai_set(clique("a", 2))
    paper = filled(obj)
    assert KAI.missing(cluster) == ""
    podclique = paper.podcliques["web-0-a"]
    plain = build_pod(podclique, 0, "x", None)
    assert KAI.prepare_pod(build_pod(podclique, 0, "x", None), Slot(paper.template, podclique, 0, cluster)) == plain
    settled(KAI, cluster, view(paper, cluster, "web-0"))


def test_after_a_downgrade_our_podgroups_go_and_others_stay() -> None:
    paper, cluster = filled(kai_set(clique("a", 2))), installed()
    ours = made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    cluster.install(kai_podgroups("0.14"), PODGROUP)
    (write,) = KAI.decide(view(paper, cluster, "web-0")).writes
    assert isinstance(write, Delete)
    assert (write.name, write.uid) == ("web-0", "uid-web-0")
    ours["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    settled(KAI, cluster, view(paper, cluster, "web-0"))


def test_what_kai_lacks_is_told() -> None:
    cluster = Shown()
    assert "may not read CustomResourceDefinitions" in KAI.missing(cluster)
    cluster.install(kai_podgroups(), PODGROUP)
    assert KAI.missing(cluster) == ""
    cluster.served.discard(PODGROUP)
    assert "does not serve podgroups.scheduling.run.ai in version v2alpha2" in KAI.missing(cluster)
    cluster.objects.clear()
    assert "no CustomResourceDefinition podgroups.scheduling.run.ai" in KAI.missing(cluster)


# -- what KAI says -----------------------------------------------------------------------------------------------------


def test_why_a_gang_is_not_placed_is_read_back() -> None:
    paper, cluster = filled(kai_set(clique("a", 2))), installed("0.15", "test")
    live = made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    assert KAI.placement(view(paper, cluster, "web-0")).reason == ""
    said = {"type": "UnschedulableOnNodePool", "nodePool": "default", "status": "True"}
    messages = ["no node has 2 GPUs.", "the queue is over its limit."]
    live["status"] = {"schedulingConditions": [{**said, "reasons": [{"message": one} for one in messages]}]}
    assert KAI.placement(view(paper, cluster, "web-0")).reason == "no node has 2 GPUs; the queue is over its limit"
    live["status"]["schedulingConditions"][0]["status"] = "False"
    assert KAI.placement(view(paper, cluster, "web-0")).reason == ""
    live["status"]["schedulingConditions"][0] = {**said, "message": "old words"}
    assert KAI.placement(view(paper, cluster, "web-0")).reason == "old words"
    paper.fill(ready=True)
    assert KAI.placement(view(paper, cluster, "web-0")).reason == ""


def test_labels_that_others_match_are_those_of_kai() -> None:
    assert (labels.KAI_QUEUE, labels.KAI_SKIP_PODGROUPER, labels.KAI_POD_GROUP_NAME) == (QUEUED, SKIP, "pod-group-name")


def test_a_gang_is_guaranteed_unless_there_can_be_no_podgroup() -> None:
    cluster = installed()
    gang = view(filled(named(a=("x", ""), b=("y", ""))), cluster, "web-0")
    (wanted,) = KAI.placement(gang).conditions
    assert (wanted.type, wanted.status, wanted.reason) == ("GangGuaranteed", False, "NoGangScheduling")
    assert "all pods of a set are in one queue" in wanted.message
    paper = filled(named(("s", "")))
    made(KAI, cluster, view(paper, cluster, "web-0"), PODGROUP)
    (wanted,) = KAI.placement(view(paper, cluster, "web-0")).conditions
    assert (wanted.type, wanted.status, wanted.reason) == ("GangGuaranteed", True, "PodGroup")
    paper.fill(ready=True)
    assert KAI.placement(view(paper, cluster, "web-0")).conditions == (wanted,)
