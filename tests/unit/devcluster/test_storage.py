"""The storage: one counter, every version for as long as history lasts, and its log."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache_devcluster.storage import FIRST_RESOURCE_VERSION, Key, Storage, Table

pytestmark = pytest.mark.filterwarnings("error")


def make(history_limit: int = 1000) -> tuple[Storage, Table]:
    """Return a storage and one of its tables."""
    storage = Storage(history_limit)
    return storage, storage.table("things")


def tree(name: str, namespace: str = "a", **more: Any) -> dict[str, Any]:
    """Return an object in storage form."""
    return {"metadata": {"name": name, "namespace": namespace, "labels": {"n": name}}, **more}


def names(table: Table, **options: Any) -> list[str]:
    """Return what a scan yields."""
    return [record.name for record in table.scan(**options)]


def test_every_write_takes_the_next_version() -> None:
    """One counter serves all tables, deletions included."""
    storage, table = make()
    other = storage.table("others")
    first = storage.put(table, ("a", "x"), tree("x"))
    second = storage.put(other, ("a", "x"), tree("x"))
    third = storage.delete(table, ("a", "x"))
    assert third is not None
    versions = [first.resource_version, second.resource_version, third.resource_version]
    assert versions == [FIRST_RESOURCE_VERSION + step for step in (1, 2, 3)]


def test_a_deletion_holds_the_last_content_and_a_version_of_its_own() -> None:
    """A DELETED event shows the object as it was, with the version of the deletion."""
    storage, table = make()
    storage.put(table, ("a", "x"), tree("x", data={"k": "v"}))
    deleted = storage.delete(table, ("a", "x"))
    assert deleted is not None
    shown = deleted.decode()
    assert shown["data"] == {"k": "v"}
    assert shown["metadata"]["resourceVersion"] == str(deleted.resource_version)
    assert table.get(("a", "x")) is None
    assert storage.delete(table, ("a", "x")) is None


def test_a_scan_follows_the_order_of_keys() -> None:
    """Keys are ordered as etcd orders `namespace/name`, so `a-b` comes before `a`."""
    storage, table = make()
    for key in (("b", "x"), ("a", "y"), ("a", "x"), ("a-b", "z")):
        storage.put(table, key, tree(key[1], key[0]))
    assert [record.key for record in table.scan()] == [
        ("a-b", "z"),
        ("a", "x"),
        ("a", "y"),
        ("b", "x"),
    ]
    assert names(table, namespace="a") == ["x", "y"]
    assert [record.key for record in table.scan(start=("a", "y"))] == [("a", "y"), ("b", "x")]
    assert len(table) == 4


def test_older_states_can_be_scanned_until_they_are_compacted() -> None:
    """A scan at a version shows that state: neither later objects nor later deletions."""
    storage, table = make()
    storage.put(table, ("a", "x"), tree("x"))
    then = storage.resource_version
    storage.put(table, ("a", "y"), tree("y"))
    storage.delete(table, ("a", "x"))
    assert names(table, resource_version=then) == ["x"]
    assert names(table) == ["y"]
    assert storage.compact() == storage.resource_version
    assert table.compacted == storage.resource_version
    assert names(table, resource_version=then) == []
    assert table.head(("a", "x")) is None, "a compacted deletion leaves nothing behind"


def test_the_log_knows_what_was_before() -> None:
    """A change after a creation has no previous state, after an update it has."""
    storage, table = make()
    start = storage.resource_version
    storage.put(table, ("a", "x"), tree("x"))
    storage.put(table, ("a", "x"), tree("x", data={}))
    storage.delete(table, ("a", "x"))
    storage.put(table, ("a", "x"), tree("x"))
    changes = table.changes_after(start, 10)
    assert changes is not None
    assert [change.previous is None for change in changes] == [True, False, False, True]
    assert table.changes_after(start + 1, 2) == changes[1:3]
    storage.compact(start + 2)
    assert table.changes_after(start + 1, 10) is None
    assert table.changes_after(start + 2, 10) == changes[2:]


def test_the_log_is_bounded() -> None:
    """More changes than the limit push out the oldest."""
    storage, table = make(history_limit=100)
    start = storage.resource_version
    for number in range(300):
        storage.put(table, ("a", "x"), tree("x", data={"n": str(number)}))
    assert table.changes_after(start, 1) is None
    kept = table.changes_after(storage.resource_version - 100, 1000)
    assert kept is not None
    assert len(kept) == 100
    assert table.compacted == storage.resource_version - 100


class Follower:
    """A watcher that counts."""

    def __init__(self) -> None:
        self.waker = asyncio.Event()
        self.drained = 0

    def drain(self) -> None:
        self.drained += 1


async def test_watchers_are_woken_and_waiting_for_a_version_ends() -> None:
    """A commit sets the wakers of its table and ends waits for its version."""
    storage, table = make()
    watcher = Follower()
    table.add_watcher(watcher)
    wait = asyncio.ensure_future(storage.reached(storage.resource_version + 1, 5))
    await asyncio.sleep(0)
    storage.put(table, ("a", "x"), tree("x"))
    assert watcher.waker.is_set()
    assert await wait
    assert not await storage.reached(storage.resource_version + 1, 0.01)
    storage.compact()
    assert watcher.drained == 1
    table.remove_watcher(watcher)
    watcher.waker.clear()
    storage.drop("things")
    assert table.is_closed
    assert not watcher.waker.is_set()
    storage.drop("things")
    assert storage.table("things") is not table


def test_observers_see_every_commit() -> None:
    """An observer is called in the middle of each commit, after the data has changed."""
    storage, table = make()
    seen: list[tuple[str, int]] = []
    storage.observe(lambda where, change: seen.append((where.name, change.resource_version)))
    storage.put(table, ("a", "x"), tree("x"))
    assert seen == [("things", storage.resource_version)]
    assert storage.tables() == [table]


KEYS: list[Key] = [("a", "x"), ("a", "y"), ("b", "x")]


@given(
    st.lists(
        st.tuples(st.sampled_from(KEYS), st.sampled_from(["put", "delete", "compact"])),
        max_size=60,
    )
)
def test_any_history_can_be_replayed(steps: list[tuple[Key, str]]) -> None:
    """A state and the changes after it give every later state, as long as they are kept."""
    storage, table = make(history_limit=20)
    states: dict[int, dict[Key, int]] = {storage.resource_version: {}}
    for key, step in steps:
        if step == "put":
            storage.put(table, key, tree(key[1], key[0]))
        elif step == "delete":
            storage.delete(table, key)
        else:
            storage.compact()
        states[storage.resource_version] = {
            record.key: record.resource_version for record in table.scan()
        }
    final = states[storage.resource_version]
    for version, state in states.items():
        changes = table.changes_after(version, 1000)
        if version < table.compacted:
            assert changes is None
            continue
        found = {r.key: r.resource_version for r in table.scan(resource_version=version)}
        assert found == state
        replayed = dict(state)
        for change in changes or []:
            replayed.pop(change.record.key, None)
            if not change.record.is_deleted:
                replayed[change.record.key] = change.record.resource_version
        assert replayed == final
