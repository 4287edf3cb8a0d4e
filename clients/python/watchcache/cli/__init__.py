"""The command `watchcache`; `main` starts it. It needs the extra `cli`."""

from __future__ import annotations

import os
import sys

__all__ = ["main"]


def main() -> None:
    """Run the command, or say what to install for it."""
    # What goes wrong is told by the command itself, once.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    try:
        # The packages of the extra are needed from here on only.
        from watchcache.cli.commands import app  # noqa: PLC0415
    except ImportError as error:
        sys.exit(
            f"error: {error}; the command needs more than the client: pip install typer rich "
            "pyyaml, or in a checkout: pip install './clients/python[cli]'"
        )
    app(prog_name="watchcache")
