"""The store against a naive model: whatever is read, in whatever order, both hold the same.

The model keeps plain dicts and applies the rules of `source` one by one. The inputs are worse than
any API server: versions go back, uids change without a word, objects are deleted that nobody knows.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.items import item, source_spec
from tests.realistic import pod
from tests.unit.informer.reader import Reader
from watchcache_server.informer.compression import Codec, train
from watchcache_server.informer.cursors import Limits
from watchcache_server.informer.entries import Entry, flat_labels
from watchcache_server.informer.filters import EVERYTHING, Filter
from watchcache_server.informer.objects import Delta, Item, Remove, Upsert
from watchcache_server.informer.source import Source, Unverified
from watchcache_server.informer.store import Store
from watchcache_server.informer.texts import Texts
from watchcache_server.model.states import EventKind, LeftReason

NAMESPACES = ("", "a")
NAMES = ("x", "y")
KEPT_NAMES = (("a", "x"), ("", "y"))
OWNERS = ("owner-1", "owner-2", "owner-3")
PODS = [pod(i) for i in range(256)]
DICTIONARIES = [
    dictionary for samples in (PODS[:128], PODS[128:]) if (dictionary := train(samples)) is not None
]
SPECS = (
    source_spec("pods"),
    source_spec("configmaps", label_selector="keep=yes"),
    source_spec("services", names=KEPT_NAMES),
)


def object_at(name: str, namespace: str, uid: str, version: str) -> Item:
    """Make an object; what is in it depends on its uid and version, as at an API server."""
    chance = random.Random(repr((name, namespace, uid, version)))
    return item(
        name,
        namespace=namespace,
        uid=uid,
        version=version,
        labels={key: chance.choice("12") for key in chance.sample(("app", "tier"), 1)},
        owners=chance.choices(OWNERS, k=chance.randrange(4)),
        body=chance.choice((b"", chance.randbytes(20), PODS[chance.randrange(4)])),
    )


items = st.builds(
    object_at,
    st.sampled_from(NAMES),
    st.sampled_from(NAMESPACES),
    st.sampled_from(("uid-1", "uid-2")),
    st.sampled_from(("1", "2", "10", "opaque")),
)
indexes = st.integers(0, len(SPECS) - 1)


@dataclass
class SourceModel:
    """What one source should hold."""

    source: Source
    live: dict[tuple[str, str], Item] = field(default_factory=dict)
    staged: dict[tuple[str, str], Item] | None = None
    doubts: dict[tuple[str, str], bool] = field(default_factory=dict)
    # Uids that were found gone before the stream has said so.
    dead: set[str] = field(default_factory=set)
    is_synced: bool = False
    # What the history should say, the oldest first.
    told: list[tuple[EventKind, str, str, str]] = field(default_factory=list)

    @property
    def is_selecting(self) -> bool:
        return bool(self.source.spec.label_selector)

    def keeps(self, thing: Item) -> bool:
        names = self.source.spec.names
        return not names or (thing.namespace, thing.name) in names

    def tell(self, kind: EventKind, thing: Item) -> None:
        self.told.append((kind, thing.namespace, thing.name, thing.uid))

    def upsert(self, thing: Item, *, is_addition: bool) -> None:
        key = (thing.namespace, thing.name)
        if not self.keeps(thing) or thing.uid in self.dead:
            return
        live = self.live.get(key)
        is_replay = live is not None and is_addition and is_older(thing, live)
        if live is not None and live.uid == thing.uid:
            self.doubts.pop(key, None)
            if is_replay or live.resource_version == thing.resource_version:
                return
            self.tell(EventKind.MODIFIED, thing)
        else:
            if is_replay:
                return
            if live is not None:
                self.doubts.pop(key, None)
                self.tell(EventKind.DELETED, live)
            self.tell(EventKind.ADDED, thing)
        self.live[key] = thing

    def remove(self, thing: Item) -> None:
        key = (thing.namespace, thing.name)
        live = self.live.get(key)
        if self.keeps(thing):
            self.dead.discard(thing.uid)
        if not self.keeps(thing) or live is None:
            return
        if live.uid == thing.uid and self.is_selecting:
            self.doubts[key] = False
        elif live.uid == thing.uid or is_older(live, thing):
            del self.live[key]
            self.doubts.pop(key, None)
            self.tell(EventKind.DELETED, live)

    def commit(self) -> None:
        staged = self.staged or {}
        self.staged = None
        if self.is_synced:
            for key in sorted(self.live.keys() - staged.keys()):
                if self.is_selecting:
                    self.doubts.setdefault(key, True)
                else:
                    self.tell(EventKind.DELETED, self.live[key])
            for key, thing in staged.items():
                live = self.live.get(key)
                if live is not None and is_same(live, thing):
                    continue
                if live is not None and live.uid == thing.uid:
                    self.tell(EventKind.MODIFIED, thing)
                    continue
                if live is not None:
                    self.tell(EventKind.DELETED, live)
                self.tell(EventKind.ADDED, thing)
        for key in list(self.doubts):
            if key in staged:
                del self.doubts[key]
            else:
                staged[key] = self.live[key]
        self.live = staged
        self.is_synced = True


def is_same(first: Item, second: Item) -> bool:
    """Tell whether both are one object at one version."""
    return (first.uid, first.resource_version) == (second.uid, second.resource_version)


def is_older(first: Item, second: Item) -> bool:
    """Compare two versions of one resource."""
    versions = (first.resource_version, second.resource_version)
    return all(map(str.isdigit, versions)) and int(versions[0]) < int(versions[1])


class StoreMachine(RuleBasedStateMachine):
    """Random inputs for three sources: a plain one, one with a selector, one with names."""

    @initialize(max_changes=st.sampled_from((2, 12, 10_000)))
    def begin(self, max_changes: int) -> None:
        self.store = Store(b"epoch-01", max_changes=max_changes, max_history_bytes=1 << 20)
        self.models = [SourceModel(self.store.add_source(spec)) for spec in SPECS]
        self.recodings: list[tuple[Source, Iterator[Entry]]] = []
        for model in self.models[:2]:
            self.sync(model, [object_at(name, "a", "uid-1", "1") for name in NAMES])
        self.reader = Reader(self.store, EVERYTHING, Limits(events=2, scanned=3))

    # Each rule gives the same input to the store and to the model.

    def told(self, model: SourceModel, revision: int) -> None:
        """Compare what the history was told since `revision` with what the model tells."""
        expected, model.told = model.told, []
        assert self.store.revision == revision + len(expected)
        if self.store.history.covers(revision):
            seen = []
            for number, change in enumerate(self.store.history.since(revision), revision + 1):
                assert change.revision == number
                assert change.source is model.source
                entry = change.entry
                assert entry is not None
                seen.append((change.kind, entry.namespace, entry.name, entry.uid))
            assert sorted(map(str, seen)) == sorted(map(str, expected))
            for key in {told[1:3] for told in expected}:
                assert [s for s in seen if s[1:3] == key] == [
                    told for told in expected if told[1:3] == key
                ]

    def sync(self, model: SourceModel, things: list[Item]) -> None:
        """Sync a source for the first time."""
        model.source.stage(things)
        self.store.commit(model.source, 0.0)
        model.live = {(thing.namespace, thing.name): thing for thing in things}
        model.is_synced = True

    @rule(index=st.integers(0, 1), thing=items, kind=st.sampled_from("+~-"))
    def apply_one(self, index: int, thing: Item, kind: str) -> None:
        self.apply(index, [(thing, kind)])

    @precondition(lambda self: any(model.live for model in getattr(self, "models", ())))
    @rule(data=st.data(), version=st.sampled_from(("1", "2", "10")), kind=st.sampled_from("+~-"))
    def apply_to_live(self, data: st.DataObject, version: str, kind: str) -> None:
        index = data.draw(st.sampled_from([i for i, m in enumerate(self.models) if m.live]))
        model = self.models[index]
        key = data.draw(st.sampled_from(sorted(model.live)))
        thing = object_at(key[1], key[0], model.live[key].uid, version)
        self.apply(index, [(thing, kind)])

    @precondition(lambda self: any(model.doubts for model in getattr(self, "models", ())))
    @rule(data=st.data(), is_same=st.booleans(), is_deleted=st.booleans())
    def resolve_one(self, data: st.DataObject, is_same: bool, is_deleted: bool) -> None:
        index = data.draw(st.sampled_from([i for i, m in enumerate(self.models) if m.doubts]))
        model = self.models[index]
        key = data.draw(st.sampled_from(sorted(model.doubts)))
        uid = model.live[key].uid if is_same else "uid-3"
        self.resolve(index, key, uid, is_deleted)

    @rule(index=indexes, things=st.lists(st.tuples(items, st.sampled_from("+~-")), max_size=4))
    def apply(self, index: int, things: list[tuple[Item, str]]) -> None:
        model = self.models[index]
        if not model.is_synced:
            return
        revision = self.store.revision
        deltas: list[Delta] = []
        for thing, kind in things:
            if kind == "-":
                deltas.append(Remove(thing))
                model.remove(thing)
            else:
                deltas.append(Upsert(thing, is_addition=kind == "+"))
                model.upsert(thing, is_addition=kind == "+")
        self.store.apply(model.source, deltas, 1.0)
        self.told(model, revision)

    @rule(index=indexes, things=st.lists(items, max_size=6), repeats_live=st.booleans())
    def stage(self, index: int, things: list[Item], repeats_live: bool) -> None:
        model = self.models[index]
        if repeats_live:
            things = [*model.live.values(), *things]
        model.source.stage(things)
        model.staged = model.staged or {}
        for thing in things:
            if model.keeps(thing) and thing.uid not in model.dead:
                key = (thing.namespace, thing.name)
                live = model.live.get(key)
                model.staged.pop(key, None)
                # What is live at this version is not read again, whatever its body says.
                model.staged[key] = live if live is not None and is_same(live, thing) else thing

    @rule(index=indexes, thing=items)
    def unstage(self, index: int, thing: Item) -> None:
        model = self.models[index]
        model.source.unstage(thing)
        if model.staged is not None:
            model.staged.pop((thing.namespace, thing.name), None)

    @rule(index=indexes)
    def discard(self, index: int) -> None:
        self.models[index].source.discard()
        self.models[index].staged = None

    @rule(index=indexes)
    def commit(self, index: int) -> None:
        model = self.models[index]
        revision = self.store.revision
        was_synced = model.is_synced
        self.store.commit(model.source, 2.0)
        model.commit()
        if was_synced:
            self.told(model, revision)
        else:
            # A first sync is one change, or none when it brought nothing.
            assert self.store.revision == revision + bool(model.live)

    @rule(
        index=indexes,
        key=st.tuples(st.sampled_from(NAMESPACES), st.sampled_from(NAMES)),
        uid=st.sampled_from(("uid-1", "uid-2")),
        is_deleted=st.booleans(),
    )
    def resolve(self, index: int, key: tuple[str, str], uid: str, is_deleted: bool) -> None:
        model = self.models[index]
        revision = self.store.revision
        subject = Unverified(*key, uid)
        self.store.resolve(model.source, subject, 3.0, is_deleted=is_deleted)
        live = model.live.get(key)
        if key in model.doubts and live is not None and live.uid == uid:
            del model.doubts[key], model.live[key]
            model.tell(EventKind.DELETED if is_deleted else EventKind.LEFT, live)
            if is_deleted:
                model.dead.add(uid)
                if model.staged and key in model.staged and model.staged[key].uid == uid:
                    del model.staged[key]
        self.told(model, revision)

    @rule(index=indexes, reason=st.sampled_from(LeftReason))
    def purge(self, index: int, reason: LeftReason) -> None:
        model = self.models[index]
        revision = self.store.revision
        self.store.purge(model.source, reason, 4.0)
        for thing in model.live.values():
            model.tell(EventKind.LEFT, thing)
        self.told(model, revision)
        self.models[index] = SourceModel(model.source)

    @rule(index=indexes)
    def replace_source(self, index: int) -> None:
        model = self.models[index]
        revision = self.store.revision
        self.store.remove_source(model.source, LeftReason.SCOPE, 5.0)
        for thing in model.live.values():
            model.tell(EventKind.LEFT, thing)
        self.told(model, revision)
        assert self.store.source(model.source.number) is None
        self.models[index] = SourceModel(self.store.add_source(SPECS[index]))

    @rule(index=indexes, which=st.integers(0, len(DICTIONARIES) - 1))
    def change_codec(self, index: int, which: int) -> None:
        source = self.models[index].source
        source._training.codec = Codec(DICTIONARIES[which])
        self.recodings.append((source, source.recodable()))

    @precondition(lambda self: bool(getattr(self, "recodings", None)))
    @rule(limit=st.integers(1, 4), which=st.integers(0, 3))
    def recode(self, limit: int, which: int) -> None:
        source, entries = self.recodings[which % len(self.recodings)]
        if not source.recode(entries, limit):
            self.recodings.remove((source, entries))

    @rule(cut=st.integers(0, 20))
    def list_from_anywhere(self, cut: int) -> None:
        found = list(self.store.objects(EVERYTHING))
        positions = [self.store.position(each) for each in found]
        assert positions == sorted(positions)
        assert len(found) == sum(len(model.live) for model in self.models)
        assert len(found) == self.store.object_count
        if found:
            cut %= len(found)
            rest = self.store.objects(EVERYTHING, positions[cut])
            assert [each.entry for each in rest] == [each.entry for each in found[cut + 1 :]]
        for uid in OWNERS:
            wanted = Filter(namespaces=("a",))
            owned = [e for _, e in found if uid in e.owners and e.namespace]
            assert [each.entry for each in self.store.owned(wanted, uid)] == owned

    @rule()
    def read(self) -> None:
        self.reader.step()

    # What always holds

    @invariant()
    def content_is_that_of_the_model(self) -> None:
        for model in getattr(self, "models", ()):
            source = model.source
            held = {(e.namespace, e.name): e for e in source.table}
            assert held.keys() == model.live.keys()
            assert source.table.count == len(held)
            assert source.is_synced == model.is_synced
            for key, thing in model.live.items():
                assert_is(held[key], thing)
            assert [(e.namespace, e.name) for e in source.table.after("", "")] == sorted(held)
            assert {(u.namespace, u.name) for u in source.unverified} == model.doubts.keys()
            assert all(held[u.namespace, u.name].uid == u.uid for u in source.unverified)

    @invariant()
    def derived_numbers_are_exact(self) -> None:
        for model in getattr(self, "models", ()):
            for holding in model.source._holdings:
                entries = list(holding.table)
                assert holding.raw_bytes == sum(len(e.body()) for e in entries)
                assert holding.stored_bytes == sum(len(e.stored) for e in entries)
                for uid in OWNERS:
                    expected = sorted((e.namespace, e.name) for e in entries if uid in e.owners)
                    owned = holding.owners.owned_by(uid)
                    assert [(e.namespace, e.name) for e in owned] == expected
                    assert all(holding.has(e) for e in owned)
                assert len(holding.owners) == len({uid for e in entries for uid in e.owners})

    @invariant()
    def history_has_no_gap(self) -> None:
        if hasattr(self, "store"):
            history = self.store.history
            first = history.first_revision
            revisions = [change.revision for change in history.since(first - 1)]
            assert revisions == list(range(first, self.store.revision + 1))
            assert history.bytes == sum(c.cost_bytes for c in history.since(first - 1))

    def teardown(self) -> None:
        if hasattr(self, "reader"):
            self.reader.catch_up()


def assert_is(entry: Entry, thing: Item) -> None:
    """Compare an entry with what it was made from, bit by bit."""
    assert entry.body() == thing.body
    assert entry.raw_size == len(thing.body)
    assert (entry.uid, entry.resource_version, entry.labels, entry.owners) == (
        thing.uid,
        thing.resource_version,
        flat_labels(thing.labels, Texts()),
        tuple(dict.fromkeys(thing.owners)),
    )


@pytest.mark.timeout(300)
def test_store_holds_what_the_model_holds() -> None:
    """After any inputs the store and the model agree: content, sums, indexes, order, history."""
    assert len(DICTIONARIES) == 2
    run_state_machine_as_test(StoreMachine, settings=settings(stateful_step_count=40))
