"""What an informer does when its token is refused, or there is none."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.kubernetes.informer_double import (
    REFUSED,
    bookmark,
)
from tests.unit.kubernetes.informer_world import NOBODY, World, settle
from watchcache_server.model.states import SourceState

pytestmark = pytest.mark.looptime


async def test_a_refused_token_is_renewed_and_the_request_repeated(world: World) -> None:
    """The token that was refused is named, so that one renewed meanwhile is kept."""
    watch = await world.live()
    watch.end()
    (await world.api.asked()).refuse(401, "Unauthorized")
    world.api.credentials.header = "Bearer t2"
    exchange = await world.api.asked()
    assert world.api.credentials.refreshed == ["Bearer t1"]
    assert exchange.authorization == "Bearer t2"
    exchange.accept(bookmark("11"))
    await settle()
    assert [state for state, _ in world.sink.states][-1] is SourceState.LIVE


async def test_a_renewal_that_fails_is_tried_again_for_the_same_token(world: World) -> None:
    """Until there is another one; then it is forgotten."""
    world.start()
    exchange = await world.api.asked()
    world.api.credentials.error = NOBODY
    exchange.refuse(401, "Unauthorized")
    await world.sink.until(SourceState.UNAUTHENTICATED)
    await asyncio.sleep(2.0)
    refreshed = world.api.credentials.refreshed
    assert len(refreshed) >= 2
    assert set(refreshed) == {"Bearer t1"}
    world.api.credentials.error = None
    (await world.api.asked()).accept(bookmark("10", is_initial_end=True))
    await world.sink.until(SourceState.LIVE)


async def test_a_service_account_that_does_not_exist_is_reported_last(world: World) -> None:
    """The state is published first: whoever hears of it may end the extension."""
    states_at_report: list[Any] = []

    def heard(error: Exception) -> None:
        states_at_report.append(world.sink.state)

    world.sink.credentials_failed = heard  # type: ignore[method-assign]
    world.api.credentials.error = NOBODY
    world.start()
    await world.sink.until(SourceState.UNAUTHENTICATED)
    await settle()
    assert states_at_report
    assert states_at_report[0][1] == "SERVICE_ACCOUNT_NOT_FOUND"
    assert "team-a/shop does not exist" in states_at_report[0][2]


async def test_a_renewal_may_fail_for_want_of_the_server(world: World) -> None:
    """Then it is the server that is said to be out of reach."""
    world.start()
    exchange = await world.api.asked()
    world.api.credentials.error = REFUSED
    exchange.refuse(401, "Unauthorized")
    await world.sink.until(SourceState.UNREACHABLE)
