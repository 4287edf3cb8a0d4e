"""An extension from its registration to its end, as a controller's author sees it."""

from __future__ import annotations

import asyncio

import pytest

import watchcache
from tests.contract.api import Api, Endpoint, unique
from tests.e2e.acting import (
    configmap,
    deployment,
    exhaust,
    grant,
    grant_everywhere,
    next_events,
    until,
    wait_live,
    widget_definition,
)
from tests.e2e.hearing import Hearing, running_here
from tests.e2e.shift import Shift
from watchcache import EventType, SourceState


@pytest.mark.timeout(120)
async def test_what_is_missing_is_named_and_recovers_when_it_comes(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """A right and a CRD that are missing are named at once; granted and created, both go live."""
    group = f"{unique('g')}.example"
    await grant(api, namespace, account, "apps", "deployments")
    await api.create(f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment("web"))
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("settings", a="1"))

    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["deployments.apps", "configmaps", f"widgets.{group}"],
        namespaces=[namespace],
        wait="10s",
    )
    states = {source.label: source for source in ext.sources}
    assert states["deployments.apps"].state is SourceState.LIVE
    assert states["configmaps"].state is SourceState.FORBIDDEN
    assert states[f"widgets.{group}"].state is SourceState.GONE
    missing = states["configmaps"].missing_access
    assert missing is not None
    assert (set(missing.verbs), missing.resource, missing.namespace, missing.cluster) == (
        {"list", "watch"},
        "configmaps",
        namespace,
        "hub",
    )
    for part in ("list", "watch", "configmaps", namespace, "hub", f"{namespace}/{account}"):
        assert part in states["configmaps"].message
    assert f"widgets.{group}" in states[f"widgets.{group}"].message

    stream = ext.watch()
    opening = await until(stream, watchcache.Synced)
    events = [e for m in opening if isinstance(m, watchcache.Batch) for e in m.events]
    assert [(e.type, e.resource, e.key.name) for e in events] == [
        (EventType.ADDED, "deployments.apps", "web")
    ]

    await grant(api, namespace, account, "", "configmaps")
    await grant(api, namespace, account, group, "widgets")
    await api.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", widget_definition(group)
    )
    await wait_live(ext, "configmaps")
    await wait_live(ext, f"widgets.{group}")
    # Every namespace of a real cluster may get a ConfigMap of its own; this one has no controller.
    (added,) = await next_events(stream, 1)
    assert (added.type, added.resource, added.key.name) == (
        EventType.ADDED,
        "configmaps",
        "settings",
    )
    assert added.object["data"] == {"a": "1"}
    await stream.aclose()


async def test_a_stream_shows_exactly_what_happens(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """Edit, delete and recreate are three kinds of events, each once and in order."""
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="10s",
    )
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    created = await api.create(path, configmap("one", a="1"))
    changed = await api.patch(f"{path}/one", {"data": {"a": "2"}})
    await api.delete(f"{path}/one")
    again = await api.create(path, configmap("one", a="3"))
    events = await next_events(stream, 4)
    assert [(e.type, e.uid) for e in events] == [
        (EventType.ADDED, created["metadata"]["uid"]),
        (EventType.MODIFIED, created["metadata"]["uid"]),
        (EventType.DELETED, created["metadata"]["uid"]),
        (EventType.ADDED, again["metadata"]["uid"]),
    ]
    assert [e.object["data"]["a"] for e in events] == ["1", "2", "2", "3"]
    assert events[1].resource_version == changed["metadata"]["resourceVersion"]
    assert int(events[2].resource_version) > int(events[1].resource_version)
    await stream.aclose()


async def test_a_filter_tells_left_from_deleted(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """An object that ceases to match has LEFT; one that is deleted while it matches is DELETED."""
    await grant(api, namespace, account, "", "configmaps")
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("one", "two"):
        body = configmap(name)
        body["metadata"]["labels"] = {"tier": "gold"}
        await api.create(path, body)
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="10s",
    )
    stream = ext.watch(label_selector="tier=gold")
    await until(stream, watchcache.Synced)
    await api.patch(f"{path}/one", {"metadata": {"labels": {"tier": "silver"}}})
    await api.delete(f"{path}/two")
    await api.delete(f"{path}/one")
    await api.create(path, configmap("unseen"))
    body = configmap("three")
    body["metadata"]["labels"] = {"tier": "gold"}
    await api.create(path, body)
    events = await next_events(stream, 3)
    assert [(e.type, e.key.name) for e in events] == [
        (EventType.LEFT, "one"),
        (EventType.DELETED, "two"),
        (EventType.ADDED, "three"),
    ]
    await stream.aclose()


async def test_an_upstream_selector_tells_left_from_deleted_by_asking(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """Under a selector of the API server a removed label is LEFT and a deletion is DELETED."""
    base = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}"
    await grant(api, namespace, account, "", "configmaps")
    roles = await api.get(f"{base}/roles")
    role = roles["items"][0]["metadata"]["name"]
    await api.patch(
        f"{base}/roles/{role}",
        [{"op": "add", "path": "/rules/0/verbs/-", "value": "get"}],
        kind="json",
    )
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("one", "two"):
        body = configmap(name)
        body["metadata"]["labels"] = {"tier": "gold"}
        await api.create(path, body)
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[
            watchcache.Resource(
                "configmaps", namespaces=[namespace], label_selector="tier in (gold)"
            )
        ],
        wait="10s",
    )
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    await api.patch(f"{path}/one", {"metadata": {"labels": {"tier": "silver"}}})
    (left,) = await next_events(stream, 1)
    await api.delete(f"{path}/two")
    (deleted,) = await next_events(stream, 1)
    assert (left.type, left.key.name) == (EventType.LEFT, "one")
    assert (deleted.type, deleted.key.name) == (EventType.DELETED, "two")
    await stream.aclose()


async def test_a_change_of_the_spec_touches_only_what_changed(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """The same spec changes nothing; widening a scope hands its objects over without an event."""
    other = f"{namespace}-b"
    await api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    await grant_everywhere(api, namespace, account, "*", groups=("", "apps"))
    await api.create(f"/api/v1/namespaces/{namespace}/configmaps", configmap("near"))
    await api.create(f"/api/v1/namespaces/{other}/configmaps", configmap("far"))

    async def register(*watch: watchcache.Resource) -> watchcache.Extension:
        return await wc.register(
            f"{namespace}/shop", service_account=account, watch=list(watch), wait="10s"
        )

    near = watchcache.Resource("configmaps", namespaces=[namespace])
    deployments = watchcache.Resource("deployments.apps", namespaces=[namespace])
    ext = await register(near, deployments)
    assert ext.outcome == "CREATED"
    assert (await register(deployments, near)).outcome == "UNCHANGED"
    stream = ext.watch(resources=["configmaps"], namespaces=[namespace, other])
    await until(stream, watchcache.Synced)

    wide = watchcache.Resource("configmaps", namespaces=[namespace, other])
    ext = await register(wide, deployments)
    assert ext.outcome == "UPDATED"
    (far,) = await next_events(stream, 1)
    assert (far.type, far.key.name) == (EventType.ADDED, "far")

    every = watchcache.Resource("configmaps")
    ext = await register(every, deployments)
    marker = await api.create(f"/api/v1/namespaces/{other}/configmaps", configmap("marker"))
    (event,) = await next_events(stream, 1)
    assert (event.type, event.uid) == (EventType.ADDED, marker["metadata"]["uid"])

    await register(watchcache.Resource("configmaps", namespaces=[other]), deployments)
    (gone,) = await next_events(stream, 1)
    assert (gone.type, gone.key.name) == (EventType.LEFT, "near")
    assert gone.left_reason is watchcache.LeftReason.SCOPE
    await stream.aclose()


async def test_deregister_frees_and_tells_why(
    api: Api, wc: watchcache.Connection, namespace: str, account: str
) -> None:
    """A stream of a deregistered extension ends with NOT_FOUND; a second Deregister is no error."""
    await grant(api, namespace, account, "", "configmaps")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespaces=[namespace],
        wait="10s",
    )
    reader = await wc.extension(f"{namespace}/shop")
    stream = reader.watch()
    await until(stream, watchcache.Synced)
    assert await ext.deregister()
    with pytest.raises(watchcache.NotFoundError) as caught:
        await until(stream, watchcache.Batch)
    assert caught.value.reason == "EXTENSION_DEREGISTERED"
    assert not await wc.deregister(f"{namespace}/shop")


async def test_a_service_account_that_does_not_exist_is_refused(
    wc: watchcache.Connection, namespace: str
) -> None:
    """Register names the missing ServiceAccount, and registers nothing."""
    with pytest.raises(watchcache.FailedPreconditionError) as caught:
        await wc.register(f"{namespace}/shop", service_account="nobody", watch=["configmaps"])
    assert caught.value.reason == "SERVICE_ACCOUNT_GONE"
    assert f"{namespace}/nobody" in str(caught.value)
    with pytest.raises(watchcache.NotFoundError):
        await wc.extension(f"{namespace}/shop")


@pytest.mark.timeout(120)
async def test_an_extension_ends_with_its_service_account(
    api: Api, endpoint: Endpoint, namespace: str, account: str
) -> None:
    """A ServiceAccount that is deleted takes its extension with it, and streams are told."""
    await grant(api, namespace, account, "", "configmaps")
    shift = Shift()
    async with (
        running_here(Hearing(), endpoint, watch_timeout_seconds=5) as app,
        watchcache.connect(app.addresses[0]) as wc,
    ):
        shift.move_tokens(app)
        await wc.register(
            f"{namespace}/shop",
            service_account=account,
            watch=["configmaps"],
            namespaces=[namespace],
            wait="10s",
        )
        reader = await wc.extension(f"{namespace}/shop")
        stream = reader.watch()
        await until(stream, watchcache.Synced)
        await api.delete(f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}")
        # A young token is not given up at once, in case the API server only lags behind.
        shift.seconds = 60.0
        # A hot one is accepted for some seconds more, and a watch lives until it is reopened.
        with pytest.raises(watchcache.NotFoundError) as caught:
            await asyncio.wait_for(exhaust(stream), 90)
        assert caught.value.reason == "EXTENSION_SERVICE_ACCOUNT_GONE"
