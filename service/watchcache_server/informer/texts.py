"""Texts: strings that many objects of one source share, each held once.

Not the interpreter's own table, since from Python 3.12 on what is in it stays for ever.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Texts"]

_MOST = 65_536


class Texts:
    """Gives one string for all equal ones, among the newest `most` or so."""

    __slots__ = ("_held", "_most", "share")

    def __init__(self, most: int = _MOST) -> None:
        self._held: dict[str, str] = {}
        self._most = most
        #: Takes a text twice, and returns the one to keep. A method of the dict: it is called ten
        #: times for each object.
        self.share: Callable[[str, str], str] = self._held.setdefault

    def tidy(self) -> None:
        """Begin anew if there are too many. Those that objects hold stay with them."""
        if len(self._held) > self._most:
            self._held.clear()
