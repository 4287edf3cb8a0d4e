"""Whatever is sent to any RPC, the answer is one of the contract, and the service goes on.

`make fuzz EXAMPLES=20000` searches for longer.
"""

from __future__ import annotations

import asyncio
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import grpc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.contract.api import Api, Endpoint
from tests.contract.conftest import devcluster_endpoint  # noqa: F401 (a fixture)
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess
from tests.fuzz.extent import EXAMPLES, examples
from tests.fuzz.odd import NAMESPACE, encodings
from tests.fuzz.wire import METHODS, Wire
from tests.process_figures import memory_of, sockets_of
from watchcache.v1alpha1 import extension_pb2

_OBJECTS = 5
_MESSAGES_OF_AN_UPLOAD = 3
_REPLAYED = 60
_ROUNDS = 3
# Half of what one leaked stream costs.
_GROWTH_BYTES_A_REQUEST = 10 * 1024

Requests = tuple[str, list[bytes]]

SPEC = extension_pb2.ExtensionSpec(
    service_account="shop",
    resources=extension_pb2.ResourceWatchSet(
        items=[
            extension_pb2.ResourceWatch(
                resource="configmaps", namespaces=[NAMESPACE], index_paths=["data.n"]
            )
        ]
    ),
)


async def _fill(endpoint: Endpoint) -> None:
    async with aiohttp.ClientSession() as session:
        api = Api(endpoint, session)
        await api.call("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        base = f"/api/v1/namespaces/{NAMESPACE}"
        await api.call("POST", f"{base}/serviceaccounts", {"metadata": {"name": "shop"}})
        await grant(api, NAMESPACE, "shop", "", "configmaps", "secrets")
        for number in range(_OBJECTS):
            body = configmap(f"c{number}", n=str(number))
            await api.call("POST", f"{base}/configmaps", body)


@pytest.fixture(scope="module")
def fuzzed(
    devcluster_endpoint: Endpoint,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ServiceProcess]:
    """Give a service that is sent all this; at the end its log tells of no fault of its own."""
    asyncio.run(_fill(devcluster_endpoint))
    log = tmp_path_factory.mktemp("fuzz") / "service.log"
    service = ServiceProcess([f"hub={devcluster_endpoint.kubeconfig}"], log, log_level="warning")
    with service:
        yield service
        assert faults_of(service) == {}
    assert not errors_in(log)


@pytest.fixture(scope="module")
def wire(fuzzed: ServiceProcess) -> Iterator[Wire]:
    """Give a channel to it."""
    with grpc.insecure_channel(fuzzed.address) as channel:
        yield Wire(channel)


@pytest.fixture(autouse=True)
def registered(wire: Wire) -> Iterator[None]:
    """Have the extensions that requests speak of be there; and none afterwards."""
    wire.register(SPEC)
    yield
    wire.deregister_all()


def requests_to(name: str) -> st.SearchStrategy[list[bytes]]:
    """Draw what is sent in one call."""
    method = METHODS[name]
    one = encodings(method.input_type)
    most = _MESSAGES_OF_AN_UPLOAD if method.client_streaming else 1
    return st.lists(one, min_size=0 if method.client_streaming else 1, max_size=most)


def faults_of(service: ServiceProcess) -> dict[str, float]:
    """Return what the service counts as faults of its own."""
    url = f"http://127.0.0.1:{service.http_port}/metrics"
    with urllib.request.urlopen(url) as answer:
        lines = answer.read().decode().splitlines()
    names = ("watchcache_rpc_failures_total", "watchcache_informer_failures_total")
    counts = (line.rpartition(" ") for line in lines if line.startswith(names))
    return {name: float(count) for name, _, count in counts if float(count)}


def errors_in(log: Path) -> list[str]:
    """Return the lines in which the service tells of a fault of its own."""
    return [
        line
        for line in log.read_text(errors="replace").splitlines()
        if '"level": "error"' in line or line.startswith("Traceback")
    ]


@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", METHODS)
def test_every_answer_is_one_of_the_contract(name: str, wire: Wire, fuzzed: ServiceProcess) -> None:
    """A status of the contract that names something, never INTERNAL; and the next is served."""

    @examples
    @given(requests_to(name))
    def search(requests: list[bytes]) -> None:
        wire.send(name, requests)
        assert wire.send("ListClusters", [b""]) == "OK"

    search()
    assert faults_of(fuzzed) == {}


@pytest.mark.timeout(0)
def test_requests_leave_nothing_behind(wire: Wire, fuzzed: ServiceProcess) -> None:
    """The same odd requests again and again cost neither sockets nor memory."""
    kept: list[Requests] = []

    @settings(
        max_examples=max(_REPLAYED, EXAMPLES // 10),
        suppress_health_check=list(HealthCheck),
    )
    @given(
        st.sampled_from(sorted(METHODS)).flatmap(lambda n: st.tuples(st.just(n), requests_to(n)))
    )
    def collect(drawn: Requests) -> None:
        kept.append(drawn)

    collect()

    def replay() -> int:
        for name, requests in kept:
            wire.send(name, requests)
        wire.deregister_all()
        wire.register(SPEC)
        return memory_of(fuzzed.pid)

    replay()
    before = replay()
    sockets = sockets_of(fuzzed.pid)
    grown = min(replay() for _ in range(_ROUNDS)) - before
    assert grown < _GROWTH_BYTES_A_REQUEST * len(kept), f"grew by {grown} bytes"
    assert sockets_of(fuzzed.pid) <= sockets + 2
