"""Texts that many objects share."""

from __future__ import annotations

from watchcache_server.informer.texts import Texts


def text(number: int) -> str:
    """Make a string of its own."""
    return f"text-{number}"


def test_equal_texts_become_one() -> None:
    """The first that came."""
    texts = Texts()
    first, second = text(1), text(1)
    assert first is not second
    assert texts.share(first, first) is first
    assert texts.share(second, second) is first


def test_they_are_not_kept_for_ever() -> None:
    """Uids of jobs are labels too, and never end."""
    texts = Texts(most=10)
    first = text(0)
    texts.share(first, first)
    for number in range(1, 12):
        texts.share(text(number), text(number))
    texts.tidy()
    again = text(0)
    assert texts.share(again, again) is again
    texts.tidy()
    more = text(0)
    assert texts.share(more, more) is again
