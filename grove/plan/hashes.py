"""Hashes of what the user wrote: when one changes, pods are stale.

A hash is taken over canonical JSON of the template alone, so neither a library nor a release of the operator can change
it; `tests/unit/golden/hashes.yaml` pins the values. The `v1-` mark names the recipe.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

_RECIPE = "v1"
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX_LENGTH = 5
# Values equal to the documented defaults count as absent, so an object hashes the same with and without webhooks.
_DEFAULTS = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30}


def pod_template_hash(
    labels: Mapping[str, str], annotations: Mapping[str, str], pod_spec: Mapping[str, Any], priority_class_name: str
) -> str:
    """Hash of one clique's pod template; the set's priorityClassName counts in place of the podSpec's own."""
    spec = {key: value for key, value in pod_spec.items() if key != "priorityClassName" and _DEFAULTS.get(key) != value}
    template = {
        "labels": dict(labels),
        "annotations": dict(annotations),
        "podSpec": spec,
        "priorityClassName": priority_class_name,
    }
    return _digest(template)


@lru_cache(4096)
def suffix(*parts: str) -> str:
    """Five characters for the end of a name, which differ when one of the parts does."""
    number = int.from_bytes(hashlib.sha256("/".join(parts).encode()).digest()[:8], "big")
    text = ""
    for _ in range(_SUFFIX_LENGTH):
        number, digit = divmod(number, len(_SUFFIX_ALPHABET))
        text += _SUFFIX_ALPHABET[digit]
    return text


def is_ours(text: str) -> bool:
    """Whether a hash was made here, and not by the Go operator, whose recipe cannot be repeated."""
    return text.startswith(f"{_RECIPE}-")


def generation_hash(pod_template_hashes: Iterable[str]) -> str:
    """Hash of a whole PodCliqueSet template: its cliques' hashes in template order."""
    return _digest(list(pod_template_hashes))


def _digest(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return f"{_RECIPE}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
