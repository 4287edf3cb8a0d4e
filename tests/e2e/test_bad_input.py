"""Whatever is sent, the answer names the field, the rule and the mend, and the service goes on."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc
import pytest
from google.protobuf.duration_pb2 import Duration
from google.rpc import error_details_pb2, status_pb2

from tests.contract.api import Api
from tests.e2e.service import ServiceProcess
from watchcache.v1alpha1 import event_pb2, extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb
from watchcache.v1alpha1 import watch_cache_service_pb2_grpc as pb_grpc

Spec = extension_pb2.ExtensionSpec
Item = extension_pb2.ResourceWatch
_YAML_OBJECT = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: %d}\n---\n"


def resources(*items: Item, **spec: Any) -> Spec:
    """Make a spec that names resources."""
    return Spec(
        service_account="shop", resources=extension_pb2.ResourceWatchSet(items=items), **spec
    )


def content(manifests: bytes) -> Spec:
    """Make a spec that holds manifests."""
    return Spec(service_account="shop", content=extension_pb2.ContentWatchSet(manifests=manifests))


PODS = Item(resource="pods", namespaces=["default"])

# name: spec, the field that is named, words of the rule or the mend
BAD_SPECS: dict[str, tuple[Spec, str, str]] = {
    "unknown cluster": (resources(PODS, clusters=["mars"]), "spec.clusters", "known are hub"),
    "no service account": (Spec(), "spec.service_account", "is required"),
    "service account is no name": (
        Spec(service_account="No Name"),
        "spec.service_account",
        "lower-case",
    ),
    "no type": (resources(Item(group="apps")), "spec.resources.items[0].resource", "is required"),
    "bad group": (
        resources(Item(group="Apps!", resource="deployments")),
        "spec.resources.items[0].group",
        "DNS subdomain",
    ),
    "bad namespace": (
        resources(Item(resource="pods", namespaces=["a", "Not_A_Label"])),
        "spec.resources.items[0].namespaces[1]",
        "DNS label",
    ),
    "malformed label selector": (
        resources(Item(resource="pods", label_selector="a in (b")),
        "spec.resources.items[0].label_selector",
        "not closed",
    ),
    "malformed field selector": (
        resources(Item(resource="pods", field_selector="metadata.name")),
        "spec.resources.items[0].field_selector",
        "path=value",
    ),
    "overlapping entries": (
        resources(PODS, Item(resource="pods", label_selector="a=b")),
        "spec.resources",
        "join them",
    ),
    "unknown projection": (
        resources(Item(resource="pods", projection=99)),  # type: ignore[arg-type]
        "spec.resources.items[0].projection",
        "PROJECTION_FULL",
    ),
    "short ttl": (resources(PODS, ttl=Duration(nanos=1)), "spec.ttl", "at least 1 s"),
    "negative ttl": (resources(PODS, ttl=Duration(seconds=-1)), "spec.ttl", "out of range"),
    "not YAML": (content(b"a: [1,"), "spec.content.manifests", "not YAML"),
    "not UTF-8": (content(b"\xff\xfe"), "spec.content.manifests", "UTF-8"),
    "no kind": (
        content(b"apiVersion: v1\nmetadata: {name: a}"),
        "spec.content.manifests[0]",
        "kind: Deployment",
    ),
    "long kind": (
        content(b"apiVersion: v1\nkind: " + b"K" * 900_000 + b"\nmetadata: {name: a}"),
        "spec.content.manifests[0]",
        "at most 63",
    ),
    "kind is no word": (
        resources(Item(kind="Dep loyment")),
        "spec.resources.items[0].kind",
        "letters and digits",
    ),
    "no apiVersion": (
        content(b"kind: Pod\nmetadata: {name: a}"),
        "spec.content.manifests[0]",
        "apiVersion: apps/v1",
    ),
    "no name": (
        content(b"apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}"),
        "spec.content.manifests[0]",
        "metadata.name",
    ),
    "10,000 documents": (
        content(b"".join(_YAML_OBJECT % number for number in range(10_000))),
        "spec.content.manifests",
        "max_manifest_documents",
    ),
    "YAML bomb": (
        content(
            b"a: &a [x,x,x,x,x,x,x,x,x]\n"
            + b"".join(
                b"%c: &%c [%s]\n" % (level, level, b",".join([b"*%c" % (level - 1)] * 9))
                for level in range(ord("b"), ord("k"))
            )
        ),
        "spec.content.manifests[0]",
        "apiVersion",
    ),
    "recursive YAML": (content(b"&a [*a]"), "spec.content.manifests", "recursive"),
    "duplicate key": (
        content(b"apiVersion: v1\nkind: Pod\nkind: Secret\nmetadata: {name: a}"),
        "spec.content.manifests",
        "twice",
    ),
    "deep nesting": (content(b"[" * 5000), "spec.content.manifests", "nested"),
    "no object": (content(b"---\n---\n"), "spec.content.manifests", "no object"),
    "over the size limit": (content(b"#" * (1024 * 1024 + 1)), "spec", "max_spec_bytes"),
}


@pytest.fixture
async def stub(service: ServiceProcess) -> AsyncIterator[pb_grpc.WatchCacheServiceStub]:
    """Give the bare stub."""
    async with grpc.aio.insecure_channel(service.address) as channel:
        yield pb_grpc.WatchCacheServiceStub(channel)


def details(error: grpc.aio.AioRpcError) -> tuple[error_details_pb2.ErrorInfo, list[Any]]:
    """Return the one ErrorInfo of a status and its other details; check what is promised of all."""
    trailer = dict(error.trailing_metadata() or ())["grpc-status-details-bin"]
    status = status_pb2.Status.FromString(trailer)
    assert (status.code, status.message) == (error.code().value[0], error.details())
    infos, others = [], []
    for packed in status.details:
        info = error_details_pb2.ErrorInfo()
        if packed.Unpack(info):
            infos.append(info)
        else:
            others.append(packed)
    assert len(infos) == 1, "exactly one ErrorInfo"
    assert infos[0].domain == "watchcache"
    assert infos[0].reason.isupper()
    return infos[0], others


def violations(error: grpc.aio.AioRpcError) -> dict[str, str]:
    """Return the fields that are named, with what is said of each."""
    _, others = details(error)
    bad = error_details_pb2.BadRequest()
    assert others
    assert others[0].Unpack(bad)
    return {each.field: each.description for each in bad.field_violations}


async def refused(call: Any) -> grpc.aio.AioRpcError:
    """Return the error with which a call ends."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await (exhaust(call) if hasattr(call, "read") else call)
    return caught.value


async def exhaust(call: Any) -> None:
    """Read a stream to its end."""
    async for _ in call:
        pass


async def test_a_bad_spec_names_field_rule_and_mend(
    stub: pb_grpc.WatchCacheServiceStub, namespace: str, account: str
) -> None:
    """Each broken rule of a spec is told by its field, and nothing is registered."""
    for name, (spec, field, words) in BAD_SPECS.items():
        request = pb.RegisterRequest(namespace=namespace, name="shop", spec=spec)
        error = await refused(stub.Register(request))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, name
        found = violations(error)
        assert field in found, (name, found)
        assert words in found[field], (name, found)
    answer = await stub.ListExtensions(pb.ListExtensionsRequest(namespace=namespace))
    assert not answer.extensions


async def test_all_broken_rules_are_told_at_once(stub: pb_grpc.WatchCacheServiceStub) -> None:
    """One answer names every field that is wrong."""
    spec = resources(Item(resource="pods", namespaces=["A"], label_selector="(("))
    error = await refused(
        stub.Register(pb.RegisterRequest(namespace="team-a", name="shop", spec=spec))
    )
    assert set(violations(error)) == {
        "spec.resources.items[0].namespaces[0]",
        "spec.resources.items[0].label_selector",
    }


BAD_NAMES = {"namespace": ("Team_A", "shop"), "name": ("team-a", "-shop")}


@pytest.mark.parametrize("field", BAD_NAMES)
async def test_a_name_that_breaks_dns_rules_is_refused_everywhere(
    stub: pb_grpc.WatchCacheServiceStub, field: str
) -> None:
    """Every method names the field of a bad extension name."""
    namespace, name = BAD_NAMES[field]
    key = {"namespace": namespace, "name": name}
    calls: list[Callable[[], Any]] = [
        lambda: stub.Register(pb.RegisterRequest(**key, spec=Spec(service_account="a"))),
        lambda: stub.Deregister(pb.DeregisterRequest(**key)),
        lambda: stub.Watch(pb.WatchRequest(**key)),
        lambda: stub.GetObject(pb.GetObjectRequest(**key)),
        lambda: stub.ListObjects(pb.ListObjectsRequest(**key)),
        lambda: stub.GetExtension(pb.GetExtensionRequest(**key)),
        lambda: stub.WatchExtensions(pb.WatchExtensionsRequest(**key)),
    ]
    for call in calls:
        error = await refused(call())
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
        assert field in violations(error)


async def test_a_watch_before_register_is_not_found(stub: pb_grpc.WatchCacheServiceStub) -> None:
    """Nothing can be read of an extension that is not registered."""
    key = {"namespace": "team-a", "name": "nowhere"}
    for call in (
        stub.Watch(pb.WatchRequest(**key)),
        stub.ListObjects(pb.ListObjectsRequest(**key)),
        stub.GetExtension(pb.GetExtensionRequest(**key)),
    ):
        error = await refused(call)
        assert error.code() is grpc.StatusCode.NOT_FOUND
        assert "Register" in (error.details() or "")
    answer = await stub.Deregister(pb.DeregisterRequest(**key))
    assert not answer.existed


@pytest.fixture
async def registered(
    stub: pb_grpc.WatchCacheServiceStub, api: Api, namespace: str, account: str
) -> dict[str, str]:
    """Give the key of an extension that holds a few objects."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list", "watch"]}]
    await api.create(f"{base}/roles", {"metadata": {"name": "read"}, "rules": rules})
    await api.create(
        f"{base}/rolebindings",
        {
            "metadata": {"name": "read"},
            "roleRef": {
                "apiGroup": "rbac.authorization.k8s.io",
                "kind": "Role",
                "name": "read",
            },
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
        },
    )
    for number in range(5):
        await api.create(
            f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": f"c{number}"}}
        )
    key = {"namespace": namespace, "name": "shop"}
    spec = resources(Item(resource="configmaps", namespaces=[namespace]))
    for name in ("shop", "other"):
        await stub.Register(
            pb.RegisterRequest(namespace=namespace, name=name, spec=spec, wait=Duration(seconds=10))
        )
    return key


async def synced_token(
    stub: pb_grpc.WatchCacheServiceStub, key: dict[str, str], **request: Any
) -> bytes:
    """Return the token at the end of a snapshot."""
    call = stub.Watch(pb.WatchRequest(**key, **request))
    async for message in call:
        if message.HasField("synced"):
            call.cancel()
            return bytes(message.synced.resume_token)
    raise AssertionError("no Synced came")


async def test_a_resume_token_of_something_else_is_refused(
    stub: pb_grpc.WatchCacheServiceStub, registered: dict[str, str]
) -> None:
    """A token of another extension, another filter, or garbage is told as such."""
    good = await synced_token(stub, registered)
    other = await synced_token(stub, registered | {"name": "other"})
    filtered = await synced_token(stub, registered, filter=pb.Filter(label_selector="a=b"))
    flipped = good[:12] + bytes([good[12] ^ 1]) + good[13:]
    cases = {
        "another extension": (other, "another extension"),
        "another filter": (filtered, "another filter"),
        "garbage": (b"garbage", "length"),
        "cut": (good[:-1], "length"),
        "altered": (flipped, "altered"),
    }
    for name, (token, words) in cases.items():
        error = await refused(stub.Watch(pb.WatchRequest(**registered, resume_token=token)))
        assert error.code() is grpc.StatusCode.INVALID_ARGUMENT, name
        assert words in violations(error)["resume_token"], name


async def test_a_resume_token_of_another_epoch_resets(
    stub: pb_grpc.WatchCacheServiceStub, registered: dict[str, str]
) -> None:
    """After the extension was made anew with another spec, an old token gives Reset."""
    token = await synced_token(stub, registered)
    before = await stub.GetExtension(pb.GetExtensionRequest(**registered))
    await stub.Deregister(pb.DeregisterRequest(**registered))
    spec = before.extension.spec
    spec.resources.items[0].label_selector = "app"
    await stub.Register(pb.RegisterRequest(**registered, spec=spec, wait=Duration(seconds=10)))
    call = stub.Watch(pb.WatchRequest(**registered, resume_token=token))
    messages = [await call.read()]
    while not messages[-1].HasField("reset"):
        messages.append(await call.read())
    assert messages[-1].reset.reason == pb.RESET_REASON_EPOCH_CHANGED
    call.cancel()
    lost = stub.Watch(pb.WatchRequest(**registered, resume_token=token, fail_on_reset=True))
    error = await refused(lost)
    assert error.code() is grpc.StatusCode.OUT_OF_RANGE


async def test_a_page_token_that_was_altered_is_refused(
    stub: pb_grpc.WatchCacheServiceStub, registered: dict[str, str]
) -> None:
    """Pages go on with their own token only; the pages together are the list."""
    request = pb.ListObjectsRequest(**registered, page_size=2, view=event_pb2.VIEW_KEY)
    names = []
    page = await stub.ListObjects(request)
    token = page.next_page_token
    while True:
        names += [each.key.name for each in page.objects]
        if not page.next_page_token:
            break
        request.page_token = page.next_page_token
        page = await stub.ListObjects(request)
    assert [name for name in names if name.startswith("c")] == [f"c{n}" for n in range(5)]

    for altered in (token[:-4] + "AAA=", "x", token[1:], "ä"):
        request.page_token = altered
        error = await refused(stub.ListObjects(request))
        assert "page_token" in violations(error)
    other = pb.ListObjectsRequest(**registered, page_token=token, owner_uid="u")
    assert "another filter" in violations(await refused(stub.ListObjects(other)))["page_token"]
    negative = pb.ListObjectsRequest(**registered, page_size=-1)
    assert "page_size" in violations(await refused(stub.ListObjects(negative)))


async def test_a_read_that_cannot_be_answered_says_why(
    stub: pb_grpc.WatchCacheServiceStub, registered: dict[str, str]
) -> None:
    """No object, a resource that is not watched, and a bad key are three answers."""
    missing = event_pb2.ObjectKey(
        resource="configmaps", namespace=registered["namespace"], name="nothing"
    )
    error = await refused(stub.GetObject(pb.GetObjectRequest(**registered, key=missing)))
    assert error.code() is grpc.StatusCode.NOT_FOUND
    assert details(error)[0].reason == "OBJECT_NOT_FOUND"
    unwatched = event_pb2.ObjectKey(resource="pods", namespace="default", name="a")
    error = await refused(stub.GetObject(pb.GetObjectRequest(**registered, key=unwatched)))
    assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "add it to the spec" in (error.details() or "")
    nameless = event_pb2.ObjectKey(resource="Pods!" * 1000, namespace="_" * 1000)
    error = await refused(stub.GetObject(pb.GetObjectRequest(**registered, key=nameless)))
    found = violations(error)
    assert set(found) == {"key.resource", "key.namespace", "key.name"}
    assert "is 5000 characters long; a DNS subdomain has at most 253" in found["key.resource"]


async def test_kinds_that_cannot_be_watched_are_a_state_not_an_error(
    stub: pb_grpc.WatchCacheServiceStub, namespace: str, account: str
) -> None:
    """An unknown kind or version, a wrong scope and a missing verb are told on the informer."""
    items = {
        "unknown kind": Item(group="apps", kind="Nonsense", namespaces=[namespace]),
        "unknown version": Item(
            group="apps", version="v9", resource="statefulsets", namespaces=[namespace]
        ),
        "wrong scope": Item(resource="namespaces", namespaces=[namespace]),
        "no list or watch": Item(group="authorization.k8s.io", resource="selfsubjectaccessreviews"),
    }
    answer = await stub.Register(
        pb.RegisterRequest(
            namespace=namespace,
            name="odd",
            spec=resources(*items.values()),
            wait=Duration(seconds=10),
        )
    )
    told = {}
    for source in answer.extension.sources:
        assert source.state == extension_pb2.SOURCE_STATE_GONE, source
        told[source.resource or source.kind] = (source.reason, source.message)
    assert told["Nonsense"][0] == "KIND_NOT_SERVED"
    assert "v1" in told["statefulsets"][1]
    assert told["namespaces"][0] == "INVALID_SCOPE"
    assert told["selfsubjectaccessreviews"][0] == "VERB_NOT_SERVED"


async def test_a_message_over_the_limit_is_refused(
    service: ServiceProcess, stub: pb_grpc.WatchCacheServiceStub, namespace: str
) -> None:
    """It is RESOURCE_EXHAUSTED by gRPC itself, without details, and the service goes on."""
    spec = content(b"#" * (5 * 1024 * 1024))
    error = await refused(
        stub.Register(pb.RegisterRequest(namespace=namespace, name="big", spec=spec))
    )
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "grpc-status-details-bin" not in dict(error.trailing_metadata() or ())
    assert (await stub.ListClusters(pb.ListClustersRequest())).clusters[0].name == "hub"


MALFORMED = {
    "garbage": b"\x8f\x00\xff\xff garbage",
    "a field that ends early": b"\x0a\xff\xff\xff\x0f",
    "text that is not UTF-8": b"\x0a\x02\xff\xfe",
}


@pytest.mark.parametrize("method", ["Register", "Watch"])
@pytest.mark.parametrize("request_bytes", MALFORMED.values(), ids=MALFORMED)
async def test_a_request_that_is_no_message_is_refused(
    service: ServiceProcess, method: str, request_bytes: bytes
) -> None:
    """Bytes that are no such message are INVALID_ARGUMENT with details, as any other bad input."""
    path = f"/watchcache.v1alpha1.WatchCacheService/{method}"
    async with grpc.aio.insecure_channel(service.address) as channel:
        if method == "Watch":
            error = await refused(channel.unary_stream(path)(request_bytes))
        else:
            error = await refused(channel.unary_unary(path)(request_bytes))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "watchcache.v1alpha1" in violations(error)["request"]
