"""Freshness: who waits for a source to be fresh enough, and what is asked of the API server for it.

    why = await freshness.wait(scope, version)       # a reader: not older than this version
    why = await freshness.wait(scope)                # or than what the API server holds now
    freshness.moved()                                # the source has changed, or its position has

A reader that wants a version first waits for the stream, which mostly brings it at once. All others
need a word of the API server that was asked for after they came. Readers of the same scope that
came before a question was sent share it: one question is under way for each scope, and those who
come meanwhile share the next. A question is closed when the source has come to what was answered.

It waits for no network; the prober does. Where nobody waits it costs a look at two empty
collections for each change.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterable
from typing import Final

from watchcache_server.informer.comparison import Comparison, Listed, Scope, is_at_least
from watchcache_server.informer.source import Source
from watchcache_server.informer.versions import Order, compare_versions

__all__ = ["Freshness", "Question"]

# So long a reader that wants a version leaves it to the stream.
_STREAM_SECONDS: Final = 0.1
# The API server itself was behind the version: ask again after so long.
_AGAIN_SECONDS: Final = 1.0
# More single objects than this are asked for with one question about all of them.
_MOST_NAMES: Final = 8
# Events are on their way; only a bookmark tells that there are none.
_EVENTS_SECONDS: Final = 1.0
_BOOKMARK_SECONDS: Final = 0.1


class _Reader:
    """Somebody who waits; `outcome` is why waiting is of no use, empty when it is over."""

    __slots__ = ("outcome", "question", "version")

    def __init__(self, version: str) -> None:
        self.version = version
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.question: Question | None = None

    def end(self, why: str = "") -> None:
        """Let the reader go on."""
        if not self.outcome.done():
            self.outcome.set_result(why)


class Question:
    """What the API server is to be asked, and for whom.

    `position` is that of the source when it was sent: an answer that is older tells that the
    storage of the cluster was set back. `comparison` and `version` are what was answered.
    """

    __slots__ = ("comparison", "hurry_at", "position", "readers", "scope", "version")

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.readers: set[_Reader] = set()
        self.position = ""
        self.version = ""
        self.comparison: Comparison | None = None
        self.hurry_at = 0.0

    @property
    def wants_version(self) -> bool:
        """Whether anybody needs to know at which version the answer was made."""
        return any(reader.version for reader in self.readers)

    def add(self, reader: _Reader) -> None:
        """Ask for this reader too."""
        self.readers.add(reader)
        reader.question = self

    def is_met(self, source: Source) -> bool:
        """Tell whether the source has come to the answer."""
        if self.comparison is not None and self.comparison.look():
            return True
        return bool(self.version) and is_at_least(source.position, self.version)

    @property
    def is_late(self) -> bool:
        """Whether the stream should have come to the answer by now, and somebody waits for it."""
        return bool(self.readers) and asyncio.get_running_loop().time() >= self.hurry_at

    def close(self) -> None:
        """Let everybody go on for whom the answer is fresh enough."""
        readers, self.readers = self.readers, set()
        for reader in readers:
            reader.question = None
            if not reader.version or is_at_least(self.version, reader.version):
                reader.end()


def _ignore() -> None:
    """Do nothing: there is no prober yet."""


class Freshness:
    """The readers of one informer, and the questions asked for them."""

    def __init__(self, source: Source) -> None:
        #: What they read.
        self.source = source
        self._serial = 0
        # Those that want a version, the lowest first.
        self._by_version: list[tuple[int, str, int, _Reader]] = []
        self._readers: set[_Reader] = set()
        # Questions in their three stages: to be sent, sent, and answered but not yet met.
        self._wanted: dict[Scope, Question] = {}
        self._sent: dict[Scope, Question] = {}
        self._answered: list[Question] = []
        # Single objects wait for a question about all of them: there were too many.
        self._has_joined = False
        #: Called when there may be something to ask, at any moment.
        self.on_news: Callable[[], None] = _ignore
        #: Why the last question has no answer; empty when it has one.
        self.trouble = ""
        #: The version that the API server said last.
        self.newest = ""

    # Readers

    @property
    def waiting_count(self) -> int:
        """How many readers wait."""
        return len(self._readers)

    async def wait(self, scope: Scope, version: str = "") -> str:
        """Wait until the source is not older than `version`, or than the API server is now.

        Returns why waiting is of no use, empty when it is that fresh; or empty too when `release`
        was called. There is no limit of time.
        """
        if version and is_at_least(self.source.position, version):
            return ""
        reader = _Reader(version)
        self._readers.add(reader)
        try:
            if version:
                self._serial += 1
                heapq.heappush(self._by_version, (len(version), version, self._serial, reader))
                await asyncio.wait([reader.outcome], timeout=_STREAM_SECONDS)
            while not reader.outcome.done():
                if reader.question is None:
                    self._ask(scope, reader)
                await asyncio.wait([reader.outcome], timeout=_AGAIN_SECONDS)
            return reader.outcome.result()
        finally:
            self._leave(reader)

    def release(self) -> None:
        """Let every reader go on: there is nothing to wait for here any more."""
        for reader in list(self._readers):
            reader.end()

    def _leave(self, reader: _Reader) -> None:
        reader.outcome.cancel()
        self._readers.discard(reader)
        if reader.question is not None:
            reader.question.readers.discard(reader)
        if len(self._by_version) > 2 * len(self._readers) + 16:
            self._by_version = [each for each in self._by_version if each[-1] in self._readers]
            heapq.heapify(self._by_version)

    def _ask(self, scope: Scope, reader: _Reader) -> None:
        question = self._wanted.get(scope)
        if question is None:
            question = self._wanted[scope] = Question(scope)
        question.add(reader)
        self.on_news()

    # The source

    def follow(self, source: Source) -> None:
        """Go on with another source in the place of this one: nothing that was asked holds."""
        self.source = source
        self.restart()

    def moved(self) -> None:
        """Take that the source has changed, or that its position has."""
        if self._by_version:
            self._wake_versions()
        if self._answered:
            self._answered = [each for each in self._answered if not self._is_over(each)]

    def _wake_versions(self) -> None:
        position = self.source.position
        while self._by_version:
            version, reader = self._by_version[0][1], self._by_version[0][-1]
            if not (reader.outcome.done() or is_at_least(position, version)):
                return
            heapq.heappop(self._by_version)
            reader.end()

    def _is_over(self, question: Question) -> bool:
        if not question.readers:
            return True
        if not question.is_met(self.source):
            return False
        question.close()
        return True

    # The prober

    def restart(self) -> None:
        """Have everything asked again that somebody waits for."""
        for question in (*self._sent.values(), *self._answered):
            self.again(question)
        # Others may have come while there was nobody to hear of them.
        self.on_news()

    def take(self, parallel: int) -> Question | None:
        """Return a question to send now, None when there is none or so many are under way.

        Each that is taken has to be ended by `answer`, `confirm`,
        `again` or `refuse`.
        """
        self._wanted = {scope: each for scope, each in self._wanted.items() if each.readers}
        if sum(1 for scope in self._wanted if scope.name) > _MOST_NAMES:
            self._join()
        if len(self._sent) >= parallel:
            return None
        for scope, question in self._wanted.items():
            if scope not in self._sent and not (scope.name and self._has_joined):
                del self._wanted[scope]
                self._sent[scope] = question
                question.position = self.source.position
                return question
        return None

    def _join(self) -> None:
        whole = Question(Scope())
        for question in self._wanted.values():
            for reader in question.readers:
                whole.add(reader)
        self._wanted = {whole.scope: whole}
        self._has_joined = True

    def answer(self, question: Question, version: str, listed: Iterable[Listed] | None) -> bool:
        """Take the answer: the version, and what there is unless that was too much.

        Returns False when it is older than what was known when it was asked for: the storage of the
        cluster was set back. The question is then to be sent again.
        """
        if compare_versions(version, question.position) is Order.OLDER:
            self.trouble = f"the API server is at {version}: its storage was set back"
            return False
        self._end(question)
        self.trouble, self.newest = "", version
        question.version = version
        wait_seconds = _BOOKMARK_SECONDS
        if listed is not None:
            question.comparison = Comparison(self.source, question.scope, version, listed)
            wait_seconds = _EVENTS_SECONDS
        question.hurry_at = asyncio.get_running_loop().time() + wait_seconds
        if not self._is_over(question):
            self._answered.append(question)
        self.on_news()
        return True

    def confirm(self, question: Question) -> None:
        """Take that what is held of the question's scope is what the API server holds."""
        self._end(question)
        self.trouble = ""
        question.close()
        self.on_news()

    def _end(self, question: Question) -> None:
        del self._sent[question.scope]
        if question.scope == Scope():
            # Single objects were left to it.
            self._has_joined = False

    def fail(self, why: str) -> None:
        """Take that a question has no answer; it counts as under way until `again`."""
        self.trouble = why

    def again(self, question: Question) -> None:
        """Have a question sent again: it failed, or its answer was of no use."""
        if self._sent.get(question.scope) is question:
            self._end(question)
        self._answered = [each for each in self._answered if each is not question]
        question.comparison, question.version = None, ""
        present = self._wanted.setdefault(question.scope, question)
        if present is not question:
            for reader in question.readers:
                present.add(reader)
        self.on_news()

    def refuse(self, question: Question, why: str) -> None:
        """Take that there will be no answer."""
        self.fail(why)
        self._end(question)
        readers, question.readers = question.readers, set()
        for reader in readers:
            reader.question = None
            reader.end(why)
        self.on_news()
