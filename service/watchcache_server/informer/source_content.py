"""What a source holds, and in which form: its objects, found by name, owner and index, compressed.

Objects of a sync under way are collected beside the live ones. Both are compressed with what was
trained from the newest of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from watchcache_server.informer.entries import Entry, OwnerIndex, Table
from watchcache_server.informer.fields import DEFAULT_MOST_VALUES, FieldReader
from watchcache_server.informer.holding import Holding
from watchcache_server.informer.objects import Item
from watchcache_server.informer.source_scope import SourceScope
from watchcache_server.informer.texts import Texts
from watchcache_server.informer.training import Training
from watchcache_server.model.selectors import Labels
from watchcache_server.model.specs import SourceSpec

__all__ = ["SourceContent"]


class SourceContent(SourceScope):
    """The objects of a source. Who adds and removes them is `Source`."""

    def __init__(self, spec: SourceSpec, *, most_index_values: int = DEFAULT_MOST_VALUES) -> None:
        super().__init__(spec)
        # Values at index paths that were left out, since their objects had too many.
        self.unindexed_count = 0
        self._fields = FieldReader(spec.indexes, most_index_values) if spec.indexes else None
        self._live = Holding()
        self._staged: Holding | None = None
        self._training = Training()
        self._texts = Texts()

    @property
    def table(self) -> Table:
        """The entries. They change through this source only."""
        return self._live.table

    @property
    def owners(self) -> OwnerIndex:
        """The entries by their owners."""
        return self._live.owners

    def candidates(
        self, groups: Iterable[Collection[tuple[str, str]]], namespace: str, name: str
    ) -> Iterable[Entry]:
        """Return the entries behind (namespace, name) that may have a value of each group."""
        return self._live.candidates(groups, namespace, name)

    @property
    def raw_bytes(self) -> int:
        """Size of the bodies as JSON."""
        return self._live.raw_bytes

    @property
    def stored_bytes(self) -> int:
        """Size of the bodies as stored."""
        return self._live.stored_bytes

    def _entry(self, item: Item) -> Entry:
        fields = self._fields_of(item.body)
        entry = Entry.of(item, self._training.codec, self.version, self._texts, fields)
        self._training.note(entry)
        return entry

    def _fields_of(self, body: bytes) -> Labels:
        if self._fields is None:
            return ()
        found = self._fields.read(body)
        self.unindexed_count += found.left_out
        return found.pairs

    def _let_go_of_all(self) -> None:
        """Let go of what is live, and of what was learned from it."""
        self._live = Holding()
        self._training = Training()
        self._texts = Texts()

    # Compression

    @property
    def dictionary(self) -> bytes:
        """The dictionary that new bodies are compressed with; empty when there is none."""
        return self._training.codec.dictionary

    @property
    def is_training_due(self) -> bool:
        """Whether `training_samples` would return some."""
        return not self.is_secret and self._training.is_due(self._newest.table.count)

    def training_samples(self) -> list[bytes] | None:
        """Return sample bodies when a new dictionary is worth training, else None.

        Once samples were returned, none are until `adopt` was called with them.
        """
        return self._training.samples(self._newest.table) if self.is_training_due else None

    def adopt(self, dictionary: bytes | None, samples: list[bytes]) -> bool:
        """Use what was trained from `samples` if it is clearly better than what is in use.

        Returns whether entries are left to be compressed anew by `recode`. Samples from before a
        `purge` come too late: their dictionary is dropped.
        """
        return self._training.adopt(dictionary, samples)

    def recode(self, entries: Iterator[Entry], limit: int) -> bool:
        """Bring up to `limit` entries to the present codec; return whether there may be more."""
        codec = self._training.codec
        for _ in range(limit):
            entry = next(entries, None)
            if entry is None:
                return False
            if entry.codec is not codec:
                holdings = [holding for holding in self._holdings if holding.has(entry)]
                grown = entry.recode(codec)
                for holding in holdings:
                    holding.stored_bytes += grown
        return True

    def recodable(self) -> Iterator[Entry]:
        """Yield the entries of other codecs, as they are now, live and staged."""
        codec = self._training.codec
        for holding in self._holdings:
            outdated = [entry for entry in holding.table if entry.codec is not codec]
            yield from outdated

    @property
    def _newest(self) -> Holding:
        return self._live if self._staged is None else self._staged

    @property
    def _holdings(self) -> list[Holding]:
        return [self._live] if self._staged is None else [self._live, self._staged]
