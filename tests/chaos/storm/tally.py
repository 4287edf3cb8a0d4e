"""The account of a storm: what struck, what was checked, and every promise that was broken."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from tests.chaos.storm.meter import Account
from tests.chaos.storm.schedule import Fault, FaultKind
from tests.history_checker import Rule

__all__ = ["Harm", "Tally", "harm_of"]


class Harm(enum.Enum):
    """What a broken promise does to a subscriber."""

    LOST = "lost"
    DOUBLED = "doubled"
    MISORDERED = "misordered"
    #: What never was, or not so.
    UNTRUE = "untrue"
    #: What did not recover, or ended for good.
    STUCK = "stuck"
    #: What the service's own log calls a fault of the service.
    FAULTY = "faulty"
    #: More bytes than what was to be told is worth.
    COSTLY = "costly"


_HARMS = {
    Rule.UNIQUE: Harm.DOUBLED,
    Rule.DELETED_ONCE: Harm.DOUBLED,
    Rule.ORDERED: Harm.MISORDERED,
    Rule.REVISIONS: Harm.MISORDERED,
    Rule.OPENING: Harm.MISORDERED,
    Rule.LAST: Harm.MISORDERED,
    Rule.SNAPSHOT: Harm.MISORDERED,
    Rule.TOKEN: Harm.MISORDERED,
    Rule.RESUMABLE: Harm.MISORDERED,
    Rule.REASON: Harm.UNTRUE,
    Rule.DELETED_TRULY: Harm.UNTRUE,
    Rule.NO_GAP: Harm.LOST,
    Rule.KNOWN: Harm.LOST,
    Rule.IDENTITY: Harm.LOST,
    Rule.ATOMIC: Harm.LOST,
    Rule.SELECTED: Harm.LOST,
}


def harm_of(rule: Rule) -> Harm:
    """Say what it does to a subscriber when a rule of the history checker is broken."""
    return _HARMS[rule]


@dataclass
class Tally:
    """Counts, and the texts of what was found."""

    drawn: Counter[FaultKind] = field(default_factory=Counter)
    _struck: dict[FaultKind, set[Fault]] = field(default_factory=dict)
    harms: Counter[Harm] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    quiet_moments: int = 0
    #: Events of histories that were compared with the API server afterwards.
    events_checked: int = 0
    #: Events of clients that were killed before a quiet moment: judged as far as they go.
    events_unfinished: int = 0
    objects_compared: int = 0
    bodies_compared: int = 0
    bytes_received: int = 0
    resumed: int = 0
    resumed_over_restarts: int = 0
    resets: int = 0
    coalesced: int = 0
    states: int = 0
    states_passed_over: int = 0
    #: States of rounds without any reason to pass one over: all of them have to be told.
    states_demanded: int = 0
    #: What one mirror cost, where that was measured.
    account: Account | None = None

    def strike(self, fault: Fault) -> None:
        """Count a fault that did something, once."""
        self._struck.setdefault(fault.kind, set()).add(fault)

    def struck(self, kind: FaultKind) -> int:
        """Return how many faults of a kind did something."""
        return len(self._struck.get(kind, ()))

    def blame(self, harm: Harm, finding: str) -> None:
        """Note a broken promise."""
        self.harms[harm] += 1
        self.findings.append(f"{harm.value}: {finding}")

    @property
    def is_clean(self) -> bool:
        """Whether no promise was broken."""
        return not self.harms.total()

    def lines(self) -> Iterator[str]:
        """Yield the report."""
        total = sum(map(self.struck, FaultKind))
        yield f"{'faults':42} {'drawn':>7} {'struck':>7}"
        for kind in FaultKind:
            yield f"  {kind.value:40} {self.drawn[kind]:7} {self.struck(kind):7}"
        yield f"  {'all':40} {self.drawn.total():7} {total:7}"
        yield (
            f"events checked {self.events_checked} (and {self.events_unfinished} of clients that "
            f"were killed before a comparison), over {self.resumed} resumed streams "
            f"({self.resumed_over_restarts} over a restart) and {self.resets} resets, "
            f"{self.coalesced} coalesced batches; {self.bytes_received / 1e6:.1f} MB received"
        )
        yield (
            f"quiet moments {self.quiet_moments}, objects compared there {self.objects_compared}; "
            f"bodies of events compared with etcd {self.bodies_compared}"
        )
        yield (
            f"states in etcd {self.states}, passed over by relists, restarts and the like "
            f"{self.states_passed_over}; in rounds without a reason for that, told one by one "
            f"{self.states_demanded}"
        )
        if self.account is not None:
            yield from self.account.lines()
        yield ", ".join(f"{harm.value} {self.harms[harm]}" for harm in Harm)
