"""Kinds for the tests of what is done with them: the built-in ones, and one with a schema."""

from __future__ import annotations

from typing import Any

from watchcache_devcluster.builtin import BUILTIN_RESOURCES
from watchcache_devcluster.resources import Resource

__all__ = ["SCHEMA", "WIDGET", "Tree", "kind"]

Tree = dict[str, Any]

SCHEMA: Tree = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 9},
                "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
                "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 3},
                "port": {"x-kubernetes-int-or-string": True},
                "tags": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
                "limits": {"type": "object", "additionalProperties": {"type": "number"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "items": {
                    "type": "array",
                    "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
                },
                "none": {"type": "string", "nullable": True},
                "template": {"type": "object", "x-kubernetes-embedded-resource": True},
            },
        }
    },
}
WIDGET = Resource("demo.test", "v1", "widgets", "Widget", True, is_custom=True, schema=SCHEMA)


def kind(name: str) -> Resource:
    """Return a built-in resource by the name of its table."""
    return next(resource for resource in BUILTIN_RESOURCES if resource.table == name)
