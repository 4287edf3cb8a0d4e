"""Reports of informers that hang, hammer their server, or give up.

Each test is named after its report, and says what must hold instead.
"""

from __future__ import annotations

from tests.unit.informer.shell import (
    Shell,
    added,
    bookmark,
    error,
    item,
    modified,
)
from watchcache_server.informer.effects import CloseStream, Discover, Remember, SetState, Watch
from watchcache_server.informer.inputs import NotServed, TokenProblem
from watchcache_server.informer.reflector_settings import ReflectorSettings
from watchcache_server.model.states import SourceState

SERVED_FOR = 20.0
SETTINGS = ReflectorSettings()
GONE = NotServed(message="no such kind")


def watching() -> Shell:
    """Return a shell with a live watch at version 10 that has lasted for a while."""
    return Shell().live().events(bookmark("10")).eof().opened().pass_time(SERVED_FOR)


# The present state, as a watch


def test_kubernetes_135895_a_watch_whose_present_state_never_ends_is_given_up() -> None:
    """kubernetes/kubernetes#135895, derailed/k9s#4186: an old server, or a proxy, sends no end.

    Neither silence nor events that go on for ever hold the first state up, and it is remembered.
    """
    shell = Shell().start().opened().events(added("a", "3"), modified("a", "4"))
    asked_at = shell.now
    while not shell.has(Remember):
        shell.pass_time(10.0)
        if isinstance(shell.request, Watch):
            shell.events(modified("a", "5"))
        assert shell.now - asked_at <= 2 * SETTINGS.initial_idle_seconds
    assert shell.store == {}
    shell.items(item("a", "5")).listed("6")
    assert (shell.state, shell.store) == (SourceState.LIVE, {"a": "5"})
    assert shell.pass_time(SERVED_FOR).request is not None
    assert not shell.watch.send_initial_events


def test_kubernetes_129467_a_state_that_never_comes_as_a_watch_is_listed() -> None:
    """kubernetes/kubernetes#129467, #138670: for some sizes a list is what gets through."""
    shell = Shell().start()
    for _ in range(SETTINGS.initial_failure_limit):
        assert shell.watch.send_initial_events
        shell.opened().events(added("a", "3")).failure("cut").retry()
    assert shell.list.limit == SETTINGS.page_items


# Silence


def test_javascript_596_silence_is_not_taken_for_peace() -> None:
    """kubernetes-client/javascript#596, #2432, #364: a peer that is lost says nothing at all."""
    shell = watching()
    limit = shell.watch.inactivity_seconds
    assert limit <= SETTINGS.watch_seconds + SETTINGS.inactivity_margin_seconds
    shell.failure("idle", f"nothing came for {limit:g} s")
    assert (shell.state, shell.reason) == (SourceState.STALE, "NO_CONTACT")
    assert shell.retry().watch.resource_version == "10"


def test_java_1578_every_watch_has_an_end_of_its_own() -> None:
    """kubernetes-client/java#1578: also where the server never ends it, and however it is asked."""
    shell = watching()
    for _ in range(3):
        asked = shell.watch
        assert 0 < asked.timeout_seconds <= SETTINGS.watch_seconds
        shell.pass_time(asked.timeout_seconds + SETTINGS.inactivity_margin_seconds)
        shell.listed("10")
        assert shell.watch is not asked, "another one is asked for"
        shell.opened()
    assert Shell().start().watch.inactivity_seconds < 600.0


def test_csharp_884_a_connection_that_is_dropped_is_made_anew() -> None:
    """kubernetes-client/csharp#884: also one that was dropped before the answer began."""
    shell = watching()
    for reason in ("response_timeout", "reset", "idle", "connect_timeout"):
        shell.failure(reason).retry()
        assert shell.watch.resource_version == "10"
        assert shell.store == {"a": "3", "b": "7"}


def test_open_sandbox_1534_what_was_fresh_once_is_not_called_fresh_for_ever() -> None:
    """opensandbox-group/OpenSandbox#1534: the state follows what is heard, not the first sync."""
    shell = watching()
    shell.failure("reset").retry()
    assert shell.state is SourceState.LIVE, "one break is nothing yet"
    for _ in range(10):
        shell.failure("refused").retry()
        assert shell.state is SourceState.STALE
    assert shell.reopened().state is SourceState.STALE, "an opening alone proves nothing"
    assert shell.pass_time(SETTINGS.settle_seconds).state is SourceState.LIVE


# Trying again


def test_fabric8_4974_a_watch_that_is_refused_is_asked_for_again() -> None:
    """fabric8io/kubernetes-client#4974: a 503 at its beginning ends nothing."""
    shell = watching().eof()
    for _ in range(10):
        shell.answer(503).retry()
        assert shell.watch.resource_version == "10"
    assert shell.reopened().pass_time(SERVED_FOR).state is SourceState.LIVE


def test_fabric8_2992_an_end_of_the_stream_is_no_end_of_the_informer() -> None:
    """fabric8io/kubernetes-client#2992: nor is a server that is away for a quarter of an hour."""
    shell = watching().eof()
    began = shell.now
    while shell.now - began < 900.0:
        shell.failure("refused").retry()
    assert shell.watch.resource_version == "10"
    assert shell.reopened().events(added("c", "11")).store == {"a": "3", "b": "7", "c": "11"}


def test_javascript_1933_no_watch_follows_another_in_a_hot_loop() -> None:
    """kubernetes-client/javascript#1933: one request at a time, and fewer of them if they fail."""
    shell = watching()
    began, requests = shell.now, 0
    while shell.now - began < 60.0:
        shell.events(modified("a", str(100 + requests))).eof().retry().opened()
        requests += 1
        assert requests < 20, "in a minute"
    assert shell.wait > 0.0


def test_kubernetes_118129_lists_and_watches_share_one_backoff() -> None:
    """kubernetes/kubernetes#118129: a sick server is not hammered by each of them in turn."""
    shell = watching()
    waits = []
    for code in (500, 429, 503, 500, 503, 500):
        shell = shell.answer(code) if shell.request else shell
        waits.append(shell.wait)
        shell.retry()
        if isinstance(shell.request, Watch) and len(waits) % 2:
            shell.opened().events(error(410))
    assert waits == sorted(waits)
    assert waits[-1] > 8 * waits[0]


# Lists that are too much


def test_kubernetes_105096_a_list_that_is_cut_is_none() -> None:
    """kubernetes/kubernetes#105096, client-go#1046: after 60 s a server cuts what it sends."""
    shell = Shell(list_seconds=3600.0).start()
    first = shell.list.limit
    shell.items(item("a", "1")).failure("cut")
    assert (shell.staging, shell.store) == (None, {})
    assert shell.state is not SourceState.LIVE
    asked = shell.retry().list.limit
    assert first is not None
    assert asked is not None
    assert asked < first


def test_controller_runtime_2912_a_list_that_times_out_is_asked_for_in_less_at_a_time() -> None:
    """kubernetes-sigs/controller-runtime#2912, aquasecurity/trivy-operator#230: and says why."""
    shell = Shell(list_seconds=3600.0).start()
    sizes = []
    for _ in range(4):
        sizes.append(shell.list.limit or 0)
        shell.answer(504, reason="Timeout", message="the request took too long")
        assert "the request took too long" in shell.message
        shell.retry()
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] < sizes[0]
    assert sizes[-1] >= SETTINGS.least_page_items


def test_python_972_a_broken_stream_is_an_end_like_another() -> None:
    """kubernetes-client/python#972, #728: what came before counts, and nothing is raised."""
    shell = watching().events(modified("a", "11")).failure("cut", "the body ended early")
    assert (shell.store["a"], shell.state) == ("11", SourceState.LIVE)
    assert shell.retry().watch.resource_version == "11"


# Kinds, rights, tokens


def test_kubernetes_79610_a_kind_that_is_gone_is_a_state() -> None:
    """kubernetes/kubernetes#79610, #84494, open-policy-agent/gatekeeper#694: no error a second."""
    shell = watching().eof().answer(404).vanished(GONE)
    assert (shell.state, shell.store) == (SourceState.GONE, {})
    began, asked = shell.now, 0
    while shell.now - began < 300.0:
        shell.retry()
        assert isinstance(shell.request, Discover)
        shell.discovered(GONE)
        assert not shell.has(SetState) or shell.state is SourceState.GONE
        asked += 1
    assert 20 <= asked <= 40


def test_ocm_enhancements_126_what_may_no_longer_be_read_is_not_kept() -> None:
    """open-cluster-management-io/enhancements#126: a watch outlives its right, but not for long.

    Its right is checked whenever it is opened; without it the objects leave after a grace time.
    """
    shell = watching()
    lost_at = shell.now
    shell.pass_time(SETTINGS.watch_seconds + SETTINGS.inactivity_margin_seconds).answer(403)
    shell.answer(403)
    assert shell.state is SourceState.FORBIDDEN
    while shell.store:
        shell.retry().answer(403)
        shell.answer(403) if shell.request else None
    bound = SETTINGS.watch_seconds + SETTINGS.inactivity_margin_seconds
    bound += SETTINGS.forbidden_grace_seconds + SETTINGS.probe_seconds
    assert shell.now - lost_at <= bound


def test_kube_831_a_token_that_cannot_be_had_stops_nothing() -> None:
    """kube-rs/kube#831: the informer says so, and asks again and again until there is one."""
    shell = watching().eof().answer(401)
    for _ in range(10):
        shell.token(TokenProblem(reason="TOKEN_UNAVAILABLE", message="no answer in 10 s"))
        assert shell.state is SourceState.UNAUTHENTICATED
        assert shell.wait <= SETTINGS.unauthenticated_seconds
        shell.retry()
    assert shell.token().watch.resource_version == "10"


def test_streams_explorer_289_a_refused_token_is_replaced_without_ado() -> None:
    """bakdata/streams-explorer#289, bunkerity/bunkerweb#3750: one refresh, one retry, no word."""
    shell = watching().eof().answer(401)
    assert not shell.has(SetState)
    assert shell.token().watch.resource_version == "10"
    shell.answer(401)
    said = shell.published
    waits = []
    for _ in range(6):
        waits.append(shell.wait)
        shell.retry().token().answer(401)
        assert shell.published is not None
        assert said is not None
        assert shell.published.message == said.message, "nothing new is said each time"
    assert waits == sorted(waits)


def test_fabric8_2514_what_is_watched_is_what_was_asked_for() -> None:
    """fabric8io/kubernetes-client#2514: no namespace is taken from where the service runs."""
    everywhere = Shell().live()
    assert "in all namespaces" in everywhere.message
    assert "team-b" in Shell(namespace="team-b").live().message


def test_controller_runtime_1790_a_stop_frees_what_was_under_way() -> None:
    """kubernetes-sigs/controller-runtime#1790: no reader is left waiting for an informer."""
    for shell in (Shell().start(), Shell().start().opened(), watching()):
        shell.stop()
        assert (shell.has(CloseStream), shell.state) == (True, SourceState.STOPPED)
        assert shell.reflector.on_timer(now=shell.now + 1e6, jitter=0.0) == []


def test_controller_runtime_2032_a_connection_that_cannot_be_used_costs_no_change() -> None:
    """kubernetes-sigs/controller-runtime#2032: whatever TLS says, it goes on where it was."""
    shell = watching()
    for _ in range(5):
        shell.failure("tls", "certificate has expired").retry()
    assert "certificate" in shell.message
    assert shell.watch.resource_version == "10"
    assert shell.reopened().events(modified("a", "12")).store["a"] == "12"
