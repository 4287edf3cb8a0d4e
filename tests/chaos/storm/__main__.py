"""The command: `python -m tests.chaos.storm --faults 10000 --seed 7`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

# gRPC reads it when it is imported, and would tell of every cut too.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from tests.chaos.storm.running import FAULTS_PER_ROUND, Lasting, Plan, run
from tests.chaos.storm.schedule import FaultKind
from tests.chaos.storm.tally import Tally

# More than come to be drawn within any time.
_ENDLESS = 1 << 40


def main() -> int:
    """Run a storm, print its account, and return 0 when no promise was broken."""
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    plan = Plan(
        seed=seed,
        faults=options.faults if options.seconds is None else _ENDLESS,
        faults_per_round=options.per_round,
        only_rounds=options.rounds,
        without=frozenset(FaultKind[name.upper()] for name in options.without),
        stops_at_once=options.stop,
        lasting=_lasting(options),
    )
    folder = options.folder or Path(tempfile.mkdtemp(prefix="watchcache-storm-"))
    if options.folder is not None and folder.exists() and any(folder.iterdir()):
        _say(f"folder {folder} is not empty; a storm needs one of its own")
        return 2
    folder.mkdir(parents=True, exist_ok=True)
    extent = f"{options.faults} faults" if options.seconds is None else f"{options.seconds:g} s"
    _say(f"storm of {extent}, seed {seed}; files in {folder}")
    logging.disable(logging.CRITICAL)  # The clients' own log tells of every cut.
    # Also where it was started in the background, with Ctrl-C ignored: all that it started ends.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    began = time.monotonic()
    tally = Tally()
    try:
        asyncio.run(run(plan, folder, _say, tally))
    except KeyboardInterrupt:
        return 130
    finally:
        # Also of a storm that is broken off by Ctrl-C or by a fault of its own.
        _report(tally, options, seed, folder, time.monotonic() - began)
    if tally.is_clean and options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if tally.is_clean else 1


def _report(
    tally: Tally, options: argparse.Namespace, seed: int, folder: Path, seconds: float
) -> None:
    for line in tally.lines():
        _say(line)
    _say(f"{tally.drawn.total()} faults in {seconds:.0f} s, seed {seed}")
    if not tally.is_clean:
        _say(
            f"broken; to repeat: {_command(options, seed)} (the files of this run are in {folder})"
        )


def _command(options: argparse.Namespace, seed: int) -> str:
    """Return the command that draws the same storm."""
    arguments = []
    if options.per_round != FAULTS_PER_ROUND:
        arguments.append(f"--per-round {options.per_round}")
    if options.seconds is not None:
        arguments.append(f"--seconds {options.seconds:g} --restarts {options.restarts}")
        arguments.append(f"--still {options.still}")
    told = f" ARGS='{' '.join(arguments)}'" if arguments else ""
    return f"make chaos FAULTS={options.faults} SEED={seed}{told}"


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.storm", description=__doc__)
    parser.add_argument("--faults", type=int, default=1000, help="how many faults")
    parser.add_argument("--seconds", type=float, help="by time, instead of by faults")
    parser.add_argument(
        "--restarts", type=int, default=50, help="restarts of the service within that time"
    )
    parser.add_argument(
        "--still", type=int, default=2000, help="objects that nobody changes within that time"
    )
    parser.add_argument("--seed", type=int, help="the seed; one is drawn and printed without it")
    parser.add_argument(
        "--per-round", type=int, default=FAULTS_PER_ROUND, help="faults before a quiet moment"
    )
    parser.add_argument("--rounds", type=_range, help="only these rounds of it: 3, or 3-5")
    parser.add_argument(
        "--without", action="append", default=[], help="a kind of fault to leave out"
    )
    parser.add_argument("--stop", action="store_true", help="end with the first broken promise")
    parser.add_argument("--folder", type=Path, help="where logs and data go")
    return parser.parse_args()


def _lasting(options: argparse.Namespace) -> Lasting | None:
    if options.seconds is None:
        return None
    return Lasting(options.seconds, options.restarts, options.still)


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (the command's output)


if __name__ == "__main__":
    sys.exit(main())
