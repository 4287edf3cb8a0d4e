"""Views: the body of an object as a subscriber asked for it."""

from __future__ import annotations

import msgspec

from watchcache_server.informer.scanning import members

__all__ = ["metadata_of"]

_Fields = dict[str, msgspec.Raw]
_decoder = msgspec.json.Decoder(_Fields)
_decode_name = msgspec.json.Decoder(str).decode


def metadata_of(body: bytes) -> bytes:
    """Return apiVersion, kind and metadata of a JSON object as sent, but for managedFields."""
    fields = _fields(body)
    kept = {name: fields[name] for name in ("apiVersion", "kind", "metadata") if name in fields}
    metadata = _fields(bytes(kept["metadata"]))
    if metadata.pop("managedFields", None) is not None:
        kept["metadata"] = msgspec.Raw(msgspec.json.encode(metadata))
    return msgspec.json.encode(kept)


def _fields(body: bytes) -> _Fields:
    try:
        return _decoder.decode(body)
    except RecursionError:
        # How deep an object may be nested depends on who calls; it was read once already.
        return {
            _decode_name(body[each.key_start : each.key_end]): msgspec.Raw(
                body[each.value_start : each.value_end]
            )
            for each in members(body)
        }
