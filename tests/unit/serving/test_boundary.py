"""Rules of the boundary around every RPC, over a connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from tests.unit.extensions.world import Recorder
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.serving.boundary import Boundary
from watchcache_server.serving.writing import PatientWriter, Writer

Request, Answer = pb.ListClustersRequest, pb.ListClustersResponse
_LIMIT_SECONDS = 20.0


class Served:
    """A server whose methods a test writes, and a client of it."""

    def __init__(self) -> None:
        self.reporter: Any = Recorder()
        self.chance = 0.5
        self.boundary = Boundary(
            self.reporter, max_streams_per_connection=3, chance=lambda: self.chance
        )
        self.channel: Any = None

    @asynccontextmanager
    async def serving(
        self,
        unary: Callable[[Any], Awaitable[Any]] | None = None,
        stream: Callable[[Any, Writer], Awaitable[None]] | None = None,
        upload: Callable[[AsyncIterator[Any]], Awaitable[Any]] | None = None,
    ) -> AsyncIterator[None]:
        """Serve these methods."""
        handlers: dict[str, Any] = {}
        if unary is not None:
            handlers["Ask"] = self.boundary.unary("Ask", unary, Request)
        if stream is not None:
            handlers["Follow"] = self.boundary.stream("Follow", stream, Request)
        if upload is not None:
            handlers["Send"] = self.boundary.upload("Send", upload, Request)
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        # A window of fixed size, so that a reader who takes nothing is noticed soon.
        options = [("grpc.http2.bdp_probe", 0)]
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options)
        try:
            yield
        finally:
            await self.channel.close()
            await server.stop(0)

    async def ask(self) -> Any:
        """Call the unary method."""
        return await self.channel.unary_unary(
            "/t.T/Ask", Request.SerializeToString, Answer.FromString
        )(Request())

    def follow(self) -> Any:
        """Call the streaming method."""
        return self.channel.unary_stream("/t.T/Follow", Request.SerializeToString)(Request())

    def send(self, messages: Any) -> Any:
        """Call the method that takes an upload, with these bytes."""
        return self.channel.stream_unary("/t.T/Send", None, Answer.FromString)(messages)

    def handled(self) -> list[Any]:
        """Return how RPCs ended."""
        return [code for _, _, code, _ in self.reporter.of("rpc_handled")]


async def exhaust(call: Any) -> None:
    """Read a stream to its end."""
    while await call.read() is not grpc.aio.EOF:
        pass


def wait_of(error: grpc.aio.AioRpcError) -> float:
    """Return how long an error says to wait."""
    (trailer,) = [value for key, value in error.trailing_metadata() if key.endswith("-bin")]
    retry = error_details_pb2.RetryInfo()
    assert any(each.Unpack(retry) for each in status_pb2.Status.FromString(trailer).details)
    return retry.retry_delay.ToTimedelta().total_seconds()


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        while not condition():  # noqa: ASYNC110 (a condition of whoever serves)
            await asyncio.sleep(0.005)


async def test_an_answer_is_passed_on_and_counted() -> None:
    """With its code and its time."""
    served = Served()

    async def answer(request: Any) -> Any:
        assert isinstance(request, Request)
        return Answer(clusters=[{"name": "hub"}])

    async with served.serving(unary=answer):
        assert (await served.ask()).clusters[0].name == "hub"
    assert served.reporter.of("rpc_started") == [["Ask", "unary"]]
    ((method, kind, code, seconds),) = served.reporter.of("rpc_handled")
    assert (method, kind, code) == ("Ask", "unary", "OK")
    assert seconds >= 0.0


async def test_what_a_method_raises_is_its_status() -> None:
    """With the details of the table."""
    served = Served()

    async def refuse(_: Any) -> Any:
        raise InvalidRequestError.of("spec", "is wrong; mend it")

    async with served.serving(unary=refuse):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask()
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert caught.value.details() == "spec: is wrong; mend it"
    assert "grpc-status-details-bin" in dict(caught.value.trailing_metadata() or ())
    assert served.handled() == ["INVALID_ARGUMENT"]
    assert not served.reporter.of("rpc_failed")


async def test_a_request_that_is_none_is_refused_with_details() -> None:
    """Also where it cannot be read at all."""
    served = Served()

    async def never(*_: Any) -> Any:
        raise AssertionError("there is nothing to serve")

    async with served.serving(unary=never, stream=never):
        for call in (
            served.channel.unary_unary("/t.T/Ask")(b"\xff"),
            exhaust(served.channel.unary_stream("/t.T/Follow")(b"\xff")),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
            assert "watchcache.v1alpha1.ListClustersRequest" in (caught.value.details() or "")
    assert served.handled() == ["INVALID_ARGUMENT"] * 2


async def test_a_fault_of_ours_is_logged_and_masked() -> None:
    """The caller is told the number under which it is in the log."""
    served = Served()

    async def fail(_: Any) -> Any:
        raise RuntimeError("password=1234")

    async with served.serving(unary=fail):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.ask()
    ((method, incident, error),) = served.reporter.of("rpc_failed")
    assert (method, str(error)) == ("Ask", "password=1234")
    assert caught.value.code() is grpc.StatusCode.INTERNAL
    assert incident in (caught.value.details() or "")
    assert "1234" not in str(caught.value)
    assert served.handled() == ["INTERNAL"]


async def test_a_stream_sends_bytes_as_they_are_and_counts_them() -> None:
    """It ends with OK when its method returns."""
    served = Served()

    async def say(_: Any, writer: Writer) -> None:
        await writer.write(b"one")
        await writer.write(b"two")

    async with served.serving(stream=say):
        assert [message async for message in served.follow()] == [b"one", b"two"]
        await until(lambda: served.handled() == ["OK"])
    assert served.reporter.of("rpc_message_sent") == [["Follow", "server_stream"]] * 2


async def test_a_caller_that_goes_away_cancels_the_method() -> None:
    """It is no fault, and nothing is left running."""
    served = Served()
    ended = asyncio.Event()

    async def wait(_: Any, writer: Writer) -> None:
        try:
            await writer.write(b"begun")
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with served.serving(stream=wait):
        call = served.follow()
        await call.read()
        call.cancel()
        await asyncio.wait_for(ended.wait(), _LIMIT_SECONDS)
        await until(lambda: served.handled() == ["CANCELLED"])
        await asyncio.wait_for(served.boundary.wait_idle(_LIMIT_SECONDS), _LIMIT_SECONDS)
    assert not served.reporter.of("rpc_failed")


async def test_a_reader_that_stalls_is_told_why_once_it_reads_again() -> None:
    """A write that was cut off would leave it waiting for ever."""
    served = Served()
    stalled = asyncio.Event()

    async def say(_: Any, writer: Writer) -> None:
        patient = PatientWriter(writer, limit_seconds=0.2, subject="stream", stalled=stalled.set)
        while True:
            await patient.write(b"x" * 200_000)

    async with served.serving(stream=say):
        call = served.follow()
        await asyncio.wait_for(stalled.wait(), _LIMIT_SECONDS)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await asyncio.wait_for(exhaust(call), _LIMIT_SECONDS)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert served.handled() == ["RESOURCE_EXHAUSTED"]


async def test_idle_is_when_the_last_rpc_has_ended() -> None:
    """Waiting for it has a limit."""
    served = Served()
    may_end = asyncio.Event()

    async def wait(_: Any) -> Any:
        await may_end.wait()
        return Answer()

    async with served.serving(unary=wait):
        await served.boundary.wait_idle(_LIMIT_SECONDS)
        calls = [asyncio.ensure_future(served.ask()) for _ in range(2)]
        await until(lambda: len(served.reporter.of("rpc_started")) == 2)
        await served.boundary.wait_idle(0.01)
        assert not served.handled(), "the limit came first"
        idle = asyncio.ensure_future(served.boundary.wait_idle(_LIMIT_SECONDS))
        may_end.set()
        await idle
        assert served.handled() == ["OK", "OK"]
        await asyncio.gather(*calls)


# Uploads


async def test_an_upload_is_read_message_by_message_and_answered_once() -> None:
    """It counts as one RPC, with its code and its time."""
    served = Served()
    taken: list[Any] = []

    async def take(requests: AsyncIterator[Any]) -> Any:
        async for request in requests:
            assert isinstance(request, Request)
            taken.append(request)
        return Answer(clusters=[{"name": "hub"}])

    async with served.serving(upload=take):
        answer = await served.send([Request().SerializeToString()] * 3)
        assert answer.clusters[0].name == "hub"
        assert len(taken) == 3
        await served.boundary.wait_idle(_LIMIT_SECONDS)
    assert served.reporter.of("rpc_started") == [["Send", "client_stream"]]
    ((method, kind, code, seconds),) = served.reporter.of("rpc_handled")
    assert (method, kind, code) == ("Send", "client_stream", "OK")
    assert seconds >= 0.0


async def test_a_malformed_message_ends_an_upload() -> None:
    """Wherever it comes, with details like any wrong request."""
    served = Served()
    taken: list[Any] = []

    async def take(requests: AsyncIterator[Any]) -> Any:
        taken.extend([request async for request in requests])
        return Answer()

    async with served.serving(upload=take):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.send([Request().SerializeToString(), b"\xff"])
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "is no watchcache.v1alpha1.ListClustersRequest" in (caught.value.details() or "")
    assert "grpc-status-details-bin" in dict(caught.value.trailing_metadata() or ())
    assert taken == []
    assert served.handled() == ["INVALID_ARGUMENT"]


async def test_an_upload_can_be_refused_before_its_end() -> None:
    """The client need not send the rest."""
    served = Served()
    may_end = asyncio.Event()

    async def refuse(requests: AsyncIterator[Any]) -> Any:
        await anext(requests)
        raise InvalidRequestError.of("groups", "is wrong; mend it")

    async def sent() -> AsyncIterator[bytes]:
        yield Request().SerializeToString()
        await may_end.wait()

    async with served.serving(upload=refuse):
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await served.send(sent())
        assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert served.handled() == ["INVALID_ARGUMENT"]
        may_end.set()


async def test_a_client_that_goes_away_in_an_upload_leaves_nothing_running() -> None:
    """Its messages may end like those of one that is done."""
    served = Served()
    has_begun = asyncio.Event()

    async def take(requests: AsyncIterator[Any]) -> Any:
        async for _ in requests:
            has_begun.set()
        return Answer()

    async def sent() -> AsyncIterator[bytes]:
        yield Request().SerializeToString()
        await asyncio.Event().wait()

    async with served.serving(upload=take):
        call = served.send(sent())
        await asyncio.wait_for(has_begun.wait(), _LIMIT_SECONDS)
        call.cancel()
        await until(lambda: len(served.handled()) == 1)
        await asyncio.wait_for(served.boundary.wait_idle(_LIMIT_SECONDS), _LIMIT_SECONDS)
    assert served.handled()[0] in ("CANCELLED", "OK")
    assert not served.reporter.of("rpc_failed")


async def test_a_connection_has_no_more_streams_than_the_limit() -> None:
    """One more is refused by name, at once, with a time to wait; other calls have room beside."""
    served = Served()

    async def follow(_: Any, writer: Writer) -> None:
        await writer.write(b"")
        await asyncio.Event().wait()

    async def ask(_: Any) -> Any:
        return Answer()

    async with served.serving(unary=ask, stream=follow), asyncio.timeout(_LIMIT_SECONDS):
        calls = [served.follow() for _ in range(3)]
        for call in calls:
            await call.read()
        waits = []
        for served.chance in (0.0, 0.5):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await served.follow().read()
            assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            assert "max_streams_per_connection" in str(caught.value.details())
            waits.append(wait_of(caught.value))
        assert waits == [5.0, 7.5], "who is refused at one moment does not come again at one"
        await served.ask()
        assert served.boundary.running_count == 3
        for call in calls:
            call.cancel()
        await served.boundary.wait_idle(_LIMIT_SECONDS)
        await served.follow().read()
