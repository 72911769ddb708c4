"""The template as a whole, and the order in which cliques start."""

from __future__ import annotations

from tests.admission_cases.case import CLIQUES, GROUPS, Case, a_set, clique, explicit, group

CASES = (
    Case(
        "no cliques",
        {**a_set(), "spec": {"template": {"cliques": []}}},
        [f"{CLIQUES}: Required value: at least one clique"],
        schema=f"{CLIQUES}: Invalid value: 0",
    ),
    Case(
        "257 cliques",
        a_set(*(clique(f"c{i}") for i in range(257))),
        [f"{CLIQUES}: Too long: 257 entries, at most 256"],
        schema=f"{CLIQUES}: Too many: 257",
    ),
    Case(
        "cliques left out",
        {**a_set(), "spec": {"template": {}}},
        [f"{CLIQUES}: Required value"],
        schema=f"{CLIQUES}: Required value",
    ),
    Case(
        "null cliques",
        {**a_set(), "spec": {"template": {"cliques": None}}},
        [f"{CLIQUES}: Required value"],
        schema=f"{CLIQUES}: Required value",
    ),
    Case(
        "no spec", {"metadata": {"name": "s"}}, ["spec: Required value"], schema="the object provided is unrecognized"
    ),
    Case(
        "startup type",
        a_set(cliqueStartupType="InOrder"),
        [
            (
                'spec.template.cliqueStartupType: Unsupported value: "InOrder": supported values: '
                '"CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", "CliqueStartupTypeExplicit"'
            )
        ],
        schema='spec.template.cliqueStartupType: Unsupported value: "InOrder"',
    ),
    Case(
        "termination delay 0",
        a_set(terminationDelay="0s"),
        ['spec.template.terminationDelay: Invalid value: "0s": must be more than 0, e.g. 4h'],
        schema='spec.template.terminationDelay: Invalid value: "0s": must be more than 0, e.g. 4h',
    ),
    Case(
        "negative termination delay",
        a_set(terminationDelay="-1h"),
        ['spec.template.terminationDelay: Invalid value: "-1h": must be more than 0, e.g. 4h'],
        schema='spec.template.terminationDelay: Invalid value: "-1h": must be more than 0, e.g. 4h',
    ),
    Case(
        "huge duration",
        a_set(terminationDelay="9" * 30 + "h"),
        [
            (
                f'spec.template.terminationDelay: Invalid value: "{"9" * 30}h": must be a duration such as 4h, '
                "1m30s or 500ms, at most 2562047h"
            )
        ],
        schema="spec.template.terminationDelay: Invalid value",
    ),
    Case(
        "no duration",
        a_set(terminationDelay="4 hours"),
        [
            (
                'spec.template.terminationDelay: Invalid value: "4 hours": must be a duration such as 4h, '
                "1m30s or 500ms, at most 2562047h"
            )
        ],
        schema='spec.template.terminationDelay: Invalid value: "4 hours"',
    ),
    Case(
        "group of an unknown clique",
        a_set(groups=[group("g", "a", "x")]),
        [f'{GROUPS}[0].cliqueNames[1]: Not found: "x": there is no clique of this name in the template'],
        schema=f"{GROUPS}: Invalid value: cliqueNames must be names of cliques",
    ),
    Case(
        "group of no cliques",
        a_set(groups=[group("g")]),
        [f"{GROUPS}[0].cliqueNames: Required value: at least one clique"],
        schema=f"{GROUPS}[0].cliqueNames: Invalid value: 0",
    ),
    Case(
        "clique in two groups",
        a_set(groups=[group("g", "a"), group("h", "a")]),
        [
            (
                f'{GROUPS}[1].cliqueNames[0]: Duplicate value: "a": the clique is in {GROUPS}[0] already; '
                "it can be in one scaling group, once"
            )
        ],
        schema=f"{GROUPS}: Invalid value: cliqueNames must be names of cliques",
    ),
    Case(
        "clique twice in a group",
        a_set(groups=[group("g", "a", "a")]),
        [
            (
                f'{GROUPS}[0].cliqueNames[1]: Duplicate value: "a": the clique is twice in this group; '
                "it can be in one scaling group, once"
            )
        ],
        schema=f'{GROUPS}[0].cliqueNames[1]: Duplicate value: "a"',
    ),
    Case(
        "autoscaler in a group",
        a_set(clique(autoScalingConfig={"maxReplicas": 2}), groups=[group("g", "a")]),
        [
            (
                f'{CLIQUES}[0].spec.autoScalingConfig: Invalid value: {{"maxReplicas": 2, "minReplicas": 1}}: the '
                "clique is in a scaling group, which scales as one: use the group's scaleConfig"
            )
        ],
        schema=f"{CLIQUES}: Invalid value: a clique in a scaling group cannot have an autoScalingConfig",
    ),
    Case(
        "starts after nothing",
        explicit(clique(startsAfter=[" "])),
        [f"{CLIQUES}[0].spec.startsAfter[0]: Required value: the name of a clique"],
    ),
    Case(
        "starts after itself",
        explicit(clique(startsAfter=["a"])),
        [f'{CLIQUES}[0].spec.startsAfter[0]: Invalid value: "a": a clique cannot start after itself'],
    ),
    Case(
        "starts after one twice",
        explicit(clique("a"), clique("b", startsAfter=["a", "a"])),
        [f'{CLIQUES}[1].spec.startsAfter[1]: Duplicate value: "a": is named already'],
    ),
    Case(
        "starts after an unknown clique",
        explicit(clique(startsAfter=["x"])),
        [f'{CLIQUES}[0].spec.startsAfter[0]: Not found: "x": there is no clique of this name in the template'],
    ),
    Case(
        "a container called like the one that Grove adds",
        a_set(
            clique("a"),
            clique("b", podSpec={"containers": [{"name": "m"}], "initContainers": [{"name": "grove-initc"}]}),
            cliqueStartupType="CliqueStartupTypeInOrder",
        ),
        [
            (
                f'{CLIQUES}[1].spec.podSpec.initContainers[0].name: Invalid value: "grove-initc": is the name of '
                "Grove's own init container; choose another"
            )
        ],
    ),
    Case(
        "two cliques wait for each other",
        explicit(clique("a", startsAfter=["b"]), clique("b", startsAfter=["a"])),
        [
            (
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: ["b"]: the cliques wait for each other: a → b → a; '
                "remove one of these"
            )
        ],
    ),
    Case(
        "twelve cliques wait for each other",
        explicit(*(clique(f"c{i}", startsAfter=[f"c{(i + 1) % 12}"]) for i in range(12))),
        [
            (
                f'{CLIQUES}[0].spec.startsAfter: Invalid value: ["c1"]: the cliques wait for each other: '
                "c0 → c1 → c2 → c3 → c4 → … (6 more) … → c11 → c0; remove one of these"
            )
        ],
    ),
    Case(
        "three cliques wait for each other, and so do two",
        explicit(
            clique("x", startsAfter=["a"]),
            clique("a", startsAfter=["c"]),
            clique("b", startsAfter=["a"]),
            clique("c", startsAfter=["b"]),
            clique("d", startsAfter=["e"]),
            clique("e", startsAfter=["a", "d"]),
        ),
        [
            (
                f'{CLIQUES}[1].spec.startsAfter: Invalid value: ["c"]: the cliques wait for each other: '
                "a → c → b → a; remove one of these"
            ),
            (
                f'{CLIQUES}[4].spec.startsAfter: Invalid value: ["e"]: the cliques wait for each other: '
                "d → e → d; remove one of these"
            ),
        ],
    ),
)
