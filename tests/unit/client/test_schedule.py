"""Which key is next."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from watchcache.schedule import KeySchedule

_KEYS = st.sampled_from("abcd")


def _take(schedule: KeySchedule[str], now: float = 0.0) -> str | None:
    taken = schedule.take(now)
    return None if taken is None else taken[0]


def test_keys_come_in_the_order_in_which_they_were_asked_for() -> None:
    """A key that is asked for often comes once, and not before its turn."""
    schedule: KeySchedule[str] = KeySchedule()
    for key in "abaacb":
        schedule.add(key)
    assert len(schedule) == 3
    assert [_take(schedule) for _ in range(4)] == ["a", "b", "c", None]


def test_a_key_is_not_handed_out_while_it_is_worked_on() -> None:
    """It comes again after that, behind those that wait, if it was asked for meanwhile."""
    schedule: KeySchedule[str] = KeySchedule()
    schedule.add("a")
    assert _take(schedule) == "a"
    schedule.add("a")
    schedule.add("b")
    assert _take(schedule) == "b"
    assert _take(schedule) is None
    schedule.finish("a")
    schedule.finish("b")
    assert [_take(schedule), _take(schedule)] == ["a", None]


def test_a_key_comes_at_the_earliest_time_that_was_asked_for() -> None:
    """Later wishes are met by the earlier one; a key that is due joins the others at the end."""
    schedule: KeySchedule[str] = KeySchedule()
    schedule.add_at("a", 5.0)
    schedule.add_at("a", 3.0)
    schedule.add_at("a", 9.0)
    schedule.add("b")
    assert schedule.next_due() == 3.0
    assert _take(schedule, 2.9) == "b"
    assert _take(schedule, 2.9) is None
    assert _take(schedule, 3.0) == "a"
    assert schedule.next_due() is None
    assert _take(schedule, 100.0) is None


def test_a_run_is_told_from_a_later_one() -> None:
    """The number of a run says whether it is that one which is under way."""
    schedule: KeySchedule[str] = KeySchedule()
    schedule.add("a")
    first = schedule.take(0.0)
    assert first is not None
    schedule.add("a")
    schedule.finish("a")
    assert not schedule.is_running(*first)
    second = schedule.take(0.0)
    assert second is not None
    assert schedule.is_running(*second)
    assert schedule.is_running("a")
    assert not schedule.is_running(*first)


class ScheduleMachine(RuleBasedStateMachine):
    """Any sequence of wishes and runs: never two runs of one key, and no wish without a run."""

    def __init__(self) -> None:
        super().__init__()
        self.schedule: KeySchedule[str] = KeySchedule()
        self.now = 0.0
        self.running: list[str] = []
        self.wanted: set[str] = set()
        self.due: dict[str, float] = {}

    @rule(key=_KEYS)
    def add(self, key: str) -> None:
        self.schedule.add(key)
        self.wanted.add(key)

    @rule(key=_KEYS, delay=st.integers(0, 5))
    def add_later(self, key: str, delay: int) -> None:
        self.schedule.add_at(key, self.now + delay)
        self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)

    @rule(span=st.integers(1, 3))
    def wait(self, span: int) -> None:
        self.now += span

    @rule()
    def take(self) -> None:
        ready = {key for key, due in self.due.items() if due <= self.now}
        for key in ready:
            del self.due[key]
        self.wanted |= ready
        taken = self.schedule.take(self.now)
        if taken is None:
            assert self.wanted <= set(self.running), "a key that was asked for is never forgotten"
            return
        key, run = taken
        assert key in self.wanted, "nothing comes unasked"
        assert key not in self.running, "no key has two workers"
        assert self.schedule.is_running(key, run)
        self.wanted.discard(key)
        self.running.append(key)

    @precondition(lambda self: self.running)
    @rule(data=st.data())
    def finish(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(self.running))
        self.running.remove(key)
        self.schedule.finish(key)

    @invariant()
    def it_knows_what_waits(self) -> None:
        assert len(self.schedule) == len(self.wanted | self.due.keys())
        assert self.schedule.next_due() == min(self.due.values(), default=None)

    def teardown(self) -> None:
        """Let all that was ever asked for have its turn."""
        for key in self.running:
            self.schedule.finish(key)
        left = self.wanted | self.due.keys()
        for _ in range(len(left)):
            key = _take(self.schedule, self.now + 100)
            assert key in left
            left.discard(key)
        assert _take(self.schedule, self.now + 100) is None


TestScheduleMachine = ScheduleMachine.TestCase
