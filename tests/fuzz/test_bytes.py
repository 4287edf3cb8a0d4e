"""Whatever bytes come from an API server, a client or a file: something is read, or it is refused.

Refused means by the error that the reader promises, with a text; anything else is a fault.
"""

from __future__ import annotations

import base64
import struct
import zlib
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.extent import examples
from tests.fuzz.mutation import dumped, json_values, spoiled
from tests.unit.clusters.kubeconfigs import document
from watchcache_server.clusters.errors import ClusterConfigError
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import load_context
from watchcache_server.extensions.content import watches_of
from watchcache_server.informer.bodies import ListBody
from watchcache_server.informer.decoding import Broken, EventDecoder, ItemDecoder, StreamError
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.resume import ResumeToken, TokenError
from watchcache_server.informer.statuses import read_status
from watchcache_server.informer.streams import EventStream
from watchcache_server.kubernetes.documents import (
    DocumentError,
    decode_aggregated,
    decode_group_list,
    decode_resource_list,
    decode_version_list,
)
from watchcache_server.model.errors import InvalidRequestError
from watchcache_server.model.states import Projection
from watchcache_server.serving.listing import _decode_token as extension_after
from watchcache_server.serving.reading import _decode_token as object_after

pytestmark = pytest.mark.timeout(0)

_METADATA = {
    "name": "a",
    "namespace": "n",
    "uid": "0c9f7c1e-6f0c-4a53-9f3e-0c2d5b1f0a11",
    "resourceVersion": "7",
    "labels": {"app": "x"},
    "ownerReferences": [{"uid": "u"}],
    "managedFields": [{"manager": "m"}],
}
_OBJECT = {"apiVersion": "g/v1", "kind": "Thing", "metadata": _METADATA, "spec": {"a": [1.0, "é"]}}
_STATUS = {
    "kind": "Status",
    "code": 410,
    "reason": "Expired",
    "message": "too old",
    "details": {"causes": [{"reason": "x"}], "retryAfterSeconds": 1},
}
_EVENTS = tuple(
    dumped({"type": kind, "object": body}) + b"\n"
    for kind, body in (
        ("ADDED", _OBJECT),
        ("MODIFIED", _OBJECT),
        ("DELETED", _OBJECT),
        ("BOOKMARK", {**_OBJECT, "spec": {}}),
        ("ERROR", _STATUS),
    )
)
_LIST = {
    "kind": "ThingList",
    "apiVersion": "g/v1",
    "metadata": {"resourceVersion": "9", "continue": "c"},
    "items": [_OBJECT, _OBJECT],
}
_PROJECTIONS = st.sampled_from(list(Projection))
_SIZES = st.integers(1, 200)


def pieces(text: bytes, size: int) -> list[bytes]:
    """Cut a text as a connection may cut it."""
    return [text[at : at + size] for at in range(0, len(text), size)]


@examples
@given(spoiled(*_EVENTS, b"".join(_EVENTS), b"".join(_EVENTS[:4])), _SIZES, _PROJECTIONS)
def test_any_watch_is_events_and_at_most_one_end(
    text: bytes, size: int, projection: Projection
) -> None:
    """A stream gives events; what breaks it comes last, and its text holds nothing of an object."""
    stream = EventStream(EventDecoder(api_version="g/v1", kind="Thing", projection=projection))
    events = [event for piece in pieces(text, size) for event in stream.feed(piece)]
    events += stream.finish()
    for event in events[:-1]:
        assert not isinstance(event, Broken | StreamError)
    if events and isinstance(events[-1], Broken):
        assert str(events[-1].error)
        assert "0c9f7c1e" not in str(events[-1].error)


@examples
@given(
    spoiled(dumped(_LIST), dumped({**_LIST, "items": []}), dumped(_STATUS)), _SIZES, _PROJECTIONS
)
def test_any_list_is_items_or_an_error_of_data(
    text: bytes, size: int, projection: Projection
) -> None:
    """A body is a list to its end, or a DataError."""
    body = ListBody(ItemDecoder(api_version="g/v1", kind="Thing", projection=projection))
    try:
        for piece in pieces(text, size):
            body.feed(piece)
        body.finish()
    except DataError as error:
        assert str(error)


@examples
@given(
    spoiled(dumped(_STATUS), b'"too old resource version"', b"<html>") | json_values().map(dumped)
)
def test_any_status_is_read(text: bytes) -> None:
    """Whatever a server says of an error is one, with a text that fits on a line."""
    status = read_status(text)
    assert status.message.isprintable()
    assert status.retry_after_seconds is None or status.retry_after_seconds > 0
    read_status(text, is_strict=True)


_AGGREGATED = {
    "kind": "APIGroupDiscoveryList",
    "apiVersion": "apidiscovery.k8s.io/v2",
    "items": [
        {
            "metadata": {"name": "apps"},
            "versions": [
                {
                    "version": "v1",
                    "resources": [
                        {
                            "resource": "deployments",
                            "responseKind": {"kind": "Deployment"},
                            "scope": "Namespaced",
                            "verbs": ["list", "watch"],
                        }
                    ],
                }
            ],
        }
    ],
}
_DOCUMENTS = (
    dumped(_AGGREGATED),
    dumped({"kind": "APIVersions", "versions": ["v1"]}),
    dumped({"kind": "APIGroupList", "groups": [{"name": "a", "versions": [{"version": "v1"}]}]}),
    dumped(
        {
            "kind": "APIResourceList",
            "resources": [{"name": "pods", "kind": "Pod", "namespaced": True, "verbs": ["list"]}],
        }
    ),
)


@examples
@given(spoiled(*_DOCUMENTS) | json_values().map(dumped))
def test_any_document_of_discovery_is_read_or_refused(text: bytes) -> None:
    """Each reader takes it, or raises DocumentError."""
    for read in (
        decode_aggregated,
        decode_version_list,
        decode_group_list,
        lambda body: decode_resource_list("apps", "v1", body),
    ):
        try:
            read(text)
        except DocumentError as error:
            assert str(error)


_TOKEN = ResumeToken(b"e" * 8, b"p" * 8, b"w" * 8, 7, 3, ((b"i" * 8, 9),)).encode()


@examples
@given(spoiled(_TOKEN, _TOKEN[:-4]), st.booleans())
def test_any_resume_token_is_read_or_refused(token: bytes, is_signed: bool) -> None:
    """Also one whose checksum is right: what is read can be written again as it was."""
    if is_signed:
        token += struct.pack(">I", zlib.crc32(token))
    try:
        found = ResumeToken.decode(token)
    except TokenError as error:
        assert str(error)
    else:
        assert ResumeToken.decode(found.encode()) == found


_PARTS_OF_A_TOKEN = st.tuples(
    st.sampled_from((b"question", b"q")),
    st.lists(st.text(max_size=3), max_size=6),
    st.text(max_size=9),
    st.text(max_size=9) | st.none(),
)


@examples
@given(
    _PARTS_OF_A_TOKEN.map(msgspec.msgpack.encode) | st.binary(max_size=40),
    st.booleans(),
    st.text(max_size=10),
)
def test_any_page_token_is_read_or_refused(body: bytes, is_signed: bool, text: str) -> None:
    """Of objects and of extensions: signed or not, in base64 or not."""
    signed = body + struct.pack(">I", zlib.crc32(body)) if is_signed else body
    for token in (base64.urlsafe_b64encode(signed).decode(), body.decode(errors="replace"), text):
        for read in (lambda token: object_after(token, b"question"), extension_after):
            try:
                read(token)
            except InvalidRequestError as error:
                assert error.violations[0].field == "page_token"


_MANIFESTS = (
    b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  namespace: n\n",
    b"apiVersion: apps/v1\nkind: A\nmetadata: {name: &x a, namespace: *x}\n---\nkind: B\n",
    dumped({"apiVersion": "v1", "kind": "List", "items": [_OBJECT]}),
)


@examples
@given(spoiled(*_MANIFESTS) | json_values().map(dumped), st.booleans())
def test_any_manifests_are_a_watch_set_or_an_invalid_request(text: bytes, only: bool) -> None:
    """What cannot be read is told by the field, whatever YAML can say."""
    try:
        found = watches_of(
            text,
            namespace="n",
            only_these_objects=only,
            projection=Projection.FULL,
            max_documents=20,
        )
    except InvalidRequestError as error:
        for violation in error.violations:
            assert violation.field.startswith("spec.content.manifests")
            assert violation.description
    else:
        assert found


_PEM = base64.b64encode(b"PEM").decode()
_PLUGIN = {
    "apiVersion": "client.authentication.k8s.io/v1",
    "command": "/bin/true",
    "args": ["a"],
    "env": [{"name": "A", "value": "b"}],
    "provideClusterInfo": True,
}
_KUBECONFIGS = tuple(
    yaml.safe_dump(document(**parts)).encode()
    for parts in (
        {},
        {"cluster": {"certificate-authority-data": _PEM, "proxy-url": "http://[::1]:1"}},
        {"user": {"client-certificate-data": _PEM, "client-key-data": _PEM}},
        {"user": {"exec": _PLUGIN}, "cluster": {"extensions": [{"name": "x", "extension": 1}]}},
    )
)


@examples
@given(text=spoiled(*_KUBECONFIGS))
async def test_any_kubeconfig_is_a_connection_or_an_error_of_it(
    text: bytes, tmp_path: Path
) -> None:
    """What cannot be used is told with the file, whatever its text."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(text)
    try:
        await load_context(read_context(path))
    except ClusterConfigError as error:
        assert str(path) in str(error)


_CLUSTER_FIELDS = (
    *("server", "tls-server-name", "insecure-skip-tls-verify", "certificate-authority"),
    *("certificate-authority-data", "proxy-url", "disable-compression", "extensions"),
)
_USER_FIELDS = (
    *("client-certificate", "client-certificate-data", "client-key", "client-key-data"),
    *("token", "tokenFile", "exec", "extensions"),
)
_ADDRESSES = st.sampled_from(
    ("http://[", "https://a:b", "https://[::1]:x", "http://\0", "https://a:99999", "//x", _PEM)
)
_PARTS = _ADDRESSES | json_values()
_EXEC = st.fixed_dictionaries({}, optional={name: json_values() for name in _PLUGIN}).map(
    lambda found: {**_PLUGIN, **found}
)


@examples
@given(
    cluster=st.dictionaries(st.sampled_from(_CLUSTER_FIELDS), _PARTS, max_size=2),
    user=st.dictionaries(st.sampled_from(_USER_FIELDS), _PARTS, max_size=2)
    | st.fixed_dictionaries({"exec": _EXEC}),
)
async def test_any_value_of_a_kubeconfig_is_used_or_refused(
    cluster: dict[str, Any], user: dict[str, Any], tmp_path: Path
) -> None:
    """Each field may be of any type."""
    path = tmp_path / "kubeconfig"
    path.write_bytes(dumped(document(cluster=cluster, user=user)))
    try:
        await load_context(read_context(path))
    except ClusterConfigError as error:
        assert str(path) in str(error)
