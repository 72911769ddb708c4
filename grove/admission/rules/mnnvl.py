"""The annotation that puts pods into an NVLink group (MNNVL)."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission import formats
from grove.admission.facts import Facts
from grove.admission.fields import Field, Finding, cliques, same_named, scaling_groups
from grove.api.labels import MNNVL_GROUP, MNNVL_GROUP_NONE


def group_name(root: Field, facts: Facts) -> Iterator[Finding]:
    """The annotation grove.io/mnnvl-group is `none` or a DNS label (api rules M1, M2).

    Other than `none` it needs network.autoMNNVLEnabled in the operator's configuration.
    """
    for owner in (root["metadata"], *cliques(root), *scaling_groups(root)):
        annotation = owner["annotations"][MNNVL_GROUP]
        if annotation.text is None or annotation.text == MNNVL_GROUP_NONE:
            continue
        if problem := formats.dns_label_problem(annotation.text):
            yield annotation.invalid(f"{problem}; or {MNNVL_GROUP_NONE}")
        elif facts.mnnvl is False:
            yield annotation.invalid(
                f"must be {MNNVL_GROUP_NONE} or be left out: network.autoMNNVLEnabled is off in the operator's "
                "configuration"
            )


def group_is_kept(new: Field, old: Field) -> Iterator[Finding]:
    """grove.io/mnnvl-group is neither added, removed nor changed (api rules M3, M3b)."""
    members = (*same_named(cliques, new, old), *same_named(scaling_groups, new, old))
    for after, earlier in ((new["metadata"], old["metadata"]), *members):
        annotation, had = after["annotations"][MNNVL_GROUP], earlier["annotations"][MNNVL_GROUP]
        if annotation.given != had.given:
            yield annotation.forbidden("cannot be removed later" if had.given else "cannot be added later")
        elif annotation.value != had.value:
            yield annotation.invalid(f"cannot change: must stay {had.value}")
