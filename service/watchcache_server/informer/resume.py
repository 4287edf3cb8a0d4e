"""Resume tokens: where a subscriber stands, in a form that it can keep.

A token is opaque to clients. It holds a format number, what it belongs to (a digest of the
extension's name, the store's epoch, a digest of the filter), the revision, whether its holder was
catching up and since where, and a checksum against accidents. It is no secret and grants nothing.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from typing import NamedTuple

from watchcache_server.model.specs import ExtensionKey

__all__ = ["ResumeToken", "TokenError", "extension_digest"]

_FORMAT = 2
_LAYOUT = struct.Struct(">B8s8s8sQQ")
_CHECKSUM = struct.Struct(">I")

EPOCH_BYTES = 8


class TokenError(ValueError):
    """The bytes are no resume token."""


class ResumeToken(NamedTuple):
    """The content of a token. The digests and the epoch have eight bytes each.

    Revision and `behind_since` are those of a `Cursor`.
    """

    extension: bytes
    epoch: bytes
    filter: bytes
    revision: int
    behind_since: int | None = None

    def encode(self) -> bytes:
        """Return the token as bytes."""
        behind = 0 if self.behind_since is None else self.behind_since + 1
        body = _LAYOUT.pack(_FORMAT, *self[:4], behind)
        return body + _CHECKSUM.pack(zlib.crc32(body))

    @classmethod
    def decode(cls, token: bytes) -> ResumeToken:
        """Read a token; raises TokenError when it is none."""
        if len(token) != _LAYOUT.size + _CHECKSUM.size:
            raise TokenError("it has the wrong length")
        body, checksum = token[: _LAYOUT.size], token[_LAYOUT.size :]
        if _CHECKSUM.unpack(checksum)[0] != zlib.crc32(body):
            raise TokenError("it was altered or cut")
        version, extension, epoch, wanted, revision, behind = _LAYOUT.unpack(body)
        if version != _FORMAT:
            raise TokenError("it is of another version of the service")
        return cls(extension, epoch, wanted, revision, behind - 1 if behind else None)


def extension_digest(key: ExtensionKey) -> bytes:
    """Eight bytes that tell one extension's name from others."""
    return hashlib.blake2b(str(key).encode(), digest_size=8).digest()
