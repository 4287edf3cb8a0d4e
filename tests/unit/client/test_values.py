"""Values as people write them: lengths of time, names of resources and objects, words."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache import Backoff, InvalidArgumentError, Key, Projection
from watchcache.durations import duration_message, seconds_of
from watchcache.keys import ResourceName, parse_extension_name, parse_resource
from watchcache.states import LEFT_REASONS, SOURCE_STATES, LeftReason, SourceState
from watchcache.v1alpha1 import event_pb2


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("90s", 90),
        ("2m", 120),
        ("1h30m", 5400),
        ("1d", 86400),
        ("500ms", 0.5),
        ("1.5s", 1.5),
        (3, 3),
        (0, 0),
        (2.5, 2.5),
        (timedelta(minutes=1), 60),
    ],
)
def test_a_length_of_time_is_read(value: Any, seconds: float) -> None:
    """Text with units, bare seconds and timedeltas mean what they say."""
    assert seconds_of(value, field="ttl") == pytest.approx(seconds)
    assert duration_message(seconds).ToTimedelta().total_seconds() == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value", ["", "2", "m2", "2 m", "-2m", "2w", "2m!", -1, float("nan"), float("inf")]
)
def test_what_is_no_length_of_time_is_refused(value: Any) -> None:
    """The error names the field and shows how to write it."""
    with pytest.raises(InvalidArgumentError, match="ttl") as caught:
        seconds_of(value, field="ttl")
    assert caught.value.field_violations[0].field == "ttl"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pods", ResourceName("", "pods")),
        ("pods.", ResourceName("", "pods")),
        ("pods.v1", ResourceName("", "pods", "v1")),
        ("pods.v1.", ResourceName("", "pods", "v1")),
        ("deployments.apps", ResourceName("apps", "deployments")),
        ("deployments.v1.apps", ResourceName("apps", "deployments", "v1")),
        ("widgets.v1beta2.example.com", ResourceName("example.com", "widgets", "v1beta2")),
        ("widgets.example.com", ResourceName("example.com", "widgets")),
        ("widgets.v1beta.example.com", ResourceName("v1beta.example.com", "widgets")),
    ],
)
def test_a_resource_is_read_as_kubectl_reads_it(text: str, name: ResourceName) -> None:
    """Plural, then a version if it looks like one, then the group."""
    assert parse_resource(text) == name
    assert parse_resource(str(name)) == name._replace(version="")


@pytest.mark.parametrize("text", ["", ".", "Pods", ".apps", "a/b", "pods.A", "pods..x"])
def test_what_is_no_resource_is_refused(text: str) -> None:
    """A plural is lower case, and a group is a DNS subdomain."""
    with pytest.raises(InvalidArgumentError, match="plural"):
        parse_resource(text)


_part = st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), max_size=8)
_cluster = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


@given(namespace=_part, name=_part.filter(bool), cluster=_cluster)
def test_a_key_is_read_as_it_is_written(namespace: str, name: str, cluster: str) -> None:
    """Str and parse are inverse, also for clusters whose names hold slashes."""
    if cluster.startswith("/") or cluster.endswith("/"):
        cluster = ""
    key = Key(namespace, name, cluster)
    assert Key.parse(str(key)) == key
    assert Key.of(str(key)) == Key.of(key) == key


@pytest.mark.parametrize("text", ["", "team-a/", "hub/team-a/"])
def test_a_key_without_a_name_is_refused(text: str) -> None:
    """A key names one object."""
    with pytest.raises(InvalidArgumentError, match="names no object"):
        Key.parse(text)


def test_an_extension_is_a_namespace_and_a_name() -> None:
    """Exactly one slash, with something on both sides."""
    assert parse_extension_name("team-a/shop") == ("team-a", "shop")
    for text in ("shop", "/shop", "team-a/", "a/b/c", ""):
        with pytest.raises(InvalidArgumentError, match="namespace/name"):
            parse_extension_name(text)


def test_an_unknown_word_takes_no_other_meaning() -> None:
    """Numbers of a newer service are UNKNOWN; above all, no reason of LEFT is a deletion."""
    assert SOURCE_STATES[99] is SourceState.UNKNOWN
    assert SOURCE_STATES[0] is SourceState.UNKNOWN
    assert LEFT_REASONS[99] is LeftReason.UNKNOWN
    named = {LEFT_REASONS[number] for number in event_pb2.LeftReason.values() if number}
    assert named == set(LeftReason) - {LeftReason.UNKNOWN}


def test_a_word_is_read_in_any_case() -> None:
    """People write words in lower case and with dashes; the error lists what there is."""
    expected = Projection.WITHOUT_MANAGED_FIELDS
    assert Projection.of("without-managed-fields", field="p") is expected
    for word in ("nothing", "unknown"):
        with pytest.raises(InvalidArgumentError, match="full, without-managed-fields, metadata"):
            Projection.of(word, field="p")


def test_backoff_doubles_its_bound_up_to_the_maximum() -> None:
    """The wait is drawn from below a bound that starts at `initial` and ends at `maximum`."""
    highest = Backoff("1s", "10s", draw=lambda: 1.0)
    assert [highest.delay(failures) for failures in range(7)] == [1, 1, 2, 4, 8, 10, 10]
    assert highest.delay(10_000) == 10
    assert Backoff("1s", "10s", draw=lambda: 0.0).delay(3) == 0
    assert Backoff("1s", "10s", floor=0.5, draw=lambda: 0.0).delay(3) == 2


@pytest.mark.parametrize("bounds", [(0, 1), (2, 1)])
def test_a_backoff_that_cannot_be_is_refused(bounds: tuple[float, float]) -> None:
    """The first bound is above nothing and at most the last one."""
    with pytest.raises(InvalidArgumentError, match="backoff"):
        Backoff(*bounds)
