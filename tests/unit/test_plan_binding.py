"""ClusterTopologyBindings: what KAI is given, and what their status says (API doc 1.4, reference 9.1)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.plan.binding import Comparison, TopologyKind, binding_status, compare_all
from grove.runtime.resources import ResourceType
from grove.runtime.writes import Create, Delete
from grove.schedulers import enable
from grove.schedulers.kai import TOPOLOGY, Kai
from tests.unit.support import NOW, Object, stored

LATER = "2026-09-01T01:00:00Z"
KEYS = ("topology.kubernetes.io/zone", "example.com/block", "example.com/rack", "kubernetes.io/hostname")
KAI = Kai("kai-scheduler", {}).topologies
assert KAI is not None
KINDS = {"kai-scheduler": KAI}
OTHER = ResourceType("other.example", "v1", "shapes", "Shape", namespaced=False)


class Seen:
    """The topology objects of a cluster."""

    def __init__(self, *topologies: Object, served: Sequence[ResourceType] = (TOPOLOGY, OTHER)) -> None:
        self._topologies = {(one["kind"], one["metadata"]["name"]): one for one in topologies}
        self._served = served

    def serves(self, resource: ResourceType) -> bool:
        return resource in self._served

    def get(self, resource: ResourceType, namespace: str, name: str) -> Object | None:
        assert namespace == ""
        return self._topologies.get((resource.kind, name))


def binding(keys: Sequence[str] = KEYS, status: Object | None = None, **references: str) -> ClusterTopologyBinding:
    """The binding `gpus` in generation 7; `references` are by scheduler, with _ for -."""
    levels = [{"domain": f"level-{index}", "key": key} for index, key in enumerate(keys)]
    named = [
        {"schedulerName": name.replace("_", "-"), "topologyReference": reference}
        for name, reference in references.items()
    ]
    obj: Object = {"metadata": {"name": "gpus"}, "spec": {"levels": levels, "schedulerTopologyBindings": named}}
    return ClusterTopologyBinding.from_wire({**stored(obj, generation=7), "status": status or {}})


def topology(name: str = "gpus", keys: Sequence[str] = KEYS, owner: str = "", **metadata: Any) -> Object:
    """A Topology of KAI as the API server has it, controlled by the owner with this uid."""
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    owners = [{"kind": "ClusterTopologyBinding", "name": name, "uid": owner, "controller": True}] if owner else []
    obj = {"kind": "Topology", "metadata": {"name": name, "ownerReferences": owners}, "spec": spec}
    return stored(obj, generation=3, **metadata)


def ours(keys: Sequence[str] = KEYS, **metadata: Any) -> Object:
    return topology(keys=keys, owner="uid-gpus", **metadata)


def compared(one: ClusterTopologyBinding, *topologies: Object, **options: Any) -> Comparison:
    [comparison] = compare_all(one, KINDS, Seen(*topologies, **options))
    return comparison


def status(one: ClusterTopologyBinding, *topologies: Object, errors: Mapping[str, str] | None = None) -> Object:
    return binding_status(one, compare_all(one, KINDS, Seen(*topologies)), errors or {}, NOW)


# -- the topology that we keep -----------------------------------------------------------------------------------------


def test_tas1_kai_gets_the_keys_in_order() -> None:
    [write] = compared(binding()).writes
    assert write == Create(
        TOPOLOGY,
        {
            "apiVersion": "kai.scheduler/v1alpha1",
            "kind": "Topology",
            "metadata": {
                "name": "gpus",
                "labels": {"app.kubernetes.io/managed-by": "grove-operator"},
                "ownerReferences": [
                    {
                        "apiVersion": "grove.io/v1alpha1",
                        "kind": "ClusterTopologyBinding",
                        "name": "gpus",
                        "uid": "uid-gpus",
                        "controller": True,
                        "blockOwnerDeletion": True,
                    }
                ],
            },
            "spec": {
                "levels": [
                    {"nodeLabel": "topology.kubernetes.io/zone"},
                    {"nodeLabel": "example.com/block"},
                    {"nodeLabel": "example.com/rack"},
                    {"nodeLabel": "kubernetes.io/hostname"},
                ]
            },
        },
    )
    assert TOPOLOGY.path(name="gpus") == "/apis/kai.scheduler/v1alpha1/topologies/gpus"


def test_one_that_has_the_levels_is_in_sync() -> None:
    assert compared(binding(), ours()) == Comparison("kai-scheduler", "gpus")


@pytest.mark.parametrize("keys", [KEYS[:3], KEYS[::-1], (*KEYS[:3], "example.com/socket"), ()])
def test_other_levels_or_another_order_are_replaced(keys: Sequence[str]) -> None:
    found = compared(binding(), ours(keys))
    assert found.drift == f"Topology gpus is being replaced by one with the levels {', '.join(KEYS)}"
    [delete] = found.writes
    assert isinstance(delete, Delete)
    assert (delete.resource, delete.namespace, delete.name, delete.uid) == (TOPOLOGY, "", "gpus", "uid-gpus")


@pytest.mark.parametrize("keys", [KEYS, KEYS[:2]])
def test_one_on_its_way_out_is_waited_for(keys: Sequence[str]) -> None:
    found = compared(binding(), ours(keys, deletionTimestamp=NOW))
    assert found.drift == f"Topology gpus is being replaced by one with the levels {', '.join(KEYS)}"
    assert found.writes == ()


def test_what_else_stands_in_it_is_left_alone() -> None:
    """KAI has more to say of a level, and others may label the object."""
    live = ours()
    live["spec"]["levels"][0]["alias"] = "zone"
    live["metadata"]["labels"] = {"somebody": "else"}
    assert compared(binding(), live) == Comparison("kai-scheduler", "gpus")


@pytest.mark.parametrize("keys", [KEYS, KEYS[:2]])
@pytest.mark.parametrize("owner", ["", "uid-of-another"])
def test_one_of_somebody_else_is_not_touched(owner: str, keys: Sequence[str]) -> None:
    found = compared(binding(), topology(keys=keys, owner=owner))
    text = "Topology gpus does not belong to this binding: delete it, or name it in spec.schedulerTopologyBindings"
    assert found == Comparison("kai-scheduler", "gpus", text)


def test_an_owner_that_does_not_control_it_is_none() -> None:
    live = ours()
    live["metadata"]["ownerReferences"][0]["controller"] = False
    assert compared(binding(), live).drift.startswith("Topology gpus does not belong to this binding")


# -- topologies that others keep ---------------------------------------------------------------------------------------


def test_a_reference_is_compared_and_its_generation_told() -> None:
    found = compared(binding(kai_scheduler="theirs"), topology("theirs"))
    assert found == Comparison("kai-scheduler", "theirs", generation=3)


def test_a_reference_with_other_levels_is_told_and_left_alone() -> None:
    found = compared(binding(KEYS[:2], kai_scheduler="theirs"), topology("theirs", KEYS[1::-1]))
    text = (
        "Topology theirs has the levels example.com/block, topology.kubernetes.io/zone, "
        "not topology.kubernetes.io/zone, example.com/block"
    )
    assert found == Comparison("kai-scheduler", "theirs", text, generation=3)


def test_tas18_a_reference_to_nothing() -> None:
    one = binding(kai_scheduler="theirs")
    assert compared(one) == Comparison("kai-scheduler", "theirs", "there is no Topology theirs")
    shown = status(one)
    assert shown["schedulerTopologyStatuses"] == [
        {
            "schedulerName": "kai-scheduler",
            "topologyReference": "theirs",
            "inSync": False,
            "message": "there is no Topology theirs",
        }
    ]
    [condition] = shown["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("SchedulerTopologyDrift", "True", "Drift")


@pytest.mark.parametrize("name", ["theirs", "gpus"])
def test_one_that_was_ours_stays_when_a_reference_comes(name: str) -> None:
    found = compared(binding(KEYS[:2], kai_scheduler=name), ours(), topology("theirs", KEYS[:2]))
    assert found.writes == ()
    assert (found.drift == "") == (name == "theirs")


@pytest.mark.parametrize("references", [{}, {"kai_scheduler": "theirs"}])
def test_without_kais_kind_nothing_is_written(references: dict[str, Any]) -> None:
    found = compared(binding(**references), served=())
    text = "the API server does not serve topologies.kai.scheduler in version v1alpha1"
    assert found == Comparison("kai-scheduler", references.get("kai_scheduler", "gpus"), text)


# -- the status --------------------------------------------------------------------------------------------------------


def test_all_in_sync() -> None:
    shown = status(binding(kai_scheduler="theirs"), topology("theirs"))
    assert shown["schedulerTopologyStatuses"] == [
        {
            "schedulerName": "kai-scheduler",
            "topologyReference": "theirs",
            "inSync": True,
            "schedulerBackendTopologyObservedGeneration": 3,
        }
    ]
    [condition] = shown["conditions"]
    assert (condition["status"], condition["reason"]) == ("False", "InSync")
    assert condition["observedGeneration"] == 7
    assert condition["lastTransitionTime"] == NOW
    assert condition["message"]


def test_what_the_api_server_said_to_a_write_is_told() -> None:
    shown = status(binding(), errors={"kai-scheduler": "create Topology gpus: no"})
    [entry] = shown["schedulerTopologyStatuses"]
    assert (entry["inSync"], entry["message"]) == (False, "create Topology gpus: no")
    assert shown["conditions"][0]["message"] == "kai-scheduler: create Topology gpus: no"


@pytest.mark.parametrize("live", [(), (topology("theirs"),)])
def test_a_scheduler_that_is_not_enabled_wins(live: Sequence[Object]) -> None:
    shown = status(binding(zeta="z", kai_scheduler="theirs", alpha="a"), *live)
    names = [(one["schedulerName"], one["inSync"]) for one in shown["schedulerTopologyStatuses"]]
    assert names == [("kai-scheduler", bool(live)), ("zeta", False), ("alpha", False)]
    [condition] = shown["conditions"]
    assert (condition["status"], condition["reason"]) == ("Unknown", "TopologyNotFound")
    assert condition["message"] == "the operator has no profile zeta, alpha with topology objects"


def test_schedulers_come_by_name() -> None:
    kinds = {"beta": TopologyKind(OTHER, lambda _: {}, lambda obj: list(obj["keys"])), **KINDS}
    kinds["alpha"] = kinds["beta"]
    live = {"kind": "Shape", "metadata": {"name": "b", "generation": 1}, "keys": KEYS}
    found = compare_all(binding(beta="b", alpha="b"), kinds, Seen(live, ours()))
    assert [(one.scheduler, one.drift) for one in found] == [("alpha", ""), ("beta", ""), ("kai-scheduler", "")]


def test_without_schedulers_that_place_by_topology_there_is_no_condition() -> None:
    old = [
        {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
        for kind in ("SchedulerTopologyDrift", "Somebodys")
    ]
    shown = binding_status(binding(status={"conditions": old}), compare_all(binding(), {}, Seen()), {}, NOW)
    assert shown == {"schedulerTopologyStatuses": [], "conditions": [old[1]]}


def test_the_same_again_is_the_same_and_a_change_has_its_time() -> None:
    first = status(binding(), ours())
    again = binding(status=first)
    assert binding_status(again, compare_all(again, KINDS, Seen(ours())), {}, LATER) == first
    [condition] = binding_status(again, compare_all(again, KINDS, Seen()), {}, LATER)["conditions"]
    assert (condition["status"], condition["lastTransitionTime"]) == ("True", LATER)


def test_only_kai_of_the_own_back_ends_is_told_levels() -> None:
    schedulers = enable([("volcano", {}), ("kai-scheduler", {}), ("lpx-scheduler", {})])
    assert list(schedulers.topologies) == ["kai-scheduler"]
    watched = [(one.resource.label, one.field_selector) for one in schedulers.topology_watches]
    crd = ("customresourcedefinitions.apiextensions.k8s.io", "metadata.name=topologies.kai.scheduler")
    assert watched == [crd, ("topologies.kai.scheduler", None)]
    assert TOPOLOGY not in {watch.resource for watch in schedulers.watches}
    assert enable().topology_watches == ()
