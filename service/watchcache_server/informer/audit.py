"""An audit: tells whether a source holds what a list of its API server shows.

    audit = Audit(source)                      # before the list is asked for
    audit.begin(version)                       # the version of its first page
    audit.compare(listed)                      # a page, or a part of one; or: audit.expect(count)
    while (outcome := audit.look()) is None:   # the stream has yet to come to the version
        ...
    audit.close()

It accuses nobody who is right. The list is of one version, and the source moves on; so it is judged
once its stream is at that version, and only by

- objects that no event has touched since before the list was asked for: they are held as listed;
- the number of objects at the version, which the ledger tells from what came behind it. By it alone
  an object is found out that is held and not listed, so that no list of what is listed is needed.

Agreement needs no such proof: what looks the same now is taken for the same. Where versions do not
compare, and where a hand-over or a relist came in between, there is no verdict.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from watchcache_server.informer.comparison import Listed, is_at_least
from watchcache_server.informer.ledger import Ledger
from watchcache_server.informer.source import Source
from watchcache_server.informer.versions import Order, compare_versions
from watchcache_server.model.states import CheckOutcome

__all__ = ["Audit", "Finding"]

_MOST_DIFFERING: Final = 1000


class Finding(NamedTuple):
    """A mismatch: how many objects were held and listed at the version, and what differs.

    `missing` are listed and not held, `outdated` held in another form, `surplus` held and not
    listed; `objects` are namespace and name of the first two.
    """

    version: str
    held: int
    listed: int
    missing: int = 0
    outdated: int = 0
    surplus: int = 0
    objects: frozenset[tuple[str, str]] = frozenset()

    def counts(self) -> dict[str, int]:
        """Return its numbers by their names."""
        names = ("held", "listed", "missing", "outdated", "surplus")
        return {name: getattr(self, name) for name in names}

    def text(self) -> str:
        """Return it as a sentence for people."""
        whole = f"held at version {self.version}: {self.held}, listed: {self.listed}"
        parts = {
            "listed and not held": self.missing,
            "held in another form": self.outdated,
            "held and not listed": self.surplus,
        }
        return ", ".join([whole, *(f"{what}: {count}" for what, count in parts.items() if count)])

    def is_like(self, other: Finding) -> bool:
        """Tell whether it may be the same mismatch, found again."""
        if self.objects and other.objects:
            return not self.objects.isdisjoint(other.objects)
        return not (self.objects or other.objects) and bool(self.surplus) == bool(other.surplus)


class Audit:
    """A comparison of a source with one list."""

    def __init__(
        self, source: Source, ledger: Ledger | None = None, *, most_differing: int = _MOST_DIFFERING
    ) -> None:
        self._source = source
        self._ledger = source.ledger = ledger or Ledger()
        self._most = most_differing
        self._position = source.position
        #: That of the list; empty before it is known.
        self.version = ""
        self._listed = 0
        self._differing: dict[tuple[str, str], Listed] = {}
        self._has_more = False

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to compare any more, whatever the list shows."""
        return self._ledger.is_void or self._source.is_retiring

    @property
    def is_of_the_past(self) -> bool:
        """Whether the list is older than the source was: the storage was set back, perhaps."""
        return compare_versions(self.version, self._position) is Order.OLDER

    def begin(self, version: str) -> None:
        """Take the version of the list."""
        self.version = version
        self._ledger.begin(version)

    def expect(self, count: int) -> None:
        """Take how many objects there are; none of them is compared."""
        self._listed = count

    def compare(self, listed: Iterable[Listed]) -> None:
        """Compare a part of what is listed with what is held."""
        names = self._source.scope.names
        for each in listed:
            key = (each.namespace, each.name)
            if names and key not in names:
                continue
            self._listed += 1
            if self._is_off(each):
                self._has_more = self._has_more or len(self._differing) >= self._most
                if not self._has_more:
                    self._differing[key] = each

    def look(self) -> CheckOutcome | None:
        """Return the outcome, None while the stream has yet to come to the list."""
        if self.is_over or self.is_of_the_past:
            return CheckOutcome.UNCLEAR
        self._differing = {key: each for key, each in self._differing.items() if self._is_off(each)}
        held = self._held
        is_same = not (self._differing or self._has_more) and held == self._listed
        if is_same:
            return CheckOutcome.CONSISTENT
        if not is_at_least(self._source.position, self.version):
            return None
        if self._differing:
            return CheckOutcome.MISMATCH
        return CheckOutcome.UNCLEAR if held is None or self._has_more else CheckOutcome.MISMATCH

    def finding(self) -> Finding:
        """Describe the mismatch that `look` has found."""
        table = self._source.table
        missing = sum(table.get(*key) is None for key in self._differing)
        held = self._source.certain_count if self._held is None else self._held
        return Finding(
            version=self.version,
            held=held,
            listed=self._listed,
            missing=missing,
            outdated=len(self._differing) - missing,
            surplus=0 if self._held is None else max(0, held - self._listed + missing),
            objects=frozenset(self._differing),
        )

    def close(self) -> None:
        """End it; the source keeps no record for it any more."""
        self._source.ledger = None

    @property
    def _held(self) -> int | None:
        """How many objects were held at the version; None if that cannot be told."""
        if not self._ledger.is_countable:
            return None
        return self._source.certain_count - self._ledger.newer

    def _is_off(self, listed: Listed) -> bool:
        """Tell whether an object is not held as listed, and nothing explains it."""
        if (listed.namespace, listed.name) in self._ledger.touched:
            return False
        entry = self._source.table.get(listed.namespace, listed.name)
        if entry is None:
            return True
        if (entry.uid, entry.resource_version) == (listed.uid, listed.resource_version):
            return False
        return compare_versions(entry.resource_version, self.version) is not Order.NEWER
