"""What the cluster says about itself: versions, groups, resources, and just enough OpenAPI.

Discovery comes in both forms, one document per group version and aggregated (by `Accept`; v2, and
v2beta1 for a cluster that plays an older server). The OpenAPI documents describe no schema of the
built-in kinds; they name them and say that the server validates fields itself, which is all that
kubectl needs to create and apply. Strategic merge patch is left out of them on purpose: kubectl
would compute it from a schema, and falls back to its own types without one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from watchcache_devcluster.errors import PRODUCED, no_such_path, not_acceptable
from watchcache_devcluster.resources import Catalog, Resource

__all__ = ["VERSION", "Discovery"]

Tree = dict[str, Any]

VERSION: dict[str, str] = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": "v1.36.3+devcluster",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "none",
    "compiler": "none",
    "platform": "linux/amd64",
}
_STATUS_VERBS = ["get", "patch", "update"]


class Discovery:
    """Writes the documents of discovery from the catalog, as it is when asked."""

    def __init__(self, catalog: Catalog, aggregated: Sequence[str] = ("v2",)) -> None:
        self._catalog = catalog
        self._aggregated_versions = aggregated

    def answer(self, path: str, accept: str) -> tuple[Any, str] | None:
        """Return the document at a path and its media type, or None if there is none.

        Raises:
            ApiError: 404 for a group or version that is not served.
        """
        parts = [part for part in path.split("/") if part]
        match parts:
            case ["api"] | ["apis"]:
                version = self._aggregated_version(accept)
                if version:
                    media_type = (
                        f"application/json;g=apidiscovery.k8s.io;v={version};"
                        "as=APIGroupDiscoveryList"
                    )
                    return self._aggregated(parts[0] == "api", version), media_type
                document = self._core_versions() if parts[0] == "api" else self._groups()
            case ["api", version]:
                document = self._resources("", version)
            case ["apis", group]:
                document = self._group(group)
            case ["apis", group, version]:
                document = self._resources(group, version)
            case ["version"]:
                document = VERSION
            case _:
                return self._openapi(parts)
        return document, "application/json"

    def _core_versions(self) -> Tree:
        return {
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }

    def _groups(self) -> Tree:
        groups = [self._group_entry(group) for group in self._catalog.groups()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}

    def _group_entry(self, group: str) -> Tree:
        versions = [
            {"groupVersion": f"{group}/{version}", "version": version}
            for version in self._catalog.groups()[group]
        ]
        return {"name": group, "versions": versions, "preferredVersion": versions[0]}

    def _group(self, group: str) -> Tree:
        if group not in self._catalog.groups():
            raise no_such_path()
        return {"kind": "APIGroup", "apiVersion": "v1", **self._group_entry(group)}

    def _resources(self, group: str, version: str) -> Tree:
        served = self._catalog.served(group, version)
        if not served:
            raise self._catalog.missing(group)
        entries: list[Tree] = []
        for resource in sorted(served.values(), key=lambda resource: resource.plural):
            entries += _resource_entries(resource)
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": f"{group}/{version}" if group else version,
            "resources": entries,
        }

    def _aggregated(self, is_core: bool, version: str) -> Tree:
        groups = {"": ["v1"]} if is_core else self._catalog.groups()
        items = []
        for group, versions in groups.items():
            listed = [
                {
                    "version": name,
                    "resources": [
                        _aggregated_entry(resource)
                        for resource in sorted(
                            self._catalog.served(group, name).values(),
                            key=lambda resource: resource.plural,
                        )
                    ],
                    "freshness": "Current",
                }
                for name in versions
            ]
            metadata: Tree = {"creationTimestamp": None}
            if group:
                metadata["name"] = group
            items.append({"metadata": metadata, "versions": listed})
        return {
            "kind": "APIGroupDiscoveryList",
            "apiVersion": f"apidiscovery.k8s.io/{version}",
            "metadata": {},
            "items": items,
        }

    def _aggregated_version(self, accept: str) -> str:
        """Return which aggregated form `Accept` asks for before plain JSON, if any.

        Raises:
            ApiError: 406 if it asks for nothing that is served.
        """
        for clause in accept.split(",") if accept.strip() else ():
            media_type, *parameters = (part.strip() for part in clause.split(";"))
            values = dict(part.partition("=")[::2] for part in parameters)
            if media_type not in {"application/json", "*/*", "application/*"}:
                continue
            if "as" not in values:
                return ""
            is_known = values.get("v") in self._aggregated_versions
            if values["as"] == "APIGroupDiscoveryList" and is_known:
                return values["v"]
        if not accept.strip():
            return ""
        raise not_acceptable(PRODUCED)

    # OpenAPI

    def _openapi(self, parts: list[str]) -> tuple[Any, str] | None:
        match parts:
            case ["openapi", "v2"]:
                info = {"title": "Kubernetes", "version": VERSION["gitVersion"]}
                document: Tree = {
                    "swagger": "2.0",
                    "info": info,
                    "paths": {},
                    "definitions": {},
                }
                return document, "application/json"
            case ["openapi", "v3"]:
                return {"paths": self._openapi_paths()}, "application/json"
            case ["openapi", "v3", "api", version]:
                return self._openapi_document("", version), "application/json"
            case ["openapi", "v3", "apis", group, version]:
                return self._openapi_document(group, version), "application/json"
        return None

    def _openapi_paths(self) -> Tree:
        paths = {}
        for group, version in self._catalog.group_versions():
            path = f"apis/{group}/{version}" if group else f"api/{version}"
            kinds = sorted(self._catalog.served(group, version))
            digest = hashlib.sha256(msgspec.json.encode(kinds)).hexdigest().upper()
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={digest}"}
        return paths

    def _openapi_document(self, group: str, version: str) -> Tree:
        served = self._catalog.served(group, version)
        if not served:
            raise no_such_path()
        paths: Tree = {}
        schemas: Tree = {}
        for resource in served.values():
            name = _schema_name(resource)
            schemas[name] = {
                **(resource.schema or {"type": "object"}),
                "x-kubernetes-group-version-kind": [_group_version_kind(resource)],
            }
            base = f"/apis/{group}/{version}" if group else f"/api/{version}"
            scope = "/namespaces/{namespace}" if resource.namespaced else ""
            collection = f"{base}{scope}/{resource.plural}"
            paths[collection] = {"post": _operation(resource, "post")}
            paths[f"{collection}/{{name}}"] = {
                "put": _operation(resource, "put"),
                "patch": _operation(resource, "patch"),
            }
        return {
            "openapi": "3.0.0",
            "info": {"title": "Kubernetes", "version": VERSION["gitVersion"]},
            "paths": paths,
            "components": {"schemas": schemas},
        }


def _subresources(resource: Resource) -> Iterable[tuple[str, str, str, str, list[str]]]:
    """Yield name, group, version, kind and verbs of each subresource."""
    if resource.table == "serviceaccounts":
        yield "token", "authentication.k8s.io", "v1", "TokenRequest", ["create"]
    if resource.table == "namespaces":
        yield "finalize", "", "v1", "Namespace", ["update"]
    if resource.has_scale:
        yield "scale", "autoscaling", "v1", "Scale", _STATUS_VERBS
    if resource.has_status:
        yield "status", resource.group, resource.version, resource.kind, _STATUS_VERBS


def _resource_entries(resource: Resource) -> list[Tree]:
    entry: Tree = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    entries = [entry]
    for name, group, version, kind, verbs in _subresources(resource):
        inner: Tree = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
        }
        if (group, version) != (resource.group, resource.version):
            inner |= {"group": group, "version": version}
        entries.append({**inner, "kind": kind, "verbs": verbs})
    return entries


def _aggregated_entry(resource: Resource) -> Tree:
    entry: Tree = {
        "resource": resource.plural,
        "responseKind": _response_kind(resource),
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": sorted(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    subresources = [
        {
            "subresource": name,
            "responseKind": _response_kind(resource, group, version, kind),
            "verbs": verbs,
        }
        for name, group, version, kind, verbs in _subresources(resource)
    ]
    if subresources:
        entry["subresources"] = subresources
    return entry


def _response_kind(resource: Resource, group: str = "", version: str = "", kind: str = "") -> Tree:
    """Return a kind as aggregated discovery names it: built-in ones leave out their own version."""
    group_version = (group, version) if version else (resource.group, resource.version)
    if not resource.is_custom and group_version == (resource.group, resource.version):
        group_version = ("", "")
    return {
        "group": group_version[0],
        "version": group_version[1],
        "kind": kind or resource.kind,
    }


def _group_version_kind(resource: Resource) -> Tree:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def _schema_name(resource: Resource) -> str:
    group = ".".join(reversed(resource.group.split("."))) if resource.group else "core"
    return f"{group}.{resource.version}.{resource.kind}"


def _operation(resource: Resource, method: str) -> Tree:
    reference = {"$ref": f"#/components/schemas/{_schema_name(resource)}"}
    media_types = ["application/json"]
    if method == "patch":
        media_types = [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ]
    parameters = [
        {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
        for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        "parameters": parameters,
        "requestBody": {
            "content": {media_type: {"schema": reference} for media_type in media_types}
        },
        "responses": {
            "200": {
                "description": "OK",
                "content": {"application/json": {"schema": reference}},
            }
        },
        "x-kubernetes-group-version-kind": _group_version_kind(resource),
    }
