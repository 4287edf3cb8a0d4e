"""What an operator writes to name a cluster, parsed: [NAME=]PATH[#CONTEXT].

~/.kube/config                      the current context, under its own name
~/.kube/config#staging              another context
hub=/etc/watchcache/kubeconfig#in   under the name hub
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from watchcache_server.clusters.errors import SourceMalformedError
from watchcache_server.model.names import dns_subdomain_problem

__all__ = ["KubeconfigSource", "parse_source"]


@dataclass(frozen=True, slots=True)
class KubeconfigSource:
    """One context of one kubeconfig. An empty context is the current one, an empty name its own."""

    path: Path
    context: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.path}#{self.context}" if self.context else str(self.path)


def parse_source(text: str) -> KubeconfigSource:
    """Parse [NAME=]PATH[#CONTEXT]. Raises SourceMalformedError."""
    name, has_name, rest = text.partition("=")
    # An equals sign inside a path or a context is no name's: names have neither "/" nor "#".
    if not has_name or "/" in name or "#" in name or name.startswith(("~", ".")):
        name, rest = "", text
    elif (problem := dns_subdomain_problem(name)) is not None:
        raise SourceMalformedError(f"cluster {text!r}: the name {problem}; write NAME=PATH#CONTEXT")
    path, has_context, context = rest.partition("#")
    if not path or (has_context and not context):
        raise SourceMalformedError(
            f"cluster {text!r}: write [NAME=]PATH[#CONTEXT], with the path of a kubeconfig"
        )
    return KubeconfigSource(Path(path).expanduser(), context, name)
