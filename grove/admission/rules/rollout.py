"""How fast a rolling update goes on, and when it counts as stuck."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from grove.admission.fields import Field, Finding, cliques, group_of, scaling_groups
from grove.admission.rules.template import duration

_SHARE: Final = re.compile(r"(?:[1-9][0-9]?|100)%", re.ASCII)


def rolling_updates(root: Field) -> Iterator[Finding]:
    """rollingUpdate.maxUnavailable is a number of at least 1 or a share such as 25%, progressDeadline a duration above
    0. A clique in a scaling group has none: its group is updated as a whole, replica by replica.
    """
    groups = group_of(root)
    for clique in cliques(root):
        group = groups.get(clique["name"].text or "")
        if group is not None and clique["rollingUpdate"].given:
            where = f"{group.path}.rollingUpdate"
            detail = f"the clique is in a scaling group, which is updated as a whole: use {where}"
            yield clique["rollingUpdate"].forbidden(detail)
        else:
            yield from _rolling_update(clique["rollingUpdate"])
    for group in scaling_groups(root):
        yield from _rolling_update(group["rollingUpdate"])


def _rolling_update(config: Field) -> Iterator[Finding]:
    yield from _max_unavailable(config["maxUnavailable"])
    yield from duration(config["progressDeadline"], "10m")


def _max_unavailable(field: Field) -> Iterator[Finding]:
    number = field.number
    right = 1 <= number < 2**31 if number is not None else bool(_SHARE.fullmatch(field.text or ""))
    if field.given and not right:
        yield field.invalid("must be a number of at least 1, or a share from 1% to 100%")
