"""How states and objects are shown, in each format of the output."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from watchcache.cli.object_view import Output, yaml_text
from watchcache.cli.status_view import as_dict, extension_lines, overview_lines
from watchcache.cli.terminal import age_text, clear, show, warn, write
from watchcache.connection import Connection
from watchcache.keys import parse_extension_name
from watchcache.objects import Item
from watchcache.status import ExtensionRemoved, ExtensionsSynced, ExtensionStatus

__all__ = [
    "HEADER",
    "show_changes",
    "show_extension",
    "show_extensions",
    "warn_if_old",
    "write_value",
]

HEADER = ("RESOURCE", "CLUSTER", "NAMESPACE", "NAME", "VERSION", "AGE")


async def show_changes(wc: Connection, extension: str | None, output: Output) -> None:
    """Show the state of one extension, or of all, at each change."""
    namespace, name = parse_extension_name(extension) if extension else ("", "")
    if extension:
        await wc.extension(extension)
    known: dict[tuple[str, str], ExtensionStatus] = {}
    is_complete = False
    async for change in wc.watch_extensions(namespace=namespace, name=name):
        if isinstance(change, ExtensionsSynced):
            if is_complete:
                continue
            is_complete = True
        elif isinstance(change, ExtensionRemoved):
            known.pop((change.namespace, change.name), None)
            warn(f"removed {change.namespace}/{change.name}: {change.reason}")
        else:
            known[change.namespace, change.name] = change
        if is_complete:
            clear()
            for status in known.values() if extension else ():
                await show_extension(wc, status, output)
            if not extension:
                show_extensions([known[key] for key in sorted(known)], output)


def show_extensions(statuses: Sequence[ExtensionStatus], output: Output) -> None:
    """Show how several extensions are doing."""
    if output is Output.TABLE:
        for line in overview_lines(statuses):
            show(line)
    elif output is Output.NAME:
        for each in statuses:
            write(f"{each.namespace}/{each.name}")
    else:
        write_value([as_dict(each.raw) for each in statuses], output)


async def show_extension(wc: Connection, status: ExtensionStatus, output: Output) -> None:
    """Show how one extension is doing, with what it is missing."""
    if output is Output.NAME:
        write(f"{status.namespace}/{status.name}")
    elif output is Output.TABLE:
        default = next((each.name for each in await wc.clusters() if each.is_default), "")
        for line in extension_lines(status, default_cluster=default):
            show(line)
    else:
        write_value(as_dict(status.raw), output)


def write_value(value: object, output: Output) -> None:
    """Write a value as YAML or JSON."""
    write(yaml_text(value) if output is Output.YAML else json.dumps(value, indent=2))


def warn_if_old(item: Item[Any]) -> None:
    """Warn of an answer that may be old."""
    if not item.freshness.is_live:
        contact = item.freshness.last_contact_time
        told = f"last in contact {age_text(contact)} ago" if contact else "never in contact"
        warn(f"warning: this may be old: not every informer behind it is live, {told}")
