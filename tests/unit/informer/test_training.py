"""Dictionaries: when one is trained, from what, when it is used, and when it must not be."""

from __future__ import annotations

import msgspec
import pytest

from tests.items import item, source_spec
from tests.realistic import pod, pod_fields
from watchcache_server.informer.compression import PLAIN, train
from watchcache_server.informer.objects import Item, Upsert
from watchcache_server.informer.source import Source
from watchcache_server.model.states import LeftReason

PODS = [pod(i) for i in range(600)]


def pods(first: int, last: int) -> list[Item]:
    """Make items of realistic pods, the first up to before the last."""
    found = []
    for i in range(first, last):
        metadata = pod_fields(i)["metadata"]
        found.append(
            item(
                metadata["name"],
                namespace=metadata["namespace"],
                uid=metadata["uid"],
                version=metadata["resourceVersion"],
                body=PODS[i % len(PODS)],
            )
        )
    return found


def small(first: int, last: int) -> list[Item]:
    """Make small objects, the first up to before the last."""
    return [
        item(f"name-{i}", namespace=f"team-{i % 7}", uid=f"uid-{i}") for i in range(first, last)
    ]


def synced(things: list[Item], resource: str = "pods") -> Source:
    """Make a source that holds these."""
    source = Source(1, source_spec(resource))
    source.stage(things)
    source.commit()
    return source


def recode_all(source: Source) -> None:
    """Bring every entry to the present codec."""
    entries = source.recodable()
    while source.recode(entries, 100):
        pass


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(0, False, id="none"),
        pytest.param(255, False, id="too few"),
        pytest.param(256, True, id="enough"),
        pytest.param(5000, True, id="many"),
    ],
)
@pytest.mark.parametrize("is_staged", [True, False], ids=["during the first sync", "after it"])
def test_training_is_due_from_256_objects_on(count: int, expected: bool, is_staged: bool) -> None:
    """A first sync of many objects need not end before its dictionary is there."""
    source = Source(1, source_spec())
    source.stage(small(0, count))
    if not is_staged:
        source.commit()
    assert source.is_training_due is expected
    assert (source.training_samples() is not None) is expected


def test_secrets_are_never_trained_on() -> None:
    """A dictionary would hold parts of them in clear, and sizes would answer guesses."""
    source = synced(small(0, 1000), resource="secrets")
    assert not source.is_training_due
    assert source.training_samples() is None
    assert source.dictionary == b""
    assert {entry.codec for entry in source.table} == {PLAIN}


def test_samples_come_from_all_namespaces() -> None:
    """A few hundred bodies, spread over the whole table, whole and as they are."""
    source = synced(small(0, 2000))
    samples = source.training_samples()
    assert samples is not None
    assert 200 <= len(samples) <= 256
    namespaces = {msgspec.json.decode(each)["metadata"]["namespace"] for each in samples}
    assert namespaces == {f"team-{i}" for i in range(7)}


def test_samples_are_bounded_in_bytes() -> None:
    """Huge objects give fewer samples: 8 MiB are enough to learn from."""
    source = synced([item(f"name-{i}", body=bytes(200_000)) for i in range(300)])
    samples = source.training_samples()
    assert samples is not None
    assert 8 * 1024 * 1024 <= sum(map(len, samples)) < 8 * 1024 * 1024 + 200_000


def test_one_training_at_a_time() -> None:
    """Until the dictionary is adopted, no other is asked for."""
    source = synced(small(0, 300))
    samples = source.training_samples()
    assert samples is not None
    assert not source.is_training_due
    assert source.training_samples() is None
    assert not source.adopt(None, samples)
    assert not source.is_training_due, "what failed is not tried again at once"


def test_dictionary_is_used_when_clearly_better() -> None:
    """New bodies are compressed with it at once, old ones when `recode` comes to them."""
    source = synced(pods(0, 400))
    before = source.stored_bytes
    samples = source.training_samples()
    assert samples is not None
    dictionary = train(samples)
    assert source.adopt(dictionary, samples)
    assert source.dictionary == dictionary
    assert source.stored_bytes == before
    source.apply(Upsert(thing) for thing in pods(400, 410))
    assert len(list(source.recodable())) == 400
    recode_all(source)
    assert list(source.recodable()) == []
    assert 3 * source.stored_bytes < before
    assert source.stored_bytes == sum(len(entry.stored) for entry in source.table)
    bodies = {entry.name: entry.body() for entry in source.table}
    assert bodies == {thing.name: thing.body for thing in pods(0, 410)}


def test_useless_dictionary_is_dropped() -> None:
    """One that saves less than a tenth is not worth a second codec."""
    source = synced(pods(0, 300))
    samples = source.training_samples()
    assert samples is not None
    assert not source.adopt(train([bytes([i]) * 400 for i in range(64)]), samples)
    assert source.dictionary == b""


def test_dictionary_of_purged_objects_is_dropped() -> None:
    """Who may no longer read the objects may not have parts of them in a dictionary either."""
    source = synced(pods(0, 300))
    samples = source.training_samples()
    assert samples is not None
    source.purge(LeftReason.RIGHTS_REVOKED)
    assert not source.adopt(train(samples), samples)
    assert source.dictionary == b""

    source.stage(pods(300, 600))
    source.commit()
    later = source.training_samples()
    assert later is not None
    assert not source.adopt(train(samples), samples)
    assert source.adopt(train(later), later)
    source.purge(LeftReason.RIGHTS_REVOKED)
    assert source.dictionary == b""


@pytest.mark.parametrize("is_adopted", [True, False], ids=["adopted", "dropped"])
def test_training_is_due_again_when_objects_are_many_times_more(is_adopted: bool) -> None:
    """What was learned from the first few hundred may not fit thousands."""
    source = synced(small(0, 256))
    samples = source.training_samples()
    assert samples is not None
    source.adopt(train(samples) if is_adopted else None, samples)
    source.apply(Upsert(thing) for thing in small(256, 8 * 256 - 1))
    assert not source.is_training_due
    source.apply(Upsert(thing) for thing in small(8 * 256 - 1, 8 * 256))
    assert source.is_training_due


def test_training_is_due_again_when_the_ratio_falls() -> None:
    """Objects change: when recent bodies compress much worse, a new dictionary is trained."""
    source = synced(pods(0, 600))
    samples = source.training_samples()
    assert samples is not None
    assert source.adopt(train(samples), samples)
    recent = [item(f"new-{i}", body=bytes(chunk)) for i in range(16) for chunk in [range(256)]]
    for version in range(2, 300):
        things = [msgspec.structs.replace(each, resource_version=str(version)) for each in recent]
        source.apply(Upsert(thing) for thing in things)
        if source.is_training_due:
            break
    assert version * len(recent) >= 2048, "a short run of odd objects is no trend"
    assert source.is_training_due
    samples = source.training_samples()
    assert samples is not None
    assert not source.adopt(train(samples), samples)
    assert not source.is_training_due, "the ratio that can be had is the measure from now on"


def test_training_is_not_due_while_objects_stay_alike() -> None:
    """Thousands of changes of the same kind of objects need no new dictionary."""
    source = synced(pods(0, 400))
    samples = source.training_samples()
    assert samples is not None
    assert source.adopt(train(samples), samples)
    things = pods(400, 600)
    for version in range(24):
        source.apply(
            Upsert(msgspec.structs.replace(thing, resource_version=str(10**9 + version)))
            for thing in things
        )
        assert not source.is_training_due


def test_entries_are_recoded_once_in_both_places() -> None:
    """An unchanged object is live and staged at once; both sums stay exact, whatever ends first."""
    things = pods(0, 300)
    source = synced(things)
    samples = source.training_samples()
    assert samples is not None
    source.stage(things[:200])
    assert source.adopt(train(samples), samples)
    entries = source.recodable()
    assert source.recode(entries, 150)
    source.apply([Upsert(msgspec.structs.replace(things[250], resource_version="1000000000"))])
    while source.recode(entries, 150):
        pass
    assert source.stored_bytes == sum(len(entry.stored) for entry in source.table)
    source.commit()
    assert source.table.count == 200
    assert source.stored_bytes == sum(len(entry.stored) for entry in source.table)
    assert list(source.recodable()) == []


def test_recoding_outlives_what_it_recodes() -> None:
    """Entries that left the source meanwhile no longer count."""
    source = synced(pods(0, 300))
    samples = source.training_samples()
    assert samples is not None
    assert source.adopt(train(samples), samples)
    entries = source.recodable()
    assert source.recode(entries, 1)
    source.purge(LeftReason.SCOPE)
    while source.recode(entries, 100):
        pass
    assert (source.stored_bytes, source.raw_bytes) == (0, 0)
