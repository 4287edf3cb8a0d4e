"""Resume tokens: what went in comes out, and nothing else is taken for one."""

from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.resume import (
    EPOCH_BYTES,
    ResumeToken,
    TokenError,
    extension_digest,
)
from watchcache_server.model.specs import ExtensionKey

KEY = ExtensionKey("team-a", "shop")
TOKEN = ResumeToken(extension_digest(KEY), b"epoch-01", EVERYTHING.digest, 42)
ENCODED = TOKEN.encode()

eight = st.binary(min_size=8, max_size=8)


revisions = st.integers(0, 2**64 - 2)
positions = st.lists(st.tuples(eight, revisions), max_size=3).map(tuple)


@given(st.builds(ResumeToken, eight, eight, eight, revisions, st.none() | revisions, positions))
def test_token_restores_its_content(token: ResumeToken) -> None:
    """Every token that is given out can be read again."""
    assert ResumeToken.decode(token.encode()) == token


def with_checksum(body: bytes) -> bytes:
    """Add the checksum that makes a token look unharmed."""
    return body + struct.pack(">I", zlib.crc32(body))


@pytest.mark.parametrize(
    ("token", "why"),
    [
        pytest.param(b"", "wrong length", id="empty"),
        pytest.param(b"garbage", "wrong length", id="garbage"),
        pytest.param(ENCODED[:-1], "wrong length", id="cut"),
        pytest.param(ENCODED + b"\0", "wrong length", id="a byte too long"),
        pytest.param(ENCODED * 2, "wrong length", id="twice"),
        pytest.param(bytes(len(ENCODED)), "altered", id="zeros"),
        pytest.param(b"\xff" * len(ENCODED), "altered", id="ones"),
        pytest.param(ENCODED[1:] + ENCODED[:1], "altered", id="shifted"),
        pytest.param(
            with_checksum(b"\x01" + ENCODED[1:-4]), "another version", id="another format"
        ),
    ],
)
def test_what_is_no_token_is_refused(token: bytes, why: str) -> None:
    """The error says what is wrong, so that a client's author finds the fault."""
    with pytest.raises(TokenError, match=why):
        ResumeToken.decode(token)


@given(st.integers(0, len(ENCODED) * 8 - 1))
def test_single_flipped_bit_is_noticed(bit: int) -> None:
    """The checksum catches any single accident."""
    flipped = bytearray(ENCODED)
    flipped[bit // 8] ^= 1 << bit % 8
    with pytest.raises(TokenError):
        ResumeToken.decode(bytes(flipped))


@given(st.binary(max_size=80))
def test_random_bytes_are_refused(token: bytes) -> None:
    """Whatever a client sends, the answer is TokenError or a token, never another error."""
    with pytest.raises(TokenError):
        ResumeToken.decode(token)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        pytest.param(
            TOKEN._replace(extension=extension_digest(ExtensionKey("team-b", "shop"))),
            "extension",
            id="other extension",
        ),
        pytest.param(TOKEN._replace(epoch=b"epoch-02"), "epoch", id="other epoch"),
        pytest.param(
            TOKEN._replace(filter=Filter(namespaces=("team-a",)).digest),
            "filter",
            id="other filter",
        ),
        pytest.param(TOKEN._replace(revision=43), "revision", id="other revision"),
    ],
)
def test_tokens_differ_in_what_they_belong_to(other: ResumeToken, field: str) -> None:
    """Whose token it is can be told from the token alone."""
    read = ResumeToken.decode(other.encode())
    assert getattr(read, field) != getattr(TOKEN, field)
    assert other.encode() != ENCODED


def test_extensions_have_digests_of_their_own() -> None:
    """The parts of a name do not run into each other, and a digest lasts over a restart."""
    names = [("a", "b"), ("a", "b.c"), ("a-b", "c"), ("b", "a"), ("ab", "c")]
    digests = {extension_digest(ExtensionKey(*name)) for name in names}
    assert len(digests) == len(names)
    assert extension_digest(KEY).hex() == "dcf94616192ab0a9"
    assert len(b"epoch-01") == EPOCH_BYTES
