"""What Volcano gets: PodGroups with a policy per PodClique, pods that belong to them, and which queue."""

from typing import Any

import pytest

from grove.plan.pods import build_pod
from grove.runtime.writes import Patch
from grove.schedulers import Slot
from grove.schedulers.volcano import PODGROUP, QUEUE, Volcano
from tests.cluster.scheduler_crds import volcano_podgroups
from tests.unit.schedulers import Shown, filled, findings, made, podgang, settled, view
from tests.unit.support import Object, clique, group, pod_set

VOLCANO = Volcano("volcano", {})
QUEUED = "scheduling.grove.io/volcano-queue"
GROUP_NAMES = ("scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name")


def installed(**queues: str) -> Shown:
    """A cluster with Volcano; `queues` are names and states."""
    cluster = Shown()
    cluster.install(volcano_podgroups(), PODGROUP)
    cluster.served.add(QUEUE)
    for queue, state in ({"default": "Open"} | queues).items():
        shown = next(watch.view for watch in Volcano.watches if watch.resource == QUEUE)
        cluster.put(QUEUE, shown({"metadata": {"name": queue}, "status": {"state": state}}))
    return cluster


def volcano_set(*cliques: Object, queue: str = "", **fields: Any) -> Object:
    """A set whose pods Volcano places."""
    for one in cliques:
        one["spec"]["podSpec"]["schedulerName"] = "volcano"
    result = pod_set(*cliques, **fields)
    result["metadata"]["annotations"] = {QUEUED: queue} if queue else {}
    return result


def policy(podclique: str, needed: int) -> Object:
    return {
        "name": podclique,
        "labelSelector": {"matchLabels": {"grove.io/podclique": podclique}},
        "matchLabelKeys": ["grove.io/podclique"],
        "subGroupSize": needed,
        "minSubGroups": 1,
    }


def test_a_gang_is_one_podgroup_with_a_policy_per_podclique() -> None:
    obj = volcano_set(clique("a", 2, 2), clique("b", 3, 1), groups=[group("g", ["b"], 2, 1)], priorityClassName="high")
    obj["metadata"]["labels"] = {"team": "x"}
    paper, cluster = filled(obj), installed()
    base = made(VOLCANO, cluster, view(paper, cluster, "web-0"), PODGROUP)
    assert (base["apiVersion"], base["kind"]) == ("scheduling.volcano.sh/v1beta1", "PodGroup")
    assert base["spec"] == {
        "minMember": 3,
        "queue": "default",
        "priorityClassName": "high",
        "subGroupPolicy": [policy("web-0-a", 2), policy("web-0-g-0-b", 1)],
    }
    (owner,) = base["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("PodGang", "web-0", "uid-web-0", True)
    assert base["metadata"]["labels"]["team"] == "x"
    assert base["metadata"]["labels"]["grove.io/scheduler-name"] == "volcano"
    scaled = made(VOLCANO, cluster, view(paper, cluster, "web-0-g-0"), PODGROUP)
    assert scaled["spec"]["subGroupPolicy"] == [policy("web-0-g-1-b", 1)]
    assert scaled["spec"]["minMember"] == 1


def test_a_pod_names_its_podgroup_under_both_annotations() -> None:
    paper = filled(volcano_set(clique("a", 1)))
    podclique = paper.podcliques["web-0-a"]
    pod = VOLCANO.prepare_pod(build_pod(podclique, 0, "x", None), Slot(paper.template, podclique, 0, installed()))
    assert pod["metadata"]["annotations"] == dict.fromkeys(GROUP_NAMES, "web-0")


def test_pods_that_name_no_podgroup_join() -> None:
    paper, cluster = filled(volcano_set(clique("a", 2)), joined=False), installed()
    joins = [write for write in VOLCANO.decide(view(paper, cluster, "web-0")).writes if isinstance(write, Patch)]
    assert [write.body for write in joins] == [{"metadata": {"annotations": dict.fromkeys(GROUP_NAMES, "web-0")}}] * 2


def test_minimums_follow_the_podgang_and_stay_while_all_are_released() -> None:
    paper, cluster = filled(volcano_set(clique("a", 3, 2), priorityClassName="high")), installed()
    made(VOLCANO, cluster, view(paper, cluster, "web-0"), PODGROUP)
    for minimum, stands in ((3, 3), (1, 1), (0, 1)):
        groups = [{"name": "web-0-a", "minReplicas": minimum, "podReferences": []}]
        gang = podgang(paper, "web-0", podgroups=groups, priorityClassName="")
        spec = made(VOLCANO, cluster, view(paper, cluster, "web-0", gang), PODGROUP)["spec"]
        assert spec == {"minMember": stands, "queue": "default", "subGroupPolicy": [policy("web-0-a", stands)]}


def test_a_new_podgroup_without_minimums_needs_one_pod_of_any_kind() -> None:
    paper, cluster = filled(volcano_set(clique("a", 3))), installed()
    groups = [{"name": "web-0-a", "minReplicas": 0, "podReferences": []}]
    spec = made(VOLCANO, cluster, view(paper, cluster, "web-0", podgang(paper, "web-0", podgroups=groups)), PODGROUP)
    assert spec["spec"]["minMember"] == 1
    assert spec["spec"]["subGroupPolicy"] == [policy("web-0-a", 1) | {"minSubGroups": 0}]


def test_what_volcano_writes_on_a_podgroup_stays() -> None:
    """Spec and status of Volcano's PodGroups are written as one."""
    paper, cluster = filled(volcano_set(clique("a", 2))), installed()
    live = made(VOLCANO, cluster, view(paper, cluster, "web-0"), PODGROUP)
    live["status"] = {"phase": "Inqueue"}
    live["spec"]["minResources"] = {"cpu": "2"}
    live["metadata"]["annotations"] = {"volcano.sh/x": "y"}
    settled(VOLCANO, cluster, view(paper, cluster, "web-0"))
    groups = [{"name": "web-0-a", "minReplicas": 1, "podReferences": []}]
    live = made(VOLCANO, cluster, view(paper, cluster, "web-0", podgang(paper, "web-0", podgroups=groups)), PODGROUP)
    assert live["status"] == {"phase": "Inqueue"}
    assert live["spec"]["minResources"] == {"cpu": "2"}


# -- queues ------------------------------------------------------------------------------------------------------------


def named(on_set: str = "", a: str = "", b: str = "") -> Object:
    cliques = [clique(name, 1, annotations={QUEUED: queue} if queue else {}) for name, queue in (("a", a), ("b", b))]
    return volcano_set(*cliques, queue=on_set)


@pytest.mark.parametrize(
    ("obj", "queue"),
    [
        (named(), "default"),
        (named("q"), "q"),
        (named(" q "), "q"),
        (named("q", a="q", b=" q"), "q"),
        (named(a="q", b="q"), "q"),  # the Go operator checks this one and then uses `default`
        (named("default", a="default"), "default"),
    ],
)
def test_one_queue_is_found(obj: Object, queue: str) -> None:
    cluster = installed(q="Open")
    assert findings(VOLCANO, cluster, obj) == []
    assert made(VOLCANO, cluster, view(filled(obj), cluster, "web-0"), PODGROUP)["spec"]["queue"] == queue


ON_SET = f"metadata.annotations[{QUEUED}]"
ON_CLIQUE = f"spec.template.cliques[0].annotations[{QUEUED}]"


@pytest.mark.parametrize(
    ("obj", "problem"),
    [
        (named("q", a="r"), f'{ON_CLIQUE}: Invalid value: "r": all pods of a set are in one queue'),
        (
            named(b="q"),
            f'spec.template.cliques[1].annotations[{QUEUED}]: Invalid value: "q": all pods of a set are in one queue',
        ),
        (named("No_Name"), f'{ON_SET}: Invalid value: "No_Name": must be at most 253 lower case letters'),
        (named("gone"), f'{ON_SET}: Invalid value: "gone": there is no Volcano Queue gone'),
        (named("shut"), f'{ON_SET}: Invalid value: "shut": the Volcano Queue shut must be Open, and is Closed'),
    ],
)
def test_other_queues_are_refused(obj: Object, problem: str) -> None:
    (found,) = findings(VOLCANO, installed(q="Open", r="Open", shut="Closed"), obj)
    assert found.startswith(problem)


def test_queues_are_not_judged_where_nothing_is_known_of_them() -> None:
    assert findings(VOLCANO, Shown(), named("gone")) == []


def test_two_queues_make_no_podgroup() -> None:
    gang = view(filled(named("q", a="r")), installed(q="Open", r="Open"), "web-0")
    todo = VOLCANO.decide(gang)
    assert (todo.writes, len(todo.hold)) == ((), 2)
    assert VOLCANO.placement(gang).reason.startswith(ON_CLIQUE)


# -- versions, and what Volcano says -----------------------------------------------------------------------------------


def test_what_volcano_lacks_is_told() -> None:
    cluster = Shown()
    assert "may not read CustomResourceDefinitions" in VOLCANO.missing(cluster)
    cluster.install(volcano_podgroups(subgroups=False), PODGROUP)
    assert VOLCANO.missing(cluster).endswith("have no spec.subGroupPolicy, which came with version 1.14")
    cluster.install(volcano_podgroups(), PODGROUP)
    assert VOLCANO.missing(cluster) == ""
    cluster.served.discard(PODGROUP)
    assert "does not serve podgroups.scheduling.volcano.sh" in VOLCANO.missing(cluster)


def test_why_a_gang_is_not_placed_is_read_back() -> None:
    paper, cluster = filled(volcano_set(clique("a", 2))), installed()
    live = made(VOLCANO, cluster, view(paper, cluster, "web-0"), PODGROUP)
    assert VOLCANO.placement(view(paper, cluster, "web-0")).reason == ""
    said = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources"}
    live["status"] = {"conditions": [{**said, "message": "2/2 tasks in gang unschedulable."}]}
    assert VOLCANO.placement(view(paper, cluster, "web-0")).reason == "2/2 tasks in gang unschedulable"
    live["status"] = {"conditions": [said]}
    assert VOLCANO.placement(view(paper, cluster, "web-0")).reason == "NotEnoughResources"
    live["status"] = {"conditions": [{**said, "type": "Scheduled"}]}
    assert VOLCANO.placement(view(paper, cluster, "web-0")).reason == ""
    cluster.objects[QUEUE, "", "default"]["state"] = "Closing"
    assert "Queue default must be Open, and is Closing" in VOLCANO.placement(view(paper, cluster, "web-0")).reason
    paper.fill(ready=True)
    assert VOLCANO.placement(view(paper, cluster, "web-0")).reason == ""


def test_a_gang_is_guaranteed_unless_there_can_be_no_podgroup() -> None:
    cluster = installed()
    gang = view(filled(named("q", a="r")), cluster, "web-0")
    (wanted,) = VOLCANO.placement(gang).conditions
    assert (wanted.type, wanted.status, wanted.reason) == ("GangGuaranteed", False, "NoGangScheduling")
    assert "all pods of a set are in one queue" in wanted.message
    paper = filled(named())
    made(VOLCANO, cluster, view(paper, cluster, "web-0"), PODGROUP)
    (wanted,) = VOLCANO.placement(view(paper, cluster, "web-0")).conditions
    assert (wanted.type, wanted.status, wanted.reason) == ("GangGuaranteed", True, "PodGroup")
    paper.fill(ready=True)
    assert VOLCANO.placement(view(paper, cluster, "web-0")).conditions == (wanted,)
