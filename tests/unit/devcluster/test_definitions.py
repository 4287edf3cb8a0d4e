"""Definitions: what a CustomResourceDefinition brings, and which ones are refused."""

from __future__ import annotations

from typing import Any

import pytest

from watchcache_devcluster.builtin import BUILTIN_RESOURCES
from watchcache_devcluster.definitions import definition_causes, name_conflict, resources_of
from watchcache_devcluster.resources import Catalog, Resource

Tree = dict[str, Any]


@pytest.fixture
def catalog() -> Catalog:
    """Give a catalog of the built-in kinds."""
    catalog = Catalog()
    catalog.add(*BUILTIN_RESOURCES)
    return catalog


def definition(**spec: Any) -> Tree:
    """Return a definition in storage form."""
    names = {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    whole = {"group": "demo.test", "scope": "Cluster", "names": names, "versions": [version]}
    return {"metadata": {"name": "widgets.demo.test"}, "spec": {**whole, **spec}}


class TestDefinitions:
    """What a CustomResourceDefinition says."""

    def test_a_good_definition_is_one_resource_for_each_served_version(self) -> None:
        """Versions that are not served are only kept."""
        good = definition()
        old = {**good["spec"]["versions"][0], "name": "v0", "served": False, "storage": False}
        good["spec"]["versions"].append(old)
        assert definition_causes(good) == []
        (resource,) = resources_of(good)
        assert (resource.version, resource.namespaced, resource.list_kind) == (
            "v1",
            False,
            "WidgetList",
        )

    @pytest.mark.parametrize(
        ("spec", "field"),
        [
            ({"scope": "Everywhere"}, "spec.scope"),
            ({"versions": []}, "spec.versions"),
            (
                {"versions": [{"name": "v1", "storage": True}]},
                "spec.versions[0].schema.openAPIV3Schema",
            ),
        ],
    )
    def test_a_bad_definition_is_refused(self, spec: Tree, field: str) -> None:
        """Each broken rule has its field."""
        assert [cause["field"] for cause in definition_causes(definition(**spec))] == [field]

    def test_a_kind_can_be_taken_once_in_a_group(self, catalog: Catalog) -> None:
        """Two plurals must not share a kind."""
        catalog.add(Resource("demo.test", "v1", "gadgets", "Widget", True, is_custom=True))
        assert "already in use" in name_conflict(catalog, definition())
        assert name_conflict(Catalog(), definition()) == ""
