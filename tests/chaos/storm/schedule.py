"""The schedule of a storm: every fault and every write, drawn from the seed and nothing else.

A storm is a sequence of rounds, each of which ends in a quiet moment. A round depends on the seed
and its own number only: the same seed with fewer rounds, or with one of them alone, repeats what
the long run did there. When things happen is up to the machine; what happens, and in which order
it begins, is written here.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = [
    "STILL",
    "WATCHED",
    "WRITERS",
    "Fault",
    "FaultKind",
    "Round",
    "Write",
    "restarting",
    "rounds",
]

NAMESPACES = ("left", "right")
#: What is written, and by one writer each: resource and namespace.
WRITERS = (
    ("configmaps", "left"),
    ("configmaps", "right"),
    ("secrets", "left"),
    ("secrets", "right"),
    ("widgets", "left"),
)
#: A namespace in which nothing changes, whatever happens.
STILL = "still"
#: What is watched: resource and namespace.
WATCHED = (*WRITERS, ("configmaps", STILL))
_NAMES = 12
_WRITES_PER_FAULT = 1.0
_PAUSE_SECONDS = 0.08
# A watch that breaks off again and again is itself a reason to list again.
_MILD_PAUSE_SECONDS = 0.2
# The first round has each kind at least once, where there is room. Every so many rounds there are
# only faults that are no reason to pass a state over.
_OPENING_ROUND = 0
_MILD_EVERY = 4


class FaultKind(enum.Enum):
    """What can go wrong."""

    RESET = "connections to the API server reset"
    HALF_OPEN = "connections to the API server half-open"
    CUT = "answer cut in its body"
    DELAY = "answer delayed"
    REORDER = "requests reordered"
    EXPIRED = "410 Expired"
    THROTTLED = "429 Too Many Requests"
    BROKEN = "5xx"
    GARBAGE = "garbage for an answer"
    NO_WATCH_LIST = "initial events refused"
    TOKEN_EXPIRY = "tokens expired"
    SERVER_STOP = "API server stopped for a while"
    SERVER_KILL = "API server killed"
    ETCD_STOP = "etcd stopped for a while"
    ETCD_KILL = "etcd killed"
    COMPACTION = "etcd compacted"
    RIGHTS = "rights revoked and granted"
    DEFINITION = "CRD deleted and made"
    SERVICE_KILL = "service killed"
    SERVICE_RESTART = "service restarted in order"
    SERVICE_STOP = "service stopped for a while"
    CLIENTS_CUT = "connections of clients reset"
    CLIENTS_SHUT = "connections of clients refused"
    CLIENTS_FROZEN = "connections of clients half-open"
    CLIENT_KILL = "client killed"


@dataclass(frozen=True, slots=True)
class _Nature:
    """How often a kind comes, how long it lasts, and in which variants."""

    weight: float
    seconds: tuple[float, float] = (0.0, 0.0)
    variants: tuple[str, ...] = ("",)
    #: Whether it gives a right informer no reason to list again.
    is_mild: bool = False


_SOURCES = tuple(f"{resource} {namespace}" for resource, namespace in WRITERS)

_NATURES = {
    FaultKind.RESET: _Nature(12, variants=("all", "one", "one"), is_mild=True),
    FaultKind.HALF_OPEN: _Nature(5, variants=("all", "one", "one", "one"), is_mild=True),
    FaultKind.CUT: _Nature(14, variants=("close", "reset", "end"), is_mild=True),
    FaultKind.DELAY: _Nature(8, (0.05, 3.0), ("open", "next", "next"), is_mild=True),
    FaultKind.REORDER: _Nature(5, (0.8, 1.6), is_mild=True),
    FaultKind.EXPIRED: _Nature(9, variants=("answer", "event")),
    FaultKind.THROTTLED: _Nature(
        7, variants=("answer", "answer", "event", "retry-after"), is_mild=True
    ),
    FaultKind.BROKEN: _Nature(9, variants=("500", "502", "503", "504", "event 500", "event 504")),
    FaultKind.GARBAGE: _Nature(
        10, variants=("html", "torn", "noise", "empty", "line", "chunk", "type")
    ),
    FaultKind.NO_WATCH_LIST: _Nature(2, variants=("400", "422")),
    FaultKind.TOKEN_EXPIRY: _Nature(4, is_mild=True),
    FaultKind.SERVER_STOP: _Nature(1, (0.2, 4.0), is_mild=True),
    FaultKind.SERVER_KILL: _Nature(0.35, variants=("", "compacted")),
    FaultKind.ETCD_STOP: _Nature(1, (0.2, 3.0), is_mild=True),
    FaultKind.ETCD_KILL: _Nature(0.6, (0.0, 1.0)),
    FaultKind.COMPACTION: _Nature(3),
    FaultKind.RIGHTS: _Nature(1.5, (0.5, 5.0), _SOURCES),
    FaultKind.DEFINITION: _Nature(1, (0.0, 3.0)),
    FaultKind.SERVICE_KILL: _Nature(1, (0.0, 1.0)),
    FaultKind.SERVICE_RESTART: _Nature(0.6, (0.0, 1.0)),
    FaultKind.SERVICE_STOP: _Nature(0.8, (0.2, 4.0), is_mild=True),
    FaultKind.CLIENTS_CUT: _Nature(8, is_mild=True),
    FaultKind.CLIENTS_SHUT: _Nature(2, (0.1, 1.0), is_mild=True),
    FaultKind.CLIENTS_FROZEN: _Nature(3, (0.2, 4.0), is_mild=True),
    FaultKind.CLIENT_KILL: _Nature(6, (0.0, 1.0), is_mild=True),
}

# What a fault upon a request strikes. Most requests are watches; the others come now and then.
_TARGETS = ("watch", "watch", "watch", "any", "any", "list", "token", "discovery")


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong.

    `target` is the sort of request that it strikes, `after_bytes` how much of a body comes
    before, `lot` which of several is meant: a number in [0, 1).
    """

    kind: FaultKind
    pause_seconds: float
    seconds: float
    variant: str
    target: str
    after_bytes: int
    lot: float


@dataclass(frozen=True, slots=True)
class Write:
    """One change to one object: `put`, `delete`, or `replace`, which is both at once.

    `value` is what the object is to hold, in brackets, by which it is found in whatever encoding.
    """

    pause_seconds: float
    action: str
    name: str
    tier: str
    value: str


@dataclass(frozen=True, slots=True)
class Round:
    """What happens between two quiet moments."""

    number: int
    faults: tuple[Fault, ...]
    #: In the order of WRITERS.
    writes: tuple[tuple[Write, ...], ...]
    #: Whether no fault in it is a reason to pass a state over.
    is_mild: bool


def rounds(seed: int, faults: int, faults_per_round: int) -> Iterator[Round]:
    """Yield the rounds of a storm with so many faults."""
    for number in range(-(-faults // faults_per_round)):
        count = min(faults_per_round, faults - number * faults_per_round)
        chance = random.Random(f"faults {seed} {number}")
        is_mild = number % _MILD_EVERY == _MILD_EVERY - 1
        pause_seconds = _MILD_PAUSE_SECONDS if is_mild else _PAUSE_SECONDS
        kinds = _kinds(chance, faults_per_round, number, is_mild=is_mild)
        drawn = tuple(_fault(kind, chance, pause_seconds) for kind in kinds)[:count]
        writes = tuple(
            tuple(_writes(random.Random(f"writes {seed} {number} {writer}"), faults_per_round))
            for writer in WRITERS
        )
        yield Round(number, drawn, writes, is_mild)


def restarting(todo: Round, seed: int, count: int) -> Round:
    """Return a round in which the service is killed or restarted so often, and not by chance."""
    chance = random.Random(f"restarts {seed} {todo.number} {count}")
    kinds = (FaultKind.SERVICE_KILL, FaultKind.SERVICE_RESTART)
    faults = [fault for fault in todo.faults if fault.kind not in kinds]
    for _ in range(count):
        fault = _fault(chance.choice(kinds), chance, _PAUSE_SECONDS)
        faults.insert(chance.randint(0, len(faults)), fault)
    return Round(todo.number, tuple(faults), todo.writes, todo.is_mild)


def _kinds(chance: random.Random, count: int, number: int, *, is_mild: bool) -> list[FaultKind]:
    kinds = [kind for kind in FaultKind if _NATURES[kind].is_mild or not is_mild]
    weights = [_NATURES[kind].weight for kind in kinds]
    first = kinds if number == _OPENING_ROUND and count >= len(kinds) else []
    drawn = [*first, *chance.choices(kinds, weights, k=count - len(first))]
    chance.shuffle(drawn)
    return drawn


def _fault(kind: FaultKind, chance: random.Random, pause_seconds: float) -> Fault:
    nature = _NATURES[kind]
    return Fault(
        kind=kind,
        pause_seconds=chance.expovariate(1 / pause_seconds),
        seconds=chance.uniform(*nature.seconds),
        variant=chance.choice(nature.variants),
        target=chance.choice(_TARGETS),
        after_bytes=int(10 ** chance.uniform(0.0, 3.4)),
        lot=chance.random(),
    )


def _writes(chance: random.Random, faults: int) -> Iterator[Write]:
    count = int(faults * _WRITES_PER_FAULT)
    for number in range(count):
        size = chance.choice((10, 10, 10, 10, 500, 500, 20_000))
        yield Write(
            pause_seconds=chance.expovariate(_WRITES_PER_FAULT / _PAUSE_SECONDS),
            action=chance.choices(("put", "delete", "replace"), (7, 2, 1))[0],
            name=f"{chance.randrange(_NAMES):02}",
            tier=chance.choice(("gold", "silver")),
            value=f"[{number} {'x' * chance.randrange(size)}]",
        )
