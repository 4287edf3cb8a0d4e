"""Reports of wrong positions: expired versions, relists from the past, replays, bookmarks.

Each test is named after its report, and says what must hold instead.
"""

from __future__ import annotations

import json

import pytest

from tests.unit.informer.shell import (
    Shell,
    added,
    bookmark,
    deleted,
    error,
    initial_end,
    item,
    modified,
)
from watchcache_server.informer.decoding import EventDecoder, WatchEvent
from watchcache_server.informer.effects import Advance, Apply, CloseStream, Count, List
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.informer.streams import EventStream
from watchcache_server.model.states import Projection, SourceState

SERVED_FOR = 20.0


def read(*lines: str | bytes) -> list[WatchEvent]:
    """Decode what a watch of Widgets sent."""
    decoder = EventDecoder(api_version="g/v1", kind="Widget", projection=Projection.FULL)
    stream = EventStream(decoder)
    sent = b"".join((x.encode() if isinstance(x, str) else x) + b"\n" for x in lines)
    return stream.feed(sent) + stream.finish()


def watching() -> Shell:
    """Return a shell with a live watch at version 10 that has lasted for a while."""
    return Shell().live().events(bookmark("10")).eof().opened().pass_time(SERVED_FOR)


def listing() -> Shell:
    """Return a shell that has to list, and asks for the first page."""
    return Shell(list_seconds=3600.0).start()


# Expired versions


def test_java_1628_a_relist_leaves_an_expired_version_behind() -> None:
    """kubernetes-client/java#1628: at least what was seen, and once that is lost the newest."""
    shell = watching().events(error(410))
    assert (shell.watch.resource_version, shell.watch.match) == ("10", "NotOlderThan")
    shell.answer(410, reason="Expired").retry()
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == ""
    shell.sync(added("a", "30"), version="31").pass_time(SERVED_FOR)
    assert shell.eof().watch.resource_version == "31"


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param('{"kind":"Status","code":410,"reason":"Gone"}', id="status"),
        pytest.param('{"kind":"Status","code":410}', id="code alone"),
        pytest.param('{"kind":"Status","reason":"Gone"}', id="reason alone"),
        pytest.param('{"reason":"Expired"}', id="no kind"),
        pytest.param('{"message":"too old resource version: 1 (2)"}', id="text alone"),
        pytest.param('"too old resource version: 1 (2)"', id="no object"),
    ],
)
def test_fabric8_1961_an_expired_version_is_known_in_any_shape(sent: str) -> None:
    """fabric8io/kubernetes-client#1961: nothing stays frozen because a 410 was not recognised."""
    shell = watching().events(*read('{"type":"ERROR","object":' + sent + "}"))
    assert shell.watch.send_initial_events
    assert ("relist", "EXPIRED") in shell.counts()
    assert shell.state is SourceState.STALE, "what is held is not called up to date meanwhile"


def test_kube_1615_an_expired_version_of_a_quiet_resource_is_nobodys_error() -> None:
    """kube-rs/kube#1615: it is listed again, and the informer is live as before."""
    shell = watching()
    for _ in range(3):
        shell.events(bookmark("10")).pass_time(30.0).eof().opened().pass_time(SERVED_FOR)
    shell.events(error(410, "Expired"))
    assert shell.has(CloseStream)
    shell.sync(added("a", "3"), added("b", "7"), version="900")
    assert (shell.state, shell.store) == (SourceState.LIVE, {"a": "3", "b": "7"})


def test_kubernetes_monitor_1506_a_watch_begins_at_the_list_and_not_at_an_object() -> None:
    """snyk/kubernetes-monitor#1506: an object may be older than all that the server remembers."""
    shell = listing().items(item("old", "3"), item("older", "1")).listed("5000")
    assert shell.watch.resource_version == "5000"
    assert not shell.watch.send_initial_events


def test_argo_cd_6915_a_list_whose_rest_expires_is_begun_again_and_then_unpaged() -> None:
    """argoproj/argo-cd#6915, #18208: paging may be slower than the server's memory lasts.

    Nothing of the pages before is kept, and the rest that the server offers is not asked for.
    """
    shell = listing()
    assert shell.list.limit == ReflectorSettings().page_items
    for _ in range(2):
        shell.items(item("gone", "1")).listed("10", "token").answer(410, reason="Expired").retry()
        assert (shell.list.continue_token, shell.staging) == ("", None)
    assert shell.list.limit is None
    shell.items(item("a", "20")).listed("21")
    assert shell.store == {"a": "20"}


# Relists


def test_kubernetes_83520_a_relist_does_not_go_back_in_time() -> None:
    """kubernetes/kubernetes#83520: neither a list nor a watch asks for "any" state, version 0."""
    shell = watching().events(modified("a", "17"), error(410))
    assert (shell.watch.resource_version, shell.watch.match) == ("17", "NotOlderThan")
    shell.answer(422, reason="Invalid")
    assert shell.list == List(resource_version="17", match="NotOlderThan")
    # A server that does not heed it is not believed.
    shell.items(item("a", "3")).listed("12")
    assert (shell.store["a"], shell.state) == ("17", SourceState.STALE)
    assert shell.retry().list.resource_version == ""


def test_kubernetes_59848_a_restart_begins_with_the_newest_state() -> None:
    """kubernetes/kubernetes#59848, elastic/cloud-on-k8s#4956: not with a lagging server's.

    Version 0 would be any state: objects that were deleted long ago would be there again.
    """
    assert (Shell().start().watch.resource_version, listing().list.resource_version) == ("", "")


def test_argo_cd_1161_no_watch_goes_on_without_a_version() -> None:
    """argoproj/argo-cd#1161, #1612: what happens between a list and its watch would be lost."""
    shell = listing().listed("10")
    assert shell.watch.resource_version == "10"
    shell.opened().events(added("a", "11")).pass_time(SERVED_FOR)
    for end in (shell.eof, lambda: shell.failure("reset").retry(), shell.reopen, shell.hasten):
        end()
        assert (shell.watch.resource_version, shell.watch.send_initial_events) == ("11", False)
        shell.opened().pass_time(SERVED_FOR)


# Order


def test_kubernetes_74022_initial_events_say_nothing_of_the_order() -> None:
    """kubernetes/kubernetes#74022: the present state comes in any order; its end has a version."""
    shell = Shell().start().opened().events(added("b", "70"), added("a", "3"), added("c", "12"))
    assert shell.version == ""
    assert shell.events(initial_end("50")).eof().watch.resource_version == "50"
    assert shell.store == {"a": "3", "b": "70", "c": "12"}


@pytest.mark.parametrize("versions", [("3", "9"), ("9", "3"), ("9", "3", "11", "1")])
def test_python_819_the_order_of_a_list_is_no_order_of_versions(versions: tuple[str, ...]) -> None:
    """kubernetes-client/python#819, #693: neither the last item nor the highest is a position."""
    shell = listing()
    shell.items(*(item(f"o{n}", version) for n, version in enumerate(versions))).listed("10")
    assert shell.watch.resource_version == "10"


def test_kubernetes_58545_an_old_version_of_a_deletion_lowers_no_position() -> None:
    """kubernetes/kubernetes#58545, #63356, client-go#338: old servers send the one before."""
    shell = watching().events(modified("a", "40"), deleted("b", "7"))
    assert "b" not in shell.store
    assert shell.eof().watch.resource_version == "40"


def test_python_700_a_watch_of_custom_objects_moves_on() -> None:
    """kubernetes-client/python#700, #503, python-base#81: by what is in the object, any object."""
    made = {"kind": "Widget", "apiVersion": "g/v1"}
    lines = [
        json.dumps(
            {
                "type": "ADDED",
                "object": {
                    **made,
                    "metadata": {"name": "w", "uid": "u", "resourceVersion": version},
                },
            }
        )
        for version in ("11", "12")
    ]
    shell = watching().events(*read(*lines))
    assert shell.eof().watch.resource_version == "12"


# Bookmarks


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param('{"metadata":{"resourceVersion":"12"}}', id="nothing but the version"),
        pytest.param(
            '{"kind":"Widget","apiVersion":"g/v1","metadata":{"resourceVersion":"12",'
            '"creationTimestamp":null},"spec":{"containers":null}}',
            id="half an object",
        ),
        pytest.param(
            '{"kind":"Other","apiVersion":"v9","metadata":{"resourceVersion":"12"}}', id="no Widget"
        ),
    ],
)
def test_asyncio_291_a_bookmark_is_no_object(sent: str) -> None:
    """tomplus/kubernetes_asyncio#291, apache/druid#15819: it is not decoded as one, nor kept."""
    shell = watching().events(*read('{"type":"BOOKMARK","object":' + sent + "}"))
    assert shell.effects == [Advance("12")]


def test_kube_219_bookmarks_carry_a_quiet_resource_along() -> None:
    """kube-rs/kube#219: its position moves with the cluster, so that it does not expire."""
    shell = watching()
    for version in ("1000", "2000", "3000"):
        shell.events(bookmark(version)).pass_time(30.0).eof()
        assert shell.watch.resource_version == version
        shell.opened().pass_time(SERVED_FOR)
    assert not any(isinstance(effect, Apply | Count) for effect in shell.effects)


def test_asyncio_135_the_next_watch_begins_behind_the_last_thing_heard() -> None:
    """tomplus/kubernetes_asyncio#135: not at the object that happened to come last in a list."""
    shell = listing().items(item("a", "400"), item("b", "2")).listed("500").opened()
    assert shell.pass_time(SERVED_FOR).eof().watch.resource_version == "500"
    shell.opened().events(modified("b", "501"), bookmark("510")).pass_time(SERVED_FOR)
    assert shell.eof().watch.resource_version == "510"
