"""Training: which codec a source compresses with, and when a better one is worth training.

A dictionary comes from the objects of one source and serves that source alone. It is trained
elsewhere, since that takes long: `samples` says what from, `adopt` takes the result. Whoever purges
the objects starts with a new `Training`, so that nothing of them is left in a dictionary.
"""

from __future__ import annotations

from watchcache_server.informer.compression import PLAIN, Codec
from watchcache_server.informer.entries import Entry, Table

__all__ = ["Training"]

# A dictionary is worth training from so many objects on,
_FIRST_COUNT = 256
# again when the objects have become so many times more,
_GROWTH = 8
# and when the recent objects compress so much worse than those that it was made for.
_WORSE = 0.6
_RECENT = 2048
# It is adopted when it takes at most this share of the bytes that the present codec takes.
_CLEARLY_BETTER = 0.9
_PROBES = 16
_SAMPLES = 256
_SAMPLE_BYTES = 8 * 1024 * 1024


class Training:
    """The codec in use, and what is known of how well it does."""

    __slots__ = (
        "_ratio",
        "_recent_count",
        "_recent_raw",
        "_recent_stored",
        "_samples",
        "_trained_count",
        "codec",
    )

    def __init__(self) -> None:
        self.codec: Codec = PLAIN
        # The samples of the training under way; their identity tells it from an earlier one.
        self._samples: list[bytes] | None = None
        self._trained_count = 0
        self._ratio = 1.0
        self._forget_recent()

    def _forget_recent(self) -> None:
        self._recent_raw = 0
        self._recent_stored = 0
        self._recent_count = 0

    def note(self, entry: Entry) -> None:
        """Take notice of an entry that was just compressed."""
        self._recent_raw += entry.raw_size
        self._recent_stored += len(entry.stored)
        self._recent_count += 1
        if self._recent_count > 2 * _RECENT:
            self._recent_raw //= 2
            self._recent_stored //= 2
            self._recent_count //= 2

    def is_due(self, count: int) -> bool:
        """Tell whether a dictionary for `count` objects is worth training now."""
        if self._samples is not None or count < _FIRST_COUNT:
            return False
        if self._trained_count == 0 or count >= _GROWTH * self._trained_count:
            return True
        if self._recent_count < _RECENT or not self.codec.dictionary:
            return False
        return self._recent_raw < _WORSE * self._ratio * self._recent_stored

    def samples(self, table: Table) -> list[bytes]:
        """Begin a training: return bodies spread over the whole table, so over all namespaces.

        Until `adopt` is called with this very list, no other training is due.
        """
        step = -(-table.count // _SAMPLES)
        samples: list[bytes] = []
        size = 0
        for index, entry in enumerate(table):
            if index % step == 0 and size < _SAMPLE_BYTES:
                samples.append(entry.body())
                size += entry.raw_size
        self._samples = samples
        self._trained_count = table.count
        return samples

    def adopt(self, dictionary: bytes | None, samples: list[bytes]) -> bool:
        """End the training: use the dictionary if it is clearly better than what is in use.

        Returns whether the codec has changed. Does nothing when another training has begun since.
        """
        if samples is not self._samples:
            return False
        self._samples = None
        self._forget_recent()
        if dictionary is None:
            return False
        codec = Codec(dictionary)
        probes = samples[:: max(1, len(samples) // _PROBES)]
        raw = sum(map(len, probes))
        new = sum(len(codec.compress(body)) for body in probes)
        old = sum(len(self.codec.compress(body)) for body in probes)
        is_better = new <= _CLEARLY_BETTER * old
        self._ratio = raw / (new if is_better else old)
        if is_better:
            self.codec = codec
        return is_better
