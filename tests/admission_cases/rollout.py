"""How fast a rolling update goes on, and when it counts as stuck."""

from __future__ import annotations

from typing import Any

from tests.admission_cases.case import CLIQUES, GROUPS, Case, Obj, a_set, clique, group

WHERE = f"{CLIQUES}[0].rollingUpdate"
RIGHT = "must be a number of at least 1, or a share from 1% to 100%"


def rolling(**config: Any) -> Obj:
    return a_set({**clique(), "rollingUpdate": config})


CASES = (
    Case("one pod at a time", rolling(maxUnavailable=1)),
    Case("a share of the pods", rolling(maxUnavailable="25%", progressDeadline="10m")),
    Case("all pods at once", rolling(maxUnavailable="100%")),
    Case("more than there are", rolling(maxUnavailable=100)),
    Case("neither", rolling()),
    Case("a group", a_set(groups=[group("g", "a", rollingUpdate={"maxUnavailable": 2, "progressDeadline": "1h30m"})])),
    Case(
        "no pod at a time",
        rolling(maxUnavailable=0),
        [f"{WHERE}.maxUnavailable: Invalid value: 0: {RIGHT}"],
        schema="maxUnavailable",
    ),
    Case(
        "none of the pods",
        rolling(maxUnavailable="0%"),
        [f'{WHERE}.maxUnavailable: Invalid value: "0%": {RIGHT}'],
        schema="maxUnavailable",
    ),
    Case(
        "a number in quotes",
        rolling(maxUnavailable="2"),
        [f'{WHERE}.maxUnavailable: Invalid value: "2": {RIGHT}'],
        schema="maxUnavailable",
    ),
    Case(
        "more than all pods",
        rolling(maxUnavailable="101%"),
        [f'{WHERE}.maxUnavailable: Invalid value: "101%": {RIGHT}'],
        schema="maxUnavailable",
    ),
    Case(
        "a list of numbers",
        rolling(maxUnavailable=[1]),
        [f"{WHERE}.maxUnavailable: Invalid value: [1]: {RIGHT}"],
        schema="maxUnavailable",
    ),
    Case(
        "progress deadline 0",
        rolling(progressDeadline="0s"),
        [f'{WHERE}.progressDeadline: Invalid value: "0s": must be more than 0, e.g. 10m'],
    ),
    Case(
        "a progress deadline that is no duration",
        rolling(progressDeadline="soon"),
        [
            (
                f'{WHERE}.progressDeadline: Invalid value: "soon": must be a duration such as 10m, 1m30s or 500ms, '
                "at most 2562047h"
            )
        ],
        schema="progressDeadline",
    ),
    Case(
        "a clique in a group",
        a_set({**clique(), "rollingUpdate": {"maxUnavailable": 1}}, groups=[group("g", "a")]),
        [
            (
                f"{WHERE}: Forbidden: the clique is in a scaling group, which is updated as a whole: "
                f"use {GROUPS}[0].rollingUpdate"
            )
        ],
    ),
    Case("another budget", rolling(maxUnavailable=2), old=rolling(maxUnavailable=1)),
)
