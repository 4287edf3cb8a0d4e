"""Rules of the schedule of the checks: when, of which informers, how many at once, what follows."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.extensions.world import KEY, World, only, pods, running, settle, state_of, sync
from watchcache_server.extensions.checks import Checks
from watchcache_server.informer.audit import Finding
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.checking import Checked
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import CheckOutcome, SourceState

pytestmark = pytest.mark.looptime

CONSISTENT = Checked(outcome=CheckOutcome.CONSISTENT)
UNCLEAR = Checked(outcome=CheckOutcome.UNCLEAR)
LOST = Checked(outcome=CheckOutcome.MISMATCH, finding=Finding("20", held=2, listed=1, surplus=1))
# Without chance: a quarter of 900 s, then three quarters each time.
FIRST, NEXT = 225.0, 675.0


class Checker:
    """Stands in for `check`: says what a test wants, and remembers when it was asked."""

    def __init__(self) -> None:
        self.result: Checked | Exception = CONSISTENT
        self.checked: list[tuple[float, str]] = []
        self.seconds = 0.0
        self.running = self.most_running = 0
        self.followers: list[Any] = []

    async def __call__(self, access: Any, source: Source, follower: Any) -> Checked:
        self.checked.append((asyncio.get_running_loop().time(), source.spec.namespace))
        self.followers.append(follower)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(self.seconds)
        self.running -= 1
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    @property
    def times(self) -> list[float]:
        """When it was asked."""
        return [time for time, _ in self.checked]


@pytest.fixture
def checker(monkeypatch: pytest.MonkeyPatch) -> Checker:
    """Give the checker that all schedules of the test use."""
    checker = Checker()
    monkeypatch.setattr("watchcache_server.extensions.checks.check", checker)
    return checker


def heard(world: World) -> list[tuple[CheckOutcome, str, dict[str, int]]]:
    """Return what was reported of the checks."""
    return [tuple(rest) for _, _, *rest in world.reporter.of("consistency_checked")]  # type: ignore[misc]


async def test_each_informer_is_checked_once_in_an_interval(checker: Checker) -> None:
    """The first time within it; a check says when it was, and what it has found."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        version = extension.status_version
        await asyncio.sleep(FIRST + 2 * NEXT + 1)
        assert checker.times == [FIRST, FIRST + NEXT, FIRST + 2 * NEXT]
        assert heard(world) == [(CheckOutcome.CONSISTENT, "", {})] * 3
        check = only(extension).status.check
        assert check is not None
        assert (check.time, check.message) == (1_000_000.0 + FIRST + 2 * NEXT, "")
        assert extension.status_version == version, "that all is well is no news"


async def test_chance_spreads_them(checker: Checker) -> None:
    """Up to the whole interval at first, then a quarter less or more."""
    async with running() as world:
        world.registry._host._checks._jitter = lambda: 1.0
        await world.live(pods("team-a"))
        await asyncio.sleep(900.0 + 1125.0 + 1)
        assert checker.times == [900.0, 2025.0]


async def test_one_that_costs_much_is_checked_less_often(checker: Checker) -> None:
    """By what the check says."""
    checker.result = Checked(outcome=CheckOutcome.CONSISTENT, is_costly=True)
    async with running() as world:
        await world.live(pods("team-a"))
        await asyncio.sleep(FIRST + 4 * NEXT + 1)
        assert checker.times == [FIRST, FIRST + 4 * NEXT]


async def test_none_is_checked_where_the_interval_is_0(checker: Checker) -> None:
    """It is turned off."""
    async with running(consistency_check_seconds=0) as world:
        await world.live(pods("team-a"))
        await asyncio.sleep(100_000.0)
        assert checker.times == []
        await world.registry.deregister(KEY)


async def test_only_what_is_live_is_checked(checker: Checker) -> None:
    """Others know already that what they hold may be old, or hold nothing."""
    async with running() as world:
        await world.register(pods("team-a", "team-b"))
        exchanges = [await world.hub.api.asked() for _ in range(2)]
        (first,) = [each for each in exchanges if "/team-a/" in each.request.path]
        await sync(first)
        await asyncio.sleep(FIRST + 1)
        assert [namespace for _, namespace in checker.checked] == ["team-a"]


async def test_what_is_being_handed_over_is_not_checked(checker: Checker) -> None:
    """Neither who retires nor who follows can be held to what they hold."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        before = only(extension)
        await world.register(pods("team-a", label_selector="app=web"))
        assert list(extension.retiring) == [before]
        await asyncio.sleep(FIRST - 0.5)
        exchange = await world.hub.api.asked()
        while "sendInitialEvents" not in exchange.query:
            exchange = await world.hub.api.asked()
        await sync(exchange)
        await settle()
        assert state_of(only(extension))[0] is SourceState.LIVE
        assert extension.store.predecessors(only(extension).source) == [before.source]
        await asyncio.sleep(1.0)
        assert checker.times == []
        await asyncio.sleep(NEXT)
        assert checker.times == [FIRST + NEXT]


async def test_who_has_ended_is_let_go(checker: Checker) -> None:
    """At once, however many there were; and is not checked."""
    async with running() as world:
        for number in range(100):
            key = ExtensionKey("team-a", f"shop-{number}")
            await world.register(pods("team-a"), key=key)
            await settle()
            await world.registry.deregister(key)
        checks = world.registry._host._checks
        assert len(checks) <= 64
        assert all(entry.informer is None for _, _, entry in checks._heap)
        await asyncio.sleep(1000.0)
        assert (len(checks), checks._dead, checker.times) == (0, 0, [])


async def test_a_few_are_checked_at_once_for_each_cluster(checker: Checker) -> None:
    """A cluster that is slow holds up no other."""
    checker.seconds = 30.0
    namespaces = [f"n-{number}" for number in range(5)]
    async with running("hub", "edge") as world:
        await world.register(pods(*namespaces), clusters=("edge", "hub"))
        for cluster in ("hub", "edge"):
            for _ in namespaces:
                await sync(await world.clusters.get(cluster).api.asked())
        await asyncio.sleep(FIRST + 95)
        assert checker.most_running == 4
        assert sorted(checker.times) == [FIRST] * 4 + [FIRST + 30] * 4 + [FIRST + 60] * 2


async def test_what_waits_and_ends_meanwhile_is_not_checked(checker: Checker) -> None:
    """Its turn passes to the next one."""
    checker.seconds = 30.0
    async with running() as world:
        await world.live(pods("a", "b", "c"))
        await asyncio.sleep(FIRST + 1)
        await world.register(pods("a", "b"))
        await asyncio.sleep(60.0)
        assert [namespace for _, namespace in checker.checked] == ["a", "b"]
        await asyncio.sleep(NEXT)
        assert len(checker.checked) == 4


async def test_who_was_proven_wrong_lists_anew_and_says_so(checker: Checker) -> None:
    """Once; it is checked again soon, and if the same is found then, ever less often."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        informer = only(extension)
        version = informer.status.version
        checker.result = LOST
        await asyncio.sleep(FIRST)
        await settle()
        assert state_of(informer) == (SourceState.STALE, "INCONSISTENT")
        exchange = await world.hub.api.asked()
        while exchange.is_watch:
            exchange = await world.hub.api.asked()
        assert exchange.query == {"limit": "500"}
        check = informer.status.check
        assert check is not None
        assert (check.outcome, check.mismatch_count) == (CheckOutcome.MISMATCH, 1)
        assert "all of them are listed anew" in check.message
        assert informer.status.version > version
        ((outcome, message, counts),) = heard(world)
        assert (outcome, message) == (CheckOutcome.MISMATCH, check.message)
        assert counts == {"held": 2, "listed": 1, "missing": 0, "outdated": 0, "surplus": 1}


async def test_what_lists_do_not_mend_is_said_and_left_for_a_while(checker: Checker) -> None:
    """An API server that answers lists and watches differently makes no informer list for ever."""
    distrusted: list[float] = []

    async with running() as world:
        extension = await world.live(pods("team-a"))
        informer = only(extension)
        entry = world.registry._host._checks._heap[0][2]
        assert entry.runner is not None
        now = asyncio.get_running_loop().time
        entry.runner.distrust = lambda: distrusted.append(now())  # type: ignore[method-assign]
        checker.result = LOST
        again = FIRST + 60
        await asyncio.sleep(again + NEXT + 1)
        assert checker.times == [FIRST, again, again + NEXT]
        assert distrusted == [FIRST]
        check = informer.status.check
        assert check is not None
        assert check.mismatch_count == 3
        assert "again after all were listed anew" in check.message
        await asyncio.sleep(NEXT)
        assert distrusted == [FIRST, again + 2 * NEXT]
        checker.result = UNCLEAR
        await asyncio.sleep(60)
        checker.result = CONSISTENT
        await asyncio.sleep(NEXT)
        assert informer.status.check is not None
        assert informer.status.check.mismatch_count == 4
        assert informer.status.check.mismatch_time == 1_000_000.0 + again + 2 * NEXT
        assert entry.remedy is None, "the next mismatch is one like the first"
        assert [outcome for outcome, *_ in heard(world)[-2:]] == [
            CheckOutcome.UNCLEAR,
            CheckOutcome.CONSISTENT,
        ]


async def test_who_has_ended_meanwhile_is_not_judged(checker: Checker) -> None:
    """What was found is of nobody."""
    checker.seconds = 30.0
    checker.result = LOST
    async with running() as world:
        extension = await world.live(pods("team-a"))
        await asyncio.sleep(FIRST + 1)
        entry = next(iter(world.registry._host._checks._lanes.values()))
        assert entry.running == 1
        await world.registry.deregister(KEY)
        await asyncio.sleep(60.0)
        assert heard(world) == []
        assert extension.ended


async def test_a_fault_of_ours_ends_no_schedule(checker: Checker) -> None:
    """It is reported, and the informer is checked the next time."""
    checker.result = RuntimeError("a fault")
    async with running() as world:
        await world.live(pods("team-a"))
        await asyncio.sleep(FIRST + NEXT + 1)
        assert checker.times == [FIRST, FIRST + NEXT]
        assert len(world.reporter.of("informer_failed")) == 2


async def test_an_earlier_one_is_not_waited_for_behind_a_later_one() -> None:
    """Whatever is added while it sleeps."""
    async with running() as world:
        extension = await world.live(pods("team-a"))
        checks = Checks(
            seconds=100.0,
            clock=world.clock.now,
            jitter=iter([1.0, 0.0]).__next__,
            guarded=lambda _, work: work(),
        )
        task = asyncio.create_task(checks.run())
        late = checks.add(only(extension), world.hub.api)  # type: ignore[arg-type]
        await settle()
        early = checks.add(only(extension), world.hub.api)  # type: ignore[arg-type]
        checks.discard(early)
        await asyncio.sleep(26.0)
        assert [entry for _, _, entry in checks._heap] == [late]
        task.cancel()
        await asyncio.wait([task])
