"""What the decoder hands on: one object as it came from the API server, and one change of it.

An `Item` holds the few fields that a cache needs to index an object, and the object itself as bytes
that nobody parses again. Items are short-lived: the store keeps a compressed form of them.
"""

from __future__ import annotations

import msgspec

__all__ = ["Delta", "Item", "Remove", "Upsert"]


class Item(msgspec.Struct, frozen=True, gc=False):
    """One object at one resourceVersion.

    `body` is the complete JSON object after projection, apiVersion and kind included. `labels` and
    `owners` (uids of its owner references) are empty when the object has none. `namespace` is empty
    for a cluster-scoped object.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    labels: dict[str, str]
    owners: tuple[str, ...]
    body: bytes


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """The object exists in this form: ADDED or MODIFIED on a live stream.

    `is_addition` is true for ADDED: one that is not newer than what is held is then a replay.
    """

    item: Item
    is_addition: bool = False


class Remove(msgspec.Struct, frozen=True, gc=False):
    """The stream no longer has the object (DELETED); `item` is its last content.

    Its resourceVersion is that of the deletion.
    """

    item: Item


Delta = Upsert | Remove
