"""Judges a storm at its quiet moments: every history, every mirror, against what was true."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from typing import Any

import aiohttp

import watchcache
from tests.chaos.storm.bodies import BodyHistory
from tests.chaos.storm.meter import json_size
from tests.chaos.storm.schedule import NAMESPACES, WATCHED, FaultKind
from tests.chaos.storm.stage import Stage
from tests.chaos.storm.subscribers import MirrorKeeper, Subscriber
from tests.chaos.storm.tally import Harm, Tally, harm_of
from tests.chaos.storm.truth import State
from tests.chaos.storm.writers import GROUP, Writers, collection
from tests.e2e.recording import History, Recorder
from tests.history_records import Batch, Change, Key, Reset, Started

__all__ = ["Judge"]

_LIMIT_SECONDS = 60.0
_SERVER_LIMIT_SECONDS = 300.0
_POLL_SECONDS = 0.1
_SHOWN_CHARACTERS = 3000
_EXTENSIONS = (f"{NAMESPACES[0]}/storm", f"{NAMESPACES[0]}/gold")

Content = Mapping[Key, dict[str, Any]]


class Judge:
    """Waits until all is quiet and compares; what it finds goes to the tally."""

    def __init__(
        self,
        stage: Stage,
        subscribers: Sequence[Subscriber],
        recorder: Recorder,
        writers: Writers,
        tally: Tally,
    ) -> None:
        self._stage = stage
        self._subscribers = subscribers
        self._recorder = recorder
        self._writers = writers
        self._tally = tally
        #: What there was at the last quiet moment, and its bytes as JSON.
        self.objects = self.content_bytes = 0
        self._revision = stage.truth.revision
        self._log_read = 0
        self._reasons_to_skip: tuple[object, ...] = ()
        self._violations: dict[int, int] = {}
        self._counted: dict[int, tuple[int, int, int, int]] = {}

    async def judge(self) -> None:
        """Judge what happened since the last quiet moment. Nothing may change meanwhile."""
        tally = self._tally
        await self._wait_served()
        await self._wait_live()
        await self._stage.truth.catch_up()
        content = await self._content()
        self.objects = len(content)
        self.content_bytes = sum(map(json_size, content.values()))
        self._check_truth(content)
        await self._wait_equal(content)
        self._compare_bodies(content)
        await self._compare_lists(content)
        await self._judge_histories(content)
        for subscriber in self._subscribers:
            for failure in subscriber.failures:
                tally.blame(Harm.STUCK, failure)
            subscriber.failures.clear()
        self._read_log()
        tally.quiet_moments += 1

    def _read_log(self) -> None:
        """Count what the service itself calls a fault of its own."""
        with self._stage.service.log.open(encoding="utf-8", errors="replace") as log:
            log.seek(self._log_read)
            lines = log.readlines()
            self._log_read = log.tell()
        for line in lines:
            if '"level": "error"' in line or line.startswith("Traceback"):
                self._tally.blame(Harm.FAULTY, line.strip()[:_SHOWN_CHARACTERS])

    async def _wait_served(self) -> None:
        """Wait until the API server itself serves all again.

        It lists from etcd anew at its own pace, after a CRD was made while etcd was away above all,
        and answers 429 meanwhile. Where it never does, there is nothing to judge by.
        """
        async with asyncio.timeout(_SERVER_LIMIT_SECONDS):
            for resource, namespace in WATCHED:
                path = collection(resource, namespace)
                while not await self._is_served(path):  # noqa: ASYNC110 - it sets no event
                    await asyncio.sleep(_POLL_SECONDS)

    async def _is_served(self, path: str) -> bool:
        try:
            return (await self._stage.api.call("GET", path, limit=1)).status == 200
        except (OSError, aiohttp.ClientError, TimeoutError):
            return False

    async def _wait_live(self) -> None:
        """Wait until every informer is live."""
        said = "the service says nothing"
        deadline = time.monotonic() + _LIMIT_SECONDS
        async with watchcache.connect(self._stage.service.address, timeout="3s") as wc:
            while time.monotonic() < deadline:
                try:
                    states = [(await wc.extension(name)).status for name in _EXTENSIONS]
                except watchcache.WatchCacheError as error:
                    said = repr(error)
                else:
                    not_live = [source for status in states for source in status.not_live]
                    if not not_live:
                        return
                    said = "; ".join(f"{each.state} {each.message}" for each in not_live)
                await asyncio.sleep(_POLL_SECONDS)
        self._tally.blame(Harm.STUCK, f"not live {_LIMIT_SECONDS:g} s after the last fault: {said}")

    async def _content(self) -> Content:
        """Return what the API server holds."""
        content = {}
        for resource, namespace in WATCHED:
            listed = await self._stage.api.get(collection(resource, namespace))
            group = GROUP if resource == "widgets" else ""
            for item in listed["items"]:
                key = Key("hub", group, resource, namespace, item["metadata"]["name"])
                content[key] = item
        return content

    def _check_truth(self, content: Content) -> None:
        """Make sure that the standard by which all is judged is right itself."""
        truth = self._stage.truth
        assert truth.content() == _versions(content), "etcd's history and the API server differ"
        known = {
            (state.uid, str(state.revision))
            for states in truth.states.values()
            for state in states[-1000:]
        }
        assert known.issuperset(self._writers.told), "the history of etcd has a gap"
        self._writers.told.clear()

    async def _wait_equal(self, content: Content) -> None:
        """Wait until every subscriber holds what the API server has."""
        deadline = time.monotonic() + _LIMIT_SECONDS
        late = list(self._subscribers)
        while (late or not self._are_followed) and time.monotonic() < deadline:
            late = [
                each
                for each in late
                if each.held != _versions(_selected(content, each.selector, each.extension))
            ]
            await asyncio.sleep(_POLL_SECONDS)
        if not self._are_followed:
            self._tally.blame(Harm.STUCK, "a subscriber has no stream that is synced")
        for each in late:
            expected = _versions(_selected(content, each.selector, each.extension))
            wrong = [
                key for key in {*each.held, *expected} if each.held.get(key) != expected.get(key)
            ]
            told = "; ".join(
                f"{key} is held as {each.held.get(key)}, not {expected.get(key)}"
                for key in sorted(wrong)[:5]
            )
            self._tally.blame(Harm.LOST, f"{each.name} differs in {len(wrong)} objects: {told}")

    @property
    def _are_followed(self) -> bool:
        """Whether every subscriber is there, so that its history can be compared."""
        open_ones = [each for each in self._recorder.histories if not each.is_over]
        return len(open_ones) == len(self._subscribers) and all(
            each.checker.is_synced for each in open_ones
        )

    def _compare_bodies(self, content: Content) -> None:
        """Compare the mirrors with the API server, byte for byte as far as JSON goes."""
        for keeper in self._subscribers:
            if not isinstance(keeper, MirrorKeeper) or keeper.mirror is None:
                continue
            for key, item in _selected(content, keeper.selector, keeper.extension).items():
                resource = f"{key.resource}.{key.group}" if key.group else key.resource
                mine = watchcache.Key(cluster=key.cluster, namespace=key.namespace, name=key.name)
                try:
                    found = keeper.mirror.get(resource, mine)
                except watchcache.WatchCacheError as error:
                    self._tally.blame(Harm.STUCK, f"{keeper.name}: {key} cannot be read: {error}")
                    continue
                self._tally.objects_compared += 1
                if _without_type(found) != _without_type(item):
                    self._tally.blame(Harm.UNTRUE, f"{keeper.name}: {key} has another body")

    async def _compare_lists(self, content: Content) -> None:
        """Compare what ListObjects says with the API server."""
        async with watchcache.connect(self._stage.service.address, timeout="10s") as wc:
            for name in _EXTENSIONS:
                expected = _versions(_selected(content, "", name))
                try:
                    ext = await wc.extension(name)
                    found = {}
                    async for item in ext.list(page_size=7, view="key"):
                        plural, _, group = item.resource.partition(".")
                        key = Key(
                            item.key.cluster, group, plural, item.key.namespace, item.key.name
                        )
                        found[key] = (item.uid, item.resource_version)
                except watchcache.WatchCacheError as error:
                    self._tally.blame(Harm.STUCK, f"{name} cannot be listed: {error!r}")
                    continue
                self._tally.objects_compared += len(expected)
                if found != expected:
                    self._tally.blame(Harm.LOST, f"a list of {name} is not what there is")

    async def _judge_histories(self, content: Content) -> None:
        truth, tally = self._stage.truth, self._tally
        states = list(truth.since(self._revision))
        tally.states += len(states)
        may_skip = await self._may_skip()
        for history in tuple(self._recorder.histories):
            told = self._check_told(history)
            if history.is_over:
                # Nobody goes on with it: its client was killed and has begun anew.
                self._recorder.histories.remove(history)
            else:
                history.finish(
                    _versions(_selected(content, history.label_selector, history.extension)),
                    deleted_uids=truth.deleted_uids,
                )
                if not history.label_selector and history.extension == _EXTENSIONS[0]:
                    self._check_complete(history, told, states, may_skip=may_skip)
            self._count(history)
            history.forget()
        self._revision = truth.revision

    def _check_told(self, history: History) -> set[tuple[Key, str, str]]:
        """Check that all that was told was so; return which states were told."""
        told = set()
        for record in history.records:
            if not isinstance(record, Batch):
                continue
            for change in record.changes:
                told.add((change.key, change.uid, change.resource_version))
                doubt = self._stage.truth.doubt(change)
                if not doubt and change.left_reason and not self._may_leave(history, change):
                    doubt = f"{change}: nothing gave a reason for that"
                if doubt:
                    self._tally.blame(Harm.UNTRUE, f"watch of {history.extension}: {doubt}")
        if isinstance(history, BodyHistory):
            self._tally.bytes_received += history.bytes_received
            self._tally.resumed_over_restarts += history.resumed_over_restarts
            for body in history.bodies:
                self._tally.bodies_compared += 1
                if doubt := body.doubt(self._stage.truth):
                    self._tally.blame(Harm.UNTRUE, f"watch of {history.extension}: {doubt}")
        return told

    def _may_leave(self, history: History, change: Change) -> bool:
        """Tell whether there was such a reason for an object to leave a subscriber's view."""
        match change.left_reason:
            case "LEFT_REASON_SELECTION":
                return bool(history.label_selector) or history.extension == _EXTENSIONS[1]
            case "LEFT_REASON_KIND_GONE":
                return change.key.group == GROUP and self._tally.struck(FaultKind.DEFINITION) > 0
            case "LEFT_REASON_RIGHTS_REVOKED":
                return self._tally.struck(FaultKind.RIGHTS) > 0
        return False

    def _check_complete(
        self,
        history: History,
        told: set[tuple[Key, str, str]],
        states: Sequence[tuple[Key, State]],
        *,
        may_skip: bool,
    ) -> None:
        """Check that every state was told, where nothing was a reason to pass one over."""
        missing = [
            (key, state)
            for key, state in states
            if (key, state.uid, str(state.revision)) not in told
        ]
        is_anew = any(
            isinstance(record, Reset)
            or (isinstance(record, Started) and not record.is_resumed)
            or (isinstance(record, Batch) and record.is_coalesced)
            for record in history.records
        )
        if may_skip or is_anew:
            self._tally.states_passed_over += len(missing)
            return
        self._tally.states_demanded += len(states)
        for key, state in missing:
            self._tally.blame(Harm.LOST, f"{key}: nobody was told of {state}")

    async def _may_skip(self) -> bool:
        """Tell whether an informer listed anew since the last quiet moment, or began anew."""
        url = f"http://127.0.0.1:{self._stage.service.http_port}/metrics"
        async with aiohttp.ClientSession() as session, session.get(url) as response:
            text = await response.text()
        counts = sorted(
            line
            for line in text.splitlines()
            if line.startswith(("watchcache_relists_total", "watchcache_source_restarts"))
        )
        before = self._reasons_to_skip
        self._reasons_to_skip = (self._stage.service.pid, *counts)
        return self._reasons_to_skip != before

    def _count(self, history: History) -> None:
        checker, tally = history.checker, self._tally
        before = self._counted.get(id(checker), (0, 0, 0, 0))
        now = (
            checker.change_count,
            checker.resumed_count,
            checker.reset_count,
            checker.coalesced_count,
        )
        changes, resumed, resets, coalesced = (
            new - old for new, old in zip(now, before, strict=True)
        )
        seen = self._violations.pop(id(checker), 0)
        if history.is_over:
            self._counted.pop(id(checker), None)
            tally.events_unfinished += changes
        else:
            self._counted[id(checker)] = now
            tally.events_checked += changes
        tally.resumed += resumed
        tally.resets += resets
        tally.coalesced += coalesced
        found = checker.violations[seen:]
        if not history.is_over:
            self._violations[id(checker)] = len(checker.violations)
        for number, violation in enumerate(found):
            text = history.problems() if number == 0 else str(violation)
            tally.blame(harm_of(violation.rule), text)


def _versions(content: Content) -> dict[Key, tuple[str, str]]:
    return {
        key: (item["metadata"]["uid"], item["metadata"]["resourceVersion"])
        for key, item in content.items()
    }


def _selected(content: Content, selector: str, extension: str) -> Content:
    """Return the part of the content that a subscriber is to see."""
    key, _, value = selector.partition("=")
    is_gold = extension == _EXTENSIONS[1]
    return {
        each: item
        for each, item in content.items()
        if (not selector or item["metadata"].get("labels", {}).get(key) == value)
        and (
            not is_gold
            or (each.resource == "configmaps" and item["metadata"]["labels"]["tier"] == "gold")
        )
    }


def _without_type(item: dict[str, Any] | None) -> dict[str, Any] | None:
    """Leave out what an item of a list does not say."""
    if item is None:
        return None
    return {name: part for name, part in item.items() if name not in ("kind", "apiVersion")}
