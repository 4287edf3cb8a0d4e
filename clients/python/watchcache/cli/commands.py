"""The commands themselves: their options, and the calls that they make.

Each command is a thin coroutine over the client. `run` is the one place where they run, `finish`
where an error becomes a text and an exit code: 1 for an error, 2 for wrong use (a value that breaks
a rule is one, whoever finds out), and for `status` the state.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Coroutine, Sequence
from enum import StrEnum
from importlib.metadata import version
from types import FrameType
from typing import Annotated, Any

import typer

from watchcache.cli.object_view import (
    Output,
    name_of,
    object_row,
    view_for,
    yaml_text,
)
from watchcache.cli.options import (
    Address,
    CaFile,
    Clusters,
    Consistent,
    Extension,
    Format,
    MinResourceVersion,
    Namespaces,
    OptionalExtension,
    ResourceName,
    Resources,
    Selector,
    Wait,
    consistency_of,
)
from watchcache.cli.spec_file import SpecFileError, read_content, read_spec
from watchcache.cli.status_view import (
    as_dict,
    cluster_lines,
    exit_code,
    extension_lines,
    overview_lines,
)
from watchcache.cli.terminal import age_text, aligned, clear, show, warn, write
from watchcache.cli.watch_view import WatchView
from watchcache.connection import Connection, connect
from watchcache.errors import ConnectionSettingsError, InvalidArgumentError, WatchCacheError
from watchcache.extension import Selection
from watchcache.keys import parse_extension_name
from watchcache.messages import Synced
from watchcache.objects import Item
from watchcache.status import ExtensionRemoved, ExtensionsSynced, ExtensionStatus

__all__ = ["app"]

app = typer.Typer(
    help="Registers what to watch with a watchcache service, and looks at it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_COMPLETE = "_WATCHCACHE_COMPLETE"
_WRONG_USE = (ConnectionSettingsError, InvalidArgumentError, SpecFileError)


class Shell(StrEnum):
    """The shells that can complete the command."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"
    PWSH = "pwsh"


def _print_version(is_asked: bool) -> None:
    if is_asked:
        write(f"watchcache {version('watchcache')}")
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


def run(work: Coroutine[Any, Any, int]) -> None:
    """Run a command to its end and leave with its exit code."""
    try:
        code = asyncio.run(_stoppable(work))
    except KeyboardInterrupt:
        code = 130
    raise typer.Exit(code)


async def finish(work: Coroutine[Any, Any, int]) -> int:
    """Do the work of a command; return its exit code, after telling of an error."""
    try:
        return await work
    except WatchCacheError as error:
        _report(error)
        return 2 if isinstance(error, _WRONG_USE) else 1


async def _stoppable(work: Coroutine[Any, Any, int]) -> int:
    """Finish the work; the first Ctrl-C cancels it, a second one ends the process at once.

    Python would raise KeyboardInterrupt wherever the second one finds the process, which is most
    often in the interpreter's own shutdown, and that writes a traceback.
    """
    cancel = signal.getsignal(signal.SIGINT)
    if not callable(cancel):  # a shell has a job in the background ignore it
        return await finish(work)

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        cancel(number, frame)

    signal.signal(signal.SIGINT, stop)
    return await finish(work)


@app.command()
def register(
    extension: Annotated[
        str | None,
        typer.Argument(metavar="[NAMESPACE/NAME]", help="The extension, unless the file names it."),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--filename", "-f", help="Spec in YAML or JSON; - is the input."),
    ] = None,
    service_account: Annotated[
        str | None,
        typer.Option("--service-account", "-s", help="ServiceAccount whose rights are used."),
    ] = None,
    watch: Annotated[
        list[str] | None,
        typer.Option("--watch", "-w", help='Resource, such as "deployments.apps"; repeatable.'),
    ] = None,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Where to watch; repeatable; everywhere if none."),
    ] = None,
    content: Annotated[
        str | None, typer.Option(help="Manifests to derive the resources from; - is the input.")
    ] = None,
    only_these_objects: Annotated[
        bool, typer.Option("--only-these-objects", help="Watch exactly the objects of --content.")
    ] = False,
    cluster: Annotated[
        list[str] | None, typer.Option(help="Cluster to watch on; repeatable.")
    ] = None,
    projection: Annotated[
        str | None, typer.Option(help="Kept of objects: full, without-managed-fields, metadata.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(help='Freed when unused so long, such as "10m"; never if none.')
    ] = None,
    wait: Annotated[
        str | None,
        typer.Option(help='Wait so long until all is live or has failed; exit as "status" does.'),
    ] = None,
    output: Format = Output.TABLE,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """Register an extension, or change it to this spec."""

    async def work() -> int:
        spec = read_spec(file) if file else {}
        given = {
            "name": extension,
            "service_account": service_account,
            "watch": watch,
            "namespaces": namespace,
            "content": read_content(content) if content else None,
            "only_these_objects": only_these_objects or None,
            "clusters": cluster,
            "projection": projection,
            "ttl": ttl,
        }
        spec |= {name: value for name, value in given.items() if value is not None}
        if "name" not in spec:
            raise InvalidArgumentError.of("name", "name the extension: NAMESPACE/NAME")
        async with connect(address, ca_file=ca_file) as wc:
            registered = await wc.register(spec.pop("name"), wait=wait, **spec)
            status = registered.status
            if output is Output.TABLE:
                outcome = str(registered.outcome or "").lower()
                write(f"{outcome:<12} {registered}")
            await _show_extension(wc, status, output)
        return exit_code([status]) if wait else 0

    run(work())


@app.command()
def deregister(extension: Extension, address: Address = None, ca_file: CaFile = None) -> None:
    """Free an extension: its informers, objects, tokens and connections."""

    async def work() -> int:
        async with connect(address, ca_file=ca_file) as wc:
            existed = await wc.deregister(extension)
        write(f"{'deregistered' if existed else 'not registered'} {extension}")
        return 0

    run(work())


@app.command()
def status(
    extension: OptionalExtension = None,
    follow: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again at each change, until Ctrl-C.")
    ] = False,
    output: Format = Output.TABLE,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """Show how an extension is doing and what it is missing.

    Exit codes: 0 all live, 3 some live, 4 none live, 5 still syncing, 1 error, 2 wrong use. For all
    extensions it is that of the one that is worst off.
    """

    async def work() -> int:
        async with connect(address, ca_file=ca_file) as wc:
            if follow:
                await _follow(wc, extension, output)
            if extension:
                found = await wc.extension(extension)
                await _show_extension(wc, found.status, output)
                return exit_code([found.status])
            statuses = [status async for status in wc.extensions()]
        _show_extensions(statuses, output)
        return exit_code(statuses)

    run(work())


@app.command()
def clusters(
    output: Format = Output.TABLE, address: Address = None, ca_file: CaFile = None
) -> None:
    """List the clusters that extensions can name."""

    async def work() -> int:
        async with connect(address, ca_file=ca_file) as wc:
            found = await wc.clusters()
        if output is Output.TABLE:
            for line in cluster_lines(found):
                show(line)
        elif output is Output.NAME:
            for each in found:
                write(each.name)
        else:
            _write_value([as_dict(each.raw) for each in found], output)
        return 0

    run(work())


@app.command()
def get(
    extension: Extension,
    resource: ResourceName,
    key: Annotated[
        str,
        typer.Argument(
            metavar="KEY", help="NAMESPACE/NAME, NAME if cluster-scoped, CLUSTER/NAMESPACE/NAME."
        ),
    ],
    output: Format = Output.TABLE,
    consistent: Consistent = False,
    min_resource_version: MinResourceVersion = "",
    wait: Wait = None,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """Read one object from the cache of an extension."""

    async def work() -> int:
        fresh = consistency_of(min_resource_version, wait, is_consistent=consistent)
        async with connect(address, ca_file=ca_file) as wc:
            found = await wc.extension(extension)
            item = await found.get(resource, key, view=view_for(output), **fresh)
        if item is None:
            warn(f"error: there is no {resource} {key}; a namespaced one is NAMESPACE/NAME")
            return 1
        _warn_if_old(item)
        if output is Output.TABLE:
            for line in aligned([_HEADER, object_row(item)]):
                show(line)
        elif output is Output.NAME:
            write(name_of(item))
        else:
            _write_value(item.object, output)
        return 0

    run(work())


@app.command("list")
def list_objects(
    extension: Extension,
    resources: Resources = None,
    namespace: Namespaces = None,
    cluster: Clusters = None,
    selector: Selector = "",
    owner: Annotated[str, typer.Option(help="Only objects owned by this uid.")] = "",
    output: Format = Output.TABLE,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Leave out the header.")] = False,
    consistent: Consistent = False,
    min_resource_version: MinResourceVersion = "",
    wait: Wait = None,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """List objects in the cache of an extension."""

    async def work() -> int:
        fresh = consistency_of(min_resource_version, wait, is_consistent=consistent)
        selection = _selection(resources, namespace, cluster, selector)
        async with connect(address, ca_file=ca_file) as wc:
            found = await wc.extension(extension)
            listing = found.list(owner_uid=owner, view=view_for(output), **selection, **fresh)
            items = [item async for item in listing]
        if items:
            _warn_if_old(min(items, key=lambda item: item.freshness.is_live))
        if output is Output.TABLE:
            rows = [object_row(item) for item in items]
            for line in aligned(rows if no_headers and rows else [_HEADER, *rows]):
                show(line)
        elif output is Output.NAME:
            for item in items:
                write(name_of(item))
        else:
            objects = [item.object for item in items]
            _write_value({"apiVersion": "v1", "kind": "List", "items": objects}, output)
        return 0

    run(work())


@app.command()
def watch(
    extension: Extension,
    resources: Resources = None,
    namespace: Namespaces = None,
    cluster: Clusters = None,
    selector: Selector = "",
    output: Format = Output.TABLE,
    until_synced: Annotated[
        bool, typer.Option("--until-synced", help="End when the snapshot is complete.")
    ] = False,
    consistent: Consistent = False,
    min_resource_version: MinResourceVersion = "",
    wait: Wait = None,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """Follow the objects of an extension: a snapshot, then every change, until Ctrl-C.

    "-o json" writes a line for each change. + is an object that appeared, ~ changed, - was deleted,
    < is no longer in view (and may well exist).
    """

    async def work() -> int:
        fresh = consistency_of(min_resource_version, wait, is_consistent=consistent)
        selection = _selection(resources, namespace, cluster, selector)
        write_message = WatchView(output).write
        async with connect(address, ca_file=ca_file) as wc:
            found = await wc.extension(extension)
            async with found.watch(view=view_for(output), **selection, **fresh) as messages:
                async for message in messages:
                    write_message(message)
                    if until_synced and isinstance(message, Synced):
                        return 0
        return 0

    run(work())


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")],
) -> None:
    """Print a script with which a shell completes this command; source it."""
    # The variable by which the script will ask for completions asks for the script as well.
    os.environ[_COMPLETE] = f"source_{shell}"
    try:
        app(prog_name="watchcache")
    finally:
        del os.environ[_COMPLETE]


_HEADER = ("RESOURCE", "CLUSTER", "NAMESPACE", "NAME", "VERSION", "AGE")


async def _follow(wc: Connection, extension: str | None, output: Output) -> None:
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
                await _show_extension(wc, status, output)
            if not extension:
                _show_extensions([known[key] for key in sorted(known)], output)


def _show_extensions(statuses: Sequence[ExtensionStatus], output: Output) -> None:
    if output is Output.TABLE:
        for line in overview_lines(statuses):
            show(line)
    elif output is Output.NAME:
        for each in statuses:
            write(f"{each.namespace}/{each.name}")
    else:
        _write_value([as_dict(each.raw) for each in statuses], output)


async def _show_extension(wc: Connection, status: ExtensionStatus, output: Output) -> None:
    if output is Output.NAME:
        write(f"{status.namespace}/{status.name}")
    elif output is Output.TABLE:
        default = next((each.name for each in await wc.clusters() if each.is_default), "")
        for line in extension_lines(status, default_cluster=default):
            show(line)
    else:
        _write_value(as_dict(status.raw), output)


def _write_value(value: object, output: Output) -> None:
    write(yaml_text(value) if output is Output.YAML else json.dumps(value, indent=2))


def _selection(
    resources: list[str] | None,
    namespaces: list[str] | None,
    clusters: list[str] | None,
    selector: str,
) -> Selection:
    return {
        "resources": resources or (),
        "namespaces": namespaces or (),
        "clusters": clusters or (),
        "label_selector": selector,
    }


def _warn_if_old(item: Item[Any]) -> None:
    if not item.freshness.is_live:
        contact = item.freshness.last_contact_time
        told = f"last in contact {age_text(contact)} ago" if contact else "never in contact"
        warn(f"warning: this may be old: not every informer behind it is live, {told}")


def _report(error: WatchCacheError) -> None:
    if not error.field_violations:
        warn(f"error: {error}")
        return
    warn("error: the request breaks a rule:")
    for violation in error.field_violations:
        warn(f"  {violation.field}: {violation.description}")
