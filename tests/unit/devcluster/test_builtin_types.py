"""Built-in kinds by their fields: what is kept, dropped and refused; and their binary form."""

from __future__ import annotations

import base64
import struct
from typing import Any

import pytest

from watchcache_devcluster.bodies import duplicate_fields, read_object, read_patch
from watchcache_devcluster.builtin import BUILTIN_RESOURCES, REVIEW_RESOURCES
from watchcache_devcluster.builtin_types import WrongType, conform, message_of, parse_type
from watchcache_devcluster.errors import ApiError
from watchcache_devcluster.protobuf import ProtobufError, decode_object

Tree = dict[str, Any]


def read(kind: str, tree: Tree, version: str = "v1", group: str = "") -> tuple[Tree, list[str]]:
    """Read an object of a built-in kind; return it and what was unknown."""
    shape = message_of(group, version, kind)
    assert shape is not None
    unknown: list[str] = []
    return conform(shape, tree, unknown), unknown


@pytest.mark.parametrize(
    "resource",
    [*BUILTIN_RESOURCES, *REVIEW_RESOURCES],
    ids=lambda resource: f"{resource.plural}.{resource.version}.{resource.group}",
)
def test_every_built_in_kind_has_its_fields(resource: Any) -> None:
    """No built-in kind is accepted unread."""
    shape = message_of(resource.group, resource.version, resource.kind)
    assert shape is not None
    assert "metadata" in shape.by_name


def test_unknown_fields_are_dropped_and_named() -> None:
    """The path of each is known, at any depth; the type of the object is none of them."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "a", "nope": 1}], "nope": {}},
        "nope": None,
    }
    kept, unknown = read("Pod", pod)
    assert kept == {"spec": {"containers": [{"name": "a"}]}}
    assert sorted(unknown) == ["nope", "spec.containers[0].nope", "spec.nope"]


def test_what_go_leaves_out_is_left_out() -> None:
    """Empty values vanish, unless the field is a pointer or always written."""
    deployment = {
        "metadata": {"labels": {}, "finalizers": [], "name": "", "creationTimestamp": None},
        "spec": {"replicas": 0, "paused": False, "template": {"spec": {"containers": []}}},
    }
    kept, _ = read("Deployment", deployment, group="apps")
    assert kept == {
        "metadata": {},
        "spec": {"replicas": 0, "template": {"spec": {"containers": []}}},
    }
    volume = {"spec": {"volumes": [{"name": "v", "emptyDir": {}}, None]}}
    assert read("Pod", volume)[0] == volume | {"spec": {"volumes": volume["spec"]["volumes"][:1]}}
    assert read("ConfigMap", {"data": {"k": None}})[0] == {"data": {"k": ""}}
    assert read("Node", {"status": {"capacity": {"cpu": 2}}})[0]["status"] == {
        "capacity": {"cpu": "2"}
    }


@pytest.mark.parametrize(
    ("kind", "tree", "message"),
    [
        ("ConfigMap", {"data": {"k": 5}}, "number into Go struct field ConfigMap.data of type str"),
        ("ConfigMap", {"data": "x"}, "string into Go struct field ConfigMap.data of type map[str"),
        ("ConfigMap", {"metadata": []}, "array into Go struct field ConfigMap.metadata of type"),
        ("Pod", {"spec": {"containers": {}}}, "object into Go struct field PodSpec.spec.container"),
        ("Pod", {"spec": {"hostNetwork": "x"}}, "string into Go struct field PodSpec.spec.hostN"),
        ("Pod", {"spec": {"priority": True}}, "bool into Go struct field PodSpec.spec.priority of"),
        ("Event", {"count": 1.5}, "number into Go struct field Event.count of type int64"),
    ],
)
def test_a_value_of_the_wrong_type_is_named(kind: str, tree: Tree, message: str) -> None:
    """What was found, where, and what the field holds."""
    with pytest.raises(WrongType) as caught:
        read(kind, tree)
    assert message in str(caught.value)


def test_a_kind_that_is_not_built_in_has_no_fields() -> None:
    """Custom kinds are read by their own schemas."""
    assert message_of("demo.test", "v1", "Widget") is None
    assert parse_type("x", "3:*[]s!").kind == "slice"


# The binary form, written here as kubectl writes it.


def varint(value: int) -> bytes:
    """Encode an unsigned integer; a negative one as Go does."""
    value &= (1 << 64) - 1
    out = b""
    while value >= 0x80:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def number(field: int, value: int) -> bytes:
    """Encode an integer field."""
    return varint(field << 3) + varint(value)


def text(field: int, value: str | bytes) -> bytes:
    """Encode a string, bytes or message field."""
    data = value.encode() if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(data)) + data


def wrap(api_version: str, kind: str, raw: bytes) -> bytes:
    """Put an object into its envelope."""
    return b"k8s\0" + text(1, text(1, api_version) + text(2, kind)) + text(2, raw)


def test_a_binary_object_is_read_by_its_fields() -> None:
    """Strings, maps, lists, messages, inlined messages, times and quantities."""
    metadata = (
        text(1, "a")
        + text(8, number(1, 1_700_000_000))
        + text(11, text(1, "k") + text(2, "v"))
        + text(11, text(1, "empty"))
        + text(14, "x/y")
        + text(5, "")
    )
    env = text(1, "N") + text(2, "v")
    probe = text(1, text(2, text(1, "/healthz") + text(2, number(1, 0) + number(2, 80))))
    other = text(1, text(2, text(2, number(1, 1) + text(3, "http"))))
    resources = text(1, text(1, "cpu") + text(2, text(1, "100m")))
    port = number(3, 80)
    container = text(1, "main") + text(7, env) + text(8, resources) + text(6, port)
    container += text(10, probe) + text(11, other)
    volume = text(1, "v") + text(2, text(2, b""))
    spec = text(1, volume) + text(2, container) + number(4, 30) + number(25, -5) + number(11, 1)
    tree = decode_object(wrap("v1", "Pod", text(1, metadata) + text(2, spec) + text(3, b"")))
    assert tree == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "a",
            "creationTimestamp": "2023-11-14T22:13:20Z",
            "labels": {"k": "v", "empty": ""},
            "finalizers": ["x/y"],
        },
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "main",
                    "env": [{"name": "N", "value": "v"}],
                    "resources": {"limits": {"cpu": "100m"}},
                    "ports": [{"containerPort": 80}],
                    "livenessProbe": {"httpGet": {"path": "/healthz", "port": 80}},
                    "readinessProbe": {"httpGet": {"port": "http"}},
                }
            ],
            "terminationGracePeriodSeconds": 30,
            "priority": -5,
            "hostNetwork": True,
        },
    }


def test_rarer_types_of_the_binary_form() -> None:
    """Bytes, precise times, owned fields, options of a deletion, unknown fields."""
    secret = text(2, text(1, "k") + text(2, b"\xff")) + number(99, 1)
    assert decode_object(wrap("v1", "Secret", secret))["data"] == {
        "k": base64.b64encode(b"\xff").decode()
    }
    moment = text(4, number(1, 1_700_000_000) + number(2, 5_000))
    lease = decode_object(wrap("coordination.k8s.io/v1", "Lease", text(2, moment)))
    assert lease["spec"]["renewTime"] == "2023-11-14T22:13:20.000005Z"
    owned = text(17, text(1, "m") + text(7, text(1, b'{"f:data":{}}')))
    configmap = decode_object(wrap("v1", "ConfigMap", text(1, owned)))
    assert configmap["metadata"]["managedFields"][0]["fieldsV1"] == {"f:data": {}}
    options = decode_object(wrap("v1", "DeleteOptions", number(1, 0) + text(4, "Background")))
    assert options["gracePeriodSeconds"] == 0
    assert options["propagationPolicy"] == "Background"
    extra = text(5, text(1, "scopes") + text(2, text(1, "a") + text(1, "b")))
    review = decode_object(wrap("authorization.k8s.io/v1", "SubjectAccessReview", text(2, extra)))
    assert review["spec"]["extra"] == {"scopes": ["a", "b"]}
    odd = varint(7 << 3 | 1) + struct.pack("<d", 1.0) + varint(8 << 3 | 5) + b"1234"
    assert decode_object(wrap("v1", "ConfigMap", odd))["kind"] == "ConfigMap"


@pytest.mark.parametrize(
    "data",
    [
        b"{}",
        b"k8s\0" + b"\x0a",
        b"k8s\0" + b"\x0a\x7f",
        b"k8s\0" + b"\x0b",
        wrap("v1", "Nonesuch", b""),
        wrap(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            text(2, text(7, text(4, text(1, b"x")))),
        ),
    ],
    ids=["no magic", "cut", "too long", "unknown wire type", "unknown kind", "unreadable field"],
)
def test_a_binary_body_that_cannot_be_read_is_refused(data: bytes) -> None:
    """Nothing is guessed."""
    with pytest.raises(ProtobufError):
        decode_object(data)
    with pytest.raises(ApiError) as caught:
        read_object(data, "application/vnd.kubernetes.protobuf", "Pod")
    assert caught.value.code == 400


def test_bodies_may_be_yaml() -> None:
    """Objects and applied configurations are read as YAML where they say so."""
    assert read_object(b"a: 1\n", "application/yaml", "Pod") == {"a": 1}
    assert read_patch(b"a: 1\n", "application/apply-patch+yaml") == {"a": 1}
    for data in (b"{", b"\xff", b""):
        with pytest.raises(ApiError):
            read_object(data, "application/json", "Pod")
    for data in (b"a: [", b"a: !!bool x", b"a: !!timestamp x", b"a: 2030-13-01"):
        with pytest.raises(ApiError):
            read_object(data, "application/yaml", "Pod")
        with pytest.raises(ApiError):
            read_patch(data, "application/apply-patch+yaml")


def test_keys_that_come_twice_are_found() -> None:
    """A strict reader is told of every key that a JSON object repeats."""
    assert duplicate_fields(b'{"a":1,"b":{"c":1,"c":2},"a":3}') == ("c", "a")
    assert duplicate_fields(b"{") == ()
