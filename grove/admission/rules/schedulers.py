"""What the scheduler of a set demands of it. All cliques use the same one, so the first clique's counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from grove.admission import formats
from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding, cliques, constraints
from grove.api.labels import KAI_QUEUE, VOLCANO_DEFAULT_QUEUE, VOLCANO_QUEUE

KAI: Final = "kai-scheduler"
VOLCANO: Final = "volcano"
LPX: Final = "lpx-scheduler"


def enabled(root: Field, facts: Facts) -> Iterator[Finding]:
    """The scheduler is one of the profiles in the operator's configuration (api rule V41)."""
    if facts.schedulers is None:
        return
    known = ", ".join(sorted(facts.schedulers))
    for clique in cliques(root):
        field = clique["spec"]["podSpec"]["schedulerName"]
        if field.text and not facts.enables(field.text):
            yield field.invalid(f"not enabled in the operator, which has the scheduler profiles {known}")


def kai_queue(root: Field, _: Facts) -> Iterator[Finding]:
    """With kai-scheduler the set names one queue, by the label (or annotation) kai.scheduler/queue (api rule V54).

    It is on the set, or on cliques, which agree.
    """
    found = [queue for owner in (root["metadata"], *cliques(root)) if (queue := _kai_queue(owner)) is not None]
    if not found:
        detail = "kai-scheduler needs a queue: name one here, or on the cliques"
        yield root["metadata"]["labels"][KAI_QUEUE].required(detail)
    for queue in found:
        if queue.value != found[0].value:
            yield queue.invalid(f"all pods of a set are in one queue, and {found[0].path} says {found[0].value}")


def _kai_queue(owner: Field) -> Field | None:
    """The label or annotation that names a queue; the label comes first."""
    return next((owner[kind][KAI_QUEUE] for kind in ("labels", "annotations") if owner[kind][KAI_QUEUE].text), None)


def volcano_queue(root: Field, facts: Facts) -> Iterator[Finding]:
    """With volcano all pods of a set are in one queue that exists and is open (api rule V54).

    The annotation scheduling.grove.io/volcano-queue of the set or of its cliques names it; left out means `default`.
    """
    own = root["metadata"]["annotations"][VOLCANO_QUEUE]
    owners = [own, *(clique["annotations"][VOLCANO_QUEUE] for clique in cliques(root))]
    wrong = [(field, problem) for field in owners if (problem := formats.subdomain_problem(_queue(field, "default")))]
    for field, problem in wrong:
        yield field.invalid(problem)
    resolved = [(field, _queue(field, _queue(own, VOLCANO_DEFAULT_QUEUE))) for field in owners[1:]]
    if wrong or not resolved:
        return
    source, expected = (own, _queue(own, "")) if _queue(own, "") else resolved[0]
    for field, queue in resolved:
        if queue != expected:
            yield field.invalid(f"all pods of a set are in one queue, and {source.path} means {expected}")
    state = "Open" if facts.volcano_queues is None else facts.volcano_queues.get(expected)
    if state is None:
        yield source.invalid(f"there is no Volcano Queue {expected}")
    elif state != "Open":
        yield source.invalid(f"the Volcano Queue {expected} must be Open, and is {state or 'in no state yet'}")


def _queue(annotation: Field, default: str) -> str:
    return (annotation.text or "").strip() or default


def no_constraints(root: Field, _: Facts) -> Iterator[Finding]:
    """volcano and lpx-scheduler know no levels of a cluster: there is no topologyConstraint (api rule V54)."""
    for constraint in constraints(root):
        yield constraint.invalid("must be left out: the scheduler of this set does not place by topology")


def scheduler_of(root: Field, facts: Facts) -> str:
    """The scheduler of a set: what its first clique says, else the default."""
    first = next(iter(cliques(root)), Field(None))
    return first["spec"]["podSpec"]["schedulerName"].text or facts.default_scheduler
