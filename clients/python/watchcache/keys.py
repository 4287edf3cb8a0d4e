"""How things are named: `Key` for an object within its resource, and names for resources.

A resource has one canonical name everywhere in this package: `plural.group`, and the plural alone
for the core group ("deployments.apps", "pods"). `parse_resource` also takes a version in the middle
("deployments.v1.apps", "pods.v1"), as kubectl does.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from watchcache.errors import InvalidArgumentError
from watchcache.v1alpha1 import event_pb2

__all__ = [
    "Key",
    "ResourceName",
    "key_of",
    "parse_extension_name",
    "parse_resource",
    "resource_name",
]

_VERSION = re.compile(r"v[0-9]+((alpha|beta)[0-9]+)?")
_PLURAL = re.compile(r"[a-z0-9][-a-z0-9]*")
_GROUP = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class Key(NamedTuple):
    """Names an object among those of its resource.

    `namespace` is empty for a cluster-scoped object. `cluster` may stay empty where all objects
    come from one cluster; the keys that this package makes always have it.
    """

    namespace: str
    name: str
    cluster: str = ""

    def __str__(self) -> str:
        """Return `name`, `namespace/name`, or with a cluster always `cluster/namespace/name`."""
        if self.cluster:
            return f"{self.cluster}/{self.namespace}/{self.name}"
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @classmethod
    def parse(cls, text: str) -> Key:
        """Read what `str` writes. A name never holds a slash, so this is exact."""
        rest, _, name = text.rpartition("/")
        cluster, _, namespace = rest.rpartition("/")
        if not name:
            raise InvalidArgumentError.of(
                "key",
                f"{text!r} names no object; write name, namespace/name or cluster/namespace/name",
            )
        return cls(namespace, name, cluster)

    @classmethod
    def of(cls, key: Key | str) -> Key:
        """Take a key in either form."""
        return cls.parse(key) if isinstance(key, str) else key


class ResourceName(NamedTuple):
    """A resource taken apart; `version` is empty where none was named."""

    group: str
    plural: str
    version: str = ""

    def __str__(self) -> str:
        return resource_name(self.group, self.plural)


@lru_cache(maxsize=4096)
def resource_name(group: str, plural: str) -> str:
    """Return the canonical name: `deployments.apps`, or `pods` for the core group."""
    return f"{plural}.{group}" if group else plural


@lru_cache(maxsize=4096)
def parse_resource(text: str, *, field: str = "resource") -> ResourceName:
    """Read the name of a resource. Raises InvalidArgumentError."""
    plural, _, rest = text.partition(".")
    version, _, group = rest.partition(".")
    if not _VERSION.fullmatch(version):
        version, group = "", rest
    if not _PLURAL.fullmatch(plural) or (group and not _GROUP.fullmatch(group)):
        raise InvalidArgumentError.of(
            field,
            f"{text!r} is no resource; write its plural name and its group, "
            'such as "deployments.apps" or "pods"',
        )
    return ResourceName(group, plural, version)


def parse_extension_name(text: str) -> tuple[str, str]:
    """Take `namespace/name` apart. Raises InvalidArgumentError; the service checks the parts."""
    namespace, slash, name = text.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise InvalidArgumentError.of("name", f'{text!r} is no extension; write "namespace/name"')
    return namespace, name


def key_of(key: event_pb2.ObjectKey) -> tuple[str, Key]:
    """Return the resource's canonical name and the key of a key on the wire."""
    return resource_name(key.group, key.resource), Key(key.namespace, key.name, key.cluster)
