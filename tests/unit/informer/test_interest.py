"""Interest: which changes concern which filters."""

from __future__ import annotations

import pytest

from tests.items import item, source_spec
from watchcache_server.informer.cursors import Cursor, Outcome
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.interest import Interest
from watchcache_server.informer.objects import Item, Remove, Upsert
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance
from watchcache_server.model.states import LeftReason

GOLD = Filter(label_selector="tier=gold")
TEAM_B = Filter(namespaces=("team-b",))


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(EVERYTHING, None, id="everything"),
        pytest.param(GOLD, {("tier", "gold")}, id="a value"),
        pytest.param(
            Filter(label_selector="tier in (a,b),app=web,zone!=x"), {("app", "web")}, id="fewest"
        ),
        pytest.param(Filter(label_selector="tier"), None, id="any value"),
        pytest.param(Filter(label_selector="tier!=gold"), None, id="any other value"),
        pytest.param(TEAM_B, {("", "team-b")}, id="a namespace"),
        pytest.param(
            Filter(namespaces=("a", "b"), label_selector="!tier"),
            {("", "a"), ("", "b")},
            id="namespaces and no value",
        ),
        pytest.param(
            Filter(namespaces=("a",), label_selector="tier=gold"), {("tier", "gold")}, id="both"
        ),
    ],
)
def test_topics_are_what_an_object_has_to_name(
    wanted: Filter, expected: set[tuple[str, str]] | None
) -> None:
    """Whatever passes, before or after a change, names one of them."""
    assert wanted.topics == expected


def test_what_nobody_follows_may_concern_everybody() -> None:
    """Nothing is known of it; what was followed and is no more is known no more."""
    interest = Interest()
    topics = frozenset({("tier", "gold")})
    assert interest.concerns(topics, 5)
    interest.add(topics, 5)
    interest.add(topics, 7)
    assert not interest.concerns(topics, 5)
    assert interest.concerns(topics, 4), "of earlier changes nothing is known"
    interest.remove(topics)
    assert not interest.concerns(topics, 5)
    interest.remove(topics)
    assert interest.concerns(topics, 5)
    assert len(interest) == 0


def thing(version: int, *, tier: str = "", namespace: str = "team-a") -> Item:
    """Make an object."""
    labels = {"tier": tier} if tier else {}
    return item(namespace=namespace, version=str(version), labels=labels)


@pytest.mark.parametrize(
    ("tiers", "expected"),
    [
        pytest.param(("gold", "gold"), True, id="stays"),
        pytest.param(("gold", "tin"), True, id="leaves"),
        pytest.param(("tin", "gold"), True, id="comes"),
        pytest.param(("tin", "tin"), False, id="has nothing to do with it"),
        pytest.param(("gold", ""), True, id="is deleted"),
        pytest.param(("tin", ""), False, id="another is deleted"),
    ],
)
def test_a_reader_goes_on_without_a_look_where_nothing_concerns_it(
    tiers: tuple[str, str], expected: bool
) -> None:
    """Also beyond the history, which has forgotten what was none of its concern."""
    before, after = tiers
    store = Store(b"epoch-01", max_changes=2, max_history_bytes=1 << 20)
    source = store.add_source(source_spec())
    source.stage([thing(1, tier=before)])
    store.commit(source, 1.0)
    cursor = Cursor(store.revision)
    for wanted in (GOLD, TEAM_B):
        store.interest.add(wanted.topics or (), store.revision)
    last = Upsert(thing(2, tier=after)) if after else Remove(thing(2))
    store.apply(source, [last], 2.0)
    for version in range(3, 8):
        other = item("noise", uid="uid-noise", version=str(version))
        store.apply(source, [Upsert(other)], 2.0)
    assert store.concerns(GOLD, cursor.revision) is expected
    step = advance(store, GOLD, cursor)
    assert (len(step.events), step.outcome) == (int(expected), Outcome.AT_HEAD)
    assert step.cursor == Cursor(store.revision)
    assert not store.concerns(TEAM_B, cursor.revision)
    assert store.concerns(EVERYTHING, cursor.revision)


def test_what_concerns_a_whole_source_concerns_everybody() -> None:
    """A first sync, objects that moved, a right that was revoked."""
    store = Store(b"epoch-01", max_changes=100, max_history_bytes=1 << 20)
    source = store.add_source(source_spec())
    store.interest.add(GOLD.topics or (), store.revision)
    source.stage([thing(1)])
    store.commit(source, 1.0)
    assert store.concerns(GOLD, 0)
    revision = store.revision
    assert not store.concerns(GOLD, revision)
    store.apply(source, [Upsert(thing(2))], 2.0)
    store.purge(source, LeftReason.RIGHTS_REVOKED, 2.0)
    assert advance(store, GOLD, Cursor(revision)).outcome is Outcome.EXPIRED


def test_a_place_that_never_was_concerns_its_reader() -> None:
    """It is looked into, and found out."""
    store = Store(b"epoch-01", max_changes=100, max_history_bytes=1 << 20)
    store.interest.add(GOLD.topics or (), store.revision)
    assert store.concerns(GOLD, 1)
    assert advance(store, GOLD, Cursor(1)).outcome is Outcome.EXPIRED
