"""Manifests: which watch set they stand for."""

from __future__ import annotations

import json
import time

import pytest

from watchcache_server.extensions.content import watches_of
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.specs import ResourceWatch
from watchcache_server.model.states import Projection


def read(manifests: str | bytes, *, only: bool = False, limit: int = 100) -> list[ResourceWatch]:
    """Return the watch set of manifests for an extension of namespace team-a."""
    raw = manifests.encode() if isinstance(manifests, str) else manifests
    return list(
        watches_of(
            raw,
            namespace="team-a",
            only_these_objects=only,
            projection=Projection.METADATA,
            max_documents=limit,
        )
    )


def manifest(kind: str, name: str, namespace: str = "", api_version: str = "v1") -> str:
    """Make a manifest in flow style."""
    where = f", namespace: {namespace}" if namespace else ""
    return f"{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: {name}{where}}}}}\n"


def test_each_kind_and_namespace_is_watched_once() -> None:
    """Objects of one kind in one namespace are one entry; without a namespace, the extension's."""
    text = "---\n".join(
        [
            manifest("Deployment", "a", api_version="apps/v1"),
            manifest("Deployment", "b", api_version="apps/v1"),
            manifest("ConfigMap", "c", "other"),
            manifest("ConfigMap", "d"),
        ]
    )
    found = read(text)
    assert [(w.group, w.version, w.kind, w.namespaces) for w in found] == [
        ("", "v1", "ConfigMap", ("other",)),
        ("", "v1", "ConfigMap", ("team-a",)),
        ("apps", "v1", "Deployment", ("team-a",)),
    ]
    assert all(w.projection == "metadata" and not w.names for w in found)
    assert all(w.is_scope_open and not w.field_selector for w in found)


def test_one_object_is_asked_for_by_name() -> None:
    """Narrowed to one object, the API server selects it, so that a right on it suffices."""
    (watch,) = read(manifest("ConfigMap", "c"), only=True)
    assert (watch.field_selector, watch.names) == ("metadata.name=c", ())


def test_several_objects_are_picked_out() -> None:
    """Narrowed to several objects, one informer keeps those."""
    (watch,) = read(f"{manifest('ConfigMap', 'b')}---\n{manifest('ConfigMap', 'a')}", only=True)
    assert (watch.field_selector, watch.names) == ("", (("team-a", "a"), ("team-a", "b")))


LISTS = {
    "YAML": "kind: List\nitems:\n- " + manifest("Pod", "a") + "- " + manifest("Pod", "b"),
    "a typed list": "kind: PodList\nitems:\n- " + manifest("Pod", "a"),
    "nested": "kind: List\nitems:\n- {kind: List, items: [" + manifest("Pod", "a") + "]}\n",
    "JSON": json.dumps(
        {
            "kind": "List",
            "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}],
        }
    ),
    "a JSON array": json.dumps([{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}]),
    "flow-style YAML": manifest("Pod", "a"),
    "a byte order mark": "\ufeff" + manifest("Pod", "a"),
    "an empty list beside": "kind: List\nitems: null\n---\n" + manifest("Pod", "a"),
    "empty documents": "---\n---\n" + manifest("Pod", "a") + "---\n",
    "an alias": "x: &m {name: a}\napiVersion: v1\nkind: Pod\nmetadata: *m\n",
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_expanded(name: str) -> None:
    """Whatever form it comes in, it is the same watch set."""
    (watch,) = read(LISTS[name])
    assert (watch.kind, watch.namespaces) == ("Pod", ("team-a",))


WRONG = {
    "not an object": ("- 1\n", "not an object"),
    "no apiVersion": ("kind: Pod\nmetadata: {name: a}", "has no apiVersion"),
    "no kind": ("apiVersion: v1\nmetadata: {name: a}", "has no kind"),
    "no metadata": ("apiVersion: v1\nkind: Pod", "no metadata.name"),
    "a name with a slash": (manifest("Pod", "a/b"), "metadata.name"),
    "a bad namespace": (manifest("Pod", "a", "A_B"), "metadata.namespace"),
    "a name of half a letter": (
        '{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a\\ud800"}}',
        "no name can have",
    ),
    "a kind of half a letter": (
        '{"apiVersion": "v1", "kind": "\\ud800", "metadata": {"name": "a b"}}',
        "is no kind",
    ),
    "a kind with a slash": (manifest("Pod/x", "a"), "is no kind"),
    "a group that is none": (manifest("Pod", "a", api_version="Apps!/v1"), "apiVersion"),
    "a version that is none": (manifest("Pod", "a", api_version="apps/V_1"), "apiVersion"),
    "no group": (manifest("Pod", "a", api_version="/v1"), "apiVersion"),
    "a metadata that is text": ("apiVersion: v1\nkind: Pod\nmetadata: a", "no metadata.name"),
    "two slashes": (manifest("Pod", "a", api_version="a/b/c"), "apiVersion"),
    "a key that is no text": ("? [a]\n: 1", "key is not text"),
    "a key twice": ("kind: A\nkind: B", "twice"),
    "a JSON key twice": ('{"kind": "A", "kind": "B"}', "twice"),
    "deep YAML": ("[" * 500 + "x", "nested"),
    "deep JSON": ("[" * 100_000, "nested"),
    "lists in lists": ("{kind: List, items: [" * 6 + "]}" * 6, "nested"),
    "items that are none": ("kind: List\nitems: 5", "is not a list"),
    "nothing": ("", "no object"),
    "not YAML": ("a: [1,", "not YAML"),
    "not UTF-8": (b"\xff", "UTF-8"),
    "too many": ("---\n".join([manifest("Pod", "a")] * 101), "max_manifest_documents"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named(name: str) -> None:
    """One error, with the place and the rule."""
    text, words = WRONG[name]
    with pytest.raises(InvalidRequestError) as caught:
        read(text)
    assert caught.value.reason == "INVALID_MANIFESTS"
    assert words in str(caught.value)
    assert all(v.field.startswith("spec.content.manifests") for v in caught.value.violations)


def test_a_name_that_a_selector_would_misread_is_not_selected_upstream() -> None:
    """Some kinds allow commas and equals signs in names; those are picked out here."""
    for name in ("a,metadata.namespace=kube-system", "a=b"):
        (watch,) = read(manifest("ClusterRole", f"'{name}'"), only=True)
        assert (watch.field_selector, watch.names) == ("", (("team-a", name),))


def test_lists_of_nothing_are_read_in_no_time() -> None:
    """A few kilobytes of aliases can stand for billions of empty Lists."""
    row = ", ".join(["*e"] * 500)
    rows = ", ".join(["*r"] * 500)
    text = (
        "kind: List\nitems:\n- &e {kind: List, items: []}\n"
        f"- &r {{kind: List, items: [{row}]}}\n- &s {{kind: List, items: [{rows}]}}\n- *s\n"
    )
    began = time.monotonic()
    with pytest.raises(InvalidRequestError, match="more than 1000 Lists and empty documents"):
        read(text, limit=1000)
    assert time.monotonic() - began < 20.0


def test_empty_documents_count() -> None:
    """Hundreds of thousands of them fit into a spec."""
    with pytest.raises(InvalidRequestError, match="more than 100 Lists and empty documents"):
        read("---\n" * 102)


def test_many_keys_are_compared_in_no_time() -> None:
    """A JSON object with tens of thousands of keys, one of them twice at the end."""
    keys = ", ".join(f'"k{number}": 0' for number in range(60_000))
    began = time.monotonic()
    with pytest.raises(InvalidRequestError, match="'k0' appears twice"):
        read("{" + keys + ', "k0": 1}')
    assert time.monotonic() - began < 20.0


def test_every_wrong_object_is_named() -> None:
    """All of them at once, by their place."""
    with pytest.raises(InvalidRequestError) as caught:
        read("kind: A\n---\nkind: B\n")
    assert [v.field for v in caught.value.violations] == [
        "spec.content.manifests[0]",
        "spec.content.manifests[1]",
    ]
