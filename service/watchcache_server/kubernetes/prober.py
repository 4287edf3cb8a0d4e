"""The prober: asks the API server how far it is, for those who want what is no older than that.

A list of the newest state, of the metadata only, is what every API server answers consistently. How
much of it is asked for depends on how much is held:

- a single object that is held: itself. If it is the same, that is all there is to know.
- few objects, or a single one that is not the same: all of them. If the source holds the same, it
  is as fresh, though no event will ever say so; where it differs, the events are on their way.
- many: one, which tells the version. On a busy resource the stream comes to it at once. On a quiet
  one nothing but a bookmark can, so the watch is opened again for a few seconds: a watch gets one
  two seconds before its end.

What is asked, for whom and in which order is up to `freshness`; what is asked of the informer here
is to open its watch again, and to look whether the storage was set back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from watchcache_server.informer.comparison import Scope
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import AccessError, AnswerTooLargeError
from watchcache_server.kubernetes.freshness import Freshness, Question
from watchcache_server.kubernetes.listed import metadata_decoder, read_listed
from watchcache_server.kubernetes.requests import Request, get_request, list_request, resource_path
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.specs import SourceSpec

__all__ = ["Prober"]

_PARALLEL: Final = 8
# So many objects are compared; a list of their metadata takes the API server a few milliseconds.
_MOST_OBJECTS: Final = 500
_MOST_BYTES: Final = 8 * 1024 * 1024
# Limits of the attempts one after another. The first one is short: a connection that was kept may
# be dead, and the next attempt has a new one. Later ones leave a slow server more time.
_ANSWER_SECONDS: Final = (1.0, 2.0, 4.0)
_PAUSE_SECONDS: Final = (0.1, 0.3, 1.0)
_LOOK_SECONDS: Final = 0.1
# About so often it is looked whether the stream has come there, before it is asked anew.
_MOST_LOOKS: Final = 30
_SUSPECT_SECONDS: Final = 10.0


class Prober:
    """Asks for the readers of one informer."""

    def __init__(
        self,
        access: ApiAccess,
        freshness: Freshness,
        *,
        hasten: Callable[[], None],
        suspect: Callable[[], None],
    ) -> None:
        """`hasten` opens the watch again for a bookmark, `suspect` looks for a rewound storage."""
        self._access = access
        self._freshness = freshness
        self._hasten = hasten
        self._suspect = suspect
        self._failures = 0
        self._suspected_at = float("-inf")
        self._takes_names = True
        self._takes_gets = True
        self._is_bulky = False

    @property
    def _source(self) -> Source:
        return self._freshness.source

    def begin(self, on_news: Callable[[], None]) -> None:
        """Be ready: `on_news` is called when there may be something to ask, and `ask` is due."""
        self._freshness.on_news = on_news
        self._freshness.restart()

    def ask(self, group: asyncio.TaskGroup) -> None:
        """Ask what is to be asked now, in tasks of this group."""
        while (question := self._freshness.take(_PARALLEL)) is not None:
            group.create_task(self._ask(question))

    async def _ask(self, question: Question) -> None:
        attempt = min(self._failures, len(_ANSWER_SECONDS) - 1)
        if not await self._attempt(question, _ANSWER_SECONDS[attempt]):
            self._failures += 1
            await asyncio.sleep(_PAUSE_SECONDS[attempt])
            self._freshness.again(question)
            return
        self._failures = 0
        await self._bring_forward(question)

    async def _bring_forward(self, question: Question) -> None:
        """Have the stream come to an answer that it should have come to by itself."""
        looks = 0
        while question.readers and looks < _MOST_LOOKS:
            await asyncio.sleep(_LOOK_SECONDS)
            if question.is_late:
                looks += 1
                self._hasten()
        if question.readers:
            # Versions that do not compare may have passed by what was answered.
            self._freshness.again(question)

    async def _attempt(self, question: Question, limit_seconds: float) -> bool:
        """Send a question; return whether it needs no other attempt."""
        try:
            async with asyncio.timeout(limit_seconds):
                return await self._send(question)
        except TimeoutError:
            self._freshness.fail(f"the API server gave no answer within {limit_seconds:g} s")
        except (AccessError, DataError) as error:
            self._is_bulky = self._is_bulky or isinstance(error, AnswerTooLargeError)
            self._freshness.fail(str(error))
        return False

    async def _send(self, question: Question) -> bool:
        served = self._source.served
        if served is None:
            self._freshness.fail("the informer has yet to find how the kind is served")
            return False
        if await self._is_unchanged(question, served):
            self._freshness.confirm(question)
            return True
        scope = question.scope if self._takes_names or not question.scope.name else Scope()
        is_whole = scope.name != "" or not (
            self._is_bulky or scope.is_larger(self._source, _MOST_OBJECTS)
        )
        answer = await self._access.call(
            self._request(scope, served, _MOST_OBJECTS if is_whole else 1), limit_bytes=_MOST_BYTES
        )
        if answer.code == 200:
            items, page = await read_listed(answer, served)
            is_known = is_whole and scope == question.scope and not page.continue_token
            listed = items if is_known else None
            if self._freshness.answer(question, page.resource_version, listed):
                return True
            self._look_for_rewind()
            return False
        return self._take_refusal(question, answer)

    async def _is_unchanged(self, question: Question, served: ServedResource) -> bool:
        """Tell whether a single object is held as the API server holds it.

        A GET is answered by the storage itself, without waiting for a cache. What comes later of an
        object that is the same is newer; of one that is not there nothing is known, so that a list
        has to say at which version it was not.
        """
        namespace, name = question.scope
        held = self._source.table.get(namespace, name) if name else None
        if held is None or not self._takes_gets or question.wants_version:
            return False
        path = resource_path(
            served.group, served.version, served.resource, namespace=namespace, name=name
        )
        answer = await self._access.call(
            get_request(path, is_metadata_only=True), limit_bytes=_MOST_BYTES
        )
        if answer.code != 200:
            # Whoever may list need not be allowed to get.
            self._takes_gets = answer.code != 403
            return False
        found = metadata_decoder(served).decode(answer.body)
        present = self._source.table.get(namespace, name)
        return present is not None and (present.uid, present.resource_version) == (
            found.uid,
            found.resource_version,
        )

    def _look_for_rewind(self) -> None:
        """Have the informer look, but not all the time: some servers count in ways of their own."""
        now = asyncio.get_running_loop().time()
        if now - self._suspected_at >= _SUSPECT_SECONDS:
            self._suspected_at = now
            self._suspect()

    def _take_refusal(self, question: Question, answer: Answer) -> bool:
        told = str(answer.error(self._source.spec.cluster, f"list {self._source.spec.type_name}"))
        if answer.code == 403:
            self._freshness.refuse(question, told)
            return True
        if answer.code == 400 and question.scope.name:
            # Not every aggregated API selects by name.
            self._takes_names = False
        self._freshness.fail(told)
        return False

    def _request(self, scope: Scope, served: ServedResource, limit: int) -> Request:
        spec: SourceSpec = self._source.spec
        selectors = [spec.field_selector, f"metadata.name={scope.name}" if scope.name else ""]
        return list_request(
            resource_path(
                served.group,
                served.version,
                served.resource,
                namespace=scope.namespace or self._source.namespace,
            ),
            limit=limit,
            label_selector=spec.label_selector,
            field_selector=",".join(filter(None, selectors)),
            is_metadata_only=True,
        )
