"""What `get`, `list` and `watch` show of objects, in each output format."""

from __future__ import annotations

import json
from datetime import datetime
from enum import StrEnum
from typing import Any

import yaml
from rich.text import Text

from watchcache.cli.terminal import age_text
from watchcache.keys import Key
from watchcache.messages import Event
from watchcache.objects import CachedObject
from watchcache.states import EventType, View

__all__ = ["Output", "event_json", "event_line", "name_of", "object_row", "view_for", "yaml_text"]


class Output(StrEnum):
    """Formats of the output."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


_SIGNS = {
    EventType.ADDED: ("+", "green"),
    EventType.MODIFIED: ("~", "yellow"),
    EventType.DELETED: ("-", "red"),
    EventType.LEFT: ("<", "magenta"),
}


def view_for(output: Output) -> View:
    """Return how much of each object a format needs."""
    return {Output.TABLE: View.METADATA, Output.NAME: View.KEY}.get(output, View.FULL)


def name_of(item: CachedObject[Any]) -> str:
    """Return `resource/cluster/namespace/name`, which `get` takes apart again."""
    return f"{item.resource}/{item.key}"


def object_row(item: CachedObject[dict[str, Any]]) -> tuple[str, ...]:
    """Return the cells of a table."""
    created = item.object.get("metadata", {}).get("creationTimestamp")
    age = age_text(datetime.fromisoformat(created)) if isinstance(created, str) else "-"
    key = item.key
    return (item.resource, key.cluster, key.namespace or "-", key.name, item.resource_version, age)


def event_line(event: Event[Any]) -> Text:
    """Return the line about a change."""
    sign, style = _SIGNS.get(event.type, ("?", ""))
    line = Text("  ")
    line.append(sign, style)
    line.append(f" {event.resource:<20} {short(event.key):<40} ")
    if event.type in (EventType.ADDED, EventType.MODIFIED):
        line.append(f"rv {event.resource_version}")
    else:
        line.append(f"{event.type}{f' ({event.left_reason})' if event.left_reason else ''}", style)
    return line


def event_json(event: Event[dict[str, Any]]) -> str:
    """Return a change as one line of JSON; empty parts are left out."""
    told = {
        "type": event.type,
        "leftReason": event.left_reason,
        "resource": event.resource,
        "cluster": event.key.cluster,
        "namespace": event.key.namespace,
        "name": event.key.name,
        "uid": event.uid,
        "resourceVersion": event.resource_version,
        "revision": event.revision,
        "finalStateUnknown": event.final_state_unknown,
        "object": event.object if event.body is not None else None,
    }
    return json.dumps({name: value for name, value in told.items() if value})


def short(key: Key) -> str:
    """Return a key without its cluster."""
    return str(key._replace(cluster=""))


def yaml_text(value: object) -> str:
    """Return a value as YAML, in the order that it has."""
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=False, width=10_000).rstrip()
