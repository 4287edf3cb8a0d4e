"""Reads that are as fresh as asked for: one's own write, and what the API server holds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import watchcache
from tests.contract.api import Api, unique
from tests.contract.objects import version_of
from tests.controlplane.server import ControlPlane
from tests.e2e.acting import configmap, grant
from tests.e2e.service import ServiceProcess

_WRITES = 200
_MANY = 600


@pytest.fixture
def configmaps(namespace: str) -> str:
    """Give the path of the ConfigMaps of the test's namespace."""
    return f"/api/v1/namespaces/{namespace}/configmaps"


async def registered(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, *resources: str
) -> watchcache.Extension:
    """Register an extension of these resources of a namespace, and wait until it is live."""
    await grant(api, namespace, account, "", *resources)
    return await wc.register(
        f"{namespace}/fresh",
        service_account=account,
        watch=list(resources),
        namespaces=[namespace],
        wait="20s",
    )


async def test_writers_beside_each_other_read_what_they_have_written(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """Each write of each is read at once, whatever the others do: never an older object."""
    ext = await registered(api, wc, namespace, account, "configmaps")

    async def write(name: str) -> None:
        await api.create(configmaps, configmap(name, count="0"))
        for count in range(1, 26):
            written = await api.patch(f"{configmaps}/{name}", {"data": {"count": str(count)}})
            version = written["metadata"]["resourceVersion"]
            key = f"{namespace}/{name}"
            item = await ext.get("configmaps", key, min_resource_version=version)
            assert item is not None
            assert item.object["data"]["count"] == str(count)
            found = ext.list("configmaps", namespaces=[namespace], min_resource_version=version)
            counts = {each.key.name: each.object["data"] async for each in found}
            assert counts[name] == {"count": str(count)}
            item = await ext.get("configmaps", key, consistent=True)
            assert item is not None
            assert item.object["data"]["count"] == str(count)

    async with asyncio.TaskGroup() as group:
        for number in range(8):
            group.create_task(write(f"writer-{number}"))


async def test_what_one_has_written_is_read(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """With the version of each of many writes, read at once: never an older object."""
    ext = await registered(api, wc, namespace, account, "configmaps")
    await api.create(configmaps, configmap("counter", count="0"))
    for count in range(1, _WRITES + 1):
        written = await api.patch(f"{configmaps}/counter", {"data": {"count": str(count)}})
        version = written["metadata"]["resourceVersion"]
        item = await ext.get("configmaps", f"{namespace}/counter", min_resource_version=version)
        assert item is not None
        assert int(item.object["data"]["count"]) == count
    deleted = await api.create(configmaps, configmap("short"))
    await api.delete(f"{configmaps}/short")
    assert version_of(deleted)
    assert await ext.get("configmaps", f"{namespace}/short", consistent=True) is None


async def test_what_somebody_else_has_written_is_read(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """Whatever was written before the call: an object, a list of them, the start of a watch."""
    ext = await registered(api, wc, namespace, account, "configmaps")
    await api.create(configmaps, configmap("counter", count="0"))
    for count in range(1, 31):
        await api.patch(f"{configmaps}/counter", {"data": {"count": str(count)}})
        item = await ext.get("configmaps", f"{namespace}/counter", consistent=True)
        assert item is not None
        assert item.object["data"]["count"] == str(count)
        await api.create(configmaps, configmap(f"made-{count}"))
        listed = {each.key.name async for each in ext.list("configmaps", consistent=True)}
        assert f"made-{count}" in listed
        await api.delete(f"{configmaps}/made-{count}")
        listed = {each.key.name async for each in ext.list("configmaps", consistent=True)}
        assert f"made-{count}" not in listed
    await api.create(configmaps, configmap("last"))
    async with ext.mirror(consistent=True) as mirror:
        await mirror.wait_synced(timeout="20s")
        assert mirror.get("configmaps", f"{namespace}/last") is not None


async def test_a_quiet_resource_is_proven_fresh(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """Though no event ever says so: writes elsewhere move the version of the cluster on."""
    ext = await registered(api, wc, namespace, account, "configmaps", "secrets")
    await api.create(configmaps, configmap("still"))
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    for count in range(10):
        other = await api.create(secrets, {"metadata": {"name": f"other-{count}"}})
        version = other["metadata"]["resourceVersion"]
        name = f"{namespace}/still"
        assert await ext.get("configmaps", name, consistent=True) is not None
        assert await ext.get("configmaps", name, min_resource_version=version) is not None
        names = {each.key.name async for each in ext.list(consistent=True)}
        assert {"still", f"other-{count}"} <= names


async def test_many_objects_are_proven_fresh_by_a_bookmark(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """A list of all of them would cost too much; one of them is still asked for by name."""
    made = [f"many-{number}" for number in range(_MANY)]
    for start in range(0, _MANY, 50):
        async with asyncio.TaskGroup() as group:
            for name in made[start : start + 50]:
                group.create_task(api.create(configmaps, configmap(name)))
    ext = await registered(api, wc, namespace, account, "configmaps", "secrets")
    secrets = f"/api/v1/namespaces/{namespace}/secrets"
    await api.create(secrets, {"metadata": {"name": "other"}})
    listing = ext.list("configmaps", consistent=True, wait="10s", view="key")
    assert len([each async for each in listing]) == _MANY
    await api.delete(f"{configmaps}/many-7")
    listing = ext.list("configmaps", consistent=True, wait="10s", view="key")
    assert len([each async for each in listing]) == _MANY - 1
    assert await ext.get("configmaps", f"{namespace}/many-8", consistent=True) is not None
    assert await ext.get("configmaps", f"{namespace}/many-7", consistent=True) is None


async def test_what_cannot_be_met_is_said(
    api: Api, wc: watchcache.Connection, namespace: str, account: str, configmaps: str
) -> None:
    """A version from the future in time; what does not compare, or is of two resources, at once."""
    ext = await registered(api, wc, namespace, account, "configmaps", "secrets")
    made = await api.create(configmaps, configmap("there"))
    name = f"{namespace}/there"
    future = str(version_of(made) + 1_000_000)
    with pytest.raises(watchcache.UnavailableError, match="the API server itself said") as caught:
        await ext.get("configmaps", name, min_resource_version=future, wait="1s")
    assert caught.value.reason == "NOT_FRESH_ENOUGH"
    assert caught.value.metadata["resource"] == "configmaps"
    assert caught.value.retry_delay_seconds
    for version in ("abc", "007", "0"):
        with pytest.raises(watchcache.InvalidArgumentError, match="does not compare"):
            await ext.get("configmaps", name, min_resource_version=version)
    with pytest.raises(watchcache.InvalidArgumentError, match="2 resources"):
        _ = [each async for each in ext.list(min_resource_version=future)]
    with pytest.raises(watchcache.NotFoundError, match="not registered"):
        await wc.extension(f"{namespace}/{unique('other')}")


def halted(plane: ControlPlane) -> str:
    """Stop a server without a word: its connections stay open."""
    plane.pause()
    return "gave no answer"


def killed(plane: ControlPlane) -> str:
    """End a server: its connections are refused."""
    plane.kill()
    return "refused"


@pytest.mark.controlplane
@pytest.mark.parametrize("stop", [halted, killed])
async def test_a_server_that_does_not_answer_holds_up_only_those_who_ask_it(
    own_control_plane: ControlPlane, tmp_path: Path, stop: Callable[[ControlPlane], str]
) -> None:
    """It is named within the wait; plain reads are answered as ever. Later all is well again."""
    plane = own_control_plane
    flags: dict[str, Any] = {"identity": "caller", "longest_backoff_seconds": 1}
    with ServiceProcess(
        [f"hub={plane.kubeconfig()}"], tmp_path / "service.log", **flags
    ) as service:
        async with watchcache.connect(service.address) as wc:
            ext = await wc.register("default/fresh", watch=["namespaces"], wait="20s")
            assert await ext.get("namespaces", "default", consistent=True) is not None
            told = await asyncio.to_thread(stop, plane)
            clock = asyncio.get_running_loop().time
            began = clock()
            reading = asyncio.create_task(
                ext.get("namespaces", "default", consistent=True, wait="2s")
            )
            for _ in range(20):
                assert await ext.get("namespaces", "default") is not None
            assert not reading.done()
            with pytest.raises(watchcache.UnavailableError, match=told) as caught:
                await reading
            assert caught.value.reason == "NOT_FRESH_ENOUGH"
            assert caught.value.metadata["resource"] == "namespaces"
            assert clock() - began < 10.0, "the channel does not try again by itself"
            if stop is halted:
                plane.resume()
            else:
                await asyncio.to_thread(plane.start_apiserver)
            assert await ext.get("namespaces", "default", consistent=True, wait="20s") is not None
