"""What a selector means, term by term: the plain reading that the fast one is compared with."""

from __future__ import annotations

from watchcache_server.model.selectors import Labels, LabelSelector, Requirement, whole_number

__all__ = ["selects", "term_selects"]


def selects(selector: LabelSelector, labels: Labels) -> bool:
    """Tell whether labels satisfy every term."""
    return all(term_selects(requirement, labels) for requirement in selector.requirements)


def term_selects(requirement: Requirement, labels: Labels) -> bool:
    """Tell whether labels satisfy a term."""
    value = dict(zip(labels[::2], labels[1::2], strict=True)).get(requirement.key)
    match requirement.operator:
        case "in":
            return value is not None and value in requirement.values
        case "notin":
            return value is None or value not in requirement.values
        case "exists":
            return value is not None
        case "absent":
            return value is None
    number = None if value is None else whole_number(value)
    if number is None:
        return False
    bound = int(requirement.values[0])
    return number > bound if requirement.operator == "gt" else number < bound
