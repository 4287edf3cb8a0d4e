"""The last step of every write: validation, ownership of fields, and the commit itself.

`Commits` is shared by the classes that create, update, patch and delete; each brings a finished
tree, and a dry run ends here without touching the storage.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from watchcache_devcluster import errors
from watchcache_devcluster.definitions import CRD_TABLE, definition_causes
from watchcache_devcluster.fieldsets import leaves, record_update
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.requirements import requirement_causes
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.storage import Key, Record, Storage, Table, encode_rest
from watchcache_devcluster.strategies import field_values, name_causes, object_causes
from watchcache_devcluster.validation import immutable_causes, schema_causes

__all__ = ["Commits", "timestamp"]

Tree = dict[str, Any]


def timestamp(seconds: float) -> str:
    """Format a time in whole seconds, as `metav1.Time` does."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Commits:
    """Checks and commits finished trees."""

    def __init__(
        self, storage: Storage, catalog: Catalog, clock: Callable[[], float] = time.time
    ) -> None:
        self.storage = storage
        self.clock = clock
        self._catalog = catalog

    def now(self) -> str:
        """Return the time as objects carry it."""
        return timestamp(self.clock())

    def table(self, resource: Resource) -> Table:
        """Return where the objects of a resource are kept."""
        return self.storage.table(resource.table)

    def require(self, resource: Resource, namespace: str, name: str) -> Record:
        """Return the newest version of an object.

        Raises:
            ApiError: 404 if it does not exist.
        """
        record = self.table(resource).get((namespace, name))
        if record is None:
            raise errors.not_found(resource.group, resource.plural, name)
        return record

    def validate(self, resource: Resource, tree: Tree, old: Tree | None) -> None:
        """Check a finished tree against everything that is known about its kind.

        Raises:
            ApiError: 422 with every rule that is broken.
        """
        name = tree["metadata"]["name"]
        causes = [] if old is not None else name_causes(resource, name)
        causes += object_causes(tree, is_custom=resource.is_custom)
        if resource.table == CRD_TABLE:
            causes += definition_causes(tree)
        causes += requirement_causes(resource, tree)
        causes += schema_causes(resource, tree)
        causes += immutable_causes(resource, old, tree)
        if causes:
            raise errors.invalid(resource.group, resource.kind, name, causes)

    def writer_entry(
        self, resource: Resource, options: WriteOptions, subresource: str, operation: str
    ) -> Tree:
        """Return who writes, as `managedFields` names it."""
        return {
            "manager": options.manager,
            "operation": operation,
            "apiVersion": resource.api_version,
            "time": self.now(),
            "subresource": subresource,
        }

    def own(
        self,
        resource: Resource,
        old: Tree,
        tree: Tree,
        options: WriteOptions,
        subresource: str = "",
    ) -> None:
        """Move the ownership of every field that an update changes to its writer."""
        entries = record_update(
            tree["metadata"].get("managedFields") or [],
            self.writer_entry(resource, options, subresource, "Update"),
            leaves(old, is_custom=resource.is_custom),
            leaves(tree, is_custom=resource.is_custom),
        )
        if entries:
            tree["metadata"]["managedFields"] = entries

    def commit(self, resource: Resource, key: Key, tree: Tree, options: WriteOptions) -> Record:
        """Store a tree and return its record; a dry run returns what the record would be."""
        table = self.table(resource)
        fields = field_values(self._kept_as(resource), tree)
        if not options.dry_run:
            return self.storage.put(table, key, tree, fields)
        labels = tree["metadata"].get("labels") or {}
        head = table.get(key)
        if head is None:
            tree["metadata"].pop("resourceVersion", None)
        version = head.resource_version if head is not None else 0
        return Record(key, version, encode_rest(tree), labels, fields, None)

    def _kept_as(self, resource: Resource) -> Resource:
        """Return the version of a kind in whose form the storage keeps it."""
        if resource.to_storage is None:
            return resource
        for other in self._catalog.of_table(resource.table):
            if other.to_storage is None:
                return other
        return resource
