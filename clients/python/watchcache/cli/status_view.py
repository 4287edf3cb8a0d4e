"""What `watchcache status` shows: the informers, and what to do about those that are not live."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message
from rich.text import Text

from watchcache.cli.grants import grant_commands
from watchcache.cli.terminal import Cell, age_text, aligned, counted, left_text, size_text
from watchcache.states import ConsistencyOutcome, ExtensionState, SourceState
from watchcache.status import Cluster, ExtensionStatus, Source

__all__ = [
    "EXIT_CODES",
    "as_dict",
    "cluster_lines",
    "exit_code",
    "extension_lines",
    "overview_lines",
]

EXIT_CODES = {
    ExtensionState.LIVE: 0,
    ExtensionState.DEGRADED: 3,
    ExtensionState.FAILED: 4,
    ExtensionState.SYNCING: 5,
}
"""What `status` exits with; 1 is an error of the call and 2 a wrong use of the command."""

_BY_GRAVITY = (
    ExtensionState.LIVE,
    ExtensionState.SYNCING,
    ExtensionState.DEGRADED,
    ExtensionState.FAILED,
    ExtensionState.UNKNOWN,
)
_LARGE = {FieldDescriptor.CPPTYPE_INT64, FieldDescriptor.CPPTYPE_UINT64}
_GOOD = {SourceState.LIVE, ExtensionState.LIVE}
_PASSING = {SourceState.PENDING, SourceState.SYNCING, SourceState.STALE, ExtensionState.SYNCING}


def exit_code(extensions: Iterable[ExtensionStatus]) -> int:
    """Return the exit code for the gravest state among the extensions."""
    states = [extension.state for extension in extensions]
    worst = max(states, key=_BY_GRAVITY.index, default=ExtensionState.LIVE)
    return EXIT_CODES.get(worst, 1)


def as_dict(message: Message) -> dict[str, Any]:
    """Return a message as JSON values, by the JSON mapping of protobuf, with its empty fields.

    Only 64-bit integers are not as it writes them, which is in quotes; it reads them either way.
    """
    told: dict[str, Any] = MessageToDict(message, always_print_fields_with_no_presence=True)
    _unquote(told, message.DESCRIPTOR)
    return told


def _unquote(told: dict[str, Any], descriptor: Any) -> None:
    for field in descriptor.fields:
        value = told.get(field.json_name)
        if field.cpp_type in _LARGE and isinstance(value, str):
            told[field.json_name] = int(value)
        elif field.message_type is not None:
            # A timestamp or a duration is a text.
            for each in value if isinstance(value, list) else [value]:
                if isinstance(each, dict):
                    _unquote(each, field.message_type)


def extension_lines(extension: ExtensionStatus, *, default_cluster: str) -> list[Text]:
    """Return the lines about one extension."""
    lines = [_title(extension)]
    if extension.sources:
        header = ("RESOURCE", "CLUSTER", "SCOPE", "STATE", "FOR", "OBJECTS", "MEMORY", "CONTACT")
        lines += aligned([header, *map(_source_row, extension.sources)])
    else:
        lines.append(Text("It watches nothing."))
    told = set()
    for source in extension.not_live:
        # All resources in one set of namespaces have the same to say.
        subject = (source.cluster, source.namespace_selector)
        if not (source.namespace_selector and subject in told):
            told.add(subject)
            lines += _advice(source, extension, default_cluster)
    # So have they of what a comparison of the set has found.
    doubts = (_doubt(source, default_cluster) for source in extension.sources)
    lines += map(Text, dict.fromkeys(doubt for doubt in doubts if doubt))
    for credential in extension.credentials:
        if credential.message:
            lines.append(Text(f"token on {credential.cluster}: {credential.message}"))
    if extension.expire_time is not None:
        left = (extension.expire_time - datetime.now(UTC)).total_seconds()
        lines.append(Text(f"Nobody watches it: its ttl frees it in {left_text(left)}."))
    return lines


def overview_lines(extensions: Sequence[ExtensionStatus]) -> list[Text]:
    """Return a table with a line for each extension."""
    header = ("EXTENSION", "SERVICEACCOUNT", "STATE", "LIVE", "OBJECTS", "MEMORY", "WATCHES", "AGE")
    rows: list[Sequence[Cell]] = [header]
    for extension in extensions:
        live = len(extension.sources) - len(extension.not_live)
        rows.append(
            (
                f"{extension.namespace}/{extension.name}",
                extension.spec.service_account or "-",
                _state(extension.state),
                f"{live}/{len(extension.sources)}",
                str(sum(source.object_count for source in extension.sources)),
                size_text(sum(source.stored_bytes for source in extension.sources)),
                str(extension.subscription_count),
                age_text(extension.create_time),
            )
        )
    return aligned(rows)


def cluster_lines(clusters: Iterable[Cluster]) -> list[Text]:
    """Return a table with a line for each cluster, and why those that are not reachable are not."""
    rows: list[Sequence[Cell]] = [
        ("CLUSTER", "SERVER", "REACHABLE", "VERSION", "INFORMERS", "CONTACT")
    ]
    notes = []
    for cluster in clusters:
        reachable = Text("yes", "green") if cluster.is_reachable else Text("no", "red")
        rows.append(
            (
                f"{cluster.name} (default)" if cluster.is_default else cluster.name,
                cluster.server,
                reachable,
                cluster.kubernetes_version or "-",
                str(cluster.informer_count),
                age_text(cluster.last_contact_time),
            )
        )
        if cluster.message:
            notes.append(Text(f"{cluster.name}: {cluster.message}"))
        if cluster.tls_problem:
            notes.append(Text(f"{cluster.name}: {cluster.tls_problem}; those before stay in use"))
    return aligned(rows) + notes


def _title(extension: ExtensionStatus) -> Text:
    live = len(extension.sources) - len(extension.not_live)
    account = extension.spec.service_account
    title = Text(f"{extension.namespace}/{extension.name}", "bold")
    title.append(f"  serviceaccount {account}" if account else "  identity of the service", "")
    title.append(f"  generation {extension.generation}  ")
    title.append_text(_state(extension.state))
    if extension.sources and extension.state is not ExtensionState.LIVE:
        title.append(f": {live} of {len(extension.sources)} live")
    return title


def _source_row(source: Source) -> Sequence[Cell]:
    held = source.is_loaded and not source.namespace_selector
    return (
        source.label,
        source.cluster,
        _scope(source),
        _state(source.state),
        age_text(source.state_time),
        str(source.object_count) if held else "-",
        size_text(source.stored_bytes) if held else "-",
        age_text(source.last_contact_time),
    )


def _scope(source: Source) -> str:
    scope = source.namespace or "*"
    if source.namespace_selector:
        scope = f"{counted(source.namespace_count, 'namespace')} {source.namespace_selector}"
    selectors = (source.label_selector, source.field_selector)
    return " ".join([scope, *filter(None, selectors)])


def _doubt(source: Source, default_cluster: str) -> str:
    """Say what comparing an informer with its API server has found, if a person should know."""
    check = source.consistency_check
    if check is None or check.mismatch_time is None:
        return ""
    told = f"{_place(source, default_cluster)}: differed from its API server"
    if check.outcome is ConsistencyOutcome.MISMATCH:
        told += f" {age_text(check.mismatch_time)} ago: {check.message}"
    else:
        times = "once" if check.mismatch_count == 1 else f"{check.mismatch_count} times"
        told += f" {times}, the last time {age_text(check.mismatch_time)} ago"
    return f"{told}."


def _place(source: Source, default_cluster: str) -> str:
    where = f" on {source.cluster}" if source.cluster != default_cluster else ""
    label = source.label
    if source.namespace_selector:
        label = f"namespaces {source.namespace_selector}"
    return f"{label}{where}"


def _advice(source: Source, extension: ExtensionStatus, default_cluster: str) -> list[Text]:
    place = _place(source, default_cluster)
    told = f"{place}: {source.message or source.reason or source.state.lower()}"
    if source.next_attempt_time is not None:
        wait = (source.next_attempt_time - datetime.now(UTC)).total_seconds()
        told += f"; next check in {left_text(wait)}"
    rule, account = source.missing_access, extension.spec.service_account
    if rule is None or not account:
        return [Text(f"{told}.")]
    commands = grant_commands(
        rule,
        namespace=extension.namespace,
        service_account=account,
        default_cluster=default_cluster,
    )
    return [Text(f"{told}. To grant (review first):"), *(Text(f"  {line}") for line in commands)]


def _state(state: SourceState | ExtensionState) -> Text:
    style = "green" if state in _GOOD else "yellow" if state in _PASSING else "red"
    return Text(state, style)
