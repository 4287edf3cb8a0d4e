"""Makes docs/images/demo.svg: runs the demo on a terminal of its own and draws what it shows.

.venv/bin/python -m tools.demo_picture
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

PICTURE: Final = Path("docs/images/demo.svg")
COLUMNS: Final = 104
ROWS: Final = 40
SECONDS: Final = 20.0
READ_BYTES: Final = 64 * 1024


def record() -> str:
    """Return what the demo writes to a terminal in so many seconds."""
    child, terminal = pty.fork()
    if not child:
        environment = os.environ | {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
        os.execve(  # noqa: S606 (the project's own program)
            sys.executable, [sys.executable, "-m", "tools.demo"], environment
        )
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    written = b""
    deadline = time.monotonic() + SECONDS
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                written += os.read(terminal, READ_BYTES)
        os.kill(child, signal.SIGINT)
        while chunk := os.read(terminal, READ_BYTES):
            written += chunk
    os.waitpid(child, 0)
    return written.decode(errors="replace")


def draw(written: str) -> None:
    """Draw it as a terminal in an SVG."""
    story = written.partition("^C")[0].replace("\r\n", "\n").rstrip()
    console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(Text.from_ansi("$ make demo\n" + story))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    PICTURE.write_text(console.export_svg(title="make demo", unique_id="demo"), encoding="utf-8")


if __name__ == "__main__":
    draw(record())
