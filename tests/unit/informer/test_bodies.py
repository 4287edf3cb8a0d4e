"""Rules of reading the body of a list."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.realistic import pod
from watchcache_server.informer.bodies import ListBody, ListMetadata
from watchcache_server.informer.decoding import ItemDecoder
from watchcache_server.informer.errors import (
    DataError,
    MalformedError,
    NotAListError,
    OverLimitError,
    StatusAnswerError,
    TruncatedListError,
    UnexpectedError,
)
from watchcache_server.informer.objects import Item
from watchcache_server.model.states import Projection


def list_body(limit_bytes: int = 1 << 26) -> ListBody:
    """Return a reader of a list of Things."""
    decoder = ItemDecoder(api_version="g/v1", kind="Thing", projection=Projection.FULL)
    return ListBody(decoder, limit_bytes)


def read(
    data: bytes, size: int = 1 << 20, body: ListBody | None = None
) -> tuple[list[Item], ListMetadata]:
    """Read a body in pieces of this size."""
    body = body or list_body()
    items: list[Item] = []
    for at in range(0, len(data), size):
        items += body.feed(data[at : at + size])
    rest, metadata = body.finish()
    return items + rest, metadata


def item(name: str, **more: Any) -> dict[str, Any]:
    """Return an item as the lists of built-in kinds have it."""
    return {"metadata": {"name": name, "resourceVersion": "3"}, **more}


def of_list(*items: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a list of these items."""
    return {
        "kind": "ThingList",
        "apiVersion": "g/v1",
        "metadata": {"resourceVersion": "9"},
        "items": list(items),
        **more,
    }


def compact(value: Any) -> bytes:
    """Return JSON as an API server writes it."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"


def names(items: list[Item]) -> list[str]:
    """Return what the items are called."""
    return [item.name for item in items]


_SIZES = [1, 7, 64, 1 << 20]
# Text that looks like the structure of the body.
_TRICKS = '},{"metadata":{ ]} \\" "items":['


@pytest.mark.parametrize("size", _SIZES)
@pytest.mark.parametrize(
    "source",
    [
        pytest.param(of_list(), id="empty"),
        pytest.param(of_list(item("a")), id="one"),
        pytest.param(of_list(*(item(f"a{i}") for i in range(9))), id="several"),
        pytest.param(
            dict(sorted(of_list(*(item(f"a{i}") for i in range(4))).items())), id="metadata last"
        ),
        pytest.param(
            of_list(*(item(f"a{i}", text=_TRICKS) for i in range(4)), more=[1, "x", {"items": 7}]),
            id="structure within strings",
        ),
        pytest.param(
            of_list(*(item(f"a{i}", of=[item("x"), item("y"), item("z")]) for i in range(30))),
            id="the separator within items",
        ),
        pytest.param(
            of_list(*({f"k{i}": 1, **item(f"a{i}")} for i in range(30))),
            id="no two items begin alike",
        ),
        pytest.param(
            of_list(*({"kind": "Thing", **item(f"a{i}")} for i in range(4))),
            id="items that say their kind",
        ),
        pytest.param(
            of_list(*({7 * "n": i, **item(f"a{i}")} for i in range(4))),
            id="items that begin with a number",
        ),
        pytest.param({"unknown": 1.5, "flag": None, **of_list(item("a"))}, id="unknown members"),
        pytest.param(of_list(item("\u0085\u2028é", x="\x7f")), id="odd characters"),
    ],
)
@pytest.mark.parametrize(
    "indent",
    [pytest.param(None, id="compact"), pytest.param(2, id="indented")],
)
def test_items_come_out_whatever_the_writing_and_the_pieces(
    source: dict[str, Any], indent: int | None, size: int
) -> None:
    """Every item comes once, in order and byte for byte, for any legal JSON in any pieces."""
    data = compact(source) if indent is None else json.dumps(source, indent=indent).encode()
    items, metadata = read(data, size)
    assert names(items) == [item["metadata"]["name"] for item in source["items"]]
    for got, sent in zip(items, source["items"], strict=True):
        assert json.loads(got.body) == {"apiVersion": "g/v1", "kind": "Thing", **sent}
    assert metadata == ListMetadata(resource_version="9")


@pytest.mark.parametrize("size", [64, 4096, 1 << 20])
@pytest.mark.parametrize("inner", [b"7", b'"x"},{"metadata":{"name":"no"}},{"metadata":7'])
def test_an_item_may_be_nested_as_deeply_as_servers_take_it(inner: bytes, size: int) -> None:
    """Those around it come out too, also where what lies between two items occurs within it."""
    depth = 9_990
    deep = b'[{"a":' * (depth // 2) + inner + b"}]" * (depth // 2)
    sent = compact(of_list(*(item(f"a{i}", x="deep" if i in (2, 5) else i) for i in range(7))))
    items, _ = read(sent.replace(b'"deep"', deep), size)
    assert names(items) == [f"a{i}" for i in range(7)]
    assert [deep in each.body for each in items] == [i in (2, 5) for i in range(7)]


def test_what_a_list_says_of_itself_may_be_nested_deeply() -> None:
    """Nothing of it is read but what is near the top."""
    deep = b"[" * 9_990 + b"]" * 9_990
    sent = compact(of_list(item("a"))).replace(
        b'{"resourceVersion":"9"}', b'{"x":%s,"resourceVersion":"9"}' % deep
    )
    assert read(sent)[1] == ListMetadata(resource_version="9")


_TEXTS = st.text(alphabet=st.sampled_from('}{][,:"\\ames é'), max_size=12)
_ITEMS = st.lists(
    st.dictionaries(
        st.sampled_from(["a", "metadata2", "items", "z"]),
        st.recursive(_TEXTS, lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner)),
        max_size=3,
    ),
    max_size=6,
)


@given(
    extras=_ITEMS,
    is_first=st.booleans(),
    indent=st.sampled_from([None, 1]),
    size=st.integers(1, 200),
    order=st.permutations(["kind", "apiVersion", "metadata", "items"]),
)
def test_any_list_is_read_in_any_pieces(
    extras: list[dict[str, Any]],
    is_first: bool,
    indent: int | None,
    size: int,
    order: list[str],
) -> None:
    """Structure within strings, any order of members and any pieces make no difference."""
    sent = [
        {**extra, **item(f"n{i}")} if is_first else {**item(f"n{i}"), **extra}
        for i, extra in enumerate(extras)
    ]
    source = of_list(*sent)
    data = json.dumps({key: source[key] for key in order}, indent=indent).encode()
    items, metadata = read(data, size)
    assert [json.loads(got.body) for got in items] == [
        {"apiVersion": "g/v1", "kind": "Thing", **one} for one in sent
    ]
    assert metadata.resource_version == "9"


def test_items_come_while_the_body_streams() -> None:
    """No more than an item and a chunk are held back: a list costs no memory of its size."""
    data = compact(of_list(*(item(f"a{i}", text="x" * 500) for i in range(100))))
    body = list_body()
    count = 0
    for at in range(0, len(data) - 1500, 1000):
        count += len(body.feed(data[at : at + 1000]))
        assert count * 570 > at - 1500
    assert count > 90


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        pytest.param(
            {"resourceVersion": "9", "continue": "t", "remainingItemCount": 7},
            ListMetadata(resource_version="9", continue_token="t", remaining_count=7),
            id="a page",
        ),
        pytest.param(
            {"resourceVersion": "9", "continue": "", "selfLink": ""},
            ListMetadata(resource_version="9"),
            id="the last page",
        ),
        pytest.param(
            {"resourceVersion": "9", "continue": None, "remainingItemCount": None},
            ListMetadata(resource_version="9"),
            id="null",
        ),
    ],
)
def test_a_list_says_its_version_and_whether_it_goes_on(
    metadata: dict[str, Any], expected: ListMetadata
) -> None:
    """1.2: remainingItemCount may be absent, and only an empty continue ends a list."""
    assert read(compact(of_list(metadata=metadata)))[1] == expected


def test_items_may_be_null() -> None:
    """1.2: a list of nothing may say null."""
    assert read(b'{"kind":"ThingList","items":null,"metadata":{"resourceVersion":"9"}}')[0] == []


def test_an_empty_page_may_have_more_behind_it() -> None:
    """1.2: a page without items and with a token is legal."""
    items, metadata = read(compact(of_list(metadata={"resourceVersion": "9", "continue": "more"})))
    assert (items, metadata.continue_token) == ([], "more")


_WHOLE = compact(of_list(item("a"), item("b"), item("c"), more=[1, 2]))


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize("length", range(1, len(_WHOLE) - 1))
def test_a_body_that_ends_early_is_an_error(length: int, size: int) -> None:
    """Row 48: a truncated body is a failed list, wherever it is cut, and never an empty one."""
    with pytest.raises(TruncatedListError):
        read(_WHOLE[:length], size)


@pytest.mark.parametrize("size", [1, 1 << 20])
@pytest.mark.parametrize(
    ("data", "error"),
    [
        pytest.param(b"", NotAListError, id="nothing"),
        pytest.param(b" \n", NotAListError, id="blanks"),
        pytest.param(b"<html><body>Log in</body></html>", NotAListError, id="HTML"),
        pytest.param(b"[]", NotAListError, id="an array"),
        pytest.param(b"null", NotAListError, id="null"),
        pytest.param(b"{}", NotAListError, id="an empty object"),
        pytest.param(
            b'{"kind":"ThingList","metadata":{"resourceVersion":"9"}}', NotAListError, id="no items"
        ),
        pytest.param(b'{"kind":"ThingList","items":[]}', NotAListError, id="no metadata"),
        pytest.param(
            compact({"kind": "ThingList", "items": [], "metadata": {}}),
            UnexpectedError,
            id="no version",
        ),
        pytest.param(
            compact({"items": [], "metadata": {"resourceVersion": 9}}),
            UnexpectedError,
            id="a version as number",
        ),
        pytest.param(compact({"items": {}}), UnexpectedError, id="items that are an object"),
        pytest.param(compact({"items": "null"}), UnexpectedError, id="items that are a text"),
        pytest.param(
            b'{"items":[],"metadata":{"resourceVersion":"9"},"items":[]}',
            UnexpectedError,
            id="items twice",
        ),
        pytest.param(
            b'{"metadata":{"resourceVersion":"8"},"metadata":{"resourceVersion":"9"},"items":[]}',
            UnexpectedError,
            id="metadata twice",
        ),
        pytest.param(b'{"items":[1]}', MalformedError, id="an item that is a number"),
        pytest.param(b'{"items":[{}]}', UnexpectedError, id="an item without metadata"),
        pytest.param(b'{"items":[{}}', UnexpectedError, id="an item without metadata, then cut"),
        pytest.param(
            compact(of_list({**item("a"), "kind": "Other"})), UnexpectedError, id="another kind"
        ),
        pytest.param(b'{"items":[],}', MalformedError, id="a comma too many"),
        pytest.param(b'{"items":[,]}', MalformedError, id="a comma for an item"),
        pytest.param(b'{"items" []}', MalformedError, id="no colon"),
        pytest.param(b'{"a":}', MalformedError, id="no value"),
        pytest.param(b'{"a":nul}', MalformedError, id="no literal"),
        pytest.param(b'{"a":{"b":}}', MalformedError, id="a bad value"),
        pytest.param(b"{7:1}", MalformedError, id="a key that is no text"),
        pytest.param(b'{"\xff":1}', MalformedError, id="a key that is not UTF-8"),
        pytest.param(b'{"kind":"\xff"}', NotAListError, id="a kind that is not UTF-8"),
        pytest.param(
            b'{"items":[],"metadata":{"resourceVersion":"9","continue":"\xff"}}',
            UnexpectedError,
            id="a continue token that is not UTF-8",
        ),
        pytest.param(b'{"a":1 "b":2}', MalformedError, id="no comma"),
        pytest.param(_WHOLE + b"x", MalformedError, id="something behind it"),
        pytest.param(
            b'{"a":' + b"[" * 12345 + b"]" * 12345 + b"}", MalformedError, id="endless nesting"
        ),
        pytest.param(
            compact(of_list(item("a"), item("b"), item("c"))).replace(b'"c"', b'"\xff"'),
            MalformedError,
            id="an item that is not UTF-8",
        ),
        pytest.param(
            compact(of_list(item("a"), item("b"), item("c", x=1), item("d"))).replace(
                b'"x":1', b'"x":nul'
            ),
            MalformedError,
            id="an item that is not JSON",
        ),
    ],
)
def test_what_is_no_list_is_an_error(data: bytes, error: type[DataError], size: int) -> None:
    """1.5: whatever else is answered with 200, it is never taken for an empty list."""
    with pytest.raises(error):
        read(data, size)


def test_a_status_with_200_is_acted_on_by_its_code() -> None:
    """1.5: 200 with a Status body is an error by its code."""
    data = compact(
        {
            "kind": "Status",
            "code": 410,
            "reason": "Expired",
            "message": "m",
            "details": {"causes": []},
        }
    )
    with pytest.raises(StatusAnswerError) as caught:
        read(data)
    assert (caught.value.status.code, caught.value.status.reason) == (410, "Expired")
    assert "m" in str(caught.value)


def test_a_list_of_another_name_is_a_list() -> None:
    """A custom resource may name its list as it likes; the items must be of the kind."""
    items, _ = read(compact(of_list(item("a"), kind="Things")))
    assert names(items) == ["a"]


def test_a_long_member_is_passed_over() -> None:
    """Members of the list that are not read here are not kept either."""
    body = list_body()
    read(compact(of_list(item("a"), zz="x" * 100_000)), body=body)
    assert "zz" not in body._members


def test_an_item_over_the_limit_is_an_error() -> None:
    """Memory is bounded by the longest object that is allowed."""
    data = compact(of_list(item("a"), item("b"), item("c", text="x" * 5000)))
    with pytest.raises(OverLimitError, match="2000 bytes"):
        read(data, 500, list_body(2000))
    assert len(read(data, 500, list_body(8000))[0]) == 3


def test_objects_of_megabytes_are_read() -> None:
    """Objects over 1.5 MiB work, and whatever is small between them."""
    sizes = [10, 2_000_000, 10, 300_000, 3_000_000, 5]
    source = of_list(*(item(f"a{i}", text="x" * size) for i, size in enumerate(sizes)))
    items, _ = read(compact(source), 16384)
    assert names(items) == [f"a{i}" for i in range(len(sizes))]


def seconds(data: bytes, size: int) -> float:
    """Return the least processor time for reading a body."""
    best = 99.0
    for _ in range(2):
        start = time.process_time()
        read(data, size)
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda i: item(f"a{i}"), id="alike"),
        pytest.param(lambda i: {f"k{i}": 1, **item(f"a{i}")}, id="no two alike"),
        pytest.param(
            lambda i: item(f"a{i}", of=[item("x")] * 40), id="the separator many times in each"
        ),
    ],
)
def test_lists_cost_linear_time(make: Any) -> None:
    """Eight times as many items are about eight times the work, also where the separator fails."""

    def body(count: int) -> bytes:
        return compact(of_list(*(make(i) for i in range(count))))

    assert seconds(body(2400), 16384) < 30 * max(seconds(body(300), 16384), 0.001)


def test_pods_are_read_about_as_fast_as_they_are_decoded() -> None:
    """The quick way is taken for what API servers send: item by item costs little more."""
    decoder = ItemDecoder(api_version="v1", kind="Pod", projection=Projection.FULL)
    pods = [pod(i) for i in range(300)]
    data = b'{"metadata":{"resourceVersion":"1"},"items":[%s]}' % b",".join(pods)
    decoding = reading = 99.0
    for _ in range(3):
        start = time.process_time()
        for one in pods:
            decoder.decode(one)
        decoding = min(decoding, time.process_time() - start)
        start = time.process_time()
        assert len(read(data, 65536, ListBody(decoder))[0]) == len(pods)
        reading = min(reading, time.process_time() - start)
    assert reading < 10 * max(decoding, 0.001)
