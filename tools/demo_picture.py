"""Makes docs/images/demo.svg: runs the demo on a terminal of its own and draws what it shows.

.venv/bin/python -m tools.demo_picture

While it runs, one of the things that it says to try is done. The picture needs nothing from
elsewhere: it is drawn in the reader's own fonts.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

KUBECONFIG: Final = Path(".demo/kubeconfig")
PICTURE: Final = Path("docs/images/demo.svg")
COLUMNS: Final = 104
ROWS: Final = 40
SECONDS: Final = 18.0
TRIED: Final = ("-m", "watchcache_devcluster.cli", "fault", "reset", "--kubeconfig")
READ_BYTES: Final = 64 * 1024
# Fonts that would be fetched from elsewhere; without them it is drawn in the reader's monospace.
FONT_FACE: Final = re.compile(r"\s*@font-face\s*\{[^}]*\}")


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
    is_tried = False
    with contextlib.suppress(OSError):
        while time.monotonic() < deadline:
            if not is_tried and time.monotonic() > deadline - SECONDS / 2:
                is_tried = True
                subprocess.run(
                    [sys.executable, *TRIED, str(KUBECONFIG)], check=True, stdout=subprocess.DEVNULL
                )
            if select.select([terminal], [], [], 0.2)[0]:
                written += os.read(terminal, READ_BYTES)
        os.kill(child, signal.SIGINT)
        while chunk := os.read(terminal, READ_BYTES):
            written += chunk
    os.waitpid(child, 0)
    return written.decode(errors="replace")


def draw(written: str) -> None:
    """Draw it as a terminal in an SVG."""
    story = written.replace("\r\n", "\n").partition("\nremoved")[0].rstrip()
    console = Console(record=True, width=COLUMNS, file=Path(os.devnull).open("w"))  # noqa: SIM115
    console.print(Text.from_ansi("$ make demo\n" + story))
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    picture = console.export_svg(title="make demo", unique_id="demo")
    PICTURE.write_text(FONT_FACE.sub("", picture), encoding="utf-8")


if __name__ == "__main__":
    draw(record())
