"""Custom kinds that change under an informer, on a real kube-apiserver: it follows, others rest."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.contract.api import Api, Endpoint, eventually
from tests.contract.definitions import DEFINITIONS, CustomKind, define, new_kind
from tests.controlplane.server import ControlPlane
from tests.items import source_spec
from tests.reports.converter import Breakage, Converter
from tests.reports.follower import Follower, following
from watchcache_server.clusters.cluster import Cluster, ClusterOptions
from watchcache_server.clusters.kubeconfig import read_context
from watchcache_server.clusters.loading import load_context
from watchcache_server.kubernetes.transport import Limits
from watchcache_server.model.specs import SourceSpec
from watchcache_server.model.states import LeftReason, SourceState

LIVE, STALE, GONE, UNREACHABLE = (
    SourceState.LIVE,
    SourceState.STALE,
    SourceState.GONE,
    SourceState.UNREACHABLE,
)
# What is said of a kind whose webhook is broken so.
_SAID = {
    Breakage.REFUSED: "connection refused",
    Breakage.STATUS_500: "an error on the server",
    Breakage.GARBAGE: "parse error",
    Breakage.HANGING: "no answer",
}
real_server = pytest.mark.parametrize(
    "endpoint", [pytest.param("real", marks=pytest.mark.controlplane)], indirect=True
)


def widgets(
    kind: CustomKind, namespace: str = "", *, version: str = "", by_kind: bool = False
) -> SourceSpec:
    """Return the spec of an informer of a kind; without a version it is the preferred one."""
    return source_spec(
        "" if by_kind else kind.plural,
        kind=kind.kind if by_kind else "",
        cluster="hub",
        group=kind.group,
        version=version,
        namespace=namespace,
    )


@contextlib.asynccontextmanager
async def undisturbed(api: Api, hub: Cluster, namespace: str) -> AsyncIterator[list[Follower]]:
    """Run informers of other kinds, which list nothing again and are LIVE all the time."""
    other = new_kind()
    await define(api, other)
    configmaps = source_spec("configmaps", cluster="hub", namespace=namespace)
    async with (
        following(hub, configmaps) as first,
        following(hub, widgets(other, namespace)) as second,
    ):
        others = [first, second]
        for each in others:
            await each.wait_for(lambda each=each: each.state_now is LIVE)  # type: ignore[misc]
            each.states.clear()
        began = [len(each.requests) for each in others]
        yield others
        for each, count in zip(others, began, strict=True):
            assert {state for state, _ in each.states} <= {LIVE}
            # A list of one object only asks the server where it is.
            asked = [r.query for r in each.requests[count:] if "limit=1" not in r.query]
            assert all("watch=true" in query for query in asked), asked
            assert not any("sendInitialEvents" in query for query in asked), asked
            assert not any(event == "relist" for event, _ in each.counted_events)


@real_server
@pytest.mark.timeout(120)
async def test_kubernetes_79610_a_kind_may_come_back_as_another(
    api: Api, hub: Cluster, namespace: str
) -> None:
    """kubernetes/kubernetes#79610: with another scope, and then under another plural name."""
    kind = new_kind()
    await define(api, kind)
    await api.create(kind.path(namespace), kind.object("w"))
    async with (
        undisturbed(api, hub, namespace),
        following(hub, widgets(kind)) as everywhere,
        following(hub, widgets(kind, namespace)) as within,
        following(hub, widgets(kind, by_kind=True)) as by_kind,
    ):
        followers = (everywhere, within, by_kind)
        for each in followers:
            await each.wait_for(lambda each=each: "w" in each.held)  # type: ignore[misc]
        await api.delete(kind.definition_path)
        for each in followers:
            await each.wait_for(lambda each=each: not each.held)  # type: ignore[misc]
            assert all(not is_there for _, _, is_there in each.told), "as DELETED, by the stream"

        wide = dataclasses.replace(kind, is_namespaced=False)
        await define(api, wide)
        await api.create(wide.everywhere, wide.object("wide"))
        await everywhere.wait_for(lambda: list(everywhere.held) == ["wide"])
        await by_kind.wait_for(lambda: list(by_kind.held) == ["wide"])
        assert everywhere.held["wide"].namespace == ""
        await within.wait_for(lambda: within.state_now is GONE)
        assert within.state is not None
        assert within.state[1] == "INVALID_SCOPE"

        await api.delete(wide.definition_path)
        await everywhere.wait_for(lambda: not everywhere.held)
        renamed = dataclasses.replace(kind, plural="gadgets")
        await define(api, renamed)
        await api.create(renamed.path(namespace), renamed.object("renamed"))
        await by_kind.wait_for(lambda: list(by_kind.held) == ["renamed"])
        for each in (everywhere, within):
            await each.wait_for(lambda each=each: each.state_now is GONE)  # type: ignore[misc]
            assert (each.held, each.state and each.state[1]) == ({}, "KIND_NOT_SERVED")

        await api.delete(renamed.definition_path)
        await define(api, kind)
        await api.create(kind.path(namespace), kind.object("again"))
        for each in followers:
            await each.wait_for(lambda each=each: list(each.held) == ["again"])  # type: ignore[misc]


def versions(kind: CustomKind, *, served: str, storage: str) -> dict[str, Any]:
    """Return the patch by which a kind serves these versions, separated by blanks."""
    spec = kind.definition()["spec"]
    for version in spec["versions"]:
        version["served"] = version["name"] in served.split()
        version["storage"] = version["name"] == storage
    return {"spec": {"versions": spec["versions"]}}


@real_server
@pytest.mark.timeout(120)
async def test_kubernetes_84494_versions_of_a_kind_come_and_go(
    api: Api, hub: Cluster, namespace: str
) -> None:
    """kubernetes/kubernetes#84494: another storage version changes nothing of what is read.

    A version that is served no more is GONE to who has asked for it, and another one to who has
    not. Objects that were stored in the former version are read all the same.
    """
    kind = new_kind(versions=("v2", "v1"))
    await define(api, kind)
    await api.create(kind.path(namespace), kind.object("old"))
    async with (
        undisturbed(api, hub, namespace),
        following(hub, widgets(kind, namespace)) as preferred,
        following(hub, widgets(kind, namespace, version="v1")) as first,
        following(hub, widgets(kind, namespace, version="v2")) as second,
    ):
        followers = (preferred, first, second)
        for each in followers:
            await each.wait_for(lambda each=each: "old" in each.held)  # type: ignore[misc]
        version = preferred.held["old"].resource_version

        await api.patch(kind.definition_path, versions(kind, served="v1 v2", storage="v1"))
        await api.create(kind.path(namespace), kind.object("new"))
        for each in followers:
            await each.wait_for(lambda each=each: "new" in each.held)  # type: ignore[misc]
            await each.wait_for(lambda each=each: each.state_now is LIVE)  # type: ignore[misc]
            assert (each.held["old"].resource_version, each.purged) == (version, [])
            assert [name for name, _, _ in each.told if name == "old"] == []

        await api.patch(kind.definition_path, versions(kind, served="v1", storage="v1"))
        await second.wait_for(lambda: second.state_now is GONE)
        assert second.state is not None
        assert "version v2 is not served; served: v1" in second.state[2]
        await preferred.wait_for(lambda: preferred.purged == [LeftReason.KIND_GONE])
        await preferred.wait_for(lambda: sorted(preferred.held) == ["new", "old"])
        assert b"/v1" in preferred.held["old"].body
        assert preferred.held["old"].resource_version == version
        assert first.purged == []

        await api.patch(kind.definition_path, versions(kind, served="v1 v2", storage="v1"))
        await second.wait_for(lambda: sorted(second.held) == ["new", "old"])
        last = await api.patch(f"{kind.path(namespace)}/old", {"spec": {"size": 7}})
        for each in followers:
            await each.wait_for(
                lambda each=each: (
                    each.held["old"].resource_version  # type: ignore[misc]
                    == last["metadata"]["resourceVersion"]
                )
            )


@real_server
@pytest.mark.timeout(120)
async def test_controller_runtime_1085_a_kind_that_cannot_be_converted_is_one_kind(
    api: Api, endpoint: Endpoint, namespace: str, control_plane: ControlPlane
) -> None:
    """kubernetes-sigs/controller-runtime#1085, kubernetes/kubernetes#101078, #110720.

    The real server keeps the watch open and says nothing, not even a bookmark: a watch that has
    brought nothing is asked about. What is held stays, as STALE, and the reason is said; another
    version of the kind, which needs no conversion, and other kinds notice nothing.
    """
    config = await load_context(read_context(endpoint.kubeconfig))
    hub = Cluster("hub", config, options=ClusterOptions(limits=Limits(response_seconds=8.0)))
    try:
        async with undisturbed(api, hub, namespace), asyncio.TaskGroup() as group:
            for breakage in _SAID:
                converter = Converter(control_plane.credentials)
                group.create_task(break_and_mend(api, hub, namespace, converter, breakage))
    finally:
        await hub.close()


async def break_and_mend(
    api: Api, hub: Cluster, namespace: str, converter: Converter, breakage: Breakage
) -> None:
    """Break the webhook of a kind of its own, and mend it."""
    kind = new_kind(versions=("v1", "v2"))
    spec = widgets(kind, namespace, version="v2")
    async with converter:
        await define_converted(api, kind, converter, namespace)
        await api.create(kind.path(namespace), kind.object("before"))
        async with (
            following(hub, widgets(kind, namespace, version="v1")) as stored,
            following(hub, spec) as converted,
        ):
            for each in (stored, converted):
                await each.wait_for(lambda each=each: "before" in each.held)  # type: ignore[misc]
            await converter.break_by(breakage)
            await api.create(kind.path(namespace), kind.object("meanwhile"))
            async with following(hub, spec) as late:
                await converted.wait_for(lambda: converted.state_now is STALE)
                assert converted.state is not None
                assert _SAID[breakage] in converted.state[2]
                assert (list(converted.held), converted.purged) == (["before"], [])
                assert sorted(stored.held) == ["before", "meanwhile"]
                assert stored.state_now is LIVE
                # Who comes only now has nothing yet, and is told why too.
                await late.wait_for(lambda: late.state_now is UNREACHABLE)
                assert late.state is not None
                assert _SAID[breakage] in late.state[2]
                await converter.break_by(Breakage.NOTHING)
                await converted.wait_for(lambda: "meanwhile" in converted.held)
                await converted.wait_for(lambda: converted.state_now is LIVE)
                await late.wait_for(lambda: sorted(late.held) == ["before", "meanwhile"])
            assert converted.purged == []


async def define_converted(
    api: Api, kind: CustomKind, converter: Converter, namespace: str
) -> None:
    """Create the definition of a kind that a webhook converts; return once both are served."""
    await api.create(DEFINITIONS, converter.definition(kind))

    async def are_served() -> bool:
        answers = [await api.call("GET", kind.path(namespace, each)) for each in kind.versions]
        return all(answer.status == 200 for answer in answers)

    await eventually(are_served, "both versions are served")
