"""Sends requests as bytes, past every check of the generated classes, and judges the answers."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import grpc
import msgspec
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import DecodeError, Message
from google.rpc import error_details_pb2, status_pb2

from tests.fuzz.odd import EXTENSIONS, NAMESPACE, PLACEHOLDERS
from watchcache.v1alpha1 import watch_cache_service_pb2 as pb

__all__ = ["METHODS", "Wire"]

SERVICE: Final = pb.DESCRIPTOR.services_by_name["WatchCacheService"]
#: The RPCs of the contract.
METHODS: Final[dict[str, MethodDescriptor]] = dict(SERVICE.methods_by_name)

_LIMIT_SECONDS = 3.0
_PATIENCE_SECONDS = 20.0
# What the contract says of each status: the details that come beside the ErrorInfo.
_DETAILS: Final[dict[grpc.StatusCode, tuple[type[Message], str]]] = {
    grpc.StatusCode.INVALID_ARGUMENT: (error_details_pb2.BadRequest, "field_violations"),
    grpc.StatusCode.OUT_OF_RANGE: (error_details_pb2.BadRequest, "field_violations"),
    grpc.StatusCode.NOT_FOUND: (error_details_pb2.ResourceInfo, "description"),
    grpc.StatusCode.FAILED_PRECONDITION: (error_details_pb2.PreconditionFailure, "violations"),
    grpc.StatusCode.RESOURCE_EXHAUSTED: (error_details_pb2.QuotaFailure, "violations"),
    grpc.StatusCode.UNAVAILABLE: (error_details_pb2.RetryInfo, "retry_delay"),
}
# Ended by the caller: there is nobody to tell.
_OWN: Final = (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED)


class Wire:
    """A channel to a running service."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel

    def send(self, name: str, requests: Sequence[bytes]) -> str:
        """Send one request (or several, where a method takes a stream); return the status.

        Raises AssertionError where the answer is none that the contract knows.
        """
        method = METHODS[name]
        filled = [self._filled(method, request) for request in requests]
        try:
            if method.client_streaming:
                self._call(name, "stream_unary")(iter(filled), timeout=_LIMIT_SECONDS)
            elif method.server_streaming:
                self._read(name, filled[0])
            else:
                self._call(name, "unary_unary")(filled[0], timeout=_LIMIT_SECONDS)
        except grpc.RpcError as error:
            check(error)
            return str(error.code().name)
        return "OK"

    def _call(self, name: str, kind: str) -> Callable[..., Any]:
        """Return what sends and gives bytes."""
        call: Callable[..., Any] = getattr(self._channel, kind)(f"/{SERVICE.full_name}/{name}")
        return call

    def _read(self, name: str, request: bytes) -> None:
        """Read a stream until it has said that it is synced."""
        for _ in self._until_synced(name, request):
            pass

    def _until_synced(self, name: str, request: bytes) -> Iterator[Any]:
        answer_type: Any = pb.WatchResponse if name == "Watch" else pb.WatchExtensionsResponse
        call = self._call(name, "unary_stream")(request, timeout=_LIMIT_SECONDS)
        try:
            for answer in call:
                message = answer_type.FromString(answer)
                yield message
                if message.HasField("synced"):
                    return
        finally:
            call.cancel()

    # What only a running service can give.

    def _filled(self, method: MethodDescriptor, request: bytes) -> bytes:
        """Put real tokens where the request has words that stand for them."""
        if b"@" not in request:
            return request
        request_type: Any = getattr(pb, method.input_type.name)
        try:
            message = request_type.FromString(request)
        except DecodeError:
            return request
        for field in ("resume_token", "known", "page_token"):
            held = getattr(message, field, b"")
            word = held.encode() if isinstance(held, str) else held
            if word.decode(errors="replace") in PLACEHOLDERS:
                token = _changed(self._token(method.name, field), word)
                is_text = isinstance(held, str)
                setattr(message, field, token.decode(errors="replace") if is_text else token)
        filled: bytes = message.SerializeToString()
        return filled

    def _token(self, method: str, field: str) -> bytes:
        key: dict[str, Any] = {"namespace": NAMESPACE, "name": EXTENSIONS[0]}
        try:
            if field == "resume_token":
                return self._resume_token(pb.WatchRequest(**key))
            if field == "known":
                group = pb.KnownObjects(resource="configmaps", objects=b"k" * 48)
                upload = pb.UploadKnownRequest(**key, groups=[group])
                sent = iter([upload.SerializeToString()])
                answer = self._call("UploadKnown", "stream_unary")(sent, timeout=_LIMIT_SECONDS)
                return pb.UploadKnownResponse.FromString(answer).handle
            if method == "ListExtensions":
                return base64.urlsafe_b64encode(f"{NAMESPACE}/{EXTENSIONS[0]}".encode())
            page = pb.ListObjectsRequest(**key, page_size=1).SerializeToString()
            answer = self._call("ListObjects", "unary_unary")(page, timeout=_LIMIT_SECONDS)
            return pb.ListObjectsResponse.FromString(answer).next_page_token.encode()
        except grpc.RpcError as error:
            # An example before has deregistered it, say.
            check(error)
            return b"none"

    def _resume_token(self, request: pb.WatchRequest) -> bytes:
        for message in self._until_synced("Watch", request.SerializeToString()):
            if message.HasField("synced"):
                return bytes(message.synced.resume_token)
        return b""

    def register(self, spec: Message) -> None:
        """Register the extensions that requests speak of, with a spec that holds something."""
        for name in EXTENSIONS:
            request: Any = pb.RegisterRequest(namespace=NAMESPACE, name=name)
            request.spec.CopyFrom(spec)
            request.wait.CopyFrom(Duration(seconds=10))
            self._call("Register", "unary_unary")(
                request.SerializeToString(), timeout=_PATIENCE_SECONDS
            )

    def deregister_all(self) -> None:
        """Free every extension that there is."""
        listing = self._call("ListExtensions", "unary_unary")
        while found := pb.ListExtensionsResponse.FromString(
            listing(b"", timeout=_PATIENCE_SECONDS)
        ).extensions:
            for each in found:
                request = pb.DeregisterRequest(namespace=each.namespace, name=each.name)
                self._call("Deregister", "unary_unary")(
                    request.SerializeToString(), timeout=_PATIENCE_SECONDS
                )


def _changed(token: bytes, word: bytes) -> bytes:
    """Spoil a token; a forged one has a checksum that is right."""
    match word:
        case b"@cut":
            return token[:-1]
        case b"@flipped":
            return _flipped(token)
        case b"@forged":
            return _forged(token)
    return token


def _flipped(token: bytes) -> bytes:
    middle = len(token) // 2
    return token[:middle] + bytes((token[middle] ^ 1,)) + token[middle + 1 :] if token else token


def _forged(token: bytes) -> bytes:
    try:
        question, source, *place = msgspec.msgpack.decode(base64.urlsafe_b64decode(token)[:-4])
    except (ValueError, TypeError, msgspec.MsgspecError):
        body = _flipped(token[:-4])
        return body + struct.pack(">I", zlib.crc32(body))
    body = msgspec.msgpack.encode((question, source[1:], *place))
    return base64.urlsafe_b64encode(body + struct.pack(">I", zlib.crc32(body)))


def check(error: grpc.RpcError) -> None:
    """Fail unless a status is one of the contract's, with a text and the details that it promises.

    A fault of the service, INTERNAL, is not among them here, nor is what gRPC calls UNKNOWN.
    """
    code = error.code()
    if code in _OWN:
        return
    told = f"{code} {error.details()}"
    assert code in _DETAILS, f"no request may be answered by {told}"
    trailer = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin")
    assert trailer is not None, f"{told}: without details"
    status = status_pb2.Status.FromString(trailer)
    assert (status.code, status.message) == (code.value[0], error.details()), told
    infos = [each for each in status.details if each.Is(error_details_pb2.ErrorInfo.DESCRIPTOR)]
    assert len(infos) == 1, f"{told}: {len(infos)} ErrorInfo"
    info = error_details_pb2.ErrorInfo.FromString(infos[0].value)
    assert info.domain == "watchcache", told
    assert info.reason, told
    kind, field = _DETAILS[code]
    others = [each for each in status.details if each.Is(kind.DESCRIPTOR)]
    assert len(others) == 1, f"{told}: no {kind.__name__}"
    said = getattr(kind.FromString(others[0].value), field)
    assert said, f"{told}: nothing is named"
    if kind is error_details_pb2.BadRequest:
        for each in said:
            assert each.field, f"{told}: no field is named"
            assert each.description, f"{told}: no rule is named"
