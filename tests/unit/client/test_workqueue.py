"""A queue hands out the keys of what changed: once, to one worker, again after an error."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.client.fake_service import event
from tests.unit.client.scripted_watch import (
    SNAPSHOT,
    ScriptedWatch,
    body,
    changes,
    mirror_of,
    status,
)
from tests.unit.client.waiting import LIMIT_SECONDS, eventually
from watchcache import (
    Backoff,
    DeregisteredError,
    InvalidArgumentError,
    Key,
    Mirror,
    MirrorClosedError,
    NotSyncedError,
    NotWatchedError,
    Queue,
    StaleError,
    Synced,
)

_BACKOFF = Backoff(1.0, 4.0, draw=lambda: 1.0)
_A, _B, _C = (Key("team-a", name, "hub") for name in "abc")


@asynccontextmanager
async def _mirror() -> AsyncIterator[tuple[ScriptedWatch, Mirror[Any]]]:
    watch = ScriptedWatch()
    async with asyncio.timeout(LIMIT_SECONDS * 100), mirror_of(watch) as mirror:
        yield watch, mirror


async def _drain(queue: Queue[Any], count: int) -> list[str]:
    """Work on so many keys; return their names."""
    names = []
    worker = aiter(queue)
    for _ in range(count):
        key = await anext(worker)
        with queue.attempt(key):
            names.append(key.name)
    return names


async def _is_idle(queue: Queue[Any]) -> bool:
    """Say whether no key comes now."""
    waiting = asyncio.ensure_future(anext(aiter(queue)))
    for _ in range(5):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    return waiting.cancelled()


async def test_every_object_comes_once_at_first() -> None:
    """Whether the queue was made before the first snapshot or after it."""
    async with _mirror() as (watch, mirror):
        before = mirror.queue("pods", backoff=_BACKOFF)
        assert await _is_idle(before)
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"))
        after = mirror.queue("pods", backoff=_BACKOFF)
        for queue in (before, after):
            assert len(queue) == 2
            assert await _drain(queue, 2) == ["a", "b"]
            assert await _is_idle(queue)


async def test_a_key_that_changes_often_comes_once() -> None:
    """What waits is keys, in the order of their first change."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot()
        for rv in range(1, 50):
            await watch.say(changes(event("MODIFIED", "b" if rv % 2 else "a", rv=rv)))
        await watch.say(changes(event("ADDED", "c", rv=60, resource="secrets")))
        assert len(queue) == 2
        assert await _drain(queue, 2) == ["b", "a"]
        assert await _is_idle(queue)


@pytest.mark.looptime
async def test_a_key_has_one_worker_at_a_time() -> None:
    """A change meanwhile brings it again afterwards, to any worker."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"))
        first, second = aiter(queue), aiter(queue)
        a, b = await anext(first), await anext(second)
        assert (a, b) == (_A, _B)
        with queue.attempt(a):
            await watch.say(changes(event("MODIFIED", "a", rv=2)))
            with queue.attempt(b):
                pass
            assert await _is_idle(queue)
        with queue.attempt(await anext(second)) as attempt:
            assert attempt.key == _A
        assert await _is_idle(queue)


@pytest.mark.looptime
async def test_an_error_brings_the_key_again_later(caplog: pytest.LogCaptureFixture) -> None:
    """Each time later, until it succeeds; other keys do not wait for it."""
    loop = asyncio.get_running_loop()
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"))
        worker, times = aiter(queue), []
        for number in range(6):
            with queue.attempt(await anext(worker)):
                times.append(round(loop.time(), 3))
                if number != 4:
                    raise LookupError("nothing there")
            if number == 0:
                assert "1 failing" in repr(queue)
                await watch.say(changes(event("ADDED", "b", rv=2)))
                assert await _drain(queue, 1) == ["b"]
            if number == 4:
                queue.add("team-a/a")
        gaps = [round(after - before) for before, after in itertools.pairwise(times)]
        assert gaps == [1, 2, 4, 4, 0]
        assert len(queue) == 1
    first = caplog.records[0]
    assert first.getMessage() == (
        "pods hub/team-a/a: attempt 1 failed, again in 1.0 s: nothing there"
    )
    assert first.exc_info


async def test_an_error_of_this_package_needs_no_traceback(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Old data explains itself; a traceback for each key would hide the rest of the log."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"))
        with caplog.at_level(logging.ERROR), queue.attempt(await anext(aiter(queue))):
            raise StaleError("pods are old", age_seconds=100)
    assert not caplog.records[0].exc_info


async def test_a_cancelled_worker_gives_its_key_back() -> None:
    """Nothing is lost when one worker of several is stopped, and it counts as no error."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"))
        working = asyncio.Event()

        async def work() -> None:
            async for key in queue:
                with queue.attempt(key):
                    working.set()
                    await asyncio.sleep(LIMIT_SECONDS)

        task = asyncio.create_task(work())
        await working.wait()
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        assert await _drain(queue, 1) == ["a"]
        assert "0 failing" in repr(queue)


@pytest.mark.looptime
async def test_a_key_can_be_asked_for_again() -> None:
    """At once, after some time, or by the attempt itself when it succeeds."""
    loop = asyncio.get_running_loop()
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"))
        worker = aiter(queue)
        with queue.attempt(await anext(worker)) as attempt:
            attempt.again("5m")
        with queue.attempt(await anext(worker)):
            assert loop.time() == pytest.approx(300, abs=1)
        queue.add("team-a/b", after="1m")
        queue.add(_C)
        assert len(queue) == 2
        assert await _drain(queue, 2) == ["c", "b"]
        assert loop.time() == pytest.approx(360, abs=1)


async def test_a_key_without_a_cluster_is_the_same_key() -> None:
    """Otherwise one object would have two workers."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods")
        with pytest.raises(NotSyncedError):
            queue.add("team-a/a")
        await watch.say_snapshot(event("ADDED", "a"))
        queue.add("team-a/a")
        queue.add(Key("team-a", "a"))
        assert len(queue) == 1


def _owned(kind: str, name: str, *owners: str, rv: int, resource: str, uid: str = "") -> Any:
    references = [{"uid": owner} for owner in owners]
    content = body(name, ownerReferences=references)
    return event(kind, name, rv=rv, uid=uid, resource=resource, body=content)


async def test_a_change_of_an_owned_object_brings_its_owner() -> None:
    """Over several steps where all are mirrored; also when it goes, or changes its owner."""
    deployments, sets = "deployments.apps", "replicasets.apps"
    async with _mirror() as (watch, mirror):
        queue = mirror.queue(deployments, owned=[sets, "pods"], backoff=_BACKOFF)
        await watch.say(
            SNAPSHOT,
            *map(status, (deployments, sets, "pods")),
            changes(
                event("ADDED", "web", resource=deployments),
                event("ADDED", "db", resource=deployments),
                _owned("ADDED", "web-1", "uid-web", rv=1, resource=sets),
                _owned("ADDED", "web-1-x", "uid-web-1", rv=1, resource="pods"),
                _owned("ADDED", "lonely", "uid-gone", rv=1, resource="pods"),
                is_snapshot=True,
            ),
            Synced(),
        )
        assert sorted(await _drain(queue, 2)) == ["db", "web"]
        steps = [
            (_owned("MODIFIED", "web-1", "uid-web", rv=2, resource=sets), ["web"]),
            (_owned("MODIFIED", "web-1-x", "uid-web-1", rv=3, resource="pods"), ["web"]),
            (_owned("MODIFIED", "lonely", "uid-gone", rv=4, resource="pods"), []),
            (_owned("MODIFIED", "web-1", "uid-db", rv=5, resource=sets), ["db", "web"]),
            (_owned("DELETED", "web-1-x", "uid-web-1", rv=6, resource="pods"), ["db"]),
            (_owned("MODIFIED", "web-1", "uid-web-1", rv=7, resource=sets), ["db"]),
            (_owned("DELETED", "web-1", "uid-db", rv=8, resource=sets), ["db"]),
        ]
        for change, expected in steps:
            await watch.say(changes(change))
            assert sorted(await _drain(queue, len(queue))) == expected


async def test_a_related_object_brings_the_keys_it_names() -> None:
    """As it is now and as it was; a key without a cluster is of the object's own."""

    def users(config: dict[str, Any]) -> list[str]:
        return config["metadata"].get("labels", {}).get("users", "").split()

    def config(kind: str, rv: int, names: str) -> Any:
        labels = {"users": names} if names else {}
        return event(kind, "c", rv=rv, resource="configmaps", body=body("c", labels=labels))

    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", related={"configmaps": users}, backoff=_BACKOFF)
        await watch.say(SNAPSHOT, status(), status("configmaps"), Synced())
        await watch.say(changes(config("ADDED", 1, "team-a/a hub/team-a/b")))
        assert await _drain(queue, len(queue)) == ["a", "b"]
        await watch.say(changes(config("MODIFIED", 2, "team-a/c")))
        assert sorted(await _drain(queue, len(queue))) == ["a", "b", "c"]
        await watch.say(changes(config("MODIFIED", 3, "")))
        assert await _drain(queue, len(queue)) == ["c"]


async def test_an_attempt_tells_deleted_from_left() -> None:
    """An object that is absent may be alive: the attempt says which, with its last content."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=_BACKOFF)
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"), event("ADDED", "c"))
        await watch.say(changes(event("DELETED", "a", rv=2, body=b'{"last": 1}')))
        await watch.say(changes(event("LEFT", "b", rv=3, left="SELECTION")))
        told: dict[str, Any] = {}
        worker = aiter(queue)
        for _ in range(3):
            with queue.attempt(await anext(worker)) as attempt:
                removed = attempt.removed
                told[attempt.key.name] = removed and (removed.is_deleted, removed.left_reason)
                if attempt.key.name == "a":
                    assert removed
                    assert removed.object == {"last": 1}
        assert told == {"a": (True, None), "b": (False, "SELECTION"), "c": None}
        await watch.say(changes(event("ADDED", "a", rv=4, uid="second")))
        with queue.attempt(await anext(worker)) as attempt:
            assert attempt.removed is None


async def test_a_removal_is_told_until_it_was_dealt_with() -> None:
    """An attempt that fails has not dealt with it; one that comes meanwhile is not forgotten."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods", backoff=Backoff(0.001, 0.001))
        await watch.say_snapshot(event("ADDED", "a"))
        worker = aiter(queue)
        with queue.attempt(await anext(worker)) as attempt:
            assert attempt.removed is None
            await watch.say(changes(event("DELETED", "a", rv=2)))
        for is_failing in (True, False):
            with queue.attempt(await anext(worker)) as attempt:
                assert attempt.removed is not None
                assert not is_failing or 1 / 0
        queue.add(_A)
        with queue.attempt(await anext(worker)) as attempt:
            assert attempt.removed is None


async def test_a_worker_cannot_hold_two_keys() -> None:
    """A key that is not worked on would be lost, so forgetting `attempt` is loud."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods")
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"))
        worker = aiter(queue)
        assert aiter(worker) is worker
        key = await anext(worker)
        with pytest.raises(RuntimeError, match="still held"):
            await anext(worker)
        with queue.attempt(key), pytest.raises(RuntimeError, match="attempted already"):
            queue.attempt(key).__enter__()
        with pytest.raises(RuntimeError, match="was not handed out"):
            queue.attempt(key).__enter__()


async def test_a_queue_that_waits_in_vain_says_so() -> None:
    """A resource that nobody watches, or a mirror that has ended, never brings a key."""
    async with _mirror() as (watch, mirror):
        pods, secrets = mirror.queue("pods"), mirror.queue("secrets")
        workers = [asyncio.create_task(anext(aiter(queue))) for queue in (pods, secrets)]  # type: ignore[arg-type]
        await watch.say_snapshot()
        with pytest.raises(NotWatchedError, match="does not watch secrets"):
            await workers[1]
        await watch.say(DeregisteredError("by hand"))
        with pytest.raises(MirrorClosedError, match="by hand"):
            await workers[0]
        with pytest.raises(InvalidArgumentError, match="give a list"):
            mirror.queue("pods", owned="secrets")


async def test_closing_ends_the_workers() -> None:
    """Those that wait end at once, the others after their key."""
    async with _mirror() as (watch, mirror):
        queue = mirror.queue("pods")
        await watch.say_snapshot(event("ADDED", "a"), event("ADDED", "b"))
        seen = []
        async for key in queue:
            with queue.attempt(key):
                seen.append(key.name)
                queue.close()
        assert seen == ["a"]
        queue.close()
        waiting = len(queue)
        await watch.say(changes(event("ADDED", "c", rv=3)))
        assert len(queue) == waiting


@given(
    workers=st.integers(1, 4),
    script=st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), max_size=15),
)
def test_no_key_is_lost_and_none_has_two_workers(
    workers: int, script: list[tuple[str, bool]]
) -> None:
    """However many workers there are, whatever fails: each ends with the newest state seen."""

    async def run() -> None:
        seen: dict[str, str] = {}
        running: Counter[Key] = Counter()
        failing = Counter(name for name, is_failing in script if is_failing)
        async with _mirror() as (watch, mirror), asyncio.TaskGroup() as group:
            queue = mirror.queue("pods", backoff=Backoff(0.0001, 0.0002))

            async def work() -> None:
                async for key in queue:
                    with queue.attempt(key):
                        running[key] += 1
                        try:
                            assert running[key] == 1
                            version = mirror.version("pods", key)
                            await asyncio.sleep(0)
                            if failing[key.name]:
                                failing[key.name] -= 1
                                raise LookupError(key)
                            seen[key.name] = version.resource_version if version else ""
                        finally:
                            running[key] -= 1

            tasks = [group.create_task(work()) for _ in range(workers)]
            await watch.say_snapshot()
            for rv, (name, _) in enumerate(script, 1):
                await watch.say(changes(event("MODIFIED", name, rv=rv)))
            await eventually(lambda: not len(queue) and not sum(running.values()))
            newest = {name: str(rv) for rv, (name, _) in enumerate(script, 1)}
            assert seen == newest
            for task in tasks:
                task.cancel()

    logging.disable(logging.ERROR)
    try:
        asyncio.run(run())
    finally:
        logging.disable(logging.NOTSET)
        asyncio.set_event_loop(None)
