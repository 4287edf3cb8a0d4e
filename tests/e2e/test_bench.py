"""The benchmark works: every figure is measured against a real API server, with few objects."""

from __future__ import annotations

import math

import pytest

from bench.cluster import held
from bench.figures import MEASUREMENTS, Plan

_PODS = 300


@pytest.mark.controlplane
@pytest.mark.timeout(300)
async def test_every_figure_can_be_measured() -> None:
    """Each measurement ends with figures that are numbers; memory may shrink."""
    async with held(_PODS) as cluster:
        assert await cluster.pod_count() == _PODS
        plan = Plan(
            cluster=cluster,
            pod_count=_PODS,
            token=await cluster.reader_token(),
            rounds=1,
            rest_seconds=0.5,
            settle_seconds=0.1,
            warm_seconds=0.5,
            flat_seconds=2.0,
            subscriptions=40,
            connections=2,
            informers=4,
        )
        for name, measure in MEASUREMENTS.items():
            figures = await measure(plan)
            assert figures, name
            assert all(figure.bound > 0 and math.isfinite(figure.value) for figure in figures), name
