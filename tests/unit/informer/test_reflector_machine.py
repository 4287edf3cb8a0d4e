"""No sequence of inputs, however odd, breaks what the reflector promises."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from tests.unit.informer.shell import (
    PODS,
    Shell,
    added,
    bookmark,
    deleted,
    error,
    initial_end,
    item,
    modified,
)
from watchcache_server.informer.decoding import Broken, WatchEvent
from watchcache_server.informer.effects import (
    Advance,
    Apply,
    CommitSync,
    Count,
    Discover,
    List,
    Purge,
    RefreshToken,
    Watch,
)
from watchcache_server.informer.errors import (
    DataError,
    MalformedError,
    NotAListError,
    StatusAnswerError,
    TruncatedListError,
    UnexpectedError,
)
from watchcache_server.informer.inputs import NotServed, Overlapping, TokenProblem
from watchcache_server.informer.statuses import StatusFields
from watchcache_server.informer.timers import Deadline
from watchcache_server.model.states import LeftReason, SourceState

# Listed and synthetic objects have versions that no list, bookmark or live event has.
_LISTED = 1_000_000

_NAMES = st.sampled_from("abc")
_CODES = st.sampled_from(
    [200, 302, 400, 401, 403, 404, 405, 406, 409, 410, 413, 415, 422, 429, 500, 502, 503, 504]
)
_CAUSES = st.sampled_from([(), (), (), ("ResourceVersionTooLarge",)])
_RETRY_AFTER = st.sampled_from([None, None, 1.0, 20.0])
_FAILURES = st.sampled_from(
    ["refused", "reset", "cut", "idle", "dns", "tls", "connect_timeout", "response_timeout"]
)
_BROKEN = st.sampled_from(
    [
        TruncatedListError("cut"),
        NotAListError("HTML"),
        MalformedError("bad"),
        UnexpectedError("a Table"),
        StatusAnswerError(StatusFields(code=410)),
        StatusAnswerError(StatusFields()),
    ]
)
_FOUND = st.sampled_from(
    [
        PODS,
        PODS,
        PODS,
        NotServed(),
        Overlapping(message="named twice"),
        msgspec.structs.replace(PODS, version="v2"),
        msgspec.structs.replace(PODS, verbs=frozenset({"list"})),
        msgspec.structs.replace(PODS, is_namespaced=False),
        msgspec.structs.replace(PODS, resource="podz"),
    ]
)


class ReflectorMachine(RuleBasedStateMachine):
    """A server that does anything, at any time."""

    def __init__(self) -> None:
        super().__init__()
        self.shell = Shell()
        # What the server has reached, and what the reflector may resume from.
        self.server = 10
        self.floor = ""
        self.asked_in_a_row = 0
        self.asked_at = 0.0
        self.forbidden_at: float | None = None

    @initialize(
        jitter=st.sampled_from([0.0, 0.5, 0.999]),
        list_seconds=st.sampled_from([0.0, 3600.0]),
        namespace=st.sampled_from(["", "ns"]),
    )
    def begin(self, jitter: float, list_seconds: float, namespace: str) -> None:
        """Start it."""
        self.shell = Shell(namespace=namespace, list_seconds=list_seconds, jitter=jitter)
        self.shell.started()

    def version(self) -> str:
        """Return the next version of the server."""
        self.server += 1
        return str(self.server)

    def after(self, *, is_progress: bool, may_purge: bool = False) -> None:
        """Check what the last input has done to the store."""
        shell = self.shell
        purges = [effect.reason for effect in shell.effects if isinstance(effect, Purge)]
        if not may_purge:
            assert LeftReason.KIND_GONE not in purges, "only discovery takes a kind away"
        for effect in shell.effects:
            if isinstance(effect, CommitSync):
                if Count("rewound", "newer_known") in shell.effects:
                    assert int(effect.resource_version) < int(self.floor), "a rewind is one"
                    self.floor = ""
                self.check_version(effect.resource_version)
            elif isinstance(effect, Apply | Advance):
                self.check_version(effect.resource_version)
        if not shell.reflector._plan.position.version:
            self.floor = ""
        if is_progress:
            self.asked_in_a_row = 0

    def check_version(self, version: str) -> None:
        """The position is never that of a listed object, and never goes back in one epoch."""
        assert int(version) < _LISTED
        assert not self.floor or int(version) >= int(self.floor)
        self.floor = version

    # Discovery and tokens

    @precondition(lambda self: isinstance(self.shell.request, Discover))
    @rule(found=_FOUND)
    def discover(self, found: object) -> None:
        """Discovery finds something or nothing."""
        self.shell.discovered(found)  # type: ignore[arg-type]
        self.after(is_progress=False, may_purge=True)

    @precondition(lambda self: isinstance(self.shell.request, RefreshToken))
    @rule()
    def refresh(self) -> None:
        """There is a new token."""
        self.shell.token()
        self.after(is_progress=False)

    @precondition(lambda self: self.shell.request is not None)
    @rule()
    def lack_token(self) -> None:
        """There is no token to ask with."""
        self.shell.token(TokenProblem(reason="none", message="no token"))
        self.after(is_progress=False)

    # Failures

    @precondition(lambda self: self.shell.request is not None)
    @rule(failure=_FAILURES)
    def fail(self, failure: str) -> None:
        """There is no answer, or it breaks off."""
        before = dict(self.shell.store)
        self.shell.failure(failure)
        self.after(is_progress=False)
        assert self.shell.store == before

    @precondition(
        lambda self: (
            self.shell.request is not None
            and not isinstance(self.shell.request, RefreshToken)
            and not self.shell.reflector._is_open
        )
    )
    @rule(code=_CODES, causes=_CAUSES, retry_after=_RETRY_AFTER)
    def answer(self, code: int, causes: tuple[str, ...], retry_after: float | None) -> None:
        """The answer is an error."""
        before = dict(self.shell.store)
        was_discovery = isinstance(self.shell.request, Discover)
        self.shell.answer(code, code=code, causes=causes, retry_after=retry_after)
        self.after(is_progress=False, may_purge=was_discovery and code == 404)
        if not self.shell.has(Purge):
            assert self.shell.store == before

    @precondition(lambda self: isinstance(self.shell.request, List))
    @rule(broken=_BROKEN)
    def break_list(self, broken: DataError) -> None:
        """The body of a list cannot be used."""
        before = dict(self.shell.store)
        self.shell.broken(broken)
        self.after(is_progress=False)
        assert self.shell.store == before

    @rule(code=_CODES, is_in_stream=st.booleans())
    def persist(self, code: int, *, is_in_stream: bool) -> None:
        """The server has one answer to everything, for a long time, and discovery goes well."""
        shell = self.shell
        has_waited = False
        for _ in range(16):
            if shell.request is None:
                has_waited = True
                self.wait()
                self.what_may_end_by_itself_is_asked_for_soon()
            is_discovery = isinstance(shell.request, Discover)
            if is_discovery:
                shell.discovered()
            elif isinstance(shell.request, RefreshToken):
                shell.token()
            elif shell.reflector._is_open:
                shell.events(error(code))
            elif isinstance(shell.request, Watch) and is_in_stream:
                shell.opened()
                if shell.reflector._is_open and shell.watch.send_initial_events:
                    shell.events(initial_end(self.version()))
            elif isinstance(shell.request, List) and is_in_stream:
                shell.listed(self.version())
            else:
                shell.answer(code)
            self.after(is_progress=False, may_purge=is_discovery)
            self.what_may_end_by_itself_is_asked_for_soon()
        assert has_waited, "a hot loop"

    # Lists

    @precondition(lambda self: isinstance(self.shell.request, List))
    @rule(name=_NAMES, by=st.integers(0, 9))
    def send_items(self, name: str, by: int) -> None:
        """A part of a page comes."""
        before = dict(self.shell.store)
        self.shell.items(item(name, str(_LISTED + by)))
        self.after(is_progress=False)
        assert self.shell.store == before, "nothing is seen before the end"

    @precondition(lambda self: isinstance(self.shell.request, List))
    @rule(has_more=st.booleans(), back=st.sampled_from([0, 0, 0, 5]))
    def end_page(self, *, has_more: bool, back: int) -> None:
        """A page ends; now and then the server is behind where it was."""
        self.server = max(1, self.server - back)
        self.shell.listed(str(self.server), "more" if has_more else "")
        self.after(is_progress=True)

    # Watches

    @precondition(
        lambda self: isinstance(self.shell.request, Watch) and not self.shell.reflector._is_open
    )
    @rule()
    def open_watch(self) -> None:
        """A watch is answered."""
        self.shell.opened()
        self.after(is_progress=False)

    @precondition(lambda self: self.shell.reflector._is_open)
    @rule(
        kinds=st.lists(
            st.sampled_from(["add", "modify", "delete", "old", "mark", "past", "end"]), max_size=4
        ),
        name=_NAMES,
        last=st.sampled_from(["", "", "", "broken", "0", "401", "403", "410", "429", "500", "504"]),
    )
    def send_events(self, kinds: list[str], name: str, last: str) -> None:
        """Events come, and maybe an error behind them."""
        is_initial = self.shell.watch.send_initial_events and not self.shell.reflector._has_events
        is_first, version = is_initial, self.shell.version
        before = dict(self.shell.store)
        events: list[WatchEvent] = []
        for kind in kinds:
            events.append(self.event(kind, name, is_initial=is_initial))
            is_initial = is_initial and kind != "end"
        if last:
            events.append(Broken(MalformedError("bad")) if last == "broken" else error(int(last)))
        self.shell.events(*events)
        self.after(is_progress=bool(kinds))
        if not is_first and not last and {"old", *kinds} <= {"add", "modify", "delete", "old"}:
            moved = [kind for kind in kinds if kind != "old"]
            # A server that was set back meanwhile tells of it in a bookmark or a list only.
            reached = max(self.server, int(version)) if moved else int(version)
            assert int(self.shell.version) == reached
        if not self.shell.has(Apply) and not self.shell.has(CommitSync):
            assert self.shell.store == before

    def event(self, kind: str, name: str, *, is_initial: bool) -> WatchEvent:
        """Return an event; initial ones have the versions of listed objects."""
        if kind == "mark":
            return bookmark(self.version())
        if kind == "past":
            return bookmark("1")
        if kind == "end":
            return initial_end(self.version())
        if kind == "old":
            return deleted(name, str(_LISTED) if is_initial else "2")
        version = str(_LISTED) if is_initial else self.version()
        return {"add": added, "modify": modified, "delete": deleted}[kind](name, version)

    @precondition(lambda self: self.shell.reflector._is_open)
    @rule()
    def end_watch(self) -> None:
        """A watch ends cleanly."""
        before = dict(self.shell.store)
        self.shell.eof()
        self.after(is_progress=False)
        assert self.shell.store == before

    # Time and people

    @rule(seconds=st.sampled_from([0.5, 5.0, 31.0, 70.0, 400.0]))
    def pass_time(self, seconds: float) -> None:
        """Time passes, and the timer fires."""
        until = self.shell.now + seconds
        while self.shell.timer_at is not None and self.shell.timer_at <= until:
            self.shell.timer()
            self.after(is_progress=False)
        self.shell.now = until

    @precondition(lambda self: self.shell.request is None)
    @rule()
    def wait(self) -> None:
        """Time passes until something is asked."""
        while self.shell.request is None:
            self.shell.timer()
            self.after(is_progress=False)

    @rule()
    def reopen(self) -> None:
        """Someone asks for the watch to be opened again."""
        self.shell.reopen()
        self.after(is_progress=True)

    @rule()
    def hasten(self) -> None:
        """Someone wants a bookmark soon."""
        self.shell.hasten()
        self.after(is_progress=True)

    @rule()
    def suspect(self) -> None:
        """Someone has seen the server at a version from the past."""
        self.shell.suspect()
        self.after(is_progress=True)

    @rule()
    def distrust(self) -> None:
        """Someone has proven that what is held is wrong."""
        self.shell.distrust()
        self.after(is_progress=True)

    # Promises

    @invariant()
    def it_is_never_at_rest_without_a_reason(self) -> None:
        """A request is under way, or the next one has its time."""
        retry_at = self.shell.reflector._timers.at(Deadline.RETRY)
        assert (self.shell.request is None) == (retry_at is not None)

    @invariant()
    def a_watch_resumes_where_it_may(self) -> None:
        """From the position of the store, and never with initial events."""
        request = self.shell.request
        if isinstance(request, Watch) and not request.send_initial_events:
            is_try = request.timeout_seconds == 1
            assert is_try or (request.resource_version and not request.match)
        if isinstance(request, Watch) and request.resource_version:
            assert int(request.resource_version) < _LISTED

    @invariant()
    def live_means_synced(self) -> None:
        """No state claims more than there is."""
        if self.shell.published is not None and self.shell.state in (
            SourceState.LIVE,
            SourceState.STALE,
        ):
            assert self.shell.reflector.resource_version

    @invariant()
    def what_may_end_by_itself_is_asked_for_soon(self) -> None:
        """FORBIDDEN and GONE are probed at most 15 s apart, jitter included."""
        if self.shell.request is None and self.shell.state in (
            SourceState.FORBIDDEN,
            SourceState.GONE,
        ):
            retry_at = self.shell.reflector._timers.at(Deadline.RETRY)
            assert retry_at is not None
            assert retry_at - self.shell.now <= 15.0 + 1e-6

    @invariant()
    def nobody_waits_for_ever_for_a_first_state(self) -> None:
        """What has failed, and is still said to be a first sync, has a time at which it is not."""
        reflector = self.shell.reflector
        if reflector._failing_since is not None and self.shell.state is SourceState.SYNCING:
            assert reflector._timers.at(Deadline.PATIENCE) is not None
            assert not reflector._has_failed_long

    @invariant()
    def it_never_runs_hot(self) -> None:
        """Without time and without progress, only so many requests follow each other."""
        if self.shell.request is not None and any(
            effect is self.shell.request for effect in self.shell.effects
        ):
            self.shell.effects = []
            if self.shell.now > self.asked_at:
                self.asked_in_a_row = 0
            self.asked_at = self.shell.now
            self.asked_in_a_row += 1
        assert self.asked_in_a_row <= 10


ReflectorMachine.TestCase.settings = settings(
    max_examples=100, stateful_step_count=60, deadline=None
)
test_no_sequence_of_inputs_breaks_the_promises = ReflectorMachine.TestCase
