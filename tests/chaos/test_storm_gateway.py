"""The gateway of a storm does to requests what the schedule says, and nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.chaos.storm.gateway import Gateway
from tests.chaos.storm.schedule import Fault, FaultKind
from tests.controlplane.credentials import Credentials

_EVENT = b'{"type":"ADDED","object":{"metadata":{"name":"one"}}}\n'
_WATCH = "/api/v1/configmaps?watch=true"
_LIST = "/api/v1/configmaps?limit=5"


def fault(kind: FaultKind, variant: str = "", **details: Any) -> Fault:
    """Make a fault; what is not given does not matter."""
    chosen: dict[str, Any] = {
        "pause_seconds": 0.0,
        "seconds": 0.3,
        "target": "any",
        "after_bytes": 10,
        "lot": 0.0,
        **details,
    }
    return Fault(kind=kind, variant=variant, **chosen)


class Behind:
    """A server behind the gateway: a list, and watches into which a test puts events."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.watches: list[web.StreamResponse] = []
        self.is_ended = asyncio.Event()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path_qs)
        if request.query.get("watch") != "true":
            return web.json_response({"items": [], "said": await request.text()})
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        await response.write(_EVENT)
        self.watches.append(response)
        await self.is_ended.wait()
        return response


@pytest.fixture
def struck() -> list[Fault]:
    """Give the faults that did something."""
    return []


@pytest.fixture
async def behind(tmp_path: Path) -> AsyncIterator[tuple[Behind, str, Path]]:
    """Give the server behind, its address and its CA."""
    credentials = Credentials(tmp_path / "server")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(credentials.serving_certificate, credentials.serving_key)
    server = Behind()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    port = runner.addresses[0][1]
    yield server, f"https://127.0.0.1:{port}", credentials.ca_file
    server.is_ended.set()
    await runner.cleanup()


@pytest.fixture
async def gateway(
    behind: tuple[Behind, str, Path], struck: list[Fault], tmp_path: Path
) -> AsyncIterator[Gateway]:
    """Give the gateway in front of it."""
    _, url, ca_file = behind
    async with Gateway(url, ca_file, tmp_path / "gateway", struck=struck.append) as gateway:
        yield gateway


@pytest.fixture
async def session(gateway: Gateway) -> AsyncIterator[aiohttp.ClientSession]:
    """Give a client of the gateway that trusts the gateway's own authority."""
    trust = ssl.create_default_context(cafile=gateway.credentials.ca_file)
    connector = aiohttp.TCPConnector(ssl=trust)
    async with aiohttp.ClientSession(gateway.url, connector=connector) as session:
        yield session


async def test_without_faults_all_passes(
    session: aiohttp.ClientSession, behind: tuple[Behind, str, Path], struck: list[Fault]
) -> None:
    """Requests with bodies, answers whole and in chunks, and several over one connection."""
    for number in range(3):
        async with session.post("/api/v1/things", data=f"body {number}") as response:
            assert (await response.json())["said"] == f"body {number}"
    async with session.get(_WATCH) as response:
        assert await response.content.readline() == _EVENT
        behind[0].is_ended.set()
        assert await response.content.readline() == b""
    assert not struck


@pytest.mark.parametrize(
    ("laid", "status"),
    [
        pytest.param(fault(FaultKind.EXPIRED, "answer"), 410, id="expired"),
        pytest.param(fault(FaultKind.THROTTLED, "answer"), 429, id="throttled"),
        pytest.param(fault(FaultKind.BROKEN, "500"), 500, id="broken"),
        pytest.param(fault(FaultKind.BROKEN, "502"), 502, id="broken gateway"),
    ],
)
async def test_a_refusal_is_given_once_in_the_place_of_the_server(
    laid: Fault,
    status: int,
    gateway: Gateway,
    session: aiohttp.ClientSession,
    behind: tuple[Behind, str, Path],
    struck: list[Fault],
) -> None:
    """The server hears nothing of the request that is refused; the next one passes."""
    await gateway.strike(laid)
    assert not struck
    async with session.get(_LIST) as response:
        assert response.status == status
    assert struck == [laid]
    assert not behind[0].asked
    async with session.get(_LIST) as response:
        assert response.status == 200


async def test_a_fault_lies_in_wait_for_its_sort_of_request(
    gateway: Gateway, session: aiohttp.ClientSession, struck: list[Fault]
) -> None:
    """What is meant for a list strikes no other request, and nothing once it is let go."""
    await gateway.strike(fault(FaultKind.BROKEN, "500", target="list"))
    async with session.get("/api/v1") as response:
        assert response.status == 200
    gateway.forget()
    async with session.get(_LIST) as response:
        assert response.status == 200
    assert not struck


@pytest.mark.parametrize("variant", ["close", "reset", "end"])
async def test_an_answer_is_cut_in_its_body(
    variant: str, gateway: Gateway, session: aiohttp.ClientSession, struck: list[Fault]
) -> None:
    """So many bytes come, and then the end, in order or not."""
    await gateway.strike(fault(FaultKind.CUT, variant))
    read = b""
    in_order = contextlib.nullcontext()
    with in_order if variant == "end" else pytest.raises(aiohttp.ClientError):
        async with session.get(_WATCH) as response:
            while piece := await response.content.readany():
                read += piece
    assert _EVENT.startswith(read)
    assert len(read) == 10 if variant == "end" else len(read) <= 10
    assert len(struck) == 1


@pytest.mark.parametrize(
    ("made", "said", "ends"),
    [
        pytest.param(fault(FaultKind.EXPIRED, "event"), '"code": 410', True, id="expired"),
        pytest.param(fault(FaultKind.BROKEN, "event 500"), '"code": 500', True, id="broken"),
        pytest.param(fault(FaultKind.GARBAGE, "line"), '"kind":\n', False, id="no JSON"),
        pytest.param(fault(FaultKind.GARBAGE, "type"), "SURPRISE", False, id="unknown type"),
    ],
)
async def test_something_is_said_between_two_events_of_a_watch(
    made: Fault,
    said: str,
    ends: bool,
    gateway: Gateway,
    session: aiohttp.ClientSession,
    behind: tuple[Behind, str, Path],
    struck: list[Fault],
) -> None:
    """It comes as a line of its own; the stream ends in order after it, or goes on."""
    async with session.get(_WATCH) as response:
        assert await response.content.readline() == _EVENT
        await gateway.strike(made)
        assert said in (await response.content.readline()).decode()
        if ends:
            assert await response.content.readline() == b""
        else:
            await behind[0].watches[0].write(_EVENT)
            assert await response.content.readline() == _EVENT
    assert struck == [made]


async def test_a_half_open_watch_says_nothing_and_does_not_end(
    gateway: Gateway, session: aiohttp.ClientSession, behind: tuple[Behind, str, Path]
) -> None:
    """What the server sends does not arrive; other requests pass."""
    async with session.get(_WATCH) as response:
        assert await response.content.readline() == _EVENT
        await gateway.strike(fault(FaultKind.HALF_OPEN, "all"))
        await behind[0].watches[0].write(_EVENT)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.3):
                await response.content.readline()
        async with session.get(_LIST) as other:
            assert other.status == 200


async def test_a_reset_ends_a_watch(gateway: Gateway, session: aiohttp.ClientSession) -> None:
    """The client sees its connection break."""
    async with session.get(_WATCH) as response:
        assert await response.content.readline() == _EVENT
        await gateway.strike(fault(FaultKind.RESET, "all"))
        with pytest.raises(aiohttp.ClientError):
            await response.content.readline()


async def test_an_expired_token_is_refused_and_another_is_not(
    gateway: Gateway, session: aiohttp.ClientSession, struck: list[Fault]
) -> None:
    """The tokens that were in use are refused from then on."""

    async def ask(token: str) -> int:
        async with session.get(_LIST, headers={"Authorization": f"Bearer {token}"}) as response:
            return response.status

    assert await ask("old") == 200
    await gateway.strike(fault(FaultKind.TOKEN_EXPIRY))
    assert await ask("old") == 401
    assert await ask("new") == 200
    assert await ask("old") == 401


@pytest.mark.parametrize("variant", ["html", "torn", "empty"])
async def test_garbage_looks_like_success(
    variant: str, gateway: Gateway, session: aiohttp.ClientSession
) -> None:
    """The status says that all is well, and the body is none."""
    await gateway.strike(fault(FaultKind.GARBAGE, variant))
    async with session.get(_LIST) as response:
        assert response.status == 200
        with pytest.raises(ValueError, match=r"Expecting|Unterminated"):
            json.loads(await response.text())


async def test_noise_is_no_http(gateway: Gateway, session: aiohttp.ClientSession) -> None:
    """What comes in the place of an answer is none."""
    await gateway.strike(fault(FaultKind.GARBAGE, "noise"))
    with pytest.raises(aiohttp.ClientError):
        await session.get(_LIST)


async def test_a_delayed_answer_comes_whole(
    gateway: Gateway, session: aiohttp.ClientSession, struck: list[Fault]
) -> None:
    """It comes later, and as it was."""
    await gateway.strike(fault(FaultKind.DELAY, "next"))
    async with session.get(_LIST) as response:
        assert (await response.json())["items"] == []
    assert len(struck) == 1


async def test_requests_that_are_reordered_are_all_answered(
    gateway: Gateway,
    session: aiohttp.ClientSession,
    behind: tuple[Behind, str, Path],
    struck: list[Fault],
) -> None:
    """Those that come while the order is changed come to the server in another one."""
    reordering = asyncio.ensure_future(gateway.strike(fault(FaultKind.REORDER, lot=0.3)))
    await asyncio.sleep(0)
    asked = [f"/api/v1/{number}?limit=1" for number in range(5)]
    answers = await asyncio.gather(*(session.get(path) for path in asked))
    await reordering
    assert [answer.status for answer in answers] == [200] * 5
    assert sorted(behind[0].asked) == asked
    assert behind[0].asked != asked
    assert len(struck) == 1
