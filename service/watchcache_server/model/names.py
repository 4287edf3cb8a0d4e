"""Rules for names, as Kubernetes has them (RFC 1123 with Kubernetes' limits)."""

from __future__ import annotations

import re

__all__ = [
    "dns_label_problem",
    "dns_subdomain_problem",
    "kind_problem",
    "path_segment_problem",
    "qualified_name_problem",
]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]")


def dns_label_problem(value: str) -> str | None:
    """Say what keeps `value` from being an RFC 1123 label; None when it is one."""
    if not value:
        return "is required"
    if len(value) > 63:
        return f"is {len(value)} characters long; a DNS label has at most 63"
    if not _LABEL.fullmatch(value):
        return (
            f"{value!r} is no DNS label; use lower-case letters, digits and '-', "
            "with a letter or digit at both ends"
        )
    return None


def dns_subdomain_problem(value: str) -> str | None:
    """Say what keeps `value` from being an RFC 1123 subdomain; None when it is one."""
    if not value:
        return "is required"
    if len(value) > 253:
        return f"is {len(value)} characters long; a DNS subdomain has at most 253"
    if not _SUBDOMAIN.fullmatch(value):
        return (
            f"{value!r} is no DNS subdomain; use lower-case letters, digits, '-' and '.', "
            "with a letter or digit at both ends of each part"
        )
    return None


def kind_problem(value: str) -> str | None:
    """Say what keeps `value` from being a kind, such as "Deployment"; None when it can be one."""
    if not value:
        return "is required"
    if len(value) > 63:
        return f"is {len(value)} characters long; a kind has at most 63"
    if not value.isascii() or not value.isalnum():
        return f"{value!r} is no kind; use letters and digits"
    return None


def path_segment_problem(value: str) -> str | None:
    """Say what keeps `value` from being a Kubernetes object name at all; None when it can be one.

    Some kinds (roles, for example) allow more than a DNS subdomain; none allows this.
    """
    if not value:
        return "is required"
    if len(value) > 253:
        return f"is {len(value)} characters long; a name has at most 253"
    if value in {".", ".."} or "/" in value or "%" in value:
        return f"{value!r} is no object name; it may not be '.' or '..' nor contain '/' or '%'"
    return None


def qualified_name_problem(value: str) -> str | None:
    """Say what keeps `value` from being a label key, such as "app.kubernetes.io/name"."""
    prefix, slash, name = value.rpartition("/")
    if slash:
        problem = dns_subdomain_problem(prefix)
        if problem:
            return f"has a prefix that is no DNS subdomain: {problem}"
    if len(name) > 63:
        return f"has a name part of {len(name)} characters; it has at most 63"
    if not _QUALIFIED.fullmatch(name):
        return (
            f"{value!r} is no label key; the name part has 1 to 63 letters, digits, '-', '_' or "
            "'.', with a letter or digit at both ends"
        )
    return None
