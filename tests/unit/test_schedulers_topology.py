"""Topology with each scheduler: what KAI's PodGroups say, what Kubernetes' scheduler gets beside its groups."""

from typing import Any

import pytest

from grove.admission import default
from grove.admission.fields import Field
from grove.api.clustertopologybinding import ClusterTopologyBinding
from grove.api.podgang import PodGang
from grove.plan.gangstatus import Surroundings
from grove.plan.podgang import plan_gang
from grove.plan.topology import topology_of
from grove.runtime.writes import Create
from grove.schedulers import Backend, Slot, enable
from grove.schedulers.backend import UnknownBackend
from grove.schedulers.default import DefaultScheduler
from grove.schedulers.kai import PODGROUP as KAI_PODGROUP
from grove.schedulers.kai import Kai
from grove.schedulers.native import COMPOSITE, PODGROUP
from tests.cluster.scheduler_crds import kai_podgroups
from tests.topology_cases import BINDING, CASES, KEYS, pack, worker
from tests.unit.gangs import Offer
from tests.unit.schedulers import Shown, filled, made, view
from tests.unit.support import NOW, Object, Paper, clique, group, pod_set, pod_wire, stored

LEVELS = ClusterTopologyBinding.from_wire(stored(BINDING))
DEFAULT = DefaultScheduler("default-scheduler", {})


def kai_says(podgroup: Object, name: str) -> str:
    """What a PodGroup of KAI's says, as `Case.gangs` writes it."""
    spec = podgroup["spec"]
    replica = podgroup["metadata"]["name"].removeprefix(f"{name}-").split("-")[0]

    def short(part: str) -> str:
        return part.removeprefix(f"{name}-{replica}-")

    def level(constrained: Object) -> str:
        levels = {key: domain for domain, key in KEYS.items()}
        asked = constrained.get("topologyConstraint") or {}
        assert not asked or asked["topology"] == "grove-topology"
        wish = f"[{levels[asked['preferredTopologyLevel']]}]" if "preferredTopologyLevel" in asked else ""
        return (levels[asked["requiredTopologyLevel"]] if "requiredTopologyLevel" in asked else "") + wish

    parents = [one for one in spec["subGroups"] if "minSubGroup" in one]
    leaves = [one for one in spec["subGroups"] if "minMember" in one]
    units = []
    for one in parents:
        members = [short(leaf["name"]) for leaf in leaves if leaf.get("parent") == one["name"]]
        assert one["minSubGroup"] == len(members)
        units.append(f"{short(one['name'])}:{level(one)}({','.join(members)})")
    shown = [":".join(filter(None, (short(one["name"]), str(one["minMember"]), level(one)))) for one in leaves]
    return f"{level(spec)}; {' '.join(units)}; {' '.join(shown)}".replace(";  ;", "; ;")


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


GANG, SCALED = {"grove.io/podgang": "web-0"}, {"grove.io/podgang": "web-0-g-0"}


def unit(index: int) -> dict[str, str]:
    return {"grove.io/podcliquescalinggroup": "web-0-g", "grove.io/podcliquescalinggroup-replica-index": str(index)}


def own(podclique: str) -> dict[str, str]:
    return {"grove.io/podclique": podclique}


def test_what_is_preferred_is_a_preference_of_each_pod() -> None:
    rack, host = KEYS["rack"], KEYS["host"]
    both = {PODGROUP, COMPOSITE}
    assert preferences(levels(), "web-0-a", both) == [(rack, GANG)]
    assert preferences(levels(), "web-0-g-0-b", both) == [(host, own("web-0-g-0-b")), (rack, GANG)]
    assert preferences(levels(), "web-0-g-1-b", both) == [(host, own("web-0-g-1-b")), (rack, SCALED)]
    assert preferences(pod_set(clique("a")), "web-0-a", both) == []


@pytest.mark.parametrize("served", [set(), {PODGROUP}])
def test_without_topology_what_is_required_is_a_preference_too(served: Any) -> None:
    block, rack, host = KEYS["block"], KEYS["rack"], KEYS["host"]
    found = preferences(levels(), "web-0-g-1-b", served)
    assert found == [(host, own("web-0-g-1-b")), (rack, unit(1)), (block, SCALED), (rack, SCALED)]
    assert preferences(levels(), "web-0-a", served) == [(host, own("web-0-a")), (block, GANG), (rack, GANG)]


def test_the_users_own_affinity_stays() -> None:
    term = {"weight": 100, "podAffinityTerm": {"topologyKey": "k", "labelSelector": {"matchLabels": {"app": "cache"}}}}
    affinity = {"nodeAffinity": {"x": 1}, "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
    found = preferences(levels(), "web-0-a", {PODGROUP, COMPOSITE}, affinity=affinity)
    assert found == [("k", {"app": "cache"}), (KEYS["rack"], GANG)]
    assert affinity["podAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": [term]}


@pytest.mark.parametrize(
    ("backend", "served", "kept"),
    [
        (DEFAULT, {PODGROUP, COMPOSITE}, True),
        (DEFAULT, {PODGROUP}, False),
        (DEFAULT, set(), False),
        (DefaultScheduler("default-scheduler", {"gangScheduling": False}), {PODGROUP, COMPOSITE}, False),
        (Kai("kai-scheduler", {}), set(), True),
        (enable([("volcano", {})]).named("volcano"), {PODGROUP, COMPOSITE}, False),
        (UnknownBackend("mine"), {PODGROUP, COMPOSITE}, False),
    ],
)
def test_who_keeps_to_what_is_required(backend: Backend, served: Any, kept: bool) -> None:
    assert (backend.ignores_topology(Offer(set(served))) == "") == kept


def test_admission_warns_where_it_is_a_wish_only() -> None:
    obj = default(pod_set(worker("a", 1, "rack"), worker("b", 1, preferred="host")))
    found = list(DEFAULT.validate(Field(obj), Offer({PODGROUP})))
    assert [finding.path for finding in found] == ["spec.template.cliques[0].topologyConstraint.pack.required"]
    assert list(DEFAULT.validate(Field(obj), Offer({PODGROUP, COMPOSITE}))) == []
