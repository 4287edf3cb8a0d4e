"""Trouble on demand: whom a fault strikes, how often, and what the client then sees."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import pytest

from tests.unit.devcluster.calls import Caller, calling
from watchcache_devcluster import DevCluster, Fault, FaultSet, server
from watchcache_devcluster.requests import RequestInfo

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"
LIST = RequestInfo.parse("GET", CONFIGMAPS, {})
WATCH = RequestInfo.parse("GET", CONFIGMAPS, {"watch": "1"})
DEPLOYMENTS = RequestInfo.parse("GET", "/apis/apps/v1/deployments", {})


class Recorder:
    """A running watch that notes what strikes it."""

    def __init__(self, info: RequestInfo) -> None:
        self.info = info
        self.struck: list[Fault] = []

    def strike(self, fault: Fault) -> None:
        self.struck.append(fault)


class TestFaultSet:
    """Which faults are in force, and for whom."""

    @pytest.mark.parametrize(
        ("options", "strikes"),
        [
            ({}, [LIST, WATCH, DEPLOYMENTS]),
            ({"verb": "watch"}, [WATCH]),
            ({"resource": "deployments"}, [DEPLOYMENTS]),
            ({"resource": "deployments.apps"}, [DEPLOYMENTS]),
            ({"namespace": "default", "verb": "list"}, [LIST]),
        ],
    )
    def test_a_fault_is_for_what_it_names(
        self, options: dict[str, Any], strikes: list[RequestInfo]
    ) -> None:
        """Verb, resource and namespace narrow it; what is not named is not asked."""
        fault = Fault("status", **options)
        assert [info for info in (LIST, WATCH, DEPLOYMENTS) if fault.matches(info)] == strikes

    def test_a_fault_is_used_up(self) -> None:
        """With `times` it strikes so often, and is then no longer in force."""
        faults = FaultSet()
        faults.add(Fault("status", times=2))
        assert [len(faults.strike(LIST)) for _ in range(3)] == [1, 1, 0]
        assert faults.active() == []

    def test_running_watches_can_be_looked_at(self) -> None:
        """From when they begin until they end."""
        faults, stream = FaultSet(), Recorder(WATCH)
        assert faults.running() == []
        faults.register(stream)
        assert faults.running() == [WATCH]
        faults.unregister(stream)
        assert faults.running() == []

    def test_running_watches_are_struck_at_once(self) -> None:
        """A fault on streams strikes those that run, and by default no later ones."""
        faults = FaultSet()
        running, other = Recorder(WATCH), Recorder(LIST)
        for recorder in (running, other):
            faults.register(recorder)
        faults.add(Fault("error", code=500))
        assert [len(running.struck), len(other.struck)] == [1, 0]
        assert faults.strike(WATCH) == []
        faults.unregister(running)
        faults.add(Fault("error", times=1))
        assert len(running.struck) == 1
        assert len(faults.strike(WATCH)) == 1

    def test_running_watches_count(self) -> None:
        """A fault that running watches have used up does not wait for more."""
        faults = FaultSet()
        running = [Recorder(WATCH) for _ in range(3)]
        for recorder in running:
            faults.register(recorder)
        faults.add(Fault("reset", times=2))
        assert sum(len(recorder.struck) for recorder in running) == 2
        assert faults.active() == []

    def test_a_lasting_fault_is_there_until_it_is_removed(self) -> None:
        """Faults are listed with their number and count, removed one by one, or cleared."""
        faults = FaultSet()
        number = faults.add(Fault("reset", lasting=True, verb="list"))
        faults.strike(LIST)
        assert faults.active() == [
            {
                "number": number,
                "struck": 1,
                "kind": "reset",
                "verb": "list",
                "percent": 100.0,
                "lasting": True,
                "code": 500,
                "seconds": 1.0,
            }
        ]
        assert faults.remove(number)
        assert not faults.remove(number)
        faults.add(Fault("delay"))
        assert faults.clear() == 1

    def test_a_percentage_is_a_chance(self) -> None:
        """Only requests whose draw falls below it are struck."""
        draws = iter([0.1, 0.7, 0.49, 0.5])
        faults = FaultSet(lambda: next(draws))
        faults.add(Fault("status", percent=50))
        assert [len(faults.strike(LIST)) for _ in range(4)] == [1, 0, 1, 0]

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"kind": "bogus"}, "choose one of: reset, half-open"),
            ({"kind": "reset", "percent": 0}, "percent is 0"),
            ({"kind": "reset", "times": 0}, "times is 0"),
            ({"kind": "status", "code": 200}, "code is 200"),
            ({"kind": "delay", "seconds": -1}, "must not be negative"),
        ],
    )
    def test_a_senseless_fault_is_refused(self, options: dict[str, Any], message: str) -> None:
        """The error names the field and its rule."""
        with pytest.raises(ValueError, match=message):
            Fault(**options)


@pytest.fixture
async def caller(devcluster: DevCluster) -> Any:
    """Give a client of a fresh cluster."""
    async with calling(devcluster) as caller:
        yield caller


async def start(lines: Any) -> None:
    """Read the end of an empty start."""
    event = await lines.next()
    assert event["type"] == "BOOKMARK"


class TestRequests:
    """Faults at the start of a request."""

    async def test_a_status_has_its_code_and_its_wait(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """429 says when to come back, in a header and in the body; the next request passes."""
        devcluster.faults.add(Fault("status", code=429, retry_after_seconds=7, times=1))
        async with caller.open("GET", CONFIGMAPS) as response:
            body = await response.json()
            assert (response.status, response.headers["Retry-After"]) == (429, "7")
        assert (body["reason"], body["details"]) == ("TooManyRequests", {"retryAfterSeconds": 7})
        assert (await caller.call("GET", CONFIGMAPS))[0] == 200

    async def test_gone_is_410_for_a_list(self, devcluster: DevCluster, caller: Caller) -> None:
        """Outside of a watch there is no stream to put the error in."""
        devcluster.faults.add(Fault("gone", times=1))
        status, body = await caller.call("GET", CONFIGMAPS)
        assert (status, body["reason"]) == (410, "Expired")

    async def test_a_delay_comes_before_the_answer(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """The request is answered, later."""
        devcluster.faults.add(Fault("delay", seconds=0.05, times=1))
        loop = asyncio.get_running_loop()
        before = loop.time()
        assert (await caller.call("GET", CONFIGMAPS))[0] == 200
        assert loop.time() - before >= 0.05

    async def test_a_reset_gives_no_answer(self, devcluster: DevCluster, caller: Caller) -> None:
        """The connection is gone instead."""
        devcluster.faults.add(Fault("reset", times=2))  # aiohttp asks a second time by itself
        with pytest.raises(aiohttp.ClientError):
            await caller.call("GET", CONFIGMAPS)

    async def test_half_open_gives_no_answer_and_no_end(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """The client waits until its own patience ends."""
        devcluster.faults.add(Fault("half-open", times=1))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(caller.call("GET", CONFIGMAPS), 0.1)

    @pytest.mark.parametrize("clean", [False, True])
    async def test_a_body_can_be_cut(
        self, devcluster: DevCluster, caller: Caller, clean: bool
    ) -> None:
        """Half of the body comes, with or without a proper end."""
        devcluster.faults.add(Fault("cut", times=1, clean=clean))
        async with caller.open("GET", CONFIGMAPS) as response:
            assert response.status == 200
            if clean:
                assert not (await response.text()).endswith("\n")
            else:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()


class TestStreams:
    """Faults on running watches."""

    async def test_a_reset_ends_a_running_watch(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """The client sees a broken connection."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(Fault("reset", resource="configmaps"))
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await lines.raw_rest()

    async def test_half_open_silences_a_running_watch(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """Nothing comes any more, not even the end."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(Fault("half-open"))
            await devcluster.create("configmaps", {"metadata": {"name": "a"}})
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(lines.next(), 0.1)

    async def test_a_change_is_lost_without_a_trace(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """The next one and bookmarks come, as if it had never been."""
        async with caller.watch(f"{CONFIGMAPS}?allowWatchBookmarks=true") as lines:
            await start(lines)
            devcluster.faults.add(Fault("lose", after_events=1))
            for name in ("a", "b", "c"):
                await devcluster.create("configmaps", {"metadata": {"name": name}})
            names = [(await lines.next())["object"]["metadata"]["name"] for _ in range(2)]
        assert names == ["a", "c"]

    async def test_an_error_event_is_the_last(self, devcluster: DevCluster, caller: Caller) -> None:
        """Its code, reason and message are as asked, and the stream ends after it."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(
                Fault("error", code=500, reason="StorageReadError", message="corrupt")
            )
            event = await lines.next()
            assert await lines.raw_rest() == b""
        assert event["type"] == "ERROR"
        status = event["object"]
        assert (status["code"], status["reason"]) == (500, "StorageReadError")
        assert status["message"] == "corrupt"

    async def test_gone_is_an_event_in_a_watch(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """A new watch, too, is answered 200 and then told."""
        devcluster.faults.add(Fault("gone", times=1))
        async with caller.watch(CONFIGMAPS) as lines:
            event = await lines.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)

    async def test_an_end_is_clean(self, devcluster: DevCluster, caller: Caller) -> None:
        """The stream ends as at its deadline."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(Fault("end"))
            assert await lines.raw_rest() == b""

    @pytest.mark.parametrize("clean", [False, True])
    async def test_a_cut_is_in_the_middle_of_an_event(
        self, devcluster: DevCluster, caller: Caller, clean: bool
    ) -> None:
        """After so many events half of the next one comes, with or without a proper end."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(Fault("cut", after_events=1, clean=clean))
            for name in ("a", "b"):
                await devcluster.create("configmaps", {"metadata": {"name": name}})
            assert (await lines.next())["object"]["metadata"]["name"] == "a"
            if clean:
                rest = await lines.raw_rest()
                assert rest.startswith(b'{"type":"ADDED"')
                assert not rest.endswith(b"\n")
            else:
                with pytest.raises(aiohttp.ClientPayloadError):
                    await lines.raw_rest()

    async def test_a_cut_of_a_quiet_watch_does_not_wait(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """Without an event it is a bookmark that is cut."""
        async with caller.watch(CONFIGMAPS) as lines:
            await start(lines)
            devcluster.faults.add(Fault("cut", clean=True))
            rest = await lines.raw_rest()
        assert rest.startswith(b'{"type":"BOOKMARK"')
        assert not rest.endswith(b"\n")

    async def test_a_fault_may_wait_for_events(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """With `after_events` a watch lives that long, also one that begins later."""
        devcluster.faults.add(Fault("end", after_events=2, times=1))
        for name in ("a", "b", "c"):
            await devcluster.create("configmaps", {"metadata": {"name": name}})
        async with caller.watch(CONFIGMAPS) as lines:
            rest = await lines.raw_rest()
        assert rest.count(b"\n") == 2


class TestOthers:
    """Compaction, restarts and tokens that expire."""

    async def test_a_compaction_expires_older_versions(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """A watch from before is told 410; one that runs goes on."""
        made = await devcluster.create("configmaps", {"metadata": {"name": "a"}})
        version = made["metadata"]["resourceVersion"]
        async with caller.watch(CONFIGMAPS) as running:
            await running.next()
            await start(running)
            await devcluster.create("configmaps", {"metadata": {"name": "b"}})
            devcluster.compact()
            assert (await running.next())["type"] == "ADDED"
            async with caller.watch(f"{CONFIGMAPS}?resourceVersion={version}") as late:
                event = await late.next()
        assert (event["type"], event["object"]["code"]) == ("ERROR", 410)

    @pytest.mark.parametrize("keep_history", [True, False])
    async def test_a_restart_keeps_the_data_and_the_port(
        self, devcluster: DevCluster, caller: Caller, keep_history: bool
    ) -> None:
        """Every connection is cut; afterwards a watch goes on, or is told that it cannot."""
        made = await devcluster.create("configmaps", {"metadata": {"name": "a"}})
        await devcluster.create("configmaps", {"metadata": {"name": "b"}})
        port = devcluster.port
        async with caller.watch(CONFIGMAPS) as lines:
            for _ in range(3):
                await lines.next()
            await devcluster.restart(downtime_seconds=0.01, keep_history=keep_history)
            with pytest.raises((aiohttp.ClientError, ConnectionError)):
                await lines.raw_rest()
        assert devcluster.port == port
        version = made["metadata"]["resourceVersion"]
        async with caller.watch(f"{CONFIGMAPS}?resourceVersion={version}") as lines:
            event = await lines.next()
        assert event["type"] == ("ADDED" if keep_history else "ERROR")

    async def test_all_tokens_of_an_account_expire_at_once(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """Old tokens are 401, used or not; a new one is good."""
        used = await devcluster.token_for("default", "robot")
        unused = await devcluster.token_for("default", "robot")
        bearer = f"Bearer {used}"
        assert (await caller.call("GET", "/version", Authorization=bearer))[0] == 200
        devcluster.expire_tokens("default", "robot")
        for token in (used, unused):
            status, body = await caller.call("GET", "/version", Authorization=f"Bearer {token}")
            assert (status, body["reason"]) == (401, "Unauthorized")
        fresh = await devcluster.token_for("default", "robot")
        assert (await caller.call("GET", "/version", Authorization=f"Bearer {fresh}"))[0] == 200
        other = await devcluster.token_for("default", "other")
        assert (await caller.call("GET", "/version", Authorization=f"Bearer {other}"))[0] == 200

    async def test_idle_connections_can_be_dropped(
        self, devcluster: DevCluster, caller: Caller
    ) -> None:
        """Kept-alive connections are reset too; the next request opens another."""
        assert (await caller.call("GET", "/version"))[0] == 200
        assert devcluster.drop_connections() == 1
        assert (await caller.call("GET", "/version"))[0] == 200

    async def test_a_connection_that_is_closing_is_no_obstacle(
        self, devcluster: DevCluster, caller: Caller, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A restart goes through though a TLS connection, closed twice, can tell nothing more."""
        struck: list[asyncio.BaseTransport | None] = []
        reset = server.reset

        def close_before(transport: asyncio.BaseTransport | None) -> None:
            assert transport is not None
            transport.close()
            transport.close()
            struck.append(transport)
            reset(transport)

        monkeypatch.setattr(server, "reset", close_before)
        assert (await caller.call("GET", "/version"))[0] == 200
        await devcluster.restart()
        assert len(struck) == 1
        assert (await caller.call("GET", "/version"))[0] == 200
