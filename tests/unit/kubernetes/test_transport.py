"""Rules of the transport, against a real HTTPS server on the loopback."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.controlplane.credentials import Credentials
from tests.controlplane.ports import free_ports
from tests.unit.kubernetes.api_double import ApiDouble, serve
from watchcache_server.kubernetes.errors import (
    AnswerTooLargeError,
    BodyCutError,
    BodyIdleError,
    ConnectionRefusedByServerError,
    ConnectionResetByServerError,
    ConnectTimedOutError,
    NameNotResolvedError,
    NotHttpError,
    ProxyFailedError,
    RedirectRefusedError,
    ResponseTimedOutError,
    TlsFailedError,
    TransportClosedError,
)
from watchcache_server.kubernetes.reporting import SilentReporter
from watchcache_server.kubernetes.requests import Request, get_request
from watchcache_server.kubernetes.tls import TlsMaterial
from watchcache_server.kubernetes.transport import Endpoint, Limits

PING = get_request("/ping")
QUICK = Limits(connect_seconds=2, response_seconds=0.2)


async def test_a_request_carries_what_it_should_and_nothing_else(api: ApiDouble) -> None:
    """Authorization and Accept are those given; nothing compressed, no cookies, an honest agent."""
    api.answer("/ping", {}, Set_Cookie="session=1")
    transport = api.transport()
    for _ in range(2):
        async with await transport.open(PING, "Bearer t1") as response:
            await response.read()

    for request in api.requests:
        assert request.headers["Authorization"] == "Bearer t1"
        assert request.headers["Accept"] == "application/json"
        assert request.headers["Accept-Encoding"] == "identity"
        assert request.headers["User-Agent"].startswith("watchcache-server/")
        assert "Cookie" not in request.headers
        assert "pretty" not in request.query


async def test_no_authorization_sends_no_header(api: ApiDouble) -> None:
    """Without credentials there is no Authorization header at all."""
    api.answer("/ping", {})
    transport = api.transport()
    async with await transport.open(PING, None):
        pass
    assert "Authorization" not in api.requests[0].headers


async def test_the_path_of_a_gateway_stays_in_front(api: ApiDouble) -> None:
    """A server behind a path prefix is asked under that prefix; quoted segments stay quoted."""
    api.answer("/k8s/clusters/c-1/api/v1/a:b", {})
    transport = api.transport(url=f"{api.url}/k8s/clusters/c-1/")
    async with await transport.open(get_request("/api/v1/a%3Ab"), None) as response:
        assert response.status == 200
    assert api.requests[0].raw_path == "/k8s/clusters/c-1/api/v1/a%3Ab"


async def test_any_status_is_an_answer(api: ApiDouble) -> None:
    """A 4xx or 5xx is returned, not raised: what it means is decided elsewhere."""
    transport = api.transport()
    for code in (400, 401, 403, 404, 410, 429, 500, 503):
        api.refuse("/ping", code, "Because")
        async with await transport.open(PING, None) as response:
            assert response.status == code
            assert b"Because" in await response.read()


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308, 304])
async def test_a_redirect_is_an_error_and_is_not_followed(api: ApiDouble, code: int) -> None:
    """A token never goes to an address that somebody else chose."""
    api.answer("/ping", "", status=code, Location=f"{api.url}/elsewhere")
    api.answer("/elsewhere", {})
    transport = api.transport()
    with pytest.raises(RedirectRefusedError):
        await transport.open(PING, "Bearer secret")
    assert api.asked("/elsewhere") == 0


async def test_the_environment_names_no_proxy(
    api: ApiDouble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """HTTPS_PROXY is not obeyed: tokens go where the kubeconfig says and nowhere else."""
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:1")
    api.answer("/ping", {})
    transport = api.transport()
    async with await transport.open(PING, None) as response:
        assert response.status == 200


async def test_the_proxy_of_the_endpoint_carries_the_connection(api: ApiDouble) -> None:
    """TLS goes through it end to end: the proxy sees an address and its own password only."""
    heard: list[bytes] = []
    is_over = asyncio.Event()

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = heard[0].split()[1].decode().partition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(pump(reader, far_writer))
            pumps.create_task(pump(far_reader, writer))
        is_over.set()

    api.answer("/ping", {})
    server = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    transport = api.transport(proxy_url=f"http://me:hush@127.0.0.1:{port}")
    async with await transport.open(PING, "Bearer secret") as response:
        assert response.status == 200
        await response.read()
    await transport.close()
    server.close()
    await is_over.wait()
    assert heard[0].startswith(b"CONNECT 127.0.0.1:")
    assert b"Proxy-Authorization: Basic " in heard[0]
    assert b"secret" not in heard[0]
    assert "Proxy-Authorization" not in api.requests[0].headers


async def test_a_proxy_that_is_down_is_told_from_a_server_that_is_down(api: ApiDouble) -> None:
    """The proxy of the kubeconfig is used, and its failure is called its own."""
    (port,) = free_ports(1)
    transport = api.transport(proxy_url=f"http://127.0.0.1:{port}")
    with pytest.raises(ProxyFailedError):
        await transport.open(PING, None)
    assert not api.requests


async def test_the_body_arrives_as_it_is_sent(api: ApiDouble) -> None:
    """Chunks are handed on as they come, before the body ends."""
    may_go_on = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await may_go_on.wait()
        await response.write(b"second\n")
        return response

    api.routes["/ping"] = stream
    transport = api.transport()
    async with await transport.open(PING, None) as response:
        assert await response.read_chunk() == b"first\n"
        may_go_on.set()
        assert await response.read_chunk() == b"second\n"
        assert await response.read_chunk() == b""


async def test_a_silent_body_ends_with_an_idle_error(api: ApiDouble) -> None:
    """A half-open connection is noticed by the reader's own limit."""
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"first\n")
        await ends.wait()
        return response

    api.routes["/ping"] = stream
    transport = api.transport()
    async with await transport.open(Request(path="/ping", idle_seconds=1), None) as response:
        assert await response.read_chunk() == b"first\n"
        with pytest.raises(BodyIdleError, match=r"nothing arrived for 1 s"):
            await response.read_chunk()
    ends.set()


@asynccontextmanager
async def raw_server(
    pki: Credentials, talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], object]
) -> AsyncIterator[str]:
    """Serve bytes, not HTTP: what a broken peer or a proxy may do."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pki.serving_certificate, pki.serving_key)
    ends = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        result = talk(reader, writer)
        if result is None:
            await ends.wait()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=context)
    try:
        yield f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        ends.set()
        server.close()
        await asyncio.sleep(0)


HEADERS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
CUT_BODIES = {
    "in a chunk": HEADERS + b"Transfer-Encoding: chunked\r\n\r\n20\r\nhalf",
    "between chunks": HEADERS + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "before the stated length": HEADERS + b"Content-Length: 100\r\n\r\nhalf",
}


@pytest.mark.parametrize("case", CUT_BODIES)
async def test_a_cut_body_is_an_error_and_never_a_short_one(
    pki: Credentials, api: ApiDouble, case: str
) -> None:
    """A truncated body must not pass for a whole one: it would be taken for a list."""

    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(CUT_BODIES[case])
        return True

    async with raw_server(pki, talk) as url:
        transport = api.transport(url=url)
        async with await transport.open(PING, None) as response:
            with pytest.raises(BodyCutError):
                await response.read()


NOT_HTTP = {
    "garbage": b"220 smtp.example ESMTP\r\n",
    "compressed": HEADERS + b"Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n",
    "endless header": HEADERS + b"X-Long: " + b"x" * 100_000 + b"\r\n\r\n",
}


@pytest.mark.parametrize("case", NOT_HTTP)
async def test_what_is_not_http_is_told_so(pki: Credentials, api: ApiDouble, case: str) -> None:
    """Another protocol, or an encoding that was not asked for, is no answer."""

    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(NOT_HTTP[case])
        return True

    async with raw_server(pki, talk) as url:
        transport = api.transport(url=url)
        with pytest.raises(NotHttpError):
            await transport.open(PING, None)


async def test_a_server_that_hangs_up_is_a_reset(pki: Credentials, api: ApiDouble) -> None:
    """The connection ends before any header came."""

    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        return True

    async with raw_server(pki, talk) as url:
        transport = api.transport(url=url)
        with pytest.raises(ConnectionResetByServerError):
            await transport.open(PING, None)


async def test_a_half_open_server_is_a_timeout(pki: Credentials, api: ApiDouble) -> None:
    """It takes the request and never answers."""

    def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        return None

    async with raw_server(pki, talk) as url:
        transport = api.transport(url=url, limits=QUICK)
        with pytest.raises(ResponseTimedOutError, match="no answer within"):
            await transport.open(PING, None)


async def test_a_server_that_never_shakes_hands_is_a_connect_timeout(api: ApiDouble) -> None:
    """TCP connects, TLS never does."""
    ends = asyncio.Event()

    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await ends.wait()
        writer.close()

    server = await asyncio.start_server(mute, "127.0.0.1", 0)
    url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    transport = api.transport(url=url, limits=QUICK)
    with pytest.raises(ConnectTimedOutError):
        await transport.open(PING, None)
    ends.set()
    server.close()
    await asyncio.sleep(0)


async def test_nobody_listening_is_a_refusal(api: ApiDouble) -> None:
    """A server that is down is told from one that is slow."""
    (port,) = free_ports(1)
    transport = api.transport(url=f"https://127.0.0.1:{port}")
    with pytest.raises(ConnectionRefusedByServerError) as caught:
        await transport.open(PING, "Bearer secret")
    assert str(caught.value) == f"cluster dev (127.0.0.1:{port}): connection refused"


async def test_a_name_without_address_is_told_so(api: ApiDouble) -> None:
    """The name server is at fault, not the API server."""
    transport = api.transport(url="https://no-such-host.invalid:6443")
    with pytest.raises(NameNotResolvedError):
        await transport.open(PING, None)


async def test_an_unknown_authority_is_refused(api: ApiDouble, tmp_path: Path) -> None:
    """Nothing is sent to a server whose certificate is not trusted."""
    stranger = Credentials(tmp_path / "stranger")
    transport = api.transport(material=TlsMaterial(ca_file=stranger.ca_file))
    with pytest.raises(TlsFailedError, match="not trusted"):
        await transport.open(PING, "Bearer secret")
    assert not api.requests


async def test_plain_http_where_tls_is_expected_is_a_tls_failure(pki: Credentials) -> None:
    """A proxy that speaks http on the port is no API server."""
    async with serve(pki, is_plain=True) as api:
        transport = api.transport(url=api.url.replace("http:", "https:"))
        with pytest.raises(TlsFailedError):
            await transport.open(PING, None)


async def test_an_answer_over_its_limit_is_refused(api: ApiDouble) -> None:
    """A small answer that is not small does not fill the memory."""
    api.answer("/ping", "x" * 5000)
    transport = api.transport()
    async with await transport.open(PING, None) as response:
        with pytest.raises(AnswerTooLargeError):
            await response.read(4999)
    async with await transport.open(PING, None) as response:
        assert len(await response.read(5000)) == 5000


async def test_closing_wakes_the_readers(api: ApiDouble) -> None:
    """A removed cluster leaves no reader waiting, and takes no further request."""
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await ends.wait()
        return response

    api.routes["/ping"] = stream
    transport = api.transport()
    response = await transport.open(PING, None)
    reading = asyncio.create_task(response.read_chunk())
    await asyncio.sleep(0)
    await transport.close()
    with pytest.raises(TransportClosedError):
        await reading
    response.close()
    with pytest.raises(TransportClosedError):
        await transport.open(PING, None)
    ends.set()


async def test_a_closed_answer_says_that_it_was_closed_here(api: ApiDouble) -> None:
    """Letting go of an answer is told from its being cut by the peer."""
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await ends.wait()
        return response

    api.routes["/ping"] = stream
    transport = api.transport()
    response = await transport.open(PING, None)
    reading = asyncio.create_task(response.read_chunk())
    await asyncio.sleep(0)
    response.close()
    with pytest.raises(TransportClosedError):
        await reading
    ends.set()


async def test_many_watches_run_at_once(api: ApiDouble) -> None:
    """The pool has no limit: the hundred-and-first watch is not queued behind the others."""
    ends = asyncio.Event()

    async def stream(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"open\n")
        await ends.wait()
        return response

    api.routes["/ping"] = stream
    transport = api.transport()
    responses = [await transport.open(PING, None) for _ in range(130)]
    for response in responses:
        assert await response.read_chunk() == b"open\n"
        response.close()
    ends.set()


async def test_a_connection_is_used_again_after_a_whole_answer(api: ApiDouble) -> None:
    """Reading an answer to its end keeps the connection for the next request."""
    ports: set[int] = set()

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        ports.add(request.transport.get_extra_info("peername")[1])
        return web.json_response({})

    api.routes["/ping"] = handle
    transport = api.transport()
    for _ in range(5):
        async with await transport.open(PING, None) as response:
            await response.read()
    assert len(ports) == 1


async def test_neither_answers_nor_endpoints_show_secrets(api: ApiDouble) -> None:
    """The repr of an answer holds no token, that of an endpoint no password of a proxy."""
    api.answer("/ping", {})
    transport = api.transport()
    async with await transport.open(PING, "Bearer secret") as response:
        assert response.authorization == "Bearer secret"
        assert "secret" not in repr(response)
    assert "hush" not in repr(Endpoint("dev", api.url, proxy_url="http://me:hush@proxy:3128"))


async def test_the_reporter_hears_of_answers_and_failures(api: ApiDouble) -> None:
    """Each request is told once: its status, or the reason why there is none."""
    heard: list[tuple[str, str, object]] = []

    class Reporter(SilentReporter):
        def request_answered(self, cluster: str, method: str, code: int, seconds: float) -> None:
            heard.append((cluster, method, code))

        def request_failed(self, cluster: str, method: str, reason: str, seconds: float) -> None:
            heard.append((cluster, method, reason))

    api.answer("/ping", {}, status=201)
    transport = api.transport(reporter=Reporter())
    async with await transport.open(PING, None):
        pass
    await transport.close()
    with pytest.raises(TransportClosedError):
        await transport.open(PING, None)
    assert heard == [("dev", "GET", 201), ("dev", "GET", "closed")]


async def test_plain_http_needs_no_tls(pki: Credentials) -> None:
    """A local proxy such as `kubectl proxy` speaks http."""
    async with serve(pki, is_plain=True) as api:
        api.answer("/ping", {})
        transport = api.transport()
        async with await transport.open(PING, None) as response:
            assert response.status == 200
