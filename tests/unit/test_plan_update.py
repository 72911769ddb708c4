"""Bringing live children in line: what is ours to change, and what is not."""

from collections.abc import Mapping
from typing import Any

import pytest

from grove.api.podclique import PodClique
from grove.api.podcliquescalinggroup import PodCliqueScalingGroup
from grove.plan.children import autoscalers, headless_service, scaling_group, standalone_podclique
from grove.plan.kinds import AUTOSCALER, PODCLIQUE, SERVICE
from grove.plan.podclique import ensure_podclique
from grove.plan.scalinggroup import ensure_scaling_group
from grove.plan.template import Template
from grove.plan.update import autoscaled, ensure, owned_keys, slim, three_way_replicas, without_finalizer
from grove.runtime.writes import Create, Patch, Write
from tests.fake_api.objects import copy, json_patch, merge_patch
from tests.unit.support import NOW, Object, clique, group, pod_set, stored, template

RECORD = "grove.io/template-replicas"


def written_by(manager: str, fields: Mapping[str, Any], subresource: str = "") -> Object:
    """An entry of metadata.managedFields."""
    entry = {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return {**entry, **({"subresource": subresource} if subresource else {})}


def ours(**metadata: tuple[str, ...]) -> Object:
    """That we wrote these labels and annotations."""
    fields: Object = {f"f:{key}": {".": {}, **{f"f:{name}": {} for name in names}} for key, names in metadata.items()}
    return written_by("grove-operator", {"f:metadata": fields})


def applied(live: Object, writes: list[Write]) -> Object:
    """The object after the one patch that was planned for it."""
    (write,) = writes
    assert isinstance(write, Patch)
    assert (write.name, write.namespace) == (live["metadata"]["name"], live["metadata"]["namespace"])
    assert write.uid == live["metadata"]["uid"]
    return merge_patch(live, write.body)  # type: ignore[no-any-return]


TPL = template(pod_set(clique("a", 3), groups=[]))
SERVED = {"clusterIPs": ["None"], "type": "ClusterIP", "sessionAffinity": "None"}


def service(**spec: Any) -> Object:
    wire = stored(headless_service(TPL, 0))
    return {**wire, "spec": {**wire["spec"], **SERVED, **spec}}


# Any child


def test_a_missing_object_is_created() -> None:
    desired = headless_service(TPL, 0)
    assert ensure(SERVICE, None, desired) == [Create(SERVICE, desired)]


def test_defaults_of_the_api_server_are_no_difference() -> None:
    assert ensure(SERVICE, service(), headless_service(TPL, 0)) == []


def test_a_changed_field_is_set_right_and_nothing_else() -> None:
    selector = {**service()["spec"]["selector"], "app": "other"}  # one key more and it selects no pod
    live = service(publishNotReadyAddresses=False, selector=selector)
    after = applied(live, ensure(SERVICE, live, headless_service(TPL, 0)))
    assert after["spec"] == service()["spec"]


def test_an_object_on_its_way_out_is_waited_for() -> None:
    live = service(publishNotReadyAddresses=False)
    live["metadata"]["deletionTimestamp"] = NOW
    assert ensure(SERVICE, live, headless_service(TPL, 0)) == []


def test_foreign_metadata_stays_and_ours_comes_back() -> None:
    live = service()
    live["metadata"] |= {
        "labels": {**live["metadata"]["labels"], "team": "x", "app.kubernetes.io/part-of": "other"},
        "annotations": {"note": "y"},
        "finalizers": ["example.com/hold"],
    }
    (write,) = ensure(SERVICE, live, headless_service(TPL, 0))
    assert isinstance(write, Patch)
    assert write.body == {"metadata": {"labels": {"app.kubernetes.io/part-of": "web"}}}


def test_a_label_of_ours_that_is_wanted_no_more_goes() -> None:
    live = service()
    live["metadata"]["labels"] |= {"old": "x", "foreign": "y"}
    live["metadata"]["managedFields"] = [ours(labels=("old", "app.kubernetes.io/name", "gone"))]
    after = applied(live, ensure(SERVICE, live, headless_service(TPL, 0)))
    assert after["metadata"]["labels"] == headless_service(TPL, 0)["metadata"]["labels"] | {"foreign": "y"}


# managedFields


def test_owned_keys() -> None:
    metadata = {
        "managedFields": [
            ours(labels=("a", "example.com/b"), annotations=("c",)),
            ours(labels=("d",)),
            written_by("kubectl-edit", {"f:metadata": {"f:labels": {".": {}, "f:e": {}}}}),
            written_by("grove-operator", {"f:status": {}}, "status"),
        ]
    }
    assert owned_keys(metadata, "labels") == {"a", "example.com/b", "d"}
    assert owned_keys(metadata, "annotations") == {"c"}
    assert owned_keys({}, "labels") == set()


SCALED: Object = {"f:spec": {"f:replicas": {}}}


@pytest.mark.parametrize(
    ("entry", "result"),
    [
        (written_by("kube-controller-manager", SCALED, "scale"), True),
        (written_by("kubectl", SCALED, "scale"), False),
        (written_by("kube-controller-manager", SCALED), False),
        (written_by("kube-controller-manager", {"f:spec": {}}, "scale"), False),
        (written_by("kube-controller-manager", SCALED, "status"), False),
    ],
)
def test_autoscaled(entry: Object, result: bool) -> None:
    assert autoscaled({"managedFields": [entry]}) is result


def test_slim_keeps_what_is_read() -> None:
    fields = [
        ours(labels=("a",)),
        written_by("kube-controller-manager", SCALED, "scale"),
        written_by("kubectl", {"f:metadata": {"f:labels": {"f:e": {}}}}),
        written_by("grove-operator", {"f:spec": {"f:podSpec": {"f:containers": {}}}}),
        written_by("grove-operator", {"f:status": {"f:replicas": {}}}, "status"),
    ]
    metadata = {"name": "x", "managedFields": fields}
    slimmed = slim({"metadata": copy(metadata)})["metadata"]
    assert len(slimmed["managedFields"]) == 2
    assert owned_keys(slimmed, "labels") == owned_keys(metadata, "labels") == {"a"}
    assert autoscaled(slimmed)
    assert slim({"metadata": {"name": "x", "managedFields": fields[2:]}}) == {"metadata": {"name": "x"}}


# Replicas belong to whoever scales


def podclique(replicas: int | None, record: str | None, *fields: Object) -> PodClique:
    wire = stored(standalone_podclique(TPL, 0, TPL.cliques["a"]))
    wire["spec"]["replicas"] = replicas
    wire["metadata"]["annotations"] = {} if record is None else {RECORD: record}
    wire["metadata"]["managedFields"] = list(fields)
    return PodClique.from_wire(wire)


HPA = written_by("kube-controller-manager", SCALED, "scale")
USER = written_by("kubectl", SCALED, "scale")


@pytest.mark.parametrize(
    ("live", "record", "wanted", "has_autoscaler", "fields", "result"),
    [
        (3, "3", 3, False, (), 3),
        (5, "3", 3, False, (), 5),  # scaled, the template did not change
        (5, "3", 4, False, (), 4),  # the template changed: applied once
        (5, "4", 4, False, (), 5),  # … and not again
        (5, "3", 4, False, (USER,), 4),
        (5, "3", 4, True, (), 5),  # an autoscaler of the template
        (5, "3", 4, False, (HPA,), 5),  # an autoscaler of the user's own
        (5, None, 4, False, (), 5),  # made by the Go operator
        (5, "3", 0, False, (), 0),
        (0, "3", 4, False, (), 4),
    ],
)
def test_three_ways(
    live: int, record: str | None, wanted: int, has_autoscaler: bool, fields: tuple[Object, ...], result: int
) -> None:
    owner = podclique(live, record, *fields)
    assert three_way_replicas(owner, live, wanted, has_autoscaler=has_autoscaler) == result


def retemplated(**fields: Any) -> Template:
    return template(pod_set(clique("a", **fields)))


def test_a_changed_template_value_is_applied_and_recorded_in_one_write() -> None:
    live = podclique(5, "3")
    tpl = retemplated(replicas=4)
    after = applied(live.wire, ensure_podclique(live, standalone_podclique(tpl, 0, tpl.cliques["a"])))
    assert (after["spec"]["replicas"], after["metadata"]["annotations"][RECORD]) == (4, "4")


def test_an_autoscaled_count_stays_while_the_new_template_value_is_recorded() -> None:
    tpl = retemplated(replicas=4, autoScalingConfig={"maxReplicas": 9})
    live = podclique(7, "3")
    after = applied(live.wire, ensure_podclique(live, standalone_podclique(tpl, 0, tpl.cliques["a"])))
    assert (after["spec"]["replicas"], after["metadata"]["annotations"][RECORD]) == (7, "4")


def test_an_absent_number_of_replicas_is_left_absent() -> None:
    live = podclique(None, "3")
    assert ensure_podclique(live, standalone_podclique(TPL, 0, TPL.cliques["a"])) == []


def test_scaling_groups_follow_the_same_rule() -> None:
    tpl = template(pod_set(clique("a"), groups=[group("g", ["a"], replicas=4)]))
    config = tpl.groups["g"]
    desired = scaling_group(tpl, 0, config)
    live = copy(stored(desired))
    live["spec"]["replicas"] = 6
    assert ensure_scaling_group(PodCliqueScalingGroup.from_wire(live), desired, config) == []
    live["metadata"]["annotations"][RECORD] = "2"
    after = applied(live, ensure_scaling_group(PodCliqueScalingGroup.from_wire(live), desired, config))
    assert (after["spec"]["replicas"], after["metadata"]["annotations"][RECORD]) == (4, "4")


# PodCliques


def test_an_unchanged_podclique_is_left_alone() -> None:
    live = podclique(3, "3")
    assert ensure_podclique(live, standalone_podclique(TPL, 0, TPL.cliques["a"])) == []


def test_a_new_template_replaces_the_pod_spec_whole() -> None:
    old = retemplated(replicas=3, podSpec={"containers": [{"name": "c"}], "nodeSelector": {"zone": "a"}})
    new = retemplated(replicas=3, podSpec={"containers": [{"name": "c"}], "hostNetwork": True})
    live = PodClique.from_wire(stored(standalone_podclique(old, 0, old.cliques["a"])))
    desired = standalone_podclique(new, 0, new.cliques["a"])
    after = applied(live.wire, ensure_podclique(live, desired))
    assert after["spec"] == desired["spec"]
    assert after["metadata"]["labels"] == desired["metadata"]["labels"]


def test_changes_by_others_to_what_is_ours_are_undone() -> None:
    live = copy(podclique(5, "3").wire)
    live["spec"]["minAvailable"] = 1
    live["spec"]["roleName"] = "other"
    live["spec"]["podSpec"]["containers"][0]["image"] = "example.com/other"
    desired = standalone_podclique(TPL, 0, TPL.cliques["a"])
    after = applied(live, ensure_podclique(PodClique.from_wire(live), desired))
    assert after["spec"] == {**desired["spec"], "replicas": 5}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"maxReplicas": 5}, {"maxReplicas": 9}),
        ({"maxReplicas": 5}, None),
        (None, {"maxReplicas": 5}),
        ({"maxReplicas": 5, "metrics": [{"type": "Resource"}]}, {"maxReplicas": 5}),
    ],
)
def test_the_scaling_configuration_follows_the_template(before: Object | None, after: Object | None) -> None:
    old, new = (retemplated(replicas=3, autoScalingConfig=config) for config in (before, after))
    live = PodClique.from_wire(stored(standalone_podclique(old, 0, old.cliques["a"])))
    desired = standalone_podclique(new, 0, new.cliques["a"])
    assert applied(live.wire, ensure_podclique(live, desired))["spec"] == desired["spec"]


# Finalizers of the Go operator


def test_its_finalizer_is_taken_off_an_object_on_its_way_out() -> None:
    wire = podclique(3, "3").wire
    metadata = {**wire["metadata"], "finalizers": ["other", "grove.io/podclique.grove.io"]}
    live = PodClique.from_wire({**wire, "metadata": metadata})
    going = PodClique.from_wire({**wire, "metadata": {**metadata, "deletionTimestamp": NOW}})
    free = PodClique.from_wire({**wire, "metadata": {**metadata, "deletionTimestamp": NOW, "finalizers": ["other"]}})
    assert without_finalizer(PODCLIQUE, live, "grove.io/podclique.grove.io") == []
    assert without_finalizer(PODCLIQUE, free, "grove.io/podclique.grove.io") == []
    (write,) = without_finalizer(PODCLIQUE, going, "grove.io/podclique.grove.io")
    assert isinstance(write, Patch)
    assert isinstance(write.body, list)
    assert json_patch(going.wire, write.body)["metadata"]["finalizers"] == ["other"]


def test_metrics_that_went_from_the_template_go_from_the_autoscaler() -> None:
    metric = {
        "type": "Resource",
        "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 5}},
    }
    old = retemplated(replicas=3, autoScalingConfig={"maxReplicas": 5, "metrics": [metric]})
    new = retemplated(replicas=3, autoScalingConfig={"maxReplicas": 5})
    (live,), (desired,) = autoscalers(old, 0), autoscalers(new, 0)
    after = applied(stored(live), ensure(AUTOSCALER, stored(live), desired))
    # What the API server makes of an absent list (autoscaling/v2).
    default = {
        "type": "Resource",
        "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
    }
    assert after["spec"]["metrics"] == [default]
