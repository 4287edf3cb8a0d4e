"""An extension with a ttl lives as long as somebody watches it or registers it again."""

from __future__ import annotations

import asyncio

import watchcache
from tests.contract.api import Api, eventually
from tests.e2e.acting import grant, until

_TTL = "1s"


async def register(
    wc: watchcache.Connection, name: str, account: str, *, ttl: str | None = _TTL
) -> watchcache.Extension:
    """Register an extension of the ConfigMaps of its namespace."""
    return await wc.register(
        name,
        service_account=account,
        watch=["configmaps"],
        namespaces=[name.partition("/")[0]],
        ttl=ttl,
        wait="10s",
    )


async def is_there(wc: watchcache.Connection, name: str) -> bool:
    """Say whether an extension is registered."""
    try:
        await wc.extension(name)
    except watchcache.NotFoundError:
        return False
    return True


async def test_what_nobody_watches_is_freed_and_what_is_watched_is_not(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """The time runs only while there is no stream; who follows extensions is told why one ended."""
    await grant(api, namespace, account, "", "configmaps")
    watched, idle, lasting = (f"{namespace}/{name}" for name in ("watched", "idle", "lasting"))
    ext = await register(wc, watched, account)
    assert ext.status.expire_time is not None
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    assert (await ext.refresh()).expire_time is None
    await register(wc, lasting, account, ttl=None)
    await register(wc, idle, account)
    removed: list[tuple[str, str]] = []

    async def listen() -> None:
        async for change in wc.watch_extensions(namespace=namespace):
            match change:
                case watchcache.ExtensionRemoved(name=name, reason=reason):
                    removed.append((name, reason))

    async with asyncio.TaskGroup() as group:
        listening = group.create_task(listen())

        async def is_idle_gone() -> bool:
            return not await is_there(wc, idle)

        await eventually(is_idle_gone, "the one that nobody watches is freed")
        # It was registered first, so that its time would have been over before.
        assert await is_there(wc, watched)
        assert await is_there(wc, lasting)
        await stream.aclose()

        async def is_watched_gone() -> bool:
            return not await is_there(wc, watched)

        await eventually(is_watched_gone, "it is freed when its last stream has ended")

        async def are_both_told() -> bool:
            return removed == [("idle", "TTL_EXPIRED"), ("watched", "TTL_EXPIRED")]

        await eventually(are_both_told, "whoever follows extensions is told of both, and why")
        listening.cancel()
    assert await is_there(wc, lasting)


async def test_registering_again_begins_the_time_anew(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """The same spec renews; without a ttl in it the extension stays."""
    await grant(api, namespace, account, "", "configmaps")
    name = f"{namespace}/renewed"
    first = (await register(wc, name, account, ttl="60s")).status.expire_time
    ext = await register(wc, name, account, ttl="60s")
    assert ext.outcome == "UNCHANGED"
    assert first is not None
    assert ext.status.expire_time is not None
    assert ext.status.expire_time > first
    ext = await register(wc, name, account, ttl=None)
    assert ext.outcome == "UPDATED"
    assert ext.status.expire_time is None
