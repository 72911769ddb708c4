"""Topology with each scheduler: what KAI's PodGroups say, what Kubernetes' scheduler gets beside its groups."""

from typing import Any

import pytest

from grove.admission import default
from grove.admission.fields import Field
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podgang import PodGang
from grove.plan.gangstatus import Surroundings
from grove.plan.podgang import plan_gang
from grove.plan.template import Template
from grove.plan.topology import topology_of
from grove.runtime.writes import Create
from grove.schedulers import Backend, Slot, enable
from grove.schedulers.backend import UnknownBackend
from grove.schedulers.default import DefaultScheduler
from grove.schedulers.kai import PODGROUP as KAI_PODGROUP
from grove.schedulers.kai import Kai
from grove.schedulers.native import COMPOSITE, PODGROUP
from tests.cluster.scheduler_crds import kai_podgroups
from tests.topology_cases import BINDING, CASES, KEYS, pack, worker, written_gang, written_level
from tests.unit.gangs import Offer
from tests.unit.schedulers import Shown, filled, made, view
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored

LEVELS = ClusterTopologyBinding.from_wire(stored(BINDING))
DEFAULT = DefaultScheduler("default-scheduler", {})


def kai_says(podgroup: Object, name: str) -> str:
    """What a PodGroup of KAI's says, as `Case.gangs` writes it."""
    spec = podgroup["spec"]

    def level(constrained: Object) -> str:
        asked = constrained.get("topologyConstraint") or {}
        assert not asked or asked["topology"] == "grove-topology"
        return written_level(asked.get("requiredTopologyLevel"), asked.get("preferredTopologyLevel"))

    leaves = [one for one in spec["subGroups"] if "minMember" in one]
    units = []
    for one in spec["subGroups"]:
        if "minSubGroup" in one:
            members = [leaf["name"] for leaf in leaves if leaf.get("parent") == one["name"]]
            assert one["minSubGroup"] == len(members)
            units.append((one["name"], level(one), members))
    shown = [(one["name"], one["minMember"], level(one)) for one in leaves]
    return written_gang(podgroup["metadata"]["name"], name, level(spec), units, shown)


@pytest.mark.parametrize("case", CASES)
def test_what_kai_is_told(case: str) -> None:
    """Of every case the PodGroups of the acceptance list, from the PodGangs to KAI."""
    wanted, cluster, kai = CASES[case], Shown(), Kai("kai-scheduler", {})
    cluster.install(kai_podgroups("0.15"), KAI_PODGROUP)
    name = wanted.pcs["metadata"]["name"]
    found = {}
    for replica in range(wanted.pcs["spec"]["replicas"]):
        obj = {**wanted.pcs, "metadata": {"name": name, "labels": {"kai.scheduler/queue": "q"}}}
        paper = filled(obj) if replica == 0 else Paper.of(obj, replica=replica)
        for gang in paper.gangs:
            around = Surroundings(topology=topology_of(paper.template, LEVELS))
            (write,) = plan_gang(paper.template, paper.state(gang.name), around, None, hurry=True, now=NOW).spec
            assert isinstance(write, Create)
            live = PodGang.from_wire(stored(write.body))
            podgroup = made(kai, cluster, view(paper, cluster, gang.name, live), KAI_PODGROUP)
            found[gang.name] = kai_says(podgroup, name)
    assert found == {f"{name}-{gang}": text for gang, text in wanted.gangs.items()}


def test_a_topology_of_kais_that_others_keep_is_named() -> None:
    cluster, kai = Shown(), Kai("kai-scheduler", {})
    cluster.install(kai_podgroups("0.15"), KAI_PODGROUP)
    wire = stored(BINDING)
    wire["spec"] = {**wire["spec"], "schedulerTopologyBindings": [
        {"schedulerName": "kai-scheduler", "topologyReference": "theirs"},
        {"schedulerName": "x", "topologyReference": "y"},
    ]}  # fmt: skip
    obj = pod_set(worker("a", 1, "rack"))
    obj["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["schedulerName"] = "kai-scheduler"
    obj["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
    paper = filled(obj)
    topology = topology_of(paper.template, ClusterTopologyBinding.from_wire(wire))
    around = Surroundings(topology=topology)
    (write,) = plan_gang(paper.template, paper.state("web-0"), around, None, hurry=True, now=NOW).spec
    assert isinstance(write, Create)
    assert write.body["metadata"]["annotations"]["grove.io/topology-name"] == "grove-topology"
    live = PodGang.from_wire(stored(write.body))
    podgroup = made(kai, cluster, view(paper, cluster, "web-0", live, topology), KAI_PODGROUP)
    (leaf,) = podgroup["spec"]["subGroups"]
    assert leaf["topologyConstraint"] == {"topology": "theirs", "requiredTopologyLevel": KEYS["rack"]}


def preferences(obj: Object, podclique: str, served: Any, **pod_spec: Any) -> list[tuple[str, dict[str, str]]]:
    """Level and selector of the preferred pod affinity of a new pod of Kubernetes' scheduler."""
    for one in obj["spec"]["template"]["cliques"]:
        one["spec"]["podSpec"] |= pod_spec
    paper = Paper.of(obj)
    owner = paper.podcliques[podclique]
    slot = Slot(paper.template, owner, 0, Offer(set(served)), topology_of(paper.template, LEVELS))
    pod = DEFAULT.prepare_pod(pod_wire(owner, 0, tpl=paper.template), slot)
    terms = pod["spec"].get("affinity", {}).get("podAffinity", {}).get(
        "preferredDuringSchedulingIgnoredDuringExecution", []
    )  # fmt: skip
    assert {term["weight"] for term in terms} <= {100}
    return [
        (term["podAffinityTerm"]["topologyKey"], term["podAffinityTerm"]["labelSelector"]["matchLabels"])
        for term in terms
    ]


def levels() -> Object:
    return pod_set(
        clique("a") | pack("host"), clique("b") | pack("", "host"), groups=[group("g", ["b"], 2, 1) | pack("rack")],
        **pack("block", "rack"),
    )  # fmt: skip


GANG = {"grove.io/podgang": "web-0"}


def unit(index: int) -> dict[str, str]:
    return {"grove.io/podcliquescalinggroup": "web-0-g", "grove.io/podcliquescalinggroup-replica-index": str(index)}


def own(podclique: str) -> dict[str, str]:
    return {"grove.io/podclique": podclique}


def test_what_is_preferred_is_a_preference_of_each_pod() -> None:
    rack, host = KEYS["rack"], KEYS["host"]
    both = {PODGROUP, COMPOSITE}
    assert preferences(levels(), "web-0-a", both) == [(rack, GANG)]
    assert preferences(levels(), "web-0-g-0-b", both) == [(host, own("web-0-g-0-b")), (rack, GANG)]
    assert preferences(levels(), "web-0-g-1-b", both) == [(host, own("web-0-g-1-b"))]
    assert preferences(pod_set(clique("a")), "web-0-a", both) == []


@pytest.mark.parametrize("served", [set(), {PODGROUP}])
def test_without_topology_what_is_required_is_a_preference_too(served: Any) -> None:
    block, rack, host = KEYS["block"], KEYS["rack"], KEYS["host"]
    found = preferences(levels(), "web-0-g-1-b", served)
    assert found == [(host, own("web-0-g-1-b")), (rack, unit(1))]
    assert preferences(levels(), "web-0-a", served) == [(host, own("web-0-a")), (block, GANG), (rack, GANG)]


def test_the_users_own_affinity_stays() -> None:
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": "k", "labelSelector": {"matchLabels": {"app": "cache"}}}}
    affinity = {"nodeAffinity": {"x": 1}, "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = preferences(levels(), "web-0-a", {PODGROUP, COMPOSITE}, affinity=affinity)
    assert found == [("k", {"app": "cache"}), (KEYS["rack"], GANG)]
    assert affinity["podAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


def test_pods_beyond_a_minimum_demand_what_their_gang_requires() -> None:
    """They are in no group, and are placed after it."""
    obj = pod_set(worker("a", 3, "host"), **pack("block", "rack"))
    obj["spec"]["template"]["cliques"][0]["spec"]["minAvailable"] = 2
    paper = Paper.of(obj)
    owner = paper.podcliques["web-0-a"]
    found = []
    for index in range(3):
        slot = Slot(paper.template, owner, index, Offer({PODGROUP, COMPOSITE}), topology_of(paper.template, LEVELS))
        pod = DEFAULT.prepare_pod(pod_wire(owner, index, tpl=paper.template), slot)
        near = pod["spec"]["affinity"]["podAffinity"]
        assert [term["podAffinityTerm"]["topologyKey"] for term in near[SOFT]] == [KEYS["rack"]]
        found.append([(t["topologyKey"], t["labelSelector"]["matchLabels"]) for t in near.get(HARD, ())])
    assert found == [[], [], [(KEYS["host"], own("web-0-a")), (KEYS["block"], GANG)]]


HARD, SOFT = (f"{kind}DuringSchedulingIgnoredDuringExecution" for kind in ("required", "preferred"))
NEAR = Paper.of(pod_set(worker("a", 1, "rack"))).template
TORN = Paper.of(
    pod_set(worker("a", 1, "rack"), {**(one := worker("b", 1)), "spec": {**one["spec"], "podSpec": {
        **one["spec"]["podSpec"], "priorityClassName": "high"}}})
).template  # fmt: skip


@pytest.mark.parametrize(
    ("backend", "template", "served", "why"),
    [
        (DEFAULT, NEAR, {PODGROUP, COMPOSITE}, ""),
        (DEFAULT, TORN, {PODGROUP, COMPOSITE}, "the cliques differ in priority"),
        (DEFAULT, NEAR, {PODGROUP}, "no CompositePodGroups"),
        (DEFAULT, NEAR, set(), "serves no PodGroups"),
        (DefaultScheduler("d", {"gangScheduling": False}), NEAR, {PODGROUP, COMPOSITE}, "gangScheduling is off"),
        (Kai("kai-scheduler", {}), NEAR, set(), ""),
        (enable([("volcano", {})]).named("volcano"), NEAR, {PODGROUP, COMPOSITE}, "volcano does not place by"),
        (UnknownBackend("mine"), NEAR, {PODGROUP, COMPOSITE}, "mine does not place by"),
    ],
)
def test_who_keeps_to_what_is_required(backend: Backend, template: Template, served: Any, why: str) -> None:
    found = backend.ignores_topology(template, Offer(set(served)))
    assert why in found
    assert bool(found) == bool(why)


def test_kai_gets_no_two_sub_groups_of_one_name() -> None:
    obj = pod_set(worker("g-0", 1, "rack"), clique("b"), groups=[group("g", ["b"]) | pack("block")])
    obj["metadata"]["labels"] = {"kai.scheduler/queue": "q"}
    cluster, kai, paper = Shown(), Kai("kai-scheduler", {}), filled(obj)
    cluster.install(kai_podgroups("0.15"), KAI_PODGROUP)
    around = Surroundings(topology=topology_of(paper.template, LEVELS))
    (write,) = plan_gang(paper.template, paper.state("web-0"), around, None, hurry=True, now=NOW).spec
    assert isinstance(write, Create)
    live = PodGang.from_wire(stored(write.body))
    groups = made(kai, cluster, view(paper, cluster, "web-0", live), KAI_PODGROUP)["spec"]["subGroups"]
    assert [(one["name"], one.get("parent")) for one in groups] == [
        ("web-0-g-0-group", None), ("web-0-g-0", None), ("web-0-g-0-b", "web-0-g-0-group")
    ]  # fmt: skip


def test_admission_warns_where_it_is_a_wish_only() -> None:
    obj = default(pod_set(worker("a", 1, "rack"), worker("b", 1, preferred="host")))
    found = list(DEFAULT.validate(Field(obj), Offer({PODGROUP})))
    assert [finding.path for finding in found] == ["spec.template.cliques[0].topologyConstraint.pack.required"]
    assert list(DEFAULT.validate(Field(obj), Offer({PODGROUP, COMPOSITE}))) == []
