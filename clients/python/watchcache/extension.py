"""A registered extension: its state, its watch, its mirror, and reads from the service's cache."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

from watchcache.backoff import Backoff
from watchcache.consistency import Consistency, consistency_message, longest_wait_seconds
from watchcache.durations import Duration, duration_message, seconds_of
from watchcache.errors import InvalidArgumentError, NotFoundError
from watchcache.keys import Key, parse_resource
from watchcache.mirror import Mirror
from watchcache.objects import Decoder, Freshness, Item, decode_json
from watchcache.progress import WatchProgress
from watchcache.service import Service
from watchcache.states import REGISTER_OUTCOMES, ExtensionState, RegisterOutcome, View
from watchcache.status import ExtensionStatus, Source
from watchcache.v1alpha1 import event_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2
from watchcache.watch import Watch

__all__ = ["Extension", "ListOptions", "Listing", "Selection", "WatchOptions"]

T = TypeVar("T")


class Selection(TypedDict, total=False):
    """Which objects: every part that is given narrows, the entries of one part widen."""

    clusters: Sequence[str]
    resources: Sequence[str]
    namespaces: Sequence[str]
    label_selector: str
    fields: Mapping[str, str | Sequence[str]]
    """Values at index paths of the spec; of several values for one path, one has to match."""


class ListOptions(Selection, Consistency, total=False):
    """Which objects a list is about, and how fresh they have to be."""


class WatchOptions(Selection, Consistency, total=False):
    """How a watch behaves, beside which objects it is about."""

    view: View | str
    """How much of each object to send: full (if not given), metadata or key."""
    bookmark_interval: Duration
    """Longest silence of a stream that is alive; 30 s if not given, 1 s to 5 min."""
    patience: Duration
    """How long a stream may stay silent beyond one and a half intervals; 5 s if not given."""
    backoff: Backoff
    """Waits between attempts; from 0.8 s to 30 s with full jitter if not given."""


class Extension:
    """A registered extension.

    `status` and what is read from it are as of the last `register`, `refresh` or `renew`. `outcome`
    says what the registration did, None for an extension that somebody else registered.
    """

    def __init__(
        self,
        service: Service,
        status: ExtensionStatus,
        *,
        registration: service_pb2.RegisterRequest | None = None,
        outcome: RegisterOutcome | None = None,
    ) -> None:
        self._service = service
        self._registration = registration
        self.status = status
        self.outcome = outcome

    def __repr__(self) -> str:
        live = len(self.sources) - len(self.not_live)
        return f"<Extension {self} {self.state}, {live} of {len(self.sources)} live>"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def namespace(self) -> str:
        """Namespace of the extension and of its ServiceAccount."""
        return self.status.namespace

    @property
    def name(self) -> str:
        """Name of the extension within its namespace."""
        return self.status.name

    @property
    def state(self) -> ExtensionState:
        """All informers taken together."""
        return self.status.state

    @property
    def sources(self) -> tuple[Source, ...]:
        """Every informer with its state."""
        return self.status.sources

    @property
    def not_live(self) -> tuple[Source, ...]:
        """The informers that are not live, each with its reason."""
        return self.status.not_live

    async def refresh(self) -> ExtensionStatus:
        """Ask the service for the present state. Raises NotFoundError."""
        answer = await self._service.call(
            self._service.stub.GetExtension,
            service_pb2.GetExtensionRequest(namespace=self.namespace, name=self.name),
        )
        self.status = ExtensionStatus.from_message(answer.extension)
        return self.status

    async def renew(self) -> None:
        """Register the same spec again, which renews a ttl and brings a lost extension back.

        A watch does both by itself. Raises InvalidArgumentError for an extension that somebody else
        registered.
        """
        if self._registration is None:
            raise InvalidArgumentError.of(
                "spec", f"{self} was not registered by this client; call register with its spec"
            )
        answer = await self._service.call(self._service.stub.Register, self._registration)
        self.status = ExtensionStatus.from_message(answer.extension)
        self.outcome = REGISTER_OUTCOMES[answer.outcome]

    async def deregister(self) -> bool:
        """Free the extension for everybody; say whether it existed."""
        answer = await self._service.call(
            self._service.stub.Deregister,
            service_pb2.DeregisterRequest(namespace=self.namespace, name=self.name),
        )
        return answer.existed

    @overload
    def watch(
        self,
        *,
        resume_token: bytes = ...,
        decode: None = ...,
        **options: Unpack[WatchOptions],
    ) -> Watch[dict[str, Any]]: ...

    @overload
    def watch(
        self, *, resume_token: bytes = ..., decode: Decoder[T], **options: Unpack[WatchOptions]
    ) -> Watch[T]: ...

    def watch(
        self,
        *,
        resume_token: bytes = b"",
        decode: Decoder[Any] | None = None,
        **options: Unpack[WatchOptions],
    ) -> Watch[Any]:
        """Iterate over the objects and then over every change, for ever.

        The iterator reconnects, resumes and registers the extension again by itself; each break is
        told by a `Disconnected`. `resume_token` is that of an earlier watch with the same options.
        How fresh it has to be counts up to the first `Synced`; later streams just go on.
        """
        _check_names(options, WatchOptions, method="watch")
        interval = seconds_of(options.get("bookmark_interval", 30.0), field="bookmark_interval")
        request = service_pb2.WatchRequest(
            namespace=self.namespace,
            name=self.name,
            filter=_filter(options),
            view=_view(options.get("view", View.FULL)),
            bookmark_interval=duration_message(interval),
            consistency=consistency_message(options),
        )
        progress = WatchProgress(
            decode or decode_json,
            backoff=options.get("backoff", Backoff()),
            bookmark_interval_seconds=interval,
            patience_seconds=seconds_of(options.get("patience", 5.0), field="patience"),
            can_register=self._registration is not None,
            resume_token=resume_token,
        )
        return Watch(self._service, request, progress, self.renew)

    @overload
    def mirror(
        self,
        *,
        max_age: Duration | None = ...,
        decode: None = ...,
        **options: Unpack[WatchOptions],
    ) -> Mirror[dict[str, Any]]: ...

    @overload
    def mirror(
        self,
        *,
        max_age: Duration | None = ...,
        decode: Decoder[T],
        **options: Unpack[WatchOptions],
    ) -> Mirror[T]: ...

    def mirror(
        self,
        *,
        max_age: Duration | None = None,
        decode: Decoder[Any] | None = None,
        **options: Unpack[WatchOptions],
    ) -> Mirror[Any]:
        """Keep a local copy of the objects, for `async with`.

        With `max_age`, reading data that is older raises StaleError; bookmarks then come at least
        three times in that span, so that a quiet cluster does not look like a dead one.
        """
        _check_names(options, WatchOptions, method="mirror")
        limit = None if max_age is None else seconds_of(max_age, field="max_age")
        if limit is not None and limit < 3.0:
            raise InvalidArgumentError.of(
                "max_age",
                f"{max_age!r} is too short; bookmarks come at most once a second, so use 3 s",
            )
        if "bookmark_interval" not in options:
            options["bookmark_interval"] = 10.0 if limit is None else min(10.0, limit / 3)
        decoder = decode or decode_json
        watch: Watch[Any] = self.watch(decode=decoder, **options)
        return Mirror(watch, decoder, max_age_seconds=limit, name=str(self))

    @overload
    async def get(
        self,
        resource: str,
        key: Key | str,
        *,
        view: View | str = ...,
        decode: None = ...,
        **consistency: Unpack[Consistency],
    ) -> Item[dict[str, Any]] | None: ...

    @overload
    async def get(
        self,
        resource: str,
        key: Key | str,
        *,
        view: View | str = ...,
        decode: Decoder[T],
        **consistency: Unpack[Consistency],
    ) -> Item[T] | None: ...

    async def get(
        self,
        resource: str,
        key: Key | str,
        *,
        view: View | str = View.FULL,
        decode: Decoder[Any] | None = None,
        **consistency: Unpack[Consistency],
    ) -> Item[Any] | None:
        """Read one object from the service's cache; None when the cluster has none of that name.

        Raises FailedPreconditionError or UnavailableError when the service cannot know, or not as
        freshly as asked for, and NotFoundError when there is no such extension.
        """
        _check_names(consistency, Consistency, method="get")
        asked = consistency_message(consistency)
        name, key = parse_resource(resource), Key.of(key)
        request = service_pb2.GetObjectRequest(
            namespace=self.namespace,
            name=self.name,
            key=event_pb2.ObjectKey(
                cluster=key.cluster,
                group=name.group,
                resource=name.plural,
                namespace=key.namespace,
                name=key.name,
            ),
            view=_view(view),
            consistency=asked,
        )
        try:
            answer = await self._service.call(
                self._service.stub.GetObject, request, extra_seconds=longest_wait_seconds(asked)
            )
        except NotFoundError as error:
            if error.reason == "OBJECT_NOT_FOUND":
                return None
            raise
        freshness = Freshness.from_message(answer.freshness)
        return Item(answer.object, decode or decode_json, freshness)

    @overload
    def list(
        self,
        resource: str | None = ...,
        *,
        owner_uid: str = ...,
        view: View | str = ...,
        page_size: int = ...,
        decode: None = ...,
        **options: Unpack[ListOptions],
    ) -> Listing[dict[str, Any]]: ...

    @overload
    def list(
        self,
        resource: str | None = ...,
        *,
        owner_uid: str = ...,
        view: View | str = ...,
        page_size: int = ...,
        decode: Decoder[T],
        **options: Unpack[ListOptions],
    ) -> Listing[T]: ...

    def list(
        self,
        resource: str | None = None,
        *,
        owner_uid: str = "",
        view: View | str = View.FULL,
        page_size: int = 0,
        decode: Decoder[Any] | None = None,
        **options: Unpack[ListOptions],
    ) -> Listing[Any]:
        """Iterate with `async for` over objects in the service's cache, page after page."""
        _check_names(options, ListOptions, method="list")
        if resource is not None:
            options["resources"] = [*options.get("resources", ()), resource]
        request = service_pb2.ListObjectsRequest(
            namespace=self.namespace,
            name=self.name,
            filter=_filter(options),
            owner_uid=owner_uid,
            view=_view(view),
            page_size=page_size,
            consistency=consistency_message(options),
        )
        return Listing(self._service, request, decode or decode_json)


class Listing(Generic[T]):
    """Objects in the service's cache; each `async for` reads them anew, one page at a time.

    A list over several pages is not one snapshot: an object that is there all the time comes
    exactly once, one that comes or goes meanwhile at most once.
    """

    def __init__(
        self, service: Service, request: service_pb2.ListObjectsRequest, decode: Decoder[T]
    ) -> None:
        self._service = service
        self._request = request
        self._decode = decode

    async def __aiter__(self) -> AsyncIterator[Item[T]]:
        request = service_pb2.ListObjectsRequest()
        request.CopyFrom(self._request)
        while True:
            answer = await self._service.call(
                self._service.stub.ListObjects,
                request,
                extra_seconds=longest_wait_seconds(request.consistency),
            )
            freshness = Freshness.from_message(answer.freshness)
            for message in answer.objects:
                yield Item(message, self._decode, freshness)
            request.page_token = answer.next_page_token
            request.ClearField("consistency")
            if not request.page_token:
                return


def _check_names(
    given: Selection | Consistency, known: type[Selection | Consistency], *, method: str
) -> None:
    """Raise TypeError for a keyword that `known` lacks: a misspelt filter would select all."""
    for name in given:
        if name not in known.__annotations__:
            raise TypeError(
                f"{method}() got an unexpected keyword argument {name!r}; "
                f"beside its own parameters it takes {', '.join(known.__annotations__)}"
            )


def _filter(selection: Selection) -> service_pb2.Filter:
    for field in ("clusters", "resources", "namespaces"):
        value = selection.get(field, ())
        if isinstance(value, str):
            raise InvalidArgumentError.of(field, f"{value!r} is one string; give a list")
    names = [parse_resource(text, field="resources") for text in selection.get("resources", ())]
    return service_pb2.Filter(
        clusters=selection.get("clusters", ()),
        resources=[
            service_pb2.ResourceRef(group=name.group, resource=name.plural) for name in names
        ],
        namespaces=selection.get("namespaces", ()),
        label_selector=selection.get("label_selector", ""),
        fields=[
            service_pb2.FieldValue(path=path, value=value)
            for path, values in selection.get("fields", {}).items()
            for value in _values(path, values)
        ],
    )


def _values(path: str, values: str | Sequence[str]) -> Sequence[str]:
    if isinstance(values, str):
        return (values,)
    if not values:
        # Without any value there would be no such filter, and everything would pass.
        raise InvalidArgumentError.of("fields", f"{path} has no value; give one, or leave it out")
    return values


def _view(view: View | str) -> event_pb2.View.ValueType:
    return event_pb2.View.Value(f"VIEW_{View.of(view, field='view')}")
