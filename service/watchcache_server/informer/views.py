"""Views: the body of an object as a subscriber asked for it."""

from __future__ import annotations

import msgspec

__all__ = ["metadata_of"]

_Fields = dict[str, msgspec.Raw]
_decoder = msgspec.json.Decoder(_Fields)


def metadata_of(body: bytes) -> bytes:
    """Return apiVersion, kind and metadata of a JSON object as sent, but for managedFields."""
    fields = _decoder.decode(body)
    kept = {name: fields[name] for name in ("apiVersion", "kind", "metadata") if name in fields}
    metadata = _decoder.decode(kept["metadata"])
    if metadata.pop("managedFields", None) is not None:
        kept["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(kept)
