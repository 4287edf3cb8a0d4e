"""Extensions are registered, looked at and read; errors come typed, with all that was sent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2 as details_pb2

import watchcache
from tests.unit.client.fake_service import (
    CONNECTION_AGED,
    UNAVAILABLE,
    FakeService,
    Fault,
    event,
    source_status,
)
from watchcache import (
    Connection,
    Extension,
    ExtensionState,
    FieldViolation,
    InvalidArgumentError,
    Key,
    Projection,
    RegisterOutcome,
    SourceState,
    Violation,
)
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

_NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)


def _noon() -> Timestamp:
    stamp = Timestamp()
    stamp.FromDatetime(_NOON)
    return stamp


def _object(name: str, body: bytes = b"{}") -> event_pb2.Object:
    return event("ADDED", name, body=body).object


async def test_registering_sends_the_spec(service: FakeService, connection: Connection) -> None:
    """The whole wish goes in one request, and the call may take as long as it waits."""
    await connection.register(
        "team-a/shop", service_account="shop", watch=["pods"], ttl="2m", wait="30s"
    )
    (request,) = service.requests
    assert request == service_pb2.RegisterRequest(
        namespace="team-a",
        name="shop",
        spec=extension_pb2.ExtensionSpec(
            service_account="shop",
            ttl=Duration(seconds=120),
            resources=extension_pb2.ResourceWatchSet(
                items=[extension_pb2.ResourceWatch(resource="pods")]
            ),
        ),
        wait=Duration(seconds=30),
    )


async def test_a_registration_holds_every_informer(
    service: FakeService, connection: Connection
) -> None:
    """Partial success is success: those that are not live are named with their reasons."""
    service.extension = extension_pb2.Extension(
        uid="e1",
        generation=4,
        spec={"service_account": "shop"},
        state=extension_pb2.EXTENSION_STATE_DEGRADED,
        create_time=_noon(),
        subscription_count=2,
        credentials=[
            extension_pb2.CredentialStatus(cluster="hub", expire_time=_noon(), message="none")
        ],
        sources=[
            source_status("deployments.apps", namespace="team-a", kind="Deployment"),
            source_status(
                "secrets",
                "FORBIDDEN",
                reason="FORBIDDEN",
                message="needs list on secrets",
                state_time=_noon(),
                projection=extension_pb2.PROJECTION_METADATA,
                sync_duration=Duration(seconds=1, nanos=500_000_000),
                missing_access=extension_pb2.AccessRule(
                    verbs=["list", "watch"], resource="secrets", namespace="team-a", cluster="hub"
                ),
            ),
        ],
    )
    extension = await connection.register("team-a/shop", watch=["deployments.apps", "secrets"])
    assert extension.outcome is RegisterOutcome.CREATED
    assert extension.state is ExtensionState.DEGRADED
    assert [source.resource for source in extension.sources] == ["deployments.apps", "secrets"]
    (secrets,) = extension.not_live
    assert (secrets.state, secrets.reason) == (SourceState.FORBIDDEN, "FORBIDDEN")
    assert (secrets.state_time, secrets.last_contact_time) == (_NOON, None)
    assert secrets.projection is Projection.METADATA
    assert secrets.sync_duration_seconds == 1.5
    assert secrets.missing_access == watchcache.AccessRule(
        ("list", "watch"), "", "secrets", "team-a", "hub"
    )
    assert extension.status.not_live == extension.not_live
    assert extension.status.credentials == (watchcache.Credential("hub", _NOON, None, "none"),)
    assert repr(extension) == "<Extension team-a/shop DEGRADED, 1 of 2 live>"


async def test_an_extension_is_looked_up_and_refreshed(
    service: FakeService, connection: Connection
) -> None:
    """The state is as of the last answer."""
    service.extension = extension_pb2.Extension(namespace="team-a", name="shop")
    extension = await connection.extension("team-a/shop")
    assert extension.outcome is None
    service.extension.state = extension_pb2.EXTENSION_STATE_LIVE
    assert extension.state is ExtensionState.UNKNOWN
    status = await extension.refresh()
    assert status is extension.status
    assert extension.state is ExtensionState.LIVE


async def test_an_extension_is_renewed_and_deregistered(
    service: FakeService, extension: Extension
) -> None:
    """Renewing sends the same spec again; deregistering says whether there was anything."""
    service.answers["Register"] = [
        service_pb2.RegisterResponse(
            extension={"namespace": "team-a", "name": "shop", "generation": 1},
            outcome=service_pb2.REGISTER_OUTCOME_UNCHANGED,
        )
    ]
    await extension.renew()
    assert extension.outcome is RegisterOutcome.UNCHANGED
    assert extension.status.generation == 1
    first, second = service.of_type(service_pb2.RegisterRequest)
    assert first == second
    service.answers["Deregister"] = [service_pb2.DeregisterResponse(existed=False)]
    assert await extension.deregister() is False


async def test_extensions_are_listed_page_after_page(
    service: FakeService, connection: Connection
) -> None:
    """The caller sees one sequence."""
    pages = [
        service_pb2.ListExtensionsResponse(extensions=[{"name": "a"}], next_page_token="2"),
        service_pb2.ListExtensionsResponse(extensions=[{"name": "b"}, {"name": "c"}]),
    ]
    service.answers["ListExtensions"] = list(pages)
    found = [status.name async for status in connection.extensions("team-a")]
    assert found == ["a", "b", "c"]
    requests = service.requests
    assert [(each.namespace, each.page_token) for each in requests] == [
        ("team-a", ""),
        ("team-a", "2"),
    ]


async def test_extensions_are_watched(service: FakeService, connection: Connection) -> None:
    """Their states, the end of the first answer, and what goes; a break ends it with an error."""
    service.answers["WatchExtensions"] = [
        service_pb2.WatchExtensionsResponse(extension={"name": "shop"}),
        service_pb2.WatchExtensionsResponse(synced={}),
        service_pb2.WatchExtensionsResponse(),
        service_pb2.WatchExtensionsResponse(
            removed={"namespace": "team-a", "name": "shop", "reason": "TTL_EXPIRED"}
        ),
        Fault(grpc.StatusCode.UNAVAILABLE, "DRAINING"),
    ]
    changes = connection.watch_extensions(namespace="team-a", name="shop")
    status = await anext(changes)
    assert isinstance(status, watchcache.ExtensionStatus)
    assert status.name == "shop"
    assert await anext(changes) == watchcache.ExtensionsSynced()
    assert await anext(changes) == watchcache.ExtensionRemoved("team-a", "shop", "TTL_EXPIRED")
    with pytest.raises(watchcache.UnavailableError):
        await anext(changes)
    (request,) = service.requests
    assert (request.namespace, request.name) == ("team-a", "shop")


async def test_a_stream_of_extensions_moves_to_another_connection(
    service: FakeService, connection: Connection
) -> None:
    """Nothing is told of that, but what has changed meanwhile, and who has gone."""

    def told(name: str) -> Any:
        extension = extension_pb2.Extension(namespace="team-a", name=name)
        return service_pb2.WatchExtensionsResponse(extension=extension)

    end = service_pb2.WatchExtensionsResponse(synced={})
    first = [told("cart"), told("shop"), end, CONNECTION_AGED]
    second = [told("shop"), told("till"), end, end, UNAVAILABLE]
    service.answers["WatchExtensions"] = [*first, *second]
    changes = connection.watch_extensions()
    found = [await anext(changes) for _ in range(8)]
    names = [getattr(change, "name", "synced") for change in found]
    assert names == ["cart", "shop", "synced", "shop", "till", "cart", "synced", "synced"]
    assert found[5] == watchcache.ExtensionRemoved("team-a", "cart", "UNKNOWN")
    with pytest.raises(watchcache.UnavailableError):
        await anext(changes)


async def test_a_spec_that_is_left_out_is_the_one_before(
    service: FakeService, connection: Connection
) -> None:
    """A stream sends it once for each generation; of another extension nothing is made up."""

    def told(uid: str, account: str = "", name: str = "shop") -> Any:
        spec = extension_pb2.ExtensionSpec(service_account=account) if account else None
        extension = extension_pb2.Extension(namespace="team-a", name=name, uid=uid, spec=spec)
        return service_pb2.WatchExtensionsResponse(extension=extension)

    gone = service_pb2.WatchExtensionsResponse(removed={"namespace": "team-a", "name": "shop"})
    service.answers["WatchExtensions"] = [
        told("1", "one"),
        told("7", "other", name="cart"),
        told("1"),
        told("1", "two"),
        told("1"),
        told("2"),
        told("1"),
        gone,
        told("1"),
    ]
    changes = connection.watch_extensions()
    found = [await anext(changes) for _ in range(9)]
    statuses = [each for each in found if isinstance(each, watchcache.ExtensionStatus)]
    accounts = [each.spec.service_account for each in statuses]
    assert accounts == ["one", "other", "one", "two", "two", "", "two", ""]
    assert all(each.spec == each.raw.spec for each in statuses)
    await changes.aclose()


async def test_clusters_are_listed(service: FakeService, connection: Connection) -> None:
    """With their addresses, and why one is not reachable."""
    message = extension_pb2.Cluster(
        name="hub", server="https://hub", is_default=True, message="no route", informer_count=3
    )
    service.answers["ListClusters"] = [service_pb2.ListClustersResponse(clusters=[message])]
    (cluster,) = await connection.clusters()
    assert (cluster.name, cluster.is_default, cluster.is_reachable) == ("hub", True, False)
    assert (cluster.message, cluster.informer_count) == ("no route", 3)


async def test_one_object_is_read(service: FakeService, extension: Extension) -> None:
    """With how fresh the answer is; None when the cluster has none of that name."""
    service.answers["GetObject"] = [
        service_pb2.GetObjectResponse(
            object=_object("a", b'{"n": 1}'),
            freshness=service_pb2.Freshness(is_live=True, last_contact_time=_noon()),
        )
    ]
    item = await extension.get("deployments.apps", "edge/team-a/a", view="metadata")
    assert item is not None
    assert item.object == {"n": 1}
    assert (item.key, item.uid) == (Key("team-a", "a", "hub"), "uid-a")
    assert item.freshness == watchcache.Freshness(True, _NOON)
    assert repr(item) == "<Item pods hub/team-a/a rv 1>"
    assert await extension.get("pods", Key("team-a", "z")) is None
    assert service.requests[1] == service_pb2.GetObjectRequest(
        namespace="team-a",
        name="shop",
        key=event_pb2.ObjectKey(
            cluster="edge", group="apps", resource="deployments", namespace="team-a", name="a"
        ),
        view=event_pb2.VIEW_METADATA,
    )


async def test_a_missing_extension_is_no_missing_object(
    service: FakeService, extension: Extension
) -> None:
    """Whoever takes the one for the other deletes real things."""
    service.answers["GetObject"] = [Fault(grpc.StatusCode.NOT_FOUND, "EXTENSION_NOT_FOUND")]
    with pytest.raises(watchcache.NotFoundError) as caught:
        await extension.get("pods", "team-a/a")
    assert caught.value.reason == "EXTENSION_NOT_FOUND"


async def test_objects_are_listed_page_after_page(
    service: FakeService, extension: Extension
) -> None:
    """One page is held at a time, and iterating again reads anew."""
    freshness = service_pb2.Freshness(is_live=False)

    def pages() -> list[Any]:
        return [
            service_pb2.ListObjectsResponse(
                objects=[_object("a"), _object("b")], next_page_token="2", freshness=freshness
            ),
            service_pb2.ListObjectsResponse(objects=[_object("c")], freshness=freshness),
        ]

    service.answers["ListObjects"] = pages() + pages()
    listing = extension.list(
        "pods",
        namespaces=["team-a"],
        label_selector="app=web",
        owner_uid="o1",
        page_size=2,
        decode=lambda body: body,
    )
    for _ in range(2):
        items = [item async for item in listing]
        assert [item.key.name for item in items] == ["a", "b", "c"]
        assert items[0].object == b"{}"
        assert items[0].freshness == watchcache.Freshness(False, None)
    first, second = service.of_type(service_pb2.ListObjectsRequest)[:2]
    assert (first.page_token, second.page_token) == ("", "2")
    assert (first.owner_uid, first.page_size) == ("o1", 2)
    assert first.filter == second.filter
    assert [ref.resource for ref in first.filter.resources] == ["pods"]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"resources": "pods"}, "resources"),
        ({"namespaces": "a"}, "namespaces"),
        ({"resources": ["No Resource"]}, "resources"),
        ({"view": "half"}, "view"),
    ],
)
async def test_a_wrong_selection_is_named(
    extension: Extension, arguments: dict[str, Any], field: str
) -> None:
    """Before anything is sent."""
    for read in (extension.list, extension.watch):
        with pytest.raises(InvalidArgumentError) as caught:
            read(**arguments)
        assert caught.value.field_violations[0].field == field


@pytest.mark.parametrize(
    ("method", "name"),
    [
        ("watch", "lable_selector"),
        ("watch", "max_age"),
        ("mirror", "lable_selector"),
        ("mirror", "resume_token"),
        ("list", "lable_selector"),
        ("list", "patience"),
    ],
)
async def test_an_unknown_keyword_is_refused(extension: Extension, method: str, name: str) -> None:
    """As Python does for any function: a misspelt filter would select everything."""
    told = rf"^{method}\(\) got an unexpected keyword argument '{name}'; .* label_selector"
    with pytest.raises(TypeError, match=told):
        getattr(extension, method)(**{name: "x"})


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("INVALID_ARGUMENT", watchcache.InvalidArgumentError),
        ("NOT_FOUND", watchcache.NotFoundError),
        ("ALREADY_EXISTS", watchcache.AlreadyExistsError),
        ("FAILED_PRECONDITION", watchcache.FailedPreconditionError),
        ("RESOURCE_EXHAUSTED", watchcache.ResourceExhaustedError),
        ("OUT_OF_RANGE", watchcache.OutOfRangeError),
        ("DEADLINE_EXCEEDED", watchcache.DeadlineExceededError),
        ("PERMISSION_DENIED", watchcache.PermissionDeniedError),
        ("UNAUTHENTICATED", watchcache.UnauthenticatedError),
        ("UNIMPLEMENTED", watchcache.UnimplementedError),
        ("ABORTED", watchcache.UnavailableError),
        ("CANCELLED", watchcache.CancelledByServiceError),
        ("INTERNAL", watchcache.InternalError),
        ("UNKNOWN", watchcache.InternalError),
        ("DATA_LOSS", watchcache.InternalError),
    ],
)
async def test_each_status_is_an_error_of_its_own(
    service: FakeService, connection: Connection, code: str, kind: type[Exception]
) -> None:
    """All of one tree, with the service's reason and text."""
    service.answers["ListClusters"] = [Fault(grpc.StatusCode[code], "A_REASON", "it says why")]
    with pytest.raises(kind, match="it says why") as caught:
        await connection.clusters()
    assert isinstance(caught.value, watchcache.WatchCacheError)
    assert type(caught.value) is kind
    assert caught.value.reason == "A_REASON"
    assert isinstance(caught.value.__cause__, grpc.aio.AioRpcError)


async def test_an_error_carries_its_details(service: FakeService, connection: Connection) -> None:
    """Every broken rule at once, and what else was sent."""
    details = (
        details_pb2.BadRequest(
            field_violations=[
                details_pb2.BadRequest.FieldViolation(field="spec.ttl", description="too short"),
                details_pb2.BadRequest.FieldViolation(field="name", description="no DNS label"),
            ]
        ),
        details_pb2.QuotaFailure(
            violations=[details_pb2.QuotaFailure.Violation(subject="s", description="full")]
        ),
        details_pb2.RetryInfo(retry_delay=Duration(seconds=3)),
    )
    fault = Fault(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SPEC", "no", details)
    service.answers["Register"] = [fault]
    with pytest.raises(InvalidArgumentError) as caught:
        await connection.register("team-a/shop", watch=["pods"])
    assert caught.value.field_violations == (
        FieldViolation("spec.ttl", "too short"),
        FieldViolation("name", "no DNS label"),
    )
    assert caught.value.violations == (Violation("", "s", "full"),)
    assert caught.value.retry_delay_seconds == 3
