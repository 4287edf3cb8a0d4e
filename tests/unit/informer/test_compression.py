"""Codecs restore what they were given, and dictionaries are trained only where they help."""

from __future__ import annotations

import sys

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from tests.realistic import pod
from watchcache_server.informer.compression import PLAIN, Codec, train

PODS = [pod(i) for i in range(64)]
DICTIONARY = train(PODS)


def test_dictionary_makes_small_bodies_much_smaller() -> None:
    """A dictionary of the same kind of objects is worth a factor of three on pods, at least."""
    assert DICTIONARY is not None
    unseen = [pod(i) for i in range(10_000, 10_016)]
    plain = sum(len(PLAIN.compress(body)) for body in unseen)
    trained = sum(len(Codec(DICTIONARY).compress(body)) for body in unseen)
    assert 3 * trained < plain


@pytest.mark.parametrize("dictionary", [b"", DICTIONARY], ids=["plain", "with dictionary"])
@given(body=st.one_of(st.binary(), st.builds(pod, st.integers(0, 100))))
def test_codec_restores_every_body(dictionary: bytes, body: bytes) -> None:
    """What comes out is bit for bit what went in, JSON or not, empty or not."""
    codec = Codec(dictionary)
    assert codec.decompress(codec.compress(body)) == body


@pytest.mark.parametrize("codec", [PLAIN, Codec(DICTIONARY or b"")], ids=repr)
def test_compressed_body_takes_exactly_its_size(codec: Codec) -> None:
    """Stored bytes are a copy of their own size, not the shrunken worst case."""
    stored = codec.compress(PODS[0])
    assert sys.getsizeof(stored) == sys.getsizeof(bytes(len(stored)))


def test_stored_body_names_no_dictionary() -> None:
    """The frame says nothing of its dictionary: the source does, and a few bytes are saved."""
    assert DICTIONARY is not None
    frame = zstandard.get_frame_parameters(Codec(DICTIONARY).compress(PODS[0]))
    assert (frame.dict_id, frame.has_checksum) == (0, False)
    assert frame.content_size == len(PODS[0])


def test_codec_says_which_dictionary_it_has() -> None:
    """A codec's dictionary is what a client would need to read the stored bytes."""
    assert PLAIN.dictionary == b""
    assert Codec(DICTIONARY or b"").dictionary == DICTIONARY
    assert repr(PLAIN) == "Codec(dictionary of 0 bytes)"


def test_dictionary_is_at_most_32_kib() -> None:
    """However much there is to train from."""
    assert DICTIONARY is not None
    assert len(DICTIONARY) <= 32 * 1024


@pytest.mark.parametrize(
    "samples",
    [
        pytest.param([], id="none"),
        pytest.param(PODS[:7], id="too few"),
        pytest.param([b"x" * 100] * 40, id="too small in all"),
        # These two crash the process where they reach the library.
        pytest.param([b""] * 400 + [b"y" * 8000], id="all empty but one"),
        pytest.param([b"{}"] * 3 + [b""] * 40 + [b"y" * 8000] * 2, id="tiny but for the last"),
    ],
)
def test_no_dictionary_from_poor_samples(samples: list[bytes]) -> None:
    """Where nothing can be trained there is no dictionary, and no error."""
    assert train(samples) is None


def test_no_dictionary_when_the_library_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of the library is no error of the source: it goes on without."""

    def refuse(*_: object, **__: object) -> None:
        raise zstandard.ZstdError("cannot train dict: Src size is incorrect")

    monkeypatch.setattr(zstandard, "train_dictionary", refuse)
    assert train(PODS) is None


def test_tiny_samples_are_left_out() -> None:
    """Samples that teach nothing do not keep the others from being trained on."""
    assert train([b"", b"{}", *PODS]) == DICTIONARY
