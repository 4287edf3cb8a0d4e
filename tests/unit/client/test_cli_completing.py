"""What a shell is offered: names that the service knows, and nothing when it does not answer."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys

import pytest

from tests.unit.client.fake_service import FakeService, serving, source_status
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


async def complete(address: str, words: str) -> list[str]:
    """Let the command complete the last word, as bash asks it."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", "from watchcache.cli import main; main()"),
        env={
            **os.environ,
            "WATCHCACHE_ADDRESS": address,
            "_WATCHCACHE_COMPLETE": "complete_bash",
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split(" ")) - 1),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    output, errors = await process.communicate()
    assert errors == b""
    return output.decode().split()


OFFERED = {
    "extensions": ("watchcache status team", ["team-a/shop"]),
    "resources of an extension": ("watchcache get team-a/shop ", ["deployments.apps", "pods"]),
    "more resources": ("watchcache list team-a/shop pods dep", ["deployments.apps"]),
    "resources for a new one": ("watchcache register team-a/new -w po", ["pods"]),
    "clusters": ("watchcache watch team-a/shop --cluster h", ["hub"]),
    "projections": ("watchcache register x/y --projection w", ["without-managed-fields"]),
}


@pytest.mark.parametrize("name", OFFERED)
async def test_names_that_the_service_knows_are_offered(service: FakeService, name: str) -> None:
    """Those that begin as what was typed."""
    watched = [source_status("pods"), source_status("deployments.apps")]
    service.extension = extension_pb2.Extension(namespace="team-a", name="shop", sources=watched)
    clusters = [extension_pb2.Cluster(name="hub"), extension_pb2.Cluster(name="edge")]
    service.answers["ListClusters"] = [service_pb2.ListClustersResponse(clusters=clusters)]
    words, offered = OFFERED[name]
    assert await complete(service.address, words) == offered


@pytest.mark.parametrize("address", ["", "no address at all"])
async def test_nothing_is_offered_or_said_when_nobody_answers(address: str) -> None:
    """There is no place for a text while somebody types."""
    async with serving(FakeService()) as service:
        pass
    assert await complete(address or service.address, "watchcache status t") == []
