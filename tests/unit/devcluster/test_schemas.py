"""Schemas: what they refuse, prune and fill in, and bodies before anything looks at them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.devcluster.sample_kinds import SCHEMA, WIDGET, Tree, kind
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.validation import prune, schema_causes


class TestSchemas:
    """Objects of custom kinds against their structural schema."""

    def test_a_good_object_has_no_causes(self) -> None:
        """Every keyword is met."""
        spec = {
            "size": 3,
            "color": "blue",
            "code": "ab",
            "port": "http",
            "tags": ["a"],
            "limits": {"cpu": 1.5},
            "items": [{"n": 1}],
            "none": None,
        }
        assert schema_causes(WIDGET, {"metadata": {}, "spec": spec}) == []
        assert schema_causes(kind("pods"), {}) == []

    @pytest.mark.parametrize(
        ("spec", "field", "reason"),
        [
            (None, "spec", "FieldValueRequired"),
            ({}, "spec.size", "FieldValueRequired"),
            ({"size": "3"}, "spec.size", "FieldValueTypeInvalid"),
            ({"size": True}, "spec.size", "FieldValueTypeInvalid"),
            ({"size": None}, "spec.size", "FieldValueTypeInvalid"),
            ({"size": 0}, "spec.size", "FieldValueInvalid"),
            ({"size": 10}, "spec.size", "FieldValueInvalid"),
            ({"size": 1, "color": "x"}, "spec.color", "FieldValueNotSupported"),
            ({"size": 1, "code": "A1"}, "spec.code", "FieldValueInvalid"),
            ({"size": 1, "code": "abcd"}, "spec.code", "FieldValueInvalid"),
            ({"size": 1, "code": "a"}, "spec.code", "FieldValueInvalid"),
            ({"size": 1, "tags": ["a", "b", "c"]}, "spec.tags", "FieldValueInvalid"),
            ({"size": 1, "tags": [1]}, "spec.tags[0]", "FieldValueTypeInvalid"),
            ({"size": 1, "limits": {"x": "y"}}, "spec.limits.x", "FieldValueTypeInvalid"),
            ({"size": 1, "items": [{"n": "x"}]}, "spec.items[0].n", "FieldValueTypeInvalid"),
        ],
    )
    def test_a_broken_keyword_is_named(self, spec: Tree | None, field: str, reason: str) -> None:
        """The cause holds the path of the value and the kind of the rule."""
        tree: Tree = {"metadata": {}} if spec is None else {"metadata": {}, "spec": spec}
        (cause,) = schema_causes(WIDGET, tree)
        assert (cause["field"], cause["reason"]) == (field, reason)

    def test_unknown_fields_are_pruned_and_defaults_filled_in(self) -> None:
        """What the schema does not name goes, except where it says to keep it."""
        tree: Tree = {
            "metadata": {},
            "extra": 1,
            "spec": {
                "size": 1,
                "extra": 1,
                "free": {"any": {"thing": 1}},
                "items": [{"n": 1, "extra": 1}],
                "limits": {"x": 1},
                "template": {"kind": "X", "metadata": {"any": 1}, "extra": 1},
            },
        }
        unknown = prune(SCHEMA, tree)
        assert sorted(unknown) == [
            "extra",
            "spec.extra",
            "spec.items[0].extra",
            "spec.template.extra",
        ]
        assert tree["spec"]["color"] == "red"
        assert tree["spec"]["free"] == {"any": {"thing": 1}}
        assert tree["spec"]["template"] == {"kind": "X", "metadata": {"any": 1}}
        assert prune(None, tree) == []


class TestIntake:
    """Bodies before anything else looks at them."""

    @pytest.mark.parametrize(
        ("body", "code", "message"),
        [
            ([], 400, "couldn't get version/kind"),
            ({}, 400, "Object 'Kind' is missing in '{}'"),
            ({"kind": "Widget"}, 400, "Object 'apiVersion' is missing"),
            (
                {"kind": "Widget", "apiVersion": "demo.test/v2"},
                400,
                "the API version in the data (demo.test/v2) does not match",
            ),
            (
                {"kind": "Other", "apiVersion": "demo.test/v1"},
                422,
                'Other.demo.test "" is invalid: kind: Invalid value: "Other": must be Widget',
            ),
            (
                {"kind": "Widget", "apiVersion": "demo.test/v1", "metadata": []},
                400,
                "cannot unmarshal array into Go struct field ObjectMeta.metadata",
            ),
            (
                {"kind": "Widget", "apiVersion": "demo.test/v1", "metadata": {"labels": {"a": 1}}},
                400,
                "cannot unmarshal number into Go struct field ObjectMeta.labels",
            ),
        ],
    )
    def test_a_custom_object_names_its_type(self, body: Any, code: int, message: str) -> None:
        """Its kind and version must be those of the path, its metadata well typed."""
        with pytest.raises(ApiError) as caught:
            to_storage_form(WIDGET, body)
        assert caught.value.code == code
        assert message in caught.value.message

    def test_unknown_fields_of_metadata_are_dropped(self) -> None:
        """They are named as warnings, or refused by a strict reader."""
        body = {
            "kind": "Widget",
            "apiVersion": "demo.test/v1",
            "metadata": {"name": "a", "nope": 1},
            "spec": {"size": 1},
        }
        options = WriteOptions()
        tree = to_storage_form(WIDGET, body, options)
        assert tree == {"metadata": {"name": "a"}, "spec": {"size": 1, "color": "red"}}
        assert options.warnings == ['unknown field "metadata.nope"']
        strict = WriteOptions(field_validation="Strict", duplicates=("spec",))
        with pytest.raises(ApiError, match=r'"metadata\.nope", duplicate field "spec"'):
            to_storage_form(WIDGET, body, strict)
        nothing = {"kind": "Widget", "apiVersion": "demo.test/v1", "metadata": None}
        assert to_storage_form(WIDGET, nothing) == {"metadata": {}}
