"""Follows the objects of an extension for `watchcache watch`, over restarts of the service too.

A command knows no spec, so it cannot register again what a restarted service has forgotten. It
waits until somebody does.
"""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence
from typing import Any

from watchcache.cli.terminal import warn
from watchcache.connection import Connection
from watchcache.errors import NotFoundError, WatchCacheError
from watchcache.extension import Extension, ListOptions
from watchcache.messages import Message, Synced
from watchcache.states import View

__all__ = ["follow_objects"]

_LOOK_SECONDS = 1.0
"""How often to look whether somebody has registered the extension again."""


async def follow_objects(
    wc: Connection,
    name: str,
    write: Callable[[Message[Any]], None],
    *,
    view: View,
    options: ListOptions,
    until_synced: bool,
) -> None:
    """Write what comes, for ever or until the snapshot is complete.

    An extension that a restart has lost is waited for. One that somebody ended is an error.
    """
    extension = await wc.extension(name)
    _warn_of_unwatched(extension, options.get("resources", ()))
    while True:
        try:
            async with extension.watch(view=view, **options) as messages:
                async for message in messages:
                    write(message)
                    if until_synced and isinstance(message, Synced):
                        return
        except NotFoundError as error:
            if error.reason != "EXTENSION_NOT_FOUND":
                raise
        warn(
            f"{name} is not registered any more: a restart of the service forgets registrations; "
            f"waiting until it is registered again (watchcache register {name} ...)"
        )
        extension = await _registered_again(wc, name)


async def _registered_again(wc: Connection, name: str) -> Extension:
    while True:
        try:
            return await wc.extension(name)
        except NotFoundError:
            await asyncio.sleep(_LOOK_SECONDS)
        except WatchCacheError as error:
            if not error.is_retriable:
                raise
            await asyncio.sleep(_LOOK_SECONDS)


def _warn_of_unwatched(extension: Extension, resources: Sequence[str]) -> None:
    """Say which of the resources asked for are not watched, and what may have been meant."""
    watched = sorted({source.label for source in extension.sources})
    for resource in resources:
        if resource in watched:
            continue
        near = [each for each in watched if each.startswith(resource)]
        near += difflib.get_close_matches(resource, watched)
        hint = f"did you mean {near[0]}?" if near else f"it watches {', '.join(watched)}"
        warn(
            f"warning: {extension} does not watch {resource}; {hint if watched else 'or anything'}"
        )
