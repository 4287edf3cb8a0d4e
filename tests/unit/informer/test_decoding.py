"""Rules of decoding one event or one item."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.realistic import pod, pod_fields
from watchcache_server.informer.cutting import cut_from_metadata
from watchcache_server.informer.decoding import (
    Added,
    Bookmark,
    Deleted,
    EventDecoder,
    ItemDecoder,
    Modified,
    StreamError,
    WatchEvent,
)
from watchcache_server.informer.errors import MalformedError, UnexpectedError
from watchcache_server.informer.objects import Item
from watchcache_server.informer.statuses import StatusFields
from watchcache_server.model.states import Projection

FULL = Projection.FULL
WITHOUT = Projection.WITHOUT_MANAGED_FIELDS
METADATA = Projection.METADATA


def decode_item(data: bytes, projection: Projection = FULL) -> Item:
    """Decode a ConfigMap of group g."""
    return ItemDecoder(api_version="g/v1", kind="Thing", projection=projection).decode(data)


def decode_event(line: bytes, projection: Projection = FULL) -> WatchEvent:
    """Decode an event of a Thing of group g."""
    return EventDecoder(api_version="g/v1", kind="Thing", projection=projection).decode(line)


def thing(inside: bytes, *, spec: bytes = b"") -> bytes:
    """Return a Thing whose metadata has these further members."""
    start = b'{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"5"'
    return start + inside + b"}" + spec + b"}"


# What becomes of an object


def test_an_item_has_what_a_cache_indexes() -> None:
    """Key, uid, version, labels and the uids of the owners; the rest stays bytes."""
    data = pod(7)
    fields = pod_fields(7)
    item = ItemDecoder(api_version="v1", kind="Pod", projection=FULL).decode(data)
    metadata = fields["metadata"]
    assert item == Item(
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata["resourceVersion"],
        metadata["labels"],
        tuple(owner["uid"] for owner in metadata["ownerReferences"]),
        data,
    )


@pytest.mark.parametrize(
    "inside",
    [
        pytest.param(b"", id="absent"),
        pytest.param(b',"labels":null,"ownerReferences":null', id="null"),
        pytest.param(b',"labels":{},"ownerReferences":[]', id="empty"),
        pytest.param(b',"ownerReferences":[{"name":"x"}]', id="an owner without uid"),
    ],
)
def test_what_is_not_there_is_empty(inside: bytes) -> None:
    """A cluster-scoped object without labels, owners and uid is an object."""
    item = decode_item(thing(inside))
    assert (item.namespace, item.uid, item.labels, item.owners) == ("", "", {}, ())


_NUMBERS = b'"a":9007199254740993,"b":18446744073709551617,"c":1.00,"d":1e2,"e":-0.0,"f":0.1000'
_ODD = (
    b',"spec":{' + _NUMBERS + b',"unknown":[null,{}],"text":"\\u003c\\u0041\\n\\/\xc3\xa9\xc2\x85"}'
)


def test_full_is_byte_for_byte() -> None:
    """Numbers, unknown fields, escapes and whitespace are those that were sent."""
    data = thing(b' , "managedFields" : [ ]', spec=_ODD)
    assert decode_item(data, FULL).body == data


@pytest.mark.parametrize(
    ("data", "body"),
    [
        pytest.param(
            thing(b',"managedFields":[{"manager":"m"}]', spec=_ODD),
            thing(b"", spec=_ODD),
            id="last",
        ),
        pytest.param(
            thing(b',"managedFields":[{"manager":"m"}],"uid":"u"'),
            thing(b',"uid":"u"'),
            id="middle",
        ),
        pytest.param(
            b'{"apiVersion":"g/v1","kind":"Thing","metadata":'
            b'{"managedFields":[1],"name":"a","resourceVersion":"5"}}',
            thing(b""),
            id="first",
        ),
        pytest.param(thing(b',"managedFields":null'), thing(b""), id="null"),
        pytest.param(thing(b""), thing(b""), id="none"),
        pytest.param(
            thing(b' ,\n "managedFields" : [ {} ] , "uid" : "u" '),
            thing(b' , "uid" : "u" '),
            id="with whitespace",
        ),
        pytest.param(
            b'{"apiVersion":"g/v1","kind":"Thing","metadata":'
            b'{ "managedFields":[1] , "name":"a","resourceVersion":"5"}}',
            b'{"apiVersion":"g/v1","kind":"Thing","metadata":{  "name":"a","resourceVersion":"5"}}',
            id="first, with whitespace",
        ),
        pytest.param(
            thing(b',"managedFields":[1],"managedFields":[1]'), thing(b""), id="twice, alike"
        ),
        pytest.param(
            thing(b',"managedFields":[1],"uid":"u","managedFields":[2]'),
            thing(b',"uid":"u"'),
            id="twice, different",
        ),
        pytest.param(
            thing(b',"managed\\u0046ields":[1]'), thing(b""), id="with an escape in its name"
        ),
        pytest.param(
            b'{"spec":{"managedFields":[1]},' + thing(b',"managed\\u0046ields":[1]')[1:],
            b'{"spec":{"managedFields":[1]},' + thing(b"")[1:],
            id="an escape in its name, and another with the same value",
        ),
        pytest.param(
            b'{"spec":{"managedFields":[1]},' + thing(b',"managedFields":[1]')[1:],
            b'{"spec":{"managedFields":[1]},' + thing(b"")[1:],
            id="another with the same value before it",
        ),
        pytest.param(
            thing(b',"managedFields":[1]', spec=b',"spec":{"managedFields":[1]}'),
            thing(b"", spec=b',"spec":{"managedFields":[1]}'),
            id="another with the same value behind it",
        ),
        pytest.param(
            b'{"spec":{"managedFields":[2]},' + thing(b',"managedFields":[1]')[1:],
            b'{"spec":{"managedFields":[2]},' + thing(b"")[1:],
            id="another with another value",
        ),
        pytest.param(
            thing(b"", spec=b',"spec":{"managedFields":[1]}'),
            thing(b"", spec=b',"spec":{"managedFields":[1]}'),
            id="only another",
        ),
        pytest.param(
            thing(b',"annotations":{"x\\"managedFields":"[1]"},"managedFields":"[1]"'),
            thing(b',"annotations":{"x\\"managedFields":"[1]"}'),
            id="a key that ends like it",
        ),
        pytest.param(
            b'{"metadata":{"name":"z","managedFields":[1],"resourceVersion":"4"},'
            + thing(b',"managedFields":[1]')[1:],
            b'{"metadata":{"name":"z","resourceVersion":"4"},' + thing(b"")[1:],
            id="metadata twice",
        ),
    ],
)
def test_managed_fields_are_cut_and_nothing_else(data: bytes, body: bytes) -> None:
    """Row 82: only metadata.managedFields goes, however it is written; all other bytes stay."""
    assert decode_item(data, WITHOUT).body == body
    assert json.loads(body).get("spec") == json.loads(data).get("spec")


@pytest.mark.parametrize(
    ("metadata", "value", "kept"),
    [
        pytest.param(b'{"managedFields":[1]}', b"[1]", b"{}", id="alone"),
        pytest.param(b'{ "managedFields":[1] }', b"[1]", b"{ }", id="alone, with whitespace"),
        pytest.param(b'{"managedFields":[1] ,"a":2}', b"[1]", b'{ "a":2}', id="a blank behind"),
    ],
)
def test_the_comma_of_a_member_goes_with_it(metadata: bytes, value: bytes, kept: bytes) -> None:
    """What is left is valid JSON, also when nothing is left."""
    assert cut_from_metadata(metadata, value) == kept


_METADATA_BODY = (
    b'{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a","resourceVersion":"5","uid":"u"}}'
)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(
            b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'
            b'{"name":"a","resourceVersion":"5","uid":"u","managedFields":[{}]}}',
            id="as PartialObjectMetadata",
        ),
        pytest.param(
            thing(b',"uid":"u","managedFields":[{}]', spec=_ODD), id="as the whole object"
        ),
        pytest.param(
            b'{"metadata":{"name":"a","resourceVersion":"5","uid":"u"}}', id="without a type"
        ),
        pytest.param(
            b'{"metadata":{"name":"a","resourceVersion":"5" , "managedFields" : [],"uid":"u"}}',
            id="with whitespace",
        ),
    ],
)
def test_metadata_says_the_real_kind_and_no_more(data: bytes) -> None:
    """Whatever the server sent, the body is apiVersion, kind and metadata without managedFields."""
    assert decode_item(data, METADATA).body == _METADATA_BODY


@pytest.mark.parametrize("projection", list(Projection))
@pytest.mark.parametrize(
    "start",
    [
        pytest.param(b"{", id="neither"),
        pytest.param(b'{"apiVersion":"g/v1",', id="no kind"),
        pytest.param(b'{"kind":"Thing",', id="no apiVersion"),
        pytest.param(b'{"kind":"","apiVersion":"",', id="empty"),
        pytest.param(b' {"k\\u0069nd":"Thing" , ', id="an escape and whitespace"),
    ],
)
def test_items_without_a_type_get_it(start: bytes, projection: Projection) -> None:
    """1.2: the items of built-in lists have neither apiVersion nor kind."""
    body = decode_item(start + thing(b"")[36:], projection).body
    assert json.loads(body) == json.loads(thing(b""))
    assert body.count(b"Thing") == 1
    assert body.startswith(b'{"') or start.startswith(b" ")


_LEAVES = st.none() | st.integers() | st.text(max_size=5) | st.just("managedFields")
_TREES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=4) | st.just("managedFields"), inner, max_size=3)
    ),
    max_leaves=12,
)


@given(
    extra=st.dictionaries(st.sampled_from(["annotations", "zz", "managedFields"]), _TREES),
    spec=_TREES,
    keys=st.permutations(["apiVersion", "kind", "metadata", "spec"]),
    indent=st.sampled_from([None, 1]),
    is_ascii=st.booleans(),
    is_compact=st.booleans(),
)
def test_any_object_survives_any_projection(
    extra: dict[str, Any],
    spec: Any,
    keys: list[str],
    indent: int | None,
    is_ascii: bool,
    is_compact: bool,
) -> None:
    """What a projection leaves is what the server sent, however that was written."""
    metadata = {"name": "a", **extra, "resourceVersion": "5"}
    source = {"apiVersion": "g/v1", "kind": "Thing", "metadata": metadata, "spec": spec}
    source = {key: source[key] for key in keys}
    separators = (",", ":") if is_compact else None
    data = json.dumps(source, indent=indent, ensure_ascii=is_ascii, separators=separators).encode()
    kept = {key: value for key, value in metadata.items() if key != "managedFields"}
    assert decode_item(data, FULL).body == data
    assert json.loads(decode_item(data, WITHOUT).body) == {**source, "metadata": kept}
    assert json.loads(decode_item(data, METADATA).body) == {
        "apiVersion": "g/v1",
        "kind": "Thing",
        "metadata": kept,
    }


def test_a_key_twice_means_the_last_one() -> None:
    """As in encoding/json: of two, the last counts; no body is changed for it."""
    data = thing(b',"uid":"u","uid":"v"')
    item = decode_item(data)
    assert item.uid == "v"
    assert item.body == data


# What is no object

_NO_METADATA = b'{"apiVersion":"g/v1","kind":"Thing"}'


@pytest.mark.parametrize("projection", list(Projection))
@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(_NO_METADATA, UnexpectedError, id="no metadata"),
        pytest.param(b'{"metadata":null}', UnexpectedError, id="metadata null"),
        pytest.param(b'{"metadata":{"name":"a"}}', UnexpectedError, id="no version"),
        pytest.param(
            b'{"metadata":{"name":"a","resourceVersion":""}}',
            UnexpectedError,
            id="an empty version",
        ),
        pytest.param(
            b'{"metadata":{"name":"a","resourceVersion":5}}',
            UnexpectedError,
            id="a version as number",
        ),
        pytest.param(b'{"metadata":{"resourceVersion":"5"}}', UnexpectedError, id="no name"),
        pytest.param(thing(b',"labels":{"a":1}'), UnexpectedError, id="a label that is no text"),
        pytest.param(b"[]", UnexpectedError, id="a list"),
        pytest.param(b'"x"', UnexpectedError, id="a string"),
        pytest.param(b"null", UnexpectedError, id="null"),
        pytest.param(thing(b"").replace(b"Thing", b"Other"), UnexpectedError, id="another kind"),
        pytest.param(thing(b"").replace(b"g/v1", b"g/v2"), UnexpectedError, id="another version"),
        pytest.param(
            b'{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1"},'
            b'"rows":[]}',
            UnexpectedError,
            id="a Table",
        ),
        pytest.param(
            b'{"kind":"Table","metadata":{"name":"a","resourceVersion":"1"}}',
            UnexpectedError,
            id="a Table with a name",
        ),
        pytest.param(thing(b"")[:-1], MalformedError, id="cut"),
        pytest.param(thing(b"") + b"x", MalformedError, id="something behind it"),
        pytest.param(thing(b',"x":nul'), MalformedError, id="not JSON"),
        pytest.param(thing(b',"x":"\xff"'), MalformedError, id="not UTF-8"),
        pytest.param(thing(b',"x":"\xed\xa0\x80"'), MalformedError, id="a surrogate in UTF-8"),
        pytest.param(
            thing(b"", spec=b',"spec":"\xff"'), MalformedError, id="not UTF-8 in what is skipped"
        ),
        pytest.param(b"", MalformedError, id="nothing"),
    ],
)
def test_what_is_no_object_of_the_kind_is_an_error(
    data: bytes, error: type[Exception], projection: Projection
) -> None:
    """1.4: nothing is stored that is not what was asked for, whatever the projection."""
    with pytest.raises(error):
        decode_item(data, projection)


def nested(depth: int) -> bytes:
    """Return a value of so many levels, with strings and members that look like others."""
    half = depth // 2
    start = b'[0,"}]",' * half + b'{"metadata":' * (depth - half)
    return start + b'"managedFields"' + b"}" * (depth - half) + b',{"a":[]}]' * half


# As deep as an API server takes an object.
_DEEP = nested(9_990)


@pytest.mark.parametrize("projection", list(Projection))
@pytest.mark.parametrize("typed", [True, False])
def test_an_object_may_be_nested_as_deeply_as_servers_take_it(
    projection: Projection, typed: bool
) -> None:
    """One such object must not stop its kind; what is kept is what was sent, here too."""
    managed = b',"managedFields":' + _DEEP
    data = thing(b',"labels":{"k":"v"}' + managed, spec=b',"spec":' + _DEEP)
    if not typed:
        data = data.replace(b'"apiVersion":"g/v1","kind":"Thing",', b"", 1)
    item = decode_item(data, projection)
    assert (item.name, item.resource_version, item.labels) == ("a", "5", {"k": "v"})
    whole = thing(b',"labels":{"k":"v"}' + managed, spec=b',"spec":' + _DEEP)
    assert (
        item.body
        == {
            FULL: whole,
            WITHOUT: whole.replace(managed, b"", 1),
            METADATA: whole.replace(managed, b"", 1).replace(b',"spec":' + _DEEP, b""),
        }[projection]
    )


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b'{"type":"MODIFIED","object":%s}', id="as servers write it"),
        pytest.param(b'{ "object": %s , "type": "MODIFIED" }', id="in another way"),
    ],
)
@pytest.mark.parametrize("projection", list(Projection))
def test_an_event_may_be_nested_as_deeply(frame: bytes, projection: Projection) -> None:
    """The frame adds a level, and is read as always."""
    data = thing(b"", spec=b',"spec":' + _DEEP)
    event = decode_event(frame % data, projection)
    assert event == Modified(decode_item(data, projection))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("BOOKMARK", Bookmark("5")),
        ("ERROR", StreamError(StatusFields(code=410, reason="Expired"))),
    ],
)
def test_other_events_are_read_though_nested_deeply(kind: str, expected: WatchEvent) -> None:
    """Nothing of them matters but what is near the top."""
    body = b'{"code":410,"reason":"Expired","x":%s,"metadata":{"resourceVersion":"5"}}' % _DEEP
    assert decode_event(b'{"type":"%s","object":%s}' % (kind.encode(), body)) == expected


@pytest.mark.parametrize(
    "change",
    [
        pytest.param((b'"managedFields"', b"managedFields"), id="a word without quotes"),
        pytest.param((b'"managedFields"', b'"managedFields'), id="a string without its end"),
        pytest.param((b'"managedFields"}', b'"managedFields"]'), id="the wrong bracket"),
        pytest.param((b'"managedFields"}', b'"managedFields"'), id="a bracket too few"),
        pytest.param((b'"managedFields"}', b'"managedFields"}}'), id="a bracket too many"),
        pytest.param((b'"managedFields"}', b'"managedFields",}'), id="a comma too many"),
    ],
)
def test_what_is_deep_is_checked(change: tuple[bytes, bytes]) -> None:
    """Nesting is no way around: a part of an object is not taken for the whole of it."""
    spec = nested(3_000).replace(*change)
    with pytest.raises(MalformedError):
        decode_item(thing(b"", spec=b',"spec":' + spec))


@pytest.mark.parametrize("projection", list(Projection))
def test_endless_nesting_is_an_error(projection: Projection) -> None:
    """No server takes a hundred thousand levels; they neither crash nor count as our fault."""
    depth = 100_000
    data = thing(b"", spec=b',"spec":' + b"[" * depth + b"]" * depth)
    with pytest.raises(MalformedError, match="deep"):
        decode_item(data, projection)


def test_errors_do_not_quote_the_object() -> None:
    """No text of ours holds a part of an object, which may be a Secret."""
    data = (
        b'{"apiVersion":"g/v1","kind":"Thing","metadata":{"name":"a","labels":{"k":7}},"s":"pass"}'
    )
    with pytest.raises(UnexpectedError) as caught:
        decode_item(data)
    assert "pass" not in str(caught.value)


# Events


@pytest.mark.parametrize(
    ("word", "event"), [(b"ADDED", Added), (b"MODIFIED", Modified), (b"DELETED", Deleted)]
)
@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b'{"type":"%s","object":%s}', id="as servers write it"),
        pytest.param(b' { "type" : "%s" , "object" : %s } \r', id="with whitespace"),
        pytest.param(b'{"more":1,"type":"%s","object":%s,"x":[]}', id="with unknown members"),
    ],
)
def test_an_event_carries_its_object(
    word: bytes, event: type[Added | Modified | Deleted], frame: bytes
) -> None:
    """The object of an event is the object that was sent, to the byte."""
    data = thing(b"", spec=_ODD)
    assert decode_event(frame % (word, data)) == event(decode_item(data))


def test_the_object_may_come_before_the_type() -> None:
    """The order of keys means nothing."""
    event = decode_event(b'{"object":' + thing(b"") + b',"type":"DELETED"}')
    assert isinstance(event, Deleted)


def test_an_event_keeps_nothing_of_its_line() -> None:
    """Row 57: the body is a copy of its own, so that the line can go."""
    line = b'{"type":"ADDED","object":' + thing(b"") + b"}"
    event = decode_event(line)
    assert isinstance(event, Added)
    assert type(event.item.body) is bytes
    assert len(event.item.body) == len(thing(b""))


def bookmark(annotations: bytes) -> bytes:
    """Return a bookmark at 12 with these annotations."""
    return (
        b'{"type":"BOOKMARK","object":{"kind":"Thing","apiVersion":"g/v1","metadata":'
        b'{"resourceVersion":"12","creationTimestamp":null' + annotations + b'},"spec":{}}}'
    )


@pytest.mark.parametrize(
    ("annotations", "is_initial_end"),
    [
        pytest.param(b"", False, id="none"),
        pytest.param(b',"annotations":null', False, id="null"),
        pytest.param(b',"annotations":{}', False, id="empty"),
        pytest.param(b',"annotations":{"k8s.io/initial-events-end":"true"}', True, id="true"),
        pytest.param(b',"annotations":{"k8s.io/initial-events-end":"false"}', False, id="false"),
        pytest.param(b',"annotations":{"k8s.io/initial-events-end":"True"}', False, id="True"),
        pytest.param(b',"annotations":{"k8s.io/initial-events-end":""}', False, id="empty text"),
        pytest.param(b',"annotations":{"other":"true"}', False, id="another"),
    ],
)
def test_only_the_annotation_true_ends_the_initial_events(
    annotations: bytes, is_initial_end: bool
) -> None:
    """1.2: a plain bookmark does not end them, nor does any other value."""
    assert decode_event(bookmark(annotations)) == Bookmark("12", is_initial_end)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b'{"metadata":{"resourceVersion":"12"}}', id="nearly empty"),
        pytest.param(
            b'{"kind":"Other","metadata":{"name":null,"resourceVersion":"12"}}', id="another kind"
        ),
    ],
)
def test_a_bookmark_is_never_read_as_an_object(body: bytes) -> None:
    """Row 25: only its version counts; kind and metadata may be nearly empty."""
    assert decode_event(b'{"type":"BOOKMARK","object":' + body + b"}") == Bookmark("12")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        pytest.param(
            b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}',
            StatusFields(code=410, reason="Expired"),
            id="a Status",
        ),
        pytest.param(
            b'{"type":"ERROR","object":{"code":410}}', StatusFields(code=410), id="a code"
        ),
        pytest.param(
            b'{"type":"ERROR","object":"Gone"}',
            StatusFields(code=410, reason="Gone", message="Gone"),
            id="a word",
        ),
        pytest.param(b'{"type":"ERROR","object":null}', StatusFields(), id="null"),
        pytest.param(b'{"type":"ERROR"}', StatusFields(), id="no object"),
    ],
)
def test_an_error_of_any_shape_is_an_error(line: bytes, status: StatusFields) -> None:
    """1.4: ERROR without code, reason or object is still an ERROR."""
    assert decode_event(line) == StreamError(status)


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param(b'{"type":"SYNC","object":{}}', UnexpectedError, id="an unknown type"),
        pytest.param(b'{"type":"added","object":{}}', UnexpectedError, id="a type in lower case"),
        pytest.param(b'{"type":7,"object":{}}', UnexpectedError, id="a type that is no text"),
        pytest.param(b'{"object":{}}', UnexpectedError, id="no type"),
        pytest.param(b'{"type":"ADDED"}', UnexpectedError, id="no object"),
        pytest.param(b'{"type":"ADDED","object":null}', UnexpectedError, id="null"),
        pytest.param(b'{"type":"ADDED","object":{}}', UnexpectedError, id="an empty object"),
        pytest.param(b'{"type":"BOOKMARK","object":{}}', UnexpectedError, id="an empty bookmark"),
        pytest.param(b'{"type":"BOOKMARK"}', UnexpectedError, id="a bookmark without object"),
        pytest.param(
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":""}}}',
            UnexpectedError,
            id="a bookmark without version",
        ),
        pytest.param(
            b'{"type":"ADDED","object":%s,"type":"DELETED"}' % thing(b""),
            UnexpectedError,
            id="the type twice",
        ),
        pytest.param(
            b'{"type":"ADDED","object":%s,"object":{}}' % thing(b""),
            UnexpectedError,
            id="the object twice",
        ),
        pytest.param(
            b'{"type":"ADDED","object":{"kind":"Status","code":410}}',
            UnexpectedError,
            id="a Status that is said to be an object",
        ),
        pytest.param(b'{"type":"ADDED","object":' + thing(b""), MalformedError, id="cut"),
        pytest.param(
            b'{"type":"ADDED","object":%s}{}' % thing(b""), MalformedError, id="two on a line"
        ),
        pytest.param(b'{"type":"BOOKMARK","object":"\xff"}', MalformedError, id="not UTF-8"),
        pytest.param(
            b'{"type":"ADDED","object":' + b"[" * 100_000, MalformedError, id="deep nesting"
        ),
        pytest.param(b"<html>", MalformedError, id="HTML"),
        pytest.param(b"[]", UnexpectedError, id="no object at all"),
    ],
)
def test_what_is_no_event_is_an_error(line: bytes, error: type[Exception]) -> None:
    """1.4: unknown types and objects that cannot be used are protocol errors."""
    with pytest.raises(error):
        decode_event(line)
