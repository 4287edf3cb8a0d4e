"""A check: asks the API server whether a source holds what it holds.

First for the number of objects, which a list of a single one tells. Where that differs, or is not
told, all of them are listed in pages, of the metadata only. Where there are few they are listed at
once: that costs the API server as little, and shows also what has changed without a word.

What an audit says counts, and nothing else: an answer that does not come, or is refused, says
nothing of the source. Whoever calls decides when to check, and what becomes of a mismatch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Protocol

from watchcache_server.informer.audit import Audit, Finding
from watchcache_server.informer.errors import DataError
from watchcache_server.informer.source import Source
from watchcache_server.kubernetes.access import ApiAccess
from watchcache_server.kubernetes.answers import Answer
from watchcache_server.kubernetes.errors import AccessError, AnswerTooLargeError
from watchcache_server.kubernetes.listed import read_listed
from watchcache_server.kubernetes.requests import list_request, resource_path
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import CheckOutcome

__all__ = ["Checked", "Follower", "check"]

# So many objects are listed at once instead of counted.
_FEW: Final = 100
_PAGE: Final = 500
# The page of a list whose objects are very large.
_SMALL_PAGE: Final = 25
_MOST_PAGES: Final = 10_000
_MOST_BYTES: Final = 16 * 1024 * 1024
_ANSWER_SECONDS: Final = 30.0
# The stream comes to an answer at once on a busy resource; on a quiet one a bookmark has to be
# asked for, which takes a second or two.
_LOOK_SECONDS: Final = 0.2
_SOON_LOOKS: Final = 10
_BOOKMARK_LOOKS: Final = 30
_BOOKMARKS: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What came of a check.

    `finding` is there with a MISMATCH, `problem` says why it FAILED. `is_costly`: the API server
    had to look at many objects, so that the next check may come later.
    """

    outcome: CheckOutcome
    finding: Finding | None = None
    problem: str = ""
    is_costly: bool = False


class Follower(Protocol):
    """What is asked of the informer's task."""

    def hasten(self) -> None:
        """Have the watch bring a bookmark soon."""
        ...

    def suspect(self) -> None:
        """Look whether the storage was set back."""
        ...


async def check(access: ApiAccess, source: Source, follower: Follower) -> Checked:
    """Check a source that is live."""
    served = source.served
    assert served is not None, "only what is live is checked"
    checking = _Check(access, source, served, follower)
    try:
        return await checking.run()
    except (AccessError, DataError) as error:
        problem = str(error)
    except TimeoutError:
        problem = f"the API server gave no answer within {_ANSWER_SECONDS:g} s"
    return Checked(outcome=CheckOutcome.FAILED, problem=problem, is_costly=checking.is_costly)


class _Check:
    """One check under way."""

    def __init__(
        self, access: ApiAccess, source: Source, served: ServedResource, follower: Follower
    ) -> None:
        self._access = access
        self._source = source
        self._served = served
        self._follower = follower
        spec = source.spec
        self._is_selected = bool(spec.label_selector or spec.field_selector)
        # The API server looks at all objects to find those that a selector lets through.
        self.is_costly = bool(spec.names) or spec.is_selecting

    async def run(self) -> Checked:
        """Check."""
        is_counted = not (self._is_selected or self._source.spec.names)
        if is_counted and self._source.table.count > _FEW:
            counted = await self._audited(self._count)
            if counted.outcome is not CheckOutcome.MISMATCH:
                return counted
        return await self._audited(self._compare)

    async def _audited(self, ask: Callable[[Audit], Awaitable[CheckOutcome | None]]) -> Checked:
        audit = Audit(self._source)
        try:
            outcome = await ask(audit) or await self._settled(audit)
            finding = audit.finding() if outcome is CheckOutcome.MISMATCH else None
            return Checked(outcome=outcome, finding=finding, is_costly=self.is_costly)
        finally:
            audit.close()

    async def _count(self, audit: Audit) -> CheckOutcome | None:
        """Ask for the number; doubt it where the server does not tell."""
        listed, page = await read_listed(await self._ask(1, ""), self._served)
        if page.continue_token and page.remaining_count is None:
            return CheckOutcome.MISMATCH
        audit.begin(page.resource_version)
        audit.expect(len(listed) + (page.remaining_count or 0))
        return None

    async def _compare(self, audit: Audit) -> CheckOutcome | None:
        """Ask for everything, page by page, and half of the time for nothing."""
        limit, token = _PAGE, ""
        loop = asyncio.get_running_loop()
        for number in range(_MOST_PAGES):
            began = loop.time()
            self.is_costly = self.is_costly or number > 0
            try:
                answer = await self._ask(limit, token)
            except AnswerTooLargeError:
                if limit == _SMALL_PAGE:
                    raise
                limit = _SMALL_PAGE
                continue
            listed, page = await read_listed(answer, self._served)
            if not token:
                audit.begin(page.resource_version)
            if audit.is_over or page.resource_version != audit.version:
                return CheckOutcome.UNCLEAR
            audit.compare(listed)
            token = page.continue_token
            if not token:
                return None
            await asyncio.sleep(loop.time() - began)
        return CheckOutcome.UNCLEAR

    async def _ask(self, limit: int, token: str) -> Answer:
        spec, served = self._source.spec, self._served
        path = resource_path(
            served.group, served.version, served.resource, namespace=self._source.namespace
        )
        request = list_request(
            path,
            limit=limit,
            continue_token=token,
            label_selector=spec.label_selector,
            field_selector=spec.field_selector,
            is_metadata_only=True,
        )
        async with asyncio.timeout(_ANSWER_SECONDS):
            answer = await self._access.call(request, limit_bytes=_MOST_BYTES)
        if answer.code != 200:
            raise answer.error(spec.cluster, f"list {spec.type_name}")
        return answer

    async def _settled(self, audit: Audit) -> CheckOutcome:
        """Wait for the stream to come to the list; if it does not, there is no outcome."""
        for looks in (_SOON_LOOKS, *(_BOOKMARK_LOOKS for _ in range(_BOOKMARKS))):
            for _ in range(looks):
                outcome = audit.look()
                if audit.is_of_the_past:
                    self._follower.suspect()
                if outcome is not None:
                    return outcome
                await asyncio.sleep(_LOOK_SECONDS)
            self._follower.hasten()
        return CheckOutcome.UNCLEAR
