"""Kinds: how they are found, defaulted, demanded, converted, shown and defined."""

from __future__ import annotations

from typing import Any

import pytest

from watchcache_devcluster.builtin import BUILTIN_RESOURCES
from watchcache_devcluster.conversions import hpa_v1_to_v2, hpa_v2_to_v1
from watchcache_devcluster.definitions import definition_causes, name_conflict, resources_of
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.options import WriteOptions
from watchcache_devcluster.requirements import requirement_causes
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.strategies import apply_defaults, field_values, name_causes
from watchcache_devcluster.tables import age, columns_of, custom_column, row_of
from watchcache_devcluster.validation import immutable_causes, prune, schema_causes

Tree = dict[str, Any]


@pytest.fixture
def catalog() -> Catalog:
    """Give a catalog of the built-in kinds."""
    catalog = Catalog()
    catalog.add(*BUILTIN_RESOURCES)
    return catalog


def kind(name: str) -> Resource:
    """Return a built-in resource by the name of its table."""
    return next(resource for resource in BUILTIN_RESOURCES if resource.table == name)


class TestCatalog:
    """Finding a resource."""

    @pytest.mark.parametrize(
        ("name", "table", "version"),
        [
            ("pods", "pods", "v1"),
            ("po", "pods", "v1"),
            ("Pod", "pods", "v1"),
            ("deployments.apps", "deployments.apps", "v1"),
            ("deploy", "deployments.apps", "v1"),
            ("hpa", "horizontalpodautoscalers.autoscaling", "v2"),
            ("horizontalpodautoscalers.v1.autoscaling", None, "v1"),
            ("events", "events", "v1"),
            ("events.events.k8s.io", "events", "v1"),
        ],
    )
    def test_a_person_s_name_is_enough(
        self, catalog: Catalog, name: str, table: str | None, version: str
    ) -> None:
        """Plural, short name, kind, with or without version and group; the newest version wins."""
        found = catalog.resolve(name)
        assert table is None or found.table == table
        assert found.version == version
        assert catalog.resolve(found) is found

    def test_an_unclear_or_unknown_name_is_refused(self, catalog: Catalog) -> None:
        """The error names the choices, or says what to do."""
        catalog.add(
            Resource("one.test", "v1", "things", "Thing", True),
            Resource("two.test", "v1", "things", "Thing", True),
        )
        with pytest.raises(ApiError, match=r"things\.one\.test, things\.two\.test"):
            catalog.resolve("things")
        with pytest.raises(ApiError, match='serves no resource "nothing"'):
            catalog.resolve("nothing")
        catalog.add(Resource("", "v1", "things", "Thing", True))
        assert catalog.resolve("things").group == "", "the core group is meant first"

    def test_versions_are_ordered_by_maturity(self) -> None:
        """Stable before beta before alpha before anything else, higher numbers first."""
        catalog = Catalog()
        versions = ["v1alpha1", "foo", "v1", "v2beta1", "v2", "v1beta2", "v1beta10"]
        for version in versions:
            catalog.add(Resource("demo.test", version, "things", "Thing", True))
        ordered = ["v2", "v1", "v2beta1", "v1beta10", "v1beta2", "v1alpha1", "foo"]
        assert catalog.groups() == {"demo.test": ordered}

    def test_a_group_vanishes_with_its_last_resource(self, catalog: Catalog) -> None:
        """Removing is the reverse of adding, and removing twice does nothing."""
        thing = Resource("demo.test", "v1", "things", "Thing", True, is_custom=True)
        catalog.add(thing)
        assert catalog.by_kind("demo.test/v1", "Thing") is thing
        catalog.remove(thing)
        catalog.remove(thing)
        assert catalog.by_kind("demo.test/v1", "Thing") is None
        with pytest.raises(ApiError) as caught:
            catalog.find("demo.test", "v1", "things")
        assert caught.value.plain_text


POD_SPEC: Tree = {"containers": [{"name": "a", "image": "reg.test/a:1"}]}
TEMPLATE: Tree = {"metadata": {"labels": {"app": "a"}}, "spec": POD_SPEC}
WORKLOAD: Tree = {"selector": {"matchLabels": {"app": "a"}}, "template": TEMPLATE}
JOB: Tree = {"template": {"spec": {**POD_SPEC, "restartPolicy": "Never"}}}

GOOD: dict[str, Tree] = {
    "pods": {"spec": POD_SPEC},
    "deployments.apps": {"spec": WORKLOAD},
    "replicasets.apps": {"spec": WORKLOAD},
    "statefulsets.apps": {"spec": WORKLOAD},
    "daemonsets.apps": {"spec": WORKLOAD},
    "jobs.batch": {"spec": JOB},
    "cronjobs.batch": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": JOB}}},
    "services": {"spec": {"ports": [{"port": 80}]}},
    "persistentvolumeclaims": {
        "spec": {"accessModes": ["X"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "persistentvolumes": {"spec": {"capacity": {"storage": "1Gi"}}},
    "ingresses.networking.k8s.io": {"spec": {"defaultBackend": {}}},
    "horizontalpodautoscalers.autoscaling": {
        "spec": {"maxReplicas": 2, "scaleTargetRef": {"kind": "Deployment", "name": "a"}}
    },
    "rolebindings.rbac.authorization.k8s.io": {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s"}],
    },
    "clusterrolebindings.rbac.authorization.k8s.io": {
        "roleRef": {"kind": "ClusterRole", "name": "r"}
    },
    "secrets": {},
    "namespaces": {},
    "nodes": {},
    "configmaps": {},
}


@pytest.mark.parametrize("table", GOOD)
def test_defaults_are_filled_in_once(table: str) -> None:
    """A good object of each kind is accepted, and defaulting it again changes nothing."""
    resource = kind(table)
    metadata = {"name": "a", "uid": "11111111-1111-4111-8111-111111111111"}
    if resource.namespaced:
        metadata["namespace"] = "n"
    tree = to_storage_form(resource, {"metadata": metadata, **GOOD[table]})
    apply_defaults(resource, tree)
    assert requirement_causes(resource, tree) == []
    once = to_storage_form(resource, tree)
    again = to_storage_form(resource, tree)
    apply_defaults(resource, again)
    assert again == once
    assert field_values(resource, tree).keys() == set(resource.selectable)


LACKING: dict[str, tuple[str, Tree, set[str]]] = {
    "a pod without containers": ("pods", {}, {"spec.containers"}),
    "containers that share a name": (
        "pods",
        {"spec": {"containers": [{"name": "a"}, {"name": "a"}, {}]}},
        {"spec.containers[1].name", "spec.containers[2].name"},
    ),
    "a workload of nothing": (
        "deployments.apps",
        {},
        {"spec.selector", "spec.template.metadata.labels", "spec.template.spec.containers"},
    ),
    "a selector that misses the template": (
        "deployments.apps",
        {"spec": {**WORKLOAD, "selector": {"matchLabels": {"app": "b"}}}},
        {"spec.template.metadata.labels"},
    ),
    "a template without an image": (
        "deployments.apps",
        {
            "spec": {
                "selector": {},
                "template": {"spec": {"containers": [{"name": "a"}]}},
            }
        },
        {"spec.template.spec.containers[0].image"},
    ),
    "a job that restarts": (
        "jobs.batch",
        {"spec": {"template": {"spec": POD_SPEC}}},
        {"spec.template.spec.restartPolicy"},
    ),
    "a cron job of nothing": (
        "cronjobs.batch",
        {},
        {
            "spec.schedule",
            "spec.jobTemplate.spec.template.spec.containers",
            "spec.jobTemplate.spec.template.spec.restartPolicy",
        },
    ),
    "a service without ports": ("services", {}, {"spec.ports"}),
    "a claim of nothing": (
        "persistentvolumeclaims",
        {},
        {"spec.accessModes", "spec.resources[storage]"},
    ),
    "an ingress of nothing": ("ingresses.networking.k8s.io", {}, {"spec"}),
    "an autoscaler of nothing": (
        "horizontalpodautoscalers.autoscaling",
        {},
        {"spec.maxReplicas", "spec.scaleTargetRef.kind", "spec.scaleTargetRef.name"},
    ),
    "a cluster binding of a role": (
        "clusterrolebindings.rbac.authorization.k8s.io",
        {"roleRef": {"kind": "Role"}},
        {"roleRef.kind", "roleRef.name"},
    ),
}


@pytest.mark.parametrize(("table", "tree", "fields"), LACKING.values(), ids=LACKING.keys())
def test_what_a_kind_demands_is_named(table: str, tree: Tree, fields: set[str]) -> None:
    """Each missing field has a cause of its own."""
    causes = requirement_causes(kind(table), {"metadata": {}, **tree})
    assert {cause["field"] for cause in causes} == fields


def test_a_headless_or_external_service_needs_no_ports() -> None:
    """Only a service with an address of its own must have ports."""
    for spec in ({"clusterIP": "None"}, {"type": "ExternalName"}):
        assert requirement_causes(kind("services"), {"metadata": {}, "spec": spec}) == []


def test_special_fields_are_read_from_their_places() -> None:
    """Some field labels are no paths."""
    event = {"source": {"component": "c"}, "involvedObject": {"name": "x"}}
    assert field_values(kind("events"), event)["source"] == "c"
    pod = {"spec": {"hostNetwork": True}, "status": {"podIPs": [{"ip": "1"}, {"ip": "2"}]}}
    values = field_values(kind("pods"), pod)
    assert (values["spec.hostNetwork"], values["status.podIPs"]) == ("true", "1,2")
    assert field_values(kind("jobs.batch"), {"status": {"succeeded": 2}}) == {
        "status.successful": "2"
    }


@pytest.mark.parametrize(
    ("table", "name", "is_valid"),
    [
        ("configmaps", "a.b-c", True),
        ("configmaps", "A", False),
        ("namespaces", "a.b", False),
        ("namespaces", "a" * 64, False),
        ("roles.rbac.authorization.k8s.io", "system:x Y", True),
        ("roles.rbac.authorization.k8s.io", "a/b", False),
    ],
)
def test_names_follow_the_rule_of_their_kind(table: str, name: str, is_valid: bool) -> None:
    """Most are DNS subdomains, some DNS labels, roles any segment of a path."""
    assert bool(name_causes(kind(table), name)) is not is_valid


@pytest.mark.parametrize(
    ("table", "old", "new", "fields"),
    [
        ("secrets", {"type": "a"}, {"type": "b"}, ["type"]),
        (
            "configmaps",
            {"immutable": True, "data": {"a": "1"}},
            {"data": {"a": "2"}},
            ["immutable", "data"],
        ),
        ("configmaps", {"data": {"a": "1"}}, {"data": {"a": "2"}}, []),
    ],
)
def test_some_fields_never_change(table: str, old: Tree, new: Tree, fields: list[str]) -> None:
    """An immutable field is named; so is every part of an object that was made immutable."""
    causes = immutable_causes(kind(table), old, new)
    assert [cause["field"] for cause in causes] == fields


class TestConversions:
    """One autoscaler in two versions."""

    def test_the_cpu_target_is_a_metric(self) -> None:
        """v1's one number is a metric of v2, both ways, in spec and status."""
        old = {
            "metadata": {},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
            "status": {
                "currentReplicas": 1,
                "desiredReplicas": 2,
                "currentCPUUtilizationPercentage": 40,
            },
        }
        new = hpa_v1_to_v2(old)
        assert new["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"] == 70
        assert hpa_v2_to_v1(new) == old

    def test_other_metrics_do_not_fit(self) -> None:
        """What v1 has no place for is left out."""
        new = {
            "metadata": {},
            "spec": {"metrics": [{"type": "Pods"}], "behavior": {}},
            "status": {"conditions": [], "currentMetrics": None},
        }
        assert hpa_v2_to_v1(new) == {
            "metadata": {},
            "spec": {},
            "status": {"currentReplicas": 0, "desiredReplicas": 0},
        }
        assert "status" not in hpa_v1_to_v2({"metadata": {}})


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


class TestTables:
    """What kubectl shows."""

    @pytest.mark.parametrize(
        ("seconds", "shown"),
        [
            (-5, "0s"),
            (5, "5s"),
            (130, "2m10s"),
            (240, "4m"),
            (700, "11m"),
            (4 * 3600, "4h"),
            (4 * 3600 + 60, "4h1m"),
            (20 * 3600, "20h"),
            (3 * 86400, "3d"),
            (800 * 86400, "2y"),
        ],
    )
    def test_ages_are_short(self, seconds: int, shown: str) -> None:
        """One or two units, as kubectl writes them."""
        assert age("1970-01-01T00:00:00Z", seconds) == shown
        assert age(None, 0) == "<unknown>"

    @pytest.mark.parametrize(
        ("table", "tree", "cells"),
        [
            (
                "pods",
                {
                    "spec": {"containers": [{}, {}], "nodeName": "n"},
                    "status": {
                        "phase": "Running",
                        "podIP": "1.2.3.4",
                        "containerStatuses": [
                            {"ready": True, "restartCount": 2, "state": {"running": {}}}
                        ],
                    },
                },
                ["1/2", "Running", "2", "<unknown>", "1.2.3.4", "n"],
            ),
            (
                "pods",
                {"status": {"containerStatuses": [{"state": {"waiting": {"reason": "Pull"}}}]}},
                ["0/0", "Pull", "0", "<unknown>", "<none>", "<none>"],
            ),
            (
                "pods",
                {"metadata": {"deletionTimestamp": "x"}},
                ["0/0", "Terminating", "0", "<unknown>", "<none>", "<none>"],
            ),
            ("deployments.apps", {"spec": {"replicas": 2}}, ["0/2", 0, 0, "<unknown>"]),
            ("configmaps", {"data": {"a": "1"}, "binaryData": {"b": ""}}, [2, "<unknown>"]),
            (
                "services",
                {"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}},
                ["NodePort", "<none>", "80:30000/TCP", "<unknown>"],
            ),
            (
                "nodes",
                {
                    "spec": {"unschedulable": True},
                    "status": {"conditions": [{"type": "X"}, {"type": "Ready", "status": "True"}]},
                },
                ["Ready,SchedulingDisabled", "<unknown>", ""],
            ),
            (
                "nodes",
                {"status": {"conditions": [{"type": "Ready", "status": "False"}]}},
                ["NotReady", "<unknown>", ""],
            ),
            ("nodes", {}, ["Unknown", "<unknown>", ""]),
            (
                "rolebindings.rbac.authorization.k8s.io",
                {"roleRef": {"kind": "Role", "name": "r"}},
                ["Role/r", "<unknown>"],
            ),
            (
                "ingresses.networking.k8s.io",
                {"spec": {"rules": [{"host": "a"}, {}], "tls": [{}]}},
                ["<none>", "a,*", "80, 443", "<unknown>"],
            ),
            ("jobs.batch", {"status": {"succeeded": 1}}, ["1/1", "<unknown>"]),
            ("cronjobs.batch", {"spec": {"schedule": "x"}}, ["x", "False", "<unknown>"]),
            (
                "horizontalpodautoscalers.autoscaling",
                {"spec": {"scaleTargetRef": {"kind": "D", "name": "n"}, "maxReplicas": 3}},
                ["D/n", 0, 3, 0, "<unknown>"],
            ),
        ],
    )
    def test_the_cells_of_built_in_kinds(self, table: str, tree: Tree, cells: list[Any]) -> None:
        """A few columns each, after the name."""
        whole = {"metadata": {"name": "a"}, **tree}
        whole["metadata"].setdefault("name", "a")
        columns = columns_of(kind(table))
        assert row_of(columns, whole, 0.0) == ["a", *cells]
        assert all(column.definition()["name"] for column in columns)

    def test_events_begin_with_their_age(self) -> None:
        """An event is looked for by when it was seen, not by its name."""
        event = {
            "metadata": {"name": "e", "creationTimestamp": "1970-01-01T00:00:00Z"},
            "type": "Normal",
            "reason": "R",
            "involvedObject": {"kind": "Pod", "name": "p"},
            "message": "m",
        }
        row = row_of(columns_of(kind("events")), event, 3.0)
        assert row == ["3s", "Normal", "R", "pod/p", "m", "e"]

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            (".spec.size", 3),
            ("{.spec.size}", 3),
            (".spec.list[1]", "b"),
            (".spec.list[9]", None),
            (".metadata.labels.example\\.test/x", "y"),
            (".metadata.labels['example.test/x']", "y"),
            (".spec.size.deeper", None),
        ],
    )
    def test_custom_columns_follow_their_path(self, path: str, expected: Any) -> None:
        """The paths that printer columns use: keys, indices, escaped and quoted keys."""
        tree = {
            "metadata": {"labels": {"example.test/x": "y"}},
            "spec": {"size": 3, "list": ["a", "b"]},
        }
        column = custom_column({"name": "X", "type": "integer", "jsonPath": path})
        assert column.cell(tree, 0.0) == expected

    def test_a_date_is_shown_as_an_age(self) -> None:
        """A column of type date counts from its time."""
        column = custom_column({"name": "X", "type": "date", "jsonPath": ".at"})
        assert column.cell({"at": "1970-01-01T00:00:00Z"}, 7.0) == "7s"
        assert column.cell({}, 7.0) is None
        assert columns_of(WIDGET)[1].name == "Age"
