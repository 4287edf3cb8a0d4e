"""Syncs of a cluster that does not answer wait in a queue, and say where in it they are."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import watchcache
from tests.chaos.proxy import Proxy
from tests.contract.api import Api, eventually
from tests.e2e.acting import grant
from tests.e2e.service import ServiceProcess
from watchcache import ExtensionState, SourceState

_EXTENSIONS = 8
_LIMIT_SECONDS = 60.0


@pytest.fixture
def service_settings() -> dict[str, Any]:
    """Let one sync run at a time, and nobody wait for a network that is frozen."""
    return {"max_concurrent_syncs": 1, "account_check_seconds": 0.1}


def _status(address: str, name: str) -> str:
    """Return what the command says of an extension."""
    ended = subprocess.run(
        [Path(sys.executable).with_name("watchcache"), "status", name],
        env={**os.environ, "WATCHCACHE_ADDRESS": address},
        capture_output=True,
        text=True,
        timeout=_LIMIT_SECONDS,
        check=False,
    )
    return ended.stdout


@pytest.mark.timeout(180)
async def test_who_waits_for_a_sync_says_how_many_are_before_it(
    far_service: ServiceProcess, upstream: Proxy, api: Api, namespace: str, account: str
) -> None:
    """In the status, on the command line, and anew as the queue moves; in the end all are LIVE."""
    await grant(api, namespace, account, "", "configmaps")
    async with watchcache.connect(far_service.address) as wc:
        spec: dict[str, Any] = {
            "service_account": account,
            "watch": ["configmaps"],
            "namespaces": [namespace],
        }
        # With this one, discovery and the token are there.
        await wc.register(f"{namespace}/live", **spec, wait="20s")
        upstream.freeze(new_ones=True)
        names = [f"{namespace}/shop-{number:02}" for number in range(_EXTENSIONS)]
        extensions = [await wc.register(name, **spec) for name in names]
        # The first one's sync is under way, and gets nowhere.
        for before, extension in enumerate(extensions[1:]):
            (source,) = (await extension.refresh()).sources
            assert (source.state, source.reason) == (SourceState.PENDING, "QUEUED")
            place = "next" if not before else "one before it" if before == 1 else f"{before} before"
            assert f", {place}" in source.message
        told = await asyncio.to_thread(_status, far_service.address, names[-1])
        assert re.search(rf"configmaps: waiting .*, {_EXTENSIONS - 2} before it;", told), told
        await extensions[1].deregister()

        async def has_moved() -> bool:
            (source,) = (await extensions[-1].refresh()).sources
            return f", {_EXTENSIONS - 3} before it;" in source.message

        await eventually(has_moved, "the last one is told that one has gone")
        upstream.thaw()
        del extensions[1]

        async def all_live() -> bool:
            statuses = [await each.refresh() for each in extensions]
            return all(each.state is ExtensionState.LIVE for each in statuses)

        await eventually(all_live, "all are live", seconds=_LIMIT_SECONDS)
