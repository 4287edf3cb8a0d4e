"""Rules of identity and rights: 401, 403, tokens, revocation (informers 1.5, 1.7, 1.8)."""

from __future__ import annotations

import pytest

from tests.unit.informer.shell import Shell, added, error, initial_end, item, modified
from watchcache_server.informer.effects import Discover, List, Purge, RefreshToken, Watch
from watchcache_server.informer.errors import MalformedError
from watchcache_server.informer.inputs import TokenProblem
from watchcache_server.model.states import LeftReason, SourceState

LISTING = 3600.0
_STORE = {"a": "3", "b": "7"}
_NO_SERVICE_ACCOUNT = TokenProblem(
    reason="service_account_not_found", message="serviceaccount team-a/shop does not exist"
)


def reconnecting(jitter: float = 0.0) -> Shell:
    """Return a shell that held objects and asks for a watch."""
    return Shell(jitter=jitter).live().pass_time(20.0).eof()


# 401


def test_a_refused_token_is_refreshed_once_and_tried_at_once() -> None:
    """Rows 71, 73 and 78: one refresh, one immediate retry, and no word about it."""
    shell = reconnecting()
    asked = shell.request
    assert shell.answer(401).request == RefreshToken()
    assert shell.token().request == asked
    shell.opened().events(modified("a", "11"))
    assert shell.state is SourceState.LIVE


def test_a_second_refusal_waits() -> None:
    """1.5: then backoff up to 60 s, and each attempt has a fresh token."""
    shell = reconnecting(jitter=0.999).answer(401).token()
    for _ in range(9):
        shell.answer(401, message="Unauthorized")
        assert (shell.state, shell.reason) == (SourceState.UNAUTHENTICATED, "TOKEN_REFUSED")
        assert "serviceaccount team-a/shop" in shell.message
        assert 0.0 < shell.wait <= 60.0
        assert shell.retry().request == RefreshToken()
        shell.token()
    assert shell.store == _STORE


def test_a_refusal_after_a_success_is_a_first_one() -> None:
    """A token that worked and expired is simply refreshed."""
    shell = reconnecting().answer(401).token().opened().pass_time(20.0).eof().answer(401)
    assert shell.request == RefreshToken()


def test_a_refusal_after_a_missing_right_is_a_first_one() -> None:
    """403 says that the token was taken; when it is refused later, another one is asked for."""
    shell = reconnecting().answer(401).token().answer(403).answer(403).retry().answer(401)
    assert shell.request == RefreshToken()
    assert shell.state is SourceState.FORBIDDEN


def test_discovery_may_be_refused_too() -> None:
    """401 to discovery is a 401."""
    shell = Shell().started().answer(401)
    assert shell.request == RefreshToken()
    assert shell.token().request == Discover(is_fresh=False)


def test_a_refusal_inside_the_stream_counts() -> None:
    """1.4: proxies and aggregated APIs send 401 so."""
    shell = Shell().live().events(error(401))
    assert shell.request == RefreshToken()


def test_refusals_inside_the_stream_are_no_hot_loop() -> None:
    """An opening is no proof of identity: the second refusal waits, also behind a 200."""
    shell = Shell().live().events(error(401)).token().opened().events(error(401))
    assert shell.request is None
    assert shell.state is SourceState.UNAUTHENTICATED


def test_a_token_that_is_not_to_be_had_is_said_and_tried_again() -> None:
    """Row 77: the reason is that of the token, and the attempts go on."""
    shell = reconnecting().answer(401).token(_NO_SERVICE_ACCOUNT)
    assert (shell.state, shell.reason) == (
        SourceState.UNAUTHENTICATED,
        "service_account_not_found",
    )
    assert shell.message == "serviceaccount team-a/shop does not exist"
    assert shell.wait == 0.8
    assert shell.retry().request == RefreshToken()
    assert shell.store == _STORE


def test_any_request_may_lack_a_token() -> None:
    """There may be none to ask with at the very start."""
    shell = Shell().started().token(_NO_SERVICE_ACCOUNT)
    assert shell.state is SourceState.UNAUTHENTICATED
    shell.retry().token()
    assert shell.request == Discover(is_fresh=False)


def test_a_list_under_way_that_lacks_a_token_is_dropped() -> None:
    """Half a list is no list."""
    shell = Shell(list_seconds=LISTING).start().items(item("a", "3")).listed("10", "t")
    shell.token(_NO_SERVICE_ACCOUNT)
    assert shell.staging is None


# 403


def test_a_forbidden_watch_says_whether_list_is_allowed() -> None:
    """1.5: report verb, resource, namespace; say if list works but watch does not."""
    shell = Shell(namespace="team-a").start().answer(403, message="pods is forbidden")
    assert shell.state is SourceState.SYNCING, "nothing is said before it is known whole"
    assert shell.request == List(limit=1)
    shell.items(item("a", "3")).listed("10")
    assert shell.state is SourceState.FORBIDDEN
    assert shell.published is not None
    assert shell.published.missing_verbs == ("watch",)
    assert shell.message == (
        "serviceaccount team-a/shop needs watch on pods in namespace team-a of cluster hub; "
        "list is allowed"
    )
    assert shell.staging is None


def test_a_forbidden_watch_says_that_list_is_missing_too() -> None:
    """Both rights are named, so that both are granted at once."""
    shell = Shell(namespace="team-a").start().answer(403).answer(403)
    assert shell.published is not None
    assert shell.published.missing_verbs == ("list", "watch")
    assert shell.message == (
        "serviceaccount team-a/shop needs list and watch on pods in namespace team-a of cluster hub"
    )


def test_a_forbidden_list_says_whether_watch_is_allowed() -> None:
    """A watch is opened and closed to find out."""
    shell = Shell(list_seconds=LISTING).start().answer(403)
    assert shell.watch.timeout_seconds == 1
    shell.opened()
    assert shell.request is None
    assert shell.published is not None
    assert shell.published.missing_verbs == ("list",)
    assert "watch is allowed" in shell.message


def test_a_forbidden_list_says_that_watch_is_missing_too() -> None:
    """The other way round."""
    shell = Shell(list_seconds=LISTING).start().answer(403).answer(403)
    assert shell.published is not None
    assert shell.published.missing_verbs == ("list", "watch")


@pytest.mark.parametrize("how", ["answer", "failure", "broken"])
def test_a_check_that_fails_leaves_the_other_right_open(how: str) -> None:
    """What could not be found out is not claimed."""
    shell = Shell().start().answer(403)
    if how == "answer":
        shell.answer(500)
    elif how == "failure":
        shell.failure("reset")
    else:
        shell.broken(MalformedError("bad"))
    assert shell.published is not None
    assert shell.published.missing_verbs == ("watch",)
    assert "allowed" not in shell.message
    assert shell.state is SourceState.FORBIDDEN


@pytest.mark.parametrize("jitter", [0.0, 0.999])
def test_a_forbidden_informer_asks_at_least_every_15_s(jitter: float) -> None:
    """Jitter included, for ever: a right that is granted is seen soon."""
    shell = Shell(jitter=jitter).start()
    for _ in range(20):
        shell.answer(403).answer(403)
        assert 0.0 < shell.wait <= 15.0
        assert shell.published is not None
        assert shell.published.next_attempt_seconds == pytest.approx(shell.wait)
        shell.retry()
        assert shell.watch.send_initial_events


def test_a_right_that_is_granted_is_used() -> None:
    """It recovers by itself, with what was missing said until then."""
    shell = Shell().start().answer(403).answer(403).retry()
    assert shell.state is SourceState.FORBIDDEN
    shell.opened()
    assert shell.state is SourceState.SYNCING
    shell.events(added("a", "3"), initial_end("10"))
    assert (shell.state, shell.store) == (SourceState.LIVE, {"a": "3"})
    assert shell.published is not None
    assert shell.published.missing_verbs == ()


def test_one_of_two_rights_that_is_granted_is_seen() -> None:
    """What is missing is what is missing now."""
    shell = Shell().start().answer(403).answer(403).retry().answer(403)
    assert shell.published is not None
    assert shell.published.missing_verbs == ("list", "watch"), "until it is known better"
    shell.listed("10")
    assert shell.published.missing_verbs == ("watch",)


def test_a_list_that_is_forbidden_after_a_watch_was_says_so() -> None:
    """What was missing for another request is not claimed for this one."""
    shell = Shell().start().answer(403).listed("10").retry().answer(400).answer(403)
    shell.opened()
    assert shell.published is not None
    assert shell.published.missing_verbs == ("list",)


def test_rights_on_discovery_may_be_missing() -> None:
    """A cluster may hide what it serves."""
    shell = Shell().started().answer(403, message="no")
    assert (shell.state, shell.reason) == (SourceState.FORBIDDEN, "DISCOVERY_FORBIDDEN")
    assert "serviceaccount team-a/shop may not read what the cluster serves" in shell.message
    assert shell.wait <= 15.0
    assert shell.retry().request == Discover(is_fresh=False)


def test_data_is_dropped_when_the_right_stays_missing() -> None:
    """Row 70: bounded exposure: a grace time, then the objects leave, and only they."""
    shell = reconnecting()
    began = shell.now
    while not shell.has(Purge):
        assert shell.store == _STORE
        shell.retry()
        if not shell.has(Purge):
            shell.answer(403).answer(403)
            shell.timer()
    assert shell.now - began == pytest.approx(60.0)
    assert Purge(LeftReason.RIGHTS_REVOKED) in shell.effects
    assert shell.store == {}
    assert shell.state is SourceState.FORBIDDEN


def revoked() -> Shell:
    """Return a shell whose right is missing, just before the end of the grace time, asking."""
    shell = reconnecting().answer(403).answer(403)
    while shell.now < 1020.0 + 45.0:
        shell.retry()
        if shell.now < 1020.0 + 45.0:
            shell.answer(403).answer(403)
    assert shell.store == _STORE
    return shell


def test_a_watch_under_way_does_not_outlive_its_objects() -> None:
    """After the objects left, a watch from their version would have nothing to go on from."""
    shell = revoked()
    assert shell.watch.resource_version == "10"
    shell.pass_time(20.0)
    assert shell.store == {}
    assert shell.watch.send_initial_events
    assert shell.watch.resource_version == "10", "and not back in time"
    shell.sync(added("a", "11"), version="12")
    assert (shell.store, shell.state) == ({"a": "11"}, SourceState.LIVE)


def test_an_opening_alone_does_not_renew_the_grace_time() -> None:
    """A proxy that answers 200 and then ERROR 403 never gives the right back."""
    shell = reconnecting()
    began = shell.now
    while shell.store:
        if shell.request is None:
            shell.timer()
        elif isinstance(shell.request, List):
            shell.answer(403)
        else:
            shell.opened().events(error(403))
    assert shell.now - began == pytest.approx(60.0)


def test_a_watch_that_ends_at_once_while_forbidden_is_said() -> None:
    """It is no longer a missing right that is known; it is a watch that does not work."""
    shell = reconnecting().answer(403).answer(403).retry().opened().eof()
    assert (shell.state, shell.reason) == (SourceState.STALE, "WATCH_UNSTABLE")


def test_a_right_that_comes_back_in_time_loses_nothing() -> None:
    """1.7: resume at the last version."""
    shell = revoked().opened().pass_time(20.0)
    assert shell.store == _STORE
    assert shell.state is SourceState.LIVE
    assert shell.watch.resource_version == "10"


def test_losing_contact_does_not_stop_the_grace_time() -> None:
    """That the server is away is no right."""
    shell = revoked()
    while not shell.has(Purge):
        if shell.request is None:
            shell.timer()
        elif shell.now < 1075.0:
            shell.failure("refused")
        else:
            shell.timer()
    assert shell.store == {}
    assert shell.now == pytest.approx(1080.0)
    assert shell.state is SourceState.UNREACHABLE


def test_a_right_lost_during_a_relist_does_not_end_the_relist() -> None:
    """A list that was allowed is whole; what it brings after the grace time is a first sync."""
    shell = Shell(list_seconds=LISTING).start().listed("10").opened().pass_time(20.0)
    shell.events(error(403)).answer(403)
    while shell.now < 1079.0:
        shell.retry()
        if shell.now < 1079.0 - 15.0:
            shell.answer(403).answer(403)
        else:
            break
    shell.answer(410)
    assert shell.list.resource_version == "10"
    shell.pass_time(20.0)
    assert shell.version == "", "the objects have left"
    assert shell.list.resource_version == "10", "and the list goes on"
    shell.items(item("a", "11")).listed("12")
    assert (shell.store, shell.state) == ({"a": "11"}, SourceState.LIVE)


def test_the_credentials_of_a_cluster_are_named_where_there_is_no_service_account() -> None:
    """The single user outside a cluster."""
    shell = Shell()
    subject = shell.reflector._subject
    named = type(subject)(cluster="hub", resource="pods", namespace="", service_account="").needs(
        ("list",), ()
    )
    assert named == (
        "the credentials of cluster hub needs list on pods in all namespaces of cluster hub"
    )


def test_a_forbidden_watch_inside_the_stream_counts() -> None:
    """1.4: a proxy may say so."""
    shell = Shell().live().events(error(403))
    assert shell.state is SourceState.FORBIDDEN
    assert isinstance(shell.request, List)


def test_a_right_to_watch_is_enough() -> None:
    """Row 80 and least privilege: with initial events, list is not needed."""
    shell = Shell().live()
    assert isinstance(shell.request, Watch)
