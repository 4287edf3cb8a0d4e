"""The command `watchcache-server`: serve, ask a service how it is, and show the settings.

Exit codes: 0 it went well, 1 the service asked is not well, 2 it was called or set up wrongly; the
reason is one line on standard error.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import sys
import types
from collections.abc import Callable, Iterator
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.markup import escape

from watchcache_server.clusters.errors import ClusterConfigError, UnknownClusterError
from watchcache_server.model.errors import SettingsError
from watchcache_server.settings_reading import (
    SettingRow,
    environment_name,
    flag_name,
    load_settings,
    setting_rows,
    setting_text,
    trace_settings,
)

__all__ = ["app", "main", "settings_page"]

_FAILED: Final = 1
_WRONG: Final = 2
_METAVARS: Final[dict[object, str]] = {int: "INTEGER", float: "NUMBER"}

app = typer.Typer(
    name="watchcache-server",
    help="Keeps Kubernetes objects warm for controllers, and serves them over gRPC.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="WATCHCACHE_CONFIG",
        help="Settings as TOML. Flags and the environment go before it.",
    ),
]


def _with_setting_flags(
    command: Callable[[Path | None, dict[str, Any]], None],
) -> Callable[..., None]:
    """Give a command one flag for each setting, beside --config."""
    parameters = [_parameter("config", ConfigFile)]
    parameters += [_parameter(row.name, _flag_type(row)) for row in setting_rows()]

    def called(**given: Any) -> None:
        config = given.pop("config")
        # A list that was not given is empty.
        command(config, {name: None if value == [] else value for name, value in given.items()})

    called.__doc__ = command.__doc__
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _parameter(name: str, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _flag_type(row: SettingRow) -> Any:
    """Return what typer makes a flag of. Values stay text: `load_settings` reads them."""
    flag = flag_name(row.name)
    kind: Any = str
    text, metavar = row.help, _METAVARS.get(row.kind, "TEXT")
    if row.kind is bool:
        flag, metavar, kind = f"{flag}/--no-{flag.removeprefix('--')}", "", bool
    elif isinstance(row.kind, types.GenericAlias):
        text, kind = f"{text} May be given several times.", list[str]
    default = f", default: {row.default}" if row.default else ""
    option = typer.Option(
        flag,
        # Typer would read the variable by rules of its own if it were told of it.
        help=escape(f"{text} [env: {environment_name(row.name)}{default}]"),
        metavar=metavar,
        rich_help_panel=row.section,
    )
    return Annotated[kind | None, option]


@contextlib.contextmanager
def _one_line_errors() -> Iterator[None]:
    """Turn what is wrong with the set-up into one line and exit code 2."""
    try:
        yield
    except (SettingsError, ClusterConfigError, UnknownClusterError) as error:
        _complain(str(error))
        raise typer.Exit(_WRONG) from None


def _complain(text: str) -> None:
    sys.stderr.write(f"error: {' '.join(text.split())}\n")


@app.command(name="serve")
@_with_setting_flags
def serve_command(config: Path | None, flags: dict[str, Any]) -> None:
    """Serve until Ctrl-C or SIGTERM, then drain; a second one ends it at once."""
    with _one_line_errors():
        settings = load_settings(flags, os.environ, config)
        # What gRPC's core writes by itself is no line of our log; what matters of it we say. It
        # reads this when it is loaded.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        # Everything else that the service needs takes long to load, and the other commands do not
        # need it: a health check runs every few seconds.
        from watchcache_server.process import run  # noqa: PLC0415

        run(settings)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        version()
        raise typer.Exit


@app.callback()
def main_options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version."
        ),
    ] = False,
) -> None:
    """Take what comes before the name of a command."""


@app.command()
def version() -> None:
    """Print the version."""
    print(f"watchcache-server {version_of('watchcache-server')}")


@app.command()
def health(
    address: Annotated[
        str | None,
        typer.Option(help="Where to ask; by default the first address that the settings name."),
    ] = None,
    config: ConfigFile = None,
    timeout_seconds: Annotated[
        float, typer.Option(min=0.1, help="How long to wait for the answer.")
    ] = 3.0,
) -> None:
    """Ask the running service whether it serves: exit code 0 if so, else 1."""
    with _one_line_errors():
        settings = load_settings({}, os.environ, config)
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        from watchcache_server.serving.probe import ask_health  # noqa: PLC0415

        problem = asyncio.run(
            ask_health(
                address or settings.listen[0],
                certificate=settings.tls_certificate,
                seconds=timeout_seconds,
            )
        )
    if problem:
        _complain(problem)
        raise typer.Exit(_FAILED)
    print("serving")


@app.command(name="settings")
def settings_command(
    config: ConfigFile = None,
    markdown: Annotated[
        bool, typer.Option("--markdown", help="Print the page docs/settings.md instead.")
    ] = False,
) -> None:
    """Show every setting with the value in effect and where it comes from."""
    if markdown:
        sys.stdout.write(settings_page())
        return
    with _one_line_errors():
        settings, origins = trace_settings({}, os.environ, config)
    lines = [("SETTING", "VALUE", "FROM")]
    for row in setting_rows():
        value = setting_text(getattr(settings, row.name))
        lines.append((row.name, value or "-", origins.get(row.name) or "default"))
    # Nothing is cut off: a value is there to be read, or to be taken by a script.
    names, values = (max(len(line[column]) for line in lines) for column in (0, 1))
    for name, value, origin in lines:
        print(f"{name:<{names}}  {value:<{values}}  {origin}")


def settings_page() -> str:
    """Return docs/settings.md."""
    lines = [
        "# Settings",
        "",
        "Made by `watchcache-server settings --markdown`; do not edit.",
        "",
        "A setting is given by a flag of `watchcache-server serve` (`--max-extensions 10`), by an",
        "environment variable (`WATCHCACHE_MAX_EXTENSIONS=10`) or in the TOML file that `--config`",
        "or `WATCHCACHE_CONFIG` names (`max_extensions = 10`). A flag goes before the environment,",
        "and that before the file. Sizes are in bytes and times in seconds. A list is given by",
        "repeating the flag, with commas in the environment, and as a list in the file.",
        "`watchcache-server settings` shows what is in effect, and why. A key of the file that is",
        "no setting is refused; a variable `WATCHCACHE_...` that is none is warned of in the log.",
    ]
    section = ""
    for row in setting_rows():
        if row.section != section:
            section = row.section
            lines += ["", f"## {section}", "", "| setting | default | meaning |", "|---|---|---|"]
        default = f"`{row.default}`" if row.default else ""
        lines.append(f"| `{row.name}` | {default} | {row.help.replace('|', chr(92) + '|')} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the command."""
    app(prog_name="watchcache-server")


if __name__ == "__main__":
    main()
