"""ClusterTopologyBindings."""

from __future__ import annotations

from grove.admission import Facts
from tests.admission_cases.case import Case, Obj, warned

ENABLED = Facts(schedulers=("default-scheduler", "kai-scheduler"))
BINDINGS = "spec.schedulerTopologyBindings"


def binding(*levels: tuple[str, str], schedulers: tuple[str, ...] = ()) -> Obj:
    spec: Obj = {"levels": [{"domain": domain, "key": key} for domain, key in levels or [("rack", "example.com/rack")]]}
    if schedulers:
        spec["schedulerTopologyBindings"] = [{"schedulerName": name, "topologyReference": "t"} for name in schedulers]
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopologyBinding",
        "metadata": {"name": "t"},
        "spec": spec,
    }


CASES = (
    Case("one level", binding(), facts=ENABLED),
    Case("levels and a scheduler", binding(("zone", "z"), ("rack", "r"), schedulers=("kai-scheduler",)), facts=ENABLED),
    warned(
        "more levels than KAI takes",
        binding(*((f"level-{index}", f"example.com/level-{index}") for index in range(17))),
        ["spec.levels: KAI takes at most 16 levels, these are 17"],
        facts=ENABLED,
    ),
    warned(
        "a level below the hostname",
        binding(("host", "kubernetes.io/hostname"), ("numa", "n")),
        ["spec.levels[0].key: KAI takes kubernetes.io/hostname as the last level only"],
        facts=ENABLED,
    ),
    Case(
        "levels that others tell KAI",
        binding(("host", "kubernetes.io/hostname"), ("numa", "n"), schedulers=("kai-scheduler",)),
        facts=ENABLED,
    ),
    Case("levels without KAI", binding(("host", "kubernetes.io/hostname"), ("numa", "n"))),
    Case(
        "a domain twice",
        binding(("zone", "z"), ("zone", "y")),
        ['spec.levels[1].domain: Duplicate value: "zone": spec.levels[0].domain has it already'],
        schema="spec.levels: Invalid value: domain must be unique in the list",
    ),
    Case(
        "a key twice",
        binding(("zone", "z"), ("rack", "r"), ("host", "z")),
        ['spec.levels[2].key: Duplicate value: "z": spec.levels[0].key has it already'],
        schema="spec.levels: Invalid value: key must be unique in the list",
    ),
    Case(
        "a scheduler twice",
        binding(schedulers=("kai-scheduler", "kai-scheduler")),
        [
            (
                f'{BINDINGS}[1].schedulerName: Duplicate value: "kai-scheduler": {BINDINGS}[0].schedulerName names it '
                "already"
            )
        ],
        schema="spec.schedulerTopologyBindings: Invalid value: schedulerName must be unique in the list",
    ),
    Case(
        "a scheduler that is not enabled",
        binding(schedulers=("volcano",)),
        [
            (
                f'{BINDINGS}[0].schedulerName: Invalid value: "volcano": not enabled in the operator, which has the '
                "scheduler profiles default-scheduler, kai-scheduler"
            )
        ],
        facts=ENABLED,
    ),
    Case(
        "a scheduler that knows no levels",
        binding(schedulers=("default-scheduler",)),
        [
            (
                f'{BINDINGS}[0].schedulerName: Invalid value: "default-scheduler": has no topology objects; those '
                "that have: kai-scheduler"
            )
        ],
        facts=ENABLED,
    ),
)
