"""KAI and Volcano as clusters have them: installed late, removed, of an older version, with queues that are wrong."""

from collections.abc import Iterator

import pytest

from tests.cluster import webhooks
from tests.cluster.conftest import GangCluster
from tests.cluster.gang_scheduler import KAI, VOLCANO, Dialect, GangScheduler
from tests.cluster.harness import ApiStatus
from tests.cluster.scheduler_crds import kai_podgroups, volcano_podgroups
from tests.cluster.schedulers import apply_crd, install, open_queue, remove_crd
from tests.cluster.test_gang_podgroups import for_scheduler
from tests.cluster.workloads import clique, group, partial, podcliqueset
from tests.cluster.workspace import Object, Workspace, condition, gates, is_ready, uid, verdict

BOTH = pytest.mark.parametrize("dialect", [KAI, VOLCANO], ids=lambda dialect: dialect.scheduler)
QUEUE_OF_KAI = "kai.scheduler/queue"
QUEUE_OF_VOLCANO = "scheduling.grove.io/volcano-queue"
SKIP = "kai.scheduler/skip-podgrouper"


@pytest.fixture
def place(gang_workspace: Workspace) -> Iterator[Workspace]:
    """A workspace of a cluster that has both schedulers, before and after the test."""
    for dialect in (KAI, VOLCANO):
        install(gang_workspace.cluster, dialect)
    yield gang_workspace
    for dialect in (KAI, VOLCANO):
        install(gang_workspace.cluster, dialect)


def errors(workspace: Workspace, name: str) -> list[str]:
    """What the set's status says is wrong."""
    return [one["description"] for one in workspace.get("pcs", name).get("status", {}).get("lastErrors", [])]


def runs(workspace: Workspace, scheduler: GangScheduler, name: str, pods: int) -> list[Object]:
    """Let the scheduler work until the set runs so many pods."""

    def look() -> list[Object] | None:
        scheduler.cycle()
        found = workspace.pods(f"app.kubernetes.io/part-of={name}")
        return found if len(found) == pods and all(map(is_ready, found)) else None

    found = workspace.wait(look, f"{name} runs {pods} pods", 120)
    assert found
    return found


@BOTH
def test_a_scheduler_may_come_later(place: Workspace, dialect: Dialect) -> None:
    """Until then no pod is made and the set says what is missing; then all goes on, without a restart."""
    for crd in dialect.crds:
        remove_crd(place.cluster, crd)
    place.create("pcs", for_scheduler(partial(), dialect))
    wanted = f"the cluster has no CustomResourceDefinition {dialect.crds[0]['metadata']['name']}"
    place.wait(lambda: [text for text in errors(place, "workload2") if wanted in text], "the set says what is missing")
    place.wait(
        lambda: [e for e in place.events("workload2", "SchedulerUnavailable") if wanted in e["message"]], "event"
    )
    assert place.pods() == []

    install(place.cluster, dialect)
    runs(place, GangScheduler(place, dialect, 28), "workload2", 10)
    place.wait(lambda: not errors(place, "workload2"), "no error is left")


@BOTH
def test_a_scheduler_may_go_and_come_back(place: Workspace, dialect: Dialect) -> None:
    """What runs goes on; the PodGroups are made again, of the same shape."""
    scheduler = GangScheduler(place, dialect, 28)
    place.create("pcs", for_scheduler(partial(), dialect))
    before = {uid(pod) for pod in runs(place, scheduler, "workload2", 10)}
    shapes = scheduler.podgroups()
    remove_crd(place.cluster, dialect.crds[0])
    place.wait(lambda: errors(place, "workload2"), "the set says what is missing")
    assert {uid(pod) for pod in place.pods() if is_ready(pod)} == before

    install(place.cluster, dialect)
    place.wait(lambda: scheduler.podgroups() == shapes, "the PodGroups are back")
    place.wait(lambda: not errors(place, "workload2"), "no error is left")
    assert {uid(pod) for pod in place.pods() if is_ready(pod)} == before


def test_a_volcano_without_subgroup_policies_is_too_old(place: Workspace) -> None:
    apply_crd(place.cluster, volcano_podgroups(subgroups=False))
    place.create("pcs", for_scheduler(podcliqueset("v", clique("a", 1)), VOLCANO))
    place.wait(
        lambda: [text for text in errors(place, "v") if "no spec.subGroupPolicy, which came with" in text], "told"
    )
    assert place.pods() == []
    apply_crd(place.cluster, volcano_podgroups())
    runs(place, GangScheduler(place, VOLCANO, 28), "v", 1)


def test_an_older_kai_groups_pods_itself_and_a_newer_one_takes_over(place: Workspace) -> None:
    """Before 0.15 pods are left to the pod grouper and there is no PodGroup of ours; an upgrade moves the pods over."""
    apply_crd(place.cluster, kai_podgroups("0.14"))
    place.create("pcs", for_scheduler(podcliqueset("k", clique("a", 2), clique("b", 1)), KAI))

    def released() -> list[Object] | None:
        pods = place.pods()
        return pods if len(pods) == 3 and not any(map(gates, pods)) else None

    pods = place.wait(released, "the gates are off")
    assert pods
    assert place.items("kai") == []
    for pod in pods:  # what the pod grouper goes by, and nothing that would keep it off
        assert pod["metadata"]["labels"]["grove.io/podgang"] == "k-0"
        assert SKIP not in pod["metadata"].get("annotations", {})
        assert "kai.scheduler/subgroup-name" not in pod["metadata"]["labels"]
    gang = place.get("pg", "k-0")
    assert {one["name"]: one["minReplicas"] for one in gang["spec"]["podgroups"]} == {"k-0-a": 2, "k-0-b": 1}
    assert SKIP not in gang["metadata"].get("annotations", {})
    # The pod grouper does its work.
    name = f"pg-k-0-{uid(gang)}"
    for pod in pods:
        place.patch("pod", pod["metadata"]["name"], {"metadata": {"annotations": {"pod-group-name": name}}})

    apply_crd(place.cluster, kai_podgroups())
    scheduler = GangScheduler(place, KAI, 28)
    assert {uid(pod) for pod in runs(place, scheduler, "k", 3)} == {uid(pod) for pod in pods}
    assert scheduler.podgroups() == {"k-0": {"k-0-a": 2, "k-0-b": 1}}
    assert scheduler.bound == {("k-0", "k-0-a"): 2, ("k-0", "k-0-b"): 1}

    apply_crd(place.cluster, kai_podgroups("0.14"))
    place.wait(lambda: place.items("kai") == [], "after a downgrade the PodGroup is left to the pod grouper")


def test_podgroups_are_whole_and_idle(place: Workspace) -> None:
    """One owner, the set's labels, and no write while nothing happens, whatever KAI writes on the PodGroup."""
    obj = for_scheduler(podcliqueset("i", clique("a", 2, 1)), KAI)
    del obj["spec"]["template"]["cliques"][0]["labels"]
    obj["metadata"]["labels"] = {"team": "x", QUEUE_OF_KAI: "test"}
    obj["metadata"]["annotations"] = {"note": "y"}
    place.create("pcs", obj)
    runs(place, GangScheduler(place, KAI, 28), "i", 2)
    podgroup = place.get("kai", "i-0")
    gang = place.until("pg", "i-0", lambda one: verdict(one, "GangGuaranteed") == ("True", "PodGroup"), "is guaranteed")
    (owner,) = podgroup["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"], owner["controller"]) == ("PodGang", "i-0", uid(gang), True)
    assert (
        podgroup["metadata"]["labels"].items()
        >= {
            "team": "x",
            "app.kubernetes.io/managed-by": "grove-operator",
            "app.kubernetes.io/part-of": "i",
            "app.kubernetes.io/component": "podgang",
            "grove.io/scheduler-name": "kai-scheduler",
        }.items()
    )
    assert podgroup["metadata"]["annotations"]["note"] == "y"
    assert SKIP not in podgroup["metadata"]["annotations"]
    assert podgroup["spec"] == {
        "minMember": 1,
        "queue": "test",
        "subGroups": [{"name": "i-0-a", "minMember": 1}],
        "topologyConstraint": {},
    }

    said = {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [{"message": "no node is free"}]}
    place.patch("kai", "i-0", {"status": {"schedulingConditions": [said]}}, "status")
    theirs = {"queue": "moved", "markUnschedulable": True, "schedulingBackoff": 1}
    tags = {QUEUE_OF_KAI: "moved", "kai.scheduler/node-pool": "gpu"}
    moved = place.patch("kai", "i-0", {"spec": theirs, "metadata": {"labels": tags}})
    # Something else makes the operator look at the gang again.
    place.patch("pcs", "i", {"metadata": {"annotations": {"note": "z"}}})
    place.until("kai", "i-0", lambda one: one["metadata"]["annotations"]["note"] == "z", "follows the set")
    after = place.get("kai", "i-0")
    assert after["spec"] == moved["spec"]
    assert after["metadata"]["labels"] == moved["metadata"]["labels"]
    place.patch("pcs", "i", {"metadata": {"labels": {QUEUE_OF_KAI: "other"}}})
    place.until("kai", "i-0", lambda one: one["spec"]["queue"] == "other", "goes to the queue that the set names now")
    place.delete("pcs", "i")
    place.gone("i")
    place.wait(lambda: place.find("kai", "i-0") is None, "the PodGroup goes with its gang")


def test_an_adopted_podgroup_is_taken_as_it_is(place: Workspace) -> None:
    """The Go operator left a PodGroup without the label by which we watch: it is found, labelled and not made anew."""
    place.create("pcs", for_scheduler(podcliqueset("o", clique("a", 1)), KAI))
    runs(place, GangScheduler(place, KAI, 28), "o", 1)
    with place.operator.stopped():
        foreign = place.patch("kai", "o-0", {"metadata": {"labels": {"grove.io/podgang": None}}})
        place.patch("kai", "o-0", {"metadata": {"annotations": {"grove.io/template-queue": None}}})
    found = place.until("kai", "o-0", lambda one: "grove.io/podgang" in one["metadata"]["labels"], "is labelled")
    assert uid(found) == uid(foreign)
    place.until("kai", "o-0", lambda one: "grove.io/template-queue" in one["metadata"]["annotations"], "is ours")


# -- queues ------------------------------------------------------------------------------------------------------------


def test_a_set_without_a_queue_says_so_and_goes_on_once_it_has_one(place: Workspace) -> None:
    obj = for_scheduler(podcliqueset("q", clique("a", 2)), KAI)
    del obj["spec"]["template"]["cliques"][0]["labels"]
    place.create("pcs", obj)
    wanted = f"metadata.labels[{QUEUE_OF_KAI}]: Required value: kai-scheduler needs a queue"
    place.wait(lambda: [text for text in errors(place, "q") if text.startswith(wanted)], "lastErrors tell")
    place.wait(
        lambda: [e for e in place.events("q", "InvalidSpec") if e["message"].startswith(wanted)], "an event tells"
    )
    assert all(gates(pod) for pod in place.pods())
    assert place.items("kai") == []

    place.patch("pcs", "q", {"metadata": {"labels": {QUEUE_OF_KAI: "test"}}})
    runs(place, GangScheduler(place, KAI, 28), "q", 2)
    assert place.get("kai", "q-0")["spec"]["queue"] == "test"
    place.wait(lambda: not errors(place, "q"), "no error is left")


def test_cliques_of_two_queues_make_no_podgroup(place: Workspace) -> None:
    cliques = [clique(name, 1, labels={QUEUE_OF_KAI: queue}) for name, queue in (("a", "x"), ("b", "y"))]
    for one in cliques:
        one["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    place.create("pcs", podcliqueset("t", *cliques))
    wanted = f'spec.template.cliques[1].labels[{QUEUE_OF_KAI}]: Invalid value: "y"'
    place.wait(lambda: [text for text in errors(place, "t") if text.startswith(wanted)], "lastErrors tell")
    assert all(gates(pod) for pod in place.pods())
    assert place.items("kai") == []


def test_a_queue_of_volcano_that_is_missing_or_closed_is_told(place: Workspace) -> None:
    obj = for_scheduler(podcliqueset("c", clique("a", 1)), VOLCANO)
    obj["metadata"]["annotations"] = {QUEUE_OF_VOLCANO: f"of-{place.namespace}"}
    place.create("pcs", obj)
    queue = f"of-{place.namespace}"
    place.wait(lambda: [text for text in errors(place, "c") if f"no Volcano Queue {queue}" in text], "missing")
    open_queue(place.cluster, VOLCANO, queue, "Closed")
    place.wait(lambda: [text for text in errors(place, "c") if "must be Open, and is Closed" in text], "closed")
    open_queue(place.cluster, VOLCANO, queue)
    place.wait(lambda: not errors(place, "c"), "no error is left")
    assert place.get("vc", "c-0")["spec"]["queue"] == queue


def test_admission_refuses_queues_that_are_wrong(place: Workspace, gang_cluster: GangCluster) -> None:
    webhooks.install(place.cluster, gang_cluster.port)
    try:
        webhooks.wait_called(place.cluster)
        kai = for_scheduler(podcliqueset("k", clique("a", 1)), KAI)
        assert webhooks.refusal(place.cluster, kai, place.namespace) == ""
        del kai["spec"]["template"]["cliques"][0]["labels"]
        refusal = webhooks.refusal(place.cluster, kai, place.namespace)
        assert f"metadata.labels[{QUEUE_OF_KAI}]: Required value: kai-scheduler needs a queue" in refusal

        volcano = for_scheduler(podcliqueset("v", clique("a", 1)), VOLCANO)
        assert webhooks.refusal(place.cluster, volcano, place.namespace) == ""
        queue = f"shut-{place.namespace}"
        volcano["metadata"]["annotations"] = {QUEUE_OF_VOLCANO: queue}
        where = f'metadata.annotations[{QUEUE_OF_VOLCANO}]: Invalid value: "{queue}": '
        refusal = webhooks.refusal(place.cluster, volcano, place.namespace)
        assert f"{where}there is no Volcano Queue {queue}" in refusal
        open_queue(place.cluster, VOLCANO, queue, "Closed")
        place.wait(
            lambda: (
                f"{where}the Volcano Queue {queue} must be Open, and is Closed"
                in webhooks.refusal(place.cluster, volcano, place.namespace)
            ),
            "closed queues are refused",
        )
        open_queue(place.cluster, VOLCANO, queue)
        place.wait(lambda: not webhooks.refusal(place.cluster, volcano, place.namespace), "open ones are taken")
    finally:
        webhooks.uninstall(place.cluster)


# -- shapes ------------------------------------------------------------------------------------------------------------

SHAPES: dict[str, tuple[Object, dict[str, dict[str, int]]]] = {
    "TAS2": (
        podcliqueset("s", clique("worker-rack", 3), clique("worker-block", 4)),
        {"s-0": {"s-0-worker-rack": 3, "s-0-worker-block": 4}},
    ),
    "TAS3": (
        podcliqueset("s", clique("worker", 1), clique("router", 2), group("workers", "worker", 2, 2)),
        {"s-0": {"s-0-router": 2, "s-0-workers-0-worker": 1, "s-0-workers-1-worker": 1}},
    ),
    "TAS10": (
        podcliqueset("s", clique("worker", 2), group("ig", "worker", 3, 1)),
        {
            "s-0": {"s-0-ig-0-worker": 2},
            "s-0-ig-0": {"s-0-ig-1-worker": 2},
            "s-0-ig-1": {"s-0-ig-2-worker": 2},
        },
    ),
    "TAS14": (
        podcliqueset("s", clique("worker", 2), replicas=2),
        {"s-0": {"s-0-worker": 2}, "s-1": {"s-1-worker": 2}},
    ),
    "TAS15": (
        podcliqueset(
            "s",
            *(clique(name, 1) for name in ("dl", "dw", "pl", "pw")),
            clique("router", 2),
            group("decoder", "dl dw", 2, 1),
            group("prefill", "pl pw", 2, 1),
        ),
        {
            "s-0": {
                "s-0-router": 2,
                "s-0-decoder-0-dl": 1,
                "s-0-decoder-0-dw": 1,
                "s-0-prefill-0-pl": 1,
                "s-0-prefill-0-pw": 1,
            },
            "s-0-decoder-0": {"s-0-decoder-1-dl": 1, "s-0-decoder-1-dw": 1},
            "s-0-prefill-0": {"s-0-prefill-1-pl": 1, "s-0-prefill-1-pw": 1},
        },
    ),
}
"""Sets of the reference's topology cases, without their constraints, and their PodGroups."""


@BOTH
@pytest.mark.parametrize("case", SHAPES)
def test_podgroups_of_the_topology_cases(place: Workspace, case: str, dialect: Dialect) -> None:
    workload, wanted = SHAPES[case]
    scheduler = GangScheduler(place, dialect, 28)
    place.create("pcs", for_scheduler(workload, dialect))
    pods = sum(sum(group.values()) for group in wanted.values())
    runs(place, scheduler, "s", pods)
    assert scheduler.podgroups() == wanted


# -- what people reported ----------------------------------------------------------------------------------------------


def test_what_kai_says_is_repeated_by_the_podgang(place: Workspace) -> None:
    place.create("pcs", for_scheduler(podcliqueset("w", clique("a", 2)), KAI))
    place.wait(lambda: place.get("kai", "w-0"), "the PodGroup is there")
    said = {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [{"message": "no node has 2 GPUs."}]}
    place.patch("kai", "w-0", {"status": {"schedulingConditions": [said]}}, "status")
    wanted = "w-0-a has 0 of 2; the scheduler says: no node has 2 GPUs"
    place.until("pg", "w-0", lambda gang: wanted in condition(gang, "Scheduled")["message"], "repeats it")
    runs(place, GangScheduler(place, KAI, 28), "w", 2)
    place.until("pg", "w-0", lambda gang: gang["status"]["phase"] == "Running", "and forgets it")


def test_what_volcano_says_is_repeated_by_the_podgang(place: Workspace) -> None:
    place.create("pcs", for_scheduler(podcliqueset("w", clique("a", 2)), VOLCANO))
    place.wait(lambda: place.get("vc", "w-0"), "the PodGroup is there")
    said = {"type": "Unschedulable", "status": "True", "message": "2/2 tasks in gang unschedulable"}
    place.patch("vc", "w-0", {"status": {"phase": "Inqueue", "conditions": [said]}})
    wanted = "w-0-a has 0 of 2; the scheduler says: 2/2 tasks in gang unschedulable"
    place.until("pg", "w-0", lambda gang: wanted in condition(gang, "Scheduled")["message"], "repeats it")
    runs(place, GangScheduler(place, VOLCANO, 28), "w", 2)
    assert place.get("vc", "w-0")["status"]["phase"] == "Inqueue"


def test_a_missing_podgroup_comes_back(place: Workspace) -> None:
    place.create("pcs", for_scheduler(podcliqueset("m", clique("a", 1)), KAI))
    scheduler = GangScheduler(place, KAI, 28)
    runs(place, scheduler, "m", 1)
    first = place.get("kai", "m-0")
    place.delete("kai", "m-0")
    place.until("kai", "m-0", lambda one: uid(one) != uid(first), "is made again")
    assert place.get("kai", "m-0")["spec"] == first["spec"]


def test_the_api_server_refuses_what_kai_would(place: Workspace) -> None:
    """The test's CRD means something: a PodGroup with wrong sub-groups is not stored."""
    bad = {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "bad"},
        "spec": {"minMember": 1, "subGroups": [{"name": "a", "minMember": 1, "parent": "nobody"}]},
    }
    with pytest.raises(ApiStatus) as refused:
        place.create("kai", bad)
    assert "a parent does not exist" in str(refused.value)
