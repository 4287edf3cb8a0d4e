"""Rules of finding a resource or kind, from both forms of discovery documents."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from tests.unit.kubernetes.discovery_documents import (
    AUTOSCALERS,
    DEPLOYMENTS,
    USUAL,
    Kind,
    Served,
    Version,
)
from watchcache_server.kubernetes.catalog import Catalog, GroupVersion
from watchcache_server.kubernetes.documents import (
    DocumentError,
    decode_aggregated,
    decode_group_list,
    decode_resource_list,
    decode_version_list,
)
from watchcache_server.kubernetes.served import (
    Finding,
    NotServed,
    Unreadable,
    VersionNotServed,
)
from watchcache_server.kubernetes.served import Served as Found


def aggregated(versions: Sequence[Version] = USUAL) -> Catalog:
    """Read a catalog from aggregated documents."""
    served, found = Served(list(versions)), list[GroupVersion]()
    for is_core in (True, False):
        part = decode_aggregated(json.dumps(served.aggregated(is_core=is_core)).encode())
        assert part is not None
        found += part
    return Catalog.of(found)


def legacy(versions: Sequence[Version] = USUAL) -> Catalog:
    """Read a catalog from legacy documents."""
    documents = {
        path: json.dumps(body).encode() for path, body in Served(list(versions)).legacy().items()
    }
    pairs = [("", version) for version in decode_version_list(documents["/api"])]
    pairs += decode_group_list(documents["/apis"])
    return Catalog.of(
        decode_resource_list(
            group, version, documents[f"/apis/{group}/{version}" if group else f"/api/{version}"]
        )
        for group, version in pairs
    )


def test_both_forms_give_the_same_catalog() -> None:
    """Which one a server speaks makes no difference to anybody."""
    assert list(aggregated()) == list(legacy())
    assert len(aggregated()) == 6


@pytest.mark.parametrize("name", ["deployments", "Deployment"])
def test_a_resource_is_found_by_plural_and_by_kind(name: str) -> None:
    """With its scope and its verbs."""
    found = aggregated().find("apps", "", name)
    assert isinstance(found, Found)
    resource = found.resource
    assert (resource.group, resource.version) == ("apps", "v1")
    assert (resource.resource, resource.kind) == ("deployments", "Deployment")
    assert resource.is_namespaced
    assert resource.verbs == {"get", "list", "watch"}
    nodes = aggregated().find("", "v1", "nodes")
    assert isinstance(nodes, Found)
    assert not nodes.resource.is_namespaced


def test_without_a_version_the_preferred_one_is_found() -> None:
    """The server's order decides, not the alphabet's."""
    for catalog in (aggregated(), legacy()):
        found = catalog.find("autoscaling", "", "HorizontalPodAutoscaler")
        assert isinstance(found, Found)
        assert found.resource.version == "v2"
        assert found.versions == ("v2", "v1")


NOT_FOUND: dict[str, tuple[tuple[str, str, str], Finding]] = {
    "a wrong version": (
        ("autoscaling", "v9", "HorizontalPodAutoscaler"),
        VersionNotServed(("v2", "v1")),
    ),
    "a wrong group": (("", "v1", "Deployment"), NotServed(("deployments.apps",))),
    "a group left out": (("", "", "deployments"), NotServed(("deployments.apps",))),
    "the singular": (("apps", "", "deployment"), NotServed(("deployments.apps",))),
    "a short name": (("", "", "po"), NotServed(("pods",))),
    "a typing error": (("apps", "", "deploiments"), NotServed(("deployments.apps",))),
    "a subresource": (("", "v1", "pods/status"), NotServed(())),
    "nothing like it": (("example.com", "v1", "Widget"), NotServed(())),
}


@pytest.mark.parametrize("case", NOT_FOUND)
def test_what_is_not_served_is_told_with_what_is_near(case: str) -> None:
    """Names are exact, so that a watch set means the same everywhere; near ones are hints."""
    (group, version, name), finding = NOT_FOUND[case]
    assert aggregated().find(group, version, name) == finding


def test_of_two_resources_of_a_kind_the_watchable_one_is_meant() -> None:
    """An endpoint that only creates may answer with the same kind."""
    catalog = aggregated(
        [
            Version(
                "example.com",
                "v1",
                (Kind("widgetclaims", "Widget", verbs=("create",)), Kind("widgets", "Widget")),
            )
        ]
    )
    found = catalog.find("example.com", "", "Widget")
    assert isinstance(found, Found)
    assert found.resource.resource == "widgets"


def test_entries_that_only_hold_subresources_are_left_out() -> None:
    """Aggregated discovery lists them without a kind or without verbs."""
    document = {
        "kind": "APIGroupDiscoveryList",
        "items": [
            {
                "metadata": {"name": "example.com"},
                "versions": [
                    {
                        "version": "v1",
                        "resources": [
                            {"resource": "a", "scope": "Cluster"},
                            {"resource": "b", "responseKind": {}, "verbs": ["list"]},
                            {"resource": "c", "responseKind": {"kind": "C"}, "verbs": None},
                        ],
                    },
                    {"version": "v2", "resources": None},
                ],
            }
        ],
    }
    found = decode_aggregated(json.dumps(document).encode())
    assert found == [GroupVersion("example.com", "v1"), GroupVersion("example.com", "v2")]


def test_a_stale_group_is_unreadable_and_no_other_is() -> None:
    """An aggregated API that is down may serve the kind or not: that is not to be told."""
    catalog = aggregated([*USUAL, Version("metrics.k8s.io", "v1beta1", is_stale=True)])
    assert catalog.find("metrics.k8s.io", "", "PodMetrics") == Unreadable(
        "metrics.k8s.io/v1beta1", "the API server has not reached it lately"
    )
    assert isinstance(catalog.find("apps", "", "Deployment"), Found)
    assert catalog.find("apps", "", "Widget") == NotServed(())
    assert list(catalog.problems) == ["metrics.k8s.io/v1beta1"]


def test_a_wanted_version_is_not_excused_by_another_stale_one() -> None:
    """Only the version that was asked for counts."""
    catalog = aggregated(
        [Version("autoscaling", "v2", (AUTOSCALERS,)), Version("autoscaling", "v1", is_stale=True)]
    )
    assert isinstance(catalog.find("autoscaling", "v1", "HorizontalPodAutoscaler"), Unreadable)
    assert isinstance(
        catalog.find("autoscaling", "v3", "HorizontalPodAutoscaler"), VersionNotServed
    )
    assert isinstance(catalog.find("autoscaling", "", "HorizontalPodAutoscaler"), Found)


def test_what_was_known_of_a_stale_group_is_kept() -> None:
    """Discovery that forgets its content does not make us forget."""
    metrics = Version("metrics.k8s.io", "v1beta1", (Kind("pods", "PodMetrics"),))
    before = aggregated([*USUAL, metrics])
    now = aggregated([*USUAL, Version("metrics.k8s.io", "v1beta1", is_stale=True)])
    kept = now.with_kept(before)
    assert isinstance(kept.find("metrics.k8s.io", "", "PodMetrics"), Found)
    assert isinstance(kept.find("metrics.k8s.io", "", "NodeMetrics"), Unreadable)
    assert not kept.vanished_since(before)


def test_what_vanished_is_told_and_can_be_doubted() -> None:
    """A lost group, version or resource; doubted, it is served as before, in its old order."""
    before = aggregated()
    without_v2 = [each for each in USUAL if each.version != "v2"]
    for now in (
        aggregated(without_v2),
        aggregated([Version(each.group, each.version) for each in USUAL]),
        Catalog(),
    ):
        vanished = now.vanished_since(before)
        assert any(str(each) == "autoscaling/v2" for each in vanished)
        doubted = now.with_doubted(vanished, "not ready")
        assert isinstance(doubted.find("autoscaling", "v2", "HorizontalPodAutoscaler"), Found)
        assert isinstance(doubted.find("autoscaling", "v2", "Other"), Unreadable)
    assert before.vanished_since(Catalog()) == ()
    grown = aggregated([*USUAL, Version("example.com", "v1", (DEPLOYMENTS,))])
    assert grown.vanished_since(before) == ()


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"\xff", b'{"items": 3}'])
def test_a_malformed_document_is_an_error(body: bytes) -> None:
    """It is never taken for a server that serves nothing."""
    with pytest.raises(DocumentError):
        decode_aggregated(body)


@pytest.mark.parametrize("body", [b"{}", b'{"kind": "Status"}', b'{"kind": "APIGroupList"}'])
def test_a_document_of_another_kind_is_an_error(body: bytes) -> None:
    """A proxy that answers 200 with something else says nothing about what is served."""
    with pytest.raises(DocumentError):
        decode_version_list(body)
    with pytest.raises(DocumentError):
        decode_resource_list("apps", "v1", body)
    if b"APIGroupList" not in body:
        with pytest.raises(DocumentError):
            decode_group_list(body)
