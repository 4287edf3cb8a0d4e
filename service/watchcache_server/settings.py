"""Settings of the service: every limit and every choice, each with a name, a default and a reason.

A setting is given by a flag (`--max-extensions 10`), by an environment variable
(`WATCHCACHE_MAX_EXTENSIONS=10`) or in a TOML file (`max_extensions = 10`), in this order of
precedence. docs/settings.md is made from this module.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path

from watchcache_server.model.errors import SettingsError

__all__ = [
    "SettingRow",
    "Settings",
    "environment_name",
    "flag_name",
    "load_settings",
    "setting_rows",
    "setting_text",
    "trace_settings",
    "unknown_variables",
]


def _setting(
    default: object, help_text: str, *, low: float | None = None, high: float | None = None
) -> typing.Any:
    metadata = {"help": help_text, "low": low, "high": high}
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings. Sizes are in bytes and times in seconds, as their names say."""

    # Where it listens
    listen: tuple[str, ...] = _setting(
        ("127.0.0.1:7443",),
        "gRPC addresses: loopback host:port or unix:PATH. Any other address is refused, since "
        "callers are not authenticated yet.",
    )
    http_listen: str = _setting(
        "127.0.0.1:8080", "Loopback address of /metrics, /healthz and /readyz; empty for none."
    )
    reflection: bool = _setting(True, "Serve gRPC reflection, which grpcurl needs.")
    tls_certificate: str = _setting(
        "", "PEM file of the certificate, chain included, that gRPC serves with; empty for no TLS."
    )
    tls_key: str = _setting("", "PEM file of the private key of that certificate.")

    # What it tells operators
    ready_contact_seconds: float = _setting(
        60,
        "/readyz says no when the default cluster has not answered for so long.",
        low=20,
        high=3600,
    )
    max_metric_pairs: int = _setting(
        2000,
        "Pairs of extension and resource with gauges of their own; others are summed up in one.",
        low=0,
        high=100_000,
    )
    log_level: str = _setting("info", "debug, info, warning or error.")
    log_format: str = _setting("auto", "console, json, or auto (console on a terminal).")

    # Where it reads
    kubeconfig: tuple[str, ...] = _setting(
        (),
        "Clusters, each as [NAME=]PATH[#CONTEXT]. Without any: the in-cluster environment, "
        "else $KUBECONFIG, else ~/.kube/config.",
    )
    default_cluster: str = _setting(
        "", "Cluster for specs that name none; empty for the first one."
    )
    identity: str = _setting(
        "service-account",
        "As whom informers read: service-account (tokens of the extension's ServiceAccount) or "
        "caller (the kubeconfig's own identity; for one user outside a cluster).",
    )

    cluster_probe_seconds: float = _setting(
        15,
        "How often each API server is asked for its version, so that what is said of it is fresh; "
        "less than ready_contact_seconds.",
        low=1,
        high=3600,
    )

    discovery_seconds: float = _setting(
        15, "Longest wait for a document of discovery.", low=1, high=300
    )
    max_discovery_bytes: int = _setting(
        64 * 1024 * 1024, "Largest document of discovery read.", low=1024 * 1024
    )
    discovery_max_age_seconds: float = _setting(
        600,
        "After so long discovery is read again when a kind is looked for, though it is known.",
        low=10,
        high=86400,
    )
    credentials_recheck_seconds: float = _setting(
        10,
        "How often token files, CAs, certificates and keys are looked at for changes.",
        low=1,
        high=3600,
    )
    plugin_seconds: float = _setting(
        30, "Longest run of a credential plugin of a kubeconfig.", low=1, high=600
    )

    # Tokens
    token_lifetime_seconds: int = _setting(
        3600, "Lifetime asked for with TokenRequest.", low=600, high=86400
    )
    token_request_seconds: float = _setting(
        10,
        "Longest wait for the answer to a request for a token.",
        low=0.1,
        high=120,
    )

    # Informers
    watch_timeout_seconds: int = _setting(
        60,
        "Longest life of a watch; reopening it is what checks the right to watch.",
        low=5,
        high=600,
    )
    initial_events_seconds: float = _setting(
        30, "Longest silence within the initial events of a watch list.", low=1, high=300
    )
    connect_seconds: float = _setting(
        10, "Longest time to open a connection to an API server.", low=0.1, high=120
    )
    response_seconds: float = _setting(
        30, "Longest wait for the headers of an answer.", low=1, high=300
    )
    list_page_size: int = _setting(500, "Objects in a page of a paged list.", low=1, high=10_000)
    forbidden_grace_seconds: float = _setting(
        60, "How long objects are kept after the right to read them was lost.", low=0, high=3600
    )
    first_backoff_seconds: float = _setting(
        0.8,
        "Wait after the first failure of an informer, doubled by each further one.",
        low=0.1,
        high=60,
    )
    longest_backoff_seconds: float = _setting(
        30,
        "Longest wait after failures of an informer; up to as much again is added by chance.",
        low=1,
        high=600,
    )
    recheck_seconds: float = _setting(
        15,
        "How often a right, a kind or a verb that is missing is looked for again.",
        low=1,
        high=3600,
    )
    unauthenticated_recheck_seconds: float = _setting(
        60,
        "Longest wait before a token is asked for again that could not be had.",
        low=1,
        high=3600,
    )
    bad_request_recheck_seconds: float = _setting(
        300,
        "Wait before a request is sent again that was called bad, as for a wrong field selector.",
        low=1,
        high=86400,
    )
    max_concurrent_syncs: int = _setting(
        8, "Initial syncs under way at once for each cluster; others are PENDING.", low=1, high=1000
    )
    max_concurrent_verifications: int = _setting(
        8,
        "Objects that left a selector which an informer asks for at once: are they gone?",
        low=1,
        high=100,
    )
    verification_seconds: float = _setting(
        5, "Longest wait for each of these answers; there are three attempts.", low=0.1, high=60
    )
    max_event_bytes: int = _setting(
        64 * 1024 * 1024, "Largest single object or event read.", low=1024 * 1024
    )

    max_freshness_wait_seconds: float = _setting(
        30,
        "Longest that a call waits for informers to be as fresh as it asks.",
        low=0,
        high=600,
    )

    # Extensions
    max_extensions: int = _setting(1000, "Extensions registered at once.", low=1)
    max_sources: int = _setting(500, "Informers of one extension.", low=1)
    max_spec_bytes: int = _setting(
        1024 * 1024,
        "Size of a spec, manifests included; also of its selectors, counted for each informer.",
        low=1024,
        high=4 * 1024 * 1024,
    )
    max_manifest_documents: int = _setting(
        5000, "Objects in the manifests of a spec, Lists expanded.", low=1
    )
    max_index_paths: int = _setting(
        16, "Field paths that an entry of a spec may be indexed by.", low=0, high=256
    )
    max_index_values: int = _setting(
        64,
        "Values at these paths that are indexed of one object; the others are left out and counted "
        "in its informer's status.",
        low=1,
        high=10_000,
    )
    account_check_seconds: float = _setting(
        5,
        "Longest that Register waits to learn whether the ServiceAccount exists; then it goes on.",
        low=0.1,
        high=60,
    )
    deregister_seconds: float = _setting(
        10, "Longest that Deregister waits for the informers to end.", low=0.1, high=300
    )
    history_changes: int = _setting(
        16_384, "Changes kept for each extension, for resuming.", low=16
    )
    history_bytes: int = _setting(
        32 * 1024 * 1024, "Bytes of changes kept for each extension.", low=64 * 1024
    )
    history_ends: int = _setting(
        65_536,
        "Ends of objects older than those changes, kept for each extension: who comes from before "
        "the oldest of them starts with a snapshot.",
        low=16,
    )

    # Subscriptions
    max_subscriptions: int = _setting(20_000, "Open Watch streams.", low=1)
    max_subscriptions_per_extension: int = _setting(
        5000, "Open Watch streams of one extension.", low=1
    )
    max_extension_watches: int = _setting(1000, "Open WatchExtensions streams.", low=1)
    extension_watch_interval_seconds: float = _setting(
        0.1,
        "Shortest time between two messages of a WatchExtensions stream about one extension; "
        "changes in between are joined.",
        low=0.01,
        high=10,
    )
    max_known_objects: int = _setting(
        2_000_000, "Objects that clients say they hold, of all uploads under way.", low=1
    )
    known_seconds: float = _setting(
        60, "How long an upload of what a client holds waits for its Watch.", low=1, high=3600
    )
    stalled_write_seconds: float = _setting(
        60,
        "A stream whose reader takes nothing for so long is no subscription any more; the reader "
        "is told when it reads again, and can resume.",
        low=1,
        high=3600,
    )
    # Messages below the threshold from which the allocator maps memory anew (see memory.py) take a
    # fifth less processor time than those of a megabyte.
    batch_bytes: int = _setting(
        96 * 1024, "Size of a batch; one larger object is a batch of its own.", low=16 * 1024
    )
    batch_cache_bytes: int = _setting(
        16 * 1024 * 1024, "Encoded batches kept for sharing among subscribers.", low=0
    )
    deliveries_per_second: int = _setting(
        20_000,
        "Wake-ups of subscribers a second at most; sets the flush tick of an extension.",
        low=100,
    )

    # gRPC
    max_message_bytes: int = _setting(4 * 1024 * 1024, "Largest request.", low=64 * 1024)
    max_streams_per_connection: int = _setting(1000, "HTTP/2 streams of one connection.", low=1)
    keepalive_seconds: int = _setting(
        30, "Silence after which a connection is pinged.", low=10, high=7200
    )
    keepalive_timeout_seconds: int = _setting(
        10, "Wait for the answer to a ping before the connection is closed.", low=1, high=60
    )
    min_ping_seconds: int = _setting(
        10, "Pings of a client that come faster than this close its connection.", low=1, high=300
    )
    drain_seconds: float = _setting(
        5, "Time for streams to end when the service stops.", low=0, high=300
    )
    closing_seconds: float = _setting(
        20,
        "Time after that for everything else; what hangs longer is logged, and the process ends.",
        low=0.1,
        high=300,
    )

    def __post_init__(self) -> None:
        _refuse(list(self._problems()))

    def _problems(self) -> Iterator[str]:
        for each in fields(self):
            value = getattr(self, each.name)
            low, high = each.metadata["low"], each.metadata["high"]
            if (low is not None and value < low) or (high is not None and value > high):
                bounds = f"at least {low}" if high is None else f"from {low} to {high}"
                yield f"setting {each.name}: {value} is out of range; use {bounds}"
        for name, allowed in _WORDS.items():
            word = getattr(self, name)
            if word not in allowed:
                yield f"setting {name}: {word!r} is unknown; use {' or '.join(allowed)}"
        if bool(self.tls_certificate) != bool(self.tls_key):
            yield (
                "settings tls_certificate and tls_key: one is given without the other; give both "
                "for TLS, or neither"
            )
        if self.first_backoff_seconds > self.longest_backoff_seconds:
            yield (
                f"settings first_backoff_seconds {self.first_backoff_seconds:g} and "
                f"longest_backoff_seconds {self.longest_backoff_seconds:g}: the first wait is "
                "longer than the longest; make it at most as long"
            )
        if self.cluster_probe_seconds >= self.ready_contact_seconds:
            yield (
                f"settings cluster_probe_seconds {self.cluster_probe_seconds:g} and "
                f"ready_contact_seconds {self.ready_contact_seconds:g}: a cluster at rest would "
                "look lost between two probes; make the first one less than the second"
            )
        if not self.listen:
            yield "setting listen: no address; give at least one, such as 127.0.0.1:7443"


# The first setting of each section.
_SECTIONS: typing.Final = {
    "listen": "Where it listens",
    "ready_contact_seconds": "What it tells operators",
    "kubeconfig": "Where it reads",
    "token_lifetime_seconds": "Tokens",
    "watch_timeout_seconds": "Informers",
    "max_extensions": "Extensions",
    "max_subscriptions": "Subscriptions",
    "max_message_bytes": "gRPC",
}


_WORDS: typing.Final = {
    "identity": ("service-account", "caller"),
    "log_level": ("debug", "info", "warning", "error"),
    "log_format": ("auto", "console", "json"),
}

_PREFIX: typing.Final = "WATCHCACHE_"
# Those of the other commands, and of this one's own --config.
_OTHER_VARIABLES: typing.Final = ("ADDRESS", "CA_FILE", "CONFIG", "DEMO_ONCE")
# Kubernetes sets such ones in every pod of a namespace that has a Service named watchcache.
_OF_KUBERNETES: typing.Final = re.compile(
    r"([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)"
)


def _refuse(problems: list[str]) -> None:
    """Raise one SettingsError with all that is wrong."""
    if problems:
        raise SettingsError("; also ".join(problems))


def unknown_variables(environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the variables that look like a setting's and are none, with names that are near.

    They are no error: whoever runs the service may share a prefix with it.
    """
    known = [environment_name(each.name).removeprefix(_PREFIX) for each in fields(Settings)]
    found = {}
    for variable in sorted(environment):
        name = variable.removeprefix(_PREFIX)
        if name == variable or name in (*known, *_OTHER_VARIABLES) or name.startswith("_"):
            continue
        if not _OF_KUBERNETES.fullmatch(name):
            near = difflib.get_close_matches(name.upper(), known)
            found[variable] = [f"{_PREFIX}{each}" for each in near]
    return found


def load_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> Settings:
    """Put the settings together: flags over environment over file over defaults.

    Raises SettingsError naming the setting, where it came from, and what it may be.
    """
    return trace_settings(flags, environment, file)[0]


def trace_settings(
    flags: Mapping[str, object],
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
) -> tuple[Settings, dict[str, str]]:
    """Do as `load_settings`; say also, for each setting that is no default, where it came from."""
    environment = os.environ if environment is None else environment
    kinds = typing.get_type_hints(Settings)
    given: list[tuple[str, object, str]] = []
    problems: list[str] = []
    for name, value in _read(file).items():
        if name not in kinds:
            problems.append(f"{file}: there is no setting {name!r}; see docs/settings.md")
        else:
            given.append((name, value, str(file)))
    for name in kinds:
        variable = environment_name(name)
        if variable in environment:
            given.append((name, environment[variable], variable))
    given += [(name, value, flag_name(name)) for name, value in flags.items() if value is not None]
    values: dict[str, object] = {}
    for name, value, origin in given:
        try:
            values[name] = _convert(name, kinds[name], value, origin)
        except SettingsError as error:
            problems.append(str(error))
    origins = {name: origin for name, _, origin in given}
    if problems:
        # Values that can be read have their own rules, which are told with the others.
        try:
            Settings(**typing.cast("dict[str, typing.Any]", values))
        except SettingsError as error:
            problems.append(str(error))
    _refuse(problems)
    return Settings(**typing.cast("dict[str, typing.Any]", values)), origins


def environment_name(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"WATCHCACHE_{name.upper()}"


def flag_name(name: str) -> str:
    """Return the flag of a setting."""
    return f"--{name.replace('_', '-')}"


def _read(file: Path | None) -> dict[str, object]:
    if file is None:
        return {}
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {file}: {error.strerror}; check the path") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {file}: not TOML: {error}") from error


def _convert(name: str, kind: object, value: object, origin: str) -> object:
    wrong = SettingsError(f"{origin}: {value!r} is no value for {name}; use {_type_name(kind)}")
    if isinstance(kind, types.GenericAlias):
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if isinstance(value, list | tuple) and all(isinstance(part, str) for part in value):
            return tuple(value)
        raise wrong
    if kind is bool:
        if isinstance(value, bool):
            return value
        known = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if isinstance(value, str) and value.lower() in known:
            return known[value.lower()]
        raise wrong
    if kind is str:
        if isinstance(value, str):
            return value
        raise wrong
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise wrong
    try:
        number = float(value)
        if kind is int:
            # A text such as 1e3 is no whole number, and 3.5 is not to become 3.
            number = int(value) if isinstance(value, str) or number.is_integer() else math.nan
    except ValueError:
        raise wrong from None
    if not math.isfinite(number):
        raise wrong
    return number


def _type_name(kind: object) -> str:
    if isinstance(kind, types.GenericAlias):
        return "a list, with commas in between"
    return {bool: "true or false", str: "text", int: "a whole number", float: "a number"}[
        typing.cast("type", kind)
    ]


class SettingRow(typing.NamedTuple):
    """One setting as documentation and flags show it. `default` is as one would write it."""

    name: str
    section: str
    kind: object
    default: str
    help: str


def setting_rows() -> list[SettingRow]:
    """Return all settings in their order."""
    kinds = typing.get_type_hints(Settings)
    rows = []
    section = ""
    for each in fields(Settings):
        section = _SECTIONS.get(each.name, section)
        low, high = each.metadata["low"], each.metadata["high"]
        text = each.metadata["help"]
        if low is not None:
            text += f" {low} or more." if high is None else f" {low} to {high}."
        rows.append(
            SettingRow(each.name, section, kinds[each.name], setting_text(each.default), text)
        )
    return rows


def setting_text(value: object) -> str:
    """Write the value of a setting as it would be given."""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
