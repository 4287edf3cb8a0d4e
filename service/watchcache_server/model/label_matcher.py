"""Matches labels against a selector at a cost that grows with the labels, not with the terms.

A selector may come from anybody and have thousands of terms, and is matched for every object and
change: what all its terms say of one key is brought together once, and each label looked up.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from watchcache_server.model.selectors import Labels, LabelSelector, Requirement, whole_number

__all__ = ["LabelMatcher"]


class _Rule(NamedTuple):
    """What all terms of one key ask of its value."""

    is_needed: bool
    is_absent: bool
    allowed: frozenset[str] | None
    refused: frozenset[str]
    above: int | None
    below: int | None

    def accepts(self, value: str) -> bool:
        return (
            not self.is_absent
            and (self.allowed is None or value in self.allowed)
            and value not in self.refused
            and self._is_between(value)
        )

    def _is_between(self, value: str) -> bool:
        if self.above is None and self.below is None:
            return True
        number = whole_number(value)
        return (
            number is not None
            and (self.above is None or number > self.above)
            and (self.below is None or number < self.below)
        )


class LabelMatcher:
    """One selector, made ready for many objects."""

    __slots__ = ("_needed_count", "_rules")

    def __init__(self, selector: LabelSelector) -> None:
        terms: dict[str, list[Requirement]] = {}
        for requirement in selector.requirements:
            terms.setdefault(requirement.key, []).append(requirement)
        self._rules = {key: _rule(of_key) for key, of_key in terms.items()}
        self._needed_count = sum(rule.is_needed for rule in self._rules.values())

    def matches(self, labels: Labels) -> bool:
        """Tell whether the labels satisfy every term."""
        missing = self._needed_count
        for place in range(0, len(labels), 2):
            rule = self._rules.get(labels[place])
            if rule is not None:
                if not rule.accepts(labels[place + 1]):
                    return False
                missing -= rule.is_needed
        return not missing


def _rule(terms: Iterable[Requirement]) -> _Rule:
    by_operator: dict[str, list[tuple[str, ...]]] = {}
    for term in terms:
        by_operator.setdefault(term.operator, []).append(term.values)
    allowed = [frozenset(values) for values in by_operator.get("in", ())]
    bounds = {
        operator: [int(value) for (value,) in by_operator.get(operator, ())]
        for operator in ("gt", "lt")
    }
    return _Rule(
        is_needed=not by_operator.keys() <= {"notin", "absent"},
        is_absent="absent" in by_operator,
        allowed=frozenset.intersection(*allowed) if allowed else None,
        refused=frozenset().union(*by_operator.get("notin", ())),
        above=max(bounds["gt"], default=None),
        below=min(bounds["lt"], default=None),
    )
