"""The command as its users start it: what it writes where, and how it exits."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from importlib.metadata import version
from typing import Any

import grpc
import pytest
import yaml
from google.protobuf.timestamp_pb2 import Timestamp
from google.rpc import error_details_pb2 as details_pb2

from tests.unit.client.command import Command
from tests.unit.client.fake_service import (
    DEREGISTERED,
    UNAVAILABLE,
    FakeService,
    Fault,
    batch,
    bookmark,
    event,
    reset,
    serving,
    source,
    source_status,
    started,
    synced,
)
from tests.unit.client.waiting import eventually
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


async def _start(address: str, *arguments: str) -> asyncio.subprocess.Process:
    """Start the command as a process of its own."""
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from watchcache.cli import main; main()",
        *arguments,
        env={**os.environ, "WATCHCACHE_ADDRESS": address},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _extension(state: str = "LIVE", *sources: extension_pb2.SourceStatus) -> Any:
    return extension_pb2.Extension(
        namespace="team-a",
        name="shop",
        generation=1,
        spec={"service_account": "shop"},
        state=extension_pb2.ExtensionState.Value(f"EXTENSION_STATE_{state}"),
        sources=sources,
    )


@pytest.mark.parametrize(
    ("state", "code"), [("LIVE", 0), ("DEGRADED", 3), ("FAILED", 4), ("SYNCING", 5)]
)
async def test_status_exits_by_the_state(
    service: FakeService, run: Command, state: str, code: int
) -> None:
    """And writes plain text where no terminal reads it."""
    service.extension = _extension(state, source_status())
    for arguments in (("status", "team-a/shop"), ("status",)):
        result = await run(*arguments)
        assert result.code == code
        assert state in result.output
        assert "\x1b" not in result.output
        assert result.errors == ""


async def test_status_is_written_for_programs(service: FakeService, run: Command) -> None:
    """JSON and YAML hold the same, by the JSON form of the contract; names stand alone."""
    service.extension = _extension("LIVE", source_status(object_count=3))
    as_json = json.loads((await run("status", "team-a/shop", "-o", "json")).output)
    assert as_json["sources"][0]["objectCount"] == 3
    assert as_json["state"] == "EXTENSION_STATE_LIVE"
    assert yaml.safe_load((await run("status", "-o", "yaml")).output) == [as_json]
    assert (await run("status", "-o", "name")).output == "team-a/shop\n"
    assert (await run("status", "team-a/shop", "-o", "name")).output == "team-a/shop\n"


async def test_status_follows_changes(service: FakeService, run: Command) -> None:
    """All that there is, and then again at each change; a break ends it."""
    broken = Fault(grpc.StatusCode.UNAVAILABLE, "DRAINING", "it leaves")
    other = _extension("FAILED")
    other.name = "other"
    gone = service_pb2.WatchExtensionsResponse(
        removed={"namespace": "team-a", "name": "other", "reason": "DEREGISTERED"}
    )
    synced_once = service_pb2.WatchExtensionsResponse(synced={})
    service.answers["WatchExtensions"] = [
        service_pb2.WatchExtensionsResponse(extension=_extension("SYNCING")),
        service_pb2.WatchExtensionsResponse(extension=other),
        synced_once,
        service_pb2.WatchExtensionsResponse(extension=_extension("LIVE")),
        synced_once,
        gone,
        broken,
    ]
    result = await run("status", "-w")
    assert result.code == 1
    assert result.errors == "removed team-a/other: DEREGISTERED\nerror: it leaves\n"
    tables = [table.splitlines() for table in result.output.split("EXTENSION")[1:]]
    states = [[line.split()[2] for line in table[1:]] for table in tables]
    assert states == [["FAILED", "SYNCING"], ["FAILED", "LIVE"], ["LIVE"]]
    service.extension = _extension("LIVE")
    result = await run("status", "team-a/shop", "--watch", "-o", "name")
    assert result.output.startswith("team-a/shop\n")


async def test_deregistering_says_whether_there_was_anything(
    service: FakeService, run: Command
) -> None:
    """Both are success."""
    assert await run("deregister", "team-a/shop") == (
        0,
        "deregistered team-a/shop\n",
        "",
    )
    service.answers["Deregister"] = [service_pb2.DeregisterResponse(existed=False)]
    result = await run("deregister", "team-a/shop")
    assert result.output == "not registered team-a/shop\n"


async def test_clusters_are_listed(service: FakeService, run: Command) -> None:
    """In each format."""
    answer = service_pb2.ListClustersResponse(clusters=[extension_pb2.Cluster(name="hub")])
    service.answers["ListClusters"] = [answer] * 3
    assert "hub" in (await run("clusters")).output
    assert (await run("clusters", "-o", "name")).output == "hub\n"
    assert json.loads((await run("clusters", "-o", "json")).output)[0]["name"] == "hub"


async def test_an_object_is_shown(service: FakeService, run: Command) -> None:
    """As a table, whole, or by name; an answer that may be old is said to be."""
    body = b'{"metadata": {"name": "a", "creationTimestamp": "2020-01-01T00:00:00Z"}}'
    contact = Timestamp()
    contact.GetCurrentTime()
    answer = service_pb2.GetObjectResponse(
        object=event("ADDED", "a", body=body).object, freshness={"last_contact_time": contact}
    )
    service.answers["GetObject"] = [answer] * 3
    result = await run("get", "team-a/shop", "pods", "team-a/a")
    assert result.output.splitlines()[0].split()[:4] == ["RESOURCE", "CLUSTER", "NAMESPACE", "NAME"]
    assert result.output.splitlines()[1].split()[:4] == ["pods", "hub", "team-a", "a"]
    assert result.errors.startswith("warning: this may be old")
    result = await run("get", "team-a/shop", "pods", "team-a/a", "-o", "json")
    assert json.loads(result.output)["metadata"]["name"] == "a"
    result = await run("get", "team-a/shop", "pods", "team-a/a", "-o", "name")
    assert result.output == "pods/hub/team-a/a\n"
    result = await run("get", "team-a/shop", "pods", "a")
    assert result.code == 1
    assert result.errors == (
        'error: pods "a" not found; if it has a namespace, write NAMESPACE/NAME\n'
    )
    result = await run("get", "team-a/shop", "pods", "team-a/b")
    assert result.errors == 'error: pods "team-a/b" not found\n'


async def test_reads_and_watches_can_be_asked_to_be_fresh(
    service: FakeService, run: Command
) -> None:
    """By flags that say the same for each of them."""
    service.scripts = [[started(), synced()]]
    flags = ("--consistent", "--wait", "2s")
    await run("get", "team-a/shop", "pods", "team-a/a", *flags)
    await run("list", "team-a/shop", "pods", *flags)
    await run("watch", "team-a/shop", "pods", *flags, "--until-synced")
    expected = service_pb2.ReadConsistency(consistent=True, wait={"seconds": 2})
    for kind in ("GetObject", "ListObjects", "Watch"):
        (request,) = service.of_type(getattr(service_pb2, f"{kind}Request"))
        assert request.consistency == expected
    await run("get", "team-a/shop", "pods", "team-a/a", "--min-resource-version", "15")
    request = service.of_type(service_pb2.GetObjectRequest)[-1]
    assert request.consistency == service_pb2.ReadConsistency(min_resource_version="15")
    result = await run("list", "team-a/shop", "--wait", "2s")
    assert (result.code, "nothing to wait for" in result.errors) == (2, True)


async def test_objects_are_listed(service: FakeService, run: Command) -> None:
    """As a table with or without its header, by name, or as a List."""
    answer = service_pb2.ListObjectsResponse(
        objects=[event("ADDED", name).object for name in ("a", "b")], freshness={"is_live": True}
    )
    service.answers["ListObjects"] = [answer] * 4 + [service_pb2.ListObjectsResponse()]
    command = ("list", "team-a/shop", "pods", "-n", "team-a", "-l", "app=web")
    result = await run(*command)
    assert (result.code, result.errors) == (0, "")
    assert [line.split()[0] for line in result.output.splitlines()] == ["RESOURCE", "pods", "pods"]
    result = await run(*command, "--no-headers")
    assert len(result.output.splitlines()) == 2
    result = await run(*command, "-o", "name")
    assert result.output == "pods/hub/team-a/a\npods/hub/team-a/b\n"
    result = await run(*command, "-o", "yaml")
    assert [each["metadata"]["name"] for each in yaml.safe_load(result.output)["items"]] == [
        "a",
        "b",
    ]
    result = await run(*command)
    assert result.output.split() == ["RESOURCE", "CLUSTER", "NAMESPACE", "NAME", "VERSION", "AGE"]
    request = service.of_type(service_pb2.ListObjectsRequest)[0]
    assert request.filter.label_selector == "app=web"
    assert list(request.filter.namespaces) == ["team-a"]


async def test_a_watch_is_written_as_it_comes(service: FakeService, run: Command) -> None:
    """Objects to the output; breaks and informers that are not live beside it."""
    caught_up = [batch(event("ADDED", "c", rv=3), token=b"t2"), synced(b"t3")]
    service.scripts = [
        [
            started(),
            source(),
            source("secrets", "FORBIDDEN", message="needs list"),
            batch(event("ADDED", "a")),
            synced(b"t0"),
            source("secrets"),
            batch(event("DELETED", "a", rv=2), token=b"t1"),
            UNAVAILABLE,
        ],
        [started("RESUMED"), *caught_up, UNAVAILABLE],
        [
            started("RESUMED"),
            reset(),
            batch(event("ADDED", "b", rv=4)),
            synced(b"t4"),
            bookmark(b"t5"),
            DEREGISTERED,
        ],
    ]
    result = await run("watch", "team-a/shop")
    lines = [line.split() for line in result.output.splitlines()]
    assert [line[0] for line in lines] == [
        *("SNAPSHOT", "+", "SYNCED", "-"),
        *("RESUMED", "+", "LIVE"),
        *("RESUMED", "RESET", "+", "LIVE"),
    ]
    assert lines[1][1:] == ["pods", "team-a/a", "rv", "1"]
    assert lines[3][1:] == ["pods", "team-a/a", "DELETED"]
    assert " ".join(lines[2]).endswith("ms; 1 of 2 informers live")
    counts = [" ".join(line[1:3]) for line in lines if line[0] in ("SYNCED", "LIVE")]
    assert counts == ["1 object", "1 change", "1 object"]
    told = result.errors.splitlines()
    assert told[:2] == ["secrets on hub: FORBIDDEN needs list", "secrets on hub: LIVE"]
    assert told[2].startswith("disconnected: told to fail; again in")
    assert told[-1] == "error: told to fail"
    assert result.code == 1


@pytest.mark.parametrize("output", ["json", "yaml", "name"])
async def test_a_watch_is_written_for_programs(
    service: FakeService, run: Command, output: str
) -> None:
    """A record for each change, and nothing else; it can end with the snapshot."""
    changes = [event("ADDED", "a", body=b'{"n": 1}'), event("LEFT", "b", left="SCOPE")]
    service.scripts = [[started(), source(), batch(*changes), synced()]]
    result = await run("watch", "team-a/shop", "-o", output, "--until-synced")
    assert (result.code, result.errors) == (0, "")
    if output == "name":
        assert result.output == "ADDED pods/hub/team-a/a\nLEFT pods/hub/team-a/b\n"
        return
    if output == "json":
        records = [json.loads(line) for line in result.output.splitlines()]
    else:
        records = list(yaml.safe_load_all(result.output))
    assert [record["type"] for record in records] == ["ADDED", "LEFT"]
    assert records[0]["object"] == {"n": 1}
    assert records[1]["leftReason"] == "SCOPE"


async def test_errors_are_told_without_a_traceback(service: FakeService, run: Command) -> None:
    """Beside the output: what is wrong, and each rule that is broken."""
    violations = [
        details_pb2.BadRequest.FieldViolation(field="spec.ttl", description="is too short"),
        details_pb2.BadRequest.FieldViolation(field="name", description="is no DNS label"),
    ]
    details = (details_pb2.BadRequest(field_violations=violations),)
    service.answers["Register"] = [
        Fault(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_SPEC", "no", details)
    ]
    service.answers["GetExtension"] = [
        Fault(grpc.StatusCode.NOT_FOUND, "EXTENSION_NOT_FOUND", "team-a/shop is not registered")
    ]
    assert await run("register", "team-a/shop", "-w", "pods") == (
        2,
        "",
        "error: the request breaks a rule:\n  spec.ttl: is too short\n  name: is no DNS label\n",
    )
    assert await run("status", "team-a/shop") == (
        1,
        "",
        (
            "error: team-a/shop is not registered; register it with `watchcache register` "
            "(a restart of the service forgets registrations)\n"
        ),
    )
    assert (await run("register", "-w", "pods")).errors == (
        "error: the request breaks a rule:\n  name: name the extension: NAMESPACE/NAME\n"
    )


async def test_nobody_there_is_an_error_like_any_other() -> None:
    """With the address and what to do, and nothing of the library's own noise."""
    async with serving(FakeService()) as service:
        pass
    process = await _start(service.address, "clusters")
    output, errors = await process.communicate()
    assert (process.returncode, output) == (1, b"")
    told = f"error: cannot reach watchcache at {service.address}: Connection refused; "
    assert errors.decode().startswith(told)
    assert len(errors.splitlines()) == 1


async def test_wrong_use_exits_with_two(service: FakeService, run: Command) -> None:
    """As every command does: whether the parser finds out, the client or the service."""
    for arguments in (
        ("stauts",),
        ("watch",),
        ("status", "-o", "xml"),
        ("status", "shop"),
        ("status", "--address", "host:port"),
        ("status", "--ca-file", "/nonexistent"),
        ("register", "team-a/shop", "-w", "pods", "--ttl", "soon"),
        ("register", "team-a/shop", "-w", "pods", "--wait", "long"),
        ("register", "team-a/shop", "-w", "pods", "--projection", "half"),
        ("register", "team-a/shop", "--content", "/nonexistent"),
        ("completion", "cmd"),
    ):
        result = await run(*arguments)
        assert result.code == 2, arguments
        assert "Traceback" not in result.errors
    assert service.requests == []


async def test_the_version_is_printed(service: FakeService, run: Command) -> None:
    """It is that of the distribution, and no service is asked."""
    assert await run("--version") == (0, f"watchcache {version('watchcache')}\n", "")
    assert service.requests == []


async def test_a_spec_file_that_cannot_be_used_is_wrong_use(
    service: FakeService, run: Command
) -> None:
    """One error that names the field, the rule and the mend, exit 2, and nothing is sent."""
    result = await run("register", "-f", "-", stdin=b"name: a/b\nserviceAccount: 5\n")
    assert result == (
        2,
        "",
        (
            "error: the request breaks a rule:\n"
            "  -: serviceAccount has to be text, not 5; put it in quotes\n"
        ),
    )
    assert service.requests == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
async def test_completion_is_printed(service: FakeService, run: Command, shell: str) -> None:
    """A script for the shell that is named."""
    result = await run("completion", shell)
    assert result.code == 0
    assert "_WATCHCACHE_COMPLETE=" in result.output
    assert "_WATCHCACHE_COMPLETE" not in os.environ


async def test_the_printed_script_completes() -> None:
    """The shell asks the command itself, by the variable that the script sets."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "from watchcache.cli import main; main()",
        env={
            **os.environ,
            "_WATCHCACHE_COMPLETE": "complete_bash",
            "COMP_WORDS": "watchcache de",
            "COMP_CWORD": "1",
        },
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate()
    assert output.split() == [b"deregister"]


async def test_a_watch_leaves_when_it_is_stopped(service: FakeService, run: Command) -> None:
    """The service sees the stream end."""
    service.scripts = [[started(), source()]]
    process = await _start(service.address, "watch", "team-a/shop")
    assert process.stdout
    await process.stdout.readline()
    await eventually(lambda: service.streams_open)
    process.send_signal(signal.SIGINT)
    await process.communicate()
    await eventually(lambda: not service.streams_open)
    assert process.returncode == 130


_SLOW_TO_LEAVE = """
import asyncio
from watchcache.cli import commands, main

async def work():
    try:
        print("up", flush=True)
        await asyncio.Event().wait()
    finally:
        print("leaving", flush=True)
        await asyncio.Event().wait()

@commands.app.command()
def slow():
    commands.run(work())

main()
"""


async def test_a_second_interrupt_ends_the_command_at_once() -> None:
    """By the signal's own default: no traceback, wherever it finds the process."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        _SLOW_TO_LEAVE,
        "slow",
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout
    for told in (b"up\n", b"leaving\n"):
        assert await process.stdout.readline() == told
        process.send_signal(signal.SIGINT)
    _, errors = await process.communicate()
    assert (process.returncode, errors) == (-signal.SIGINT, b"")
