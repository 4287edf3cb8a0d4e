"""Rules of comparing resourceVersions, and of the position made of them."""

from __future__ import annotations

import pytest

from watchcache_server.informer.position import Position
from watchcache_server.informer.versions import Order, compare_versions


@pytest.mark.parametrize(
    ("first", "second", "order"),
    [
        pytest.param("10", "10", Order.EQUAL, id="equal"),
        pytest.param("10", "9", Order.NEWER, id="longer is greater"),
        pytest.param("9", "10", Order.OLDER, id="shorter is less"),
        pytest.param("12", "11", Order.NEWER, id="digit by digit"),
        pytest.param("11", "12", Order.OLDER, id="digit by digit, less"),
        pytest.param("9007199254740993", "9007199254740992", Order.NEWER, id="beyond the doubles"),
        pytest.param("1" * 40, "9" * 39, Order.NEWER, id="beyond 64 bits"),
        pytest.param("abc", "abc", Order.EQUAL, id="equal whatever it is"),
        pytest.param("abc", "abd", Order.UNKNOWN, id="not numbers"),
        pytest.param("12", "abc", Order.UNKNOWN, id="one number"),
        pytest.param("010", "9", Order.UNKNOWN, id="a leading zero"),
        pytest.param("0", "9", Order.UNKNOWN, id="zero has a meaning of its own"),
        pytest.param("1.5", "1", Order.UNKNOWN, id="a fraction"),
        pytest.param("-1", "1", Order.UNKNOWN, id="a sign"),
        pytest.param("\u0661", "1", Order.UNKNOWN, id="other digits"),
        pytest.param("", "1", Order.UNKNOWN, id="nothing"),
    ],
)
def test_versions_compare_as_numbers_or_not_at_all(first: str, second: str, order: Order) -> None:
    """KEP-5504: digits without a leading zero compare by length, then by digits; else equality."""
    assert compare_versions(first, second) is order


def test_a_position_takes_versions_in_the_order_of_arrival() -> None:
    """Versions that do not compare are taken as they come (metrics-server, Calico, Porch)."""
    position = Position("a")
    assert position.advance("c")
    assert position.advance("b")
    assert position.version == "b"


def test_a_position_never_goes_back() -> None:
    """Row 20: a deletion of an old server carries the version before it."""
    position = Position("20")
    assert not position.advance("19")
    assert position.advance("20")
    assert position.version == "20"


def test_a_list_asks_for_what_was_seen_or_for_the_newest() -> None:
    """Row 8: a list is never older than what was seen, unless the newest state is asked for."""
    position = Position("20")
    assert position.floor == "20"
    position.ask_newest()
    assert (position.floor, position.version) == ("", "20")
    position.restart("15")
    assert (position.floor, position.version) == ("15", "15")


def test_the_past_of_a_position_is_known_where_versions_compare() -> None:
    """A storage that was set back is at a lower number."""
    position = Position("20")
    assert position.is_behind("19")
    assert not position.is_behind("20")
    assert not position.is_behind("x")


def test_a_position_can_be_forgotten() -> None:
    """A kind that comes back starts anew."""
    position = Position("20")
    position.ask_newest()
    assert repr(position) == "<Position 20 newest>"
    position.forget()
    assert position.floor == ""
    assert repr(position) == "<Position none>"
