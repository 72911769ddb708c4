"""Where the rows of the API document (2.2 to 2.4) are: for each the cases that are refused and one that is accepted.

D1 to D9 are defaults (`tests/unit/test_admission_defaults.py`). Of W1 to W3 the first cases are warned. What has a
default is never missing (V3, V24, V30), so nothing is refused there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_NONE: Final = "no NVLink for a set, where there is none"

ROWS: Final[Mapping[str, tuple[tuple[str, ...], str]]] = {
    "V1": (("no name", "name with a dot", "label key", "annotation key"), "a generated name"),
    "V2": (("replicas of the set",), "largest number"),
    "V3": ((), "nulls"),
    "V4": (("startup type",), "startsAfter"),
    "V5": (("claim template without a name",), "claim templates and who shares them"),
    "V6": (("claim template without requests", "claim template that is empty"), "claim templates and who shares them"),
    "V7": (("claim templates of the same name",), "claim templates and who shares them"),
    "V8": (("sharing without a name",), "claim templates and who shares them"),
    "V9": (("shared twice in a list",), "claim templates and who shares them"),
    "V10": (("namespace for a template of the set",), "claim templates and who shares them"),
    "V11": (("scope that does not exist", "scope left out"), "claim templates and who shares them"),
    "V12": (("empty filter of the set",), "claim templates and who shares them"),
    "V13": (("filter of unknown names",), "claim templates and who shares them"),
    "V14": (("filter of unknown names",), "claim templates and who shares them"),
    "V15": (("empty filter of a group",), "claim templates and who shares them"),
    "V16": (("filter of a group for another's clique",), "claim templates and who shares them"),
    "V17": (("no cliques", "cliques left out", "null cliques"), "cliques and groups"),
    "V18": (("clique without a name", "clique with a blank name"), "cliques and groups"),
    "V19": (("clique with an underscore", "clique with a dot"), "other names with numbers"),
    "V20": (("46 characters", "a set's name that leaves no room"), "45 characters"),
    "V21": (("label value", "annotation key", "annotations above 256 KiB"), "labels and annotations"),
    "V22": (("sharing with a name no pod can use",), "claim name of 63 characters"),
    "V23": (("negative replicas",), "idle clique"),
    "V24": ((), "cliques and groups"),
    "V25": (("minAvailable 0", "minAvailable 0 of an idle clique"), "idle clique"),
    "V26": (("replicas between 0 and minAvailable",), "idle clique"),
    "V27": (("starts after nothing",), "startsAfter"),
    "V28": (("starts after itself",), "startsAfter"),
    "V29": (("starts after one twice",), "startsAfter"),
    "V30": ((), "idle and scaled"),
    "V31": (("minReplicas below minAvailable",), "bounds all equal"),
    "V32": (("maxReplicas below minReplicas",), "bounds all equal"),
    "V33": (("maxReplicas below replicas",), "bounds all equal"),
    "V34": (("topology spread",), "one scheduler"),
    "V35": (("node name",), "a stored node name"),
    "V36": (("variable starts with a digit", "variable starts with two dots"), "odd variable names"),
    "V37": (
        ("variable twice in a container", "variable twice in an init container"),
        "same variable in two containers",
    ),
    "V38": (("cliques of the same name",), "cliques and groups"),
    "V39": (("same role", "role of another clique's name"), "no role names"),
    "V40": (("two schedulers",), "one scheduler"),
    "V41": (("scheduler that is not enabled", "one scheduler of two is not enabled"), "scheduler that is enabled"),
    "V42": (("starts after an unknown clique",), "startsAfter"),
    "V43": (("two cliques wait for each other", "twelve cliques wait for each other"), "startsAfter"),
    "V44": (("group with a dot",), "cliques and groups"),
    "V45": (("group of an unknown clique",), "cliques and groups"),
    "V46": (("46 characters with a group",), "45 characters with a group"),
    "V47": (("group replicas",), "idle group"),
    "V48": (("group minAvailable 0", "group minAvailable above replicas"), "group below its template replicas"),
    "V49": (("group minReplicas below minAvailable",), "bounds all equal"),
    "V50": (("groups of the same name",), "cliques and groups"),
    "V51": (("clique in two groups", "clique twice in a group"), "cliques and groups"),
    "V52": (("autoscaler in a group",), "idle and scaled"),
    "V53": (("termination delay 0", "negative termination delay"), "durations"),
    "V54": (
        ("KAI without a queue", "Volcano queue that is closed", "topology with lpx-scheduler"),
        "KAI queue on the set",
    ),
    "C1": (("constraints where topology is off",), "no constraints where topology is off"),
    "C2": (("nobody names the binding",), "constraints at all levels"),
    "C3": (("another name than the one inherited",), "the same name at all levels"),
    "C4": (("two bindings in one set",), "the same name at all levels"),
    "C5": (("a binding that does not exist",), "constraints that fit the binding"),
    "C6": (("levels that the binding lacks",), "levels of another binding"),
    "C7": (("the set narrower than a group",), "constraints that fit the binding"),
    "C8": (("the set prefers narrower than its clique",), "required and preferred are not compared across levels"),
    "C9": (
        ("a group narrower than its clique", "a group prefers narrower than its clique"),
        "constraints that fit the binding",
    ),
    "M1": (("NVLink group called nothing", "NVLink group called a_b", "NVLink group of 64 characters"), _NONE),
    "M2": (("NVLink group of a set where there is none", "NVLink group of a clique where there is none"), _NONE),
    "M3": (
        ("NVLink group is added later", "NVLink group is removed later"),
        "NVLink groups stay with their cliques when these change places",
    ),
    "M3b": (
        ("NVLink group of a set changes", "NVLink group of a clique changes", "NVLink group of a group changes"),
        "NVLink groups stay with their cliques when these change places",
    ),
    "U1": (("a clique is added", "a clique is removed"), "nothing changes"),
    "U2": (("a clique is renamed",), "nothing changes"),
    "U3": (
        tuple(f"cliques change places with CliqueStartupType{order}" for order in ("InOrder", "Explicit")),
        "cliques change places",
    ),
    "U4": (
        ("another role", "another minimum", "another order of start", "another scheduler"),
        "the scheduler that it has anyway",
    ),
    "U5": (("another clique shares",), "claims are the same"),
    "U6": (("another startup type",), "nothing changes"),
    "U7": (("a group is added", "a group is removed"), "no groups, said in another way"),
    "U8": (("a group is renamed",), "groups change places"),
    "U9": (
        ("cliques of a group change places", "another minimum of a group", "a group shares later"),
        "replicas of a group",
    ),
    "U10": (("another binding",), "unchanged constraints"),
    "U11": (
        ("another level", "constraint added later", "constraint removed later"),
        "packDomain becomes pack.required",
    ),
    "U12": (("another claim template", "the set shares no more"), "claims are the same"),
    "W1": (("restart policy that lets pods end",), "cliques and groups"),
    "W2": (("a preference broader than what is required",), "constraints that fit the binding"),
    "W3": (("an old set with packDomain changes elsewhere",), "packDomain becomes pack.required"),
}
