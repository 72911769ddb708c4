"""Topology constraints: their shape, the binding they need, and what an update may do to them."""

from __future__ import annotations

from typing import Any

from grove.admission import Facts
from tests.admission_cases.case import CLIQUES, GROUPS, Case, Obj, a_set, clique, group, warned

TOP = "spec.template.topologyConstraint"
ON_CLIQUE = f"{CLIQUES}[0].topologyConstraint"
ON_GROUP = f"{GROUPS}[0].topologyConstraint"
OFF = Facts(topology_aware=False)
ON = Facts(topology_aware=True, topologies={"gpus": ("zone", "block", "rack", "host"), "shelves": ("row", "shelf")})
NAME_IT = "Required value: the ClusterTopologyBinding that has the levels; or name it on the set"
UNKNOWN_LEVELS = "levels ({}) are not known here: topologyAwareScheduling is off in the operator's configuration"
OLD_AND_NEW = "means the same as the deprecated packDomain: remove packDomain"


def pack(required: str = "", preferred: str = "", name: str = "", **fields: Any) -> Obj:
    """A constraint."""
    levels = {key: level for key, level in (("required", required), ("preferred", preferred)) if level}
    return {**({"topologyName": name} if name else {}), **({"pack": levels} if levels else {}), **fields}


def constrained(top: Obj | None = None, on_group: Obj | None = None, on_clique: Obj | None = None) -> Obj:
    """A set with a clique in a group, and constraints on the levels given."""
    own = {"topologyConstraint": on_clique} if on_clique is not None else {}
    config = {"topologyConstraint": on_group} if on_group is not None else {}
    obj = a_set({**clique("a"), **own}, groups=[group("g", "a", **config)])
    if top is not None:
        obj["spec"]["template"]["topologyConstraint"] = top
    return obj


SHAPE = (
    Case(
        "constraint without anything",
        constrained({}),
        [
            f"{TOP}.pack: Required value: e.g. required: rack",
            f"{TOP}.topologyName: {NAME_IT}",
        ],
        schema=f"{TOP}.pack: Required value",
    ),
    Case(
        "constraint without a level",
        constrained(on_clique={"topologyName": "gpus", "pack": {}}),
        [f"{ON_CLIQUE}.pack: Required value: set required or preferred, or both"],
        schema=f"{ON_CLIQUE}.pack: Required value",
    ),
    Case(
        "level in capitals",
        constrained(on_group=pack("Rack", name="gpus")),
        [
            (
                f'{ON_GROUP}.pack.required: Invalid value: "Rack": must be the name of a level such as rack: 1 to 63 '
                "lower case letters, digits and '-'"
            )
        ],
        schema=f"{ON_GROUP}.pack.required: Invalid value",
    ),
    Case(
        "packDomain in a new set",
        constrained(pack(name="gpus", packDomain="rack")),
        [f"{TOP}.packDomain: Forbidden: deprecated, write pack: {{required: rack}}"],
        schema=f"{TOP}.packDomain: Forbidden: packDomain is deprecated",
    ),
    Case(
        "packDomain beside pack.required",
        constrained(pack("rack", name="gpus", packDomain="rack")),
        [
            f'{TOP}.pack.required: Invalid value: "rack": {OLD_AND_NEW}',
            f"{TOP}.packDomain: Forbidden: deprecated, write pack: {{required: rack}}",
        ],
        schema=f"{TOP}.pack.required: Invalid value",
    ),
)

BINDING = (
    Case("constraints at all levels", constrained(pack("zone", name="gpus"), pack("rack", "host"), pack("rack"))),
    Case(
        "constraints that fit the binding",
        constrained(pack("zone", "rack", "gpus"), pack("rack"), pack("rack")),
        facts=ON,
    ),
    Case("levels of another binding", constrained(on_clique=pack("shelf", name="shelves")), facts=ON),
    Case("the same name at all levels", constrained(*(pack("rack", name="gpus") for _ in range(3))), facts=ON),
    Case("no constraints where topology is off", constrained(), facts=OFF),
    Case(
        "constraints where topology is off",
        constrained(pack("block", "rack", "gpus"), on_clique=pack("host")),
        [
            (
                f'{TOP}: Invalid value: {{"pack": {{"preferred": "rack", "required": "block"}}, '
                f'"topologyName": "gpus"}}: {UNKNOWN_LEVELS.format("block, rack")}'
            ),
            (f'{ON_CLIQUE}: Invalid value: {{"pack": {{"required": "host"}}}}: {UNKNOWN_LEVELS.format("host")}'),
        ],
        facts=OFF,
    ),
    Case(
        "nobody names the binding",
        constrained(on_group=pack("rack")),
        [f"{ON_GROUP}.topologyName: {NAME_IT}"],
    ),
    Case(
        "another name than the one inherited",
        constrained(pack("zone", name="gpus"), on_clique=pack("shelf", name="shelves")),
        [f'{ON_CLIQUE}.topologyName: Invalid value: "shelves": must be gpus as in {TOP}.topologyName, or be left out'],
    ),
    Case(
        "two bindings in one set",
        a_set(
            {**clique("a"), "topologyConstraint": pack("rack", name="gpus")},
            {**clique("b"), "topologyConstraint": pack("shelf", name="shelves")},
        ),
        [
            (
                f'{CLIQUES}[1].topologyConstraint.topologyName: Invalid value: "shelves": a set uses one '
                f"ClusterTopologyBinding, and {ON_CLIQUE}.topologyName says gpus"
            )
        ],
    ),
    Case(
        "a binding that does not exist",
        constrained(on_group=pack("rack", name="gone")),
        [f'{ON_GROUP}.topologyName: Not found: "gone": there is no ClusterTopologyBinding of this name'],
        facts=ON,
    ),
    Case(
        "levels that the binding lacks",
        constrained(pack("zone", "shelf", "gpus"), pack("row")),
        [
            (
                f'{TOP}.pack.preferred: Invalid value: "shelf": no level of ClusterTopologyBinding gpus, which has '
                "zone, block, rack, host"
            ),
            (
                f'{ON_GROUP}.pack.required: Invalid value: "row": no level of ClusterTopologyBinding gpus, which has '
                "zone, block, rack, host"
            ),
        ],
        facts=ON,
    ),
    Case(
        "the set narrower than a group",
        constrained(pack("host", name="gpus"), pack("rack")),
        [
            (
                f'{TOP}.pack.required: Invalid value: "host": narrower than rack of {ON_GROUP}.pack.required, which is '
                "inside of it: must be rack or broader"
            )
        ],
        facts=ON,
    ),
    Case(
        "a group prefers narrower than its clique",
        constrained(None, pack(preferred="host", name="gpus"), pack(preferred="zone")),
        [
            (
                f'{ON_GROUP}.pack.preferred: Invalid value: "host": narrower than zone of {ON_CLIQUE}.pack.preferred, '
                "which is inside of it: must be zone or broader"
            )
        ],
        facts=ON,
    ),
    Case(
        "the set prefers narrower than its clique",
        constrained(pack(preferred="rack", name="gpus"), on_clique=pack(preferred="block")),
        [
            (
                f'{TOP}.pack.preferred: Invalid value: "rack": narrower than block of {ON_CLIQUE}.pack.preferred, '
                "which is inside of it: must be block or broader"
            )
        ],
        facts=ON,
    ),
    Case(
        "a group narrower than its clique",
        constrained(None, pack("host", name="gpus"), pack("rack")),
        [
            (
                f'{ON_GROUP}.pack.required: Invalid value: "host": narrower than rack of {ON_CLIQUE}.pack.required, '
                "which is inside of it: must be rack or broader"
            )
        ],
        facts=ON,
    ),
    Case(
        "required and preferred are not compared across levels",
        constrained(pack("host", name="gpus"), pack(preferred="zone")),
        facts=ON,
    ),
    warned(
        "a preference broader than what is required",
        constrained(pack("rack", "zone", "gpus")),
        [f"{TOP}.pack.preferred: has no effect: zone is broader than rack, which is required"],
        facts=ON,
    ),
)

KEPT = "cannot change; only packDomain may become pack.required of the same level"
OLD = constrained(pack(name="gpus", packDomain="block"), pack(packDomain="rack"))
NAMELESS = constrained(pack(packDomain="block"), pack(packDomain="rack"))
DEPRECATED = [
    f"{TOP}.packDomain: deprecated, replace it by pack: {{required: block}}",
    f"{ON_GROUP}.packDomain: deprecated, replace it by pack: {{required: rack}}",
]

UPDATES = (
    Case("unchanged constraints", constrained(pack("rack", name="gpus")), old=constrained(pack("rack", name="gpus"))),
    Case(
        "unchanged where topology was turned off",
        constrained(pack("rack", name="g")),
        old=constrained(pack("rack", name="g")),
        facts=OFF,
    ),
    Case(
        "another level",
        constrained(pack("host", name="gpus")),
        [f"{TOP}: Forbidden: {KEPT}"],
        old=constrained(pack("rack", name="gpus")),
        schema="spec.template.topologyConstraint.pack: Invalid value: the required level cannot change",
    ),
    Case(
        "another binding",
        constrained(pack("rack", name="other")),
        [f"{TOP}.topologyName: Forbidden: {KEPT}"],
        old=constrained(pack("rack", name="gpus")),
        schema="spec.template.topologyConstraint.topologyName: Invalid value: cannot change: must stay as it was",
    ),
    Case(
        "a preference is added",
        constrained(on_clique=pack("rack", "host", "gpus")),
        [f"{ON_CLIQUE}: Forbidden: {KEPT}"],
        old=constrained(on_clique=pack("rack", name="gpus")),
        schema=f"{CLIQUES}[0].topologyConstraint.pack: Invalid value: the preferred level cannot change",
    ),
    Case(
        "constraint added later",
        constrained(pack("zone", name="gpus"), pack("rack")),
        [f"{ON_GROUP}: Forbidden: cannot be added later"],
        old=constrained(pack("zone", name="gpus")),
        schema=f"{GROUPS}[0].topologyConstraint: Invalid value: cannot be added or removed",
    ),
    Case(
        "constraint removed later",
        constrained(),
        [f"{TOP}: Forbidden: cannot be removed later"],
        old=constrained(pack("zone", name="gpus")),
        schema="spec.template.topologyConstraint: Invalid value: cannot be added or removed",
    ),
    warned(
        "an old set with packDomain changes elsewhere",
        {**OLD, "spec": {**OLD["spec"], "replicas": 3}},
        DEPRECATED,
        old=OLD,
        legacy=True,
    ),
    Case(
        "packDomain becomes pack.required",
        constrained(pack("block", name="gpus"), pack("rack")),
        old=OLD,
        legacy=True,
    ),
    Case(
        "packDomain becomes another pack.required",
        constrained(pack("zone", name="gpus"), pack("rack")),
        [f"{TOP}: Forbidden: {KEPT}"],
        old=OLD,
        legacy=True,
        schema="spec.template.topologyConstraint.pack: Invalid value: the required level cannot change",
    ),
    warned("an old set gets the name it lacks", OLD, DEPRECATED, old=NAMELESS, facts=ON, legacy=True),
    Case(
        "an old set gets a name that does not exist",
        constrained(pack(name="gone", packDomain="block"), pack(packDomain="rack")),
        [f'{TOP}.topologyName: Not found: "gone": there is no ClusterTopologyBinding of this name'],
        DEPRECATED,
        old=NAMELESS,
        facts=ON,
        legacy=True,
    ),
    Case(
        "an old set gets a name and another level",
        constrained(pack("zone", name="gpus"), pack(packDomain="rack")),
        [f"{TOP}.topologyName: Forbidden: {KEPT}"],
        DEPRECATED[1:],
        old=NAMELESS,
        facts=ON,
        legacy=True,
        schema="spec.template.topologyConstraint.pack: Invalid value: the required level cannot change",
    ),
)

CASES = SHAPE + BINDING + UPDATES
