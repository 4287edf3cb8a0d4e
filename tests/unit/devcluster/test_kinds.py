"""Kinds: how they are found, defaulted, demanded, named and converted."""

from __future__ import annotations

import pytest

from tests.unit.devcluster.sample_kinds import Tree, kind
from watchcache_devcluster.builtin import BUILTIN_RESOURCES
from watchcache_devcluster.conversions import hpa_v1_to_v2, hpa_v2_to_v1
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.intake import to_storage_form
from watchcache_devcluster.requirements import requirement_causes
from watchcache_devcluster.resources import Catalog, Resource
from watchcache_devcluster.strategies import apply_defaults, field_values, name_causes
from watchcache_devcluster.validation import immutable_causes


@pytest.fixture
def catalog() -> Catalog:
    """Give a catalog of the built-in kinds."""
    catalog = Catalog()
    catalog.add(*BUILTIN_RESOURCES)
    return catalog


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
