"""How a command runs: its event loop, Ctrl-C, and how an error becomes a text and an exit code."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any

import typer

from watchcache.cli.spec_file import SpecFileError
from watchcache.cli.terminal import warn
from watchcache.errors import ConnectionSettingsError, InvalidArgumentError, WatchCacheError

__all__ = ["finish", "run"]

_WRONG_USE = (ConnectionSettingsError, InvalidArgumentError, SpecFileError)


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command to its end and leave with its exit code."""
    try:
        code = asyncio.run(_stoppable(work))
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)


async def finish(work: Coroutine[Any, Any, int]) -> int:
    """Do the work of a command; return its exit code, after telling of an error."""
    try:
        return await work
    except WatchCacheError as error:
        _report(error)
        return 2 if isinstance(error, _WRONG_USE) else 1


async def _stoppable(work: Coroutine[Any, Any, int]) -> int:
    """Finish the work; the first Ctrl-C cancels it, a second one ends the process at once.

    Python would raise KeyboardInterrupt wherever the second one finds the process, which is most
    often in the interpreter's own shutdown, and that writes a traceback.
    """
    cancel = signal.getsignal(signal.SIGINT)
    if not callable(cancel):  # a shell has a job in the background ignore it
        return await finish(work)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        cancel(number, frame)

    signal.signal(signal.SIGINT, stop)
    return await finish(work)


def _report(error: WatchCacheError) -> None:
    if error.reason == "EXTENSION_NOT_FOUND":
        told = str(error).partition(";")[0]
        warn(
            f"error: {told}; register it with `watchcache register` "
            "(a restart of the service forgets registrations)"
        )
        return
    if not error.field_violations:
        warn(f"error: {error}")
        return
    warn("error: the request breaks a rule:")
    for violation in error.field_violations:
        warn(f"  {violation.field}: {violation.description}")
