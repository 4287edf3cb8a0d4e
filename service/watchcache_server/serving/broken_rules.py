"""Broken rules of a request, collected so that a caller is told of all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Final

from watchcache_server.model.errors import FieldViolation, InvalidRequestError

__all__ = ["BrokenRules"]

# More than fit into a status; whoever sends so many sends no others than these by accident.
_MOST_VIOLATIONS: Final = 100


class BrokenRules:
    """Collects broken rules, up to so many."""

    def __init__(self, violations: Iterable[FieldViolation] = ()) -> None:
        self.violations = list(violations)

    def refuse(self, field: str, description: str) -> None:
        """Take that a field breaks a rule."""
        self.violations.append(FieldViolation(field, description))
        if len(self.violations) >= _MOST_VIOLATIONS:
            self.finish()

    def check(self, field: str, problem: str | None) -> None:
        """Take what is wrong with a field, if anything is."""
        if problem is not None:
            self.refuse(field, problem)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Take the broken rules that are raised inside."""
        try:
            yield
        except InvalidRequestError as error:
            self.violations += error.violations

    def finish(self) -> None:
        """Raise InvalidRequestError if a rule was broken."""
        if self.violations:
            raise InvalidRequestError(self.violations)
