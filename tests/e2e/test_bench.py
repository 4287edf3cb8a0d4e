"""The benchmark works: every figure is measured against a real API server, with few objects."""

from __future__ import annotations

import pytest

from bench.cluster import held
from bench.figures import MEASUREMENTS, Plan

_PODS = 300


@pytest.mark.controlplane
@pytest.mark.timeout(300)
async def test_every_figure_can_be_measured() -> None:
    """Each measurement ends with figures that are numbers above nothing."""
    async with held(_PODS) as cluster:
        assert await cluster.pod_count() == _PODS
        plan = Plan(
            cluster=cluster,
            pod_count=_PODS,
            token=await cluster.reader_token(),
            rounds=1,
            rest_seconds=0.5,
            settle_seconds=0.1,
            subscriptions=40,
            connections=2,
            informers=4,
        )
        for name, measure in MEASUREMENTS.items():
            figures = await measure(plan)
            assert figures, name
            assert all(figure.value > 0 and figure.bound > 0 for figure in figures), name
