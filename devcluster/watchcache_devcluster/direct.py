"""Objects without HTTP: what a test does to a cluster in its own process.

The methods are those of a client; they run as administrator through the same writer and storage as
requests do, so that versions, checks and events are the same. Errors are `ApiError`.
"""

from __future__ import annotations

import builtins
from typing import Any

import yaml

from watchcache_devcluster.commits import Commits
from watchcache_devcluster.deletion import Deleter
from watchcache_devcluster.intake import with_type
from watchcache_devcluster.listing import ListOptions, list_page
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.patching import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    Patcher,
)
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.storage import Record
from watchcache_devcluster.writer import Writer

__all__ = ["DirectClient"]

Tree = dict[str, Any]
_PATCH_TYPES = {
    "apply": APPLY_PATCH,
    "json": JSON_PATCH,
    "merge": MERGE_PATCH,
    "strategic": STRATEGIC_PATCH,
}
_OPTIONS = WriteOptions("devcluster", field_validation="Ignore")


class DirectClient:
    """Create, get, replace, patch, delete and list, named as people name resources.

    `resource` is `pods`, `deployments.apps`, `cronjobs.v1.batch`, a short name or a kind; for
    namespaced kinds without a namespace given, the object's own or `default` is used.
    """

    def __init__(
        self,
        catalog: Catalog,
        commits: Commits,
        writer: Writer,
        patcher: Patcher,
        deleter: Deleter,
    ) -> None:
        self.__catalog = catalog
        self.__commits = commits
        self.__writer = writer
        self.__patcher = patcher
        self.__deleter = deleter

    async def create(self, resource: str, obj: Tree, namespace: str | None = None) -> Tree:
        """Create an object and return it as stored."""
        found = self.__catalog.resolve(resource)
        body = _typed(found, obj)
        home = _namespace(found, namespace or (obj.get("metadata") or {}).get("namespace"))
        return _shown(found, self.__writer.create(found, home, body, _OPTIONS))

    async def get(self, resource: str, name: str, namespace: str | None = None) -> Tree:
        """Return an object; 404 if there is none."""
        found = self.__catalog.resolve(resource)
        home = _namespace(found, namespace)
        return _shown(found, self.__commits.require(found, home, name))

    async def replace(
        self,
        resource: str,
        obj: Tree,
        namespace: str | None = None,
        *,
        subresource: str = "",
    ) -> Tree:
        """Replace an object (or, with `subresource="status"`, its status) and return it."""
        found = self.__catalog.resolve(resource)
        metadata = obj["metadata"]
        home = _namespace(found, namespace or metadata.get("namespace"))
        record, _ = self.__writer.update(
            found, home, metadata["name"], _typed(found, obj), _OPTIONS, subresource
        )
        return _shown(found, record)

    async def patch(
        self,
        resource: str,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: str = "merge",  # noqa: A002 - the word that kubectl uses
        subresource: str = "",
    ) -> Tree:
        """Patch an object and return it; `type` is merge, json, strategic or apply."""
        found = self.__catalog.resolve(resource)
        if type not in _PATCH_TYPES:
            raise ValueError(f'type is "{type}"; choose one of: {", ".join(_PATCH_TYPES)}')
        body = _typed(found, patch) if type == "apply" else patch
        record, _ = self.__patcher.patch(
            found,
            _namespace(found, namespace),
            name,
            body,
            _PATCH_TYPES[type],
            _OPTIONS,
            subresource,
        )
        return _shown(found, record)

    async def delete(
        self, resource: str, name: str, namespace: str | None = None, **options: Any
    ) -> Tree:
        """Delete an object; `options` are fields of DeleteOptions. Returns its last content."""
        found = self.__catalog.resolve(resource)
        record, _ = self.__deleter.delete(
            found, _namespace(found, namespace), name, options, _OPTIONS
        )
        return _shown(found, record)

    async def list(
        self,
        resource: str,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
    ) -> Tree:
        """Return a list object; of all namespaces unless one is given."""
        found = self.__catalog.resolve(resource)
        query = {"labelSelector": label_selector, "fieldSelector": field_selector}
        options = ListOptions.parse(query, found, is_watch=False)
        page = await list_page(
            self.__commits.storage, self.__commits.table(found), namespace, options
        )
        return {
            "apiVersion": found.api_version,
            "kind": found.list_kind,
            "metadata": {"resourceVersion": str(page.resource_version)},
            "items": [_shown(found, record) for record in page.records],
        }

    async def load(self, manifests: str | bytes) -> builtins.list[Tree]:
        """Create everything in a YAML or JSON text, `List` objects expanded, in its order."""
        created = []
        text = manifests.encode() if isinstance(manifests, str) else manifests
        for document in yaml.safe_load_all(text):
            for obj in _expanded(document):
                resource = self.__catalog.by_kind(obj.get("apiVersion", ""), obj.get("kind", ""))
                if resource is None:
                    raise ValueError(
                        f"no resource serves kind {obj.get('kind')} of {obj.get('apiVersion')};"
                        " its CustomResourceDefinition must come first"
                    )
                created.append(await self.create(resource.table, obj))
        return created


def _expanded(document: Any) -> list[Tree]:
    if document is None:
        return []
    if not isinstance(document, dict):
        raise TypeError("a manifest must be a mapping with apiVersion and kind")
    if document.get("kind", "").endswith("List") and "items" in document:
        return [obj for item in document["items"] for obj in _expanded(item)]
    return [document]


def _typed(resource: Resource, obj: Tree) -> Tree:
    return {"apiVersion": resource.api_version, "kind": resource.kind, **obj}


def _namespace(resource: Resource, namespace: str | None) -> str:
    return (namespace or "default") if resource.namespaced else ""


def _shown(resource: Resource, record: Record) -> Tree:
    return with_type(resource, record.decode())
