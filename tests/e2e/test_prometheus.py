"""A real Prometheus scrapes a running service, and gives back what the service holds."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

import watchcache
from tests.contract.api import Api
from tests.e2e.acting import configmap, grant, next_events, until
from tests.e2e.service import ServiceProcess, free_port
from tools.prometheus import ensure_prometheus

_START_SECONDS = 30.0
_SCRAPE_SECONDS = 20.0
_POLL_SECONDS = 0.1


class Prometheus:
    """A Prometheus that scrapes one service five times a second."""

    def __init__(self, folder: Path, target: str) -> None:
        self._folder = folder
        self._target = target
        self._url = ""
        self._session = aiohttp.ClientSession()

    async def start(self) -> asyncio.subprocess.Process:
        """Start it and wait until it answers."""
        config = {
            "global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"},
            "scrape_configs": [
                {"job_name": "watchcache", "static_configs": [{"targets": [self._target]}]}
            ],
        }
        file = self._folder / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        port = free_port()
        self._url = f"http://127.0.0.1:{port}"
        with (self._folder / "prometheus.log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                ensure_prometheus() / "prometheus",
                f"--config.file={file}",
                f"--storage.tsdb.path={self._folder / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
                stdout=log,
                stderr=log,
            )
        async with asyncio.timeout(_START_SECONDS):
            while not await self._is_ready():
                assert process.returncode is None, (self._folder / "prometheus.log").read_text()
                await asyncio.sleep(_POLL_SECONDS)
        return process

    async def _is_ready(self) -> bool:
        try:
            async with self._session.get(f"{self._url}/-/ready") as answer:
                return answer.status == 200
        except aiohttp.ClientConnectionError:
            return False

    async def close(self) -> None:
        """Close the connections to it."""
        await self._session.close()

    async def get(self, path: str, **query: str) -> Any:
        """Ask its API."""
        async with self._session.get(f"{self._url}/api/v1/{path}", params=query) as answer:
            told = await answer.json()
        assert told["status"] == "success", told
        return told["data"]

    async def query(self, expression: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the present values of an expression by their labels, without those of the job."""
        found = await self.get("query", query=expression)
        return {
            tuple(
                sorted(
                    (name, value)
                    for name, value in each["metric"].items()
                    if name not in ("__name__", "instance", "job")
                )
            ): float(each["value"][1])
            for each in found["result"]
        }

    async def value(self, expression: str) -> float | None:
        """Return the one value of an expression; None when there is none."""
        found = await self.query(expression)
        return next(iter(found.values()), None)

    async def wait_for(self, expression: str, wanted: Callable[[float | None], bool]) -> None:
        """Wait until the value of an expression is as wanted."""
        value = None
        try:
            async with asyncio.timeout(_SCRAPE_SECONDS):
                while True:
                    value = await self.value(expression)
                    if wanted(value):
                        return
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise AssertionError(f"{expression} is {value}") from None


@pytest.fixture
async def prometheus(service: ServiceProcess, tmp_path: Path) -> AsyncIterator[Prometheus]:
    """Give a Prometheus that scrapes the service."""
    prometheus = Prometheus(tmp_path, f"127.0.0.1:{service.http_port}")
    process = await prometheus.start()
    yield prometheus
    await prometheus.close()
    process.terminate()
    await process.wait()


@pytest.mark.timeout(120)
async def test_prometheus_gives_back_what_the_service_holds(
    api: Api,
    wc: watchcache.Connection,
    prometheus: Prometheus,
    namespace: str,
    account: str,
) -> None:
    """Gauges of an extension come with it and go with it; what happened is counted and timed."""
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for number in range(3):
        await api.create(path, configmap(f"object-{number}"))
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps", "secrets"],
        namespaces=[namespace],
        wait="10s",
    )
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    held = sum(source.object_count for source in ext.sources)
    await api.create(path, configmap("one-more"))
    await next_events(stream, 1)

    mine = f'extension="{namespace}/shop"'
    objects = f'watchcache_cached_objects{{{mine},resource="configmaps"}}'
    await prometheus.wait_for(objects, lambda value: value == held + 1)
    raw = await prometheus.value(f'watchcache_cached_bytes{{{mine},form="raw"}}')
    stored = await prometheus.value(f'watchcache_cached_bytes{{{mine},form="stored"}}')
    assert raw is not None
    assert stored is not None
    assert raw > 0
    assert stored % 1024 == 0
    await prometheus.wait_for("watchcache_subscriptions", lambda value: (value or 0) >= 1)
    informers = 'watchcache_informers{cluster="hub",state="%s"}'
    await prometheus.wait_for(informers % "forbidden", lambda value: (value or 0) >= 1)
    await prometheus.wait_for(informers % "live", lambda value: (value or 0) >= 1)
    fresh = 'watchcache_staleness_seconds{cluster="hub",resource="configmaps"}'
    await prometheus.wait_for(fresh, lambda value: value is not None and 0 <= value < 120)
    for counted in (
        "watchcache_sync_duration_seconds_count",
        "watchcache_event_latency_seconds_count",
        'watchcache_events_read_total{cluster="hub"}',
        "watchcache_events_sent_total",
        'watchcache_api_requests_total{cluster="hub",code="200"}',
        'watchcache_tokens_issued_total{cluster="hub"}',
        'watchcache_token_expiry_seconds{cluster="hub"}',
        'grpc_server_handled_total{grpc_method="Register",grpc_code="OK"}',
        'grpc_server_msg_sent_total{grpc_method="Watch"}',
        'watchcache_cluster_reachable{cluster="hub"}',
        "process_resident_memory_bytes",
    ):
        await prometheus.wait_for(counted, lambda value: value is not None and value > 0)

    await stream.aclose()
    await ext.deregister()
    await prometheus.wait_for(f"count({{{mine}}})", lambda value: value is None)
    # A scrape of a busy machine may fail once; the service is there all the same.
    await prometheus.wait_for("up", lambda value: value == 1)


async def test_prometheus_takes_openmetrics_whole(prometheus: Prometheus) -> None:
    """It knows type, help and unit of every metric, and finds no fault with the page."""
    await prometheus.wait_for("scrape_samples_scraped", lambda value: value is not None)
    await prometheus.wait_for("up", lambda value: value == 1)
    [target] = (await prometheus.get("targets"))["activeTargets"]
    assert (target["health"], target["lastError"]) == ("up", "")
    told = await prometheus.get("metadata")
    assert told["watchcache_event_latency_seconds"][0]["type"] == "histogram"
    assert told["watchcache_events_sent"][0]["type"] == "counter"
    assert all(each["help"] for entries in told.values() for each in entries)


async def test_the_page_of_a_running_service_passes_promtool(
    service: ServiceProcess, wc: watchcache.Connection
) -> None:
    """Whatever the service has come to serve, it follows the rules."""
    await wc.clusters()
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"http://127.0.0.1:{service.http_port}/metrics") as answer,
    ):
        page = await answer.read()
    checked = await asyncio.to_thread(
        subprocess.run,
        [ensure_prometheus() / "promtool", "check", "metrics"],
        input=page,
        capture_output=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, b"", b"")


async def test_a_service_with_its_cluster_is_alive_and_ready(service: ServiceProcess) -> None:
    """Both pages say so, and the second one why."""
    base = f"http://127.0.0.1:{service.http_port}"
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{base}/healthz") as answer:
            assert answer.status == 200
        async with asyncio.timeout(_START_SECONDS):
            report: dict[str, Any] = {}
            while not report.get("ready"):
                async with session.get(f"{base}/readyz") as answer:
                    report = await answer.json()
                await asyncio.sleep(_POLL_SECONDS)
    assert report["problems"] == []
    assert report["clusters"]["hub"]["fresh"] is True
