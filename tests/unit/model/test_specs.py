"""Specs multiply out into sources, and no object may have two of them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.items import source_spec
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.specs import (
    Choice,
    ExtensionKey,
    ExtensionSpec,
    NamespaceSet,
    ResourceWatch,
    SourceSpec,
    overlap,
)


def watch(
    resource: str = "pods",
    *,
    group: str = "",
    version: str = "",
    kind: str = "",
    namespaces: tuple[str, ...] = (),
    label_selector: str = "",
    field_selector: str = "",
    projection: str = "full",
    names: tuple[tuple[str, str], ...] = (),
    is_scope_open: bool = False,
) -> ResourceWatch:
    """Make an entry of a watch set."""
    return ResourceWatch(
        group=group,
        version=version,
        resource=resource,
        kind=kind,
        namespaces=namespaces,
        label_selector=label_selector,
        field_selector=field_selector,
        projection=projection,
        names=names,
        is_scope_open=is_scope_open,
    )


def sources(*resources: ResourceWatch, clusters: tuple[str, ...] = ("hub",)) -> list[SourceSpec]:
    """Return the sources of a spec with these entries."""
    return list(ExtensionSpec("shop", clusters, resources).sources())


def scopes(found: list[SourceSpec]) -> list[tuple[str, str, str]]:
    """Say cluster, type and namespace of each source."""
    return [(each.cluster, each.type_name, each.namespace) for each in found]


# Sources


@pytest.mark.parametrize(
    ("resources", "clusters", "expected"),
    [
        pytest.param([], ("hub",), [], id="nothing"),
        pytest.param([watch()], (), [], id="no cluster"),
        pytest.param([watch()], ("hub",), [("hub", "pods", "")], id="one"),
        pytest.param(
            [watch(), watch("deployments", group="apps")],
            ("hub",),
            [("hub", "pods", ""), ("hub", "deployments.apps", "")],
            id="two resources",
        ),
        pytest.param(
            [watch(namespaces=("b", "a"))],
            ("hub", "edge"),
            [
                ("edge", "pods", "a"),
                ("edge", "pods", "b"),
                ("hub", "pods", "a"),
                ("hub", "pods", "b"),
            ],
            id="clusters times namespaces",
        ),
        pytest.param(
            [watch(namespaces=("a",)), watch()],
            ("hub",),
            [("hub", "pods", "")],
            id="all namespaces swallow single ones",
        ),
        pytest.param(
            [watch(namespaces=("a", "b")), watch(namespaces=("b", "c"))],
            ("hub",),
            [("hub", "pods", "a"), ("hub", "pods", "b"), ("hub", "pods", "c")],
            id="the same but for namespaces is joined",
        ),
        pytest.param(
            [watch("", kind="Widget", group="example.com")],
            ("hub",),
            [("hub", "Widget.example.com", "")],
            id="by kind",
        ),
    ],
)
def test_spec_multiplies_out(
    resources: list[ResourceWatch],
    clusters: tuple[str, ...],
    expected: list[tuple[str, str, str]],
) -> None:
    """One source for each resource, cluster and namespace, each once and in order."""
    assert scopes(sources(*resources, clusters=clusters)) == expected


def test_source_has_all_that_its_entry_says() -> None:
    """Nothing of an entry is lost on the way."""
    [found] = sources(
        watch(
            "",
            group="example.com",
            version="v2",
            kind="Widget",
            namespaces=("a",),
            label_selector="app=web",
            field_selector="spec.x=1",
            projection="metadata",
            names=(("a", "x"),),
            is_scope_open=True,
        )
    )
    assert found == source_spec(
        "",
        group="example.com",
        version="v2",
        kind="Widget",
        namespace="a",
        label_selector="app=web",
        field_selector="spec.x=1",
        projection="metadata",
        names=[("a", "x")],
        is_scope_open=True,
    )


def test_names_go_to_the_sources_of_their_namespace() -> None:
    """A namespace without a named object has no source: it would keep everything there."""
    names = (("a", "x"), ("a", "y"), ("b", "z"))
    found = sources(watch(namespaces=("a", "b", "c"), names=names))
    assert [(each.namespace, each.names) for each in found] == [
        ("a", (("a", "x"), ("a", "y"))),
        ("b", (("b", "z"),)),
    ]
    [wide] = sources(watch(names=names))
    assert wide.names == names


def test_equal_wishes_are_equal() -> None:
    """Register compares values, so order and repetition must not matter to sources."""
    first = sources(watch(namespaces=("a", "b")), watch("services"))
    second = sources(watch("services"), watch(namespaces=("b",)), watch(namespaces=("a",)))
    assert first == second


# Overlaps


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param([watch(), watch(label_selector="app=web")], id="with and without a selector"),
        pytest.param(
            [watch(label_selector="app=web"), watch(label_selector="app=db")], id="two selectors"
        ),
        pytest.param([watch(), watch(projection="metadata")], id="two projections"),
        pytest.param([watch(version="v1"), watch(version="v2")], id="two versions"),
        pytest.param(
            [watch(), watch(namespaces=("a",), label_selector="app=web")],
            id="all and one namespace",
        ),
        pytest.param(
            [watch(namespaces=("a", "b")), watch(namespaces=("b", "c"), projection="metadata")],
            id="one namespace in common",
        ),
        pytest.param(
            [watch(field_selector="metadata.name=x"), watch()], id="one name and everything"
        ),
        pytest.param(
            [
                watch(field_selector="metadata.name=x"),
                watch(field_selector="metadata.name=x", projection="metadata"),
            ],
            id="one name twice",
        ),
        pytest.param(
            [
                watch(names=(("a", "x"), ("a", "y"))),
                watch(names=(("a", "y"), ("a", "z")), projection="metadata"),
            ],
            id="a name in common",
        ),
        pytest.param(
            [watch("", kind="Pod"), watch("", kind="Pod", label_selector="x")], id="by kind"
        ),
    ],
)
@pytest.mark.parametrize("is_reversed", [False, True], ids=["as written", "reversed"])
def test_overlapping_entries_are_refused(resources: list[ResourceWatch], is_reversed: bool) -> None:
    """The error names the field, the resource and the scope, and two ways to mend it."""
    with pytest.raises(InvalidRequestError) as caught:
        sources(*(reversed(resources) if is_reversed else resources))
    assert caught.value.reason == "OVERLAPPING_WATCHES"
    [violation] = caught.value.violations
    assert violation.field == "spec.resources"
    assert "objects in" in violation.description
    assert "join them into one entry, or register two extensions" in violation.description


@pytest.mark.parametrize(
    ("first", "second", "scope"),
    [
        pytest.param(watch(), watch(label_selector="x"), "all namespaces", id="everywhere"),
        pytest.param(
            watch(), watch(namespaces=("a",), label_selector="x"), "namespace a", id="in one"
        ),
        pytest.param(
            watch("deployments", group="apps", namespaces=("a",)),
            watch("deployments", group="apps", namespaces=("a",), label_selector="x"),
            "deployments.apps objects in namespace a",
            id="with the group",
        ),
    ],
)
def test_overlap_is_named(first: ResourceWatch, second: ResourceWatch, scope: str) -> None:
    """Where two entries meet is what a person has to know."""
    with pytest.raises(InvalidRequestError, match=scope):
        sources(first, second)


@pytest.mark.parametrize(
    "resources",
    [
        pytest.param([watch(), watch("services", label_selector="x")], id="other resource"),
        pytest.param([watch(), watch(group="x", label_selector="x")], id="other group"),
        pytest.param(
            [watch(namespaces=("a",)), watch(namespaces=("b",), label_selector="x")],
            id="other namespaces",
        ),
        pytest.param(
            [watch(field_selector="metadata.name=x"), watch(field_selector="metadata.name=y")],
            id="other names, asked of the API server",
        ),
        pytest.param(
            [watch(names=(("a", "x"),)), watch(names=(("a", "y"),), projection="metadata")],
            id="other names, kept here",
        ),
    ],
)
def test_entries_beside_each_other_are_accepted(resources: list[ResourceWatch]) -> None:
    """What cannot hold the same object may differ in everything."""
    assert len(sources(*resources)) == 2


def test_same_entries_on_two_clusters_do_not_overlap() -> None:
    """An object lives on one cluster."""
    found = sources(watch(), clusters=("edge", "hub"))
    assert [each.cluster for each in found] == ["edge", "hub"]
    assert overlap(found[0], found[1]), "overlap is asked of sources of one type only"


def test_sources_in_two_namespaces_do_not_overlap() -> None:
    """Asked of two sources by themselves, as a store does when discovery has named them."""
    first, second = source_spec(namespace="a"), source_spec(namespace="b")
    assert not overlap(first, second)
    assert overlap(first, source_spec())


# Properties of sources


@pytest.mark.parametrize(
    ("label_selector", "field_selector", "expected"),
    [
        pytest.param("", "", False, id="none"),
        pytest.param("app=web", "", True, id="label"),
        pytest.param("", "metadata.name=x", False, id="name"),
        pytest.param("", "metadata.name=x,metadata.namespace=a", False, id="name and namespace"),
        pytest.param("", "status.phase=Running", True, id="field"),
        pytest.param("", "metadata.name=x,spec.y=1", True, id="name and field"),
        pytest.param("", "metadata.name!=x", True, id="all but a name"),
        pytest.param("app=web", "metadata.name=x", True, id="label and name"),
    ],
)
def test_selecting_source(label_selector: str, field_selector: str, expected: bool) -> None:
    """Where an object can cease to match, DELETED on the stream proves nothing."""
    spec = source_spec(label_selector=label_selector, field_selector=field_selector)
    assert spec.is_selecting is expected


@pytest.mark.parametrize(
    ("field_selector", "expected"),
    [
        pytest.param("", "", id="none"),
        pytest.param("metadata.name=x", "x", id="name"),
        pytest.param("a=1,metadata.name=x", "x", id="among others"),
        pytest.param("metadata.name!=x", "", id="not a name"),
        pytest.param("spec.metadata.name=x", "", id="another field"),
    ],
)
def test_pinned_name(field_selector: str, expected: str) -> None:
    """The one name that the API server is asked for."""
    assert source_spec(field_selector=field_selector).pinned_name == expected


def test_extension_key_reads_like_a_path() -> None:
    """Namespace and name, ordered as such."""
    assert str(ExtensionKey("team-a", "shop")) == "team-a/shop"
    assert ExtensionKey("a", "z") < ExtensionKey("b", "a")


# Namespaces that are chosen


def chosen(resource: str = "pods", selector: str = "tier=gold", **more: Any) -> ResourceWatch:
    """Make an entry whose namespaces a selector chooses."""
    return msgspec.structs.replace(watch(resource, **more), namespace_selector=selector)


def choices(*resources: ResourceWatch, clusters: tuple[str, ...] = ("hub",)) -> list[Choice]:
    """Return what selectors choose of a spec with these entries, which has to be a right one."""
    spec = ExtensionSpec("shop", clusters, resources)
    spec.sources()
    return list(spec.choices())


def test_a_selector_makes_a_choice_for_each_cluster_and_no_source() -> None:
    """Which sources there are is up to the namespaces."""
    found = choices(chosen(), clusters=("hub", "edge"))
    assert [(each.namespaces.cluster, each.namespaces.selector) for each in found] == [
        ("edge", "tier=gold"),
        ("hub", "tier=gold"),
    ]
    assert [each.scope.namespace for each in found] == ["", ""]
    assert sources(chosen()) == []


def test_entries_with_one_selector_share_a_set() -> None:
    """However many resources there are, namespaces are read once."""
    found = choices(chosen(), chosen("secrets"))
    assert len(found) == 2
    assert {each.namespaces for each in found} == {NamespaceSet("hub", "tier=gold")}


def test_a_set_is_read_as_metadata_of_the_namespaces_that_match() -> None:
    """No more of them than that is needed."""
    source = NamespaceSet("hub", "tier=gold").source
    assert (source.resource, source.version, source.namespace) == ("namespaces", "v1", "")
    assert (source.label_selector, source.projection) == ("tier=gold", "metadata")


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(watch(namespaces=("a",)), id="some named"),
        pytest.param(chosen(selector="age=old"), id="another selector"),
        pytest.param(chosen("secrets", label_selector="x"), id="another resource"),
        pytest.param(watch(namespaces=("a",), field_selector="metadata.name=b"), id="another name"),
    ],
)
def test_what_may_stand_beside_a_choice(other: ResourceWatch) -> None:
    """The same but for namespaces, and what can be no object of it."""
    first = chosen(field_selector=other.field_selector and "metadata.name=a")
    assert choices(first, other)


def test_all_namespaces_swallow_a_choice() -> None:
    """It would choose from what is watched already."""
    assert choices(chosen(), watch()) == []
    assert scopes(sources(chosen(), watch())) == [("hub", "pods", "")]


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (watch(label_selector="x"), "in namespaces that match a namespace_selector"),
        (
            watch(label_selector="x", namespaces=("a",)),
            "in namespace a, should its labels match a namespace_selector,",
        ),
        (
            chosen(selector="tier=silver", label_selector="x"),
            "in namespaces that match a namespace_selector",
        ),
        (chosen(projection="metadata"), "in namespaces that match a namespace_selector"),
    ],
    ids=["all", "named", "disjoint selectors", "projection"],
)
def test_what_could_cover_the_same_objects_is_refused(other: ResourceWatch, told: str) -> None:
    """Labels change, so no two selectors are taken to be of different namespaces for ever."""
    for pair in ([chosen(), other], [other, chosen()]):
        with pytest.raises(InvalidRequestError, match="could cover the same pods objects") as error:
            choices(*pair)
        assert told in str(error.value)
        assert error.value.reason == "OVERLAPPING_WATCHES"
