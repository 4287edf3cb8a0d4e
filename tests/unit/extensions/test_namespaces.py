"""Rules of sets of namespaces: what comes to match, what ceases to, and what cannot be known."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from tests.unit.extensions.namespace_world import GOLD, Hub, chosen, hub, in_namespace, scope_of
from tests.unit.extensions.world import KEY, events_of, only, pods, settle
from tests.unit.kubernetes.informer_double import event, pod_list
from watchcache_server.extensions.extension import Extension
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.states import CheckOutcome, ExtensionState, LeftReason, SourceState

pytestmark = pytest.mark.looptime


def namespaces_of(extension: Extension) -> set[str]:
    """Return the namespaces that are watched."""
    return {spec.namespace for spec in extension.informers}


async def until(extension: Extension, holds: Callable[[], bool]) -> None:
    """Wait until something holds that the extension hears of."""
    async with asyncio.timeout(600.0):
        while not holds():
            await extension.pulse.wait()
    await settle()


async def namespace_left(extension: Extension, namespace: str) -> None:
    """Wait until a namespace is watched no longer."""
    await until(extension, lambda: namespace not in namespaces_of(extension))


# What matches


async def test_what_matches_is_watched() -> None:
    """Each namespace by an informer of its own; the extension is settled when all are."""
    async with hub() as api:
        extension = (await api.world.register(chosen())).extension
        assert not extension.is_settled, "nothing is known yet"
        await api.serve_set("a", "b")
        assert namespaces_of(extension) == {"a", "b"}
        assert not extension.is_settled
        await api.serve_pods("web")
        await api.serve_pods()
        assert extension.is_settled
        assert extension.state is ExtensionState.LIVE
        assert [found.entry.name for found in extension.store.objects(EVERYTHING)] == ["web"]


async def test_an_empty_set_is_live() -> None:
    """That nothing matches is known."""
    async with hub() as api:
        extension = await api.live()
        assert extension.state is ExtensionState.LIVE
        assert extension.is_settled
        assert not extension.informers


async def test_what_comes_to_match_touches_nothing_else() -> None:
    """The others' tasks, sources and watches go on."""
    async with hub() as api:
        extension = await api.live("a")
        before = only(extension)
        await api.tell("ADDED", "b")
        assert await api.serve_pods("late") == "b"
        assert before in extension.informers.values()
        assert not before.is_stopped
        assert api.api.is_quiet
        assert list(events_of(extension, 2)) == []
        assert {found.entry.name for found in extension.store.objects(EVERYTHING)} == {
            "web",
            "late",
        }


async def test_entries_with_one_selector_share_one_informer_of_namespaces() -> None:
    """However many entries there are, namespaces are listed once."""
    async with hub() as api:
        nameless = pods(namespace_selector=GOLD, field_selector="metadata.name=x")
        entries = (chosen(field_selector="metadata.name=web"), nameless)
        extension = (await api.world.register(*entries)).extension
        await api.serve_set("a")
        assert len(extension.namespace_informers) == 1
        assert len(extension.informers) == 2


# What ceases to match


async def test_what_was_deleted_before_a_namespace_left_is_told_as_that() -> None:
    """The informer first becomes as fresh as the API server after that; the rest has LEFT."""
    async with hub() as api:
        extension = await api.live("a")
        revision = extension.store.revision
        watch = api.watches["a"]
        watch.send(event("ADDED", in_namespace("a", "stays", "6")))
        await settle()
        path = "/api/v1/namespaces/a/pods"
        api.lists[path] = [in_namespace("a", "stays", "6")]
        await api.tell("DELETED", "a")
        await asyncio.sleep(0.5)
        assert path in api.listed, "it asks how far the API server is"
        assert namespaces_of(extension) == {"a"}, "the stream has yet to come to that"
        watch.send(event("DELETED", in_namespace("a", "web", "20")))
        await namespace_left(extension, "a")
        assert list(events_of(extension, revision)) == [
            ("added", "stays", ""),
            ("deleted", "web", ""),
            ("left", "stays", "scope"),
        ]
        assert len(api.world.left_running()) == 1, "the set itself"


async def test_what_comes_back_meanwhile_stays() -> None:
    """Nothing is told of it, and nothing of the departure is left."""
    async with hub() as api:
        extension = await api.live("a")
        revision, before = extension.store.revision, only(extension)
        for _ in range(50):
            await api.tell("DELETED", "a")
            await api.tell("ADDED", "a")
        await asyncio.sleep(30.0)
        assert only(extension) is before
        assert extension.store.revision == revision
        assert len(api.world.left_running()) == 2


async def test_flapping_labels_leave_no_task_behind() -> None:
    """Whatever the moment at which a namespace comes back."""
    async with hub() as api:
        extension = await api.live("a")
        for number in range(25):
            await api.tell("DELETED", "a")
            await asyncio.sleep(0.05 * number)
            if not extension.informers:
                await api.tell("ADDED", "a")
                await api.serve_pods("web")
            else:
                await api.tell("ADDED", "a")
            api.lists["/api/v1/namespaces/a/pods"] = [in_namespace("a", "web", "5")]
        await asyncio.sleep(5.0)
        assert namespaces_of(extension) == {"a"}
        assert len(api.world.left_running()) == 2
        assert not extension.retiring


async def test_an_informer_that_holds_nothing_goes_at_once() -> None:
    """There is nothing that could be told of it."""
    async with hub() as api:
        extension = (await api.world.register(chosen())).extension
        await api.serve_set("a", "b")
        await api.serve_pods()
        assert namespaces_of(extension) == {"a", "b"}
        for name in "ab":
            await api.tell("DELETED", name)
        assert not extension.informers
        assert not api.listed


async def test_who_may_no_longer_ask_still_hears_the_end() -> None:
    """With a namespace go the RoleBindings in it; the watch that is open tells of the deletions."""
    async with hub() as api:
        extension = await api.live("a")
        revision = extension.store.revision
        api.refused.add("/api/v1/namespaces/a/pods")
        await api.tell("DELETED", "a")
        await asyncio.sleep(5.0)
        assert namespaces_of(extension) == {"a"}
        api.watches["a"].send(event("DELETED", in_namespace("a", "web", "20")))
        await namespace_left(extension, "a")
        assert list(events_of(extension, revision)) == [("deleted", "web", "")]


async def test_who_may_no_longer_read_either_is_told_that_it_left() -> None:
    """When the watch has ended and another one is refused, no deletion can be seen any more."""
    async with hub() as api:
        extension = await api.live("a")
        revision = extension.store.revision
        api.refused.add("/api/v1/namespaces/a/pods")
        await api.tell("DELETED", "a")
        await asyncio.sleep(5.0)
        api.watches["a"].end()
        refusing = asyncio.ensure_future(_refuse_all(api))
        await namespace_left(extension, "a")
        refusing.cancel()
        assert list(events_of(extension, revision)) == [("left", "web", "scope")]


async def _refuse_all(api: Hub) -> None:
    while True:
        (await api.asked()).refuse(403, "Forbidden", "no")


async def test_what_leaves_waits_for_an_api_server_that_does_not_answer() -> None:
    """An outage turns no deletion into a departure; the end of the extension ends it all."""
    async with hub() as api:
        extension = await api.live("a")

        async def never(_: object) -> None:
            raise TimeoutError

        api.api.answer_call = never  # type: ignore[assignment]
        await api.tell("DELETED", "a")
        await asyncio.sleep(120.0)
        assert namespaces_of(extension) == {"a"}
        await api.world.registry.deregister(KEY)
        await settle()
        assert not api.world.left_running()
        assert api.world.account.holders == 0


async def test_what_leaves_under_a_selector_is_resolved_first() -> None:
    """A deletion that is not proven yet is looked into before the rest has LEFT."""
    async with hub() as api:
        extension = (await api.world.register(chosen(label_selector="app"))).extension
        await api.serve_set("a")
        await api.serve_pods("web")
        revision = extension.store.revision
        answered = asyncio.Event()
        listing = api.api.answer_call
        assert listing is not None

        async def answer(request: object) -> object:
            path: str = request.path  # type: ignore[attr-defined]
            if path.endswith("/pods/web"):
                await answered.wait()
                api.refused.clear()
            return await listing(request)  # type: ignore[arg-type]

        api.api.answer_call = answer  # type: ignore[assignment]
        api.watches["a"].send(event("DELETED", in_namespace("a", "web", "20")), api.mark())
        await api.tell("DELETED", "a")
        await asyncio.sleep(3.0)
        assert namespaces_of(extension) == {"a"}, "what became of it is being asked"
        api.refused.add("/api/v1/namespaces/a/pods/web")
        answered.set()
        await namespace_left(extension, "a")
        ends = [kind for kind, _, _ in events_of(extension, revision)]
        assert len(ends) == 1


# What cannot be known


async def test_a_missing_right_is_a_state_of_its_own() -> None:
    """It names the verbs on namespaces; what the spec names goes on."""
    async with hub() as api:
        extension = (
            await api.world.register(pods("x", field_selector="metadata.name=a"))
        ).extension
        await api.serve_pods("web")
        await api.world.register(
            pods("x", field_selector="metadata.name=a"),
            chosen(field_selector="metadata.name=b"),
        )
        before = only(extension)
        refusing = asyncio.ensure_future(_refuse_all(api))
        await api.until(extension, SourceState.FORBIDDEN)
        refusing.cancel()
        status = scope_of(extension).status
        assert status.missing_verbs == ("list", "watch")
        assert "needs list and watch on namespaces in all namespaces" in status.message
        assert before.status.state is SourceState.LIVE
        assert extension.state is ExtensionState.DEGRADED
        assert extension.is_settled


async def test_a_right_that_is_lost_empties_no_set() -> None:
    """Also after the time of grace, when objects would be dropped."""
    async with hub() as api:
        extension = await api.live("a")
        api.spaces.end()
        refusing = asyncio.ensure_future(_refuse_all(api))
        await api.until(extension, SourceState.FORBIDDEN)
        await asyncio.sleep(1000.0)
        known = scope_of(extension).informer
        assert known.names == ["a"]
        known.purge(LeftReason.RIGHTS_REVOKED)
        assert known.names == ["a"]
        assert namespaces_of(extension) == {"a"}
        refusing.cancel()


async def test_what_went_unseen_is_found_by_the_next_sync() -> None:
    """After a relist the set is what it shows: what is gone leaves, what is new comes."""
    async with hub() as api:
        extension = await api.live("a", "b")
        api.lists["/api/v1/namespaces/a/pods"] = [in_namespace("a", "web", "5")]
        api.spaces.send(b'{"type":"ERROR","object":{"kind":"Status","code":410}}\n')
        await settle()
        await api.serve_set("b", "c")
        assert await api.serve_pods("web") == "c"
        await namespace_left(extension, "a")
        assert namespaces_of(extension) == {"b", "c"}


async def test_what_was_lost_without_a_word_is_found_by_a_check() -> None:
    """A set is compared with its API server like any informer, and says so."""
    async with hub(consistency_check_seconds=20) as api:
        extension = await api.live("a")
        api.spaces.send(api.mark())
        api.lists["/api/v1/namespaces"] = spaces = [api.namespace("a"), api.namespace("lost")]
        listing = await api.asked()
        assert listing.request.path == "/api/v1/namespaces"
        assert scope_of(extension).status.reason == "INCONSISTENT"
        listing.accept(pod_list(str(api.version), *spaces)).end()
        await settle()
        assert namespaces_of(extension) == {"a", "lost"}
        check = scope_of(extension).status.check
        assert check is not None
        assert (check.outcome, check.mismatch_count) == (CheckOutcome.MISMATCH, 1)


async def test_what_ran_stays_until_another_set_is_known() -> None:
    """A changed selector says nothing of any namespace before it was read."""
    async with hub() as api:
        extension = await api.live("a", "b")
        before = dict(extension.informers)
        await api.world.register(chosen("tier=gold,new"))
        exchange = await api.asked()
        assert exchange.query["labelSelector"] == "tier=gold,new"
        assert extension.informers == before
        assert extension.state is ExtensionState.SYNCING
        exchange.accept(api.space("ADDED", "a"), api.mark(is_initial_end=True))
        api.lists["/api/v1/namespaces/b/pods"] = [in_namespace("b", "web", "5")]
        await namespace_left(extension, "b")
        (spec,) = extension.informers
        assert extension.informers[spec] is before[spec]


async def test_what_ran_leaves_when_another_set_is_refused() -> None:
    """What the spec no longer names is not watched for want of a right."""
    async with hub() as api:
        extension = await api.live("a")
        api.lists["/api/v1/namespaces/a/pods"] = [in_namespace("a", "web", "5")]
        await api.world.register(chosen("new"))
        refusing = asyncio.ensure_future(_refuse_all(api))
        await namespace_left(extension, "a")
        refusing.cancel()
        assert scope_of(extension).status.state is SourceState.FORBIDDEN


async def test_a_set_that_keeps_changing_delays_no_hand_over() -> None:
    """Who retires goes on until its objects are taken over and a moment more, and no longer."""
    async with hub() as api:
        extension = await api.live("a")
        await api.world.register(chosen(label_selector="app=shop"))
        await api.serve_pods()
        assert extension.retiring
        loop = asyncio.get_running_loop()
        began = loop.time()
        for name in "bcdefghi":
            await asyncio.sleep(0.4)
            await api.tell("ADDED", name)
            if not extension.retiring:
                break
        assert 1.0 <= loop.time() - began < 1.5


# Specs


async def test_a_spec_without_the_selector_ends_the_set() -> None:
    """Streams are told that it is no more, and nothing is left of it."""
    async with hub() as api:
        extension = await api.live("a")
        version, told = extension.status_version, scope_of(extension)
        await api.world.register(pods("a"))
        await settle()
        assert extension.changed(EVERYTHING, version) == [told]
        assert told.status.state is SourceState.STOPPED
        assert namespaces_of(extension) == {"a"}
        assert len(api.world.left_running()) == 1


async def test_a_set_that_is_chosen_again_is_told_anew() -> None:
    """An open stream hears of another resource in a set that has long been known."""
    async with hub() as api:
        extension = await api.live("a")
        version = extension.status_version
        await api.world.register(chosen(), pods(namespace_selector="other"))
        told = extension.changed(EVERYTHING, version)
        assert [each.spec.namespace for each in told] == [""]
        assert extension.changed(Filter(resources=(("", "secrets"),)), 0) == []


async def test_another_account_knows_nothing() -> None:
    """What one ServiceAccount read of namespaces is not used for another."""
    async with hub() as api:
        extension = await api.live("a")
        await api.world.register(chosen(), account="other")
        assert not extension.informers
        assert scope_of(extension).informer.names is None
        await api.serve_set("b")
        assert namespaces_of(extension) == {"b"}


async def test_a_kind_without_namespaces_is_refused() -> None:
    """The answer names the field, the rule and the mend."""
    async with hub() as api:
        entry = chosen()
        nodes = type(entry)("", "", "nodes", "", namespace_selector=GOLD)
        with pytest.raises(InvalidRequestError, match="is not namespaced") as error:
            await api.world.register(nodes)
        (violation,) = error.value.violations
        assert violation.field == "spec.resources.items.namespace_selector"
        assert "leave the namespace_selector out" in violation.description


async def test_a_kind_that_is_not_known_soon_is_not_refused() -> None:
    """Its informers will say what is wrong."""
    async with hub() as api:

        async def never(*_: object, **__: object) -> None:
            await asyncio.sleep(1e6)

        api.world.hub.discovery.resolve = never  # type: ignore[assignment, method-assign]
        extension = (await api.world.register(chosen())).extension
        assert not extension.is_settled


# Bounds


async def test_beyond_the_bound_those_that_run_go_on() -> None:
    """The set says so; when there is room again, the next one comes."""
    async with hub(max_sources=3) as api:
        extension = await api.live("b", "c")
        await api.tell("ADDED", "a")
        assert namespaces_of(extension) == {"b", "c"}
        status = scope_of(extension).status
        assert (status.state, status.reason) == (SourceState.STALE, "MAX_SOURCES")
        assert "1 of the namespaces of cluster hub that match 'tier=gold'" in status.message
        assert "max_sources" in status.message
        assert extension.state is ExtensionState.DEGRADED
        api.lists["/api/v1/namespaces/b/pods"] = [in_namespace("b", "web", "5")]
        await api.tell("DELETED", "b")
        await namespace_left(extension, "b")
        assert await api.serve_pods() == "a"
        assert scope_of(extension).status.state is SourceState.LIVE
        assert extension.state is ExtensionState.LIVE
