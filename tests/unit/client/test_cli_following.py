"""What `watchcache watch` says of informers that are not live, and how it outlives a restart."""

from __future__ import annotations

import grpc
import pytest

from tests.unit.client.command import Command
from tests.unit.client.fake_service import (
    DEREGISTERED,
    NOT_FOUND,
    UNAVAILABLE,
    FakeService,
    Fault,
    batch,
    event,
    source,
    source_status,
    started,
    synced,
)
from watchcache.cli import following
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


async def test_an_extension_that_a_restart_lost_is_waited_for(
    service: FakeService, run: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said once, with the way to register it; then the watch begins anew."""
    monkeypatch.setattr(following, "_LOOK_SECONDS", 0.0)
    found = service_pb2.GetExtensionResponse(extension=service.extension)
    service.answers["GetExtension"] = [found, NOT_FOUND, *[UNAVAILABLE] * 4, NOT_FOUND, found]
    service.scripts = [
        [started(), source(), UNAVAILABLE],
        [NOT_FOUND],
        [started(), source(), batch(event("ADDED", "a")), synced()],
    ]
    result = await run("watch", "team-a/shop", "--until-synced")
    assert result.code == 0
    assert result.output.splitlines()[-1].startswith("LIVE         1 object in ")
    told = [line for line in result.errors.splitlines() if "registered" in line]
    assert len(told) == 1
    assert told[0].startswith("team-a/shop is not registered any more: a restart of the service")
    assert told[0].endswith("(watchcache register team-a/shop ...)")


async def test_an_extension_that_somebody_ended_is_not_waited_for(
    service: FakeService, run: Command
) -> None:
    """Nor one that nobody registered in the first place, or that is refused meanwhile."""
    service.scripts = [[started(), DEREGISTERED], [NOT_FOUND]]
    assert (await run("watch", "team-a/shop")).code == 1
    found = service_pb2.GetExtensionResponse(extension=service.extension)
    service.answers["GetExtension"] = [NOT_FOUND]
    assert (await run("watch", "team-a/shop")).code == 1
    assert len(service.watches) == 1
    refused = Fault(grpc.StatusCode.PERMISSION_DENIED, "REFUSED")
    service.answers["GetExtension"] = [found, refused]
    result = await run("watch", "team-a/shop")
    assert result.code == 1
    assert result.errors.endswith("error: told to fail\n")


ENDS = {
    "all live": (["LIVE", "LIVE"], "LIVE         1 object in", "", 0),
    "some live": (["LIVE", "FORBIDDEN", "GONE"], "SYNCED       1 object in", "1 of 3", 3),
    "stale": (["STALE", "GONE"], "SYNCED       1 object in", "0 of 2", 3),
    "none": (["FORBIDDEN"], "SYNCED       1 object in", "0 of 1 informer live", 4),
    "one that was removed": (["LIVE", "STOPPED"], "LIVE         1 object in", "", 0),
}


@pytest.mark.parametrize("name", ENDS)
async def test_a_snapshot_that_lacks_something_is_not_said_to_be_live(
    service: FakeService, run: Command, name: str
) -> None:
    """How many informers are live is said, and decides the exit code as for `status`."""
    states, line, count, code = ENDS[name]
    sources = [source(f"kind{number}s", state) for number, state in enumerate(states)]
    service.scripts = [[started(), *sources, batch(event("ADDED", "a")), synced()]]
    result = await run("watch", "team-a/shop", "--until-synced")
    last = result.output.splitlines()[-1]
    assert last.startswith(line)
    assert count in last
    assert result.code == code


@pytest.mark.parametrize(
    ("resource", "told"),
    [
        pytest.param("pod", "did you mean pods?", id="the singular"),
        pytest.param("deploy", "did you mean deployments.apps?", id="its beginning"),
        pytest.param("secrets", "it watches deployments.apps, pods", id="another"),
        pytest.param("pods", "", id="what is watched"),
    ],
)
async def test_what_is_not_watched_is_warned_of(
    service: FakeService, run: Command, resource: str, told: str
) -> None:
    """A stream of it would be empty for ever."""
    watched = [source_status("pods"), source_status("deployments.apps")]
    service.extension = extension_pb2.Extension(namespace="team-a", name="shop", sources=watched)
    service.scripts = [[started(), synced()]]
    result = await run("watch", "team-a/shop", resource, "--until-synced")
    assert told in result.errors
    assert ("warning:" in result.errors) == bool(told)
