"""Resume tokens: where a subscriber stands, in a form that it can keep.

A token is opaque to clients. It holds a format number, what it belongs to (a digest of the
extension's name, the store's epoch, a digest of the filter), the revision, whether its holder was
catching up and since where, the upstream versions by which another store goes on, and a checksum
against accidents. It is no secret and grants nothing.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from typing import NamedTuple

from watchcache_server.informer.versions import plain_number
from watchcache_server.model.specs import ExtensionKey

__all__ = ["ResumeToken", "TokenError", "extension_digest"]

_FORMAT = 2
_LAYOUT = struct.Struct(">B8s8s8sQQ")
_POSITION = struct.Struct(">8sQ")
_CHECKSUM = struct.Struct(">I")
_LARGEST = (1 << 64) - 1

EPOCH_BYTES = 8


class TokenError(ValueError):
    """The bytes are no resume token."""


class ResumeToken(NamedTuple):
    """The content of a token. The digests and the epoch have eight bytes each.

    Revision and `behind_since` are those of a `Cursor`. `positions` are the upstream versions of
    everything that was told, by the identities of sources; empty where they are not known.
    """

    extension: bytes
    epoch: bytes
    filter: bytes
    revision: int
    behind_since: int | None = None
    positions: tuple[tuple[bytes, int], ...] = ()

    def encode(self) -> bytes:
        """Return the token as bytes."""
        behind = 0 if self.behind_since is None else self.behind_since + 1
        parts = [_LAYOUT.pack(_FORMAT, *self[:4], behind)]
        parts += (_POSITION.pack(*position) for position in self.positions)
        body = b"".join(parts)
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def decode(cls, token: bytes) -> ResumeToken:
        """Read a token; raises TokenError when it is none."""
        rest = len(token) - _LAYOUT.size - _CHECKSUM.size
        if rest < 0 or rest % _POSITION.size:
            raise TokenError("it has the wrong length")
        body, checksum = token[: -_CHECKSUM.size], token[-_CHECKSUM.size :]
        if _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
            raise TokenError("it was altered or cut")
        head = _LAYOUT.unpack_from(body)
        version, extension, epoch, wanted, revision, behind = head
        if version != _FORMAT:
            raise TokenError("it is of another version of the service")
        positions = tuple(_POSITION.iter_unpack(body[_LAYOUT.size :]))
        return cls(extension, epoch, wanted, revision, behind - 1 if behind else None, positions)

    @staticmethod
    def packed(positions: Mapping[bytes, str]) -> tuple[tuple[bytes, int], ...]:
        """Return upstream versions as a token holds them; empty if one is no number."""
        numbers = [(identity, plain_number(version)) for identity, version in positions.items()]
        if any(number is None or number > _LARGEST for _, number in numbers):
            return ()
        return tuple((identity, number or 0) for identity, number in numbers)


def extension_digest(key: ExtensionKey) -> bytes:
    """Eight bytes that tell one extension's name from others."""
    return hashlib.blake2b(str(key).encode(), digest_size=8).digest()
