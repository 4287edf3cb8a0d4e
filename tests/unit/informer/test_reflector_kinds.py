"""Rules of kinds that are not served, go, and come back (informers 1.5 and 1.7)."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.informer.shell import PODS, Shell, added, bookmark, error
from watchcache_server.informer.effects import Discover, Purge, Watch
from watchcache_server.informer.inputs import NotServed, Overlapping
from watchcache_server.model.resources import ServedResource
from watchcache_server.model.states import LeftReason, SourceState

_STORE = {"a": "3", "b": "7"}


def reconnecting() -> Shell:
    """Return a shell that held objects and asks for a watch."""
    return Shell().live().pass_time(20.0).eof()


def test_not_found_is_confirmed_by_discovery() -> None:
    """1.5: 404 alone proves nothing."""
    shell = reconnecting().answer(404)
    assert shell.request == Discover(is_fresh=True)
    assert shell.store == _STORE


def test_a_kind_that_is_gone_takes_its_objects_along() -> None:
    """Row 65: tombstones for the rest, state gone, slow probe."""
    shell = reconnecting().answer(404).vanished(NotServed(message="the CRD was deleted"))
    assert Purge(LeftReason.KIND_GONE) in shell.effects
    assert shell.store == {}
    assert (shell.state, shell.reason) == (SourceState.GONE, "KIND_NOT_SERVED")
    assert "the CRD was deleted" in shell.message


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_one_look_that_finds_nothing_drops_nothing(jitter: float) -> None:
    """1.1: of several API servers one may lag behind, and not know of a new kind yet."""
    shell = Shell(jitter=jitter).live().pass_time(20.0).eof().answer(404)
    began = shell.now
    while shell.now - began < 9.0:
        shell.discovered(NotServed(message="near names: ponds"))
        assert (shell.state, shell.reason) == (SourceState.STALE, "NOT_FOUND")
        assert "its objects are kept for 10 s (near names: ponds)" in shell.message
        assert shell.store == _STORE
        assert shell.retry().request == Discover(is_fresh=True)
    shell.discovered()
    assert shell.watch.resource_version == "10", "the other server knows it"
    shell.opened().events(bookmark("12")).pass_time(20.0).eof().answer(404)
    shell.pass_time(60.0).discovered(NotServed())
    assert shell.store == _STORE, "what was found in between begins the time anew"


def test_a_look_that_finds_the_kind_begins_the_time_anew() -> None:
    """Also where the watch that follows brings nothing before it breaks off."""
    shell = Shell().live().pass_time(20.0).eof().answer(404)
    shell.discovered(NotServed()).retry().discovered()
    began = shell.now
    while shell.now - began < 100.0:
        shell.failure("refused").retry()
    shell.answer(404).retry().discovered(NotServed())
    assert (shell.state, shell.reason) == (SourceState.STALE, "NOT_FOUND")
    assert shell.store == _STORE


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_a_kind_that_stays_away_is_gone_in_seconds(jitter: float) -> None:
    """However long the waits have become."""
    shell = Shell(jitter=jitter).live()
    for _ in range(5):
        shell.failure("refused").retry()
    began = shell.now
    shell.answer(404).vanished(NotServed())
    assert shell.now - began <= 15.0
    assert shell.store == {}


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_a_gone_kind_is_looked_for_at_least_every_15_s(jitter: float) -> None:
    """Row 65: no error each second for ever, and no long wait for a CRD."""
    shell = Shell(jitter=jitter).started()
    for _ in range(20):
        shell.discovered(NotServed())
        assert shell.state is SourceState.GONE
        assert 0.0 < shell.wait <= 15.0
        assert shell.retry().request == Discover(is_fresh=True)


def test_a_kind_that_comes_back_starts_anew() -> None:
    """1.7: forget the version, rediscover, begin."""
    shell = reconnecting().answer(404).vanished(NotServed()).retry().discovered()
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == ""
    shell.sync(added("z", "2"), version="4")
    assert (shell.store, shell.state) == ({"z": "2"}, SourceState.LIVE)


def test_not_found_of_a_kind_that_is_served_waits() -> None:
    """Somebody else answers, or a server lags behind: keep the data, back off, no loop."""
    shell = reconnecting().answer(404).discovered()
    assert isinstance(shell.request, Watch)
    shell.answer(404, message="no such path")
    assert shell.request is None
    assert shell.wait == 0.8
    assert (shell.state, shell.reason) == (SourceState.STALE, "NOT_FOUND")
    assert shell.store == _STORE
    assert shell.retry().request == Discover(is_fresh=True)


def test_not_found_inside_the_stream_is_no_hot_loop() -> None:
    """An opening alone ends no suspicion."""
    shell = Shell().live().events(error(404)).discovered().opened().events(error(404))
    assert shell.request is None
    assert shell.reason == "NOT_FOUND"


def test_not_found_is_confirmed_anew_after_a_success() -> None:
    """One answer ends the suspicion."""
    shell = reconnecting().answer(404).discovered().opened().pass_time(20.0).eof().answer(404)
    assert shell.request == Discover(is_fresh=True)


def test_discovery_that_is_not_found_is_a_kind_that_is_gone() -> None:
    """The group itself has gone."""
    shell = Shell().started().answer(404)
    assert (shell.state, shell.reason) == (SourceState.GONE, "KIND_NOT_SERVED")


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"version": "v2"}, id="another version"),
        pytest.param({"kind": "Pond"}, id="another kind"),
        pytest.param({"resource": "podz"}, id="another plural name"),
        pytest.param({"is_namespaced": False}, id="another scope"),
    ],
)
def test_a_kind_that_is_served_differently_starts_anew(change: dict[str, object]) -> None:
    """1.7: never mix versions in one store; a recreated CRD may differ in scope and kind."""
    other = msgspec.structs.replace(PODS, **change)
    shell = reconnecting().answer(404).discovered(other)
    assert Purge(LeftReason.KIND_GONE) in shell.effects
    assert shell.state is SourceState.SYNCING
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == ""


def test_more_verbs_are_no_other_kind() -> None:
    """What does not change the objects changes nothing."""
    other = msgspec.structs.replace(PODS, verbs=frozenset({"list", "watch"}))
    shell = reconnecting().answer(404).discovered(other)
    assert shell.store == _STORE
    assert shell.watch.resource_version == "10"


def test_a_namespace_on_a_cluster_scoped_kind_is_said() -> None:
    """The spec is wrong; it may become right when the CRD is made anew."""
    nodes = ServedResource("", "v1", "nodes", "Node", False, PODS.verbs)
    shell = Shell(namespace="team-a").started().discovered(nodes)
    assert (shell.state, shell.reason) == (SourceState.GONE, "INVALID_SCOPE")
    assert "watch it without a namespace" in shell.message
    assert shell.wait <= 15.0
    assert shell.retry().discovered().watch.send_initial_events


def test_an_open_scope_is_that_of_the_kind() -> None:
    """A namespace that counts for namespaced kinds only is no fault and not named for others."""
    nodes = ServedResource("", "v1", "nodes", "Node", False, PODS.verbs)
    shell = Shell(namespace="team-a", is_scope_open=True).started().discovered(nodes)
    assert shell.watch.send_initial_events
    assert "namespace team-a" not in shell.failure("refused").message
    pods = Shell(namespace="team-a", is_scope_open=True).start()
    assert "namespace team-a" in pods.failure("refused").message


def test_all_namespaces_of_a_cluster_scoped_kind_are_fine() -> None:
    """Without a namespace the scope is the cluster."""
    nodes = ServedResource("", "v1", "nodes", "Node", False, PODS.verbs)
    assert Shell().started().discovered(nodes).watch.send_initial_events


@pytest.mark.parametrize(
    ("verbs", "missing"),
    [
        pytest.param({"list", "get"}, "watch", id="no watch"),
        pytest.param({"watch"}, "list", id="no list"),
        pytest.param({"create"}, "list and watch", id="neither"),
    ],
)
def test_a_kind_without_list_or_watch_is_said(verbs: set[str], missing: str) -> None:
    """It cannot be cached for anyone."""
    reviews = ServedResource("", "v1", "reviews", "Review", False, frozenset(verbs))
    shell = Shell().started().discovered(reviews)
    assert (shell.state, shell.reason) == (SourceState.GONE, "VERB_NOT_SERVED")
    assert f"does not support {missing};" in shell.message


def test_a_gone_kind_stays_gone_until_it_answers() -> None:
    """Being discovered is not yet being served."""
    shell = Shell().started().discovered(NotServed()).retry().discovered()
    assert shell.state is SourceState.GONE
    shell.opened()
    assert shell.state is SourceState.SYNCING


def test_an_unreachable_server_is_not_a_gone_kind() -> None:
    """Once nobody answers, nothing is known of the kind."""
    shell = Shell().started().discovered(NotServed()).retry().failure("refused")
    assert shell.state is SourceState.UNREACHABLE


def test_a_resource_that_another_entry_watches_has_a_reason_of_its_own() -> None:
    """The cluster serves it; it is the spec that names it twice. Looked at again by itself."""
    shell = Shell().started().discovered(Overlapping(message="pods is named as Pod too"))
    assert (shell.state, shell.reason) == (SourceState.GONE, "OVERLAPPING_WATCHES")
    assert "pods is named as Pod too" in shell.message
    assert shell.retry().discovered().watch.send_initial_events
