"""What each webhook answers: defaults as a patch, errors with their fields, the trial of pods, protection."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import jsonpatch
import orjson
import pytest

from grove.admission import Facts, default
from grove.plan.kinds import CLUSTERTOPOLOGYBINDING, PODCLIQUESET
from grove.runtime.client import Client
from grove.runtime.errors import ApiError
from grove.webhooks import dry_run
from grove.webhooks.dry_run import DryRun, Verdict
from grove.webhooks.handlers import Handlers
from grove.webhooks.reviews import Request, decode
from grove.webhooks.trials import trials
from tests.fake_api import FakeApi
from tests.unit.support import clique, pod_set, stored

Object = dict[str, Any]
OPERATOR = "system:serviceaccount:grove:grove-operator"


def request(obj: Any = None, old: Any = None, **fields: Any) -> Request:
    kind = {"group": "grove.io", "version": "v1alpha1", "kind": "PodCliqueSet"}
    operation = "CREATE" if old is None else "UPDATE"
    body = {"uid": "u", "kind": kind, "operation": operation, "namespace": "default", "object": obj, "oldObject": old}
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**body, **fields}}
    return decode(orjson.dumps(review))


class Asked(Client):
    """A client whose API server answers each request by `answer`; the bodies it got are in `bodies`."""

    def __init__(self, answer: Callable[[Any], Any] = lambda body: body) -> None:
        self.bodies: list[Any] = []
        self._answer = answer

    async def request(self, method: str, path: str, **options: Any) -> Any:
        kind = {"Pod": "api/v1/{}/pods", "HorizontalPodAutoscaler": "apis/autoscaling/v2/{}/horizontalpodautoscalers"}
        expected = "/" + kind[options["body"]["kind"]].format("namespaces/default")
        assert (method, path, options["params"]["dryRun"]) == ("POST", expected, "All")
        self.bodies.append(options["body"])
        answer = self._answer(options["body"])
        return await answer if asyncio.iscoroutine(answer) else answer


def refusing(status: int, message: str, *causes: tuple[str, str, str]) -> Callable[[Any], Any]:
    """An API server that refuses every pod; causes are (reason, message, field)."""

    def answer(_: Any) -> Any:
        found = [dict(zip(("reason", "message", "field"), cause, strict=True)) for cause in causes]
        details = {"reason": "x", "message": message, "details": {"causes": found}}
        raise ApiError.from_status(status, details, verb="create", path="/pods")

    return answer


async def test_defaults_come_as_a_patch() -> None:
    obj = pod_set(clique("a"))
    answer = await Handlers(Asked(), Facts).default(request(obj))
    assert answer.allowed
    assert jsonpatch.apply_patch(obj, list(answer.patch)) == default(obj)
    again = await Handlers(Asked(), Facts).default(request(default(obj)))
    assert not again.patch


async def test_the_patch_fits_whatever_the_set_looks_like() -> None:
    odd = pod_set({**clique("a/b~c"), "labels": {"x/y": "z"}}, clique("", replicas=None), clique("n", 0))
    odd["spec"]["template"] |= {"headlessServiceConfig": {}, "terminationDelay": None, "cliqueStartupType": ""}
    odd["metadata"]["namespace"] = ""
    answer = await Handlers(Asked(), Facts).default(request(odd))
    assert jsonpatch.apply_patch(odd, list(answer.patch)) == default(odd)


async def test_every_error_has_its_field() -> None:
    obj = pod_set(clique("a", 1, 3), clique("", 1, 1))
    answer = await Handlers(Asked(), Facts).validate(request(obj))
    assert not answer.allowed
    assert (answer.code, answer.reason) == (403, "Forbidden")
    assert [(cause.reason, cause.field) for cause in answer.causes] == [
        ("FieldValueRequired", "spec.template.cliques[1].name"),
        ("FieldValueInvalid", "spec.template.cliques[0].spec.minAvailable"),
    ]
    assert answer.message == f"[{', '.join(cause.message for cause in answer.causes)}]"


async def test_one_error_is_without_brackets() -> None:
    answer = await Handlers(Asked(), Facts).validate(request(pod_set(clique("", 1))))
    assert answer.message.startswith("spec.template.cliques[0].name: Required value: ")
    assert len(answer.causes) == 1


async def test_pods_of_a_wrong_set_are_not_tried() -> None:
    client = Asked()
    await Handlers(client, Facts).validate(request(pod_set(clique("a", 1, 3))))
    assert client.bodies == []


@pytest.mark.parametrize("operation", ["DELETE", "CONNECT"])
async def test_other_operations_are_no_matter(operation: str) -> None:
    handlers = Handlers(Asked(), Facts)
    for handler in (handlers.default, handlers.validate, handlers.validate_binding):
        assert (await handler(request(None, {}, operation=operation))).allowed


async def test_subresources_and_what_is_about_to_go_are_no_matter() -> None:
    wrong = pod_set(clique("a", 1, 3))
    going = stored(wrong, deletionTimestamp="2026-09-01T00:00:00Z")
    handlers = Handlers(Asked(), Facts)
    for asked in (request(wrong, wrong, subResource="status"), request(going, going)):
        answer = await handlers.validate(asked)
        assert answer.allowed
        assert not (await handlers.default(asked)).patch


@pytest.mark.parametrize(
    "kind",
    [
        {"group": "grove.io", "version": "v1beta1", "kind": "PodCliqueSet"},
        {"group": "apps", "version": "v1", "kind": "Deployment"},
        {"group": "", "version": "v1", "kind": "Pod"},
        None,
    ],
)
async def test_other_kinds_and_versions_are_named(kind: Mapping[str, str] | None) -> None:
    answer = await Handlers(Asked(), Facts).validate(request({}, kind=kind))
    assert (answer.allowed, answer.code) == (False, 400)
    named = f"{kind['kind']} of " if kind else "an unnamed kind of an unnamed version"
    assert named in answer.message


@pytest.mark.parametrize("obj", [None, [], "text", 7])
async def test_an_object_that_is_none_is_told_so(obj: Any) -> None:
    for handler in (Handlers(Asked(), Facts).validate, Handlers(Asked(), Facts).default):
        assert "request.object: Required value" in (await handler(request(obj))).message


async def test_the_levels_of_the_cluster_are_those_of_now() -> None:
    api = FakeApi([CLUSTERTOPOLOGYBINDING])
    handlers = Handlers(api.client(), lambda: Facts(topology_aware=True), dry_run=False)
    obj = pod_set(clique("a", 1), topologyConstraint={"topologyName": "gpus", "pack": {"required": "rack"}})
    assert "gpus" in (await handlers.validate(request(obj))).message
    levels = [{"domain": "rack", "key": "example.com/rack"}]
    api.create(CLUSTERTOPOLOGYBINDING, {"metadata": {"name": "gpus"}, "spec": {"levels": levels}})
    assert (await handlers.validate(request(obj))).message == ""
    api.faults.refuse(403, "Forbidden", times=None)
    assert (await handlers.validate(request(obj))).allowed


# The trial of pods


def two(**fields: Any) -> Object:
    return pod_set(clique("a", 1), clique("b", 1, image="example.com/other:1", **fields))


async def check(client: Asked, obj: Object, old: Object | None = None) -> Verdict:
    return await DryRun(client).check(trials(default(obj), default(old) if old else None), "default")


async def test_a_pod_of_each_clique_is_tried_as_the_user_wrote_it() -> None:
    client = Asked()
    obj = two(labels={"team": "x"}, annotations={"note": "y"})
    assert await check(client, obj) == Verdict()
    assert [pod["spec"]["containers"][0]["image"] for pod in client.bodies] == [
        "example.com/image:1",
        "example.com/other:1",
    ]
    second = client.bodies[1]
    assert second["metadata"]["labels"]["team"] == "x"
    assert second["metadata"]["annotations"] == {"note": "y"}
    assert second["spec"]["schedulingGates"] == [{"name": "grove.io/podgang-pending-creation"}]


async def test_like_pods_are_tried_once_and_unchanged_ones_not_at_all() -> None:
    client = Asked()
    same = pod_set(clique("a", 1), clique("b", 2), clique("c", 3))
    await check(client, same)
    assert len(client.bodies) == 1
    client.bodies.clear()
    await check(client, {**two(), "metadata": {"name": "web", "labels": {"x": "y"}}}, two())
    assert client.bodies == []
    await check(client, two(labels={"new": "label"}), two())
    assert len(client.bodies) == 1


async def test_an_invalid_pod_is_an_error_of_its_clique() -> None:
    causes = [
        ("FieldValueInvalid", 'Invalid value: "2": must be less than or equal to cpu limit of 1', "spec.containers[0]"),
        ("FieldValueInvalid", "Invalid value: -1", "metadata.annotations[x]"),
        ("FieldValueForbidden", "Forbidden: may not be set", "spec"),
    ]
    client = Asked(lambda body: refusing(422, "invalid", *causes)(body) if "other" in str(body) else body)
    verdict = await check(client, two())
    assert [cause.field for cause in verdict.causes] == [
        "spec.template.cliques[1].spec.podSpec.containers[0]",
        "spec.template.cliques[1].annotations[x]",
        "spec.template.cliques[1].spec.podSpec",
    ]
    answer = await Handlers(client, Facts).validate(request(two()))
    assert not answer.allowed
    assert answer.message.startswith(
        '[spec.template.cliques[1].spec.podSpec.containers[0]: Invalid value: "2": must be less than or equal to cpu '
    )


async def test_what_was_found_right_is_not_tried_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr("grove.webhooks.dry_run.clock.now", lambda: now)
    client = Asked(lambda body: refusing(422, "invalid")(body) if "other" in str(body) else body)
    handlers = Handlers(client, Facts)
    for _ in range(2):
        answer = await handlers.validate(request(two()))
        assert not answer.allowed
    assert [body["spec"]["containers"][0]["image"] for body in client.bodies] == [
        "example.com/image:1",
        "example.com/other:1",
        "example.com/other:1",
    ]
    now += 3600
    await handlers.validate(request(two()))
    assert len(client.bodies) == 5


def priorities(of_set: str, of_pod: str) -> Object:
    """A set with a PriorityClass, and a clique whose pods name one too."""
    obj = pod_set(clique("a", 1), clique("b", 1, image="example.com/other:1"), priorityClassName=of_set)
    obj["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["priorityClassName"] = of_pod
    return obj


async def test_the_priority_of_the_set_is_tried_with_its_pods() -> None:
    """It stands above what the pods say, as with the gangs of Kubernetes; what is wrong with it is said once."""
    client = Asked(refusing(403, 'pods "grove-" is forbidden: no PriorityClass with name high was found'))
    verdict = await check(client, priorities("high", "low"))
    assert [body["spec"]["priorityClassName"] for body in client.bodies] == ["high", "high"]
    said = "pods would be refused now: no PriorityClass with name high was found"
    assert verdict.warnings == (f"spec.template.priorityClassName: {said}",)
    assert await check(client, priorities("", "high")) == Verdict(
        warnings=tuple(f"spec.template.cliques[{index}]: {said}" for index in range(2))
    )


async def test_an_invalid_priority_of_the_set_is_its_own_error() -> None:
    client = Asked(refusing(422, "invalid", ("FieldValueInvalid", 'Invalid value: "H"', "spec.priorityClassName")))
    fields = [cause.field for cause in (await check(client, priorities("H", ""))).causes]
    assert fields == ["spec.template.priorityClassName"]
    fields = [cause.field for cause in (await check(client, priorities("", "H"))).causes]
    assert fields[1] == "spec.template.cliques[1].spec.podSpec.priorityClassName"


CPU = {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}


def autoscaled(*metrics: Object) -> Object:
    """A clique, and a scaling group of another one, with the same autoscaler."""
    config = {"maxReplicas": 5, "metrics": list(metrics)}
    first, second = clique("a", 1), clique("b", 1)
    first["spec"]["autoScalingConfig"] = config
    group = {"name": "g", "cliqueNames": ["b"], "scaleConfig": config}
    return pod_set(first, second, podCliqueScalingGroups=[group])


async def test_metrics_that_no_autoscaler_can_have_are_an_error_of_their_field() -> None:
    cause = ("FieldValueRequired", "Required value: must set either", "spec.metrics[0].resource.target")
    client = Asked(lambda body: body if body["kind"] == "Pod" else refusing(422, "invalid", cause)(body))
    verdict = await check(client, autoscaled(CPU))
    assert [cause.field for cause in verdict.causes] == [
        "spec.template.cliques[0].spec.autoScalingConfig.metrics[0].resource.target",
        "spec.template.podCliqueScalingGroups[0].scaleConfig.metrics[0].resource.target",
    ]
    spec = client.bodies[1]["spec"]
    assert (spec["minReplicas"], spec["maxReplicas"], spec["metrics"]) == (1, 5, [CPU])


async def test_autoscalers_are_tried_when_they_have_metrics_that_changed() -> None:
    client = Asked()
    await check(client, autoscaled())
    await check(client, autoscaled(CPU), autoscaled(CPU))
    assert {body["kind"] for body in client.bodies} == {"Pod"}


async def test_a_pod_that_cannot_be_decoded_is_an_error_of_its_clique() -> None:
    message = (
        'Pod in version "v1" cannot be handled as a Pod: json: cannot unmarshal string into Go value of type int32'
    )
    verdict = await check(Asked(refusing(400, f'"" {message}'.replace("Pod in", '"Pod" in', 1))), pod_set(clique("a")))
    (cause,) = verdict.causes
    assert cause.field == "spec.template.cliques[0].spec.podSpec"
    assert cause.message == "json: cannot unmarshal string into Go value of type int32"


@pytest.mark.parametrize(
    "message",
    [
        'pods "grove-" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
        'pods "grove-" is forbidden: violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false',
        'pods "grove-" is forbidden: error looking up service account default/x: serviceaccount "x" not found',
        'pods "grove-" is forbidden: no PriorityClass with name x was found',
    ],
)
async def test_what_may_come_to_be_allowed_is_a_warning(message: str) -> None:
    verdict = await check(Asked(refusing(403, message)), pod_set(clique("a")))
    assert verdict.causes == ()
    told = message.removeprefix('pods "grove-" is forbidden: ')
    assert verdict.warnings == (f"spec.template.cliques[0]: pods would be refused now: {told}",)


@pytest.mark.parametrize("status", [400, 403, 422, 500])
async def test_a_webhook_of_others_is_no_reason_to_refuse(status: int) -> None:
    verdict = await check(
        Asked(refusing(status, 'admission webhook "policy.example.com" denied the request: no')), pod_set(clique("a"))
    )
    assert verdict.causes == ()
    assert "policy.example.com" in verdict.warnings[0]


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (0, "connection reset"),
        (400, "the server rejected our request for an unknown reason"),
        (403, 'pods is forbidden: User "grove" cannot create resource "pods" in API group "" in the namespace "x"'),
        (404, 'namespaces "default" not found'),
        (409, "object is being modified"),
        (429, "too many requests"),
        (500, "internal error"),
        (503, "unavailable"),
    ],
)
async def test_without_a_clear_word_nothing_is_held_against_a_set(status: int, message: str) -> None:
    assert await check(Asked(refusing(status, message)), two()) == Verdict()


async def test_a_namespace_that_is_about_to_go_is_no_matter() -> None:
    cause = ("NamespaceTerminating", "namespace is being terminated", "metadata.namespace")
    assert await check(Asked(refusing(403, "forbidden", cause)), two()) == Verdict()


async def test_a_slow_api_server_costs_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is known by then counts; the rest is let go."""
    monkeypatch.setattr(dry_run, "_SECONDS", 0.1)

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    invalid = refusing(422, "invalid", ("FieldValueInvalid", "Invalid value", "spec.x"))
    client = Asked(lambda body: invalid(body) if "other" in str(body) else never())
    verdict = await check(client, two())
    assert [cause.field for cause in verdict.causes] == ["spec.template.cliques[1].spec.podSpec.x"]
    await asyncio.sleep(0)
    assert not [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def test_a_set_has_few_trials_at_once() -> None:
    running, most = 0, 0

    async def slowly() -> None:
        nonlocal running, most
        running, most = running + 1, max(most, running + 1)
        await asyncio.sleep(0.001)
        running -= 1

    client = Asked(lambda _: slowly())
    await check(client, pod_set(*(clique(f"c{number}", 1, image=f"i:{number}") for number in range(100))))
    assert most == 4
    assert len(client.bodies) == 64


# Protection


def changed(user: str, operation: str = "UPDATE", kind: str = "PodClique", **labels: str) -> Request:
    obj = {"metadata": {"name": "web-0-a", "labels": {"app.kubernetes.io/part-of": "web", **labels}}}
    where = {"group": "grove.io", "version": "v1alpha1", "kind": kind}
    return request(obj, obj, kind=where, operation=operation, name="web-0-a", userInfo={"username": user})


def protecting(api: FakeApi, **options: Any) -> Handlers:
    """Handlers of an operator that knows who it is, on a cluster where the set `web` exists."""
    handlers = Handlers(api.client(), Facts, protect=True, **options)
    handlers._user = OPERATOR
    return handlers


@pytest.fixture
def api() -> FakeApi:
    api = FakeApi([PODCLIQUESET])
    api.create(PODCLIQUESET, pod_set(clique("a", 1)))
    return api


async def test_protection_is_off_by_default(api: FakeApi) -> None:
    assert (await Handlers(api.client(), Facts).authorize(changed("bob"))).allowed


async def test_somebody_else_is_refused_with_the_way_out(api: FakeApi) -> None:
    for operation in ("CREATE", "UPDATE", "DELETE"):
        answer = await protecting(api).authorize(changed("bob", operation))
        assert not answer.allowed
        assert "grove.io/disable-managed-resource-protection=true" in answer.message


async def test_the_operator_and_exempt_users_are_free_and_cost_no_request(api: FakeApi) -> None:
    handlers = protecting(api, exempt=["alice"])
    for user in (OPERATOR, "alice", "system:serviceaccount:kube-system:generic-garbage-collector"):
        assert (await handlers.authorize(changed(user))).allowed
    assert (await handlers.authorize(changed("bob", "DELETE", "Pod"))).allowed
    assert api.requests == []


async def test_the_annotation_lifts_it_at_once(api: FakeApi) -> None:
    handlers = protecting(api)
    note = {"grove.io/disable-managed-resource-protection": "true"}
    api.update(
        PODCLIQUESET, "default", "web", lambda obj: {**obj, "metadata": {**obj["metadata"], "annotations": note}}
    )
    assert (await handlers.authorize(changed("bob"))).allowed


async def test_without_its_set_an_object_is_free(api: FakeApi) -> None:
    api.delete(PODCLIQUESET, "default", "web")
    answer = await protecting(api).authorize(changed("bob"))
    assert answer.allowed
    assert "there is no PodCliqueSet default/web" in answer.warnings[0]


async def test_when_the_set_cannot_be_looked_up_the_answer_is_no(api: FakeApi) -> None:
    api.faults.refuse(500, "InternalError", times=None)
    answer = await protecting(api).authorize(changed("bob"))
    assert not answer.allowed
    assert "cannot tell whether PodClique default/web-0-a is protected" in answer.message
