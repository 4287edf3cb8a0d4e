"""What a reader holds when it comes: ids, versions, and what is made of them."""

from __future__ import annotations

import hashlib
import random
import uuid

import pytest

from tests.items import item, served, source_spec
from watchcache_server.informer.compression import PLAIN
from watchcache_server.informer.entries import Entry
from watchcache_server.informer.held import (
    Known,
    KnownGroup,
    Past,
    object_id,
    version_id,
)
from watchcache_server.informer.source import Source
from watchcache_server.informer.texts import Texts

UID = "0d9ec4e6-d2a3-49c1-9c03-8413e7036c1d"
GROUP = KnownGroup("hub", "", "pods", "team-a", "v1", "full")


def pods() -> Source:
    """Make the source of all pods."""
    source = Source(1, source_spec())
    source.served = served()
    return source


def entry(uid: str = UID, version: str = "7", *, api_version: str = "v1") -> Entry:
    """Make an entry."""
    return Entry.of(item(uid=uid, version=version), PLAIN, api_version, Texts())


def record(uid: str = UID, version: str = "7") -> bytes:
    """Say that an object is held."""
    return object_id(uid) + version_id(version)


def sha256(text: str, size: int) -> bytes:
    """Return the first bytes of a digest."""
    return hashlib.sha256(text.encode()).digest()[:size]


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        pytest.param(UID, uuid.UUID(UID).bytes, id="UUID"),
        pytest.param("", sha256("", 16), id="empty"),
        pytest.param("uid-1", sha256("uid-1", 16), id="anything"),
        pytest.param("x" * 36, sha256("x" * 36, 16), id="as long as a UUID"),
        pytest.param("a" * 36, sha256("a" * 36, 16), id="hexadecimal, too long"),
    ],
)
def test_an_id_is_the_uuid_or_a_digest(uid: str, expected: bytes) -> None:
    """Sixteen bytes, whatever the uid is."""
    assert object_id(uid) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("7", bytes(7) + b"\7", id="a number"),
        pytest.param(str(2**64 - 1), b"\xff" * 8, id="the largest"),
        pytest.param(str(2**64), sha256(str(2**64), 8), id="too large"),
        pytest.param("9" * 30, sha256("9" * 30, 8), id="far too large"),
        pytest.param("07", sha256("07", 8), id="a leading zero"),
        pytest.param("", sha256("", 8), id="empty"),
        pytest.param("v1.7", sha256("v1.7", 8), id="anything"),
    ],
)
def test_a_version_is_the_number_or_a_digest(version: str, expected: bytes) -> None:
    """Eight bytes, whatever the version is."""
    assert version_id(version) == expected


# Known


@pytest.mark.parametrize(
    ("packed", "group", "expected"),
    [
        pytest.param(record(), GROUP, (True, True), id="the same"),
        pytest.param(record(version="8"), GROUP, (False, True), id="another version"),
        pytest.param(record("uid-2"), GROUP, (False, False), id="another object"),
        pytest.param(record(), GROUP._replace(version="v2"), (False, True), id="another form"),
        pytest.param(
            record(), GROUP._replace(projection="metadata"), (False, True), id="other parts of it"
        ),
        pytest.param(record(), GROUP._replace(namespace="b"), (False, False), id="elsewhere"),
        pytest.param(record(), GROUP._replace(resource="secrets"), (False, False), id="other kind"),
    ],
)
def test_an_object_is_held_in_exactly_this_form_or_in_some(
    packed: bytes, group: KnownGroup, expected: tuple[bool, bool]
) -> None:
    """Only what is exactly the same is not sent again."""
    known, source, thing = Known(), pods(), entry()
    known.add(group, packed)
    assert (known.has(source, thing), known.may_know(source, thing)) == expected


def test_what_was_come_across_is_not_gone() -> None:
    """The rest is, by groups."""
    known, source = Known(), pods()
    other = GROUP._replace(version="v2")
    known.add(GROUP, record() + record("uid-2"))
    known.add(other, record("uid-3"))
    known.add(GROUP, record("uid-4"))
    assert known.count == 4
    known.came_across(source, entry())
    known.came_across(source, entry())
    known.came_across(source, entry("uid-9"))
    known.came_across(source, entry("uid-3"))
    assert known.groups == [GROUP]
    assert sorted(known.take(GROUP)) == sorted([object_id("uid-2"), object_id("uid-4")])
    assert known.count == 0
    assert not known.has(source, entry("uid-2"))


def test_ids_that_lie_across_records_are_not_found() -> None:
    """A search through packed bytes must begin where a record does."""
    known, source = Known(), pods()
    thing = entry(str(uuid.UUID(bytes=b"0123456A89abcdeA")))
    wanted = object_id(thing.uid)
    # An id of the same heap, whose end and version look like the one that is asked for.
    known.add(GROUP, wanted[:1] + bytes(7) + wanted)
    assert not known.may_know(source, thing)
    known.add(GROUP, record(thing.uid))
    assert known.has(source, thing)


def test_many_objects_are_found_and_forgotten() -> None:
    """Each once, however they share their heaps."""
    known, source = Known(), pods()
    uids = [str(uuid.UUID(int=random.Random(number).getrandbits(128))) for number in range(3000)]
    known.add(GROUP, b"".join(map(record, uids)))
    assert all(known.has(source, entry(uid)) for uid in uids)
    for uid in uids[::2]:
        known.came_across(source, entry(uid))
    assert [known.may_know(source, entry(uid)) for uid in uids] == [False, True] * 1500
    assert known.count == 1500


# Past


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        pytest.param("9", (True, False), id="older"),
        pytest.param("10", (True, False), id="the last"),
        pytest.param("11", (False, True), id="newer"),
        pytest.param("odd", (False, True), id="not comparable"),
    ],
)
def test_what_has_not_changed_since_is_held(version: str, expected: tuple[bool, bool]) -> None:
    """By the upstream version up to which its reader was told everything."""
    source, thing = pods(), entry(version=version)
    past = Past({source: "10"})
    past.came_across(source, thing)
    assert (past.has(source, thing), past.may_know(source, thing)) == expected


def test_of_another_source_nothing_is_held() -> None:
    """It was not watched, or not told of, at that time."""
    past, thing = Past({pods(): "10"}), entry()
    assert (past.has(pods(), thing), past.may_know(pods(), thing)) == (False, False)
