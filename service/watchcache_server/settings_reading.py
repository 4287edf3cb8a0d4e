"""How settings are given, and how they are shown.

A setting is given by a flag (`--max-extensions 10`), by an environment variable
(`WATCHCACHE_MAX_EXTENSIONS=10`) or in a TOML file (`max_extensions = 10`), in this order of
precedence.
"""

from __future__ import annotations

import difflib
import math
import os
import re
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

from watchcache_server.model.errors import SettingsError
from watchcache_server.settings import Settings

__all__ = [
    "SettingRow",
    "environment_name",
    "flag_name",
    "load_settings",
    "setting_rows",
    "setting_text",
    "trace_settings",
    "unknown_variables",
]

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

_PREFIX: typing.Final = "WATCHCACHE_"
# Those of the other commands, and of this one's own --config.
_OTHER_VARIABLES: typing.Final = ("ADDRESS", "CA_FILE", "CONFIG", "DEMO_ONCE")
# Kubernetes sets such ones in every pod of a namespace that has a Service named watchcache.
_OF_KUBERNETES: typing.Final = re.compile(
    r"([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_[A-Z]+)?)?)"
)


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
    if problems:
        raise SettingsError.of_all(problems)
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
