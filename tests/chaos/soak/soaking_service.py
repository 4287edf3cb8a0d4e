"""The service itself, with days in an hour, and a file in which it tells how much of it there is.

The lives of its tokens are measured by a clock that runs SPEED times as fast, so that each token is
The lives of its tokens are measured by a clock that runs SPEED times as fast: each token is
Nothing else is changed.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from watchcache_server import app as service_app
from watchcache_server import cli
from watchcache_server.app import App
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.settings import Settings

__all__ = ["FIGURES", "SPEED"]

#: The variable that names the file.
FIGURES = "SOAK_FIGURES"
#: How much faster the clock of tokens runs: ten days in an hour.
SPEED = 240.0
# Cut by up to a quarter, and whole: a second.
_BRIEF = {"watch_seconds": 2, "settle_seconds": 0.3}

_EVERY_SECONDS = 2.0
_serve = service_app.serve


def _fast() -> float:
    return time.monotonic() * SPEED


def _impatient(**given: Any) -> ReflectorSettings:
    return ReflectorSettings(**{**given, **_BRIEF})


async def _tell(path: Path) -> None:
    """Write again and again how much there is, in a file that is always whole."""
    while True:
        figures = {"tasks": len(asyncio.all_tasks()), "objects": len(gc.get_objects())}
        path.with_suffix(".new").write_text(json.dumps(figures))
        path.with_suffix(".new").replace(path)
        await asyncio.sleep(_EVERY_SECONDS)


async def _serve_and_tell(
    settings: Settings, *, ready: Callable[[App], None] | None = None
) -> None:
    def started(app: App) -> None:
        for name in app.clusters.names:
            app.clusters.get(name).tokens.clock = _fast
        if ready is not None:
            ready(app)

    async with asyncio.TaskGroup() as group:
        telling = group.create_task(_tell(Path(os.environ[FIGURES])))
        try:
            await _serve(settings, ready=started)
        finally:
            telling.cancel()


def main() -> None:
    """Run the command."""
    mock.patch("watchcache_server.process.serve", _serve_and_tell).start()
    mock.patch("watchcache_server.extensions.host.ReflectorSettings", _impatient).start()
    cli.main()


if __name__ == "__main__":
    main()
