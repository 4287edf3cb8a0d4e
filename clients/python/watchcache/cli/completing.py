"""What a shell offers while an argument is typed: names that the service knows.

The service is asked with a short limit. Whatever goes wrong offers nothing and says nothing: there
is no place for a text while somebody types.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import typer

from watchcache.connection import Connection, connect
from watchcache.errors import WatchCacheError
from watchcache.states import Projection

__all__ = [
    "complete_cluster",
    "complete_extension",
    "complete_projection",
    "complete_resource",
]

_LIMIT_SECONDS = 1.0

_Question = Callable[[Connection], Awaitable[Iterable[str]]]


def complete_projection(incomplete: str) -> list[str]:
    """Return the projections that begin so."""
    words = [each.lower().replace("_", "-") for each in Projection if each != "UNKNOWN"]
    return _begun(words, incomplete)


def complete_cluster(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the clusters of the service that begin so."""

    async def names(wc: Connection) -> list[str]:
        return [each.name for each in await wc.clusters()]

    return _begun(_ask(ctx, names), incomplete)


def complete_extension(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the extensions of the service that begin so."""

    async def names(wc: Connection) -> list[str]:
        return [f"{each.namespace}/{each.name}" async for each in wc.extensions()]

    return _begun(_ask(ctx, names), incomplete)


def complete_resource(ctx: typer.Context, incomplete: str) -> list[str]:
    """Return the resources that the extension watches, or any one if it is new, that begin so."""

    async def names(wc: Connection) -> set[str]:
        every = [each async for each in wc.extensions()]
        wanted = ctx.params.get("extension")
        named = [each for each in every if f"{each.namespace}/{each.name}" == wanted]
        return {source.label for each in named or every for source in each.sources}

    return _begun(_ask(ctx, names), incomplete)


def _begun(words: Iterable[str], incomplete: str) -> list[str]:
    return sorted(word for word in words if word.startswith(incomplete))


def _ask(ctx: typer.Context, question: _Question) -> Iterable[str]:
    async def ask() -> Iterable[str]:
        async with asyncio.timeout(_LIMIT_SECONDS):
            address, ca_file = ctx.params.get("address"), ctx.params.get("ca_file")
            async with connect(address, ca_file=ca_file, timeout=_LIMIT_SECONDS) as wc:
                return await question(wc)

    try:
        return asyncio.run(ask())
    except (WatchCacheError, TimeoutError):
        return ()
