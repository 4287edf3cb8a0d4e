"""What asking for a resource by name can find: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from watchcache_server.kubernetes.errors import AccessError
from watchcache_server.model.resources import ServedResource

__all__ = [
    "DiscoveryFailed",
    "Finding",
    "NotServed",
    "Resolution",
    "Served",
    "Unreadable",
    "VersionNotServed",
]


@dataclass(frozen=True, slots=True)
class Served:
    """It is served; `versions` are all versions that serve it, the preferred one first."""

    resource: ServedResource
    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NotServed:
    """Nothing of that name is served in that group; `hints` are near names, as `resource.group`."""

    hints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VersionNotServed:
    """It is served, but not in the wanted version."""

    versions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """The part of discovery that would tell could not be read: it may be served or not."""

    group_version: str
    problem: str


@dataclass(frozen=True, slots=True)
class DiscoveryFailed:
    """Whether it is served cannot be told now; `error` says why."""

    error: AccessError


Finding: TypeAlias = Served | NotServed | VersionNotServed | Unreadable
Resolution: TypeAlias = Served | NotServed | VersionNotServed | DiscoveryFailed
