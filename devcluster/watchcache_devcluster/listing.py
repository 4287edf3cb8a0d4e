"""Reading collections: the parameters of list and watch, their rules, and pages of a list.

`ListOptions.parse` reads and checks a query as kube-apiserver does, defaults included; `list_page`
answers a list from the storage under the resourceVersion rules (most recent, any, not older than,
exact, continued). Streams are in `watches`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, replace

import msgspec

from watchcache_devcluster import errors
from watchcache_devcluster.errors import Cause, bad_request, field_invalid
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.selectors import (
    EVERY_FIELD,
    EVERY_LABEL,
    FieldSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from watchcache_devcluster.storage import Key, Record, Storage, Table

__all__ = ["EXACT", "NOT_OLDER_THAN", "ListOptions", "Page", "list_page", "selects"]

EXACT = "Exact"
NOT_OLDER_THAN = "NotOlderThan"

_LIST_EXPIRED = "The resourceVersion for the provided list is too old."
_CONTINUE_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start"
    " a new list without the continue parameter, or use the continue token in this response to"
    " retrieve the remainder of the results. Continuing with the provided token results in an"
    " inconsistent list - objects that were created, modified, or deleted between the time the"
    " first chunk was returned and now may show up in the list."
)


def _boolean(query: Mapping[str, str], name: str) -> bool | None:
    text = query.get(name)
    if text is None:
        return None
    return text.lower() not in {"", "0", "false"}


def _integer(query: Mapping[str, str], name: str) -> int:
    text = query.get(name, "")
    if not text:
        return 0
    try:
        return int(text)
    except ValueError:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


@dataclass(frozen=True, slots=True)
class ListOptions:
    """The parameters of a list or watch, parsed and checked."""

    labels: LabelSelector = EVERY_LABEL
    fields: FieldSelector = EVERY_FIELD
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    match: str = ""
    is_watch: bool = False
    timeout_seconds: int = 0
    allow_bookmarks: bool = False
    send_initial_events: bool | None = None

    @classmethod
    def parse(cls, query: Mapping[str, str], resource: Resource, *, is_watch: bool) -> ListOptions:
        """Read the query of a list or watch.

        Raises:
            ApiError: 400 for what cannot be read, 422 for combinations that are not allowed.
        """
        version = query.get("resourceVersion", "")
        match = query.get("resourceVersionMatch", "")
        initial = _boolean(query, "sendInitialEvents")
        labels = parse_label_selector(query.get("labelSelector", ""))
        if is_watch and initial is None and not match and version in {"", "0"}:
            initial, match = True, NOT_OLDER_THAN
        options = cls(
            labels=labels,
            limit=_integer(query, "limit"),
            continue_token=query.get("continue", ""),
            resource_version=version,
            match=match,
            is_watch=is_watch,
            timeout_seconds=_integer(query, "timeoutSeconds"),
            allow_bookmarks=_boolean(query, "allowWatchBookmarks") or False,
            send_initial_events=initial,
        )
        causes = options._watch_causes() if is_watch else options._list_causes()
        if causes:
            raise errors.invalid_options("ListOptions", causes)
        if is_watch and version:
            _check_watch_version(version)
        fields = parse_field_selector(query.get("fieldSelector", ""), resource)
        return replace(options, fields=fields)

    def _list_causes(self) -> list[Cause]:
        causes = []
        if self.match:
            if not self.resource_version:
                causes.append(
                    _forbidden("resourceVersionMatch", "unless resourceVersion is provided")
                )
            if self.continue_token:
                causes.append(_forbidden("resourceVersionMatch", "when continue is provided"))
            if self.match not in {EXACT, NOT_OLDER_THAN}:
                causes.append(_unsupported(self.match, (f'"{EXACT}"', f'"{NOT_OLDER_THAN}"', '""')))
            if self.match == EXACT and self.resource_version == "0":
                causes.append(
                    field_invalid(
                        "resourceVersionMatch",
                        'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
                        reason="FieldValueForbidden",
                    )
                )
        if self.send_initial_events is not None:
            causes.append(_forbidden("sendInitialEvents", "for list"))
        return causes

    def _watch_causes(self) -> list[Cause]:
        causes = []
        if self.send_initial_events is not None and self.match != NOT_OLDER_THAN:
            causes.append(
                field_invalid(
                    "resourceVersionMatch",
                    f"sendInitialEvents requires setting resourceVersionMatch to {NOT_OLDER_THAN}",
                    reason="FieldValueForbidden",
                )
            )
        if self.match:
            if self.send_initial_events is None:
                causes.append(
                    _forbidden(
                        "resourceVersionMatch", "for watch unless sendInitialEvents is provided"
                    )
                )
            if self.match != NOT_OLDER_THAN:
                causes.append(_unsupported(self.match, (f'"{NOT_OLDER_THAN}"',)))
            if self.continue_token:
                causes.append(_forbidden("resourceVersionMatch", "when continue is provided"))
        return causes

    def version(self) -> int:
        """Return the resourceVersion as a number; 0 if it is unset.

        Raises:
            ApiError: 400 if it is not a number.
        """
        return parse_version(self.resource_version)


def parse_version(text: str) -> int:
    """Read a resourceVersion parameter; unset is 0."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        rule = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}": {rule}'
        )
    return int(text)


def _check_watch_version(text: str) -> None:
    if not (text.isascii() and text.isdigit()):
        rule = f'strconv.ParseUint: parsing "{text}": invalid syntax'
        message = f'resourceVersion: Invalid value: "{text}": {rule}'
        raise errors.ApiError(500, "", message)


def _forbidden(field: str, when: str) -> Cause:
    return field_invalid(field, f"{field} is forbidden {when}", reason="FieldValueForbidden")


def _unsupported(value: str, supported: tuple[str, ...]) -> Cause:
    return field_invalid(
        "resourceVersionMatch",
        f"supported values: {', '.join(supported)}",
        value=f'"{value}"',
        reason="FieldValueNotSupported",
    )


def selects(options: ListOptions, record: Record) -> bool:
    """Say whether the selectors of a request select this version of an object."""
    return options.labels.matches(record.labels) and options.fields.matches(record.value_of)


@dataclass(frozen=True, slots=True)
class Page:
    """One answer to a list."""

    resource_version: int
    records: list[Record]
    continue_token: str = ""
    remaining: int | None = None


async def list_page(
    storage: Storage,
    table: Table,
    namespace: str | None,
    options: ListOptions,
    fresh_timeout_seconds: float = 3.0,
) -> Page:
    """Answer a list; `namespace` is None for all of them.

    Raises:
        ApiError: 410 if the version asked for is compacted, 504 if it is still in the future after
            the wait, 400 if the version or the continue token makes no sense.
    """
    if options.continue_token:
        if options.resource_version not in {"", "0"}:
            raise bad_request("specifying resource version is not allowed when using continue")
        version, start = _decode_continue(options.continue_token)
        if 0 < version < table.compacted:
            token = _encode_continue(-1, start)
            raise errors.expired(
                _CONTINUE_EXPIRED,
                continue_token=token,
                resource_version=str(storage.resource_version),
            )
        return _page(storage, table, namespace, options, version, start)
    version = options.version()
    is_exact = options.match == EXACT or (options.limit > 0 and version > 0 and not options.match)
    if version > storage.resource_version and not await storage.reached(
        version, fresh_timeout_seconds
    ):
        raise errors.too_large_resource_version(version, storage.resource_version)
    if is_exact and version < table.compacted:
        raise errors.expired(_LIST_EXPIRED)
    return _page(storage, table, namespace, options, version if is_exact else -1, None)


def _page(
    storage: Storage,
    table: Table,
    namespace: str | None,
    options: ListOptions,
    version: int,
    start: Key | None,
) -> Page:
    served = version if version > 0 else storage.resource_version
    limit = 0 if options.resource_version == "0" else options.limit
    found: list[Record] = []
    last: Key | None = None
    remaining = 0
    for record in table.scan(
        namespace, start=start, resource_version=version if version > 0 else None
    ):
        if limit and len(found) >= limit:
            remaining += 1
            if options.labels or options.fields:
                break
            continue
        last = record.key
        if selects(options, record):
            found.append(record)
    if not remaining or last is None:
        return Page(served, found)
    token = _encode_continue(served, (last[0], f"{last[1]}\0"))
    return Page(
        served,
        found,
        token,
        None if options.labels or options.fields else remaining,
    )


def _encode_continue(version: int, start: Key) -> str:
    token = {"v": "meta.k8s.io/v1", "rv": version, "start": "/".join(start).lstrip("/")}
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode_continue(token: str) -> tuple[int, Key]:
    try:
        padded = token + "=" * (-len(token) % 4)
        content = msgspec.json.decode(base64.b64decode(padded, b"-_", validate=True))
    except (binascii.Error, ValueError, msgspec.DecodeError) as error:
        raise bad_request(f"invalid continue token: continue key is not valid: {error}") from error
    if not isinstance(content, dict) or content.get("v") != "meta.k8s.io/v1":
        raise bad_request(
            "invalid continue token: continue key is not valid: server does not recognize this"
            " encoded version"
        )
    version, start = content.get("rv"), content.get("start")
    if not isinstance(version, int) or version == 0 or not isinstance(start, str) or not start:
        raise bad_request("invalid continue token: continue key is not valid")
    namespace, _, name = start.rpartition("/")
    return version, (namespace, name)
