"""The command: `python -m tests.chaos.soak --seconds 3600 --plot docs/images/soak.svg`."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import random
import signal
import sys
import tempfile
from pathlib import Path

# gRPC reads it when it is imported.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

from tests.chaos.soak.running import Outcome, Plan, run


def main() -> int:
    """Run a soak, print its account, and return 0 when all was right and nothing has grown."""
    options = _options()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(1 << 32)
    folder = Path(tempfile.mkdtemp(prefix="watchcache-soak-"))
    plan = Plan(options.seconds, seed, options.every, server_restarts=options.server_restarts)
    _say(f"soak of {plan.seconds:g} s, seed {seed}; files in {folder}")
    logging.disable(logging.CRITICAL)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    try:
        outcome = asyncio.run(run(plan, folder, _say))
    except KeyboardInterrupt:
        return 130
    return _report(outcome, options, options.samples or folder / "samples.csv")


def _report(outcome: Outcome, options: argparse.Namespace, samples: Path) -> int:
    for line in outcome.lines():
        _say(line)
    outcome.sampler.write(samples)
    _say(f"every sample is in {samples}")
    if options.plot is not None:
        options.plot.parent.mkdir(parents=True, exist_ok=True)
        options.plot.write_text(outcome.plot(), encoding="utf-8")
        _say(f"drawn in {options.plot}")
    grown = outcome.grown
    _say("all is flat" if not grown else "grows: " + ", ".join(each.title for each in grown))
    return 0 if outcome.is_clean and not grown else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="how long")
    parser.add_argument("--seed", type=int, help="the seed; one is drawn and printed without it")
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two samples")
    parser.add_argument(
        "--server-restarts", type=int, default=4, help="restarts of the API server within that time"
    )
    parser.add_argument("--plot", type=Path, help="where an SVG of the samples goes")
    parser.add_argument(
        "--samples", type=Path, help="where a CSV of the samples goes; by default among its files"
    )
    return parser.parse_args()


def _say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 (the command's output)


if __name__ == "__main__":
    sys.exit(main())
