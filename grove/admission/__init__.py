"""Admission: what a set means, what is wrong with it, and who may touch what Grove makes of it.

Three pure functions for the webhooks, for the operator when it reads a set, and for `grove plan`. Nothing raises, no
matter what the input looks like.

    default(new, old)            the object with its defaults
    validate(new, old, facts)    Result: errors and warnings
    authorize(request, guard)    Decision: whether a managed object may be changed
"""

from __future__ import annotations

from typing import Any

from grove.admission.defaults import default_podcliqueset
from grove.admission.facts import Facts
from grove.admission.fields import FieldError
from grove.admission.protection import Decision, Protection, authorize
from grove.admission.validation import Result, validate_binding, validate_podcliqueset
from grove.api.clustertopologybinding import ClusterTopologyBinding

__all__ = ["Decision", "Facts", "FieldError", "Protection", "Result", "authorize", "default", "validate"]


def default(new: Any, old: Any = None) -> Any:
    """The object with its defaults (API doc 2.1), `new` itself when there is nothing to fill in.

    `new` is not modified, the result shares what needed no default; twice is the same as once. With `old`, the object
    being updated, a field that cannot change and was left out keeps the value it had.
    """
    if not isinstance(new, dict) or new.get("kind") == ClusterTopologyBinding.KIND:
        return new
    return default_podcliqueset(new, old if isinstance(old, dict) else None)


def validate(new: Any, old: Any = None, facts: Facts | None = None) -> Result:
    """What is wrong with a PodCliqueSet or ClusterTopologyBinding (API doc 2.2 to 2.5), all of it at once.

    `old` is the object being updated, None for a new one; a stored object that is merely read is its own `old`. `new`
    may have its defaults or not.
    """
    if isinstance(new, dict) and new.get("kind") == ClusterTopologyBinding.KIND:
        return validate_binding(new, facts or Facts())
    return validate_podcliqueset(new, old, facts or Facts())
