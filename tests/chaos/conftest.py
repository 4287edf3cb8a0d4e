"""The fixtures of the end-to-end tests, for tests that break things on purpose."""

from __future__ import annotations

from tests.contract.conftest import (  # noqa: F401 (fixtures)
    api,
    devcluster_endpoint,
    endpoint,
    namespace,
    real_endpoint,
)
from tests.e2e.conftest import (  # noqa: F401 (fixtures)
    account,
    recorder,
    service,
    service_of,
    wc,
)
