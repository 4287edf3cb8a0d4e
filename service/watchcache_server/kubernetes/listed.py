"""Reads a list for what it shows of each object: its place, its uid and its version."""

from __future__ import annotations

import asyncio
from typing import Final

from watchcache_server.informer.bodies import ListBody, ListMetadata
from watchcache_server.informer.comparison import Listed
from watchcache_server.informer.decoding import ItemDecoder
from watchcache_server.informer.objects import Item
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import Projection

__all__ = ["metadata_decoder", "read_listed"]

_SLICE_BYTES: Final = 128 * 1024


def metadata_decoder(served: ServedResource) -> ItemDecoder:
    """Return a decoder of which only the metadata is wanted."""
    return ItemDecoder(
        api_version=served.api_version, kind=served.kind, projection=Projection.METADATA
    )


async def read_listed(answer: Answer, served: ServedResource) -> tuple[list[Listed], ListMetadata]:
    """Read a list, with pauses for others. Raises a DataError if it is none."""
    body = ListBody(metadata_decoder(served))
    listed: list[Listed] = []
    for start in range(0, len(answer.body), _SLICE_BYTES):
        listed += map(_listed, body.feed(answer.body[start : start + _SLICE_BYTES]))
        await asyncio.sleep(0)
    items, page = body.finish()
    listed += map(_listed, items)
    return listed, page


def _listed(item: Item) -> Listed:
    return Listed(item.namespace, item.name, item.uid, item.resource_version)
