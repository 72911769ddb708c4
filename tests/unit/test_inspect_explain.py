"""Why something is not ready: each cause in a cluster where just that is so, with the operator at work."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from grove.inspect import held
from grove.inspect.explain import Explanation, explain
from grove.inspect.findings import Cause
from grove.inspect.scene import KINDS, scenes
from grove.inspect.scope import ALIASES, scope_of
from grove.inspect.tree import tree
from grove.plan.kinds import POD, PODCLIQUE, PODCLIQUESCALINGGROUP, PODCLIQUESET
from tests.fake_api.simulator import released
from tests.unit.harness import Cluster, in_cluster
from tests.unit.rollouts import changed
from tests.unit.support import Object, Paper, clique, group, pod_set, pod_wire

HOLD = "example.com/hold"


def ask(cluster: Cluster, kind: str, name: str, events: dict[str, list[Object]] | None = None) -> Explanation:
    """The explanation of an object, whose set is web."""
    found = {resource: cluster.api.objects(resource, "default") for resource in KINDS}
    (scene,) = (one for one in scenes(found) if one.template.name == "web")
    scope = scope_of(scene, ALIASES[kind], name, events)
    assert scope is not None, f"there is no {kind} {name}"
    return explain(scope)


def told(explanation: Explanation) -> str:
    return "\n".join(explanation.lines())


def owner(pod: Object) -> str:
    return str(pod["metadata"]["labels"]["grove.io/podclique"])


def unplaced(cluster: Cluster, *podcliques: str, message: str = "") -> None:
    """Find no node for pods of these PodCliques; the scheduler says so, if it says anything."""
    cluster.pods.schedulable = lambda pod: owner(pod) not in podcliques
    cluster.api.listeners.append(lambda change: _refuse(cluster, change.new, podcliques, message))


def _refuse(cluster: Cluster, pod: Object | None, podcliques: tuple[str, ...], message: str) -> None:
    if not message or pod is None or pod.get("kind") != "Pod" or owner(pod) not in podcliques:
        return
    if pod["spec"].get("nodeName"):
        return
    conditions = (pod.get("status") or {}).get("conditions") or []
    if pod["spec"].get("schedulingGates") or any(one.get("message") == message for one in conditions):
        return
    others = [one for one in conditions if one["type"] != "PodScheduled"]
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    cluster.patch(POD, pod["metadata"]["name"], {"status": {"conditions": [*others, refusal]}}, status=True)


NO_ROOM = "0/10 nodes are available: 10 Insufficient nvidia.com/gpu."


@in_cluster
async def test_what_is_well(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2), clique("b", 1), clique("c", 0), groups=[group("g", ["b"], 1)])
    await cluster.up(obj)
    for kind, name, text in (
        ("pcs", "web", "PodCliqueSet default/web: is well: 3 pods of 3 ready"),
        ("pclq", "web-0-a", "PodClique default/web-0-a: is well: 2 pods of 2 ready"),
        ("pcsg", "web-0-g", "PodCliqueScalingGroup default/web-0-g: is well: 1 pod of 1 ready"),
        ("pg", "web-0", "PodGang default/web-0: is well: 3 pods of 3 ready"),
        ("pclq", "web-0-c", "PodClique default/web-0-c: is idle: 0 replicas are asked for"),
    ):
        assert told(ask(cluster, kind, name)) == text
    (pod,) = cluster.pods_of("web-0-g-0-b")
    answer = ask(cluster, "pod", pod["metadata"]["name"])
    assert (answer.cause, answer.sentence) == (Cause.NONE, f"is ready on {pod['spec']['nodeName']}")


@in_cluster
async def test_pods_that_are_refused(cluster: Cluster) -> None:
    cluster.api.faults.refuse(403, "Forbidden", verb="create", resource="pods", skip=2, times=None)
    cluster.create(pod_set(clique("a", 3), clique("b", 1)))
    await cluster.rest(30)
    have = {name: len(cluster.pods_of(name)) for name in ("web-0-a", "web-0-b")}
    assert sum(have.values()) == 2
    answer = ask(cluster, "pcs", "web")
    wanted = {"web-0-a": "3 pods", "web-0-b": "1 pod"}
    starts = [f"what {name} needs is refused: {name} has {have[name]} of {wanted[name]}; " for name in have]
    assert answer.cause == Cause.REFUSED
    assert answer.sentence.startswith(tuple(starts)), answer.sentence
    assert all("PodClique web-0-" in line and "ERR_CREATE_POD" in line for line in answer.evidence)
    held = next(pod for name in have for pod in cluster.pods_of(name))
    assert ask(cluster, "pod", held["metadata"]["name"]).cause == Cause.REFUSED, "its gang waits for it too"


def test_what_to_do_about_a_refusal() -> None:
    quota = 'pods "x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=1, limited: pods=1'
    security = 'pods "x" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false'
    webhook = 'admission webhook "policy.example.com" denied the request: no'
    for text, advice in ((quota, "raise the ResourceQuota"), (security, "Pod Security level"), (webhook, "webhook")):
        assert advice in held.remedy(text), text


@in_cluster
async def test_an_operator_that_does_nothing(cluster: Cluster) -> None:
    await cluster.end()
    cluster.create(pod_set(clique("a", 1)))
    answer = ask(cluster, "pcs", "web")
    assert answer.cause == Cause.NOT_OBSERVED
    assert "the operator has not worked on it yet" in answer.sentence


@in_cluster
async def test_a_gang_that_is_not_complete_and_the_gang_after_it(cluster: Cluster) -> None:
    """The scaled gang is complete and waits for its base gang; the base gang has no room."""
    unplaced(cluster, "web-0-a", message=NO_ROOM)
    cluster.create(pod_set(clique("a", 2), clique("b", 1), groups=[group("g", ["b"], 2, 1)]))
    await cluster.rest(30)
    (pod,) = cluster.pods_of("web-0-g-1-b")
    for kind, name in (("pod", pod["metadata"]["name"]), ("pclq", "web-0-g-1-b"), ("pg", "web-0-g-0")):
        answer = ask(cluster, kind, name)
        assert answer.cause == Cause.BASE_GANG, answer
        assert answer.sentence == "PodGang web-0-g-0 waits until its base gang web-0 is scheduled"
        assert f"web-0: no place for 2 of web-0-a; the scheduler says: {NO_ROOM}" in answer.evidence
        assert answer.advice == ("free or add nodes that fit what the pods ask for, or let them ask for less",)
    answer = ask(cluster, "pcs", "web")
    assert (answer.cause, answer.sentence) == (
        Cause.UNSCHEDULABLE, f"no place for 2 of web-0-a; the scheduler says: {NO_ROOM}"
    )  # fmt: skip
    assert "web-0-a has 0 of 2 pods on nodes" in answer.evidence
    assert "scheduler: default-scheduler" in answer.evidence
    mine = cluster.pods_of("web-0-a")[0]["metadata"]["name"]
    assert ask(cluster, "pod", mine).sentence == f"no place for this pod; the scheduler says: {NO_ROOM}"


@in_cluster
async def test_pods_that_nobody_makes(cluster: Cluster) -> None:
    """The operator died in the middle: two of three pods are there, gated, and nothing was refused."""
    cluster.api.faults.refuse(500, "InternalError", verb="create", resource="pods", skip=2, times=None)
    cluster.create(pod_set(clique("a", 3)))
    await cluster.rest(0.2)
    await cluster.end(kill=True)
    cluster.patch(PODCLIQUE, "web-0-a", {"status": {"lastErrors": None}}, status=True)
    cluster.patch(PODCLIQUESET, "web", {"status": {"lastErrors": None}}, status=True)
    answer = ask(cluster, "pclq", "web-0-a")
    assert answer.cause == Cause.GANG_INCOMPLETE
    assert answer.sentence == "PodGang web-0 waits for pods to be created: web-0-a has 2 of 3"
    assert answer.evidence == ("gate grove.io/podgang-pending-creation holds 2 pods of web-0",)


@in_cluster
async def test_gates_of_others(cluster: Cluster) -> None:
    a = clique("a", 2)
    a["spec"]["podSpec"]["schedulingGates"] = [{"name": HOLD}]
    unplaced(cluster, "web-0-b")
    cluster.create(pod_set(a, clique("b", 1)))
    await cluster.rest(30)
    text = f"scheduling gate {HOLD} holds 2 pods of web-0-a; Grove removes its own gate only"
    for kind, name in (("pcs", "web"), ("pg", "web-0"), ("pclq", "web-0-a"), ("pclq", "web-0-b")):
        answer = ask(cluster, kind, name)
        assert (answer.cause, answer.sentence) == (Cause.FOREIGN_GATE, text), (kind, name)
        assert "the template of clique a asks for it" in answer.advice[0]
    one = ask(cluster, "pod", cluster.pods_of("web-0-a")[0]["metadata"]["name"])
    assert (one.cause, one.sentence) == (
        Cause.FOREIGN_GATE, f"scheduling gate {HOLD} holds it; Grove removes its own gate only"
    )  # fmt: skip


@in_cluster
async def test_a_scheduler_that_does_not_answer(cluster: Cluster) -> None:
    unplaced(cluster, "web-0-a")
    cluster.create(pod_set(clique("a", 2)))
    await cluster.rest(30)
    answer = ask(cluster, "pg", "web-0")
    assert answer.cause == Cause.SCHEDULER_SILENT
    assert answer.sentence == "the scheduler has not answered yet for 2 of web-0-a"
    assert "see whether default-scheduler runs" in answer.advice[0]


@in_cluster
async def test_the_start_order_and_what_it_waits_for(cluster: Cluster) -> None:
    cluster.pods.may_start = lambda pod: released(pod) and owner(pod) != "web-0-a"
    cluster.create(pod_set(clique("a", 3, 2), clique("b", 2), cliqueStartupType="CliqueStartupTypeInOrder"))
    await cluster.rest(60)
    for pod in cluster.pods_of("web-0-a"):
        cluster.pods.crash("default", pod["metadata"]["name"], exit_code=7)
    await cluster.rest(60)
    answer = ask(cluster, "pclq", "web-0-b")
    assert answer.cause == Cause.STARTUP_ORDER
    assert answer.sentence == "it starts after web-0-a, which has 0 of 2 pods ready"
    assert answer.evidence[0] == "2 pods of web-0-b wait in init container grove-initc"
    crash = "container main ended with exit code 7 (CrashLoopBackOff), restarted once"
    assert answer.evidence[1].startswith("web-0-a: 3 pods of web-0-a are not ready; in ")
    assert answer.evidence[1].endswith(crash)
    assert ask(cluster, "pod", cluster.pods_of("web-0-b")[0]["metadata"]["name"]).cause == Cause.STARTUP_ORDER
    whole = ask(cluster, "pcs", "web")
    assert whole.cause == Cause.CONTAINERS, "of a whole set the crash is the first cause, not who waits for it"
    assert whole.sentence.endswith(crash)


@in_cluster
async def test_containers_that_crash_or_are_not_ready(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 2, 1), clique("b", 1)))
    first, second = (pod["metadata"]["name"] for pod in cluster.pods_of("web-0-a"))
    cluster.pods.set_ready("default", second, False)
    await cluster.quiet()
    event = {"reason": "Unhealthy", "message": "Readiness probe failed: connection refused"}
    answer = ask(cluster, "pclq", "web-0-a", {second: [event]})
    assert (answer.cause, answer.sentence) == (
        Cause.CONTAINERS, f"1 pod of web-0-a is not ready; in {second} container main runs and is not ready"
    )  # fmt: skip
    assert "event Unhealthy: Readiness probe failed: connection refused" in answer.evidence
    assert f"kubectl describe pod -n default {second}" in answer.advice[0]
    assert ask(cluster, "pod", first).cause == Cause.NONE, "its neighbour is no concern of it"
    cluster.pods.crash("default", first, exit_code=137)
    await cluster.quiet()
    answer = ask(cluster, "pcs", "web")
    assert answer.sentence.startswith("2 pods of web-0-a are not ready; in "), "the worst comes first"
    assert f"in {first} container main ended with exit code 137" in answer.sentence
    assert answer.advice == (f"see its last words: kubectl logs -n default {first} -c main --previous",)
    assert any("web-0 is Unhealthy since" in line and "gets new pods at" in line for line in answer.evidence)


@in_cluster
async def test_pods_that_end_or_are_deleted(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 3, 1)))
    names = [pod["metadata"]["name"] for pod in cluster.pods_of("web-0-a")]
    cluster.pods.gone_after = 600.0
    cluster.delete(POD, names[0])
    cluster.scale(PODCLIQUE, "web-0-a", 2)
    await cluster.rest(30)
    going = {
        pod["metadata"]["name"]: ask(cluster, "pod", pod["metadata"]["name"]).sentence
        for pod in cluster.api.objects(POD)
        if "deletionTimestamp" in pod["metadata"]
    }
    assert going[names[0]] == "is being deleted: somebody deleted it, an eviction perhaps; another pod takes its place"
    await cluster.end()
    cluster.pods.finish("default", names[1], reason="Evicted")
    answer = ask(cluster, "pod", names[1])
    assert (answer.cause, answer.sentence) == (Cause.ENDED, "has ended, Failed (Evicted)")


@in_cluster
async def test_an_update_and_what_it_waits_for(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2, 1))
    await cluster.up(obj)
    cluster.pods.may_start = lambda pod: False
    cluster.patch(PODCLIQUESET, "web", {"spec": changed(obj, "a")["spec"]})
    await cluster.rest(60)
    old = next(pod for pod in cluster.pods_of("web-0-a") if pod["spec"]["containers"][0]["image"].endswith(":1"))
    answer = ask(cluster, "pod", old["metadata"]["name"])
    assert answer.cause == Cause.UPDATE
    assert answer.sentence == (
        "it has an older template, and an update is under way: replica 0: 0 of 2 pods of web-0-a run the template and "
        "are ready"
    )
    assert ask(cluster, "pcs", "web").cause == Cause.CONTAINERS, "the new pod does not start: that comes first"
    cluster.pods.may_start = released
    cluster.pods.step()
    await cluster.quiet()
    assert ask(cluster, "pcs", "web").cause == Cause.NONE


@in_cluster
async def test_pods_that_nobody_replaces(cluster: Cluster) -> None:
    obj = pod_set(clique("a", 2, 1))
    obj["spec"]["updateStrategy"] = {"type": "OnDelete"}
    await cluster.up(obj)
    cluster.patch(PODCLIQUESET, "web", {"spec": changed(obj, "a")["spec"]})
    await cluster.quiet()
    answer = ask(cluster, "pcs", "web")
    assert answer.cause == Cause.UPDATE
    assert answer.sentence == "2 pods of an older template stay until somebody deletes them (OnDelete)"


@in_cluster
async def test_a_set_that_is_being_deleted(cluster: Cluster) -> None:
    await cluster.up(pod_set(clique("a", 1)))
    cluster.patch(PODCLIQUESET, "web", {"metadata": {"finalizers": [HOLD]}})
    cluster.delete(PODCLIQUESET, "web")
    answer = ask(cluster, "pcs", "web")
    assert answer.cause == Cause.DELETION
    assert answer.evidence == (f"finalizers: {HOLD}",)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_picture_has_an_explanation(data: st.DataObject) -> None:
    """Whatever of a set is there or missing, and whatever its pods say: one sentence, and no exception."""
    paper = Paper.of(pod_set(clique("a", 2, 1), clique("b", 1), groups=[group("g", ["b"], 2, 1)]))
    paper.template.pcs.wire["metadata"]["uid"] = paper.template.uid
    pods = [
        pod_wire(podclique, index, tpl=paper.template, **data.draw(_pods), status=data.draw(_statuses))
        for podclique in paper.podcliques.values()
        for index in range(podclique.spec.replicas or 0)
    ]
    found: dict[Any, list[Object]] = {
        PODCLIQUESET: [paper.template.pcs.wire],
        PODCLIQUE: [one.wire for one in paper.podcliques.values() if data.draw(st.booleans())],
        PODCLIQUESCALINGGROUP: [one.wire for one in paper.scaling_groups.values()],
        POD: pods,
    }
    (scene,) = scenes(found)
    assert tree(scene).node(lambda text, tone: text, 3).text
    for kind, names in (("pclq", list(scene.podcliques)), ("pg", list(scene.gangs)), ("pcs", ["web"])):
        for name in names:
            scope = scope_of(scene, ALIASES[kind], name)
            assert scope is not None
            assert explain(scope).sentence


_pods: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"gated": st.booleans(), "node": st.sampled_from(["", "node-1"]), "deleting": st.booleans()}
)
_container = st.fixed_dictionaries(
    {"name": st.sampled_from(["main", "grove-initc"])},
    optional={
        "ready": st.booleans(),
        "started": st.booleans(),
        "restartCount": st.integers(0, 3),
        "state": st.sampled_from(
            [
                {},
                {"waiting": {}},
                {"waiting": {"reason": "ImagePullBackOff", "message": "no"}},
                {"running": {}},
                {"terminated": {"exitCode": 1}},
                {"terminated": {"exitCode": 0}},
            ]
        ),
        "lastState": st.sampled_from([{}, {"terminated": {"exitCode": 2, "reason": "OOMKilled"}}]),
    },
)
_statuses = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"phase": st.sampled_from(["Pending", "Running", "Failed"])},
        optional={
            "containerStatuses": st.lists(_container, max_size=2),
            "initContainerStatuses": st.lists(_container, max_size=1),
        },
    ),
)
