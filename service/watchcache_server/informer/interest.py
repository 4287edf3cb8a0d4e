"""Interest: which changes concern which filters, found by what the changes name.

A filter that asks for one of some values of a label, or for some namespaces, is concerned by a
change only if the object had or has one of them. Each such topic that somebody asks for knows its
last change. So a thousand readers with a thousand selectors cost a change a few lookups, and a
reader whose topics were not named has nothing to look through.
"""

from __future__ import annotations

from collections.abc import Collection

from watchcache_server.model.selectors import Labels

__all__ = ["Interest", "Topic"]

Topic = tuple[str, str]
"""A label and its value; or, with an empty label, a namespace."""


class _Asked:
    __slots__ = ("reader_count", "revision")

    def __init__(self, revision: int) -> None:
        self.reader_count = 0
        self.revision = revision


class Interest:
    """The topics that are asked for, each with the revision of the last change that named it."""

    __slots__ = ("_asked", "_general_revision")

    def __init__(self) -> None:
        self._asked: dict[Topic, _Asked] = {}
        self._general_revision = 0

    def add(self, topics: Collection[Topic], revision: int) -> None:
        """Follow topics for a reader from a revision on; of earlier changes nothing is known."""
        for topic in topics:
            asked = self._asked.get(topic)
            if asked is None:
                asked = self._asked[topic] = _Asked(revision)
            asked.reader_count += 1

    def remove(self, topics: Collection[Topic]) -> None:
        """Follow topics no longer for one reader."""
        for topic in topics:
            asked = self._asked[topic]
            asked.reader_count -= 1
            if not asked.reader_count:
                del self._asked[topic]

    def changed(self, namespace: str, *labels: Labels, revision: int) -> None:
        """Note a change of an object, with its labels before and after."""
        asked = self._asked
        if not asked:
            return
        found = asked.get(("", namespace))
        if found is not None:
            found.revision = revision
        for pairs in labels:
            for place in range(0, len(pairs), 2):
                found = asked.get((pairs[place], pairs[place + 1]))
                if found is not None:
                    found.revision = revision

    def changed_generally(self, revision: int) -> None:
        """Note a change that concerns everybody."""
        self._general_revision = revision

    def concerns(self, topics: Collection[Topic] | None, since: int) -> bool:
        """Tell whether any change after a revision may concern a reader of these topics.

        None stands for all there are. A topic that nobody follows is one of which nothing is known.
        """
        if topics is None or self._general_revision > since:
            return True
        for topic in topics:
            asked = self._asked.get(topic)
            if asked is None or asked.revision > since:
                return True
        return False

    def __len__(self) -> int:
        return len(self._asked)
