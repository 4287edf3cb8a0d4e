"""What the command writes: text with a little colour on a terminal, plain text anywhere else.

rich decides about colours (NO_COLOR, a pipe, a dumb terminal). Tables are like those of kubectl:
columns as wide as they must be, no frames, nothing cut off, so that they can be read and piped.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from rich.console import Console
from rich.text import Text

__all__ = [
    "Cell",
    "age_text",
    "aligned",
    "clear",
    "counted",
    "left_text",
    "show",
    "size_text",
    "span_text",
    "warn",
    "write",
]

Cell = str | Text

_UNITS = ((86400, "d"), (3600, "h"), (60, "m"))


def write(line: str = "") -> None:
    """Write a plain line at once, so that a pipe sees it when it happens."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def show(line: Cell) -> None:
    """Write a line with its styles."""
    if isinstance(line, str):
        write(line)
    else:
        Console(highlight=False, soft_wrap=True).print(line)


def clear() -> None:
    """Begin at the top of a terminal; in other outputs what comes follows what was."""
    Console().clear()


def warn(line: str) -> None:
    """Write a line beside the output."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(Text(line))


def aligned(lines: Iterable[Sequence[Cell]]) -> list[Text]:
    """Put cells one below the other in columns; the lines have equally many."""
    rows = [[Text(cell) if isinstance(cell, str) else cell for cell in line] for line in lines]
    widths = [max(cell.cell_len for cell in column) for column in zip(*rows, strict=True)]
    texts = []
    for row in rows:
        text = Text()
        for cell, width in zip(row, widths, strict=True):
            text.append_text(cell)
            text.append(" " * (width - cell.cell_len + 2))
        text.rstrip()
        texts.append(text)
    return texts


def age_text(moment: datetime | None) -> str:
    """Return how long ago a moment is; "-" for none."""
    if moment is None:
        return "-"
    return span_text((datetime.now(UTC) - moment).total_seconds())


def span_text(seconds: float) -> str:
    """Return a span as kubectl shows it: 45s, 12m, 3h, 8d; small ones are exact to the second."""
    whole = max(int(seconds), 0)
    for size, unit in _UNITS:
        if whole >= 2 * size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def left_text(seconds: float) -> str:
    """Return a span that is left, as `span_text` does, but rounded up: 10m a moment after 10m."""
    whole = max(math.ceil(seconds), 0)
    size = next((size for size, _ in _UNITS if whole >= 2 * size), 1)
    return span_text(math.ceil(whole / size) * size)


def counted(count: int, noun: str) -> str:
    """Return a number with its noun, which takes an s where there is not exactly one."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def size_text(size_bytes: int) -> str:
    """Return a size in the largest binary unit that it fills."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"
