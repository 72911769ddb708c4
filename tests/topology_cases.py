"""Sets with topology constraints, what their gangs say, and where their pods must be (acceptance list 7).

A gang is written as `<level of all>; <scaling group's replica>:<level>(<its cliques>) …; <clique>:<minimum>:<level> …`,
names without that of set and replica. Levels that are preferred stand in brackets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.cluster.workloads import clique, group, podcliqueset

Object = dict[str, Any]

KEYS = {
    "zone": "kubernetes.io/zone",
    "block": "kubernetes.io/block",
    "rack": "kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
"""The levels of the cluster, broadest first, and their node labels."""

BINDING: Object = {
    "apiVersion": "grove.io/v1alpha1",
    "kind": "ClusterTopologyBinding",
    "metadata": {"name": "grove-topology"},
    "spec": {"levels": [{"domain": domain, "key": key} for domain, key in KEYS.items()]},
}


@dataclass(frozen=True)
class Case:
    """A set, its gangs by name without the set's, and within which level pods are, by the label that they share."""

    pcs: Object
    gangs: Mapping[str, str]
    placed: Mapping[str, str] = field(default_factory=dict)
    """`clique`, `unit` (replica of a scaling group) or `gang`: the level"""


def pack(required: str = "", preferred: str = "") -> Object:
    """The field `topologyConstraint`."""
    asked = {"required": required, "preferred": preferred}
    levels = {strength: level for strength, level in asked.items() if level}
    return {"topologyConstraint": {"topologyName": "grove-topology", "pack": levels}}


def worker(name: str, pods: int, level: str = "", *, large: bool = False, preferred: str = "") -> Object:
    """A clique of which all pods are needed; of `large` ones a node holds but one."""
    made = clique(name, pods, pods)
    made["spec"]["podSpec"]["containers"][0]["resources"] = {"requests": {"cpu": "33" if large else "1"}}
    return {**made, **(pack(level, preferred) if level or preferred else {})}


CASES: dict[str, Case] = {
    "TAS2": Case(
        podcliqueset("tas2", worker("rack", 3, "rack", large=True), worker("block", 4, "block", large=True)),
        {"0": "; ; rack:3:rack block:4:block"},
        {"clique": "block"},
    ),
    "TAS3": Case(
        podcliqueset(
            "tas3", worker("worker", 1, large=True), worker("router", 2, large=True),
            group("workers", "worker", 2, 2), **pack("rack"),
        ),
        {"0": "rack; ; router:2 workers-0-worker:1 workers-1-worker:1"},
        {"gang": "rack"},
    ),
    "TAS4": Case(
        podcliqueset(
            "tas4", worker("worker", 1), worker("router", 2), group("workers", "worker", 2, 2, **pack("rack")),
        ),
        {"0": "; workers-0:rack(workers-0-worker) workers-1:rack(workers-1-worker); "
              "router:2 workers-0-worker:1 workers-1-worker:1"},
        {"unit": "rack"},
    ),
    "TAS5": Case(podcliqueset("tas5", worker("worker", 2, "host")), {"0": "; ; worker:2:host"}, {"clique": "host"}),
    "TAS6": Case(
        podcliqueset("tas6", worker("worker", 4, large=True), **pack("zone")), {"0": "zone; ; worker:4"},
        {"gang": "zone"},
    ),
    "TAS7": Case(
        podcliqueset("tas7", worker("worker", 2), group("workers", "worker", 2, 2)),
        {"0": "; ; workers-0-worker:2 workers-1-worker:2"},
    ),
    "TAS8": Case(
        podcliqueset(
            "tas8", worker("prefill", 2, "host"), worker("decode", 2, "host"),
            group("ig", "prefill decode", 2, 2, **pack("rack")), **pack("block"),
        ),
        {"0": "block; ig-0:rack(ig-0-prefill,ig-0-decode) ig-1:rack(ig-1-prefill,ig-1-decode); "
              "ig-0-prefill:2:host ig-0-decode:2:host ig-1-prefill:2:host ig-1-decode:2:host"},
        {"clique": "host", "unit": "rack", "gang": "block"},
    ),
    "TAS9": Case(
        podcliqueset("tas9", worker("worker", 2, "host"), **pack("block")), {"0": "block; ; worker:2:host"},
        {"clique": "host"},
    ),
    "TAS10": Case(
        podcliqueset(
            "tas10", worker("worker", 2, large=True), group("ig", "worker", 3, 1, **pack("rack")), **pack("block")
        ),
        {"0": "block; ig-0:rack(ig-0-worker); ig-0-worker:2", "0-ig-0": "rack; ; ig-1-worker:2",
         "0-ig-1": "rack; ; ig-2-worker:2"},
        {"unit": "rack"},
    ),
    "TAS11": Case(
        podcliqueset("tas11", worker("worker", 2, "host"), group("workers", "worker", 2, 2, **pack("rack"))),
        {"0": "; workers-0:rack(workers-0-worker) workers-1:rack(workers-1-worker); "
              "workers-0-worker:2:host workers-1-worker:2:host"},
        {"unit": "host"},
    ),
    "TAS12": Case(
        podcliqueset("tas12", worker("worker", 2, "host"), group("workers", "worker", 10, 3), **pack("block")),
        {"0": "block; ; workers-0-worker:2:host workers-1-worker:2:host workers-2-worker:2:host",
         **{f"0-workers-{index}": f"block; ; workers-{index + 3}-worker:2:host" for index in range(7)}},
        {"clique": "host", "gang": "block"},
    ),
    "TAS14": Case(
        podcliqueset("tas14", worker("worker", 2, large=True), replicas=2, **pack("rack")),
        {"0": "rack; ; worker:2", "1": "rack; ; worker:2"},
        {"gang": "rack"},
    ),
    "TAS16": Case(
        podcliqueset(
            "tas16", worker("dleader", 1, large=True), worker("dworker", 1, large=True),
            worker("pleader", 1, large=True), worker("pworker", 1, "host", large=True), worker("router", 2, large=True),
            group("decoder", "dleader dworker", 2, 1, **pack("rack")),
            group("prefill", "pleader pworker", 2, 1, **pack("rack")), replicas=2, **pack("block"),
        ),
        {name: gang for replica in ("0", "1") for name, gang in {
            replica: "block; decoder-0:rack(decoder-0-dleader,decoder-0-dworker) "
                     "prefill-0:rack(prefill-0-pleader,prefill-0-pworker); "
                     "router:2 decoder-0-dleader:1 decoder-0-dworker:1 prefill-0-pleader:1 prefill-0-pworker:1:host",
            f"{replica}-decoder-0": "rack; ; decoder-1-dleader:1 decoder-1-dworker:1",
            f"{replica}-prefill-0": "rack; ; prefill-1-pleader:1 prefill-1-pworker:1:host",
        }.items()},
        {"unit": "rack", "gang": "block"},
    ),
    "TAS23": Case(
        podcliqueset(
            "tas23", worker("worker", 1), worker("router", 1, preferred="host"),
            group("workers", "worker", 2, 1, **pack(preferred="host")), **pack("block", "rack"),
        ),
        {"0": "block[rack]; workers-0:[host](workers-0-worker); router:1:[host] workers-0-worker:1",
         "0-workers-0": "[host]; ; workers-1-worker:1"},
        {"gang": "block"},
    ),
}  # fmt: skip


def told(podgang: Object, name: str) -> str:
    """What a PodGang (wire) of the set `name` says, as `Case.gangs` writes it."""
    spec = podgang["spec"]

    def level(constrained: Object) -> str:
        packed = constrained.get("topologyConstraint", {}).get("packConstraint", {})
        return written_level(packed.get("required"), packed.get("preferred"))

    return written_gang(
        podgang["metadata"]["name"],
        name,
        level(spec),
        [(one["name"], level(one), one["podGroupNames"]) for one in spec.get("topologyConstraintGroupConfigs", ())],
        [(one["name"], one["minReplicas"], level(one)) for one in spec["podgroups"]],
    )


def written_level(required: str | None, preferred: str | None) -> str:
    """Two node labels as levels: `block[rack]`."""
    levels = {key: domain for domain, key in KEYS.items()}
    return (levels[required] if required else "") + (f"[{levels[preferred]}]" if preferred else "")


def written_gang(
    gang: str, name: str, whole: str, units: list[tuple[str, str, list[str]]], leaves: list[tuple[str, int, str]]
) -> str:
    """A gang of the set `name` as `Case.gangs` writes it; units come with level and members, leaves with a minimum."""
    replica = gang.removeprefix(f"{name}-").split("-")[0]

    def short(part: str) -> str:
        return part.removeprefix(f"{name}-{replica}-")

    groups = [f"{short(unit)}:{level}({','.join(map(short, members))})" for unit, level, members in units]
    cliques = [":".join(filter(None, (short(leaf), str(minimum), level))) for leaf, minimum, level in leaves]
    return f"{whole}; {' '.join(groups)}; {' '.join(cliques)}".replace(";  ;", "; ;")
