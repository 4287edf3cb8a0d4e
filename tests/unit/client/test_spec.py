"""A spec is made from Python values as the contract has it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watchcache import InvalidArgumentError, Projection, Resource
from watchcache.spec import build_spec
from watchcache.v1alpha1 import extension_pb2 as pb2


def test_resources_are_taken_apart() -> None:
    """Plurals and kinds, groups and versions each go into their own field."""
    spec = build_spec(
        watch=["pods", "deployments.v1.apps", "Widget.example.com", Resource("Pod")],
        clusters=["hub"],
        ttl="2m",
        service_account="shop",
    )
    assert spec == pb2.ExtensionSpec(
        service_account="shop",
        clusters=["hub"],
        ttl={"seconds": 120},
        resources=pb2.ResourceWatchSet(
            items=[
                pb2.ResourceWatch(resource="pods"),
                pb2.ResourceWatch(group="apps", version="v1", resource="deployments"),
                pb2.ResourceWatch(group="example.com", kind="Widget"),
                pb2.ResourceWatch(kind="Pod"),
            ]
        ),
    )


def test_an_entry_goes_before_the_defaults() -> None:
    """Namespaces and projection of the registration hold where an entry says nothing itself."""
    spec = build_spec(
        watch=[
            "pods",
            Resource("nodes", namespaces=(), projection="full"),
            Resource("secrets", ["b"], label_selector="x=y", field_selector="type=z"),
        ],
        namespaces=["a"],
        projection=Projection.METADATA,
    )
    pods, nodes, secrets = spec.resources.items
    assert (list(pods.namespaces), pods.projection) == (["a"], pb2.PROJECTION_METADATA)
    assert (list(nodes.namespaces), nodes.projection) == ([], pb2.PROJECTION_FULL)
    assert list(secrets.namespaces) == ["b"]
    assert (secrets.label_selector, secrets.field_selector) == ("x=y", "type=z")


def test_namespaces_are_chosen_by_label() -> None:
    """By an entry itself, or by the registration where an entry names none."""
    spec = build_spec(
        watch=[
            "pods",
            Resource("secrets", ["b"]),
            Resource("nodes", namespaces=()),
            Resource("jobs.batch", namespace_selector="tier=silver"),
        ],
        namespace_selector="tier=gold",
    )
    assert [(list(each.namespaces), each.namespace_selector) for each in spec.resources.items] == [
        ([], "tier=gold"),
        (["b"], ""),
        ([], ""),
        ([], "tier=silver"),
    ]
    spec = build_spec(watch=[Resource("pods", namespace_selector="a")], namespaces=["b"])
    (entry,) = spec.resources.items
    assert (list(entry.namespaces), entry.namespace_selector) == ([], "a")


@pytest.mark.parametrize(
    "parameters",
    [
        {"watch": ["pods"], "namespaces": ["a"], "namespace_selector": "b"},
        {"content": "kind: Pod", "namespace_selector": "b"},
    ],
    ids=["beside namespaces", "beside content"],
)
def test_a_selector_of_namespaces_has_to_have_a_meaning(parameters: Any) -> None:
    """Where something else says it already, it is refused."""
    with pytest.raises(InvalidArgumentError) as refused:
        build_spec(**parameters)
    assert [each.field for each in refused.value.field_violations] == ["namespace_selector"]


def test_watching_nothing_is_told_from_saying_nothing() -> None:
    """An empty list is an empty watch set; without either parameter none is set."""
    assert build_spec(watch=[]).WhichOneof("watch_set") == "resources"
    assert build_spec().WhichOneof("watch_set") is None


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("kind: Pod", b"kind: Pod"),
        (b"kind: Pod", b"kind: Pod"),
        ({"kind": "Pod"}, {"kind": "Pod"}),
        ([{"kind": "Pod"}], {"apiVersion": "v1", "kind": "List", "items": [{"kind": "Pod"}]}),
    ],
    ids=["text", "bytes", "one object", "several"],
)
def test_content_is_sent_as_manifests(content: Any, expected: Any) -> None:
    """Text goes as it is, objects as JSON."""
    spec = build_spec(content=content, only_these_objects=True, projection="metadata").content
    assert spec.only_these_objects
    assert spec.projection == pb2.PROJECTION_METADATA
    sent = spec.manifests
    assert (sent if isinstance(expected, bytes) else json.loads(sent)) == expected


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"watch": ["pods"], "content": ""}, "watch"),
        ({"watch": "pods"}, "watch"),
        ({"watch": ["pods", "No Resource"]}, "watch[1]"),
        ({"watch": [Resource("pods", namespaces="a")]}, "watch[0].namespaces"),
        ({"watch": [Resource("pods", projection="half")]}, "watch[0].projection"),
        ({"watch": ["pods"], "namespaces": "a"}, "namespaces"),
        ({"clusters": "hub"}, "clusters"),
        ({"content": "x", "namespaces": ["a"]}, "namespaces"),
        ({"content": {"a": object}}, "content"),
        ({"watch": ["pods"], "only_these_objects": True}, "only_these_objects"),
        ({"ttl": "soon"}, "ttl"),
    ],
)
def test_a_value_that_cannot_be_is_named(arguments: dict[str, Any], field: str) -> None:
    """The error says which parameter is wrong, before anything is sent."""
    with pytest.raises(InvalidArgumentError) as caught:
        build_spec(**arguments)
    assert [violation.field for violation in caught.value.field_violations] == [field]


def test_every_value_that_cannot_be_is_named() -> None:
    """Each rule is told of, in each entry, so that one correction is enough."""
    with pytest.raises(InvalidArgumentError) as caught:
        build_spec(
            watch=["Not A Thing", Resource("no thing", ["UP"], projection="none"), "pods"],
            namespaces=["UPPER", "team-a", "x" * 64],
            projection="half",
            clusters="hub",
            ttl="soon",
        )
    assert [violation.field for violation in caught.value.field_violations] == [
        "clusters",
        "ttl",
        "projection",
        "namespaces[0]",
        "namespaces[2]",
        "watch[0]",
        "watch[1]",
        "watch[1].namespaces[0]",
        "watch[1].projection",
    ]
    assert "one of full, without-managed-fields, metadata" in str(caught.value)
