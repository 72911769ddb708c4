"""Replicas, minimums and the bounds of autoscalers."""

from __future__ import annotations

from tests.admission_cases.case import CLIQUES, GROUPS, Case, a_set, clique, group

CASES = (
    Case(
        "replicas of the set",
        a_set(replicas=-1),
        ["spec.replicas: Invalid value: -1: must be 0 or more"],
        schema="spec.replicas: Invalid value: -1",
    ),
    Case(
        "negative replicas",
        a_set(clique(), clique("b", replicas=-1)),
        [f"{CLIQUES}[1].spec.replicas: Invalid value: -1: must be 0 (idle) or more"],
        schema=f"{CLIQUES}[1].spec.replicas: Invalid value: -1",
    ),
    Case(
        "replicas beyond 32 bits",
        a_set(clique(replicas=2**31)),
        [
            f"{CLIQUES}[0].spec.replicas: Invalid value: 2147483648: must be at most 10000",
            f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2147483648: must be at most 2147483647",
        ],
        schema=f"{CLIQUES}[0].spec.replicas: Invalid value: 2147483648",
    ),
    Case(
        "more replicas than can be handled",
        a_set(groups=[group("g", "a", replicas=10_001)], replicas=10_001),
        [
            "spec.replicas: Invalid value: 10001: must be at most 10000",
            f"{GROUPS}[0].replicas: Invalid value: 10001: must be at most 10000",
        ],
        schema="spec.replicas: Invalid value: 10001",
    ),
    Case(
        "minAvailable 0",
        a_set(clique(minAvailable=0)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0: must be 1 or more"],
        schema=f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0",
    ),
    Case(
        "minAvailable 0 of an idle clique",
        a_set(clique(replicas=0, minAvailable=0)),
        [f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0: must be 1 or more"],
        schema=f"{CLIQUES}[0].spec.minAvailable: Invalid value: 0",
    ),
    Case(
        "replicas between 0 and minAvailable",
        a_set(clique(replicas=1, minAvailable=2)),
        [
            (
                f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must be at most replicas (1), "
                "unless replicas is 0 (idle)"
            )
        ],
        schema=f"{CLIQUES}[0].spec.replicas: Invalid value: replicas must be 0 (idle) or at least",
    ),
    Case(
        "minAvailable with replicas left out",
        a_set(clique(minAvailable=2)),
        [
            (
                f"{CLIQUES}[0].spec.minAvailable: Invalid value: 2: must be at most replicas (1), "
                "unless replicas is 0 (idle)"
            )
        ],
        schema=f"{CLIQUES}[0].spec.replicas: Invalid value: replicas must be 0 (idle) or at least",
    ),
    Case(
        "minReplicas below minAvailable",
        a_set(clique(replicas=3, minAvailable=2, autoScalingConfig={"minReplicas": 1, "maxReplicas": 4})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 1: must be at least minAvailable (2)"],
        schema=f"{CLIQUES}[0].spec.autoScalingConfig: Invalid value: minReplicas must be at least minAvailable",
    ),
    Case(
        "minReplicas 0",
        a_set(clique(autoScalingConfig={"minReplicas": 0, "maxReplicas": 4})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 0: must be 1 or more"],
        schema=f"{CLIQUES}[0].spec.autoScalingConfig.minReplicas: Invalid value: 0",
    ),
    Case(
        "maxReplicas below minReplicas",
        a_set(clique(autoScalingConfig={"minReplicas": 3, "maxReplicas": 2})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2: must be at least minReplicas (3)"],
        schema=f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: maxReplicas must be at least minR",
    ),
    Case(
        "maxReplicas below replicas",
        a_set(clique(replicas=3, minAvailable=1, autoScalingConfig={"minReplicas": 1, "maxReplicas": 2})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Invalid value: 2: must be at least replicas (3)"],
        schema=f"{CLIQUES}[0].spec.autoScalingConfig: Invalid value: maxReplicas must be at least replicas",
    ),
    Case(
        "no maxReplicas",
        a_set(clique(autoScalingConfig={})),
        [f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Required value"],
        schema=f"{CLIQUES}[0].spec.autoScalingConfig.maxReplicas: Required value",
    ),
    Case(
        "group replicas",
        a_set(groups=[group("g", "a", replicas=-1)]),
        [f"{GROUPS}[0].replicas: Invalid value: -1: must be 0 (idle) or more"],
        schema=f"{GROUPS}[0].replicas: Invalid value: -1",
    ),
    Case(
        "group minAvailable 0",
        a_set(groups=[group("g", "a", minAvailable=0)]),
        [f"{GROUPS}[0].minAvailable: Invalid value: 0: must be 1 or more"],
        schema=f"{GROUPS}[0].minAvailable: Invalid value: 0",
    ),
    Case(
        "group minAvailable above replicas",
        a_set(groups=[group("g", "a", replicas=2, minAvailable=3)]),
        [f"{GROUPS}[0].minAvailable: Invalid value: 3: must be at most replicas (2), unless replicas is 0 (idle)"],
        schema=f"{GROUPS}[0].replicas: Invalid value: replicas must be 0 (idle) or at least",
    ),
    Case(
        "group minReplicas below minAvailable",
        a_set(groups=[group("g", "a", replicas=2, minAvailable=2, scaleConfig={"minReplicas": 1, "maxReplicas": 3})]),
        [f"{GROUPS}[0].scaleConfig.minReplicas: Invalid value: 1: must be at least minAvailable (2)"],
        schema=f"{GROUPS}[0].scaleConfig: Invalid value: minReplicas must be at least minAvailable",
    ),
    Case(
        "group maxReplicas below minReplicas",
        a_set(groups=[group("g", "a", replicas=3, scaleConfig={"maxReplicas": 2})]),
        [f"{GROUPS}[0].scaleConfig.maxReplicas: Invalid value: 2: must be at least minReplicas (3)"],
    ),
)
