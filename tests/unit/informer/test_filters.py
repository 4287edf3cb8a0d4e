"""Filters let through what each part allows, and have one digest for one meaning."""

from __future__ import annotations

import itertools

import pytest

from tests.items import served, source_spec
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.source import Source
from watchcache_server.model.specs import SourceSpec

DEPLOYMENTS = source_spec("deployments", group="apps", namespace="a")
PODS = source_spec("pods", cluster="edge")


@pytest.mark.parametrize(
    ("wanted", "spec", "expected"),
    [
        pytest.param(EVERYTHING, DEPLOYMENTS, True, id="everything"),
        pytest.param(Filter(clusters=("hub",)), DEPLOYMENTS, True, id="its cluster"),
        pytest.param(Filter(clusters=("edge", "hub")), DEPLOYMENTS, True, id="one of two clusters"),
        pytest.param(Filter(clusters=("edge",)), DEPLOYMENTS, False, id="another cluster"),
        pytest.param(
            Filter(resources=(("apps", "deployments"),)), DEPLOYMENTS, True, id="its resource"
        ),
        pytest.param(
            Filter(resources=(("", "deployments"),)), DEPLOYMENTS, False, id="another group"
        ),
        pytest.param(
            Filter(resources=(("apps", "replicasets"),)), DEPLOYMENTS, False, id="another resource"
        ),
        pytest.param(Filter(namespaces=("a", "b")), DEPLOYMENTS, True, id="its namespace"),
        pytest.param(Filter(namespaces=("b",)), DEPLOYMENTS, False, id="another namespace"),
        pytest.param(Filter(namespaces=("b",)), PODS, True, id="a namespace of all"),
        pytest.param(
            Filter(clusters=("hub",), resources=(("", "pods"),)),
            DEPLOYMENTS,
            False,
            id="parts are joined by AND",
        ),
        pytest.param(Filter(label_selector="app=web"), PODS, True, id="labels are of objects"),
    ],
)
def test_source_passes_if_its_objects_may(wanted: Filter, spec: SourceSpec, expected: bool) -> None:
    """A source passes unless none of its objects can."""
    assert wanted.passes_source(Source(1, spec)) is expected


def test_source_of_which_only_the_kind_is_known_may_pass() -> None:
    """Until discovery has named its resource it may be any of its group; then it is that one."""
    source = Source(1, source_spec("", group="apps", kind="Deployment"))
    wanted = Filter(resources=(("apps", "deployments"),))
    others = Filter(resources=(("apps", "replicasets"), ("", "deployments")))
    assert wanted.passes_source(source)
    assert others.passes_source(source)
    assert not Filter(resources=(("", "pods"),)).passes_source(source)
    source.served = served("deployments", "Deployment", group="apps")
    assert wanted.passes_source(source)
    assert not others.passes_source(source)


@pytest.mark.parametrize(
    ("wanted", "namespace", "labels", "expected"),
    [
        pytest.param(EVERYTHING, "", (), True, id="everything, cluster-scoped"),
        pytest.param(Filter(namespaces=("a",)), "a", (), True, id="its namespace"),
        pytest.param(Filter(namespaces=("a",)), "b", (), False, id="another namespace"),
        pytest.param(Filter(namespaces=("a",)), "", (), False, id="cluster-scoped"),
        pytest.param(Filter(label_selector="x=1"), "a", ("x", "1"), True, id="its label"),
        pytest.param(Filter(label_selector="x=1"), "a", ("x", "2"), False, id="another value"),
        pytest.param(Filter(label_selector="x=1"), "a", (), False, id="no labels"),
        pytest.param(
            Filter(namespaces=("a",), label_selector="x=1"), "b", ("x", "1"), False, id="AND"
        ),
    ],
)
def test_object_passes_by_namespace_and_labels(
    wanted: Filter, namespace: str, labels: tuple[str, ...], expected: bool
) -> None:
    """Both parts have to let an object through."""
    assert wanted.passes(namespace, labels) is expected


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(EVERYTHING, True, id="everything"),
        pytest.param(Filter(clusters=("hub",), resources=(("", "pods"),)), True, id="by source"),
        pytest.param(Filter(namespaces=("a",)), False, id="by namespace"),
        pytest.param(Filter(label_selector="x"), False, id="by label"),
    ],
)
def test_filter_knows_whether_it_looks_at_objects(wanted: Filter, expected: bool) -> None:
    """Where only sources are filtered, objects need not be looked at."""
    assert wanted.passes_all_objects is expected


FILTERS = [
    EVERYTHING,
    Filter(clusters=("a",)),
    Filter(namespaces=("a",)),
    Filter(namespaces=("a", "b")),
    Filter(namespaces=("ab",)),
    Filter(label_selector="a"),
    Filter(resources=(("", "a"),)),
    Filter(resources=(("a", ""),)),
]


@pytest.mark.parametrize(("first", "second"), list(itertools.combinations(FILTERS, 2)))
def test_different_filters_have_different_digests(first: Filter, second: Filter) -> None:
    """The parts do not run into each other."""
    assert first.digest != second.digest


def test_digest_lasts_over_a_restart() -> None:
    """Tokens hold it, so it may not change from process to process or release to release."""
    wanted = Filter(
        clusters=("hub",),
        resources=(("apps", "deployments"),),
        namespaces=("a", "b"),
        label_selector="app=web",
    )
    assert EVERYTHING.digest.hex() == "4987427dcf5e49a9"
    assert wanted.digest.hex() == "4bb6daf454a2431d"
