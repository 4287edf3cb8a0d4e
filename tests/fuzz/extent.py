"""How many examples a fuzzer tries: a few in each run of the tests, more by `make fuzz`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

__all__ = ["EXAMPLES", "examples"]

#: FUZZ_EXAMPLES, which `make fuzz EXAMPLES=...` sets.
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "40"))

#: To be put on a test beside `given`.
examples = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.filter_too_much,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
        HealthCheck.function_scoped_fixture,
    ],
)
