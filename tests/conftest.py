"""What every test shares: the fixtures of both API servers, and how Hypothesis searches."""

from __future__ import annotations

import asyncio
import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.controlplane.plugin", "watchcache_devcluster.pytest_plugin"]

# The machine may be busy, so no example has a deadline; each test as a whole has one.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
# Longer, for a search overnight: HYPOTHESIS_PROFILE=thorough make test
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2000)
# The same examples for the same code, so that a change is judged by what it changed.
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default")
)


def pytest_sessionstart() -> None:
    """Have no event loop outside of asynchronous tests.

    looptime asks for the current one before each test. Were none set yet, asking would make one
    that nobody closes, and the warning about it would fail whichever test runs at that moment.
    """
    asyncio.set_event_loop(None)
