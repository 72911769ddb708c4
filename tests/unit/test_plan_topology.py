"""Topology constraints: what they mean on a cluster, what gangs say of them, and what the set tells."""

import copy
from typing import Any

import pytest

from grove.api import labels
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podgang import PodGang
from grove.plan.conditions import Want, find
from grove.plan.gangstatus import Surroundings
from grove.plan.podcliqueset import podcliqueset_status
from grove.plan.podgang import plan_gang
from grove.plan.template import Template
from grove.plan.topology import NOWHERE, Topology, binding_name, levels_condition, topology_of
from grove.runtime.writes import Create, Patch
from tests.fake_api.objects import merge_patch
from tests.topology_cases import BINDING, CASES, KEYS, told
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, stored, template


def binding(*domains: str) -> ClusterTopologyBinding:
    """The binding of the cases, with these levels or all of them."""
    wire = stored(copy.deepcopy(BINDING))
    wire["spec"]["levels"] = [level for level in wire["spec"]["levels"] if not domains or level["domain"] in domains]
    return ClusterTopologyBinding.from_wire(wire)


def pack(name: str | None = "grove-topology", **levels: str) -> Object:
    return {"topologyConstraint": ({"topologyName": name} if name else {}) | {"pack": levels}}


def packed(**levels: str) -> Object:
    return {"packConstraint": {strength: KEYS[level] for strength, level in levels.items()}}


@pytest.mark.parametrize("case", CASES)
def test_what_gangs_say(case: str) -> None:
    wanted, found = CASES[case], {}
    name = wanted.pcs["metadata"]["name"]
    for replica in range(wanted.pcs["spec"]["replicas"]):
        made = Paper.of(wanted.pcs, replica=replica)
        made.fill()
        for gang in made.gangs:
            podgang = written(made, gang.name, topology_of(made.template, binding()))
            found[gang.name] = told(podgang, name)
            constrained = wanted.gangs[gang.name.removeprefix(f"{name}-")].count(":") > len(gang.members)
            if constrained:
                assert podgang["metadata"]["annotations"][labels.TOPOLOGY_NAME] == "grove-topology"
    assert found == {f"{name}-{gang}": text for gang, text in wanted.gangs.items()}


def written(made: Paper, gang: str, topology: Topology, live: PodGang | None = None) -> Object:
    """The PodGang once it has been written."""
    todo = plan_gang(made.template, made.state(gang), Surroundings(topology=topology), live, hurry=True, now=NOW)
    wire = {} if live is None else live.wire
    for write in todo.spec:
        assert isinstance(write, Create | Patch)
        wire = stored(write.body) if isinstance(write, Create) else merge_patch(wire, write.body)
    return wire


def constrained(**constraints: Any) -> Template:
    """A set with constraints of its own (`whole`), of its group g, and of its cliques a and b."""
    cliques = [clique("a", 1) | constraints.get("a", {}), clique("b", 1) | constraints.get("b", {})]
    obj = pod_set(*cliques, groups=[group("g", ["b"], 1, 1) | constraints.get("g", {})], **constraints.get("whole", {}))
    return template(obj)


def test_each_constraint_has_its_place() -> None:
    tpl = constrained(
        whole=pack(required="block", preferred="rack"), g=pack(None, required="rack"), b=pack(None, preferred="host")
    )
    assert topology_of(tpl, binding()) == Topology(
        "grove-topology",
        packed(required="block", preferred="rack"),
        {"g": packed(required="rack")},
        {"b": packed(preferred="host")},
    )


def test_a_level_that_the_cluster_has_not_is_not_asked_for() -> None:
    tpl = constrained(whole=pack(required="block", preferred="rack"), a=pack(required="host"))
    assert topology_of(tpl, binding("block")) == Topology("grove-topology", packed(required="block"))
    assert topology_of(tpl, binding("rack")) == Topology("grove-topology", packed(preferred="rack"))
    assert topology_of(tpl, binding("zone")) == NOWHERE
    assert topology_of(tpl, None) == NOWHERE


def test_a_level_in_the_old_way_is_required() -> None:
    tpl = constrained(whole={"topologyConstraint": {"topologyName": "grove-topology", "packDomain": "rack"}})
    assert topology_of(tpl, binding()).whole == packed(required="rack")


def test_the_first_name_counts() -> None:
    assert binding_name(constrained()) == ""
    assert binding_name(constrained(whole=pack(None, required="rack"), b=pack("one", required="host"))) == "one"
    assert binding_name(constrained(b=pack("one", required="host"), g=pack("two", required="rack"))) == "two"
    assert binding_name(constrained(whole=pack("x", required="rack"), g=pack("y", required="rack"))) == "x"


RACK = {"whole": pack(required="rack", preferred="host")}
ALL, HALF = binding(), binding("rack")


@pytest.mark.parametrize(
    ("constraints", "found", "aware", "ignored", "wanted"),
    [
        (RACK, ALL, False, "", (None, "TopologyAwareSchedulingDisabled")),
        ({}, None, False, "", None),
        ({}, ALL, True, "", (False, "AllClusterTopologyLevelsAvailable")),
        ({}, ALL, True, "it cannot", (False, "AllClusterTopologyLevelsAvailable")),
        ({"whole": pack(None, required="rack")}, None, True, "", (None, "TopologyNameMissing")),
        (RACK, None, True, "it cannot", (None, "ClusterTopologyNotFound")),
        (RACK, HALF, True, "it cannot", (True, "ClusterTopologyLevelsUnavailable")),
        (RACK, ALL, True, "it cannot", (True, "SchedulerIgnoresTopology")),
        (RACK, ALL, True, "", (False, "AllClusterTopologyLevelsAvailable")),
    ],
)
def test_what_the_set_tells(
    constraints: Any, found: ClusterTopologyBinding | None, aware: bool, ignored: str, wanted: Any
) -> None:
    tpl = constrained(**constraints)
    shown = levels_condition(tpl, found, topology_aware=aware, ignored=ignored)
    assert (shown and (shown.status, shown.reason)) == wanted
    if shown is not None:
        assert shown.observed_generation == tpl.pcs.generation
        assert ("it cannot" in shown.message) == (shown.reason == "SchedulerIgnoresTopology")
    if found is HALF:
        assert shown is not None
        assert "no level host:" in shown.message


def test_the_condition_is_in_the_status_and_goes_where_there_is_none() -> None:
    tpl = constrained()
    want = Want("TopologyLevelsUnavailable", None, "R", "m", 7)

    def status(tpl: Template, levels: Want | None) -> Object:
        return podcliqueset_status(tpl, [], lambda *_: pytest.fail("nothing is updated"), [], NOW, levels)

    assert "conditions" not in status(tpl, None)
    shown = status(tpl, want)["conditions"]
    assert shown == [
        {"type": "TopologyLevelsUnavailable", "status": "Unknown", "reason": "R", "message": "m",
         "observedGeneration": 7, "lastTransitionTime": NOW}
    ]  # fmt: skip
    foreign = {"type": "Foreign", "status": "True", "reason": "R", "message": "", "lastTransitionTime": NOW}
    live = template(merge_patch(tpl.pcs.wire, {"status": {"conditions": [*shown, foreign]}}))
    assert status(live, want)["conditions"] == [*shown, foreign]
    assert status(live, None)["conditions"] == [foreign]


# PodGangs that are there already


def test_what_is_asked_for_no_more_goes() -> None:
    wanted = CASES["TAS8"]
    made = Paper.of(wanted.pcs)
    made.fill()
    all_of_it = topology_of(made.template, binding())
    first = written(made, "tas8-0", all_of_it)
    first["metadata"]["managedFields"] = [
        {"manager": "grove-operator",
         "fieldsV1": {"f:metadata": {"f:annotations": {f"f:{labels.TOPOLOGY_NAME}": {}}}}}
    ]  # fmt: skip
    live = PodGang.from_wire(first)
    assert written(made, "tas8-0", all_of_it, live) is live.wire
    after = written(made, "tas8-0", NOWHERE, live)
    assert told(after, "tas8") == "; ; ig-0-prefill:2 ig-0-decode:2 ig-1-prefill:2 ig-1-decode:2"
    assert labels.TOPOLOGY_NAME not in (after["metadata"].get("annotations") or {})


def test_a_wish_that_goes_leaves_what_is_required() -> None:
    made = Paper.of(CASES["TAS23"].pcs)
    made.fill()
    live = PodGang.from_wire(written(made, "tas23-0", topology_of(made.template, binding())))
    after = written(made, "tas23-0", topology_of(made.template, binding("block")), live)
    assert told(after, "tas23") == "block; ; router:1 workers-0-worker:1"


def test_a_gang_that_waits_says_within_what() -> None:
    made = Paper.of(CASES["TAS8"].pcs)
    made.fill(gated=False)
    topology = topology_of(made.template, binding())
    todo = plan_gang(made.template, made.state("tas8-0"), Surroundings(topology=topology), None, hurry=True, now=NOW)
    assert todo.status is not None
    message = find(todo.status.status["conditions"], "Scheduled")["message"]
    levels = "one kubernetes.io/block, one kubernetes.io/rack, one kubernetes.io/hostname"
    assert message.startswith(f"waiting for scheduled pods within {levels}: ")
