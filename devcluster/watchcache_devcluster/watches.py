"""One watch: where it starts, which events it shows, when it sends bookmarks, when it ends.

A `Watch` is pulled: `next()` waits for something to happen and returns lines to write. It holds a
cursor into its table's log and no queue, so a slow reader costs nothing but its own connection; one
that falls behind the history is ended, as the real server ends it. Writing the lines, and all
faults, are left to the server.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator

import msgspec

from watchcache_devcluster import errors
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.listing import ListOptions, selects
from watchcache_devcluster.storage import Change, Record, Storage, Table, with_resource_version
from watchcache_devcluster.views import View

__all__ = ["Watch", "error_line"]

_encode = msgspec.json.Encoder().encode
_BATCH_BYTES = 256 * 1024
_BATCH_CHANGES = 256
_PRE_DEADLINE_SECONDS = 2.0


def error_line(error: ApiError) -> bytes:
    """Return an in-stream ERROR event."""
    return b'{"type":"ERROR","object":' + _encode(error.to_status()) + b"}\n"


class Watch:
    """One watch of a table, as seen through selectors and a view.

    `next` returns the lines to write (perhaps none, when it was only woken) and None at the end.
    """

    def __init__(
        self,
        storage: Storage,
        table: Table,
        namespace: str | None,
        options: ListOptions,
        view: View,
        *,
        timeout_seconds: float,
        bookmark_seconds: float,
        fresh_timeout_seconds: float = 3.0,
    ) -> None:
        self._storage = storage
        self._table = table
        self._namespace = namespace
        self._options = options
        self._view = view
        self._bookmark_seconds = bookmark_seconds
        self._fresh_timeout_seconds = fresh_timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._deadline = self._loop.time() + timeout_seconds
        self._next_bookmark = self._bookmark_time()
        self._cursor = 0  # everything up to here was sent
        self._read_to = 0  # everything up to here was read from the log
        self._initial: Iterator[Record] | None = None
        self._is_started = False
        self._is_ended = False
        self._owes_initial_bookmark = False
        self._has_shown_columns = False
        self._pending: list[Change] = []
        self.waker = asyncio.Event()
        table.add_watcher(self)

    def close(self) -> None:
        """Stop being woken."""
        self._table.remove_watcher(self)

    def drain(self) -> None:
        """Take the changes that are not read yet (see `storage.Watcher`)."""
        if self._is_started and not self._is_ended:
            self._pending += self._read_log(sys.maxsize) or []

    async def next(self) -> list[bytes] | None:
        """Wait for something to happen; return its lines, or None when the watch is over."""
        if self._is_ended:
            return None
        if not self._is_started:
            self._is_started = True
            refusal = await self._start()
            if refusal is not None:
                self._is_ended = True
                return [error_line(refusal)]
        if self._initial is not None:
            return self._initial_lines(self._initial)
        lines = self._live_lines()
        if lines is None or lines:
            return lines
        if self._table.is_closed or self._loop.time() >= self._deadline:
            return None
        await self._wait()
        if self._loop.time() >= self._next_bookmark and self._options.allow_bookmarks:
            return [*(self._live_lines() or []), self.bookmark()]
        return []

    async def _start(self) -> ApiError | None:
        version = self._options.version()
        if self._options.send_initial_events:
            if version > self._storage.resource_version and not await self._storage.reached(
                version, self._fresh_timeout_seconds
            ):
                return errors.too_large_resource_version(version, self._storage.resource_version)
            selected = [
                record
                for record in self._table.scan(self._namespace)
                if selects(self._options, record)
            ]
            self._initial = iter(selected)
            self._owes_initial_bookmark = self._options.allow_bookmarks
            self._cursor = self._read_to = self._storage.resource_version
            return None
        self._cursor = self._read_to = version or self._storage.resource_version
        if self._cursor < self._table.compacted:
            return errors.expired(
                f"too old resource version: {self._cursor} ({self._table.compacted})"
            )
        return None

    def _initial_lines(self, initial: Iterator[Record]) -> list[bytes]:
        lines: list[bytes] = []
        size = 0
        for record in initial:
            lines.append(self._event("ADDED", record))
            size += len(lines[-1])
            if size >= _BATCH_BYTES:
                return lines
        self._initial = None
        if self._owes_initial_bookmark:
            self._owes_initial_bookmark = False
            lines.append(self.bookmark(self._cursor, ends_initial_events=True))
        return lines

    def _live_lines(self) -> list[bytes] | None:
        """Return the lines of the next changes, or None if the history has left us behind."""
        self.waker.clear()
        if not self._pending:
            found = self._read_log(_BATCH_CHANGES)
            if found is None:
                return None
            self._pending = found
        batch, self._pending = self._pending[:_BATCH_CHANGES], self._pending[_BATCH_CHANGES:]
        self._cursor = batch[-1].resource_version if self._pending else self._read_to
        if self._pending or len(batch) == _BATCH_CHANGES:
            self.waker.set()
        lines = (self._change_line(change) for change in batch)
        return [line for line in lines if line is not None]

    def _read_log(self, limit: int) -> list[Change] | None:
        newest = self._storage.resource_version
        if self._read_to >= newest:
            return []
        found = self._table.changes_after(self._read_to, limit)
        if found is not None:
            self._read_to = found[-1].resource_version if len(found) == limit else newest
        return found

    def _change_line(self, change: Change) -> bytes | None:
        record, previous = change.record, change.previous
        if self._namespace is not None and record.namespace != self._namespace:
            return None
        was_selected = previous is not None and selects(self._options, previous)
        is_selected = not record.is_deleted and selects(self._options, record)
        if is_selected:
            return self._event("MODIFIED" if was_selected else "ADDED", record)
        if not was_selected or previous is None:
            return None
        if record.is_deleted:
            return self._event("DELETED", record)
        left = Record(
            previous.key,
            record.resource_version,
            with_resource_version(previous, record.resource_version),
            previous.labels,
            previous.fields,
            None,
        )
        return self._event("DELETED", left)

    def _event(self, kind: str, record: Record) -> bytes:
        if self._view.shape == "table":
            body = self._view.render_table([record], {}, with_columns=not self._has_shown_columns)
            self._has_shown_columns = True
        else:
            body = self._view.render(record)
        return self._view.render_event(kind, body)

    def bookmark(
        self, resource_version: int | None = None, *, ends_initial_events: bool = False
    ) -> bytes:
        """Return a BOOKMARK line for everything that was sent so far."""
        self._next_bookmark = self._bookmark_time()
        body = self._view.render_bookmark(
            self._cursor if resource_version is None else resource_version,
            ends_initial_events=ends_initial_events,
        )
        return self._view.render_event("BOOKMARK", body)

    def _bookmark_time(self) -> float:
        now = self._loop.time()
        heartbeat = now + self._bookmark_seconds
        before_deadline = self._deadline - _PRE_DEADLINE_SECONDS
        return before_deadline if now < before_deadline < heartbeat else heartbeat

    async def _wait(self) -> None:
        until = self._deadline
        if self._options.allow_bookmarks:
            until = min(until, self._next_bookmark)
        try:
            async with asyncio.timeout_at(until):
                await self.waker.wait()
        except TimeoutError:
            pass
