"""How what is held is told in a few bytes, and that the service reads it alike."""

from __future__ import annotations

import hashlib
import uuid
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watchcache.holdings import HeldObject, object_id, uploads, version_id
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2
from watchcache_server.informer import held as service_held

FULL = extension_pb2.PROJECTION_FULL
METADATA = extension_pb2.PROJECTION_METADATA
UUID = "0f8fad5b-d9cb-469f-a165-70867728950e"


def digest(text: str, size: int) -> bytes:
    """Return the first bytes of the digest of a text."""
    return hashlib.sha256(text.encode()).digest()[:size]


def held(name: str, **changes: Any) -> HeldObject:
    """Make an object that is held; its uid follows from its name."""
    whole = HeldObject("pods", "hub", "team-a", "v1", FULL, f"uid-{name}", "7")
    return whole._replace(**changes)


def record(name: str, version: str = "7") -> bytes:
    """Return what is told of such an object."""
    return object_id(f"uid-{name}") + version_id(version)


UIDS = {
    "a UUID": (UUID, uuid.UUID(UUID).bytes),
    "a UUID in capitals": (UUID.upper(), uuid.UUID(UUID).bytes),
    "a name": ("uid-a", digest("uid-a", 16)),
    "nothing": ("", digest("", 16)),
    "as long as a UUID": ("x" * 36, digest("x" * 36, 16)),
    "hyphens elsewhere": (
        "0f8fad5bd9cb469fa16570867728950e----",
        digest("0f8fad5bd9cb469fa16570867728950e----", 16),
    ),
    "without hyphens": (UUID.replace("-", ""), digest(UUID.replace("-", ""), 16)),
    "as a URN": (
        "urn:" + UUID.replace("-", ""),
        digest("urn:" + UUID.replace("-", ""), 16),
    ),
    "with spaces": (UUID.replace("-", " "), digest(UUID.replace("-", " "), 16)),
    "with a line's end": (UUID + "\n", digest(UUID + "\n", 16)),
}


@pytest.mark.parametrize("name", UIDS)
def test_a_uid_takes_sixteen_bytes(name: str) -> None:
    """Binary if it is a UUID in its usual form, else a digest; on both sides."""
    uid, expected = UIDS[name]
    assert object_id(uid) == service_held.object_id(uid) == expected


_VERSIONS = {
    "a number": ("305", (305).to_bytes(8, "big")),
    "the largest": (str(2**64 - 1), b"\xff" * 8),
    "too large": (str(2**64), digest(str(2**64), 8)),
    "far too large": ("9" * 5000, digest("9" * 5000, 8)),
    "a leading zero": ("0305", digest("0305", 8)),
    "zero": ("0", digest("0", 8)),
    "nothing": ("", digest("", 8)),
    "a word": ("v12", digest("v12", 8)),
    "digits of another script": ("٣", digest("٣", 8)),
}


@pytest.mark.parametrize("name", _VERSIONS)
def test_a_version_takes_eight_bytes(name: str) -> None:
    """A number if it is one in its usual form, else a digest; on both sides."""
    version, expected = _VERSIONS[name]
    assert version_id(version) == service_held.version_id(version) == expected


@given(st.text(), st.from_regex("[0-9a-f-]{36}", fullmatch=True), st.integers(0, 2**70))
def test_client_and_service_agree(text: str, nearly: str, number: int) -> None:
    """Were it not so, the service would say of an object that is there that it is gone."""
    for uid in (text, nearly):
        assert object_id(uid) == service_held.object_id(uid)
    for version in (text, str(number)):
        assert version_id(version) == service_held.version_id(version)


def test_objects_alike_are_told_together() -> None:
    """Runs of the same resource, cluster, namespace, version and projection are one group."""
    told = list(
        uploads(
            "team-a",
            "shop",
            [
                held("a"),
                held("b", resource_version="8"),
                held("c", namespace="team-b"),
                held("d", namespace="team-b", cluster="edge"),
                held("e", resource="deployments.apps"),
                held("f", resource="deployments.apps", version="v1beta1"),
                held("g", resource="deployments.apps", version="v1beta1", projection=METADATA),
                held("h"),
            ],
        )
    )
    groups = [
        {"namespace": "team-a", "objects": record("a") + record("b", "8")},
        {"namespace": "team-b", "objects": record("c")},
        {"namespace": "team-b", "cluster": "edge", "objects": record("d")},
        {"group": "apps", "resource": "deployments", "objects": record("e")},
        {"group": "apps", "resource": "deployments", "version": "v1beta1", "objects": record("f")},
        {
            "group": "apps",
            "resource": "deployments",
            "version": "v1beta1",
            "projection": METADATA,
            "objects": record("g"),
        },
        {"objects": record("h")},
    ]
    usual: dict[str, Any] = {
        "cluster": "hub",
        "resource": "pods",
        "namespace": "team-a",
        "version": "v1",
        "projection": FULL,
    }
    whole = [service_pb2.KnownObjects(**(usual | group)) for group in groups]
    assert told == [service_pb2.UploadKnownRequest(namespace="team-a", name="shop", groups=whole)]


def test_nothing_is_told_in_one_message() -> None:
    """It names the extension, which the service asks for."""
    told = list(uploads("team-a", "shop", []))
    assert told == [service_pb2.UploadKnownRequest(namespace="team-a", name="shop")]


@pytest.mark.parametrize("namespace_count", [1, 50_000], ids=["one group", "many groups"])
def test_much_is_told_in_messages_of_a_bounded_size(namespace_count: int) -> None:
    """No record is cut or lost, and the first message alone names the extension."""
    objects = [
        held(str(number), namespace=f"{number % namespace_count:063}") for number in range(50_000)
    ]
    told = list(uploads("team-a", "shop", objects))
    assert len(told) > 2
    assert all(message.ByteSize() < 1024 * 1024 for message in told)
    assert {(message.namespace, message.name) for message in told[1:]} == {("", "")}
    assert (told[0].namespace, told[0].name) == ("team-a", "shop")
    packed = b"".join(group.objects for message in told for group in message.groups)
    assert packed == b"".join(record(str(number)) for number in range(50_000))


def test_what_ends_with_a_message_needs_no_other() -> None:
    """An empty message would tell nothing."""
    count = -(-512 * 1024 // 24)
    told = list(uploads("team-a", "shop", [held(str(number)) for number in range(count)]))
    assert [len(message.groups) for message in told] == [1]
