"""Rules of readiness: fresh, not just started."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.serving.registered import Clusters
from watchcache_server.serving.readiness import Readiness


def readiness(*, is_serving: bool = True, is_draining: bool = False, **ages: Any) -> Readiness:
    """Return the readiness of a service whose clusters answered so many seconds ago."""
    clusters: Any = Clusters(**ages)
    return Readiness(
        clusters,
        is_serving=lambda: is_serving,
        is_draining=lambda: is_draining,
        contact_seconds=60,
    )


def test_a_service_that_serves_fresh_data_is_ready() -> None:
    """It serves, and its default cluster has answered lately."""
    report = readiness(hub=2.04).report()
    assert report == {
        "ready": True,
        "problems": [],
        "clusters": {"hub": {"fresh": True, "contact_age_seconds": 2.0}},
    }


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        pytest.param({"is_serving": False}, "is starting", id="gRPC does not serve yet"),
        pytest.param(
            {"is_serving": False, "is_draining": True}, "is shutting down", id="it drains"
        ),
        pytest.param({"hub": None}, "has not answered yet: connection refused", id="no contact"),
        pytest.param({"hub": 61.0}, "has not answered for 61 s", id="contact too long ago"),
    ],
)
def test_what_is_in_the_way_is_said(given: dict[str, Any], problem: str) -> None:
    """One sentence for each problem, for whoever reads the answer."""
    report = readiness(**({"hub": 1.0} | given)).report()
    assert report["ready"] is False
    [told] = report["problems"]
    assert problem in told


def test_a_contact_at_the_limit_is_fresh() -> None:
    """The setting names the longest time that is good enough."""
    assert readiness(hub=60.0).problems() == []


def test_another_cluster_makes_nothing_unready() -> None:
    """It concerns single extensions, and is shown all the same."""
    report = readiness(hub=1.0, edge=None).report()
    assert report["ready"] is True
    assert report["clusters"]["edge"] == {"fresh": False, "contact_age_seconds": None}
