"""What is wrong with sets that no webhook has seen."""

from collections.abc import Callable
from dataclasses import replace

from grove.admission import Facts, validate
from grove.api.labels import INVALID_SPEC
from grove.controllers.actor import Failure
from grove.controllers.routing import Name
from grove.plan.template import Template


class Verdicts:
    """The rules of admission, asked when a set's spec, labels or annotations have changed.

    A set that breaks one is left as it is: nothing is created, changed or removed for it until its spec is right. What
    runs goes on, and pods that end are replaced. It counts as its own predecessor, so that rules for new objects do
    not hit one that has long been running. Whether its scheduler is enabled is for the scheduler's back end to say.
    """

    def __init__(self, facts: Callable[[], Facts]) -> None:
        self._facts = facts
        self._judged: dict[Name, tuple[object, list[Failure]]] = {}
        """By set: the state it was judged in, and what is wrong with it."""

    def errors(self, template: Template) -> list[Failure]:
        """What is wrong with a set's spec, one failure for each error."""
        pcs, key = template.pcs, (template.namespace, template.name)
        judged, errors = self._judged.get(key, (None, []))
        state = pcs.uid, pcs.generation, pcs.labels, pcs.annotations
        if judged != state:
            found = validate(pcs.wire, pcs.wire, replace(self._facts(), schedulers=None)).errors
            errors = [Failure(INVALID_SPEC, str(error)) for error in found]
            self._judged[key] = (state, errors)
        return errors

    def forget(self, key: Name) -> None:
        """Drop what is known of a set that is gone."""
        self._judged.pop(key, None)
