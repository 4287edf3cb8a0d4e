"""Index paths in the client: what it sends, and what a mirror finds by them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.client.command import Command
from tests.unit.client.fake_service import FakeService, event, source_status
from tests.unit.client.scripted_watch import SNAPSHOT, ScriptedWatch, changes, mirror_of, status
from watchcache import InvalidArgumentError, Resource, Synced
from watchcache.extension import _filter
from watchcache.index_paths import values_at
from watchcache.spec import build_spec
from watchcache.v1alpha1 import extension_pb2
from watchcache.v1alpha1 import watch_cache_service_pb2 as service_pb2

NODE, PORTS = "spec.nodeName", "spec.ports[].port"


def _pod(name: str, node: str, *ports: int) -> bytes:
    spec = {"nodeName": node, "ports": [{"port": port} for port in ports]}
    return json.dumps({"metadata": {"name": name}, "spec": spec}).encode()


def _names(found: list[Any]) -> list[str]:
    return sorted(pod["metadata"]["name"] for pod in found)


@pytest.mark.parametrize(
    ("body", "path", "values"),
    [
        ('{"a":{"b":"x"}}', "a.b", ["x"]),
        ('{"a":{"b":1.50}}', "a.b", ["1.50"]),
        ('{"a":[true,false,null,{}]}', "a[]", ["false", "true"]),
        ('{"a":[{"b":1},{"b":2},3]}', "a[].b", ["1", "2"]),
        ('{"a":"x"}', "a[]", []),
        ('{"a":"x"}', "a.b", []),
        ("{}", "a", []),
    ],
)
def test_values_are_read_as_by_the_service(body: str, path: str, values: list[str]) -> None:
    """Texts, numbers as they are written, and booleans."""
    assert sorted(values_at(body.encode(), [path])) == [(path, value) for value in values]


async def test_a_mirror_finds_by_declared_paths() -> None:
    """The index follows changes and snapshots, and a namespace narrows it."""
    watch = ScriptedWatch()
    mirror = mirror_of(watch)
    async with mirror:
        await watch.say(
            SNAPSHOT,
            status(index_paths=[NODE, PORTS]),
            changes(
                event("ADDED", "a", body=_pod("a", "n1", 80, 443)),
                event("ADDED", "b", body=_pod("b", "n1"), namespace="team-b"),
                is_snapshot=True,
            ),
            Synced(),
        )
        assert _names(mirror.by_index("pods", NODE, "n1")) == ["a", "b"]
        assert _names(mirror.by_index("pods", NODE, "n1", namespace="team-b")) == ["b"]
        assert _names(mirror.by_index("pods", PORTS, "443")) == ["a"]
        assert mirror.by_index("pods", NODE, "n2") == []
        await watch.say(changes(event("MODIFIED", "a", rv=2, body=_pod("a", "n2", 80))))
        assert _names(mirror.by_index("pods", NODE, "n1")) == ["b"]
        assert _names(mirror.by_index("pods", NODE, "n2")) == ["a"]
        assert mirror.by_index("pods", PORTS, "443") == []
        await watch.say(changes(event("DELETED", "a", rv=3)))
        assert mirror.by_index("pods", NODE, "n2") == []


@pytest.mark.parametrize(
    ("path", "is_whole", "told"),
    [
        ("spec..x", True, "no field path"),
        ("spec.x", True, "not indexed by spec.x; register"),
        (NODE, False, "does not hold spec.nodeName"),
    ],
)
async def test_a_mirror_refuses_what_it_cannot_find_by(
    path: str, is_whole: bool, told: str
) -> None:
    """An empty answer would say that there is none."""
    watch = ScriptedWatch()
    watch.is_whole = is_whole
    async with mirror_of(watch) as mirror:
        await watch.say(SNAPSHOT, status(index_paths=[NODE]), Synced())
        with pytest.raises(InvalidArgumentError, match=told):
            mirror.by_index("pods", path, "n1")


async def test_an_informer_with_other_paths_is_another_one() -> None:
    """That the old one has stopped takes nothing away from the one that took over."""
    watch = ScriptedWatch()
    async with mirror_of(watch) as mirror:
        await watch.say_snapshot()
        await watch.say(status(index_paths=[NODE]), status(state="STOPPED"))
        assert mirror.by_index("pods", NODE, "n1") == []
        assert [source.index_paths for source in mirror.sources] == [(NODE,)]


def test_paths_of_a_registration_hold_for_every_entry_without_its_own() -> None:
    """And for content."""
    spec = build_spec(watch=["pods", Resource("nodes", index_paths=())], index_paths=[NODE])
    assert [list(item.index_paths) for item in spec.resources.items] == [[NODE], []]
    spec = build_spec(content="kind: Pod", index_paths=[NODE])
    assert list(spec.content.index_paths) == [NODE]
    with pytest.raises(InvalidArgumentError, match="index_paths"):
        build_spec(watch=["pods"], index_paths=NODE)


def test_fields_of_a_filter_have_one_value_or_several() -> None:
    """None at all would let everything through."""
    sent = _filter({"fields": {NODE: ["n1", "n2"], "kind": "Pod"}})
    assert [(each.path, each.value) for each in sent.fields] == [
        (NODE, "n1"),
        (NODE, "n2"),
        ("kind", "Pod"),
    ]
    with pytest.raises(InvalidArgumentError, match="has no value"):
        _filter({"fields": {NODE: []}})


async def test_the_command_registers_and_lists_by_paths(service: FakeService, run: Command) -> None:
    """By --index and --field."""
    service.extension = extension_pb2.Extension(
        namespace="team-a", name="shop", spec={}, sources=[source_status()]
    )
    result = await run("register", "team-a/shop", "-w", "pods", "--index", NODE, "--index", "kind")
    assert result.code == 0
    [request] = service.of_type(service_pb2.RegisterRequest)
    assert list(request.spec.resources.items[0].index_paths) == [NODE, "kind"]
    fields = ("--field", f"{NODE}=n1", "--field", f"{NODE}=a=b")
    assert (await run("list", "team-a/shop", *fields)).code == 0
    [listed] = service.of_type(service_pb2.ListObjectsRequest)
    assert [(each.path, each.value) for each in listed.filter.fields] == [
        (NODE, "n1"),
        (NODE, "a=b"),
    ]
    result = await run("list", "team-a/shop", "--field", NODE)
    assert result.code == 2
    assert "no field with a value" in result.errors


async def test_a_file_names_paths(service: FakeService, run: Command) -> None:
    """For all entries or for one; and what the service tells of a spec is read back."""
    spec = b"name: team-a/shop\nindexPaths: [kind]\nwatch:\n- resource: pods\n"
    spec += b"  indexPaths: [spec.nodeName]\n- nodes\n"
    service.extension = extension_pb2.Extension(namespace="team-a", name="shop")
    assert (await run("register", "-f", "-", stdin=spec)).code == 0
    told = (
        b'{"namespace":"team-a","name":"shop","spec":{"content":{"manifests":"YQ==","indexPaths":'
    )
    assert (await run("register", "-f", "-", stdin=told + b'["kind"]}}}')).code == 0
    told = b'{"namespace":"team-a","name":"shop","spec":{"resources":{"items":[{"resource":"pods",'
    assert (await run("register", "-f", "-", stdin=told + b'"indexPaths":["kind"]}]}}}')).code == 0
    named, content, items = (each.spec for each in service.of_type(service_pb2.RegisterRequest))
    assert [list(each.index_paths) for each in named.resources.items] == [[NODE], ["kind"]]
    assert list(content.content.index_paths) == ["kind"]
    assert list(items.resources.items[0].index_paths) == ["kind"]
