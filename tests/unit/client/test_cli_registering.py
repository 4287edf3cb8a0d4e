"""`watchcache register`: what it sends, from flags and from files, and what it refuses to send."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.client.command import Command
from tests.unit.client.fake_service import FakeService, source_status
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2


def _extension(state: str = "LIVE", *sources: extension_pb2.SourceStatus) -> Any:
    return extension_pb2.Extension(
        namespace="team-a",
        name="shop",
        generation=1,
        spec={"service_account": "shop"},
        state=extension_pb2.ExtensionState.Value(f"EXTENSION_STATE_{state}"),
        sources=sources,
    )


async def test_registering_shows_what_came_of_it(
    service: FakeService, run: Command, tmp_path: Path
) -> None:
    """Flags go before the file; only with --wait does the state decide the exit code."""
    spec = tmp_path / "spec.yaml"
    spec.write_text("name: team-a/shop\nserviceAccount: a\nttl: 10m\nwatch: [pods]\n")
    service.extension = _extension("DEGRADED", source_status())
    result = await run("register", "-f", str(spec), "-s", "shop", "-n", "x")
    assert result.code == 0
    assert result.output.startswith("created      team-a/shop\n")
    request = service.of_type(service_pb2.RegisterRequest)[0]
    assert request.spec.service_account == "shop"
    assert request.spec.ttl.seconds == 600
    assert list(request.spec.resources.items[0].namespaces) == ["x"]
    await run("register", "team-a/x", "-w", "pods", "--namespace-selector", "tier=gold")
    request = service.of_type(service_pb2.RegisterRequest)[1]
    assert request.spec.resources.items[0].namespace_selector == "tier=gold"
    result = await run("register", "team-a/x", "-w", "Pod", "--wait", "1s", "-o", "json")
    assert result.code == 3
    assert json.loads(result.output)["name"] == "x"


@pytest.mark.parametrize("is_in_file", [False, True])
async def test_watching_nothing_has_to_be_asked_for(
    service: FakeService, run: Command, is_in_file: bool
) -> None:
    """It would stop every informer of an extension that is there."""
    given = ("-f", "-") if is_in_file else ("team-a/shop", "-s", "shop")
    spec = b"name: team-a/shop\nserviceAccount: shop\n"
    result = await run("register", *given, stdin=spec)
    assert result.code == 2
    assert "--watch-nothing" in result.errors
    assert service.requests == []
    assert (await run("register", *given, "--watch-nothing", stdin=spec)).code == 0
    request = service.of_type(service_pb2.RegisterRequest)[0]
    assert request.spec.WhichOneof("watch_set") == "resources"
    assert not request.spec.resources.items
    result = await run("register", *given, "--watch-nothing", "-w", "pods", stdin=spec)
    assert result.code == 2


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param(
            {
                "service_account": "shop",
                "clusters": ["hub"],
                "ttl": {"seconds": 90},
                "resources": {
                    "items": [
                        {"resource": "pods", "namespaces": ["a"], "label_selector": "x=y"},
                        {"group": "apps", "version": "v1", "resource": "deployments"},
                        {"group": "example.com", "kind": "Widget", "projection": 3},
                        {"resource": "secrets", "namespace_selector": "tier=gold"},
                    ]
                },
            },
            id="resources",
        ),
        pytest.param(
            {
                "service_account": "shop",
                "content": {"manifests": b"kind: Pod", "only_these_objects": True},
            },
            id="content",
        ),
        pytest.param({"resources": {}}, id="nothing"),
    ],
)
@pytest.mark.parametrize("output", ["json", "yaml"])
async def test_what_status_writes_can_be_registered(
    service: FakeService, run: Command, spec: dict[str, Any], output: str
) -> None:
    """The same spec comes of it, also on another service."""
    service.extension = _extension("LIVE", source_status(object_count=3))
    service.extension.spec.CopyFrom(extension_pb2.ExtensionSpec(**spec))
    written = (await run("status", "team-a/shop", "-o", output)).output
    assert (await run("register", "-f", "-", stdin=written.encode())).code == 0
    [request] = service.of_type(service_pb2.RegisterRequest)
    assert (request.namespace, request.name) == ("team-a", "shop")
    assert request.spec == extension_pb2.ExtensionSpec(**spec)


async def test_what_only_looks_like_a_state_is_refused(service: FakeService, run: Command) -> None:
    """The error names what is wrong with it."""
    result = await run("register", "-f", "-", stdin=b"spec: {ttl: soon}")
    assert result.code == 2
    assert "is not what `status -o json` writes" in result.errors


async def test_content_is_read_from_the_input(service: FakeService, run: Command) -> None:
    """With exactly its objects if asked."""
    arguments = ("register", "team-a/shop", "--content", "-", "--only-these-objects")
    result = await run(*arguments, stdin=b"kind: Pod")
    assert result.code == 0
    content = service.of_type(service_pb2.RegisterRequest)[0].spec.content
    assert (content.manifests, content.only_these_objects) == (b"kind: Pod", True)
