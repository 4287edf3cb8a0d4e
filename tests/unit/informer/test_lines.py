"""Rules of splitting a watch into lines."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_server.informer.errors import OverLimitError
from watchcache_server.informer.lines import LineSplitter


@pytest.mark.parametrize(
    ("chunks", "lines", "leftover"),
    [
        pytest.param([b"a\nb\n"], [b"a", b"b"], b"", id="two lines in one chunk"),
        pytest.param([b"a", b"b\n"], [b"ab"], b"", id="one line in two chunks"),
        pytest.param([b"a", b"b", b"c\nd", b"e\n"], [b"abc", b"de"], b"", id="across chunks"),
        pytest.param([b"a\nb"], [b"a"], b"b", id="no line end at the end"),
        pytest.param([b"\n\n a\n \r\n"], [b" a"], b"", id="blank lines are no events"),
        pytest.param([b"a\r\n"], [b"a\r"], b"", id="a carriage return is JSON whitespace"),
        pytest.param([b"a\n", b" "], [b"a"], b"", id="blanks at the end"),
        pytest.param([b"", b""], [], b"", id="empty chunks"),
        pytest.param(
            [b"\xc2\x85\xe2\x80\xa8\x0b\x0c\x1c\n"],
            [b"\xc2\x85\xe2\x80\xa8\x0b\x0c\x1c"],
            b"",
            id="U+0085, U+2028, tabs and feeds are part of a line",
        ),
        pytest.param(
            [b"\xe2", b"\x80", b"\xa8\n"], [b"\xe2\x80\xa8"], b"", id="cut in a character"
        ),
    ],
)
def test_only_0x0a_ends_a_line(chunks: list[bytes], lines: list[bytes], leftover: bytes) -> None:
    """Bytes are split at 0x0A and nowhere else, whatever the chunks."""
    splitter = LineSplitter()
    assert [line for chunk in chunks for line in splitter.feed(chunk)] == lines
    assert splitter.leftover() == leftover
    assert splitter.leftover() == b""


_PIECE = st.lists(st.sampled_from([b"a", b"\n", b" ", b"\xc2\x85"]), max_size=6).map(b"".join)


@given(st.lists(_PIECE, max_size=9))
def test_chunks_make_no_difference(chunks: list[bytes]) -> None:
    """The lines are those of the whole, however it is cut."""
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    *whole, rest = b"".join(chunks).split(b"\n")
    assert lines == [line for line in whole if line.strip()]
    assert splitter.leftover() == (rest if rest.strip() else b"")


def test_a_line_over_the_limit_is_an_error() -> None:
    """The limit is checked before the line is complete, so that memory is bounded."""
    splitter = LineSplitter(limit_bytes=10)
    assert splitter.feed(b"1234567890\n") == [b"1234567890"]
    splitter.feed(b"1234567890")
    with pytest.raises(OverLimitError, match="10 bytes"):
        splitter.feed(b"1")


def test_a_whole_line_over_the_limit_is_an_error() -> None:
    """The limit holds for a line that comes in one chunk too."""
    with pytest.raises(OverLimitError):
        LineSplitter(limit_bytes=10).feed(b"12345678901\n")


def test_objects_of_megabytes_cost_linear_time() -> None:
    """Row 53: eight times the size in 16 KiB pieces is about eight times the work."""

    def seconds(size: int) -> float:
        data = b"x" * size + b"\n"
        best = 9.0
        for _ in range(3):
            splitter = LineSplitter()
            start = time.process_time()
            lines = [
                line
                for at in range(0, len(data), 16384)
                for line in splitter.feed(data[at : at + 16384])
            ]
            best = min(best, time.process_time() - start)
            assert lines == [data[:-1]]
        return best

    # Quadratic work would be 64 times as much.
    assert seconds(32 * 1024 * 1024) < 30 * max(seconds(4 * 1024 * 1024), 0.0005)
