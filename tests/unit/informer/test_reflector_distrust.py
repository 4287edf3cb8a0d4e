"""Rules of what follows when a source was proven to hold something else than its API server."""

from __future__ import annotations

from tests.unit.informer.shell import Shell, bookmark, item, modified
from watchcache_server.informer.effects import CommitSync, List, Purge, Watch
from watchcache_server.model.states import SourceState


def watching() -> Shell:
    """Return a shell with a live watch at version 11."""
    return Shell().live().events(bookmark("10")).eof().opened().events(modified("a", "11"))


def test_what_was_proven_wrong_is_listed_anew() -> None:
    """The newest state, by a list: what has forgotten a change may answer watches too."""
    shell = watching().distrust()
    assert shell.request == List(limit=500)
    assert ("relist", "INCONSISTENT") in shell.counts()
    assert (shell.state, shell.reason) == (SourceState.STALE, "INCONSISTENT")
    assert shell.store == {"a": "11", "b": "7"}, "what is held is served meanwhile"
    shell.items(item("a", "11")).listed("15")
    assert shell.has(CommitSync)
    assert shell.store == {"a": "11"}
    assert shell.state is SourceState.LIVE
    assert shell.watch.resource_version == "15"


def test_a_list_that_fails_leaves_everything_and_is_made_again() -> None:
    """An error empties nothing."""
    shell = watching().distrust().answer(503)
    assert shell.store == {"a": "11", "b": "7"}
    assert not shell.has(Purge)
    assert isinstance(shell.retry().request, List)


def test_what_waits_or_syncs_is_not_disturbed() -> None:
    """The next request is the list; where one is wanted or under way already, it is that."""
    waiting = watching().failure("reset")
    assert waiting.request is None
    assert waiting.distrust().request is None
    assert isinstance(waiting.retry().request, List)
    assert waiting.distrust().effects == []
    assert Shell().start().distrust().effects == [], "there is nothing to distrust yet"


def test_the_syncs_after_it_are_as_before_it() -> None:
    """The list was for this once."""
    shell = watching().distrust().items(item("a", "11")).listed("15").opened()
    shell.answer(410)
    assert isinstance(shell.retry().request, Watch)
    assert shell.watch.send_initial_events
