"""Going on after a restart: what a reader missed, from the API servers' own history.

The reader holds what another life of the extension has told it, up to an upstream version of each
source. What has changed since then is in the store, by its version; what is gone is asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from watchcache_server.extensions.extension import Extension
from watchcache_server.extensions.informer import Informer
from watchcache_server.extensions.recent_past import Since
from watchcache_server.informer.cursors import Cursor, Event
from watchcache_server.informer.filters import Filter
from watchcache_server.informer.held import Past
from watchcache_server.informer.subscription import begin_snapshot
from watchcache_server.kubernetes.past import PastLostError

__all__ = ["Recovered", "recover"]


class Recovered(NamedTuple):
    """From where a reader goes on: what it holds, and what ended meanwhile."""

    cursor: Cursor
    held: Past
    ends: tuple[Event, ...]


async def recover(
    extension: Extension, wanted: Filter, positions: Mapping[bytes, str]
) -> Recovered:
    """Find what a reader missed, once the informers are settled. Raises PastLostError."""
    informers = {each.source.identity: each for each in extension.informers_in(wanted)}
    if not positions.keys() <= informers.keys():
        raise PastLostError("the extension watches something else by now")
    asked = {informers[identity]: version for identity, version in positions.items()}
    found = await asyncio.gather(
        *(_since(informer, version) for informer, version in asked.items()),
        return_exceptions=True,
    )
    pasts: list[Since] = []
    for each in found:
        if isinstance(each, BaseException):
            raise each
        pasts.append(each)
    store = extension.store
    revision = min((past.revision for past in pasts), default=store.revision)
    if not store.history.covers(revision):
        raise PastLostError("more has happened meanwhile than the history holds")
    ends = [
        end
        for past, version in zip(pasts, asked.values(), strict=True)
        for end in past.after(version)
        if wanted.passes_namespace(end.entry.namespace)
    ]
    held = Past({informer.source: version for informer, version in asked.items()})
    return Recovered(begin_snapshot(store, wanted, revision), held, tuple(ends))


async def _since(informer: Informer, version: str) -> Since:
    if informer.past is None:
        raise PastLostError("the informer has not begun")
    return await informer.past.since(version)
