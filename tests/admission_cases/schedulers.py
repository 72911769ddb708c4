"""Which scheduler a set names, and what that one demands."""

from __future__ import annotations

from typing import Any

from grove.admission import Facts
from tests.admission_cases.case import CLIQUES, Case, Obj, a_set, clique, with_metadata

KAI = "kai.scheduler/queue"
VOLCANO = "scheduling.grove.io/volcano-queue"
ENABLED = Facts(schedulers=("default-scheduler", "kai-scheduler"))
QUEUES = Facts(volcano_queues={"default": "Open", "train": "Open", "old": "Closed", "new": ""})


def using(scheduler: str, *cliques: Obj, **metadata: Any) -> Obj:
    """A set whose cliques (labels and annotations of each) use the scheduler; the rest goes to the set's metadata."""
    made = []
    for index, fields in enumerate(cliques or ({},)):
        pod = {"containers": [{"name": "main"}], "schedulerName": scheduler}
        made.append({**clique(f"c{index}", podSpec=pod), **fields})
    return with_metadata(a_set(*made), **metadata)


def queued(key: str, queue: str, kind: str = "labels") -> Obj:
    return {kind: {key: queue}}


def queue_of(index: int, key: str, kind: str = "labels") -> str:
    return f"{CLIQUES}[{index}].{kind}[{key}]"


NEEDS_QUEUE = f"metadata.labels[{KAI}]: Required value: kai-scheduler needs a queue: name one here, or on the cliques"

CASES = (
    Case("no scheduler named", a_set(), facts=ENABLED),
    Case("scheduler that is enabled", using("kai-scheduler", labels={KAI: "q"}), facts=ENABLED),
    Case("scheduler of nobody's configuration", using("mine")),
    Case(
        "scheduler that is not enabled",
        using("nope"),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Invalid value: "nope": not enabled in the operator, which '
                "has the scheduler profiles default-scheduler, kai-scheduler"
            )
        ],
        facts=ENABLED,
    ),
    Case(
        "one scheduler of two is not enabled",
        a_set(
            clique("a", podSpec={"containers": [{"name": "m"}], "schedulerName": "nope"}),
            clique("b", podSpec={"containers": [{"name": "m"}], "schedulerName": "kai-scheduler"}),
            clique("c", podSpec={"containers": [{"name": "m"}], "schedulerName": "kai-scheduler"}),
        ),
        [
            (
                f'{CLIQUES}[0].spec.podSpec.schedulerName: Invalid value: "nope": not enabled in the operator, which '
                "has the scheduler profiles default-scheduler, kai-scheduler"
            )
        ],
        facts=ENABLED,
    ),
    # KAI
    Case("KAI without a queue", using("kai-scheduler"), [NEEDS_QUEUE]),
    Case("KAI queue on the set", using("kai-scheduler", {}, {}, labels={KAI: "q"})),
    Case("KAI queue as an annotation", using("kai-scheduler", annotations={KAI: "q"})),
    Case("KAI queue on cliques", using("kai-scheduler", queued(KAI, "q"), queued(KAI, "q"))),
    Case(
        "KAI labels beat annotations",
        using("kai-scheduler", queued(KAI, "q"), labels={KAI: "q"}, annotations={KAI: "x"}),
    ),
    Case(
        "KAI queue of a clique is another one",
        using("kai-scheduler", {}, queued(KAI, "y"), labels={KAI: "x"}),
        [
            (
                f'{queue_of(1, KAI)}: Invalid value: "y": all pods of a set are in one queue, and '
                f"metadata.labels[{KAI}] says x"
            )
        ],
    ),
    Case(
        "KAI queues of cliques differ",
        using("kai-scheduler", queued(KAI, "x"), queued(KAI, "y", "annotations")),
        [
            (
                f'{queue_of(1, KAI, "annotations")}: Invalid value: "y": all pods of a set are in one queue, and '
                f"{queue_of(0, KAI)} says x"
            )
        ],
    ),
    # Volcano
    Case("Volcano's default queue", using("volcano", {}, {}), facts=QUEUES),
    Case("Volcano queue on the set", using("volcano", {}, annotations={VOLCANO: " train "}), facts=QUEUES),
    Case(
        "Volcano queue on all cliques", using("volcano", *[queued(VOLCANO, "train", "annotations")] * 2), facts=QUEUES
    ),
    Case(
        "Volcano queue of a clique is another one",
        using("volcano", queued(VOLCANO, "old", "annotations"), annotations={VOLCANO: "train"}),
        [
            (
                f'{queue_of(0, VOLCANO, "annotations")}: Invalid value: "old": all pods of a set are in one queue, and '
                f"metadata.annotations[{VOLCANO}] means train"
            )
        ],
    ),
    Case(
        "Volcano queue on one clique only",
        using("volcano", {}, queued(VOLCANO, "train", "annotations")),
        [
            (
                f'{queue_of(1, VOLCANO, "annotations")}: Invalid value: "train": all pods of a set are in one queue, '
                f"and {queue_of(0, VOLCANO, 'annotations')} means default"
            )
        ],
    ),
    Case(
        "Volcano queue with an odd name",
        using("volcano", annotations={VOLCANO: "My_Queue"}),
        [
            (
                f'metadata.annotations[{VOLCANO}]: Invalid value: "My_Queue": must be at most 253 lower case letters, '
                "digits, '-' and '.', with a letter or digit at both ends of each part"
            )
        ],
    ),
    Case(
        "Volcano queue that does not exist",
        using("volcano", annotations={VOLCANO: "gone"}),
        [f'metadata.annotations[{VOLCANO}]: Invalid value: "gone": there is no Volcano Queue gone'],
        facts=QUEUES,
    ),
    Case(
        "Volcano queue that is closed",
        using("volcano", annotations={VOLCANO: "old"}),
        [(f'metadata.annotations[{VOLCANO}]: Invalid value: "old": the Volcano Queue old must be Open, and is Closed')],
        facts=QUEUES,
    ),
    *(
        Case(
            f"topology with {scheduler}",
            a_set(
                {
                    **clique("a", podSpec={"containers": [{"name": "main"}], "schedulerName": scheduler}),
                    "topologyConstraint": {"topologyName": "t", "pack": {"required": "rack"}},
                }
            ),
            [
                (
                    f'{CLIQUES}[0].topologyConstraint: Invalid value: {{"pack": {{"required": "rack"}}, '
                    '"topologyName": "t"}: must be left out: the scheduler of this set does not place by topology'
                )
            ],
        )
        for scheduler in ("volcano", "lpx-scheduler")
    ),
)
