"""What `watchcache watch` shows: objects on the output, everything else beside it."""

from __future__ import annotations

import json
import time
from typing import Any

from rich.text import Text

from watchcache.cli.object_view import Output, event_json, event_line, name_of, yaml_text
from watchcache.cli.status_view import EXIT_CODES
from watchcache.cli.terminal import counted, show, warn, write
from watchcache.messages import Batch, Disconnected, Reset, SourceChanged, Started, Synced
from watchcache.states import ExtensionState, SourceState, StartMode
from watchcache.status import Source

__all__ = ["WatchView"]


class WatchView:
    """Writes the messages of a watch as they come."""

    def __init__(self, output: Output) -> None:
        self._output = output
        self._told: set[tuple[str, str, str, str]] = set()
        self._since = time.monotonic()
        self._count = 0
        self._is_resumed = False
        self._sources: dict[tuple[str, ...], Source] = {}

    @property
    def exit_code(self) -> int:
        """What `status` exits with for the informers told of: 0 all live, 3 some, 4 none."""
        sources = self._sources.values()
        if all(source.is_live for source in sources):
            return EXIT_CODES[ExtensionState.LIVE]
        if any(source.is_loaded for source in sources):
            return EXIT_CODES[ExtensionState.DEGRADED]
        return EXIT_CODES[ExtensionState.FAILED]

    def write(self, message: object) -> None:
        """Write what there is to say about a message."""
        if isinstance(message, Started):
            self._sources.clear()  # each one is told of again
        if isinstance(message, Disconnected):
            warn(f"disconnected: {message.error}; again in {message.retry_seconds:.1f} s")
        elif isinstance(message, SourceChanged):
            self._write_source(message.source)
        elif isinstance(message, Batch):
            self._write_events(message)
        elif self._output is Output.TABLE:
            self._write_step(message)

    def _write_source(self, source: Source) -> None:
        """Tell of an informer that is not live, and of one that is so again."""
        selectors = (source.label_selector, source.field_selector, source.namespace_selector)
        identity = (source.group, source.label, source.cluster, source.namespace, *selectors)
        self._sources[identity] = source
        if source.state is SourceState.STOPPED:
            del self._sources[identity]
        where = (source.label, source.cluster, source.namespace, source.namespace_selector)
        if source.is_live and where not in self._told:
            return
        self._told.add(where)
        if source.is_live:
            self._told.remove(where)
        told = f"{source.label} on {source.cluster}: {source.state} {source.message}"
        warn(told.rstrip())

    def _write_events(self, batch: Batch[Any]) -> None:
        self._count += len(batch.events)
        for event in batch:
            if self._output is Output.TABLE:
                show(event_line(event))
            elif self._output is Output.NAME:
                write(f"{event.type} {name_of(event)}")
            elif self._output is Output.JSON:
                write(event_json(event))
            else:
                write(f"---\n{yaml_text(json.loads(event_json(event)))}")

    def _write_step(self, message: object) -> None:
        if isinstance(message, Started):
            self._since, self._count = time.monotonic(), 0
            self._is_resumed = message.mode is StartMode.RESUMED
            show(Text(message.mode, "bold"))
        elif isinstance(message, Reset):
            self._since, self._count, self._is_resumed = time.monotonic(), 0, False
            show(Text(f"RESET        {message.reason}", "bold"))
        elif isinstance(message, Synced):
            took = (time.monotonic() - self._since) * 1000
            told = counted(self._count, "change" if self._is_resumed else "object")
            live = sum(source.is_live for source in self._sources.values())
            if live == len(self._sources):
                show(Text(f"LIVE         {told} in {took:.0f} ms", "bold"))
            else:
                informers = f"{live} of {counted(len(self._sources), 'informer')} live"
                show(Text(f"SYNCED       {told} in {took:.0f} ms; {informers}", "bold"))
