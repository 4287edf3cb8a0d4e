"""Rules of the supervision of informers, and of what they share."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from tests.unit.extensions.world import KEY, only, pods, running, settle, state_of, sync
from tests.unit.kubernetes.informer_double import added, bookmark
from watchcache_server.extensions.informer import Informer
from watchcache_server.informer.backoff import BackoffSettings
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.kubernetes.informer_runner import InformerRunner
from watchcache_server.kubernetes.verification import VerificationLimits
from watchcache_server.model.specs import ExtensionKey
from watchcache_server.model.states import SourceState

pytestmark = pytest.mark.looptime


def break_events(monkeypatch: pytest.MonkeyPatch, broken: set[Any]) -> None:
    """Let the reading of events fail for the informers of these namespaces."""
    on_events = Reflector.on_events

    def fail(self: Reflector, events: Any, **moment: float) -> Any:
        if self._subject.namespace in broken and events:
            raise RuntimeError("a fault")
        return on_events(self, events, **moment)

    monkeypatch.setattr(Reflector, "on_events", fail)


async def test_an_informer_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault is reported, the state says so, what is held stays, and others notice nothing."""
    broken: set[str] = set()
    break_events(monkeypatch, broken)
    async with running() as world:
        extension = (await world.register(pods("team-a", "team-b"))).extension
        watches = {}
        for _ in range(2):
            exchange = await world.hub.api.asked()
            watches[exchange.request.path.split("/")[4]] = await sync(exchange)
        await settle()
        informers = {each.spec.namespace: each for each in extension.informers.values()}
        broken.add("team-a")
        for watch in watches.values():
            watch.send(b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"20"}}}\n')
        await settle()
        assert state_of(informers["team-a"]) == (SourceState.STALE, "INTERNAL")
        assert state_of(informers["team-b"])[0] is SourceState.LIVE
        assert informers["team-a"].source.table.count == 1
        ((key, spec, error),) = world.reporter.of("informer_failed")
        assert (key, spec) == (KEY, informers["team-a"].spec)
        assert "a fault" in str(error.exceptions)
        assert watches["team-a"].is_closed
        broken.clear()
        began = asyncio.get_running_loop().time()
        await sync(await world.hub.api.asked(), version=30)
        assert asyncio.get_running_loop().time() - began == pytest.approx(5.0)
        await settle()
        assert state_of(informers["team-a"])[0] is SourceState.LIVE


async def test_a_fault_in_a_renewal_ends_one_informer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals are one task for all informers, which goes on."""
    reopen = Reflector.reopen
    broken = {"team-a"}

    def fail(self: Reflector, **moment: float) -> Any:
        if self._subject.namespace in broken:
            raise RuntimeError("a fault")
        return reopen(self, **moment)

    monkeypatch.setattr(Reflector, "reopen", fail)
    async with running() as world:
        extension = (await world.register(pods("team-a", "team-b"))).extension
        for _ in range(2):
            exchange = await world.hub.api.asked()
            exchange.accept(
                *(added(f"p{number}", "3", size=300_000) for number in range(4)),
                bookmark("10", is_initial_end=True),
            )
        await settle()
        informers = {each.spec.namespace: each for each in extension.informers.values()}
        again = await world.hub.api.asked()
        assert "/team-b/" in again.request.path
        assert state_of(informers["team-a"]) == (SourceState.STALE, "INTERNAL")
        assert state_of(informers["team-b"])[0] is SourceState.LIVE


async def test_what_an_informer_had_collected_when_it_failed_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts as out of reach until it has synced, and then holds what that sync found."""
    broken: set[str] = set()
    break_events(monkeypatch, broken)
    async with running() as world:
        extension = (await world.register(pods("team-a"))).extension
        watch = (await world.hub.api.asked()).accept(added("ghost", "3"))
        await settle()
        broken.add("team-a")
        watch.send(added("web", "4"))
        await settle()
        assert state_of(only(extension)) == (SourceState.UNREACHABLE, "INTERNAL")
        assert extension.store.object_count == 0
        broken.clear()
        await sync(await world.hub.api.asked(), "web")
        await settle()
        assert [entry.name for entry in only(extension).source.table] == ["web"]


async def test_a_fault_does_not_swallow_a_cancellation(monkeypatch: pytest.MonkeyPatch) -> None:
    """An informer that fails just as it is stopped does not come back."""

    async def fail_when_cancelled(self: InformerRunner) -> None:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        raise RuntimeError("a fault in the clearing up")

    monkeypatch.setattr(InformerRunner, "run", fail_when_cancelled)
    async with running() as world:
        await world.register(pods("team-a"))
        await settle()
        await world.registry.deregister(KEY)
        assert not world.left_running()
        assert world.reporter.of("informer_failed")


async def test_tenants_share_the_turns_of_a_cluster() -> None:
    """One that asks for many does not hold up one that asks for a single sync."""
    async with running(max_concurrent_syncs=2) as world:
        await world.register(pods(*(f"big-{number}" for number in range(9))))
        small = ExtensionKey("team-a", "small-shop")
        await world.register(pods("small"), key=small)
        paths = []
        for _ in range(4):
            exchange = await world.hub.api.asked()
            paths.append(exchange.request.path)
            await sync(exchange)
        assert any("/small/" in path for path in paths)


async def test_clusters_have_turns_of_their_own() -> None:
    """One that is slow holds up no other."""
    async with running("hub", "edge", max_concurrent_syncs=1) as world:
        await world.register(pods("team-a", "team-b"), clusters=("edge", "hub"))
        await world.hub.api.asked()
        await world.clusters.get("edge").api.asked()


async def test_what_one_informer_learns_the_others_know() -> None:
    """A resource that has to be listed is listed by all of that cluster from then on."""
    async with running() as world:
        await world.register(pods("team-a"))
        (await world.hub.api.asked()).refuse(422, "Invalid", "sendInitialEvents is forbidden")
        assert not (await world.hub.api.asked()).is_watch
        await world.register(pods("team-a"), key=ExtensionKey("team-a", "other-shop"))
        assert not (await world.hub.api.asked()).is_watch


async def test_a_trainer_is_asked_for_what_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the registry, which owns the host."""
    asked: list[Informer] = []
    async with running() as world:
        monkeypatch.setattr(world.registry._host._trainer, "request", asked.append)
        extension = (await world.register(pods("team-a"))).extension
        extension.training_due(only(extension))
        assert asked == [only(extension)]


async def test_how_informers_wait_and_ask_is_set() -> None:
    """Each figure that an operator may want to change reaches the informers; the rest is usual."""
    async with running(
        watch_timeout_seconds=6,
        initial_events_seconds=7,
        list_page_size=8,
        forbidden_grace_seconds=9,
        first_backoff_seconds=1,
        longest_backoff_seconds=2,
        recheck_seconds=3,
        unauthenticated_recheck_seconds=4,
        bad_request_recheck_seconds=5,
        max_concurrent_verifications=10,
        verification_seconds=11,
    ) as world:
        host = world.registry._host
        assert host._reflector_settings == ReflectorSettings(
            watch_seconds=6,
            initial_idle_seconds=7,
            page_items=8,
            forbidden_grace_seconds=9,
            backoff=BackoffSettings(first_seconds=1, longest_seconds=2),
            probe_seconds=3,
            unauthenticated_seconds=4,
            bad_request_seconds=5,
        )
        assert host._verification == VerificationLimits(parallel=10, answer_seconds=11)
    async with running() as world:
        assert world.registry._host._reflector_settings == ReflectorSettings()
        assert world.registry._host._verification == VerificationLimits()
