"""The lists and watches of one informer: each is sent, read, and told to the reflector.

A body is read in slices, so that a large one leaves the event loop to others. What comes of a
request that was closed meanwhile is not told.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from watchcache_server.informer.answers import retry_after_seconds
from watchcache_server.informer.bodies import ListBody
from watchcache_server.informer.decoding import EventDecoder, ItemDecoder
from watchcache_server.informer.effects import List, Watch
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.inputs import Answer, Failure, TokenProblem
from watchcache_server.informer.reflector import Reflector
from watchcache_server.informer.statuses import read_status
from watchcache_server.informer.streams import EventStream
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.errors import AccessError, CredentialsError, TransportError
from watchcache_server.kubernetes.informer_requests import collection_request
from watchcache_server.kubernetes.informer_sink import InformerSink
from watchcache_server.kubernetes.pace import Pace
from watchcache_server.kubernetes.renewals import Renewals
from watchcache_server.kubernetes.slices import SlicedReader
from watchcache_server.kubernetes.transport import Response
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import Projection

__all__ = ["InformerCalls"]

_STATUS_BYTES: Final = 64 * 1024
# A connection that has carried so much keeps large buffers.
_RENEW_BYTES: Final = 1024 * 1024


class InformerCalls:
    """Performs the lists and watches of one informer, one at a time.

    `served` is what discovery has found, None before that. `rejected` is the authorization that the
    API server refused last.
    """

    __slots__ = (
        "_access",
        "_max_event_bytes",
        "_pace",
        "_projection",
        "_reader",
        "_reflector",
        "_renew",
        "_renewals",
        "_sink",
        "_spec",
        "_tell",
        "_tenant",
        "rejected",
        "served",
    )

    def __init__(
        self,
        *,
        spec: SourceSpec,
        tenant: str,
        access: ApiAccess,
        sink: InformerSink,
        reflector: Reflector,
        pace: Pace,
        renewals: Renewals,
        max_event_bytes: int,
        clock: Callable[[], float],
        tell: Callable[..., bool],
        renew: Callable[[], None],
    ) -> None:
        """`tell` has the reflector hear something; it returns whether the request goes on.

        `renew` has the running watch go on over another connection.
        """
        self._spec = spec
        self._tenant = tenant
        self._access = access
        self._sink = sink
        self._reflector = reflector
        self._pace = pace
        self._renewals = renewals
        self._max_event_bytes = max_event_bytes
        self._tell = tell
        self._renew = renew
        self._projection = Projection(spec.projection)
        self._reader = SlicedReader(clock)
        self.served: ServedResource | None = None
        self.rejected: str | None = None

    @property
    def read_at(self) -> float:
        """When the newest bytes came."""
        return self._reader.read_at

    @property
    def served_resource(self) -> ServedResource:
        """What discovery has found, by then."""
        served = self.served
        assert served is not None, "a reflector asks for discovery first"
        return served

    # What prevents an answer

    def no_credentials(self, error: CredentialsError) -> None:
        """Take that there is nothing to ask with."""
        problem = TokenProblem(reason=error.reason.upper(), message=str(error))
        self._tell(self._reflector.on_token, problem)
        # Last, since it may be the end of the extension.
        self._sink.credentials_failed(error)

    def failed(self, error: AccessError) -> None:
        """Take that there was no answer, or that it broke off."""
        self._tell(self._reflector.on_failure, Failure(reason=error.reason, message=str(error)))

    # Lists and watches

    async def perform(self, request: List | Watch) -> None:
        """List, or watch until that ends."""
        match request:
            case List():
                await self._list(request)
            case Watch():
                await self._watch(request)

    async def _list(self, request: List) -> None:
        async with self._opened(request) as response:
            if response is not None:
                await self._read_list(response)

    async def _read_list(self, response: Response) -> None:
        served = self.served_resource
        decoder = ItemDecoder(
            api_version=served.api_version, kind=served.kind, projection=self._projection
        )
        body = ListBody(decoder, self._max_event_bytes)
        reflector = self._reflector
        try:
            while chunk := await self._reader.chunk(response):
                if not self._tell(reflector.on_items, body.feed(chunk)):
                    return
            items, page = body.finish()
        except DataError as error:
            self._tell(reflector.on_broken, error)
            return
        self._tell(reflector.on_items, items)
        self._tell(reflector.on_listed, page)

    async def _watch(self, request: Watch) -> None:
        async with self._opened(request) as response:
            if response is not None:
                self._sink.contact()
                if self._tell(self._reflector.on_opened):
                    try:
                        await self._read_watch(response)
                    finally:
                        self._renewals.discard(self)

    async def _read_watch(self, response: Response) -> None:
        served = self.served_resource
        decoder = EventDecoder(
            api_version=served.api_version, kind=served.kind, projection=self._projection
        )
        stream = EventStream(decoder, self._max_event_bytes)
        reflector = self._reflector
        is_initial = reflector.is_syncing
        size = 0
        while chunk := await self._reader.chunk(response):
            events = stream.feed(chunk)
            if not is_initial:
                self._sink.events_read(len(events))
            if not self._tell(reflector.on_events, events):
                return
            size += len(chunk)
            if is_initial and not reflector.is_syncing:
                is_initial = False
                if size > _RENEW_BYTES:
                    self._renewals.want(self, self._renew)
        if leftover := stream.finish():
            self._tell(reflector.on_events, leftover)
        self._tell(reflector.on_eof)

    @asynccontextmanager
    async def _opened(self, request: List | Watch) -> AsyncIterator[Response | None]:
        """Open a request; None, with all said, when there is no body to read.

        Failures while the body is read are told to the reflector here too.
        """
        http = collection_request(request, self._spec, self.served_resource, self._sink.namespace)
        await self._pace.take(self._tenant)
        if isinstance(request, Watch):
            # Last, since whoever has waited for the pace may come while connections are being left.
            await self._renewals.gate()
        try:
            response = await self._access.open(http)
        except CredentialsError as error:
            self.no_credentials(error)
            yield None
            return
        except AccessError as error:
            self.failed(error)
            yield None
            return
        async with response:
            try:
                if response.status == 200:
                    yield response
                else:
                    await self._answer(response)
                    yield None
            except TransportError as error:
                self.failed(error)

    async def _answer(self, response: Response) -> None:
        try:
            body = await response.read(_STATUS_BYTES)
        except TransportError:
            # The status says what matters.
            body = b""
        if response.status == 401:
            self.rejected = response.authorization
        answer = Answer(
            code=response.status,
            status=read_status(body),
            retry_after_seconds=retry_after_seconds(
                response.headers.get("Retry-After", ""), response.headers.get("Date", "")
            ),
        )
        self._sink.contact()
        self._tell(self._reflector.on_answer, answer)
