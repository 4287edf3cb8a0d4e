"""How objects look on the wire: whole, as metadata only, or as a table, in lists and in events.

Negotiation reads `Accept` the way kubectl and client libraries write it. A `View` then renders
records without building their trees, except for tables and converted versions, which need them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from watchcache_devcluster import errors
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.intake import with_type
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.storage import Record
from watchcache_devcluster.tables import Columns, columns_of, row_of

__all__ = ["View", "negotiate"]

_JSON = {"application/json", "application/*", "*/*"}
_encode = msgspec.json.Encoder().encode
_META = "meta.k8s.io/v1"


class _MetadataOnly(msgspec.Struct):
    metadata: msgspec.Raw


_decode_metadata = msgspec.json.Decoder(_MetadataOnly).decode


@dataclass(frozen=True, slots=True)
class View:
    """One of the shapes in which a resource can be asked for: `whole`, `metadata` or `table`."""

    resource: Resource
    shape: str = "whole"
    include_object: str = "Metadata"
    clock: Callable[[], float] = lambda: 0.0

    def render(self, record: Record) -> bytes:
        """Return one object as the body of an answer or the object of an event."""
        if self.shape == "metadata":
            head = f'{{"kind":"PartialObjectMetadata","apiVersion":"{_META}","metadata":'
            return head.encode() + self._metadata(record) + b"}"
        if self.shape == "table":
            return self.render_table([record], {}, with_columns=True)
        return self._head() + self._rest(record)

    def render_event(self, kind: str, body: bytes) -> bytes:
        """Return one line of a watch."""
        return b'{"type":"' + kind.encode() + b'","object":' + body + b"}\n"

    def render_bookmark(self, resource_version: int, *, ends_initial_events: bool) -> bytes:
        """Return the object of a bookmark, with nothing in it but a version."""
        metadata: dict[str, Any] = {"resourceVersion": str(resource_version)}
        if ends_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        if self.shape == "metadata":
            kind, api_version = "PartialObjectMetadata", _META
        else:
            kind, api_version = self.resource.kind, self.resource.api_version
        if self.shape == "table":
            obj = {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": metadata}
            return _encode(
                {
                    "kind": "Table",
                    "apiVersion": _META,
                    "metadata": {"resourceVersion": str(resource_version)},
                    "columnDefinitions": [],
                    "rows": [{"cells": [], "object": obj}],
                }
            )
        return _encode({"kind": kind, "apiVersion": api_version, "metadata": metadata})

    def render_list(self, records: list[Record], metadata: dict[str, Any]) -> Iterator[bytes]:
        """Yield the pieces of a list's body."""
        if self.shape == "table":
            yield self.render_table(records, metadata, with_columns=True)
            return
        kind, api_version = self.resource.list_kind, self.resource.api_version
        if self.shape == "metadata":
            kind, api_version = "PartialObjectMetadataList", _META
        is_map = self.resource.is_custom and self.shape == "whole"
        tail = b"]}\n"
        if is_map:  # the keys of a map come in their order
            yield _encode({"apiVersion": api_version})[:-1] + b',"items":['
            rest = {"kind": kind, "metadata": {"continue": "", **metadata}}
            tail = b"]," + _encode(rest)[1:] + b"\n"
        else:
            head = {"kind": kind, "apiVersion": api_version, "metadata": metadata}
            yield _encode(head)[:-1] + b',"items":['
        separator = b""
        for record in records:
            yield separator + self._item(record)
            separator = b","
        yield tail

    def _item(self, record: Record) -> bytes:
        """Return an object inside a list: built-in kinds come without their type there."""
        if self.shape == "whole" and not self.resource.is_custom:
            return b"{" + self._rest(record)
        return self.render(record)

    def render_table(
        self, records: list[Record], metadata: dict[str, Any], *, with_columns: bool
    ) -> bytes:
        """Return records as a `Table` for people."""
        columns: Columns = columns_of(self.resource)
        now = self.clock()
        rows = []
        for record in records:
            tree = with_type(self.resource, record.decode())
            row: dict[str, Any] = {"cells": row_of(columns, tree, now)}
            if self.include_object == "Metadata":
                row["object"] = {
                    "kind": "PartialObjectMetadata",
                    "apiVersion": _META,
                    "metadata": tree["metadata"],
                }
            elif self.include_object == "Object":
                row["object"] = tree
            rows.append(row)
        table: dict[str, Any] = {"kind": "Table", "apiVersion": _META, "metadata": metadata}
        if len(records) == 1 and not metadata:
            version = str(records[0].resource_version)
            table["metadata"] = {"resourceVersion": version}
        table["columnDefinitions"] = [column.definition() for column in columns]
        if not with_columns:
            table["columnDefinitions"] = None
        table["rows"] = rows
        return _encode(table)

    def _head(self) -> bytes:
        kind, api_version = self.resource.kind, self.resource.api_version
        if self.resource.is_custom:
            return f'{{"apiVersion":"{api_version}","kind":"{kind}",'.encode()
        return f'{{"kind":"{kind}","apiVersion":"{api_version}",'.encode()

    def _rest(self, record: Record) -> bytes:
        if self.resource.from_storage is None:
            return record.rest
        converted = self.resource.from_storage(record.decode())
        return _encode(converted)[1:]

    def _metadata(self, record: Record) -> bytes:
        return bytes(_decode_metadata(b"{" + record.rest).metadata)


def negotiate(
    accept: str,
    resource: Resource,
    include_object: str,
    clock: Callable[[], float],
    *,
    is_list: bool,
) -> View:
    """Choose the view that `Accept` asks for first among those that can be produced.

    Raises:
        ApiError: 406 if there is none.
    """
    if not accept.strip():
        return View(resource, clock=clock)
    for clause in accept.split(","):
        media_type, *parameters = (part.strip() for part in clause.split(";"))
        if media_type not in _JSON:
            continue
        values = dict(part.partition("=")[::2] for part in parameters)
        wanted = values.get("as", "")
        if not wanted:
            return View(resource, clock=clock)
        if values.get("g", "") != "meta.k8s.io" or values.get("v", "") not in {"v1", "v1beta1"}:
            continue
        if wanted in {"PartialObjectMetadata", "PartialObjectMetadataList"}:
            if wanted.endswith("List") != is_list:
                asked, found = ("the requested object is not a list", resource.kind)
                if is_list:
                    asked, found = ("the requested object is a list", resource.list_kind)
                raise ApiError(
                    406,
                    "NotAcceptable",
                    f"you requested {wanted}, but {asked} (*{resource.version}.{found})",
                )
            return View(resource, "metadata", clock=clock)
        if wanted == "Table":
            return View(resource, "table", include_object or "Metadata", clock)
    raise errors.not_acceptable(errors.PRODUCED)
