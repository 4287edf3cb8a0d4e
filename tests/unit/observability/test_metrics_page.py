"""Rules of docs/metrics.md: it names what is served, and bounds how much of it there can be."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, Metric, generate_latest

from tests.unit.observability.speaker import tell_all
from tests.unit.serving.registered import NOW, Clusters, Registry, Streams, spec_of
from tools.prometheus import ensure_prometheus
from watchcache.v1alpha1.watch_cache_service_pb2 import DESCRIPTOR
from watchcache_server.extensions.extension import Clock
from watchcache_server.observability.metrics import Metrics
from watchcache_server.observability.reporter import Reporters
from watchcache_server.serving.collector import ServiceCollector

PAGE = (Path(__file__).parents[3] / "docs/metrics.md").read_text()
ROW = re.compile(r"^\| `([a-z_]+)` \| (\w+) \| ([\w, ]*) \| ([\w ()+]+) \| ", re.MULTILINE)
METHODS = len(DESCRIPTOR.services_by_name["WatchCacheService"].methods)


@dataclass(frozen=True)
class Documented:
    """A row of the tables. `bound` is a formula of C, M, P and Q."""

    kind: str
    labels: frozenset[str]
    bound: str


ROWS = {
    name: Documented(kind, frozenset(labels.split(", ")) - {""}, bound)
    for name, kind, labels, bound in ROW.findall(PAGE)
}


def evaluate(formula: str, **counts: int) -> int:
    """Return the value of a formula in which a blank before a letter or bracket multiplies."""
    product = re.sub(r"(?<=\d) (?=[A-Z(])", " * ", formula)
    return int(eval(product, {"__builtins__": {}}, counts))


async def everything(*, extensions: int, resources: int, max_pairs: int) -> CollectorRegistry:
    """Return what a busy service serves."""
    metrics = CollectorRegistry()
    tell_all(Reporters(Metrics(metrics)))
    registry: Any = Registry()
    for number in range(extensions):
        extension = registry.register(
            f"shop-{number}", *((spec_of(f"resource-{i}"), 1) for i in range(resources))
        )
        registry.expiries[extension.key] = {"hub": 600.0}
        for informer in extension.informers.values():
            informer.contact()
    parts: list[Any] = [registry, Clusters(hub=1.0), Streams((3, 1.0)), Streams()]
    clock = Clock(now=lambda: NOW, wall=lambda: NOW)
    collector = ServiceCollector(*parts, max_pairs=max_pairs, clock=clock)
    metrics.register(collector)
    await collector.gather()
    return metrics


def shown_name(family: Metric) -> str:
    """Return a family's name as it is served."""
    return f"{family.name}_total" if family.type == "counter" else family.name


async def test_every_metric_is_documented_and_every_documented_one_is_served() -> None:
    """Names, types and labels are those of the page."""
    served = {}
    for family in (await everything(extensions=1, resources=1, max_pairs=10)).collect():
        labels = {name for sample in family.samples for name in sample.labels} - {"le"}
        served[shown_name(family)] = (family.type, frozenset(labels))
    assert served == {name: (row.kind, row.labels) for name, row in ROWS.items()}


@pytest.mark.parametrize(
    ("extensions", "resources", "max_pairs"),
    [
        pytest.param(0, 0, 100, id="none registered"),
        pytest.param(40, 5, 1000, id="below the limit"),
        pytest.param(40, 5, 50, id="over the limit"),
    ],
)
async def test_no_metric_has_more_series_than_the_page_says(
    extensions: int, resources: int, max_pairs: int
) -> None:
    """The bound holds for each metric, however many extensions there are."""
    metrics = await everything(extensions=extensions, resources=resources, max_pairs=max_pairs)
    pairs = min(extensions * resources, max_pairs)
    counts = {"C": 1, "M": METHODS, "P": pairs, "Q": min(resources, max_pairs)}
    for family in metrics.collect():
        bound = evaluate(ROWS[shown_name(family)].bound, **counts)
        assert len(family.samples) <= bound, family.name


def test_the_formula_is_the_sum_of_the_rows() -> None:
    """The one bound for all is what the tables add up to."""
    [formula] = re.findall(r"series <= (.+)", PAGE)
    for counts in ({"C": 1, "M": 9, "P": 1, "Q": 1}, {"C": 7, "M": 9, "P": 2000, "Q": 300}):
        rows = sum(evaluate(row.bound, **counts) for row in ROWS.values())
        assert rows == evaluate(formula, **counts)


def test_no_histogram_knows_extensions() -> None:
    """A histogram has many series, so it is never one tenant's; nor does a tenant add counters."""
    told = {name for name, row in ROWS.items() if "extension" in row.labels}
    assert told == {"watchcache_cached_objects", "watchcache_cached_bytes"}
    assert {ROWS[name].kind for name in told} == {"gauge"}


def lint(page: bytes) -> tuple[int, str]:
    """Return the verdict of promtool, and what it says."""
    checked = subprocess.run(
        [ensure_prometheus() / "promtool", "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
    )
    return checked.returncode, (checked.stdout + checked.stderr).decode()


async def test_promtool_has_nothing_to_say() -> None:
    """Help, units, suffixes and types follow the rules of Prometheus."""
    page = generate_latest(await everything(extensions=3, resources=2, max_pairs=4))
    assert lint(page) == (0, "")


def test_promtool_would_say_something() -> None:
    """The check is one that can fail."""
    code, text = lint(b"# TYPE Bad_total gauge\nBad_total 1\n")
    assert code != 0
    assert "Bad_total" in text
