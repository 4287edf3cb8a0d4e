"""The service as a whole, in this process, beside a dev cluster."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1 import watch_cache_service_pb2_grpc as pb_grpc
from watchcache_devcluster import DevCluster
from watchcache_server.app import App, running
from watchcache_server.kubernetes.reporting import SILENT
from watchcache_server.observability.log_reporter import LogReporter
from watchcache_server.settings import Settings

Stub = pb_grpc.WatchCacheServiceStub

_LIMIT_SECONDS = 20.0
_ACCOUNT = """
apiVersion: v1
kind: ServiceAccount
metadata: {name: shop, namespace: default}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [list, watch, get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: reader}
subjects: [{kind: ServiceAccount, name: shop, namespace: default}]
"""


@pytest.fixture
async def cluster() -> AsyncIterator[DevCluster]:
    """Give a dev cluster with an account that may read ConfigMaps."""
    async with DevCluster() as made:
        await made.load(_ACCOUNT)
        yield made


@pytest.fixture
async def app(cluster: DevCluster, tmp_path: Path) -> AsyncIterator[App]:
    """Give a running service with small limits."""
    settings = Settings(
        kubeconfig=(f"hub={cluster.write_kubeconfig(tmp_path / 'kubeconfig')}",),
        listen=("127.0.0.1:0",),
        http_listen="",
        max_extensions=3,
        max_sources=4,
        max_subscriptions=3,
        max_subscriptions_per_extension=2,
        drain_seconds=5,
    )
    async with running(settings, reporter=LogReporter(), access_reporter=SILENT) as made:
        yield made


@pytest.fixture
async def stub(app: App) -> AsyncIterator[Stub]:
    """Give the bare stub."""
    async with grpc.aio.insecure_channel(app.addresses[0]) as channel:
        yield Stub(channel)


async def register(stub: Stub, name: str, *resources: str, **spec: Any) -> pb.RegisterResponse:
    """Register an extension of namespace default and wait until it has settled."""
    items = [
        extension_pb2.ResourceWatch(resource=resource, namespaces=["default"])
        for resource in resources
    ]
    wish = extension_pb2.ExtensionSpec(
        service_account="shop", resources=extension_pb2.ResourceWatchSet(items=items), **spec
    )
    request = pb.RegisterRequest(
        namespace="default", name=name, spec=wish, wait=Duration(seconds=10)
    )
    answer: pb.RegisterResponse = await stub.Register(request)
    return answer


async def refused(call: Any) -> tuple[grpc.StatusCode, str, list[Any]]:
    """Return code, reason and the details with which a call ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (exhaust(call) if hasattr(call, "read") else call)
    trailer = dict(caught.value.trailing_metadata() or ())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(trailer)
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return caught.value.code(), info.reason, list(status.details[1:])


async def exhaust(call: Any) -> None:
    """Read a stream to its end."""
    while await call.read() is not grpc.aio.EOF:
        pass


async def read_until(call: Any, field: str) -> Any:
    """Return the content of the next message of a kind."""
    async with asyncio.timeout(_LIMIT_SECONDS):
        while True:
            message = await call.read()
            assert message is not grpc.aio.EOF, f"the stream ended before {field}"
            if message.HasField(field):
                return getattr(message, field)


async def fill(cluster: DevCluster, count: int) -> None:
    """Create ConfigMaps, the even ones owned."""
    for number in range(count):
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "owner-1"}
        metadata: dict[str, Any] = {"name": f"c{number}", "labels": {"n": str(number % 2)}}
        if number % 2 == 0:
            metadata["ownerReferences"] = [owner]
        await cluster.create("configmaps", {"metadata": metadata, "data": {"a": "1"}}, "default")


async def list_names(stub: Stub, **request: Any) -> list[str]:
    """Return the names in all pages of a list."""
    names: list[str] = []
    asked = pb.ListObjectsRequest(namespace="default", name="shop", **request)
    while True:
        page = await stub.ListObjects(asked)
        names += [each.key.name for each in page.objects if each.key.name.startswith("c")]
        if not page.next_page_token:
            return [name for name in names if name[1:].isdigit()]
        asked.page_token = page.next_page_token


async def test_lists_are_filtered_and_paged(stub: Stub, cluster: DevCluster) -> None:
    """By label, namespace, resource, cluster and owner; pages together are the list."""
    await fill(cluster, 6)
    await register(stub, "shop", "configmaps")
    everything = [f"c{number}" for number in range(6)]
    even = ["c0", "c2", "c4"]
    assert await list_names(stub) == everything
    assert await list_names(stub, page_size=2) == everything
    assert await list_names(stub, owner_uid="owner-1", page_size=2) == even
    assert await list_names(stub, owner_uid="nobody") == []
    assert await list_names(stub, filter=pb.Filter(label_selector="n=0")) == even
    for passing in (
        pb.Filter(clusters=["hub"]),
        pb.Filter(namespaces=["default"]),
        pb.Filter(resources=[pb.ResourceRef(resource="configmaps")]),
    ):
        assert await list_names(stub, filter=passing) == everything
    code, reason, _ = await refused(
        stub.ListObjects(
            pb.ListObjectsRequest(
                namespace="default",
                name="shop",
                filter=pb.Filter(resources=[pb.ResourceRef(resource="pods")]),
            )
        )
    )
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_SYNCED")


async def test_an_object_is_read_in_each_view(stub: Stub, cluster: DevCluster) -> None:
    """Whole, its metadata, or its key; an empty cluster is the default one."""
    await fill(cluster, 1)
    await register(stub, "shop", "configmaps", "secrets")
    key = event_pb2.ObjectKey(resource="configmaps", namespace="default", name="c0")
    request = pb.GetObjectRequest(namespace="default", name="shop", key=key)
    whole = await stub.GetObject(request)
    assert (whole.object.key.cluster, whole.freshness.is_live) == ("hub", True)
    assert b'"data"' in whole.object.json
    request.view = event_pb2.VIEW_METADATA
    metadata = await stub.GetObject(request)
    assert b'"data"' not in metadata.object.metadata_json
    request.view = event_pb2.VIEW_KEY
    bare = await stub.GetObject(request)
    assert bare.object.WhichOneof("body") is None
    forbidden = event_pb2.ObjectKey(resource="secrets", namespace="default", name="a")
    request.key.CopyFrom(forbidden)
    code, reason, _ = await refused(stub.GetObject(request))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "NOT_SYNCED")


async def test_extensions_are_listed_in_pages(stub: Stub) -> None:
    """Ordered by name; a token of nobody's is refused; a namespace narrows."""
    for name in ("b", "a", "c"):
        await register(stub, name, "configmaps")
    names: list[str] = []
    request = pb.ListExtensionsRequest(page_size=2)
    while True:
        page = await stub.ListExtensions(request)
        names += [each.name for each in page.extensions]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
    assert names == ["a", "b", "c"]
    assert not (await stub.ListExtensions(pb.ListExtensionsRequest(namespace="x"))).extensions
    for token in ("x", "ä", "YQ=="):
        code, reason, _ = await refused(
            stub.ListExtensions(pb.ListExtensionsRequest(page_token=token))
        )
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "PAGE_TOKEN_INVALID")
    for bad in (
        pb.WatchExtensionsRequest(namespace="A"),
        pb.WatchExtensionsRequest(name="a"),
        pb.WatchExtensionsRequest(namespace="a", name="A"),
    ):
        assert (await refused(stub.WatchExtensions(bad)))[0] is grpc.StatusCode.INVALID_ARGUMENT


async def test_extensions_are_watched(stub: Stub) -> None:
    """The present state, each change, and the end with its reason."""
    await register(stub, "shop", "configmaps")
    call = stub.WatchExtensions(pb.WatchExtensionsRequest(namespace="default", name="shop"))
    present = await read_until(call, "extension")
    assert (present.name, present.generation) == ("shop", 1)
    await read_until(call, "synced")
    await register(stub, "shop", "configmaps", "pods")
    async with asyncio.timeout(_LIMIT_SECONDS):
        while (await read_until(call, "extension")).generation != 2:
            pass
    await stub.Deregister(pb.DeregisterRequest(namespace="default", name="shop"))
    removed = await read_until(call, "removed")
    assert (removed.name, removed.reason) == ("shop", "DEREGISTERED")
    call.cancel()


async def test_limits_are_told_with_their_setting(stub: Stub) -> None:
    """Extensions, informers and streams are bounded, each by a setting that is named."""
    for name in ("a", "b", "c"):
        await register(stub, name, "configmaps")
    code, reason, details = await refused(register(stub, "d", "configmaps"))
    assert (code, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "LIMIT_EXCEEDED")
    quota = error_details_pb2.QuotaFailure()
    assert details[0].Unpack(quota)
    assert "max_extensions" in quota.violations[0].description
    many = [f"kind{number}s" for number in range(5)]
    assert (await refused(register(stub, "a", *many)))[1] == "LIMIT_EXCEEDED"

    def watch(name: str) -> Any:
        return stub.Watch(pb.WatchRequest(namespace="default", name=name))

    streams = [watch("a"), watch("a"), watch("b")]
    for stream in streams:
        await read_until(stream, "synced")
    assert (await refused(watch("a")))[1] == "LIMIT_EXCEEDED"
    assert (await refused(watch("c")))[1] == "LIMIT_EXCEEDED"
    for stream in streams:
        stream.cancel()


async def test_content_is_a_watch_set(stub: Stub, cluster: DevCluster) -> None:
    """Manifests narrow an extension to exactly their objects."""
    await fill(cluster, 4)
    manifests = b"".join(
        b"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s}\n" % name
        for name in (b"c1", b"c3", b"c9")
    )
    spec = extension_pb2.ExtensionSpec(
        service_account="shop",
        content=extension_pb2.ContentWatchSet(manifests=manifests, only_these_objects=True),
    )
    answer = await stub.Register(
        pb.RegisterRequest(namespace="default", name="shop", spec=spec, wait=Duration(seconds=10))
    )
    (source,) = answer.extension.sources
    assert (source.kind, source.namespace, source.object_count) == ("ConfigMap", "default", 2)
    assert await list_names(stub) == ["c1", "c3"]


async def test_an_empty_watch_set_closes_everything(stub: Stub, cluster: DevCluster) -> None:
    """Its objects have LEFT with the scope, and the extension is live without informers."""
    await fill(cluster, 1)
    await register(stub, "shop", "configmaps")
    call = stub.Watch(pb.WatchRequest(namespace="default", name="shop"))
    await read_until(call, "synced")
    answer = await register(stub, "shop")
    assert answer.outcome == pb.REGISTER_OUTCOME_UPDATED
    assert not answer.extension.sources
    assert answer.extension.state == extension_pb2.EXTENSION_STATE_LIVE
    batch = await read_until(call, "batch")
    assert {each.left_reason for each in batch.events} == {event_pb2.LEFT_REASON_SCOPE}
    call.cancel()


async def test_a_stop_drains_the_streams(cluster: DevCluster, tmp_path: Path) -> None:
    """Each stream is told where to resume and ends with UNAVAILABLE."""
    settings = Settings(
        kubeconfig=(f"hub={cluster.write_kubeconfig(tmp_path / 'kubeconfig')}",),
        listen=("127.0.0.1:0",),
        http_listen="",
    )
    ended: asyncio.Future[grpc.StatusCode] = asyncio.get_running_loop().create_future()

    async def follow(call: Any) -> None:
        draining = await read_until(call, "draining")
        assert draining.resume_token
        ended.set_result((await refused(call))[0])

    async with running(settings, reporter=LogReporter(), access_reporter=SILENT) as made:
        channel = grpc.aio.insecure_channel(made.addresses[0])
        stub = Stub(channel)
        await register(stub, "shop", "configmaps")
        call = stub.Watch(pb.WatchRequest(namespace="default", name="shop"))
        await read_until(call, "synced")
        reader = asyncio.ensure_future(follow(call))
    async with asyncio.timeout(_LIMIT_SECONDS):
        assert await ended is grpc.StatusCode.UNAVAILABLE
        await reader
    await channel.close()
