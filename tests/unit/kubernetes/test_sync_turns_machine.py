"""No order of asking, leaving and giving back loses a turn, adds one, or is unfair."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from watchcache_server.kubernetes.sync_turns import SyncTurns, Turn

TENANTS = ("a", "b", "c")
# So many rounds of the loop carry a chain of leaving and passing on to its end.
_ROUNDS = 5


class SyncTurnsMachine(RuleBasedStateMachine):
    """Tenants that ask, leave and give back; between two steps the loop may or may not run."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.limit = 1
        self.held: list[Turn] = []
        # In the order in which they asked.
        self.standing: dict[str, list[asyncio.Task[None]]] = {who: [] for who in TENANTS}
        # How often each tenant was served while another one stood in line all the time.
        self.passed: dict[str, Counter[str]] = {who: Counter() for who in TENANTS}

    @initialize(limit=st.integers(1, 3))
    def begin(self, limit: int) -> None:
        """Make the turns."""
        self.limit = limit
        # No turn runs out here.
        self.turns = SyncTurns(limit, counted_seconds=1e9)

    async def _take(self, who: str) -> None:
        turn = await self.turns.take(who)
        self.held.append(turn)
        task = asyncio.current_task()
        assert task is not None
        assert self.standing[who][0] is task, f"{who} was not served in the order of asking"
        self.standing[who].remove(task)
        self.passed[who].clear()
        for other in TENANTS:
            if self.standing[other] and other != who:
                self.passed[other][who] += 1
                assert self.passed[other][who] <= 1, f"{who} was served twice before {other}"

    def _run(self, rounds: int) -> None:
        for _ in range(rounds):
            self.loop.run_until_complete(asyncio.sleep(0))

    def _settle(self) -> None:
        self._run(_ROUNDS)

    @rule(who=st.sampled_from(TENANTS))
    def ask(self, who: str) -> None:
        """Stand in line."""
        if not self.standing[who]:
            self.passed[who].clear()
        self.standing[who].append(self.loop.create_task(self._take(who)))
        # Who asked first stands first.
        self._run(1)

    @precondition(lambda self: any(self.standing.values()))
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Cancel somebody, who learns of it when the loop runs."""
        who = data.draw(st.sampled_from([who for who in TENANTS if self.standing[who]]))
        task = data.draw(st.sampled_from(self.standing[who]))
        # A turn that was on its way to it goes to the next tenant.
        self.passed[who].clear()
        self.standing[who].remove(task)
        task.cancel()

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        """Give one of the turns back."""
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1))).give_back()

    @rule()
    def run_once(self) -> None:
        """Let the loop run one round."""
        self._run(1)

    @rule()
    def settle(self) -> None:
        """Let everything happen: who stands in line does so because all turns are taken."""
        self._settle()
        standing = [task for line in self.standing.values() for task in line]
        assert not any(task.done() for task in standing)
        assert len(self.held) == self.limit or not standing
        assert self.turns.is_busy == (len(self.held) == self.limit)

    @invariant()
    def no_more_than_the_limit_are_held(self) -> None:
        """Turns are never made out of nothing."""
        assert len(self.held) <= self.limit

    def teardown(self) -> None:
        """Serve everybody; afterwards as many turns are free as there were."""
        try:
            if hasattr(self, "turns"):
                self._serve_everybody()
        finally:
            for task in asyncio.all_tasks(self.loop):
                task.cancel()
            self._settle()
            self.loop.close()

    def _serve_everybody(self) -> None:
        self._settle()
        while self.held:
            self.held.pop().give_back()
            self._settle()
        assert not any(self.standing.values())
        for _ in range(self.limit):
            assert not self.turns.is_busy
            self.ask("a")
        assert len(self.held) == self.limit
        assert self.turns.is_busy
        for turn in self.held:
            turn.give_back()


def test_no_order_of_events_loses_a_turn() -> None:
    """Turns are conserved, and tenants take turns, whenever who asks, leaves or gives back."""
    run_state_machine_as_test(
        SyncTurnsMachine, settings=settings(max_examples=200, stateful_step_count=40)
    )
