"""Sets of namespaces chosen by label, against a real API server and the dev cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import watchcache
from tests.contract.api import Api, eventually, unique
from tests.e2e.acting import configmap, grant, grant_everywhere, next_events, until
from watchcache import EventType, ExtensionState, LeftReason, Resource, SourceState


class Tier:
    """Namespaces with a label of the test's own."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._value = unique("tier")
        self.selector = f"tier={self._value}"

    async def create(self, *, is_labelled: bool = True, **configmaps: str) -> str:
        """Make a namespace with ConfigMaps, given by name with what they hold."""
        name = unique("set")
        labels = {"tier": self._value} if is_labelled else {}
        await self._api.create("/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
        for each, value in configmaps.items():
            await self.put(name, each, value)
        return name

    async def put(self, namespace: str, name: str, value: str = "") -> None:
        """Make a ConfigMap."""
        path = f"/api/v1/namespaces/{namespace}/configmaps"
        await self._api.create(path, configmap(name, value=value))

    async def label(self, namespace: str, *, is_labelled: bool) -> None:
        """Have a namespace match, or match no longer."""
        patch = {"metadata": {"labels": {"tier": self._value if is_labelled else None}}}
        await self._api.patch(f"/api/v1/namespaces/{namespace}", patch)

    async def delete(self, namespace: str) -> None:
        """Delete a namespace, which takes what is in it along."""
        self._api.endpoint.run_controllers()
        await self._api.delete(f"/api/v1/namespaces/{namespace}")


@pytest.fixture
def tier(api: Api) -> Tier:
    """Give the namespaces of the test."""
    return Tier(api)


def _told(event: watchcache.Event[Any]) -> tuple[EventType, str, LeftReason | None]:
    return event.type, f"{event.key.namespace}/{event.key.name}", event.left_reason


async def _until_status(
    ext: watchcache.Extension, holds: Callable[[watchcache.ExtensionStatus], bool]
) -> watchcache.ExtensionStatus:
    async def is_so() -> bool:
        return holds(await ext.refresh())

    await eventually(is_so, "the extension is as it should be")
    return ext.status


def _namespaces(status: watchcache.ExtensionStatus) -> set[str]:
    return {source.namespace for source in status.sources if not source.namespace_selector}


async def test_namespaces_come_and_go(
    api: Api, namespace: str, account: str, tier: Tier, wc: watchcache.Connection
) -> None:
    """What comes to match is ADDED, what ceases has LEFT, what is deleted is DELETED."""
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    first = await tier.create(a="1")
    await tier.create(is_labelled=False, other="1")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[Resource("configmaps", namespace_selector=tier.selector)],
        wait="20s",
    )
    assert ext.state is ExtensionState.LIVE
    (chosen,) = [source for source in ext.sources if source.namespace_selector]
    assert (chosen.namespace_selector, chosen.namespace_count) == (tier.selector, 1)
    assert chosen.resource == "configmaps"
    stream = ext.watch()
    opening = await until(stream, watchcache.Synced)
    events = [e for m in opening if isinstance(m, watchcache.Batch) for e in m]
    assert [_told(event) for event in events] == [(EventType.ADDED, f"{first}/a", None)]

    second = await tier.create(b="1", c="1")
    events = await next_events(stream, 2)
    assert {_told(event) for event in events} == {
        (EventType.ADDED, f"{second}/b", None),
        (EventType.ADDED, f"{second}/c", None),
    }
    await tier.label(first, is_labelled=False)
    (event,) = await next_events(stream, 1)
    assert _told(event) == (EventType.LEFT, f"{first}/a", LeftReason.SCOPE)
    await tier.label(first, is_labelled=True)
    (event,) = await next_events(stream, 1)
    assert _told(event) == (EventType.ADDED, f"{first}/a", None)

    await tier.delete(second)
    events = await next_events(stream, 2)
    assert {_told(event) for event in events} == {
        (EventType.DELETED, f"{second}/b", None),
        (EventType.DELETED, f"{second}/c", None),
    }
    status = await _until_status(ext, lambda status: _namespaces(status) == {first})
    assert status.state is ExtensionState.LIVE
    await stream.aclose()


async def test_a_token_leads_over_a_set_that_has_changed(
    api: Api, namespace: str, account: str, tier: Tier, wc: watchcache.Connection
) -> None:
    """Who was away is told what joined, what left and what was deleted, and nothing else."""
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    leaves, dies = await tier.create(a="1"), await tier.create(b="1")
    await tier.create(stays="1")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[Resource("configmaps", namespace_selector=tier.selector)],
        wait="20s",
    )
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    await stream.aclose()
    joins = await tier.create(c="1")
    await tier.label(leaves, is_labelled=False)
    await tier.delete(dies)

    def has_followed(status: watchcache.ExtensionStatus) -> bool:
        watched = _namespaces(status)
        return joins in watched and not {leaves, dies} & watched

    await _until_status(ext, has_followed)
    again = ext.watch(resume_token=stream.resume_token)
    events = await next_events(again, 3)
    assert {_told(event) for event in events} == {
        (EventType.ADDED, f"{joins}/c", None),
        (EventType.LEFT, f"{leaves}/a", LeftReason.SCOPE),
        (EventType.DELETED, f"{dies}/b", None),
    }
    await again.aclose()


async def test_an_empty_set_is_live_and_holds_nothing(
    api: Api, namespace: str, account: str, tier: Tier, wc: watchcache.Connection
) -> None:
    """Register waits for the set; a list is empty and fresh; the first namespace is found."""
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=["configmaps"],
        namespace_selector=tier.selector,
        wait="20s",
    )
    assert ext.state is ExtensionState.LIVE
    assert [source.namespace_count for source in ext.sources] == [0]
    assert [item async for item in ext.list("configmaps")] == []
    async with ext.mirror() as mirror:
        await mirror.wait_synced("configmaps", timeout="20s")
        assert mirror.list("configmaps") == []
        found = await tier.create(a="1")
        # As fresh as the API server: that the namespace matches is known by then.
        items = [item async for item in ext.list("configmaps", consistent=True)]
        assert [item.key.namespace for item in items] == [found]
        item = await ext.get("configmaps", f"{found}/a", consistent=True)
        assert item is not None


async def test_a_missing_right_on_namespaces_is_said_and_stops_nothing_else(
    api: Api, namespace: str, account: str, tier: Tier, wc: watchcache.Connection
) -> None:
    """Its status names exactly the verbs; what is named goes on; once granted, it is LIVE."""
    await grant_everywhere(api, namespace, account, "configmaps")
    await grant(api, namespace, account, "", "secrets")
    found = await tier.create(a="1")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[
            Resource("configmaps", namespace_selector=tier.selector),
            Resource("secrets", namespaces=[namespace]),
        ],
        wait="20s",
    )
    assert ext.state is ExtensionState.DEGRADED
    (chosen,) = ext.not_live
    assert (chosen.resource, chosen.state) == ("configmaps", SourceState.FORBIDDEN)
    assert chosen.missing_access == watchcache.AccessRule(
        ("list", "watch"), "", "namespaces", "", "hub"
    )
    assert "needs list and watch on namespaces in all namespaces of cluster hub" in chosen.message
    with pytest.raises(watchcache.FailedPreconditionError, match="namespaces"):
        [item async for item in ext.list("configmaps")]
    await grant_everywhere(api, namespace, account, "namespaces")
    status = await _until_status(ext, lambda status: status.state is ExtensionState.LIVE)
    assert _namespaces(status) == {namespace, found}


async def test_another_selector_touches_only_what_changed(
    api: Api, namespace: str, account: str, tier: Tier, wc: watchcache.Connection
) -> None:
    """A namespace that matches before and after keeps its informer: nothing is told of it."""
    await grant_everywhere(api, namespace, account, "namespaces", "configmaps")
    stays, goes = await tier.create(a="1"), await tier.create(b="1")
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[Resource("configmaps", namespace_selector=tier.selector)],
        wait="20s",
    )
    before = {source.namespace: source.state_time for source in ext.sources}
    stream = ext.watch()
    await until(stream, watchcache.Synced)
    ext = await wc.register(
        f"{namespace}/shop",
        service_account=account,
        watch=[Resource("configmaps", namespace_selector=f"kubernetes.io/metadata.name={stays}")],
        wait="20s",
    )
    (event,) = await next_events(stream, 1)
    assert _told(event) == (EventType.LEFT, f"{goes}/b", LeftReason.SCOPE)
    status = await _until_status(ext, lambda status: _namespaces(status) == {stays})
    (source,) = [each for each in status.sources if each.namespace == stays]
    assert source.state_time == before[stays]
    await stream.aclose()


@pytest.mark.parametrize(
    ("entries", "field", "told"),
    [
        (
            [Resource("nodes", namespace_selector="a=b")],
            "spec.resources.items.namespace_selector",
            "nodes of cluster hub is not namespaced",
        ),
        (
            [Resource("pods", namespace_selector="a=b c")],
            "spec.resources.items[0].namespace_selector",
            "expected ','",
        ),
        (
            [Resource("pods", namespaces=["x"], namespace_selector="a=b")],
            "spec.resources.items[0].namespace_selector",
            "leave one of the two out",
        ),
        (
            [
                Resource("pods", namespace_selector="a=b"),
                Resource("pods", namespace_selector="a=c", label_selector="x"),
            ],
            "spec.resources",
            "could cover the same pods objects",
        ),
    ],
    ids=["cluster-scoped", "malformed", "beside-namespaces", "overlap"],
)
async def test_what_is_refused(
    namespace: str,
    account: str,
    wc: watchcache.Connection,
    entries: list[Resource],
    field: str,
    told: str,
) -> None:
    """The answer names the field, the rule and the mend."""
    with pytest.raises(watchcache.InvalidArgumentError) as refused:
        await wc.register(f"{namespace}/shop", service_account=account, watch=entries)
    (violation,) = refused.value.field_violations
    assert violation.field == field
    assert told in violation.description
