"""What the README shows is run as it stands there: its controller, and its calls by reflection."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import json_format
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
    ProtoReflectionDescriptorDatabase,
)

import watchcache
from tests.e2e.service import ServiceProcess
from tools.demo_story import MANIFESTS, PODS, pod
from watchcache_devcluster import DevCluster

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "127.0.0.1:7443"
_LIMIT_SECONDS = 30.0


def blocks(page: str, language: str = "") -> list[str]:
    """Return the code blocks of a page in one language."""
    text = (ROOT / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for name, code in found if name == language]


def calls(page: str) -> Iterator[list[str]]:
    """Yield the grpcurl calls of a page, word for word."""
    for block in blocks(page):
        if block.startswith("grpcurl"):
            yield shlex.split(block.replace("\\\n", ""))


@pytest.fixture
async def service(devcluster: DevCluster, tmp_path: Path) -> AsyncIterator[ServiceProcess]:
    """Give a service beside a dev cluster, set up as the README has it."""
    kubeconfig = devcluster.write_kubeconfig(tmp_path / "kubeconfig")
    process = ServiceProcess([str(kubeconfig)], tmp_path / "service.log")
    await asyncio.to_thread(process.start)
    yield process
    await asyncio.to_thread(process.stop)


async def _line(output: asyncio.StreamReader) -> str:
    async with asyncio.timeout(_LIMIT_SECONDS):
        return (await output.readline()).decode().rstrip()


@pytest.mark.timeout(120)
async def test_the_controller_prints_what_the_readme_says(
    devcluster: DevCluster, service: ServiceProcess
) -> None:
    """Only the port is another one; and it prints again at the change that the README makes."""
    manifests = (ROOT / "examples/team-a.yaml").read_text(encoding="utf-8")
    await devcluster.load(manifests)
    [code] = [block for block in blocks("README.md", "python") if "asyncio.run(main())" in block]
    assert f'connect("{ADDRESS}")' in code
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "`devcluster/team-a/web 2`" in text
    assert "kubectl -n team-a scale deploy/web --replicas 5" in text
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-u", "-c", code.replace(ADDRESS, service.address)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    errors = b""
    try:
        assert await _line(process.stdout) == "devcluster/team-a/web 2"
        await devcluster.patch("deployments.apps", "web", {"spec": {"replicas": 5}}, "team-a")
        assert await _line(process.stdout) == "devcluster/team-a/web 5"
        assert process.returncode is None
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    assert errors == b"", "Ctrl-C ends it without a traceback"


class Reflected:
    """Calls methods that it knows from reflection alone, with requests in JSON, as grpcurl does."""

    def __init__(self, channel: grpc.Channel) -> None:
        self._channel = channel
        self._pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))

    def answers(self, path: str, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Call a method, named as grpcurl has it; yield its answers."""
        service, _, name = path.rpartition("/")
        method: MethodDescriptor = self._pool.FindServiceByName(service).methods_by_name[name]
        message = json_format.ParseDict(request, GetMessageClass(method.input_type)())
        coders = (type(message).SerializeToString, GetMessageClass(method.output_type).FromString)
        if method.server_streaming:
            stream = self._channel.unary_stream(f"/{path}", *coders)
            answers = stream(message, timeout=_LIMIT_SECONDS)
        else:
            answers = iter([self._channel.unary_unary(f"/{path}", *coders)(message)])
        for answer in answers:
            yield json_format.MessageToDict(answer, descriptor_pool=self._pool)


def _carry_out(call: list[str], address: str, until: str) -> list[dict[str, Any]]:
    """Carry out a call of grpcurl; return its answers up to the first with this field."""
    program, plaintext, flag, request, where, path = call
    assert (program, plaintext, flag, where) == ("grpcurl", "-plaintext", "-d", ADDRESS)
    found = []
    with grpc.insecure_channel(address) as channel:
        for answer in Reflected(channel).answers(path, json.loads(request)):
            found.append(answer)
            if until in answer:
                break
    return found


@pytest.fixture
async def shop(devcluster: DevCluster, service: ServiceProcess) -> None:
    """Have what the demo has."""
    await devcluster.load(MANIFESTS)
    for name in PODS:
        await devcluster.create("pods", pod(name))
    async with watchcache.connect(service.address) as wc:
        await wc.register(
            "demo/shop", service_account="shop", watch=["pods"], namespaces=["demo"], wait="30s"
        )


async def test_the_grpcurl_call_of_the_readme_watches(shop: None, service: ServiceProcess) -> None:
    """The request is one that the service takes, and the snapshot comes as JSON."""
    [call] = calls("README.md")
    answers = await asyncio.to_thread(_carry_out, call, service.address, "synced")
    names = {
        event["object"]["key"]["name"]
        for answer in answers
        for event in answer.get("batch", {}).get("events", [])
    }
    assert names == set(PODS)


async def test_the_grpcurl_call_of_the_api_page_registers(
    shop: None, service: ServiceProcess
) -> None:
    """Its spec is a whole one."""
    [call] = calls("docs/api.md")
    [answer] = await asyncio.to_thread(_carry_out, call, service.address, "extension")
    assert answer["outcome"] == "REGISTER_OUTCOME_CREATED"
    assert [source["state"] for source in answer["extension"]["sources"]] == ["SOURCE_STATE_LIVE"]
