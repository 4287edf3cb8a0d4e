"""What a mirror knows of the informers behind it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from tests.unit.client.fake_service import source_status
from watchcache import Source
from watchcache.keys import ResourceName, parse_resource
from watchcache.sources import SourceTable

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
_PODS = ResourceName("", "pods")


def _source(resource: str = "pods", state: str = "LIVE", **fields: Any) -> Source:
    return Source.from_message(source_status(resource, state, **fields))


def _at(seconds: float) -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(_NOON + timedelta(seconds=seconds))
    return stamp


def _table(*sources: Source, now: float = 100.0) -> SourceTable:
    table = SourceTable()
    for source in sources:
        table.update(source, now=now, wall_time=_NOON)
    return table


@pytest.mark.parametrize(
    ("state", "fields", "is_loaded"),
    [
        ("LIVE", {}, True),
        ("STALE", {}, True),
        ("PENDING", {}, False),
        ("SYNCING", {}, False),
        ("FORBIDDEN", {"sync_duration": Duration(seconds=1)}, False),
        ("GONE", {}, False),
        ("UNREACHABLE", {}, False),
        ("UNAUTHENTICATED", {}, False),
        ("UNAUTHENTICATED", {"sync_duration": Duration(seconds=1)}, True),
        ("UNSPECIFIED", {}, False),
    ],
)
def test_a_source_is_loaded_when_its_objects_are_there(
    state: str, fields: dict[str, Any], is_loaded: bool
) -> None:
    """A token that is refused empties nothing; a right that is lost does."""
    assert _source(state=state, **fields).is_loaded is is_loaded


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, {"all", "a"}),
        ({"namespace": "team-a"}, {"all", "a"}),
        ({"namespace": "team-b"}, {"all"}),
        ({"cluster": "edge"}, {"all"}),
        ({"namespace": "team-b", "cluster": "hub"}, set()),
    ],
)
def test_sources_cover_namespaces_and_clusters(asked: dict[str, str], found: set[str]) -> None:
    """A source of a whole cluster covers each of its namespaces, and no other cluster."""
    table = _table(
        _source(cluster="edge", message="all"),
        _source(namespace="team-a", message="a"),
        _source("pods.example.com", message="another group"),
    )
    assert {source.message for source in table.covering(_PODS, **asked)} == found
    assert table.clusters_of(_PODS) == {"edge", "hub"}


def test_a_source_known_by_its_kind_may_be_the_one() -> None:
    """Until discovery knows its plural, nothing of its group can be said not to be watched."""
    table = _table(_source(".example.com", "PENDING", kind="Widget"))
    assert table.covering(parse_resource("widgets.example.com"))
    assert not table.covering(_PODS)


def test_a_source_that_learns_its_plural_stays_one() -> None:
    """Kind alone, both names, and plural alone are one informer."""
    table = _table(_source(".example.com", "PENDING", kind="Widget"))
    both = _source("widgets.example.com", "LIVE", kind="Widget")
    table.update(both, now=1.0, wall_time=_NOON)
    table.update(_source("widgets.example.com", "STALE"), now=2.0, wall_time=_NOON)
    assert [source.state for source in table.latest] == ["STALE"]
    other = _source("widgets.example.com", "LIVE", kind="Widget", label_selector="a=b")
    table.update(other, now=3.0, wall_time=_NOON)
    assert len(table.latest) == 2


def test_a_stopped_source_is_no_more() -> None:
    """The extension no longer asks for it."""
    table = _table(_source())
    table.update(_source(state="STOPPED"), now=1.0, wall_time=_NOON)
    assert table.latest == ()


def test_a_resumed_stream_names_all_sources_that_are() -> None:
    """Those that went while nobody listened are not named, so they are no more."""
    table = _table(_source(), _source("secrets"))
    table.begin_stream()
    table.update(_source(state="STALE"), now=1.0, wall_time=_NOON)
    assert [source.state for source in table.covering(_PODS)] == ["LIVE"]
    assert [source.state for source in table.latest] == ["STALE"]
    table.end_statuses()
    assert [source.state for source in table.covering(_PODS)] == ["STALE"]
    table.update(_source("secrets"), now=2.0, wall_time=_NOON)
    table.end_statuses()
    assert [source.resource for source in table.latest] == ["pods", "secrets"]


@pytest.mark.parametrize("is_reset", [False, True], ids=["snapshot", "reset after the statuses"])
def test_a_snapshot_brings_its_own_statuses(is_reset: bool) -> None:
    """Until it is complete the held data is judged by the statuses that it came with."""
    table = _table(_source())
    for _ in range(2):
        table.begin_stream()
        if not is_reset:
            table.begin_snapshot()
        table.update(_source(state="SYNCING"), now=1.0, wall_time=_NOON)
        if is_reset:
            table.begin_snapshot()
        table.end_statuses()
        assert [source.state for source in table.covering(_PODS)] == ["LIVE"]
        assert [source.state for source in table.latest] == ["SYNCING"]
        table.abandon_stream()
        assert [source.state for source in table.latest] == ["LIVE"]
    table.begin_stream()
    table.begin_snapshot()
    assert [source.state for source in table.latest] == ["LIVE"]
    table.update(_source("secrets", "FORBIDDEN"), now=1.0, wall_time=_NOON)
    table.commit()
    assert [source.resource for source in table.latest] == ["secrets"]


@pytest.mark.parametrize(
    ("times", "age"),
    [
        ({}, 0),
        ({"state_time": _at(-5)}, 5),
        ({"state_time": _at(-5), "last_contact_time": _at(-40)}, 40),
        ({"state_time": _at(600), "last_contact_time": _at(570)}, 30),
        ({"state_time": _at(-900), "last_contact_time": _at(-930)}, 930),
    ],
    ids=["no times", "state only", "contact", "the service's clock is ahead", "stale for long"],
)
def test_stale_data_is_as_old_as_its_last_contact(times: dict[str, Any], age: float) -> None:
    """The age goes on from what it was when the status came, by the mirror's own clock."""
    table = _table(_source(state="STALE", **times), now=100.0)
    assert table.age_seconds(None, now=100.0) == pytest.approx(age)
    assert table.age_seconds(None, now=107.0) == pytest.approx(age + 7)


def test_live_and_empty_sources_add_no_age() -> None:
    """Data is as old as its oldest part, and what is not there has no age."""
    forbidden = _source("secrets", "FORBIDDEN", state_time=_at(-1000))
    stale = _source("configmaps", "STALE", state_time=_at(-10))
    table = _table(_source(), forbidden, stale)
    assert table.age_seconds(table.covering(_PODS), now=100.0) == 0
    assert table.age_seconds(None, now=100.0) == pytest.approx(10)


# Sets of namespaces


def test_a_set_is_loaded_once_it_was_known() -> None:
    """No error empties it; what its namespaces hold is told by their own informers."""
    known = {"namespace_selector": "tier=gold", "sync_duration": Duration(seconds=1)}
    assert _source(state="FORBIDDEN", **known).is_loaded
    assert not _source(state="FORBIDDEN", namespace_selector="tier=gold").is_loaded
    assert not _source(state="SYNCING", namespace_selector="tier=gold").is_loaded


def test_a_set_covers_every_namespace() -> None:
    """Where none matches, the resource is watched all the same; other sets stand beside it."""
    first = _source(namespace_selector="tier=gold")
    second = _source(namespace_selector="tier=silver")
    table = _table(first, second, _source(namespace="team-a"))
    table.commit()
    assert table.covering(_PODS, namespace="team-b") == [first, second]
    assert len(table.covering(_PODS)) == 3


def test_a_set_without_room_makes_nothing_old() -> None:
    """What is watched is as fresh as ever; what is out of contact is not."""
    fields = {
        "namespace_selector": "tier=gold",
        "sync_duration": Duration(seconds=1),
        "last_contact_time": _at(-30),
    }
    crowded = _source(state="STALE", reason="MAX_SOURCES", **fields)
    table = _table(crowded)
    table.commit()
    assert table.age_seconds(None, now=100.0) == 0.0
    table = _table(_source(state="STALE", reason="RETRYING", **fields))
    table.commit()
    assert table.age_seconds(None, now=100.0) == 30.0
