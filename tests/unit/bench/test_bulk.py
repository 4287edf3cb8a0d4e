"""The frames of HTTP/2, as the readers that throw everything away walk them."""

from __future__ import annotations

import pytest

from bench.bulk import Frames


def frame(kind: int, content: bytes, flags: int = 0) -> bytes:
    """Make a frame of stream 1."""
    return len(content).to_bytes(3, "big") + bytes((kind, flags, 0, 0, 0, 1)) + content


@pytest.mark.parametrize("step", [1, 2, 7, 9, 10, 64, 1000])
def test_frames_are_told_however_they_are_cut(step: int) -> None:
    """Data is counted, and what is no data is found, wherever the pieces begin."""
    wire = (
        frame(4, b"")
        + frame(0, b"x" * 300)
        + frame(6, b"12345678", flags=1)
        + frame(0, b"")
        + frame(0, b"y" * 20)
        + frame(1, b"end", flags=5)
    )
    frames = Frames()
    found = []
    for first in range(0, len(wire), step):
        found += frames.feed(wire[first : first + step])
    assert found == [(4, 0, b""), (6, 1, b"12345678"), (1, 5, b"end")]
    assert (frames.data_count, frames.data_bytes) == (3, 320)


def test_data_counts_once_its_head_came() -> None:
    """Its content is skipped as it comes, and what follows is a frame again."""
    frames = Frames()
    wire = frame(0, b"\x00\x00\x01\x04" * 10) + frame(6, b"12345678")
    assert frames.feed(wire[:20]) == []
    assert (frames.data_count, frames.data_bytes) == (1, 40)
    assert frames.feed(wire[20:]) == [(6, 0, b"12345678")]
