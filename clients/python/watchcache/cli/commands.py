"""The commands themselves: their options, and the calls that they make.

Each command is a thin coroutine over the client, which `run` runs to its exit code: 0, or for
`status` the state; 1 for an error, 2 for wrong use.
"""

from __future__ import annotations

import os
from enum import StrEnum
from importlib.metadata import version
from typing import Annotated

import typer

from watchcache.cli.completing import complete_cluster, complete_projection, complete_resource
from watchcache.cli.following import follow_objects
from watchcache.cli.object_view import Output, name_of, object_row, view_for
from watchcache.cli.options import (
    Address,
    CaFile,
    Clusters,
    Consistent,
    Extension,
    Fields,
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
from watchcache.cli.running import run
from watchcache.cli.showing import (
    HEADER,
    show_changes,
    show_extension,
    show_extensions,
    warn_if_old,
    write_value,
)
from watchcache.cli.spec_file import read_content, read_spec
from watchcache.cli.status_view import as_dict, cluster_lines, exit_code
from watchcache.cli.terminal import aligned, show, warn, write
from watchcache.cli.watch_view import WatchView
from watchcache.connection import connect
from watchcache.errors import InvalidArgumentError
from watchcache.extension import Selection

__all__ = ["app"]

app = typer.Typer(
    help="Registers what to watch with a watchcache service, and looks at it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


_COMPLETE = "_WATCHCACHE_COMPLETE"


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
        typer.Option(
            "--watch",
            "-w",
            help='Resource, such as "deployments.apps"; repeatable.',
            autocompletion=complete_resource,
        ),
    ] = None,
    watch_nothing: Annotated[
        bool,
        typer.Option("--watch-nothing", help="Watch nothing; stops every informer there is."),
    ] = False,
    namespace: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Where to watch; repeatable; everywhere if none."),
    ] = None,
    namespace_selector: Annotated[
        str | None,
        typer.Option(
            metavar="SELECTOR",
            help="Watch in the namespaces with such labels, as they come and go.",
        ),
    ] = None,
    content: Annotated[
        str | None, typer.Option(help="Manifests to derive the resources from; - is the input.")
    ] = None,
    only_these_objects: Annotated[
        bool, typer.Option("--only-these-objects", help="Watch exactly the objects of --content.")
    ] = False,
    cluster: Annotated[
        list[str] | None,
        typer.Option(help="Cluster to watch on; repeatable.", autocompletion=complete_cluster),
    ] = None,
    projection: Annotated[
        str | None,
        typer.Option(
            metavar="full|metadata|without-managed-fields",
            help="What is kept of objects.",
            autocompletion=complete_projection,
        ),
    ] = None,
    index: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH", help='Field to index by, such as "spec.nodeName"; repeatable.'
        ),
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
            "namespace_selector": namespace_selector,
            "content": read_content(content) if content else None,
            "only_these_objects": only_these_objects or None,
            "clusters": cluster,
            "projection": projection,
            "index_paths": index,
            "ttl": ttl,
        }
        spec |= {name: value for name, value in given.items() if value is not None}
        if watch_nothing:
            if "watch" in spec or "content" in spec:
                raise InvalidArgumentError.of("--watch-nothing", "there is something to watch")
            spec["watch"] = []
        if "watch" not in spec and "content" not in spec:
            raise InvalidArgumentError.of(
                "--watch",
                "say what to watch, with --watch, --content or a file that names it; an extension "
                "that is there would stop all its informers (--watch-nothing does that)",
            )
        if "name" not in spec:
            raise InvalidArgumentError.of("name", "name the extension: NAMESPACE/NAME")
        async with connect(address, ca_file=ca_file) as wc:
            registered = await wc.register(spec.pop("name"), wait=wait, **spec)
            status = registered.status
            if output is Output.TABLE:
                outcome = str(registered.outcome or "").lower()
                write(f"{outcome:<12} {registered}")
            await show_extension(wc, status, output)
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

    Exit codes: 0 LIVE, 3 DEGRADED (some of it live, or stale but readable), 4 FAILED (nothing to
    read), 5 SYNCING, 1 error, 2 wrong use. For all extensions that of the one worst off.

    "-o json" is the JSON form of the contract, as protobuf has it, with numbers as numbers.
    """

    async def work() -> int:
        async with connect(address, ca_file=ca_file) as wc:
            if follow:
                await show_changes(wc, extension, output)
            if extension:
                found = await wc.extension(extension)
                await show_extension(wc, found.status, output)
                return exit_code([found.status])
            statuses = [status async for status in wc.extensions()]
        show_extensions(statuses, output)
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
            write_value([as_dict(each.raw) for each in found], output)
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
            hint = "" if "/" in key else "; if it has a namespace, write NAMESPACE/NAME"
            warn(f'error: {resource} "{key}" not found{hint}')
            return 1
        warn_if_old(item)
        if output is Output.TABLE:
            for line in aligned([HEADER, object_row(item)]):
                show(line)
        elif output is Output.NAME:
            write(name_of(item))
        else:
            write_value(item.object, output)
        return 0

    run(work())


@app.command("list")
def list_objects(
    extension: Extension,
    resources: Resources = None,
    namespace: Namespaces = None,
    cluster: Clusters = None,
    selector: Selector = "",
    field: Fields = None,
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
        selection = _selection(resources, namespace, cluster, selector, field)
        async with connect(address, ca_file=ca_file) as wc:
            found = await wc.extension(extension)
            listing = found.list(owner_uid=owner, view=view_for(output), **selection, **fresh)
            items = [item async for item in listing]
        if items:
            warn_if_old(min(items, key=lambda item: item.freshness.is_live))
        if output is Output.TABLE:
            rows = [object_row(item) for item in items]
            for line in aligned(rows if no_headers and rows else [HEADER, *rows]):
                show(line)
        elif output is Output.NAME:
            for item in items:
                write(name_of(item))
        else:
            objects = [item.object for item in items]
            write_value({"apiVersion": "v1", "kind": "List", "items": objects}, output)
        return 0

    run(work())


@app.command()
def watch(
    extension: Extension,
    resources: Resources = None,
    namespace: Namespaces = None,
    cluster: Clusters = None,
    selector: Selector = "",
    field: Fields = None,
    output: Format = Output.TABLE,
    until_synced: Annotated[
        bool,
        typer.Option(
            "--until-synced", help='End when the snapshot is complete; exit as "status" does.'
        ),
    ] = False,
    consistent: Consistent = False,
    min_resource_version: MinResourceVersion = "",
    wait: Wait = None,
    address: Address = None,
    ca_file: CaFile = None,
) -> None:
    """Follow the objects of an extension: a snapshot, then every change, until Ctrl-C.

    "-o json" writes a line for each change. + is an object that appeared, ~ changed, - was deleted,
    < is no longer in view (and may well exist). An extension that a restart of the service has lost
    is waited for.
    """

    async def work() -> int:
        fresh = consistency_of(min_resource_version, wait, is_consistent=consistent)
        selection = _selection(resources, namespace, cluster, selector, field)
        shown = WatchView(output)
        async with connect(address, ca_file=ca_file) as wc:
            await follow_objects(
                wc,
                extension,
                shown.write,
                view=view_for(output),
                options={**selection, **fresh},
                until_synced=until_synced,
            )
        return shown.exit_code

    run(work())


@app.command()
def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell to complete in.")],
) -> None:
    """Print a script with which a shell completes this command.

    bash and zsh: source <(watchcache completion bash); fish: watchcache completion fish | source.
    """
    # The variable by which the script will ask for completions asks for the script as well.
    os.environ[_COMPLETE] = f"source_{shell}"
    try:
        app(prog_name="watchcache")
    finally:
        del os.environ[_COMPLETE]


def _selection(
    resources: list[str] | None,
    namespaces: list[str] | None,
    clusters: list[str] | None,
    selector: str,
    fields: list[str] | None,
) -> Selection:
    values: dict[str, list[str]] = {}
    for text in fields or ():
        path, equals, value = text.partition("=")
        if not (path and equals):
            raise InvalidArgumentError.of(
                "--field", f"{text!r} is no field with a value; write spec.nodeName=node-1"
            )
        values.setdefault(path, []).append(value)
    return {
        "resources": resources or (),
        "namespaces": namespaces or (),
        "clusters": clusters or (),
        "label_selector": selector,
        "fields": values,
    }
