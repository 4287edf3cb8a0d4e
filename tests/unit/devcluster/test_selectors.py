"""Label and field selectors: what they read, what they refuse, what they select."""

from __future__ import annotations

import pytest

from watchcache_devcluster.builtin import BUILTIN_RESOURCES
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.resources import Resource
from watchcache_devcluster.selectors import parse_field_selector, parse_label_selector

PODS = next(resource for resource in BUILTIN_RESOURCES if resource.table == "pods")
CONFIGMAPS = next(resource for resource in BUILTIN_RESOURCES if resource.table == "configmaps")
NODES = next(resource for resource in BUILTIN_RESOURCES if resource.table == "nodes")
WIDGETS = Resource(
    "demo.test", "v1", "widgets", "Widget", True, is_custom=True, selectable=("spec.size",)
)
GLOBES = Resource("demo.test", "v1", "globes", "Globe", False, is_custom=True)

LABELS = {"app": "web", "tier": "gold", "n": "3"}

SELECTED = {
    "": True,
    "  ": True,
    "app": True,
    "absent": False,
    "!absent": True,
    "!app": False,
    "app=web": True,
    "app==web": True,
    "app = web , tier": True,
    "app=": False,
    "app!=web": False,
    "absent!=web": True,
    "app in (web, db)": True,
    "app in ()": False,
    "app in (,web)": True,
    "app notin (web)": False,
    "absent notin (web)": True,
    "n>2": True,
    "n<2": False,
    "app>2": False,
    "absent>2": False,
    "in in (in)": False,
    "example.test/app!=x": True,
}


@pytest.mark.parametrize(("text", "expected"), SELECTED.items(), ids=SELECTED.keys())
def test_a_label_selector_is_a_conjunction(text: str, expected: bool) -> None:
    """Every requirement must hold; a missing label satisfies the negative ones only."""
    assert parse_label_selector(text).matches(LABELS) is expected


@pytest.mark.parametrize(
    "text",
    [
        "=x",
        "a===b",
        "a b",
        "a in b",
        "a in (b",
        "a in (b c)",
        "a in ((b))",
        "a,",
        "a,,b",
        "a=b c",
        "-a=b",
        "/a=b",
        "UPPER.test/a=b",
        "a=-b-",
        "n>x",
        "n>-1",
        "!",
        "!=a",
        "a=(",
    ],
)
def test_a_label_selector_that_cannot_be_read_is_a_bad_request(text: str) -> None:
    """Whatever is not of the grammar is 400."""
    with pytest.raises(ApiError) as caught:
        parse_label_selector(text)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", True),
        ("metadata.name=a", True),
        ("metadata.name==b", False),
        ("metadata.name!=b,spec.nodeName=", True),
        ("spec.nodeName=a\\,b", False),
        ("status.phase=x\\=y\\\\z,", True),
    ],
)
def test_a_field_selector_compares_values(text: str, expected: bool) -> None:
    """Terms are equalities and inequalities; a backslash escapes comma, equals and backslash."""
    values = {"metadata.name": "a", "status.phase": "x=y\\z"}
    selector = parse_field_selector(text, PODS)
    assert selector.matches(lambda label: values.get(label, "")) is expected
    assert bool(selector) is bool(text)


@pytest.mark.parametrize(
    ("resource", "text", "message"),
    [
        (PODS, "spec.foo=1", "field label not supported: spec.foo"),
        (CONFIGMAPS, "data=1", '"data" is not a known field selector: only "metadata.name"'),
        (NODES, "metadata.namespace=a", "field label not supported: metadata.namespace"),
        (WIDGETS, "spec.other=1", "field label not supported: spec.other"),
        (GLOBES, "spec.other=1", '"spec.other" is not a known field selector: only'),
        (PODS, "metadata.name", "can't understand 'metadata.name'"),
        (PODS, "metadata.name=a=b", "unescaped character in value: 61"),
        (PODS, "metadata.name=a\\b", "invalid escape sequence: \\b"),
        (PODS, "metadata.name=a\\", "invalid escape sequence: \\"),
    ],
)
def test_a_field_selector_that_cannot_be_served_is_a_bad_request(
    resource: Resource, text: str, message: str
) -> None:
    """An unknown label or a malformed term is 400 and is named."""
    with pytest.raises(ApiError) as caught:
        parse_field_selector(text, resource)
    assert caught.value.code == 400
    assert message in caught.value.message


def test_a_version_may_call_a_field_by_another_name() -> None:
    """events.k8s.io calls `regarding` what is kept as `involvedObject`."""
    events = next(resource for resource in BUILTIN_RESOURCES if resource.group == "events.k8s.io")
    selector = parse_field_selector("regarding.name=web", events)
    assert selector.matches(lambda label: "web" if label == "involvedObject.name" else "")


def test_a_declared_field_of_a_custom_kind_can_be_selected() -> None:
    """A label among the selectable ones is accepted, and so is the namespace."""
    selector = parse_field_selector("spec.size=3,metadata.namespace=a", WIDGETS)
    values = {"spec.size": "3", "metadata.namespace": "a"}
    assert selector.matches(lambda label: values[label])
    assert selector.exact("spec.size") == "3"
    assert selector.exact("metadata.name") == ""
