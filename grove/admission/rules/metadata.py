"""Labels and annotations of the set, and those it gives its cliques and scaling groups."""

from __future__ import annotations

from collections.abc import Iterator

from grove.admission import formats
from grove.admission.fields import Field, Finding, cliques, scaling_groups


def labels_and_annotations(root: Field) -> Iterator[Finding]:
    """Labels and annotations are such that Kubernetes takes them (api rules V1, V21)."""
    metadata = root["metadata"]
    for labels in (metadata["labels"], *(clique["labels"] for clique in cliques(root))):
        for label in labels.items():
            if problem := formats.qualified_name_problem(str(label.step)):
                yield _key(label).invalid(problem)
            if label.text is not None and (problem := formats.label_value_problem(label.text)):
                yield label.invalid(problem)
    for owner in (metadata, *cliques(root), *scaling_groups(root)):
        yield from _annotations(owner["annotations"])


def _annotations(annotations: Field) -> Iterator[Finding]:
    size = 0
    for annotation in annotations.items():
        key = str(annotation.step)
        size += len(key.encode(errors="replace")) + len((annotation.text or "").encode(errors="replace"))
        if problem := formats.qualified_name_problem(key.lower()):
            yield _key(annotation).invalid(problem)
    if size > formats.MAX_ANNOTATIONS_SIZE:
        yield annotations.too_long(
            f"keys and values have {size} bytes together, at most {formats.MAX_ANNOTATIONS_SIZE}"
        )


def _key(entry: Field) -> Field:
    """The key of a map's entry, as something that can be wrong by itself."""
    return Field(entry.step, entry.parent, entry.step)
