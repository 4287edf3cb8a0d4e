"""The arguments and options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

from watchcache.cli.completing import complete_cluster, complete_extension, complete_resource
from watchcache.cli.object_view import Output
from watchcache.consistency import Consistency as ConsistencyOptions

__all__ = [
    "Address",
    "CaFile",
    "Clusters",
    "Consistent",
    "Extension",
    "Fields",
    "Format",
    "MinResourceVersion",
    "Namespaces",
    "OptionalExtension",
    "ResourceName",
    "Resources",
    "Selector",
    "Wait",
    "consistency_of",
]

Extension = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE/NAME", help="The extension.", autocompletion=complete_extension
    ),
]
OptionalExtension = Annotated[
    str | None,
    typer.Argument(
        metavar="[NAMESPACE/NAME]",
        help="The extension; all if left out.",
        autocompletion=complete_extension,
    ),
]
ResourceName = Annotated[
    str,
    typer.Argument(
        metavar="RESOURCE",
        help='Plural and group, such as "deployments.apps".',
        autocompletion=complete_resource,
    ),
]
Resources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RESOURCE]...",
        help="Only these resources; all if left out.",
        autocompletion=complete_resource,
    ),
]
Format = Annotated[Output, typer.Option("--output", "-o", help="Format of the output.")]
Namespaces = Annotated[
    list[str] | None, typer.Option("--namespace", "-n", help="Only this namespace; repeatable.")
]
Clusters = Annotated[
    list[str] | None,
    typer.Option(
        "--cluster", help="Only this cluster; repeatable.", autocompletion=complete_cluster
    ),
]
Selector = Annotated[str, typer.Option("--selector", "-l", help="Label selector, as for kubectl.")]
Fields = Annotated[
    list[str] | None,
    typer.Option(
        "--field",
        metavar="PATH=VALUE",
        help="Only with this value at a field that is indexed; repeatable.",
    ),
]
Consistent = Annotated[
    bool, typer.Option("--consistent", help="As fresh as the API server is now.")
]
MinResourceVersion = Annotated[
    str,
    typer.Option(
        "--min-resource-version",
        metavar="VERSION",
        help="Not older than this metadata.resourceVersion of the same resource.",
    ),
]
Wait = Annotated[
    str | None,
    typer.Option("--wait", help='How long to wait for that; "5s" if not given.'),
]
Address = Annotated[
    str | None,
    typer.Option(
        envvar="WATCHCACHE_ADDRESS",
        help="Where the service is: host:port or unix:/path.",
        show_default="127.0.0.1:7443",
    ),
]
CaFile = Annotated[
    str | None,
    typer.Option(envvar="WATCHCACHE_CA_FILE", help="Certificates to check the service's with."),
]


def consistency_of(version: str, wait: str | None, *, is_consistent: bool) -> ConsistencyOptions:
    """Return how fresh an answer has to be."""
    asked: ConsistencyOptions = {"min_resource_version": version, "consistent": is_consistent}
    if wait is not None:
        asked["wait"] = wait
    return asked
