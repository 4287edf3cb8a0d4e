"""What a source is of: its spec, and what discovery has found for it.

Which objects it could hold, and how that is told from what other sources are of.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache

import msgspec

from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec, overlap

__all__ = ["SourceScope"]


@lru_cache(maxsize=4096)
def _identity(spec: SourceSpec, version: str) -> bytes:
    # Indexes change nothing of what a reader holds.
    parts = msgspec.to_builtins(spec)
    del parts["indexes"]
    return hashlib.blake2b(msgspec.json.encode((parts, version)), digest_size=8).digest()


class SourceScope:
    """What a source is of. `served` is None until discovery has found it."""

    def __init__(self, spec: SourceSpec) -> None:
        self.spec = spec
        self.served: ServedResource | None = None
        self._names = frozenset(spec.names)

    @property
    def scope(self) -> SourceSpec:
        """The spec, but without namespaces where it leaves the scope open and the kind has none."""
        spec = self.spec
        if not spec.is_scope_open or self.served is None or self.served.is_namespaced:
            return spec
        names = tuple(sorted(("", name) for _, name in spec.names))
        return msgspec.structs.replace(spec, namespace="", names=names)

    @property
    def group(self) -> str:
        """API group."""
        return self.spec.group

    @property
    def resource(self) -> str:
        """Plural name; empty while only the kind is known."""
        return self.served.resource if self.served else self.spec.resource

    @property
    def namespace(self) -> str:
        """Namespace of the scope; empty for the whole cluster."""
        return self.scope.namespace

    @property
    def version(self) -> str:
        """API version of the bodies that are read now; each entry names its own."""
        return self.served.version if self.served else self.spec.version

    @property
    def kind(self) -> str:
        """Kind; empty while only the plural name is known."""
        return self.served.kind if self.served else self.spec.kind

    @property
    def is_secret(self) -> bool:
        """Whether the objects are Secrets, which never share a dictionary."""
        return self.group == "" and (self.resource == "secrets" or self.kind == "Secret")

    def may_share_objects(self, other: SourceScope) -> bool:
        """Tell whether both could hold the same object, as far as is known of their types."""
        return (
            self.spec.cluster == other.spec.cluster
            and self.group == other.group
            and (
                (self.resource == other.resource and self.resource != "")
                or (self.kind == other.kind and self.kind != "")
            )
            and overlap(self.scope, other.scope)
        )

    def covers(self, namespace: str, name: str) -> bool:
        """Tell whether this source would hold such an object if it existed, whatever its labels."""
        scope = self.scope
        return (
            not scope.is_selecting
            and scope.namespace in ("", namespace)
            and scope.pinned_name in ("", name)
            and self._keeps(namespace, name)
        )

    def _keeps(self, namespace: str, name: str) -> bool:
        """Tell whether the spec's names, if it has any, let an object through."""
        # A cluster-scoped object goes by the namespace that an open scope was given for it.
        return not self._names or (namespace or self.spec.namespace, name) in self._names

    @property
    def identity(self) -> bytes:
        """Eight bytes that tell what it reads, in which form, from anything else, everywhere."""
        return _identity(self.spec, self.version)
