"""A resource as an API server serves it."""

from __future__ import annotations

import msgspec

__all__ = ["ServedResource"]


class ServedResource(msgspec.Struct, frozen=True):
    """One resource in one version, as discovery describes it; `verbs` are those it supports."""

    group: str
    version: str
    resource: str
    kind: str
    is_namespaced: bool
    verbs: frozenset[str]

    @property
    def api_version(self) -> str:
        """The value of apiVersion in its objects."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def name(self) -> str:
        """Plural name with the group, as kubectl writes it."""
        return f"{self.resource}.{self.group}" if self.group else self.resource
