"""What Kubernetes lets names, labels and variables look like. Each function says what is wrong, or None."""

from __future__ import annotations

import re
from typing import Final

_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_NAME_PART: Final = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_DOMAIN: Final = re.compile(r"[a-z][a-z0-9-]*")
_ENV_NAME: Final = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")

MAX_LABEL_LENGTH: Final = 63
"""Characters of a DNS label, of the name part of a qualified name and of a label's value."""
MAX_SUBDOMAIN_LENGTH: Final = 253
MAX_ANNOTATIONS_SIZE: Final = 256 * 1024
"""Bytes of all keys and values of an object's annotations together."""


def dns_label_problem(text: str) -> str | None:
    """RFC 1123 label: what becomes part of a host name."""
    if len(text) > MAX_LABEL_LENGTH:
        return f"must have at most {MAX_LABEL_LENGTH} characters"
    if _DNS_LABEL.fullmatch(text):
        return None
    return "must be lower case letters, digits and '-', with a letter or digit at both ends, as it goes into host names"


def subdomain_problem(text: str) -> str | None:
    """RFC 1123 subdomain: what most objects of Kubernetes may be called."""
    if _is_dns_subdomain(text):
        return None
    return (
        f"must be at most {MAX_SUBDOMAIN_LENGTH} lower case letters, digits, '-' and '.', with a letter or digit at "
        "both ends of each part"
    )


def domain_problem(text: str) -> str | None:
    """Name of a level of the cluster, e.g. rack."""
    if len(text) <= MAX_LABEL_LENGTH and _DOMAIN.fullmatch(text):
        return None
    return f"must be the name of a level such as rack: 1 to {MAX_LABEL_LENGTH} lower case letters, digits and '-'"


def _is_dns_subdomain(text: str) -> bool:
    return len(text) <= MAX_SUBDOMAIN_LENGTH and all(_DNS_LABEL.fullmatch(part) for part in text.split("."))


def qualified_name_problem(text: str) -> str | None:
    """Key of a label or annotation: an optional DNS name and a slash, then a name."""
    prefix, slash, name = text.rpartition("/")
    if slash and not _is_dns_subdomain(prefix):
        return "the part before '/' must be a DNS name such as example.com"
    if len(name) > MAX_LABEL_LENGTH or not _NAME_PART.fullmatch(name):
        return (
            f"the key must be 1 to {MAX_LABEL_LENGTH} letters, digits, '-', '_' and '.', with a letter or digit at "
            "both ends, after an optional DNS name and '/'"
        )
    return None


def label_value_problem(text: str) -> str | None:
    """Value of a label; may be empty."""
    if not text or (len(text) <= MAX_LABEL_LENGTH and _NAME_PART.fullmatch(text)):
        return None
    return (
        f"a label's value must be at most {MAX_LABEL_LENGTH} letters, digits, '-', '_' and '.', with a letter or "
        "digit at both ends"
    )


def env_name_problem(text: str) -> str | None:
    """Name of an environment variable, in the form that every version of Kubernetes accepts."""
    if _ENV_NAME.fullmatch(text) and text != "." and not text.startswith(".."):
        return None
    return "must be letters, digits, '_', '-' and '.', and start with none of a digit and '..'"
