"""What a request asks for, read from its method, path and query: `RequestInfo`.

The rules are those of kube-apiserver's request info: verbs, scopes, subresources, and the name that
a `metadata.name` field selector lends to a list, watch or deletecollection. Authorization, faults
and routing all work from this one reading.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RequestInfo"]

_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_NAME_SELECTOR = re.compile(r"(?:^|,)metadata\.name==?([^,=!\\]+)(?:,|$)")
_NAMESPACE_SUBRESOURCES = {"finalize", "status"}


@dataclass(frozen=True, slots=True)
class RequestInfo:
    """One request: a verb on a resource, or a method on any other path.

    `name` is the one that rights are checked for, `path_name` the one that the path holds.
    """

    path: str
    verb: str
    is_resource: bool = False
    group: str = ""
    version: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path_name: str = ""

    @classmethod
    def parse(cls, method: str, path: str, query: Mapping[str, str]) -> RequestInfo:
        """Read a request."""
        parts = [part for part in path.split("/") if part]
        other = cls(path, method.lower())
        if len(parts) < 3 or parts[0] not in {"api", "apis"}:
            return other
        if parts[0] == "api":
            group, version, rest = "", parts[1], parts[2:]
        else:
            group, version, rest = parts[1], parts[2], parts[3:]
        if not rest:
            return other
        is_watch = rest[0] == "watch" and len(rest) > 1
        if is_watch:
            rest = rest[1:]
        namespace = ""
        if rest[0] == "namespaces" and len(rest) > 1:
            namespace = rest[1]
            if len(rest) > 2 and rest[2] not in _NAMESPACE_SUBRESOURCES:
                rest = rest[2:]
        name = rest[1] if len(rest) > 1 else ""
        verb = _VERBS.get(method, "get")
        if method in {"GET", "HEAD"} and not name:
            verb = "list"
        if verb in {"list", "get"} and (is_watch or _is_true(query.get("watch"))):
            verb = "watch" if is_watch or not name else verb
        if verb == "delete" and not name:
            verb = "deletecollection"
        if not name and verb in {"list", "watch", "deletecollection"}:
            found = _NAME_SELECTOR.search(query.get("fieldSelector", ""))
            name_for_rights = found.group(1) if found else ""
        else:
            name_for_rights = name
        return cls(
            path,
            verb,
            True,
            group,
            version,
            rest[0],
            "/".join(rest[2:]),
            namespace,
            name_for_rights,
            name,
        )


def _is_true(text: str | None) -> bool:
    return text is not None and text.lower() not in {"", "0", "false"}
