"""Codecs: how the bodies of one source are compressed.

A `Codec` is zstd with or without a dictionary. A dictionary is trained from the objects of one
source and used for that source alone; a source of Secrets never has one, since a dictionary holds
parts of what it was trained on and the sizes of what it compressed answer guesses. Codecs are
immutable and may be shared by any number of entries; each entry names its codec, so that a source
can change to a better one at its own pace.
"""

from __future__ import annotations

from collections.abc import Sequence

import zstandard

__all__ = ["PLAIN", "Codec", "train"]

_LEVEL = 3
_DICTIONARY_BYTES = 32 * 1024
# Objects of one kind repeat in long stretches, so long segments make a dictionary as good as the
# best of a search over lengths, for all kinds tried, in a sixth of the time and of the memory.
_SEGMENT_BYTES = 2000
_FREQUENCY_BITS = 18
# The strategy of level 3 with the smallest tables that find as much in 32 KB of dictionary: each
# source has tables of its own, 0.3 MB instead of 0.7.
_WITH_DICTIONARY = zstandard.ZstdCompressionParameters(
    window_log=20,
    chain_log=13,
    hash_log=14,
    search_log=1,
    min_match=5,
    strategy=zstandard.STRATEGY_DFAST,
    write_checksum=False,
    write_dict_id=False,
)
_LEAST_SAMPLE_BYTES = 8


class Codec:
    """Compresses and restores bodies, with one dictionary or none."""

    __slots__ = ("_compressor", "_decompressor", "dictionary")

    def __init__(self, dictionary: bytes = b"") -> None:
        self.dictionary = dictionary
        if not dictionary:
            self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=False)
            self._decompressor = zstandard.ZstdDecompressor()
            return
        shared = zstandard.ZstdCompressionDict(dictionary)
        shared.precompute_compress(compression_params=_WITH_DICTIONARY)
        self._compressor = zstandard.ZstdCompressor(
            compression_params=_WITH_DICTIONARY, dict_data=shared
        )
        self._decompressor = zstandard.ZstdDecompressor(dict_data=shared)

    def compress(self, body: bytes) -> bytes:
        """Return `body` compressed, in a bytes object of exactly its size.

        The copy is needed: the compressor allocates for the worst case and shrinks in place, which
        leaves a hole of kilobytes behind every result.
        """
        return bytes(memoryview(self._compressor.compress(body)))

    def decompress(self, stored: bytes) -> bytes:
        """Return what `compress` was given."""
        return self._decompressor.decompress(stored)

    def __repr__(self) -> str:
        return f"Codec(dictionary of {len(self.dictionary)} bytes)"


PLAIN = Codec()


def train(samples: Sequence[bytes]) -> bytes | None:
    """Train a dictionary from sample bodies; None when they are too few or too small for one.

    Takes 10 to 20 ms for 256 pods and releases the interpreter lock meanwhile: call it in a
    thread.
    """
    # The library crashes the process when the samples that it trains on have fewer bytes in all.
    usable = [sample for sample in samples if len(sample) >= _LEAST_SAMPLE_BYTES]
    size = min(_DICTIONARY_BYTES, sum(map(len, usable)) // 8)
    if len(usable) < 8 or size < 512:
        return None
    try:
        return zstandard.train_dictionary(
            size, [*usable], k=min(_SEGMENT_BYTES, size), d=8, f=_FREQUENCY_BITS, level=_LEVEL
        ).as_bytes()
    except zstandard.ZstdError:
        return None
