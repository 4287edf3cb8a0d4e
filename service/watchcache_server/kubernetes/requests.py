"""What to ask an API server: the paths, queries and Accept headers of our requests.

Pure: builds `Request` values, sends nothing. Every segment of a path is quoted, and one that could
change the path ("..", an empty name) is refused. `pretty` is never asked for. Which request comes
next, and from which resourceVersion, is decided by the reflector.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from urllib.parse import quote, urlencode

from watchcache_server.kubernetes.errors import RequestInvalidError
from watchcache_server.model.names import path_segment_problem

__all__ = [
    "ACCEPT_JSON",
    "ACCEPT_METADATA",
    "ACCEPT_METADATA_LIST",
    "Request",
    "get_request",
    "list_request",
    "resource_path",
    "watch_request",
]

ACCEPT_JSON: Final = "application/json"
# A server that cannot make the projection answers whole objects, which the decoder cuts down
# itself.
ACCEPT_METADATA_LIST: Final = (
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
)
ACCEPT_METADATA: Final = (
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
)

Match = Literal["NotOlderThan", "Exact"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One HTTP request without its credentials.

    `path` is quoted and starts with a slash. `response_seconds` bounds the wait for the headers of
    the answer, `idle_seconds` each wait for more of its body; None takes the transport's setting.
    There is no bound on the whole: a large list may take as long as bytes keep coming.
    """

    path: str
    query: str = ""
    method: Literal["GET", "POST"] = "GET"
    accept: str = ACCEPT_JSON
    body: bytes | None = None
    response_seconds: float | None = None
    idle_seconds: float | None = None

    @property
    def target(self) -> str:
        """Path and query as they go on the wire."""
        return f"{self.path}?{self.query}" if self.query else self.path


def resource_path(
    group: str,
    version: str,
    resource: str,
    *,
    namespace: str = "",
    name: str = "",
    subresource: str = "",
) -> str:
    """Return the path of a collection, an object or a subresource.

    An empty `namespace` is the cluster-wide collection (or a cluster-scoped resource).
    """
    segments = ["apis", group, version] if group else ["api", version]
    if namespace:
        segments += ["namespaces", namespace]
    segments.append(resource)
    if name:
        segments.append(name)
    if subresource:
        if not name:
            raise RequestInvalidError(f"a subresource of {resource} needs the name of an object")
        segments.append(subresource)
    return "/" + "/".join(_segment(segment) for segment in segments)


def list_request(
    path: str,
    *,
    limit: int = 0,
    continue_token: str = "",
    resource_version: str | None = None,
    match: Match | None = None,
    label_selector: str = "",
    field_selector: str = "",
    is_metadata_only: bool = False,
    idle_seconds: float | None = None,
) -> Request:
    """Return the request for a list, or for a page of one.

    `resource_version` None leaves it unset (most recent); a page after the first must leave it
    unset.
    """
    if continue_token and (resource_version is not None or match is not None):
        raise RequestInvalidError(
            "a page after the first is bound to its token: no resourceVersion"
        )
    query = _query(
        ("limit", str(limit) if limit else ""),
        ("continue", continue_token),
        ("resourceVersion", resource_version or ""),
        ("resourceVersionMatch", match or ""),
        ("labelSelector", label_selector),
        ("fieldSelector", field_selector),
    )
    accept = ACCEPT_METADATA_LIST if is_metadata_only else ACCEPT_JSON
    return Request(path=path, query=query, accept=accept, idle_seconds=idle_seconds)


def watch_request(
    path: str,
    *,
    resource_version: str | None = None,
    match: Match | None = None,
    is_sending_initial_events: bool = False,
    timeout_seconds: int,
    label_selector: str = "",
    field_selector: str = "",
    is_metadata_only: bool = False,
    response_seconds: float | None = None,
    idle_seconds: float | None = None,
) -> Request:
    """Return the request for a watch, always with bookmarks and with a time limit of our own."""
    query = _query(
        ("watch", "true"),
        ("allowWatchBookmarks", "true"),
        ("timeoutSeconds", str(timeout_seconds)),
        ("resourceVersion", resource_version or ""),
        ("resourceVersionMatch", match or ""),
        ("sendInitialEvents", "true" if is_sending_initial_events else ""),
        ("labelSelector", label_selector),
        ("fieldSelector", field_selector),
    )
    accept = ACCEPT_METADATA if is_metadata_only else ACCEPT_JSON
    return Request(
        path=path,
        query=query,
        accept=accept,
        response_seconds=response_seconds,
        idle_seconds=idle_seconds,
    )


def get_request(path: str, *, is_metadata_only: bool = False) -> Request:
    """Return the request for one object, or for anything else that one GET answers."""
    return Request(path=path, accept=ACCEPT_METADATA if is_metadata_only else ACCEPT_JSON)


def _segment(segment: str) -> str:
    problem = path_segment_problem(segment)
    if problem is not None:
        raise RequestInvalidError(f"part of a path {problem}")
    return quote(segment, safe=":")


def _query(*pairs: tuple[str, str]) -> str:
    return urlencode([(key, value) for key, value in pairs if value], quote_via=quote, safe="")
