"""Hashes: their pinned values, what counts and what does not."""

from collections.abc import Callable
from typing import Any

import pytest

from grove.plan import hashes
from grove.plan.template import Template
from tests.unit.support import GOLDEN, Object, clique, group, load, pod_set, template

PINNED = load(GOLDEN / "hashes.yaml")


def hashed(wire: dict[str, Any]) -> str:
    return hashes.pod_template_hash(
        wire["labels"], wire["annotations"], wire["podSpec"], wire.get("priorityClassName", "")
    )


@pytest.mark.parametrize("case", sorted(PINNED["templates"]))
def test_pod_template_hashes_are_pinned(case: str) -> None:
    assert hashed(PINNED["templates"][case]["template"]) == PINNED["templates"][case]["hash"]


def test_generation_hash_is_pinned() -> None:
    assert hashes.generation_hash(PINNED["generation"]["of"]) == PINNED["generation"]["hash"]


def test_a_stored_set_hashes_as_it_was_written() -> None:
    wanted = PINNED["templates"]["plain"]["hash"]
    tpl = template(pod_set(clique("a")))
    assert tpl.pod_template_hashes == {"a": wanted}
    assert tpl.generation_hash == hashes.generation_hash([wanted])


def base() -> Object:
    return pod_set(clique("a", 2, labels={"app": "web"}, annotations={"note": "x"}), clique("b", 3))


def changed(change: Callable[[Object], None]) -> Template:
    obj = base()
    change(obj)
    return template(obj)


def in_clique(change: Callable[[Object], Any]) -> Callable[[Object], None]:
    return lambda obj: change(obj["spec"]["template"]["cliques"][0]) and None


def in_template(**fields: Any) -> Callable[[Object], None]:
    return lambda obj: obj["spec"]["template"].update(fields)


def container(one: Object) -> Object:
    found: Object = one["spec"]["podSpec"]["containers"][0]
    return found


COUNTS: dict[str, Callable[[Object], None]] = {
    "label": in_clique(lambda one: one["labels"].update(app="other")),
    "annotation": in_clique(lambda one: one["annotations"].update(note="y")),
    "image": in_clique(lambda one: container(one).update(image="example.com/image:2")),
    "environment": in_clique(lambda one: container(one).update(env=[{"name": "A", "value": "1"}])),
    "resources": in_clique(lambda one: container(one).update(resources={"limits": {"cpu": "1"}})),
    "scheduler": in_clique(lambda one: one["spec"]["podSpec"].update(schedulerName="kai-scheduler")),
    "other restart policy": in_clique(lambda one: one["spec"]["podSpec"].update(restartPolicy="Never")),
    "other grace period": in_clique(lambda one: one["spec"]["podSpec"].update(terminationGracePeriodSeconds=31)),
}

COUNTS_NOT: dict[str, Callable[[Object], None]] = {
    "replicas": in_clique(lambda one: one["spec"].update(replicas=5)),
    "minAvailable": in_clique(lambda one: one["spec"].update(minAvailable=1)),
    "startsAfter": in_clique(lambda one: one["spec"].update(startsAfter=["b"])),
    "roleName": in_clique(lambda one: one["spec"].update(roleName="other")),
    "autoscaling": in_clique(lambda one: one["spec"].update(autoScalingConfig={"maxReplicas": 9})),
    "topology": in_clique(lambda one: one.update(topologyConstraint={"pack": {"required": "rack"}})),
    "resource sharing": in_clique(lambda one: one.update(resourceSharing=[{"name": "x", "scope": "PerReplica"}])),
    "default restart policy": in_clique(lambda one: one["spec"]["podSpec"].update(restartPolicy="Always")),
    "default grace period": in_clique(lambda one: one["spec"]["podSpec"].update(terminationGracePeriodSeconds=30)),
    "priority class of the pod": in_clique(lambda one: one["spec"]["podSpec"].update(priorityClassName="x")),
    "startup type": in_template(cliqueStartupType="CliqueStartupTypeInOrder"),
    "termination delay": in_template(terminationDelay="1m"),
    "headless service": in_template(headlessServiceConfig={"publishNotReadyAddresses": False}),
    "scaling group": in_template(podCliqueScalingGroups=[group("g", ["a"])]),
    "replicas of the set": lambda obj: obj["spec"].update(replicas=7),
    "update strategy": lambda obj: obj["spec"].update(updateStrategy={"type": "OnDelete"}),
    "labels of the set": lambda obj: obj["metadata"].update(labels={"app": "web"}),
}


@pytest.mark.parametrize("change", sorted(COUNTS))
def test_counts(change: str) -> None:
    before, after = template(base()), changed(COUNTS[change])
    assert after.pod_template_hashes["a"] != before.pod_template_hashes["a"]
    assert after.pod_template_hashes["b"] == before.pod_template_hashes["b"]
    assert after.generation_hash != before.generation_hash


@pytest.mark.parametrize("change", sorted(COUNTS_NOT))
def test_does_not_count(change: str) -> None:
    before, after = template(base()), changed(COUNTS_NOT[change])
    assert after.pod_template_hashes == before.pod_template_hashes
    assert after.generation_hash == before.generation_hash


def test_priority_class_of_the_set_counts_for_every_clique() -> None:
    before, after = template(base()), changed(in_template(priorityClassName="high"))
    assert all(after.pod_template_hashes[name] != before.pod_template_hashes[name] for name in ("a", "b"))


def test_order_of_cliques_counts_for_the_generation_only() -> None:
    before = template(base())
    after = changed(lambda obj: obj["spec"]["template"]["cliques"].reverse())
    assert after.pod_template_hashes == before.pod_template_hashes
    assert after.generation_hash != before.generation_hash


def test_order_of_keys_does_not_count() -> None:
    one = {"labels": {"a": "1", "b": "2"}, "annotations": {}, "podSpec": {"nodeName": "n", "hostIPC": True}}
    other = {"podSpec": {"hostIPC": True, "nodeName": "n"}, "annotations": {}, "labels": {"b": "2", "a": "1"}}
    assert hashed(one) == hashed(other)
