"""The history checker and the core agree: no stream of the core breaks a rule."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.histories import RESUMED, SNAPSHOT
from tests.history_checker import HistoryChecker
from tests.history_records import Batch, Bookmark, Change, Disconnected, Key, Kind, Reset, Synced
from tests.items import item, source_spec
from watchcache_server.informer.cursors import Cursor, Event, Limits, Outcome
from watchcache_server.informer.filters import EVERYTHING
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.store import Store
from watchcache_server.informer.subscription import advance, begin_snapshot, resume
from watchcache_server.model.states import LeftReason


def record_of(events: tuple[Event, ...], *, has_token: bool) -> Batch:
    """Read a step of a subscription."""
    return Batch(
        tuple(
            Change(
                kind=Kind(event.kind.name),
                key=Key(
                    event.source.spec.cluster,
                    event.source.group,
                    event.source.resource,
                    event.entry.namespace,
                    event.entry.name,
                ),
                uid=event.entry.uid,
                resource_version=event.entry.resource_version,
                revision=event.revision,
                left_reason="" if event.left_reason is None else event.left_reason.name,
            )
            for event in events
        ),
        has_token,
    )


class Stream:
    """A stream of a store whose every message is fed to a checker; it may be lost and resumed."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.checker = HistoryChecker()
        self.checker.feed(SNAPSHOT)
        self.place = begin_snapshot(store, EVERYTHING)
        self.token: Cursor | None = None

    def read(self) -> bool:
        """Receive the next message; return whether there was none."""
        step = advance(self.store, EVERYTHING, self.place, Limits(events=1))
        self.place = step.cursor
        if step.outcome is Outcome.EXPIRED:
            self.checker.feed(Reset())
            self.begin_again()
        elif step.events:
            has_token = self.checker.is_complete and self.place.walk is None
            record = record_of(step.events, has_token=has_token)
            self.checker.feed(replace(record, is_coalesced=step.is_coalesced))
            self.token = self.place if has_token else self.token
        elif step.outcome is Outcome.AT_HEAD:
            self.checker.feed(Bookmark() if self.checker.is_synced else Synced())
            self.token = self.place
            return True
        return False

    def lose(self) -> None:
        """Lose the connection and open another."""
        self.checker.feed(Disconnected())
        if self.token is None:
            self.checker.feed(SNAPSHOT)
            self.begin_again()
        else:
            self.checker.feed(RESUMED)
            self.place = resume(self.store, self.token.revision, self.token.behind_since)

    def begin_again(self) -> None:
        """Go to the beginning of a new snapshot."""
        self.place, self.token = begin_snapshot(self.store, EVERYTHING), None


class Resource:
    """One resource of an API server, and the source that follows it once it is synced."""

    def __init__(self, store: Store, resource: str) -> None:
        self.store = store
        self.source = store.add_source(source_spec(resource))
        self.objects: dict[str, Item] = {}
        self.version = 0

    def sync(self) -> None:
        """Have the source list all that there is."""
        self.source.stage(self.objects.values())
        self.store.commit(self.source, 0.0)

    def purge(self) -> None:
        """Have the source lose all that it holds, until it syncs again."""
        self.store.purge(self.source, LeftReason.KIND_GONE, 0.0)

    def put(self, name: str) -> None:
        """Create or change an object."""
        self.version += 1
        before = self.objects.get(name)
        uid = f"{self.source.number}-{self.version}" if before is None else before.uid
        self.objects[name] = item(name, uid=uid, version=str(self.version))
        self._tell(Upsert(self.objects[name], is_addition=before is None))

    def delete(self, name: str) -> None:
        """Delete an object if there is one."""
        before = self.objects.pop(name, None)
        if before is not None:
            self.version += 1
            self._tell(Remove(item(name, uid=before.uid, version=str(self.version))))

    def recreate(self, name: str) -> None:
        """Delete an object, if there is one, and create another of its name."""
        self.delete(name)
        self.put(name)

    def content(self) -> dict[Key, tuple[str, str]]:
        """Return what a subscriber should hold in the end."""
        resource = self.source.spec.resource
        return {
            Key("hub", "", resource, "team-a", name): (each.uid, each.resource_version)
            for name, each in self.objects.items()
        }

    def _tell(self, delta: Delta) -> None:
        if self.source.is_synced:
            self.store.apply(self.source, [delta], 0.0)


@settings(max_examples=2 * settings().max_examples)
@given(
    max_changes=st.sampled_from((2, 8, 1000)),
    steps=st.lists(
        st.tuples(
            st.sampled_from(
                ("put", "put", "delete", "recreate", "read", "read", "lose", "sync", "purge")
            ),
            st.sampled_from(("x", "y", "z")),
            st.sampled_from((0, 1, 1)),
        ),
        max_size=40,
    ),
)
@example(
    max_changes=1000,
    steps=[
        ("read", "", 0),
        ("put", "x", 1),
        ("put", "y", 1),
        ("sync", "", 1),
        ("read", "", 0),
        ("lose", "", 0),
        ("delete", "x", 1),
    ],
)
def test_streams_of_the_core_are_clean(max_changes: int, steps: list[tuple[str, str, int]]) -> None:
    """Whatever happens to a stream of a real store breaks no rule.

    There are snapshots, changes, sources that sync late and lose everything, lost connections and
    lost history.
    """
    store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
    resources = (Resource(store, "pods"), Resource(store, "secrets"))
    resources[0].sync()
    stream = Stream(store)
    for step, name, which in steps:
        resource = resources[which]
        if step in ("read", "lose"):
            getattr(stream, step)()
        elif step in ("sync", "purge"):
            getattr(resource, step)()
        else:
            getattr(resource, step)(name)
    for resource in resources:
        resource.sync()
    while not stream.read():
        pass
    stream.checker.finish(resources[0].content() | resources[1].content())
    stream.checker.assert_clean()
