"""CustomResourceDefinitions: how one becomes served resources, and how it ends.

Only the spec and the names are judged here; when the conditions are written and when the data goes
is the business of `controllers`. Conversion between versions is that of strategy None: the versions
of a kind differ in their `apiVersion` only.
"""

from __future__ import annotations

from typing import Any

from watchcache_devcluster.errors import Cause, field_invalid
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.tables import custom_column

__all__ = [
    "CLEANUP_FINALIZER",
    "CRD_TABLE",
    "accepted_names",
    "default_definition",
    "definition_causes",
    "mark_terminating",
    "name_conflict",
    "resources_of",
]

Tree = dict[str, Any]
CRD_TABLE = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"


def default_definition(tree: Tree) -> None:
    """Fill in what the API fills in for a definition."""
    spec = tree.setdefault("spec", {})
    names = spec.setdefault("names", {})
    kind = str(names.get("kind", ""))
    if kind:
        names.setdefault("singular", kind.lower())
        names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})


def definition_causes(tree: Tree) -> list[Cause]:
    """Return what is wrong with a definition, if anything."""
    spec = tree.get("spec") or {}
    names = spec.get("names") or {}
    group, plural = spec.get("group", ""), names.get("plural", "")
    name = tree["metadata"].get("name")
    causes: list[Cause] = []
    if name != f"{plural}.{group}":
        rule = 'must be spec.names.plural+"."+spec.group'
        causes.append(field_invalid("metadata.name", rule, value=f'"{name}"'))
    causes += [
        field_invalid(f"spec.{field}", "", reason="FieldValueRequired")
        for field in ("group", "scope")
        if not spec.get(field)
    ]
    if spec.get("scope") not in {None, "", "Cluster", "Namespaced"}:
        causes.append(
            field_invalid(
                "spec.scope",
                'supported values: "Cluster", "Namespaced"',
                value=f'"{spec["scope"]}"',
                reason="FieldValueNotSupported",
            )
        )
    causes += _version_causes(spec.get("versions") or [])
    causes += [
        field_invalid(f"spec.names.{field}", "", reason="FieldValueRequired")
        for field in ("plural", "singular", "kind", "listKind")
        if not names.get(field)
    ]
    return causes


def _version_causes(versions: list[Tree]) -> list[Cause]:
    causes: list[Cause] = []
    if sum(1 for version in versions if version.get("storage")) != 1:
        rule = "must have exactly one version marked as storage version"
        causes.append(field_invalid("spec.versions", rule, value="null"))
    for index, version in enumerate(versions):
        if not (version.get("schema") or {}).get("openAPIV3Schema"):
            field = f"spec.versions[{index}].schema.openAPIV3Schema"
            causes.append(field_invalid(field, "schemas are required", reason="FieldValueRequired"))
    return causes


def accepted_names(tree: Tree) -> Tree:
    """Return the names of a definition, in the form of `status.acceptedNames`."""
    names: Tree = dict((tree.get("spec") or {}).get("names") or {})
    return names


def resources_of(tree: Tree) -> list[Resource]:
    """Return one resource for each served version of a definition, the preferred one first."""
    spec, names = tree["spec"], accepted_names(tree)
    found = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        subresources = version.get("subresources") or {}
        found.append(
            Resource(
                spec["group"],
                version["name"],
                names["plural"],
                names["kind"],
                spec["scope"] == "Namespaced",
                singular=names["singular"],
                list_kind=names["listKind"],
                short_names=tuple(names.get("shortNames") or ()),
                categories=tuple(names.get("categories") or ()),
                has_status="status" in subresources,
                has_scale="scale" in subresources,
                has_generation=True,
                is_custom=True,
                selectable=tuple(
                    str(field["jsonPath"]).lstrip(".")
                    for field in version.get("selectableFields") or ()
                ),
                columns=tuple(
                    custom_column(column)
                    for column in version.get("additionalPrinterColumns") or ()
                ),
                schema=(version.get("schema") or {}).get("openAPIV3Schema"),
            )
        )
    return found


def name_conflict(catalog: Catalog, tree: Tree) -> str:
    """Return which name of a definition another resource of its group already has, or nothing."""
    spec, names = tree["spec"], accepted_names(tree)
    table = f"{names['plural']}.{spec['group']}"
    for other in catalog:
        if other.group != spec["group"] or other.table == table:
            continue
        if other.kind == names["kind"]:
            return f'"{names["kind"]}" is already in use'
    return ""


def mark_terminating(tree: Tree, now: str) -> None:
    """Note in a definition that its objects are about to be removed."""
    finalizers = tree["metadata"].setdefault("finalizers", [])
    if CLEANUP_FINALIZER not in finalizers:
        finalizers.append(CLEANUP_FINALIZER)
    conditions = tree.setdefault("status", {}).setdefault("conditions", [])
    conditions.append(
        {
            "type": "Terminating",
            "status": "True",
            "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will"
            " begin soon",
        }
    )
