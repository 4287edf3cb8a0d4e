"""The command `watchcache-devcluster`: run a cluster, and give a running one trouble.

Exit codes: 0 it went well, 1 it did not, 2 it was called or set up wrongly. The reason is on
standard error.
"""

from __future__ import annotations

import asyncio
import json
import signal
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_args

import typer
import yaml
from rich.console import Console
from rich.table import Table

from watchcache_devcluster.cluster import DevCluster
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.faults import Fault, FaultKind
from watchcache_devcluster.remote import Remote, RemoteError, find_kubeconfig

__all__ = ["app", "main"]

app = typer.Typer(
    name="watchcache-devcluster",
    help="A small Kubernetes API server for demos and tests, with trouble on demand.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
_out = Console(highlight=False, soft_wrap=True)
_err = Console(stderr=True, highlight=False, soft_wrap=True)
_ACTIONS = ("compact", "expire-tokens", "restart")
_VIEWS = ("list", "clear", "remove")
_NAMES = (*get_args(FaultKind), *_ACTIONS)


_FAILED = 1
_WRONG = 2


def _fail(message: str, code: int = _FAILED) -> NoReturn:
    _err.print(f"error: {message}", style="red", markup=False)
    raise typer.Exit(code)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"watchcache-devcluster {version('watchcache-devcluster')}")
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
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free port.")] = 0,
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    directory: Annotated[Path, typer.Option("--dir", help="Where to write the kubeconfig.")] = Path(
        ".devcluster"
    ),
    load: Annotated[
        list[Path] | None,
        typer.Option(help="Manifests (YAML or JSON) to create at the start; repeatable."),
    ] = None,
    bookmark_seconds: Annotated[
        float, typer.Option(min=0.1, help="How often a quiet watch gets a bookmark.")
    ] = 60.0,
) -> None:
    """Run a cluster until Ctrl-C; nothing is kept."""
    texts = []
    for path in load or []:
        try:
            texts.append((path, path.read_text()))
        except (OSError, UnicodeDecodeError) as error:
            _fail(
                f"cannot read {path}: {error.strerror if isinstance(error, OSError) else error}",
                _WRONG,
            )
    cluster = DevCluster(port=port, host=host, bookmark_seconds=bookmark_seconds)
    with suppress(KeyboardInterrupt):
        asyncio.run(_serve(cluster, directory, texts))


async def _serve(cluster: DevCluster, directory: Path, texts: list[tuple[Path, str]]) -> None:
    try:
        await cluster.__aenter__()
    except OSError as error:
        _fail(
            f"cannot listen on {cluster.host} port {cluster.port}: {error.strerror or error};"
            " choose another with --port, or 0 for a free one",
            _WRONG,
        )
    kubeconfig = None
    try:
        for path, text in texts:
            try:
                created = await cluster.load(text)
            except (ApiError, TypeError, ValueError, yaml.YAMLError) as error:
                _fail(f"{path}: {error}", _WRONG)
            await cluster.settle()
            count = f"{len(created)} object{'' if len(created) == 1 else 's'}"
            _out.print(f"loaded       {count} from {path}", markup=False)
        kubeconfig = cluster.write_kubeconfig(directory / "kubeconfig")
        _out.print(f"dev cluster  {cluster.url} (simulated)", markup=False)
        _out.print(f"kubeconfig   {kubeconfig}", markup=False)
        _out.print(f"Try: export KUBECONFIG={kubeconfig.resolve()}", markup=False)
        _out.print("     kubectl get namespaces", markup=False)
        _out.print("     watchcache-devcluster fault reset   # cuts all streams", markup=False)
        _out.print("Ctrl-C removes everything.", markup=False)
        stopped = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stopped.set)
        await stopped.wait()
    finally:
        if kubeconfig is not None:
            kubeconfig.unlink(missing_ok=True)
        await cluster.__aexit__(None, None, None)


@app.command(
    epilog="Names: " + ", ".join((*_NAMES, *_VIEWS)) + ". An HTTP code, such as"
    " 429 or 503, stands for `status --code`.",
)
def fault(
    name: Annotated[str, typer.Argument(help="What to do; see below.")],
    resource: Annotated[str, typer.Option(help="Only for this resource.")] = "",
    verb: Annotated[str, typer.Option(help="Only for this verb: list, watch, get...")] = "",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="Only there.")] = "",
    percent: Annotated[float, typer.Option(help="Of the requests that match.")] = 100.0,
    times: Annotated[int | None, typer.Option(help="At most so often.")] = None,
    lasting: Annotated[bool, typer.Option(help="For requests to come as well.")] = False,
    code: Annotated[int | None, typer.Option(help="For error and status.")] = None,
    reason: Annotated[str, typer.Option(help="For error and status.")] = "",
    message: Annotated[str, typer.Option(help="For error and status.")] = "",
    retry_after: Annotated[int | None, typer.Option(help="Seconds, for error and status.")] = None,
    seconds: Annotated[
        float, typer.Option(min=0, help="For delay, and the pause of restart.")
    ] = 0.0,
    after_events: Annotated[int, typer.Option(help="Let so many events pass first.")] = 0,
    clean: Annotated[bool, typer.Option(help="For cut: end the body properly.")] = False,
    serviceaccount: Annotated[str, typer.Option(help="NAMESPACE/NAME, for expire-tokens.")] = "",
    number: Annotated[int, typer.Option(help="Of the fault, for remove.")] = 0,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(help="Of the dev cluster; else $KUBECONFIG; else .demo or .devcluster here."),
    ] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="table or json.")] = "table",
) -> None:
    """Give a running cluster trouble, or list and clear what is in force."""
    if output not in {"json", "table"}:
        raise typer.BadParameter("choose json or table", param_hint="--output")
    wish: dict[str, Any] = {
        "resource": resource,
        "verb": verb,
        "namespace": namespace,
        "percent": percent,
        "times": times,
        "lasting": lasting,
        "reason": reason,
        "message": message,
        "retry_after_seconds": retry_after,
        "after_events": after_events,
        "clean": clean,
    }
    if name.isdigit():
        name, code = "status", int(name)
    if code is not None:
        wish["code"] = code
    if seconds:
        wish["seconds"] = seconds
    _require_meaning(name, wish, serviceaccount, number)
    try:
        remote = Remote.from_kubeconfig(find_kubeconfig(kubeconfig))
        answer = _carry_out(remote, name, wish, serviceaccount, number)
    except RemoteError as error:
        _fail(str(error))
    if output == "json":
        print(json.dumps(answer))
    elif name == "list":
        _out.print(_table(answer["faults"]))
    else:
        _out.print(_sentence(name, answer), markup=False)


def _require_meaning(name: str, wish: dict[str, Any], serviceaccount: str, number: int) -> None:
    """Refuse what means nothing, whether or not a cluster runs that could refuse it."""
    if name == "remove" and number < 1:
        raise typer.BadParameter("say which; `list` shows the numbers", param_hint="--number")
    if name == "expire-tokens" and not all(serviceaccount.partition("/")):
        raise typer.BadParameter("write NAMESPACE/NAME", param_hint="--serviceaccount")
    if name in (*_ACTIONS, *_VIEWS):
        return
    if name not in get_args(FaultKind):
        known = ", ".join((*_NAMES, *_VIEWS))
        raise typer.BadParameter(f'there is no fault "{name}"; choose one of: {known}')
    try:
        Fault(**{"kind": name, **wish})
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _carry_out(
    remote: Remote, name: str, wish: dict[str, Any], serviceaccount: str, number: int
) -> Any:
    match name:
        case "list":
            return remote.request("GET", "faults")
        case "clear":
            return remote.request("DELETE", "faults")
        case "remove":
            return remote.request("DELETE", f"faults/{number}")
        case "compact":
            return remote.request("POST", "compact")
        case "restart":
            return remote.request("POST", "restart", {"downtime_seconds": wish.get("seconds", 0.0)})
        case "expire-tokens":
            namespace, _, account = serviceaccount.partition("/")
            body = {"namespace": namespace, "serviceaccount": account}
            return remote.request("POST", "expire-tokens", body)
    return remote.request("POST", "faults", {"kind": name, **wish})


def _table(faults: list[dict[str, Any]]) -> Table | str:
    if not faults:
        return "no faults in force"
    table = Table("NUMBER", "KIND", "FOR", "TIMES", "STRUCK", box=None, pad_edge=False)
    for entry in faults:
        target = " ".join(
            str(entry[key]) for key in ("verb", "resource", "namespace") if key in entry
        )
        if entry["percent"] < 100:
            target += f" {entry['percent']:g}%"
        times = str(entry.get("times", "-"))
        cells = (str(entry["number"]), entry["kind"], target.strip() or "everything", times)
        table.add_row(*cells, str(entry["struck"]))
    return table


def _sentence(name: str, answer: dict[str, Any]) -> str:
    match name:
        case "clear":
            count = answer["cleared"]
            return f"cleared {count} fault{'' if count == 1 else 's'}"
        case "remove":
            return f"removed fault {answer['removed']}"
        case "compact":
            return f"compacted: versions before {answer['compacted']} are gone"
        case "restart":
            return "restarting"
        case "expire-tokens":
            return f"expired the tokens of {answer['expired']}"
    stays = "in force until cleared or used up" if answer["stays"] else "struck running streams"
    return f"fault {answer['number']} {name}: {stays}"


def main() -> None:
    """Run the command."""
    app()


if __name__ == "__main__":
    main()
